//! Where tensors live and kernels run.

use crate::error::Error;
use std::fmt;

/// A place where tensors live and kernels run. Only this machine's CPU exists now; every kernel runs on it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Device {
    kind: Kind,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Cpu,
}

impl Device {
    /// This machine's CPU.
    pub fn cpu() -> Device {
        Device { kind: Kind::Cpu }
    }

    /// The best device there is: now always the CPU. GPUs are not looked for, since none can be used yet.
    ///
    /// # Errors
    /// None now; a device that is there but cannot be used will be one.
    pub fn best() -> Result<Device, Error> {
        Ok(Device::cpu())
    }

    /// The best device that can be used: now always the CPU.
    pub fn best_or_cpu() -> Device {
        Device::cpu()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Cpu => f.write_str("cpu"),
        }
    }
}
