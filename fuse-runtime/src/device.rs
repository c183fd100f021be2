//! Where tensors live and kernels run.

use crate::cuda::{CudaUnavailable, StreamRef, count_devices, open_device};
use crate::error::Error;
use std::fmt;

/// A place where tensors live and kernels run. Every kernel runs on every device; the tensors of a call are on one.
///
/// ```
/// use fuse_runtime::{Device, Tensor};
///
/// let device = Device::simulator();
/// let x = Tensor::full(1.0f32, [2, 3], &device)?;
/// assert_eq!(x.device(), device);
/// assert_eq!(x.to_device(&Device::cpu())?.device().to_string(), "cpu");
/// # Ok::<(), fuse_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Device {
    pub(crate) kind: Kind,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Cpu,
    Simulator,
    Cuda(StreamRef),
}

impl Device {
    /// This machine's CPU.
    pub fn cpu() -> Device {
        Device { kind: Kind::Cpu }
    }

    /// A GPU that is simulated in this process: kernels run as they are lowered for CUDA, thread by thread, and what
    /// would be a race, an access out of bounds or a read of memory that nobody wrote is the call's `Err`. It is for
    /// tests, at thousands of times the time that a GPU takes. Its memory is the host's.
    pub fn simulator() -> Device {
        Device { kind: Kind::Simulator }
    }

    /// The GPU of that number, with a stream that orders what is done with its tensors. Each call gives the same device.
    ///
    /// A call of a kernel queues its launches and returns. What reads results waits: [`Tensor::to_vec`](crate::Tensor::to_vec),
    /// [`Tensor::item`](crate::Tensor::item) and [`Device::synchronize`]; they also give the fault of a kernel before, if
    /// there was one.
    ///
    /// Kernels are compiled by NVRTC when a call first needs them, and kept in a folder of the user
    /// (`FUSE_CACHE_DIR` names another, or none if it is empty).
    ///
    /// # Errors
    /// If there is no such GPU, no driver, or no NVRTC, with what would help.
    pub fn cuda(ordinal: usize) -> Result<Device, Error> {
        Ok(Device { kind: Kind::Cuda(open_device(ordinal)?) })
    }

    /// How many GPUs there are that [`Device::cuda`] takes; 0 if there is no driver.
    pub fn cuda_count() -> usize {
        count_devices().unwrap_or(0)
    }

    /// The best device there is: the first GPU, else the CPU.
    ///
    /// # Errors
    /// If there is a GPU that cannot be used, with what would help: that it is slow on the CPU is not found out by waiting.
    pub fn best() -> Result<Device, Error> {
        match open_device(0) {
            Ok(stream) => Ok(Device { kind: Kind::Cuda(stream) }),
            Err(unavailable) if unavailable.is_absence() => Ok(Device::cpu()),
            Err(unavailable) => Err(unavailable.into()),
        }
    }

    /// The first GPU if it can be used, else the CPU.
    pub fn best_or_cpu() -> Device {
        Device::cuda(0).unwrap_or_else(|_| Device::cpu())
    }

    /// Why [`Device::best_or_cpu`] gives the CPU; `None` if it gives a GPU.
    pub fn why_not_cuda() -> Option<CudaUnavailable> {
        open_device(0).err()
    }

    /// The same GPU with another stream, whose work does not wait for this one's. Its tensors are its own: they are on
    /// another device. Of the CPU and the simulator there is one.
    ///
    /// # Errors
    /// If the driver cannot make a stream.
    pub fn new_stream(&self) -> Result<Device, Error> {
        match &self.kind {
            Kind::Cpu | Kind::Simulator => Ok(self.clone()),
            Kind::Cuda(stream) => Ok(Device { kind: Kind::Cuda(stream.beside()?) }),
        }
    }

    /// Waits until everything that was queued is done. On the CPU and the simulator nothing ever is.
    ///
    /// # Errors
    /// The first fault of the kernels since the last call that waited, or a failure of the device.
    pub fn synchronize(&self) -> Result<(), Error> {
        match &self.kind {
            Kind::Cpu | Kind::Simulator => Ok(()),
            Kind::Cuda(stream) => stream.0.synchronize(),
        }
    }

    /// Whether it is a GPU.
    pub fn is_cuda(&self) -> bool {
        matches!(self.kind, Kind::Cuda(_))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Cpu => f.write_str("cpu"),
            Kind::Simulator => f.write_str("simulator"),
            Kind::Cuda(stream) => stream.0.fmt(f),
        }
    }
}
