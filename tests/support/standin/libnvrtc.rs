//! A stand-in for NVRTC: it takes the printed CUDA C++, finds the entry and its parameters by their declaration, and gives for
//! machine code a text that says these, which the stand-in for the driver loads. It compiles nothing.
//!
//! Settings: `version` (13000 for 13.0), `reject` (1: no text compiles), `spills` (bytes of local memory of what is compiled
//! without a bound of blocks), `always_spills` (of everything else).

mod control;

use control::{arrive, event, misuse, report, setting, write_report};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{Mutex, PoisonError};

const INVALID_INPUT: u32 = 3;
const INVALID_PROGRAM: u32 = 4;
const INVALID_OPTION: u32 = 5;
const COMPILATION: u32 = 6;

/// Those of NVRTC 13.0.
const ARCHITECTURES: [c_int; 12] = [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121];

/// A program of the caller's.
#[derive(Default)]
struct Program {
    text: String,
    log: Vec<u8>,
    /// The architecture's prefix and what was compiled, which ends with a zero.
    compiled: Option<(&'static str, Vec<u8>)>,
}

/// The programs by their handles, and the last handle that was given.
static PROGRAMS: Mutex<(usize, BTreeMap<usize, Program>)> = Mutex::new((0, BTreeMap::new()));

fn enter(
    call: &'static str,
    body: impl FnOnce(&mut usize, &mut BTreeMap<usize, Program>) -> Result<(), u32>,
) -> u32 {
    let planned = arrive(call);
    if planned != 0 {
        return planned;
    }
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let (last, programs) = &mut *programs;
    body(last, programs).err().unwrap_or(0)
}

fn with_program(
    call: &'static str,
    program: usize,
    body: impl FnOnce(&mut Program) -> Result<(), u32>,
) -> u32 {
    enter(call, |_, programs| match programs.get_mut(&program) {
        Some(program) => body(program),
        None => Err(misuse(format!("{call}: no such program"), INVALID_PROGRAM)),
    })
}

/// # Safety
/// The pointers are to numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> u32 {
    enter("nvrtcVersion", |_, _| {
        let version = setting("version", 13000) as c_int;
        // SAFETY: by the caller.
        unsafe {
            *major = version / 1000;
            *minor = version % 1000 / 10;
        }
        Ok(())
    })
}

/// # Safety
/// The pointer is to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetNumSupportedArchs(count: *mut c_int) -> u32 {
    enter("nvrtcGetNumSupportedArchs", |_, _| {
        // SAFETY: by the caller.
        unsafe { *count = ARCHITECTURES.len() as c_int };
        Ok(())
    })
}

/// # Safety
/// There is room for as many numbers as there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetSupportedArchs(list: *mut c_int) -> u32 {
    enter("nvrtcGetSupportedArchs", |_, _| {
        // SAFETY: by the caller.
        unsafe { list.copy_from_nonoverlapping(ARCHITECTURES.as_ptr(), ARCHITECTURES.len()) };
        Ok(())
    })
}

/// # Safety
/// As `nvrtc.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut usize,
    text: *const c_char,
    _name: *const c_char,
    headers: c_int,
    _contents: *const *const c_char,
    _names: *const *const c_char,
) -> u32 {
    enter("nvrtcCreateProgram", |last, programs| {
        if headers != 0 {
            return Err(misuse("a text with headers".to_owned(), INVALID_INPUT));
        }
        *last += 16;
        // SAFETY: by the caller.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        programs.insert(*last, Program { text, ..Program::default() });
        // SAFETY: by the caller.
        unsafe { *program = *last };
        Ok(())
    })
}

/// # Safety
/// As `nvrtc.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcDestroyProgram(program: *mut usize) -> u32 {
    enter("nvrtcDestroyProgram", |_, programs| {
        // SAFETY: by the caller.
        match programs.remove(unsafe { &*program }) {
            Some(_) => Ok(()),
            None => Err(misuse("nvrtcDestroyProgram: no such program".to_owned(), INVALID_PROGRAM)),
        }
    })
}

/// # Safety
/// As `nvrtc.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCompileProgram(
    program: usize,
    count: c_int,
    options: *const *const c_char,
) -> u32 {
    with_program("nvrtcCompileProgram", program, |program| {
        // SAFETY: by the caller.
        let option = |k| unsafe { CStr::from_ptr(*options.add(k)) }.to_string_lossy().into_owned();
        let options: Vec<String> = (0..count as usize).map(option).collect();
        program.log = b"\0".to_vec();
        let outcome = compile(&program.text, &options);
        match outcome {
            Ok((kind, code)) => {
                program.compiled = Some((kind, code));
                Ok(())
            }
            Err((code, log)) => {
                program.log = log.into_bytes();
                program.log.push(0);
                Err(code)
            }
        }
    })
}

/// What the driver loads for a text.
fn compile(text: &str, options: &[String]) -> Result<(&'static str, Vec<u8>), (u32, String)> {
    let architecture = options.iter().find_map(|o| o.strip_prefix("--gpu-architecture="));
    let kind = match architecture.and_then(|a| a.split('_').next()) {
        Some("sm") => "sm",
        Some("compute") => "compute",
        _ => return Err((misuse(format!("no architecture in {options:?}"), INVALID_OPTION), String::new())),
    };
    let architecture = architecture.unwrap_or_default();
    let known = |a: &str| a.parse().is_ok_and(|a| ARCHITECTURES.contains(&a));
    if !architecture.split('_').nth(1).is_some_and(known) {
        return Err((misuse(format!("unknown architecture {architecture}"), INVALID_OPTION), String::new()));
    }
    if setting("reject", 0) == 1 {
        return Err((COMPILATION, "kernel.cu(7): error: the stand-in takes no text\n".to_owned()));
    }
    let (bounds, name, params) = find_entry(text).map_err(|why| (misuse(why.clone(), COMPILATION), why))?;
    let local = setting(if bounds.contains(',') { "always_spills" } else { "spills" }, 0);
    event(format!("compile {name} {}", options.join(" ")));
    let params: String = params.iter().map(|(name, ty)| format!("param {name} {ty}\n")).collect();
    Ok((kind, format!("stand-in code {architecture}\nlocal {local}\nentry {name}\n{params}\0").into_bytes()))
}

/// An entry of a text: its bounds of threads and blocks, its name, and its parameters.
type Entry = (String, String, Vec<(String, String)>);

/// The entry of a text, and the name and type of each of its parameters; a type of which `*` is part is `pointer`.
fn find_entry(text: &str) -> Result<Entry, String> {
    let mark = "extern \"C\" __global__ void";
    let (_, rest) = text.split_once(mark).ok_or("a text without an entry")?;
    if rest.contains(mark) {
        return Err("a text with two entries".to_owned());
    }
    let (bounds, rest) = rest.split_once('\n').ok_or("an entry without a name")?;
    let (name, rest) = rest.split_once('(').ok_or("an entry without parameters")?;
    let (params, _) = rest.split_once(") {").ok_or("an entry without an end")?;
    let param = |text: &str| {
        let (ty, name) = text.rsplit_once(' ').ok_or("a parameter without a type")?;
        let ty = if ty.contains('*') { "pointer" } else { ty };
        Ok((name.to_owned(), ty.to_owned()))
    };
    let params = params.split(',').map(str::trim).filter(|p| !p.is_empty()).map(param);
    Ok((bounds.to_owned(), name.trim().to_owned(), params.collect::<Result<_, String>>()?))
}

/// Gives bytes by two functions, as NVRTC does.
macro_rules! outputs {
    ($($size:ident $get:ident $bytes:ident;)*) => { $(
        /// # Safety
        /// The pointer is to a number.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $size(program: usize, size: *mut usize) -> u32 {
            with_program(stringify!($size), program, |program| {
                let count = $bytes(program).map(<[u8]>::len).ok_or_else(|| misuse(stringify!($size).to_owned(), INVALID_PROGRAM))?;
                // SAFETY: by the caller.
                unsafe { *size = count };
                Ok(())
            })
        }

        /// # Safety
        /// There is room for as many bytes as the other function gives.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(program: usize, to: *mut u8) -> u32 {
            with_program(stringify!($get), program, |program| {
                let bytes = $bytes(program).ok_or_else(|| misuse(stringify!($get).to_owned(), INVALID_PROGRAM))?;
                // SAFETY: by the caller.
                unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
                Ok(())
            })
        }
    )* };
}

outputs! {
    nvrtcGetProgramLogSize nvrtcGetProgramLog log;
    nvrtcGetCUBINSize nvrtcGetCUBIN cubin;
    nvrtcGetPTXSize nvrtcGetPTX ptx;
}

fn log(program: &Program) -> Option<&[u8]> {
    Some(&program.log)
}

fn cubin(program: &Program) -> Option<&[u8]> {
    program.compiled.as_ref().filter(|(kind, _)| *kind == "sm").map(|(_, bytes)| bytes.as_slice())
}

fn ptx(program: &Program) -> Option<&[u8]> {
    program.compiled.as_ref().filter(|(kind, _)| *kind == "compute").map(|(_, bytes)| bytes.as_slice())
}

/// # Safety
/// The buffer has that many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_report(buffer: *mut u8, capacity: usize) -> usize {
    let programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner).1.len();
    // SAFETY: by the caller.
    unsafe { write_report(&format!("{}live programs {programs}\n", report()), buffer, capacity) }
}
