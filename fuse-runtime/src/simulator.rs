//! The simulator as a device: a call's lowered kernels on [`fuse_ir::simulate`].
//!
//! Tensors of the simulator are in the host's memory. For a call each argument's storage becomes an allocation of simulated
//! memory, in which the simulator knows of each byte whether anybody wrote it: results and intermediate buffers start
//! unwritten. Arguments that are parts of one storage are apart, as the checks of a call have found them to be. Afterwards
//! the elements that were written go back. A finding of the simulator's detectors is the call's error, and then nothing goes
//! back: a kernel with a race has no results.

use crate::call::place::{MemoryRegion, RegionOf};
use crate::call::{Loaded, describe_fault};
use crate::cpu::CpuFault;
use crate::error::{Error, Finding};
use crate::lowered::{BoundCall, Place};
use fuse_ir::graph::{OutputTarget, ParamKind};
use fuse_ir::id::GroupId;
use fuse_ir::kernel_ir::{DeviceNumbers, LaunchArg};
use fuse_ir::lower::{FaultKind, FaultSite, LoweredKernel};
use fuse_ir::schedule::BufferRef;
use fuse_ir::simulate::{Argument, GlobalMemory, SimulateOptions, simulate_kernel};

/// Bytes of shared memory of a simulated block: what every GPU since Ampere has.
const SHARED_MEMORY: u64 = 96 << 10;

/// Memory of the host and what stands for it.
struct Mapping {
    of: RegionOf,
    first: u64,
    bytes: u64,
    buffer: usize,
}

/// The simulated memory of a call.
struct Memory {
    global: GlobalMemory,
    mappings: Vec<Mapping>,
}

/// Runs the launches of a call.
///
/// # Errors
/// A fault of the user's arithmetic, or a finding.
pub(crate) fn run(loaded: &Loaded, call: &BoundCall<'_>, regions: &[MemoryRegion<'_>]) -> Result<(), Error> {
    let mut memory = Memory::new(regions)?;
    unwrite_results(call, &mut memory);
    let mut places = |places: &[Place<'_>], of: &dyn Fn(usize) -> RegionOf| -> Vec<OwnedPlace> {
        let simulated = |(k, p): (usize, &Place<'_>)| {
            (memory.address(p.address, of(k)), p.shape.to_vec(), p.strides.to_vec())
        };
        places.iter().enumerate().map(simulated).collect()
    };
    let params = places(call.params, &RegionOf::Param);
    let results = places(call.results, &RegionOf::Result);
    let temps = places(call.temps, &|_| RegionOf::Temp);
    let host = *call;
    let (params, results, temps) = (borrow(&params), borrow(&results), borrow(&temps));
    let call = BoundCall { params: &params, results: &results, temps: &temps, ..*call };
    let lowered = loaded.lowered.get(call.program, SHARED_MEMORY);
    let mut fault: Option<(FaultSite, u64)> = None;
    for launch in 0..call.program.plan.launches.len() {
        let wide = call.is_wide(launch);
        let lowered = lowered.launch(call.program, launch, wide)?;
        let mut scratch = Vec::new();
        for (number, s) in lowered.scratch.iter().enumerate() {
            let device = DeviceNumbers::SIMULATED;
            let elements = call.scratch_elements(lowered, number, device, &mut Vec::new()).unwrap_or(0);
            let buffer = memory.global.allocate_uninitialised(elements * s.dtype.size());
            scratch.push(memory.global.buffers[buffer].address);
        }
        let mut first: Option<(FaultSite, u64)> = None;
        for (step, variants) in lowered.steps.iter().enumerate() {
            if step == 0 || call.has_blocks(variants, DeviceNumbers::SIMULATED, &mut Vec::new()) {
                run_kernel(variants, &call, &scratch, &mut memory, &mut first)?;
            }
        }
        fault = fault.or(first);
    }
    check_results(&call, &memory)?;
    memory.give_back(&host, regions)?;
    match fault {
        None => Ok(()),
        Some((site, word)) => {
            let fault = site_fault(&site, word, call.extents);
            Err(Error::Fault(Box::new(describe_fault(loaded.kernel(), &fault))))
        }
    }
}

/// A place with its address, shape and strides.
type OwnedPlace = (u64, Vec<usize>, Vec<isize>);

fn borrow(places: &[OwnedPlace]) -> Vec<Place<'_>> {
    places.iter().map(|(address, shape, strides)| Place { address: *address, shape, strides }).collect()
}

/// Runs the first variant that fits. Of its faults the one of the least node is kept.
fn run_kernel(
    variants: &[LoweredKernel],
    call: &BoundCall<'_>,
    scratch: &[u64],
    memory: &mut Memory,
    fault: &mut Option<(FaultSite, u64)>,
) -> Result<(), Error> {
    let most = variants.iter().map(|v| v.faults.len()).max().unwrap_or(0);
    let words = memory.global.allocate(vec![0xff; 8 * most]);
    let words_address = memory.global.buffers[words].address;
    let finding = |kernel: &str, what: String| Error::Simulator(Box::new(Finding::new(call, kernel, what)));
    let name = |variant: &LoweredKernel| variant.kernel.name.clone();
    for variant in variants {
        let argument = |p| call.argument(p, scratch, words_address, DeviceNumbers::SIMULATED);
        let args: Option<Vec<LaunchArg>> = variant.kernel.params.iter().map(argument).collect();
        let Some(args) = args else {
            return Err(finding(&name(variant), "it has a parameter that a call cannot give".to_owned()));
        };
        if !variant.kernel.requires.iter().all(|condition| condition.holds(&args)) {
            continue;
        }
        let args: Vec<Argument> = args.iter().map(|arg| memory.argument(arg)).collect();
        let report = simulate_kernel(&variant.kernel, &mut memory.global, &args, &SimulateOptions::default())
            .map_err(|error| finding(&name(variant), error.to_string()))?;
        if let Some(first) = report.faults.first() {
            return Err(finding(&name(variant), first.to_string()));
        }
        for (site, word) in variant.faults.iter().zip(memory.words(words)) {
            if word != u64::MAX && fault.is_none_or(|(found, _)| site.node < found.node) {
                *fault = Some((*site, word));
            }
        }
        return Ok(());
    }
    let name = variants.first().map(name).unwrap_or_default();
    Err(finding(&name, "no variant fits the call".to_owned()))
}

/// A fault as it is noted by a kernel.
pub(crate) fn site_fault(site: &FaultSite, word: u64, extents: &[i64]) -> CpuFault {
    let index = match site.kind {
        FaultKind::DivisionByZero(_) => None,
        FaultKind::OutOfRange(axis) => {
            Some((i64::from(word as u32 as i32), extents.get(axis.index()).copied().unwrap_or(0)))
        }
    };
    CpuFault { group: GroupId(0), node: site.node, position: Vec::new(), index }
}

/// Marks the elements of the results, which the kernels must all write, as unwritten.
fn unwrite_results(call: &BoundCall<'_>, memory: &mut Memory) {
    for_each_result(call, |number, place, size| {
        let of = RegionOf::Result(number);
        let Some(mapping) = memory.mappings.iter().find(|m| m.of == of) else { return Ok(()) };
        let buffer = &mut memory.global.buffers[mapping.buffer];
        let len = buffer.bytes.len();
        let written = buffer.written.get_or_insert_with(|| vec![true; len]);
        for_each_element(place, |offset| {
            let at = (place.address - mapping.first) as i64 + offset as i64 * size as i64;
            written[at as usize..at as usize + size].fill(false);
            Ok(())
        })
    })
    .unwrap_or_default();
}

/// Checks that every element of every result was written.
fn check_results(call: &BoundCall<'_>, memory: &Memory) -> Result<(), Error> {
    for_each_result(call, |_, place, size| {
        let found = memory
            .global
            .buffers
            .iter()
            .find(|b| place.address >= b.address && place.address < b.address + b.bytes.len() as u64);
        let Some((buffer, written)) = found.and_then(|b| Some((b, b.written.as_ref()?))) else {
            return Ok(());
        };
        let mut element = 0;
        for_each_element(place, |offset| {
            let at = (place.address - buffer.address) as i64 + offset as i64 * size as i64;
            if written[at as usize..at as usize + size].contains(&false) {
                let what = format!("element {element} of a result is never written");
                return Err(Error::Simulator(Box::new(Finding::new(call, &call.program.kernel.name, what))));
            }
            element += 1;
            Ok(())
        })
    })
}

/// Calls `f` with the number and the place of each result, and the size of its elements.
fn for_each_result(
    call: &BoundCall<'_>,
    mut f: impl FnMut(usize, &Place<'_>, usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let kernel = &call.program.kernel;
    for output in &kernel.outputs {
        if let OutputTarget::Result { index, .. } = output.target
            && let Some(place) = call.place(BufferRef::Result(index))
        {
            f(index as usize, place, kernel.node(output.value).ty.dtype.size())?;
        }
    }
    Ok(())
}

/// Calls `f` with the offset of each element, row-major, in elements.
fn for_each_element(place: &Place<'_>, mut f: impl FnMut(isize) -> Result<(), Error>) -> Result<(), Error> {
    let count: usize = place.shape.iter().product();
    for mut k in 0..count {
        let mut offset = 0;
        for (&n, &stride) in place.shape.iter().zip(place.strides).rev() {
            offset += (k % n) as isize * stride;
            k /= n;
        }
        f(offset)?;
    }
    Ok(())
}

impl Mapping {
    fn holds(&self, address: u64) -> bool {
        address >= self.first && address - self.first < self.bytes
    }
}

impl Memory {
    fn new(regions: &[MemoryRegion<'_>]) -> Result<Memory, Error> {
        let mut global = GlobalMemory::default();
        let mut mappings = Vec::new();
        for region in regions.iter().filter(|region| region.storage.bytes() > 0) {
            let bytes = region.storage.bytes();
            let buffer = if region.fresh {
                global.allocate_uninitialised(bytes)
            } else {
                let mut content = vec![0; bytes];
                region.storage.copy_to_host(0, &mut content)?;
                global.allocate(content)
            };
            let (of, first) = (region.of, region.storage.address());
            mappings.push(Mapping { of, first, bytes: bytes as u64, buffer });
        }
        Ok(Memory { global, mappings })
    }

    /// The simulated address for one of the host; for a tensor without elements that of an allocation of its own.
    /// Intermediate buffers may lie in the memory of results.
    fn address(&mut self, host: u64, of: RegionOf) -> u64 {
        let fits = |m: &&Mapping| match of {
            RegionOf::Temp => !matches!(m.of, RegionOf::Param(_)),
            RegionOf::Param(_) | RegionOf::Result(_) => m.of == of,
        };
        match self.mappings.iter().filter(fits).find(|mapping| mapping.holds(host)) {
            Some(mapping) => self.global.buffers[mapping.buffer].address + (host - mapping.first),
            None => {
                let empty = self.global.allocate(Vec::new());
                self.global.buffers[empty].address
            }
        }
    }

    /// An argument as the simulator takes it: allocations are apart, so that an address says which one it is of.
    fn argument(&self, arg: &LaunchArg) -> Argument {
        match *arg {
            LaunchArg::Scalar(value) => Argument::Scalar(value),
            LaunchArg::Pointer(address) => {
                let buffer = self.global.buffers.partition_point(|b| b.address <= address).saturating_sub(1);
                Argument::Pointer { buffer, offset: address - self.global.buffers[buffer].address }
            }
        }
    }

    /// The words of faults.
    fn words(&self, buffer: usize) -> impl Iterator<Item = u64> {
        let words = self.global.buffers[buffer].bytes.chunks_exact(8);
        words.map(|word| word.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)))
    }

    /// Copies the elements that may be written back to the host; finds what else was written.
    fn give_back(&self, call: &BoundCall<'_>, regions: &[MemoryRegion<'_>]) -> Result<(), Error> {
        // Nothing is written back before everything has been looked at: regions may be parts of one storage.
        let mut written = Vec::new();
        for region in regions.iter().filter(|region| region.storage.bytes() > 0) {
            let mapping = self.mappings.iter().find(|m| m.of == region.of);
            let (place, size, name) = match region.of {
                RegionOf::Param(k) => {
                    (call.params[k], param_size(call, k), &call.program.kernel.params[k].name)
                }
                RegionOf::Result(k) => (call.results[k], result_size(call, k), &call.program.kernel.name),
                RegionOf::Temp => continue,
            };
            let Some(bytes) = mapping.map(|m| &self.global.buffers[m.buffer].bytes) else { continue };
            let mut before = vec![0; bytes.len()];
            if !region.fresh {
                region.storage.copy_to_host(0, &mut before)?;
            }
            if region.written {
                for_each_element(&place, |offset| {
                    let first = (place.address - region.storage.address()) as i64;
                    let at = (first + offset as i64 * size as i64) as usize;
                    before[at..at + size].copy_from_slice(&bytes[at..at + size]);
                    written.push((region.storage, at, &bytes[at..at + size]));
                    Ok(())
                })?;
            }
            if !region.fresh && before != *bytes {
                let what = format!("memory of `{name}` that is not its to write was written");
                return Err(Error::Simulator(Box::new(Finding::new(call, &call.program.kernel.name, what))));
            }
        }
        written.into_iter().try_for_each(|(storage, at, bytes)| storage.copy_from_host(at, bytes))
    }
}

/// The size of an element of a parameter.
fn param_size(call: &BoundCall<'_>, k: usize) -> usize {
    match &call.program.kernel.params[k].kind {
        ParamKind::Tensor { dtype, .. } | ParamKind::Scalar { dtype } => dtype.size(),
        ParamKind::Axis { .. } => 8,
    }
}

/// The size of an element of a component of the result.
fn result_size(call: &BoundCall<'_>, k: usize) -> usize {
    let mut found = 1;
    let noted = for_each_result(call, |number, _, size| {
        if number == k {
            found = size;
        }
        Ok(())
    });
    debug_assert!(noted.is_ok());
    found
}
