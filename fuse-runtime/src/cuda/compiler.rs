//! Every call of NVRTC.

use super::handle::{CallError, CompileError, Output};
use super::unavailable::CudaUnavailable;
use cudarc::nvrtc::sys;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::OnceLock;

/// NVRTC, found.
#[derive(Debug)]
pub(crate) struct Compiler {
    /// Major and minor.
    version: (i32, i32),
    /// The architectures that it knows, ascending: 90 for `sm_90`.
    architectures: Vec<u32>,
}

const FUNCTIONS: [&str; 12] = [
    "nvrtcVersion",
    "nvrtcGetNumSupportedArchs",
    "nvrtcGetSupportedArchs",
    "nvrtcCreateProgram",
    "nvrtcCompileProgram",
    "nvrtcDestroyProgram",
    "nvrtcGetProgramLogSize",
    "nvrtcGetProgramLog",
    "nvrtcGetCUBINSize",
    "nvrtcGetCUBIN",
    "nvrtcGetPTXSize",
    "nvrtcGetPTX",
];

impl Compiler {
    /// The compiler.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn get() -> Result<&'static Compiler, CudaUnavailable> {
        static FOUND: OnceLock<Result<(), CudaUnavailable>> = OnceLock::new();
        static COMPILER: OnceLock<Compiler> = OnceLock::new();
        if let Some(compiler) = COMPILER.get() {
            return Ok(compiler);
        }
        FOUND.get_or_init(find).clone()?;
        let compiler = ask().map_err(CudaUnavailable::start)?;
        Ok(COMPILER.get_or_init(|| compiler))
    }

    pub(crate) fn version(&self) -> (i32, i32) {
        self.version
    }

    pub(crate) fn architectures(&self) -> &[u32] {
        &self.architectures
    }

    /// Compiles a text. PTX ends with a zero.
    pub(crate) fn compile(
        &self,
        text: &str,
        options: &[String],
        output: Output,
    ) -> Result<Vec<u8>, CompileError> {
        let zero_free = |text: &str| {
            let call = "nvrtcCreateProgram";
            CString::new(text).map_err(|_| CallError { call, code: 1, name: "a text with a zero".to_owned() })
        };
        let (text, name) = (zero_free(text)?, c"kernel.cu");
        let options = options.iter().map(|o| zero_free(o)).collect::<Result<Vec<CString>, CallError>>()?;
        let options: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let mut program = std::ptr::null_mut();
        let none = std::ptr::null();
        // SAFETY: the texts end with a zero and live through the call, which copies them; there are no headers.
        let code =
            unsafe { sys::nvrtcCreateProgram(&mut program, text.as_ptr(), name.as_ptr(), 0, none, none) };
        check("nvrtcCreateProgram", code)?;
        let result = compile_program(program, &options, output);
        // SAFETY: the program was made above, and this is its last use.
        unsafe { sys::nvrtcDestroyProgram(&mut program) };
        result
    }
}

fn compile_program(
    program: sys::nvrtcProgram,
    options: &[*const c_char],
    output: Output,
) -> Result<Vec<u8>, CompileError> {
    // SAFETY: the caller's program is alive, and the options live through the call.
    let code = unsafe { sys::nvrtcCompileProgram(program, options.len() as i32, options.as_ptr()) };
    if code == sys::nvrtcResult::NVRTC_ERROR_COMPILATION {
        // SAFETY: the two functions are those of the log, and the program is alive.
        let log = unsafe {
            bytes(
                ["nvrtcGetProgramLogSize", "nvrtcGetProgramLog"],
                |n| sys::nvrtcGetProgramLogSize(program, n),
                |p| sys::nvrtcGetProgramLog(program, p),
            )
        }?;
        let text = CStr::from_bytes_until_nul(&log).unwrap_or_default();
        return Err(CompileError::Log(text.to_string_lossy().into_owned()));
    }
    check("nvrtcCompileProgram", code)?;
    // SAFETY: the two functions of each arm belong together, and the program is alive and compiled.
    let compiled = unsafe {
        match output {
            Output::Cubin => bytes(
                ["nvrtcGetCUBINSize", "nvrtcGetCUBIN"],
                |n| sys::nvrtcGetCUBINSize(program, n),
                |p| sys::nvrtcGetCUBIN(program, p),
            ),
            Output::Ptx => bytes(
                ["nvrtcGetPTXSize", "nvrtcGetPTX"],
                |n| sys::nvrtcGetPTXSize(program, n),
                |p| sys::nvrtcGetPTX(program, p),
            ),
        }
    }?;
    Ok(compiled)
}

/// What NVRTC gives by two functions: its size, and itself.
///
/// # Safety
/// `get` writes as many bytes as `size` says.
unsafe fn bytes(
    [size_name, name]: [&'static str; 2],
    size: impl FnOnce(*mut usize) -> sys::nvrtcResult,
    get: impl FnOnce(*mut c_char) -> sys::nvrtcResult,
) -> Result<Vec<u8>, CallError> {
    let mut length = 0;
    check(size_name, size(&mut length))?;
    let mut bytes = vec![0u8; length];
    check(name, get(bytes.as_mut_ptr().cast()))?;
    Ok(bytes)
}

/// Finds the library and its functions.
fn find() -> Result<(), CudaUnavailable> {
    // SAFETY: the initialisers of NVIDIA's library only set up its own state.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaUnavailable::NoCompiler);
    }
    // SAFETY: the library is there; the symbols are not called here.
    let has = |name: &&&str| unsafe { sys::culib().get::<*const c_void>(name.as_bytes()) }.is_ok();
    match FUNCTIONS.iter().find(|name| !has(name)) {
        None => Ok(()),
        Some(missing) => Err(CudaUnavailable::OldCompiler { missing: (*missing).to_owned() }),
    }
}

/// Asks the library, which has every function, what it is.
fn ask() -> Result<Compiler, CallError> {
    let (mut major, mut minor, mut count) = (0, 0, 0);
    // SAFETY: the functions are there, and the pointers are to numbers that live through the calls.
    let codes =
        unsafe { (sys::nvrtcVersion(&mut major, &mut minor), sys::nvrtcGetNumSupportedArchs(&mut count)) };
    check("nvrtcVersion", codes.0)?;
    check("nvrtcGetNumSupportedArchs", codes.1)?;
    let mut known = vec![0i32; count.max(0) as usize];
    // SAFETY: the list has as many places as NVRTC says.
    let code = unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) };
    check("nvrtcGetSupportedArchs", code)?;
    let mut architectures: Vec<u32> = known.into_iter().filter_map(|a| u32::try_from(a).ok()).collect();
    architectures.sort_unstable();
    Ok(Compiler { version: (major, minor), architectures })
}

fn check(call: &'static str, code: sys::nvrtcResult) -> Result<(), CallError> {
    match code {
        sys::nvrtcResult::NVRTC_SUCCESS => Ok(()),
        code => Err(CallError { call, code: code as u32, name: format!("{code:?}") }),
    }
}
