//! Why CUDA cannot be used, and what would help.

use super::handle::CallError;
use std::fmt;

/// Why there is no CUDA device. The text ends with what would help.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CudaUnavailable {
    /// The crate was built without its feature `cuda`.
    NotBuilt,
    /// There is no NVIDIA driver.
    NoDriver,
    /// The driver lacks a function.
    OldDriver {
        /// Which.
        missing: String,
        /// The version of CUDA for which the driver is, major and minor, if it says so.
        version: Option<(i32, i32)>,
    },
    /// The driver does not start, or a device cannot be asked.
    Start {
        /// The function of the driver.
        call: String,
        /// Its error, e.g. `CUDA_ERROR_SYSTEM_NOT_READY`.
        error: String,
        /// The number of that.
        code: u32,
    },
    /// The driver finds no device of that number.
    NoDevice {
        /// Which was asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// There is no NVRTC, NVIDIA's run-time compiler.
    NoCompiler,
    /// NVRTC lacks a function.
    OldCompiler {
        /// Which.
        missing: String,
    },
    /// NVRTC knows no architecture that the device runs.
    UnknownArchitecture {
        /// The device's, e.g. `sm_120`.
        device: String,
        /// NVRTC's version.
        compiler: String,
    },
}

impl CudaUnavailable {
    pub(super) fn start(error: CallError) -> CudaUnavailable {
        // A driver without a device says so when it starts.
        if error.is_no_device() {
            return CudaUnavailable::NoDevice { ordinal: 0, count: 0 };
        }
        CudaUnavailable::Start { call: error.call.to_owned(), error: error.name, code: error.code }
    }

    /// Whether it only says that there is no GPU here, so that the CPU is the best device; else there is one, and something
    /// is wrong.
    pub(crate) fn is_absence(&self) -> bool {
        match self {
            CudaUnavailable::NotBuilt | CudaUnavailable::NoDriver => true,
            CudaUnavailable::NoDevice { count, .. } => *count == 0,
            CudaUnavailable::OldDriver { .. }
            | CudaUnavailable::Start { .. }
            | CudaUnavailable::NoCompiler
            | CudaUnavailable::OldCompiler { .. }
            | CudaUnavailable::UnknownArchitecture { .. } => false,
        }
    }
}

impl std::error::Error for CudaUnavailable {}

impl fmt::Display for CudaUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CudaUnavailable::NotBuilt => f.write_str("built without CUDA; the cargo feature `cuda` adds it"),
            CudaUnavailable::NoDriver => {
                f.write_str("no NVIDIA driver: `libcuda` is not found; install the driver, or add its folder to LD_LIBRARY_PATH")
            }
            CudaUnavailable::OldDriver { missing, version } => {
                f.write_str("the NVIDIA driver")?;
                if let Some((major, minor)) = version {
                    write!(f, ", which is for CUDA {major}.{minor},")?;
                }
                write!(f, " has no `{missing}`; install one for CUDA 11.4 or newer")
            }
            CudaUnavailable::Start { call, error, code } => {
                let help = match call.starts_with("nvrtc") {
                    true => "install NVRTC anew",
                    false => "check that `nvidia-smi` works",
                };
                write!(f, "`{call}` gives {error} ({code}); {help}")
            }
            CudaUnavailable::NoDevice { ordinal, count: 0 } => {
                write!(f, "there is no GPU, so none of number {ordinal}; check `nvidia-smi` and CUDA_VISIBLE_DEVICES")
            }
            CudaUnavailable::NoDevice { ordinal, count } => {
                write!(f, "there is no GPU of number {ordinal}: there are {count}, numbered from 0")
            }
            CudaUnavailable::NoCompiler => {
                f.write_str("no NVRTC: `libnvrtc` is not found; install it (`pip install nvidia-cuda-nvrtc`, or the CUDA toolkit) and ")?;
                f.write_str("add its folder to LD_LIBRARY_PATH")
            }
            CudaUnavailable::OldCompiler { missing } => {
                write!(f, "NVRTC has no `{missing}`; install one of CUDA 11.4 or newer")
            }
            CudaUnavailable::UnknownArchitecture { device, compiler } => {
                write!(f, "NVRTC {compiler} compiles nothing that {device} runs; install one of the driver's own version")
            }
        }
    }
}
