//! A call of lowered kernels: what the simulator and CUDA share.
//!
//! The launches of a plan are lowered to kernel IR when a device first needs them, from the plan that the binary carries.
//! A launch is then a list of kernels, each in a few variants with requirements on the arguments; a call takes the first
//! variant whose requirements hold, and 32-bit indices where they do.

use crate::error::Error;
use fuse_ir::dtype::Value;
use fuse_ir::graph;
use fuse_ir::id::{AxisId, NodeId, ParamId};
use fuse_ir::index_map::{Extent, IndexEnv};
use fuse_ir::kernel_ir::{DeviceNumbers, LaunchArg, Origin, Param, ParamKind};
use fuse_ir::lower::{LowerOptions, LoweredKernel, LoweredLaunch, fits_narrow, lower_launch};
use fuse_ir::program::Program;
use fuse_ir::schedule::BufferRef;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The launches of a kernel, lowered for devices whose blocks have that much shared memory.
#[derive(Debug)]
pub(crate) struct LoweredProgram {
    pub(crate) shared_memory: u64,
    /// For each launch with 32-bit and with 64-bit indices.
    launches: Vec<[OnceLock<Result<LoweredLaunch, Error>>; 2]>,
}

impl LoweredProgram {
    /// A launch, lowered now if it was not yet.
    ///
    /// # Errors
    /// If there is no way to lower it.
    pub(crate) fn launch(
        &self,
        program: &Program,
        launch: usize,
        wide: bool,
    ) -> Result<&LoweredLaunch, Error> {
        let lower = || {
            let options = LowerOptions { wide, shared_memory: self.shared_memory };
            lower_launch(program, launch, &options).map_err(|error| Error::NotLowered {
                kernel: program.kernel.name.clone(),
                launch,
                what: error.to_string(),
            })
        };
        self.launches[launch][usize::from(wide)].get_or_init(lower).as_ref().map_err(Error::clone)
    }
}

/// What was lowered of a kernel, by the shared memory of devices; a process has devices of one or two sizes.
#[derive(Debug, Default)]
pub(crate) struct LoweredPrograms(Mutex<Vec<Arc<LoweredProgram>>>);

impl LoweredPrograms {
    /// The launches for devices whose blocks have that much shared memory.
    pub(crate) fn get(&self, program: &Program, shared_memory: u64) -> Arc<LoweredProgram> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = all.iter().find(|p| p.shared_memory == shared_memory) {
            return Arc::clone(found);
        }
        let launches = program.plan.launches.iter().map(|_| Default::default()).collect();
        let new = Arc::new(LoweredProgram { shared_memory, launches });
        all.push(Arc::clone(&new));
        new
    }
}

/// Where a buffer of a call lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// The address of the element at position zero.
    pub(crate) address: u64,
    /// The extent of each axis, in layout order.
    pub(crate) shape: &'a [usize],
    /// Elements from one position to the next.
    pub(crate) strides: &'a [isize],
}

impl Place<'_> {
    /// Stands for what is no tensor.
    pub(crate) const NOWHERE: Place<'static> = Place { address: 0, shape: &[], strides: &[] };

    /// The stride along an axis; along one of a single element that of a contiguous buffer, which is what kernels that
    /// treat memory as dense expect.
    fn stride(&self, axis: usize) -> Option<i64> {
        match self.shape.get(axis)? {
            0 | 1 => {
                let inner = self.shape[axis + 1..].iter().fold(1i64, |n, &k| n.wrapping_mul(k.max(1) as i64));
                Some(inner)
            }
            _ => self.strides.get(axis).map(|&s| s as i64),
        }
    }
}

/// A call whose extents are bound and whose buffers have their places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundCall<'a> {
    pub(crate) program: &'a Program,
    /// By axis.
    pub(crate) extents: &'a [i64],
    /// The value of each scalar or `Axis` parameter.
    pub(crate) scalars: &'a [Option<Value>],
    /// The same as integers, 0 for what is none.
    pub(crate) integers: &'a [i64],
    /// Of each parameter; [`Place::NOWHERE`] for scalars.
    pub(crate) params: &'a [Place<'a>],
    pub(crate) results: &'a [Place<'a>],
    pub(crate) temps: &'a [Place<'a>],
}

impl IndexEnv for BoundCall<'_> {
    fn index(&self, _: AxisId) -> i64 {
        0
    }

    fn extent(&self, axis: AxisId) -> i64 {
        self.extents.get(axis.index()).copied().unwrap_or(0)
    }

    fn param(&self, param: ParamId) -> i64 {
        self.integers.get(param.index()).copied().unwrap_or(0)
    }

    fn indirect(&self, _: NodeId) -> i64 {
        0
    }
}

impl<'a> BoundCall<'a> {
    /// Whether a launch takes 64-bit indices.
    pub(crate) fn is_wide(&self, launch: usize) -> bool {
        let stride = |buffer: BufferRef, axis: u32| {
            self.place(buffer).and_then(|place| place.stride(axis as usize)).unwrap_or(0)
        };
        !fits_narrow(self.program, launch, self.extents, self.integers, &stride)
    }

    /// A number that the shapes decide.
    pub(crate) fn number(&self, extent: &Extent) -> i64 {
        extent.eval(self)
    }

    /// Whether the variant that is launched has blocks; scratch memory need not be there yet. `args` is a list to work with.
    pub(crate) fn has_blocks(
        &self,
        variants: &[LoweredKernel],
        device: DeviceNumbers,
        args: &mut Vec<LaunchArg>,
    ) -> bool {
        for LoweredKernel { kernel, .. } in variants {
            args.clear();
            args.extend(kernel.params.iter().map_while(|param| match param.source {
                Origin::Scratch(_) => Some(LaunchArg::Pointer(0)),
                _ => self.argument(param, &[], 0, device),
            }));
            if kernel.requires.iter().all(|condition| condition.holds(args)) {
                // What cannot be launched is an error when it is.
                return kernel.evaluate_geometry(args).is_ok_and(|dims| !dims.grid.contains(&0));
            }
        }
        false
    }

    /// Elements of a scratch buffer of a launch; `None` where nobody reads it.
    pub(crate) fn scratch_elements(
        &self,
        lowered: &LoweredLaunch,
        number: usize,
        device: DeviceNumbers,
        args: &mut Vec<LaunchArg>,
    ) -> Option<usize> {
        let reader = &lowered.steps[lowered.last_reader(number)?];
        let elements = || self.number(&lowered.scratch[number].elements).max(0) as usize;
        self.has_blocks(reader, device, args).then(elements)
    }

    pub(crate) fn place(&self, buffer: BufferRef) -> Option<&'a Place<'a>> {
        match buffer {
            BufferRef::Param(p) => self.params.get(p.index()),
            BufferRef::Result(r) => self.results.get(r as usize),
            BufferRef::Temp(t) => self.temps.get(t.index()),
        }
    }

    /// What is passed for a parameter of a lowered kernel. `scratch` gives the address of each scratch buffer of the launch,
    /// `faults` is where its faults are noted. `None` if the parameter asks for what there is not.
    pub(crate) fn argument(
        &self,
        param: &Param,
        scratch: &[u64],
        faults: u64,
        device: DeviceNumbers,
    ) -> Option<LaunchArg> {
        let number = |n: i64| match param.kind {
            ParamKind::Scalar { dtype, .. } => Value::from_i128(dtype, n.into()).map(LaunchArg::Scalar),
            ParamKind::Pointer { .. } => None,
        };
        match &param.source {
            Origin::Buffer(buffer) => self.place(*buffer).map(|place| LaunchArg::Pointer(place.address)),
            Origin::Scratch(n) => scratch.get(*n as usize).copied().map(LaunchArg::Pointer),
            Origin::Faults => Some(LaunchArg::Pointer(faults)),
            Origin::Extent(extent) => number(self.number(extent)),
            Origin::Stride { buffer, axis } => {
                self.place(*buffer).and_then(|place| place.stride(*axis as usize)).and_then(number)
            }
            Origin::Scalar(p) => {
                let value = self.scalars.get(p.index()).copied().flatten()?;
                match self.program.kernel.params.get(p.index())?.kind {
                    graph::ParamKind::Scalar { .. } => Some(LaunchArg::Scalar(value.widened())),
                    graph::ParamKind::Axis { .. } => number(IndexEnv::param(self, *p)),
                    graph::ParamKind::Tensor { .. } => None,
                }
            }
            Origin::Device(which) => number(device.get(*which).into()),
            Origin::Given => None,
        }
    }
}
