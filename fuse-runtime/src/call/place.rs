//! On which device a call runs, and which memory it touches.

use super::Loaded;
use super::argument::Arg;
use super::memory::Temps;
use crate::device::Device;
use crate::error::Error;
use crate::tensor::Storage;

/// The device that all tensors of a call are on; the CPU for a call without any.
pub(super) fn find_device(loaded: &Loaded, args: &[Arg<'_>], results: &[Arg<'_>]) -> Result<Device, Error> {
    let mut tensors = args.iter().chain(results).enumerate().filter_map(|(k, a)| Some((k, a.as_tensor()?)));
    let Some((first, tensor)) = tensors.next() else { return Ok(Device::cpu()) };
    let device = tensor.storage.device();
    match tensors.find(|(_, other)| other.storage.device() != device) {
        None => Ok(device.clone()),
        Some((k, other)) => Err(Error::OtherDevice {
            kernel: loaded.kernel().name.clone(),
            argument: loaded.argument_name(k),
            device: other.storage.device().to_string(),
            first: loaded.argument_name(first),
            expected: device.to_string(),
        }),
    }
}

/// Memory that a call touches.
pub(crate) struct MemoryRegion<'a> {
    pub(crate) storage: &'a Storage,
    /// Whose it is.
    pub(crate) of: RegionOf,
    /// Whether the call may change what it holds.
    pub(crate) written: bool,
    /// Whether nobody has written it.
    pub(crate) fresh: bool,
}

/// Whose memory a region is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegionOf {
    /// The parameter of that number.
    Param(usize),
    /// The component of the result of that number.
    Result(usize),
    /// Of intermediate buffers.
    Temp,
}

/// The memory that a call touches, for each tensor and each intermediate buffer that owns its own. `fresh` results hold
/// nothing yet.
pub(super) fn regions<'a>(
    args: &'a [Arg<'_>],
    results: &'a [Arg<'_>],
    temps: &'a Temps,
    fresh: bool,
) -> Vec<MemoryRegion<'a>> {
    let region = |arg: &'a Arg<'_>, of: RegionOf, fresh: bool| {
        let tensor = arg.as_tensor()?;
        Some(MemoryRegion { storage: tensor.storage, of, written: tensor.written, fresh })
    };
    let params = args.iter().enumerate().filter_map(|(k, arg)| region(arg, RegionOf::Param(k), false));
    let results = results.iter().enumerate().filter_map(|(k, arg)| region(arg, RegionOf::Result(k), fresh));
    let temps = temps.storages().map(|storage| MemoryRegion {
        storage,
        of: RegionOf::Temp,
        written: true,
        fresh: true,
    });
    params.chain(results).chain(temps).collect()
}
