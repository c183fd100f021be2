//! What the driver calls things: handles, opaque and of no meaning outside of it.

use super::unavailable::CudaUnavailable;
use std::fmt;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub(crate) struct $name(pub(super) usize);
    )* };
}

handles! {
    /// A device's primary context.
    Context;
    /// A stream of the driver.
    StreamHandle;
    /// An event.
    Event;
    /// Loaded machine code.
    Module;
    /// An entry of a module.
    Function;
    /// A captured graph.
    Graph;
    /// A graph that can be launched.
    GraphExec;
}

/// An address of device memory.
pub(crate) type DevicePointer = u64;

/// What is asked of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attribute {
    /// The first number of the compute capability.
    Major,
    /// The second.
    Minor,
    /// Streaming multiprocessors.
    Multiprocessors,
    /// Bytes of shared memory that a block may have if it asks.
    SharedMemory,
    /// Whether memory can be allocated in the order of a stream.
    MemoryPools,
}

/// What a call gives that fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CallError {
    /// The function of the driver or of NVRTC.
    pub(crate) call: &'static str,
    pub(crate) code: u32,
    /// `CUDA_ERROR_OUT_OF_MEMORY`, …
    pub(crate) name: String,
}

/// The code of `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: u32 = 2;
/// The code of `CUDA_ERROR_NO_DEVICE`.
const NO_DEVICE: u32 = 100;
/// The codes of `CUDA_ERROR_INVALID_IMAGE`, `…_NO_BINARY_FOR_GPU`, `…_INVALID_PTX` and `…_UNSUPPORTED_PTX_VERSION`.
const REFUSED_CODE: [u32; 4] = [200, 209, 218, 222];

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.code)
    }
}

impl CallError {
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.code == OUT_OF_MEMORY
    }

    pub(crate) fn is_no_device(&self) -> bool {
        self.code == NO_DEVICE
    }

    /// Whether the driver does not take the code that it was to load.
    pub(crate) fn is_refused_code(&self) -> bool {
        REFUSED_CODE.contains(&self.code)
    }
}

/// What NVRTC is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Output {
    /// Machine code of an architecture `sm_90`.
    Cubin,
    /// Text that the driver compiles, of an architecture `compute_90`.
    Ptx,
}

/// What is launched: blocks, threads, bytes of shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaunchShape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
}

/// Why a text was not compiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CompileError {
    /// The compiler does not take it; its log.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only the compiler makes it"))]
    Log(String),
    /// A call failed.
    Call(CallError),
    /// There is no compiler for it.
    NoCompiler(CudaUnavailable),
}

impl From<CallError> for CompileError {
    fn from(error: CallError) -> Self {
        CompileError::Call(error)
    }
}
