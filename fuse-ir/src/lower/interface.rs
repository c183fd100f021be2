//! The parameters of a lowered kernel, made when something first needs them.

use super::Scratch;
use super::body::Emitter;
use crate::dtype::DType;
use crate::graph::{Kernel, OutputTarget, ParamKind as GraphParam};
use crate::id::{ArgId, AxisId, GroupId, ParamId};
use crate::index_map::{Extent, IndexExpr};
use crate::kernel_ir::{DeviceNumber, Expr, Origin, ParamKind, Usage};
use crate::program::Program;
use crate::schedule::{BufferRef, ScheduledGroup};
use std::collections::BTreeMap;

/// Which parameter stands for what.
#[derive(Debug, Default)]
pub(super) struct Interface {
    buffers: BTreeMap<BufferRef, ArgId>,
    strides: BTreeMap<(BufferRef, u32), ArgId>,
    extents: Vec<(Extent, DType, ArgId)>,
    scalars: BTreeMap<ParamId, ArgId>,
    faults: Option<ArgId>,
}

/// What the groups of a launch do with each buffer, and which share memory with another.
pub(super) fn find_usage(program: &Program, groups: &[ScheduledGroup]) -> BTreeMap<BufferRef, (Usage, bool)> {
    let mut found: BTreeMap<BufferRef, (bool, bool)> = BTreeMap::new();
    for group in groups.iter().flat_map(ScheduledGroup::loops) {
        for operand in &group.operands {
            if let crate::schedule::Operand::Buffer { buffer, .. } = operand {
                found.entry(*buffer).or_default().0 = true;
            }
        }
        for store in &group.stores {
            found.entry(store.buffer).or_default().1 = true;
        }
    }
    let shares = |buffer: BufferRef| {
        program.plan.in_place.iter().any(|(_, a, b)| a != b && (*a == buffer || *b == buffer))
    };
    found
        .into_iter()
        .map(|(buffer, (reads, writes))| {
            let usage = match (reads, writes) {
                (_, false) => Usage::Read,
                (false, true) => Usage::Write,
                (true, true) => Usage::ReadWrite,
            };
            (buffer, (usage, !shares(buffer)))
        })
        .collect()
}

/// What a buffer is called.
fn name_buffer(kernel: &Kernel, program: &Program, buffer: BufferRef) -> String {
    let origin = |node: crate::id::NodeId| kernel.origins.get(node.index()).and_then(|o| o.name.clone());
    match buffer {
        BufferRef::Param(p) => kernel.param(p).name.clone(),
        BufferRef::Result(r) => {
            let value = kernel.outputs.iter().find_map(|o| match o.target {
                OutputTarget::Result { index, .. } if index == r => Some(o.value),
                OutputTarget::Result { .. } | OutputTarget::Param { .. } => None,
            });
            let only = kernel.outputs.len() == 1;
            let plain = if only { "out".to_owned() } else { format!("out{r}") };
            value.and_then(origin).filter(|n| !only && !n.is_empty()).unwrap_or(plain)
        }
        BufferRef::Temp(t) => {
            let node = program.plan.temps.get(t.index()).map(|t| t.node);
            node.and_then(origin).unwrap_or_else(|| format!("temp{}", t.0))
        }
    }
}

impl Emitter<'_> {
    /// The pointer of a buffer.
    pub(super) fn pointer(&mut self, buffer: BufferRef, dtype: DType) -> ArgId {
        if let Some(id) = self.interface.buffers.get(&buffer) {
            return *id;
        }
        let name = name_buffer(&self.program.kernel, self.program, buffer);
        let (usage, unaliased) = self.usage.get(&buffer).copied().unwrap_or((Usage::ReadWrite, false));
        let kind = ParamKind::Pointer { dtype, usage, align: dtype.size() as u32, unaliased };
        let id = self.builder.param(&name, kind, Origin::Buffer(buffer));
        self.interface.buffers.insert(buffer, id);
        id
    }

    /// The stride of a buffer along an axis, of the index dtype.
    pub(super) fn stride(&mut self, buffer: BufferRef, axis: u32, name: AxisId) -> ArgId {
        if let Some(id) = self.interface.strides.get(&(buffer, axis)) {
            return *id;
        }
        let (program, axis_name) = (self.program, self.axis_name(name));
        let wish = format!("{}_stride_{axis_name}", name_buffer(&program.kernel, program, buffer));
        let kind = ParamKind::Scalar { dtype: self.index, multiple_of: 1 };
        let id = self.builder.param(&wish, kind, Origin::Stride { buffer, axis });
        self.interface.strides.insert((buffer, axis), id);
        id
    }

    /// A number that the shapes decide, as a parameter of that dtype.
    pub(super) fn extent_arg(&mut self, extent: &Extent, dtype: DType) -> ArgId {
        let name = match extent {
            IndexExpr::Extent(axis) => self.axis_name(*axis),
            IndexExpr::Param(p) => self.program.kernel.param(*p).name.clone(),
            _ => "size".to_owned(),
        };
        self.named_extent(&name, extent, dtype)
    }

    /// The same by a name of the caller's, if it is not a parameter yet.
    pub(super) fn named_extent(&mut self, name: &str, extent: &Extent, dtype: DType) -> ArgId {
        if let Some((_, _, id)) = self.interface.extents.iter().find(|(e, d, _)| e == extent && *d == dtype) {
            return *id;
        }
        let kind = ParamKind::Scalar { dtype, multiple_of: 1 };
        let id = self.builder.param(name, kind, Origin::Extent(extent.clone()));
        self.interface.extents.push((extent.clone(), dtype, id));
        id
    }

    /// A number that the shapes decide, of the index dtype; literals as they are.
    pub(super) fn extent(&mut self, extent: &Extent) -> Expr {
        match extent {
            IndexExpr::Const(n) => self.number(*n as u64),
            _ => Expr::Param(self.extent_arg(extent, self.index)),
        }
    }

    /// A scalar of the user, in its compute dtype.
    pub(super) fn user_scalar(&mut self, param: ParamId) -> Expr {
        if let Some(id) = self.interface.scalars.get(&param) {
            return Expr::Param(*id);
        }
        let given = self.program.kernel.param(param);
        let (dtype, source) = match &given.kind {
            GraphParam::Scalar { dtype } => (dtype.compute(), Origin::Scalar(param)),
            GraphParam::Axis { .. } | GraphParam::Tensor { .. } => {
                (DType::I64, Origin::Extent(IndexExpr::Param(param)))
            }
        };
        let name = given.name.clone();
        let id = self.builder.param(&name, ParamKind::Scalar { dtype, multiple_of: 1 }, source);
        self.interface.scalars.insert(param, id);
        Expr::Param(id)
    }

    /// A number of the device that the kernel is launched on.
    pub(super) fn device_number(&mut self, number: DeviceNumber) -> ArgId {
        let known = self.builder.kernel().params.iter().position(|p| p.source == Origin::Device(number));
        match known {
            Some(k) => ArgId::from_index(k),
            None => {
                let kind = ParamKind::Scalar { dtype: DType::U32, multiple_of: 1 };
                self.builder.param(number.name(), kind, Origin::Device(number))
            }
        }
    }

    /// Where faults are noted.
    pub(super) fn faults_pointer(&mut self) -> ArgId {
        if let Some(id) = self.interface.faults {
            return id;
        }
        let kind =
            ParamKind::Pointer { dtype: DType::U64, usage: Usage::ReadWrite, align: 8, unaliased: true };
        let id = self.builder.param("faults", kind, Origin::Faults);
        self.interface.faults = Some(id);
        id
    }

    /// Scratch memory that a group knows by `key`, the same in every kernel of the launch.
    pub(super) fn scratch_pointer(&mut self, key: (GroupId, u32), scratch: Scratch, usage: Usage) -> ArgId {
        let dtype = scratch.dtype;
        let number = self.scratch_keys.iter().position(|k| *k == key).unwrap_or(self.scratch.len());
        if number == self.scratch.len() {
            self.scratch.push(scratch);
            self.scratch_keys.push(key);
        }
        let kind = ParamKind::Pointer { dtype, usage, align: 16, unaliased: true };
        self.builder.param("scratch", kind, Origin::Scratch(number as u32))
    }

    /// The user's name of an axis, in small letters.
    pub(super) fn axis_name(&self, axis: AxisId) -> String {
        self.program.kernel.axes.get(axis.index()).map_or("axis".into(), |a| a.name.to_lowercase())
    }
}
