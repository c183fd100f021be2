//! A stand-in for NVIDIA's driver: the functions that the runtime calls, with the host's memory as the device's. It runs no
//! kernel; of a launch it notes the entry, the geometry and every parameter, as the entry's declaration says they are.
//! Whatever a driver would refuse, or what would be undefined with one, is a misuse: the call fails and the report says so.
//!
//! Settings: `driver` (13000 for CUDA 13.0), `devices`, `capability` (90), `pools`, `shared` and `memory` in bytes.
//! Built with `--cfg old` it lacks a function of graphs, as drivers before CUDA 11.4 do.

#![allow(non_snake_case, reason = "names of the driver")]

mod control;
mod state;

use control::{arrive, event, misuse, report, setting, write_report};
use state::{Driver, Function, Launch, Object};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

type Handle = usize;
type Address = u64;

const INVALID_VALUE: u32 = 1;
const OUT_OF_MEMORY: u32 = 2;
const NOT_INITIALIZED: u32 = 3;
const NO_DEVICE: u32 = 100;
const INVALID_DEVICE: u32 = 101;
const INVALID_IMAGE: u32 = 200;
const INVALID_CONTEXT: u32 = 201;
const NO_BINARY_FOR_GPU: u32 = 209;
const NOT_FOUND: u32 = 500;

/// After these the device refuses everything.
const STICKY: [u32; 3] = [700, 716, 719];

/// What the driver calls its errors.
const NAMES: [(u32, &CStr); 20] = [
    (INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE"),
    (OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY"),
    (NOT_INITIALIZED, c"CUDA_ERROR_NOT_INITIALIZED"),
    (34, c"CUDA_ERROR_STUB_LIBRARY"),
    (NO_DEVICE, c"CUDA_ERROR_NO_DEVICE"),
    (INVALID_DEVICE, c"CUDA_ERROR_INVALID_DEVICE"),
    (INVALID_IMAGE, c"CUDA_ERROR_INVALID_IMAGE"),
    (INVALID_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT"),
    (NO_BINARY_FOR_GPU, c"CUDA_ERROR_NO_BINARY_FOR_GPU"),
    (222, c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
    (state::INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE"),
    (NOT_FOUND, c"CUDA_ERROR_NOT_FOUND"),
    (600, c"CUDA_ERROR_NOT_READY"),
    (700, c"CUDA_ERROR_ILLEGAL_ADDRESS"),
    (701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    (716, c"CUDA_ERROR_MISALIGNED_ADDRESS"),
    (719, c"CUDA_ERROR_LAUNCH_FAILED"),
    (802, c"CUDA_ERROR_SYSTEM_NOT_READY"),
    (state::CAPTURE_UNSUPPORTED, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
    (999, c"CUDA_ERROR_UNKNOWN"),
];

static DRIVER: Mutex<Driver> = Mutex::new(Driver::NEW);
static QUIET: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CURRENT: Cell<Handle> = const { Cell::new(0) };
}

fn enter(call: &'static str, body: impl FnOnce(&mut Driver) -> Result<(), u32>) -> u32 {
    let planned = arrive(call);
    let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    if driver.lost != 0 {
        return driver.lost;
    }
    if STICKY.contains(&planned) {
        driver.lost = planned;
    }
    if planned != 0 {
        return planned;
    }
    if !driver.started && call != "cuInit" && call != "cuDriverGetVersion" {
        return misuse(format!("{call} before cuInit"), NOT_INITIALIZED);
    }
    body(&mut driver).err().unwrap_or(0)
}

/// As [`enter`], for calls that want a context.
fn work(call: &'static str, body: impl FnOnce(&mut Driver) -> Result<(), u32>) -> u32 {
    enter(call, |driver| match driver.objects.get(&CURRENT.get()) {
        Some(Object::Context { users }) if *users > 0 => body(driver),
        _ => Err(misuse(format!("{call} without a context"), INVALID_CONTEXT)),
    })
}

/// Functions of the driver. Their arguments are what `cuda.h` says.
macro_rules! driver {
    ($($how:ident $name:ident($driver:ident $(, $arg:ident: $ty:ty)*) $body:block)*) => { $(
        /// # Safety
        /// As `cuda.h` says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> u32 {
            $how(stringify!($name), |$driver| $body)
        }
    )* };
}

/// Writes what a call gives.
fn give<T>(to: *mut T, value: T) -> Result<(), u32> {
    if to.is_null() {
        return Err(misuse("a result to nowhere".to_owned(), INVALID_VALUE));
    }
    // SAFETY: callers pass where results go.
    unsafe { to.write(value) };
    Ok(())
}

fn check_device(device: c_int) -> Result<(), u32> {
    if i64::from(device) < setting("devices", 1) && device >= 0 {
        return Ok(());
    }
    Err(misuse(format!("no device {device}"), INVALID_DEVICE))
}

driver! {
    enter cuInit(driver, flags: u32) {
        if flags != 0 {
            return Err(misuse("flags of cuInit".to_owned(), INVALID_VALUE));
        }
        if setting("devices", 1) == 0 {
            return Err(NO_DEVICE);
        }
        driver.started = true;
        Ok(())
    }

    enter cuDriverGetVersion(_driver, version: *mut c_int) { give(version, setting("driver", 13000) as c_int) }

    enter cuDeviceGetCount(_driver, count: *mut c_int) { give(count, setting("devices", 1) as c_int) }

    enter cuDeviceGet(_driver, device: *mut c_int, ordinal: c_int) {
        check_device(ordinal)?;
        give(device, ordinal)
    }

    enter cuDeviceGetName(_driver, name: *mut c_char, length: c_int, device: c_int) {
        check_device(device)?;
        let bytes = c"Stand-in".to_bytes_with_nul();
        if length < bytes.len() as c_int {
            return Err(INVALID_VALUE);
        }
        // SAFETY: there is room.
        unsafe { name.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    enter cuDeviceGetAttribute(_driver, value: *mut c_int, attribute: c_int, device: c_int) {
        check_device(device)?;
        let capability = setting("capability", 90);
        give(value, match attribute {
            16 => setting("multiprocessors", 132),
            75 => capability / 10,
            76 => capability % 10,
            97 => setting("shared", 232_448),
            115 => setting("pools", 1),
            _ => return Err(misuse(format!("attribute {attribute}"), INVALID_VALUE)),
        } as c_int)
    }

    enter cuDeviceGetDefaultMemPool(driver, pool: *mut Handle, device: c_int) {
        check_device(device)?;
        give(pool, driver.pool())
    }

    enter cuMemPoolSetAttribute(driver, pool: Handle, attribute: c_int, _value: *mut c_void) {
        match (driver.objects.get(&pool), attribute) {
            (Some(Object::Pool), 4) => Ok(()),
            _ => Err(misuse(format!("attribute {attribute} of pool {pool}"), INVALID_VALUE)),
        }
    }

    enter cuDevicePrimaryCtxRetain(driver, context: *mut Handle, device: c_int) {
        check_device(device)?;
        give(context, driver.retain())
    }

    enter cuDevicePrimaryCtxRelease_v2(driver, device: c_int) {
        check_device(device)?;
        driver.release()
    }

    work cuMemGetInfo_v2(driver, free: *mut usize, total: *mut usize) {
        give(free, driver.free_bytes())?;
        give(total, setting("memory", 1 << 30) as usize)
    }

    work cuStreamCreate(driver, stream: *mut Handle, flags: u32) {
        if flags != 1 {
            return Err(misuse("a stream that waits for the default one".to_owned(), INVALID_VALUE));
        }
        give(stream, driver.add(Object::Stream { captured: None }))
    }

    work cuStreamDestroy_v2(driver, stream: Handle) { driver.remove(stream, "stream").map(drop) }

    work cuStreamSynchronize(driver, stream: Handle) { driver.running_stream(stream) }

    work cuStreamWaitEvent(driver, stream: Handle, event: Handle, _flags: u32) {
        driver.event(event)?;
        driver.running_stream(stream)
    }

    work cuEventCreate(driver, event: *mut Handle, _flags: u32) { give(event, driver.add(Object::Event)) }

    work cuEventRecord(driver, event: Handle, stream: Handle) {
        driver.event(event)?;
        driver.running_stream(stream)
    }

    work cuEventQuery(driver, event: Handle) { driver.event(event) }

    work cuEventDestroy_v2(driver, event: Handle) { driver.remove(event, "event").map(drop) }

    work cuMemAllocAsync(driver, address: *mut Address, bytes: usize, stream: Handle) {
        driver.running_stream(stream)?;
        give(address, driver.allocate(bytes, true)?)
    }

    work cuMemFreeAsync(driver, address: Address, stream: Handle) {
        driver.running_stream(stream)?;
        driver.free(address, true)
    }

    work cuMemAlloc_v2(driver, address: *mut Address, bytes: usize) {
        give(address, driver.allocate(bytes, false)?)
    }

    work cuMemFree_v2(driver, address: Address) { driver.free(address, false) }

    work cuMemHostAlloc(driver, start: *mut *mut u8, bytes: usize, _flags: u32) {
        give(start, driver.allocate_pinned(bytes))
    }

    work cuMemFreeHost(driver, start: *mut u8) { driver.free_pinned(start) }

    work cuMemcpyHtoDAsync_v2(driver, to: Address, from: *const u8, bytes: usize, stream: Handle) {
        driver.running_stream(stream)?;
        driver.check_range(to, bytes)?;
        // SAFETY: the range is within a block, and the caller's is as long.
        unsafe { (to as *mut u8).copy_from_nonoverlapping(from, bytes) };
        Ok(())
    }

    work cuMemcpyDtoHAsync_v2(driver, to: *mut u8, from: Address, bytes: usize, stream: Handle) {
        driver.running_stream(stream)?;
        driver.check_range(from, bytes)?;
        // SAFETY: likewise.
        unsafe { to.copy_from_nonoverlapping(from as *const u8, bytes) };
        Ok(())
    }

    work cuMemcpyDtoDAsync_v2(driver, to: Address, from: Address, bytes: usize, stream: Handle) {
        driver.running_stream(stream)?;
        driver.check_range(to, bytes)?;
        driver.check_range(from, bytes)?;
        // SAFETY: both ranges are within blocks.
        unsafe { (to as *mut u8).copy_from(from as *const u8, bytes) };
        Ok(())
    }

    work cuMemsetD8Async(driver, start: Address, byte: u8, bytes: usize, stream: Handle) {
        driver.running_stream(stream)?;
        driver.check_range(start, bytes)?;
        // SAFETY: the range is within a block.
        unsafe { (start as *mut u8).write_bytes(byte, bytes) };
        Ok(())
    }

    work cuModuleLoadData(driver, module: *mut Handle, image: *const c_char) {
        // SAFETY: the stand-in for NVRTC ends both kinds of code with a zero.
        let image = unsafe { CStr::from_ptr(image) }.to_string_lossy().into_owned();
        give(module, driver.load(&image)?)
    }

    work cuModuleUnload(driver, module: Handle) {
        driver.remove(module, "module")?;
        driver.objects.retain(|_, o| !matches!(o, Object::Function(f) if f.module == module));
        Ok(())
    }

    work cuModuleGetFunction(driver, function: *mut Handle, module: Handle, name: *const c_char) {
        // SAFETY: by the caller.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        match driver.objects.get(&module) {
            Some(Object::Module(entry)) if entry.name == name => {
                let new = Function { module, entry: entry.clone(), shared: 48 << 10 };
                give(function, driver.add(Object::Function(new)))
            }
            Some(Object::Module(_)) => Err(misuse(format!("no entry {name}"), NOT_FOUND)),
            _ => Err(misuse(format!("no module {module}"), state::INVALID_HANDLE)),
        }
    }

    work cuFuncGetAttribute(driver, value: *mut c_int, attribute: c_int, function: Handle) {
        let function = driver.function(function)?;
        give(value, match attribute {
            3 => function.entry.local_bytes,
            4 => 32,
            _ => return Err(misuse(format!("attribute {attribute} of a function"), INVALID_VALUE)),
        })
    }

    work cuFuncSetAttribute(driver, function: Handle, attribute: c_int, value: c_int) {
        let limit = setting("shared", 232_448);
        let function = driver.function(function)?;
        if attribute != 8 || i64::from(value) > limit {
            return Err(misuse(format!("attribute {attribute} = {value} of a function"), INVALID_VALUE));
        }
        function.shared = value as u32;
        Ok(())
    }
}

/// From now on, or from now on no more, [`cuLaunchKernel`], [`cuGraphLaunch`] and [`cuCtxSetCurrent`] return at once, and
/// cost nothing.
#[unsafe(no_mangle)]
pub extern "C" fn standin_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// # Safety
/// As `cuda.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCurrent(context: Handle) -> u32 {
    if QUIET.load(Ordering::Relaxed) {
        return 0;
    }
    enter("cuCtxSetCurrent", |driver| {
        driver.context(context)?;
        CURRENT.set(context);
        Ok(())
    })
}

/// # Safety
/// As `cuda.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: Handle,
    params: *const *const u8,
    _extra: *const *const c_void,
) -> u32 {
    if QUIET.load(Ordering::Relaxed) {
        return 0;
    }
    work("cuLaunchKernel", |driver| {
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let function = driver.function(function)?;
        function.check(grid, block, shared)?;
        let entry = function.entry.clone();
        // SAFETY: by the caller.
        let values = unsafe { entry.read(params)? };
        let launch = Launch { entry, grid, block, shared, values };
        match driver.captured(stream)? {
            Some(captured) => captured.push(launch),
            None => event(format!("launch {stream:#x} {}", driver.describe(&launch))),
        }
        Ok(())
    })
}

driver! {
    work cuStreamBeginCapture_v2(driver, stream: Handle, _mode: c_int) {
        driver.running_stream(stream)?;
        driver.objects.insert(stream, Object::Stream { captured: Some(Vec::new()) });
        Ok(())
    }

    work cuStreamEndCapture(driver, stream: Handle, graph: *mut Handle) {
        let Some(captured) = driver.captured(stream)? else {
            return Err(misuse("the end of no capture".to_owned(), INVALID_VALUE));
        };
        let captured = std::mem::take(captured);
        driver.objects.insert(stream, Object::Stream { captured: None });
        give(graph, driver.add(Object::Graph(captured)))
    }

    work cuGraphDestroy(driver, graph: Handle) { driver.remove(graph, "graph").map(drop) }

    work cuGraphExecDestroy(driver, exec: Handle) { driver.remove(exec, "exec").map(drop) }
}

/// # Safety
/// As `cuda.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGraphLaunch(exec: Handle, stream: Handle) -> u32 {
    if QUIET.load(Ordering::Relaxed) {
        return 0;
    }
    work("cuGraphLaunch", |driver| {
        driver.running_stream(stream)?;
        let Some(Object::Exec(launches)) = driver.objects.get(&exec) else {
            return Err(misuse(format!("no graph {exec} to launch"), state::INVALID_HANDLE));
        };
        launches.iter().for_each(|launch| event(format!("replay {stream:#x} {}", driver.describe(launch))));
        Ok(())
    })
}

/// # Safety
/// As `cuda.h` says.
#[cfg_attr(not(old), unsafe(no_mangle))]
pub unsafe extern "C" fn cuGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, _flags: u64) -> u32 {
    work("cuGraphInstantiateWithFlags", |driver| {
        let Some(Object::Graph(launches)) = driver.objects.get(&graph) else {
            return Err(misuse(format!("no graph {graph}"), state::INVALID_HANDLE));
        };
        let launches = launches.clone();
        give(exec, driver.add(Object::Exec(launches)))
    })
}

/// # Safety
/// The pointer is to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(code: u32, name: *mut *const c_char) -> u32 {
    match (arrive("cuGetErrorName"), NAMES.iter().find(|(known, _)| *known == code)) {
        (0, Some((_, text))) => give(name, text.as_ptr()).err().unwrap_or(0),
        (0, None) => give(name, std::ptr::null()).err().unwrap_or(INVALID_VALUE),
        (planned, _) => planned,
    }
}

/// # Safety
/// The buffer has that many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_report(buffer: *mut u8, capacity: usize) -> usize {
    let driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: by the caller.
    unsafe { write_report(&format!("{}{}", report(), driver.live()), buffer, capacity) }
}
