//! Every call of libcuda.
//!
//! cudarc loads each function when it is first called, and panics where the library or the function is missing. So a
//! [`Driver`] is made only when the library is there and has every function of [`FUNCTIONS`]; who has one may call.

use super::handle::{
    Attribute, CallError, Context, DevicePointer, Event, Function, Graph, GraphExec, LaunchShape, Module,
    StreamHandle,
};
use super::unavailable::CudaUnavailable;
use cudarc::driver::sys;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The driver, found and started.
#[derive(Debug)]
pub(crate) struct Driver(());

/// Every function that is called here. All are in every driver since CUDA 11.4.
const FUNCTIONS: [&str; 43] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuDeviceGet",
    "cuDeviceGetCount",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceGetDefaultMemPool",
    "cuMemPoolSetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxSetCurrent",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventDestroy_v2",
    "cuMemGetInfo_v2",
    "cuMemAllocAsync",
    "cuMemFreeAsync",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuLaunchKernel",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
];

impl Driver {
    /// The driver.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn get() -> Result<&'static Driver, CudaUnavailable> {
        static FOUND: OnceLock<Result<(), CudaUnavailable>> = OnceLock::new();
        static STARTED: OnceLock<Driver> = OnceLock::new();
        static STARTING: Mutex<()> = Mutex::new(());
        if let Some(driver) = STARTED.get() {
            return Ok(driver);
        }
        FOUND.get_or_init(find).clone()?;
        // A driver that does not start now may do so later, when the machine is up.
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        if STARTED.get().is_none() {
            // SAFETY: the function is there.
            check("cuInit", unsafe { sys::cuInit(0) }).map_err(CudaUnavailable::start)?;
        }
        Ok(STARTED.get_or_init(|| Driver(())))
    }

    /// The version of CUDA for which the driver is, major and minor.
    pub(crate) fn version(&self) -> Result<(i32, i32), CallError> {
        version()
    }

    pub(crate) fn device_count(&self) -> Result<i32, CallError> {
        let mut count = 0;
        // SAFETY: the function is there, and the pointer is to a number that lives through the call.
        check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
        Ok(count)
    }

    fn device(&self, ordinal: i32) -> Result<sys::CUdevice, CallError> {
        let mut device = 0;
        // SAFETY: as above.
        check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal) })?;
        Ok(device)
    }

    pub(crate) fn device_name(&self, ordinal: i32) -> Result<String, CallError> {
        let device = self.device(ordinal)?;
        let mut name = [0 as c_char; 128];
        // SAFETY: the buffer has the length that is passed.
        let code = unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device) };
        check("cuDeviceGetName", code)?;
        let bytes: Vec<u8> = name.iter().map(|&c| c as u8).take_while(|&b| b != 0).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(crate) fn attribute(&self, ordinal: i32, attribute: Attribute) -> Result<i32, CallError> {
        use sys::CUdevice_attribute_enum as A;
        let attribute = match attribute {
            Attribute::Major => A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            Attribute::Minor => A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            Attribute::Multiprocessors => A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            Attribute::SharedMemory => A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            Attribute::MemoryPools => A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
        };
        let device = self.device(ordinal)?;
        let mut value = 0;
        // SAFETY: the pointer is to a number that lives through the call.
        check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) })?;
        Ok(value)
    }

    /// Lets the device's default pool keep freed memory instead of giving it back at every synchronisation.
    pub(crate) fn keep_pool_memory(&self, ordinal: i32) -> Result<(), CallError> {
        let device = self.device(ordinal)?;
        let mut pool = ptr::null_mut();
        // SAFETY: the pointer is to a handle that lives through the call.
        check("cuDeviceGetDefaultMemPool", unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, device) })?;
        let mut threshold = u64::MAX;
        let attribute = sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the attribute is a 64-bit number, which lives through the call.
        let code = unsafe {
            sys::cuMemPoolSetAttribute(pool, attribute, ptr::from_mut(&mut threshold).cast::<c_void>())
        };
        check("cuMemPoolSetAttribute", code)
    }

    /// The device's primary context, which every library of the process shares.
    pub(crate) fn retain_primary_context(&self, ordinal: i32) -> Result<Context, CallError> {
        let device = self.device(ordinal)?;
        let mut context = ptr::null_mut();
        // SAFETY: the pointer is to a handle that lives through the call.
        check("cuDevicePrimaryCtxRetain", unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) })?;
        Ok(Context(context as usize))
    }

    /// # Safety
    /// The context was retained, and whoever did uses it no more.
    pub(crate) unsafe fn release_primary_context(&self, ordinal: i32) -> Result<(), CallError> {
        let device = self.device(ordinal)?;
        // SAFETY: by the caller.
        check("cuDevicePrimaryCtxRelease", unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) })
    }

    /// Makes the context this thread's.
    pub(crate) fn set_current(&self, context: Context) -> Result<(), CallError> {
        // SAFETY: contexts are those of `retain_primary_context`, which live until whoever retained them is gone.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context.0 as sys::CUcontext) })
    }

    /// A stream that does not wait for the default one.
    pub(crate) fn create_stream(&self) -> Result<StreamHandle, CallError> {
        let mut stream = ptr::null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the pointer is to a handle that lives through the call.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, flags) })?;
        Ok(StreamHandle(stream as usize))
    }

    /// # Safety
    /// Nothing uses the stream any more.
    pub(crate) unsafe fn destroy_stream(&self, stream: StreamHandle) -> Result<(), CallError> {
        // SAFETY: by the caller.
        check("cuStreamDestroy", unsafe { sys::cuStreamDestroy_v2(stream.0 as sys::CUstream) })
    }

    /// Waits until all work of the stream is done.
    pub(crate) fn synchronize(&self, stream: StreamHandle) -> Result<(), CallError> {
        // SAFETY: streams live until `destroy_stream`, whose caller is the last user.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream.0 as sys::CUstream) })
    }

    pub(crate) fn create_event(&self) -> Result<Event, CallError> {
        let mut event = ptr::null_mut();
        let flags = sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: the pointer is to a handle that lives through the call.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&mut event, flags) })?;
        Ok(Event(event as usize))
    }

    /// Lets the event happen when the work that the stream has now is done.
    pub(crate) fn record_event(&self, event: Event, stream: StreamHandle) -> Result<(), CallError> {
        // SAFETY: events live until `destroy_event`, whose caller is the last user; streams likewise.
        let code = unsafe { sys::cuEventRecord(event.0 as sys::CUevent, stream.0 as sys::CUstream) };
        check("cuEventRecord", code)
    }

    /// Lets the stream wait for the event.
    pub(crate) fn wait_event(&self, stream: StreamHandle, event: Event) -> Result<(), CallError> {
        // SAFETY: as above.
        let code = unsafe { sys::cuStreamWaitEvent(stream.0 as sys::CUstream, event.0 as sys::CUevent, 0) };
        check("cuStreamWaitEvent", code)
    }

    /// Whether the event has happened.
    pub(crate) fn query_event(&self, event: Event) -> Result<bool, CallError> {
        // SAFETY: as above.
        match unsafe { sys::cuEventQuery(event.0 as sys::CUevent) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check("cuEventQuery", code).map(|()| true),
        }
    }

    /// # Safety
    /// Nothing uses the event any more.
    pub(crate) unsafe fn destroy_event(&self, event: Event) -> Result<(), CallError> {
        // SAFETY: by the caller.
        check("cuEventDestroy", unsafe { sys::cuEventDestroy_v2(event.0 as sys::CUevent) })
    }

    /// How many bytes of the device of this thread's context are free.
    pub(crate) fn free_memory(&self) -> Result<usize, CallError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are to numbers that live through the call.
        check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok(free)
    }

    /// Memory that exists from here on in the stream's order.
    pub(crate) fn allocate_async(
        &self,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<DevicePointer, CallError> {
        let mut pointer = 0;
        // SAFETY: the pointer is to a number that lives through the call.
        let code = unsafe { sys::cuMemAllocAsync(&mut pointer, bytes, stream.0 as sys::CUstream) };
        check("cuMemAllocAsync", code)?;
        Ok(pointer)
    }

    /// # Safety
    /// The memory is of `allocate_async`, and nothing that comes after in the stream's order uses it.
    pub(crate) unsafe fn free_async(
        &self,
        pointer: DevicePointer,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        // SAFETY: by the caller.
        check("cuMemFreeAsync", unsafe { sys::cuMemFreeAsync(pointer, stream.0 as sys::CUstream) })
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<DevicePointer, CallError> {
        let mut pointer = 0;
        // SAFETY: the pointer is to a number that lives through the call.
        check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut pointer, bytes) })?;
        Ok(pointer)
    }

    /// # Safety
    /// The memory is of `allocate`, and nothing uses it any more but work that is already queued, for which this waits.
    pub(crate) unsafe fn free(&self, pointer: DevicePointer) -> Result<(), CallError> {
        // SAFETY: by the caller.
        check("cuMemFree", unsafe { sys::cuMemFree_v2(pointer) })
    }

    /// Memory of the host from which copies to the device do not have to wait.
    pub(crate) fn allocate_pinned(&self, bytes: usize) -> Result<*mut u8, CallError> {
        let mut start = ptr::null_mut();
        // SAFETY: the pointer is to a pointer that lives through the call.
        check("cuMemHostAlloc", unsafe { sys::cuMemHostAlloc(&mut start, bytes, 0) })?;
        Ok(start.cast())
    }

    /// # Safety
    /// The memory is of `allocate_pinned`, and neither the host nor a copy uses it any more.
    pub(crate) unsafe fn free_pinned(&self, start: *mut u8) -> Result<(), CallError> {
        // SAFETY: by the caller.
        check("cuMemFreeHost", unsafe { sys::cuMemFreeHost(start.cast()) })
    }

    /// # Safety
    /// Both ranges exist; the host's stays as it is until the copy is done.
    pub(crate) unsafe fn copy_to_device(
        &self,
        to: DevicePointer,
        from: *const u8,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        // SAFETY: by the caller.
        let code = unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, stream.0 as sys::CUstream) };
        check("cuMemcpyHtoDAsync", code)
    }

    /// # Safety
    /// Both ranges exist; nothing uses the host's until the copy is done.
    pub(crate) unsafe fn copy_to_host(
        &self,
        to: *mut u8,
        from: DevicePointer,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        // SAFETY: by the caller.
        let code = unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream.0 as sys::CUstream) };
        check("cuMemcpyDtoHAsync", code)
    }

    /// # Safety
    /// Both ranges exist and do not overlap.
    pub(crate) unsafe fn copy_on_device(
        &self,
        to: DevicePointer,
        from: DevicePointer,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        // SAFETY: by the caller.
        let code = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream.0 as sys::CUstream) };
        check("cuMemcpyDtoDAsync", code)
    }

    /// # Safety
    /// The range exists.
    pub(crate) unsafe fn fill(
        &self,
        start: DevicePointer,
        byte: u8,
        bytes: usize,
        stream: StreamHandle,
    ) -> Result<(), CallError> {
        // SAFETY: by the caller.
        check("cuMemsetD8Async", unsafe {
            sys::cuMemsetD8Async(start, byte, bytes, stream.0 as sys::CUstream)
        })
    }

    /// Loads machine code, or PTX that ends with a zero, which the driver then compiles.
    pub(crate) fn load_module(&self, image: &[u8]) -> Result<Module, CallError> {
        let mut module = ptr::null_mut();
        // SAFETY: the image is a whole one, by its checks when it was compiled or read, and lives through the call.
        check("cuModuleLoadData", unsafe { sys::cuModuleLoadData(&mut module, image.as_ptr().cast()) })?;
        Ok(Module(module as usize))
    }

    /// # Safety
    /// No function of the module is used any more.
    pub(crate) unsafe fn unload_module(&self, module: Module) -> Result<(), CallError> {
        // SAFETY: by the caller.
        check("cuModuleUnload", unsafe { sys::cuModuleUnload(module.0 as sys::CUmodule) })
    }

    pub(crate) fn function(&self, module: Module, name: &str) -> Result<Function, CallError> {
        let call = "cuModuleGetFunction";
        let invalid = |_| CallError { call, code: 1, name: "a name with a zero".to_owned() };
        let name = CString::new(name).map_err(invalid)?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded, the name ends with a zero and lives through the call.
        let code =
            unsafe { sys::cuModuleGetFunction(&mut function, module.0 as sys::CUmodule, name.as_ptr()) };
        check(call, code)?;
        Ok(Function(function as usize))
    }

    /// Registers of a thread, and bytes of its local memory, where spilled ones go.
    pub(crate) fn resources(&self, function: Function) -> Result<(u32, u32), CallError> {
        use sys::CUfunction_attribute_enum as A;
        let get = |attribute| {
            let mut value = 0;
            let function = function.0 as sys::CUfunction;
            // SAFETY: the function's module is loaded, and the pointer is to a number that lives through the call.
            let code = unsafe { sys::cuFuncGetAttribute(&mut value, attribute, function) };
            check("cuFuncGetAttribute", code)?;
            Ok(value.max(0) as u32)
        };
        Ok((get(A::CU_FUNC_ATTRIBUTE_NUM_REGS)?, get(A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?))
    }

    /// Lets launches of the function have that much shared memory; without, 48 KiB are the most.
    pub(crate) fn allow_shared_memory(&self, function: Function, bytes: u32) -> Result<(), CallError> {
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function's module is loaded.
        let code = unsafe { sys::cuFuncSetAttribute(function.0 as sys::CUfunction, attribute, bytes as i32) };
        check("cuFuncSetAttribute", code)
    }

    /// # Safety
    /// There is an argument of its size behind each pointer, for each parameter of the function, and what the function does
    /// with them is within their memory, which lives until the launch is done in the stream's order.
    pub(crate) unsafe fn launch(
        &self,
        function: Function,
        shape: &LaunchShape,
        stream: StreamHandle,
        arguments: &mut [*mut c_void],
    ) -> Result<(), CallError> {
        let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
        // SAFETY: by the caller.
        let code = unsafe {
            sys::cuLaunchKernel(
                function.0 as sys::CUfunction,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shape.shared_bytes,
                stream.0 as sys::CUstream,
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        check("cuLaunchKernel", code)
    }

    /// From now on what is queued to the stream is captured instead of run.
    pub(crate) fn begin_capture(&self, stream: StreamHandle) -> Result<(), CallError> {
        let mode = sys::CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: streams live until `destroy_stream`, whose caller is the last user.
        check("cuStreamBeginCapture", unsafe {
            sys::cuStreamBeginCapture_v2(stream.0 as sys::CUstream, mode)
        })
    }

    pub(crate) fn end_capture(&self, stream: StreamHandle) -> Result<Graph, CallError> {
        let mut graph = ptr::null_mut();
        // SAFETY: as above, and the pointer is to a handle that lives through the call.
        check("cuStreamEndCapture", unsafe {
            sys::cuStreamEndCapture(stream.0 as sys::CUstream, &mut graph)
        })?;
        Ok(Graph(graph as usize))
    }

    /// Makes a graph that can be launched, and takes the captured one.
    pub(crate) fn instantiate_graph(&self, graph: Graph) -> Result<GraphExec, CallError> {
        let mut exec = ptr::null_mut();
        // SAFETY: the graph was captured and not yet taken; the pointer is to a handle that lives through the call.
        let code = unsafe { sys::cuGraphInstantiateWithFlags(&mut exec, graph.0 as sys::CUgraph, 0) };
        // What was instantiated does not need it. That it is not destroyed costs its memory, and nothing else.
        // SAFETY: the graph is used no further.
        let _ = unsafe { self.destroy_captured(graph) };
        check("cuGraphInstantiateWithFlags", code)?;
        Ok(GraphExec(exec as usize))
    }

    /// # Safety
    /// Nothing uses the graph any more.
    pub(crate) unsafe fn destroy_captured(&self, graph: Graph) -> Result<(), CallError> {
        // SAFETY: by the caller.
        check("cuGraphDestroy", unsafe { sys::cuGraphDestroy(graph.0 as sys::CUgraph) })
    }

    /// # Safety
    /// The memory that the graph's kernels use lives until they are done in the stream's order.
    pub(crate) unsafe fn launch_graph(&self, exec: GraphExec, stream: StreamHandle) -> Result<(), CallError> {
        // SAFETY: by the caller.
        let code = unsafe { sys::cuGraphLaunch(exec.0 as sys::CUgraphExec, stream.0 as sys::CUstream) };
        check("cuGraphLaunch", code)
    }

    /// # Safety
    /// Nothing launches the graph any more.
    pub(crate) unsafe fn destroy_graph(&self, exec: GraphExec) -> Result<(), CallError> {
        // SAFETY: by the caller.
        check("cuGraphExecDestroy", unsafe { sys::cuGraphExecDestroy(exec.0 as sys::CUgraphExec) })
    }
}

/// Finds the library and its functions.
fn find() -> Result<(), CudaUnavailable> {
    // SAFETY: the initialisers of NVIDIA's library only set up its own state.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaUnavailable::NoDriver);
    }
    match FUNCTIONS.iter().find(|name| !has_function(name)) {
        None => Ok(()),
        Some(missing) => {
            let version = if has_function("cuDriverGetVersion") { version().ok() } else { None };
            Err(CudaUnavailable::OldDriver { missing: (*missing).to_owned(), version })
        }
    }
}

/// As [`Driver::version`]; the function, which is there, works before the driver is started.
fn version() -> Result<(i32, i32), CallError> {
    let mut version = 0;
    // SAFETY: the pointer is to a number that lives through the call.
    let code = unsafe { sys::cuDriverGetVersion(&mut version) };
    if code != sys::CUresult::CUDA_SUCCESS {
        return Err(CallError { call: "cuDriverGetVersion", code: code as u32, name: format!("{code:?}") });
    }
    Ok((version / 1000, version % 1000 / 10))
}

/// Whether the library, which is there, has a function.
fn has_function(name: &str) -> bool {
    // SAFETY: the library is there; the symbol is not called here.
    unsafe { sys::culib().get::<*const c_void>(name.as_bytes()) }.is_ok()
}

/// The error of a code, with the driver's name for it.
fn check(call: &'static str, code: sys::CUresult) -> Result<(), CallError> {
    if code == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let mut name: *const c_char = ptr::null();
    // SAFETY: the pointer is to a pointer that lives through the call; what it then points to is a constant of the driver.
    let named = unsafe { sys::cuGetErrorName(code, &mut name) } == sys::CUresult::CUDA_SUCCESS;
    let name = if named && !name.is_null() {
        // SAFETY: a text of the driver, which ends with a zero.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    } else {
        format!("error {}", code as u32)
    };
    Err(CallError { call, code: code as u32, name })
}
