//! NVRTC, found at run time: nothing here needs CUDA to build.

use libloading::{Library, Symbol};
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;

type Program = *mut std::ffi::c_void;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type GetSize = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type GetBytes = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

/// The compiler's library.
pub(crate) struct Nvrtc {
    library: Library,
    /// What the compiler opens by name; it is there first, so that no search path is needed.
    _builtins: Library,
}

/// What is asked of the compiler.
#[derive(Clone, Copy)]
pub(crate) enum Output {
    /// Machine code, for an architecture `sm_90`.
    Cubin,
    /// PTX text, for an architecture `compute_90`.
    Ptx,
}

impl Nvrtc {
    /// Opens the two libraries.
    pub(crate) fn load(builtins: &Path, compiler: &Path) -> Result<Self, String> {
        let open = |path: &Path| {
            // SAFETY: the initialisers of NVIDIA's libraries only set up their own state.
            unsafe { Library::new(path) }.map_err(|e| format!("`{}` does not load: {e}", path.display()))
        };
        let builtins = open(builtins)?;
        Ok(Nvrtc { library: open(compiler)?, _builtins: builtins })
    }

    fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>, String> {
        // SAFETY: each caller names a function of `nvrtc.h` with the type it has there.
        unsafe { self.library.get(name.as_bytes()) }.map_err(|e| format!("NVRTC has no `{name}`: {e}"))
    }

    /// Major and minor.
    pub(crate) fn version(&self) -> (i32, i32) {
        let (mut major, mut minor) = (0, 0);
        if let Ok(version) = self.symbol::<Version>("nvrtcVersion") {
            // SAFETY: both pointers are to integers that live through the call.
            unsafe { version(&mut major, &mut minor) };
        }
        (major, minor)
    }

    /// The compiled text and the compiler's log.
    ///
    /// # Errors
    /// The log of what does not compile.
    pub(crate) fn compile(
        &self,
        source: &str,
        options: &[String],
        output: Output,
    ) -> Result<(Vec<u8>, String), String> {
        let text = |s: &str| CString::new(s).map_err(|e| e.to_string());
        let (source, name) = (text(source)?, text("kernel.cu")?);
        let options = options.iter().map(|o| text(o)).collect::<Result<Vec<_>, _>>()?;
        let options: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let create = self.symbol::<Create>("nvrtcCreateProgram")?;
        let compile = self.symbol::<Compile>("nvrtcCompileProgram")?;
        let destroy = self.symbol::<Destroy>("nvrtcDestroyProgram")?;
        let mut program: Program = std::ptr::null_mut();
        let no_headers = std::ptr::null();
        // SAFETY: the strings live through the call, which copies them; there are no headers.
        let code = unsafe { create(&mut program, source.as_ptr(), name.as_ptr(), 0, no_headers, no_headers) };
        if code != 0 {
            return Err(format!("nvrtcCreateProgram gives {code}"));
        }
        // SAFETY: the program was made above, the options live through the call.
        let code = unsafe { compile(program, options.len() as c_int, options.as_ptr()) };
        let log = self.bytes(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog");
        let log = log.map(|bytes| {
            let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
            text.to_string_lossy().into_owned()
        });
        let (size, get) = match output {
            Output::Cubin => ("nvrtcGetCUBINSize", "nvrtcGetCUBIN"),
            Output::Ptx => ("nvrtcGetPTXSize", "nvrtcGetPTX"),
        };
        let compiled = if code == 0 { self.bytes(program, size, get) } else { Ok(Vec::new()) };
        // SAFETY: the program was made above and is not used further.
        unsafe { destroy(&mut program) };
        let log = log?;
        if code == 0 { Ok((compiled?, log)) } else { Err(log) }
    }

    /// What NVRTC gives by two functions, of its size and of itself.
    fn bytes(&self, program: Program, size: &str, get: &str) -> Result<Vec<u8>, String> {
        let (get_size, get) = (self.symbol::<GetSize>(size)?, self.symbol::<GetBytes>(get)?);
        let mut length = 0;
        // SAFETY: the program is alive and the pointer is to a number.
        let code = unsafe { get_size(program, &mut length) };
        let mut bytes = vec![0u8; length];
        // SAFETY: the program is alive and the buffer has the size that NVRTC asks for.
        let code = if code == 0 { unsafe { get(program, bytes.as_mut_ptr().cast()) } } else { code };
        if code == 0 { Ok(bytes) } else { Err(format!("NVRTC gives no result ({code})")) }
    }
}
