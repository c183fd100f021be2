//! Values of a body as statements: loads, operations, faults, stores.

use super::interface::{Interface, find_usage};
use super::{
    FaultKind, FaultSite, LowerError, LowerOptions, LoweredKernel, Scratch, Structure, THREADS, streamed,
};
use crate::dtype::{DType, Value};
use crate::graph::MapFn;
use crate::id::{AxisId, FnId, GroupId, NodeId, ValueId};
use crate::index_map::{Bound, IndexExpr};
use crate::kernel_ir::build::Builder;
use crate::kernel_ir::{Access, AtomicOp, Builtin, Expr, LocalKind, Size, Stmt, Unroll, Usage};
use crate::program::Program;
use crate::scalar::ScalarOp;
use crate::schedule::{BodyOp, BufferRef, Level, Operand, ScheduledGroup, Store};
use crate::stage::find_faulting_functions;
use std::collections::BTreeMap;

/// A kernel while it is lowered.
pub(super) struct Emitter<'a> {
    pub(super) builder: Builder,
    pub(super) program: &'a Program,
    pub(super) options: &'a LowerOptions,
    pub(super) interface: Interface,
    pub(super) usage: BTreeMap<BufferRef, (Usage, bool)>,
    /// The dtype of positions: u32 or u64.
    pub(super) index: DType,
    /// Scratch memory of the launch, with what it is known by.
    pub(super) scratch: Vec<Scratch>,
    pub(super) scratch_keys: Vec<(GroupId, u32)>,
    /// Bytes of shared memory handed out in the part that is lowered, and the most of all parts.
    pub(super) shared: Size,
    shared_most: Size,
    /// Views that are written once, before a barrier.
    pub(super) settled: Vec<crate::id::ViewId>,
    faulting: Vec<bool>,
    sites: Vec<FaultSite>,
    group: GroupId,
    /// Blocks of the parts before that which is lowered.
    pub(super) blocks_before: Size,
    /// The first thing that could not be lowered.
    unsupported: Option<String>,
}

/// What is known at a place of the kernel.
#[derive(Clone, Default)]
pub(super) struct Scope {
    /// The values that are computed here, by id.
    pub(super) values: Vec<Option<Expr>>,
    /// The positions on the axes of the domain.
    pub(super) positions: BTreeMap<AxisId, Expr>,
    /// Whether this thread has work; where it is false memory is not touched and nothing faults.
    pub(super) active: Option<Expr>,
    /// The linear position in the domain, for faults; u64.
    pub(super) place: Option<Expr>,
    /// Where every buffer is dense over the domain: the linear position, which is the element of each.
    pub(super) flat: Option<Expr>,
}

impl Scope {
    /// Nothing is known.
    pub(super) fn new(group: &ScheduledGroup) -> Self {
        Scope::default().enter(group)
    }

    /// The same place in another group, of whose values none is known.
    pub(super) fn enter(&self, group: &ScheduledGroup) -> Self {
        Scope { values: vec![None; group.values.len()], ..self.clone() }
    }
}

impl<'a> Emitter<'a> {
    /// A kernel of a launch: which of its steps, and whether it folds what the step before left.
    pub(super) fn new(
        program: &'a Program,
        options: &'a LowerOptions,
        launch: usize,
        (step, folds): (usize, bool),
    ) -> Self {
        let of_launch = match program.plan.launches.len() {
            1 => program.kernel.name.clone(),
            _ => format!("{}_{launch}", program.kernel.name),
        };
        let name = match (step, folds) {
            (0, _) => of_launch,
            (_, true) => format!("{of_launch}_fold"),
            (_, false) => format!("{of_launch}_step{step}"),
        };
        let mut builder = Builder::new(&name);
        builder.launch([1.into(), 1.into(), 1.into()], [THREADS, 1, 1], 0);
        builder.kernel_mut().fast = program.kernel.fast;
        Emitter {
            builder,
            program,
            options,
            interface: Interface::default(),
            usage: find_usage(program, &program.plan.launches[launch].parts),
            index: if options.wide { DType::U64 } else { DType::U32 },
            scratch: Vec::new(),
            scratch_keys: Vec::new(),
            shared: 0.into(),
            shared_most: 0.into(),
            settled: Vec::new(),
            faulting: find_faulting_functions(&program.kernel.functions),
            sites: Vec::new(),
            group: GroupId(0),
            blocks_before: 0.into(),
            unsupported: None,
        }
    }

    /// The finished kernel.
    pub(super) fn finish(mut self) -> Result<LoweredKernel, LowerError> {
        self.builder.kernel_mut().geometry.shared_bytes = self.shared_most;
        Ok(LoweredKernel { kernel: self.builder.finish()?, faults: self.sites })
    }

    /// Lowers one group. `first` is the block where it starts, and then where the next one does.
    pub(super) fn lower_part(
        &mut self,
        group: &ScheduledGroup,
        structure: Structure,
        first: &mut Size,
        shares_launch: bool,
    ) -> Result<(), LowerError> {
        self.group = group.id;
        self.shared = 0.into();
        let block: Expr = Builtin::Block(0).into();
        let before = first.clone();
        self.blocks_before.clone_from(&before);
        self.builder.open();
        let block = match before.as_const() {
            Some(0) => block,
            _ => {
                let start = self.size_expr(&before);
                self.builder.bind("own_block", block - start)
            }
        };
        let blocks = match structure {
            Structure::Flat | Structure::Runs | Structure::Scalar => {
                self.lower_pointwise(group, structure, block, shares_launch)
            }
            Structure::Tiles => self.lower_tiled(group, block),
            Structure::ShortRows { .. } | Structure::BlockRows { .. } | Structure::Columns { .. } => {
                self.lower_rows(group, structure, block)
            }
            Structure::Chunks { .. } => self.lower_chunks(group, structure, block),
            Structure::Fold => self.lower_fold(group, block),
            Structure::Tiled(shape) => self.lower_contraction(group, shape, block, shares_launch),
            Structure::Skinny(shape) => self.lower_skinny(group, shape, block),
            Structure::Pieces => self.lower_pieces(group, block),
            Structure::Streamed(spread) => self.lower_streamed(group, spread, false, block),
            Structure::FoldStreamed => self.lower_streamed(group, streamed::Spread::PLAIN, true, block),
        };
        let body = self.builder.close();
        *first = before.clone() + blocks.clone();
        if shares_launch {
            let own: Expr = Builtin::Block(0).into();
            let (start, end) = (self.size_expr(&before), self.size_expr(first));
            let condition = own.clone().ge(start) & own.lt(end);
            self.builder.push(Stmt::If { condition, then: body, otherwise: Vec::new() });
        } else {
            body.into_iter().for_each(|s| self.builder.push(s));
        }
        self.shared_most = self.shared_most.clone().max(self.shared.clone());
        match self.unsupported.take() {
            Some(what) => Err(LowerError::Unsupported { group: group.id, what }),
            None => Ok(()),
        }
    }

    /// A size as a u32 expression; numbers of blocks fit.
    pub(super) fn size_expr(&mut self, size: &Size) -> Expr {
        let mut two = |op, a: &Size, b: &Size| Expr::op(op, vec![self.size_expr(a), self.size_expr(b)]);
        match size {
            Size::Const(n) => Expr::from(*n as u32),
            Size::Param(id) => Expr::Param(*id).cast(DType::U32),
            Size::Add(a, b) => two(ScalarOp::Add, a, b),
            Size::Sub(a, b) => two(ScalarOp::SaturatingSub, a, b),
            Size::Mul(a, b) => two(ScalarOp::Mul, a, b),
            Size::Min(a, b) => two(ScalarOp::Min, a, b),
            Size::Max(a, b) => two(ScalarOp::Max, a, b),
            Size::Div(a, b) => two(ScalarOp::Div, a, b),
            Size::CeilDiv(a, b) => {
                let (a, b) = (self.size_expr(a), self.size_expr(b));
                // Without the sum that could overflow.
                let rest = (&a % &b).lt(1u32).select(0u32, 1u32);
                a / b + rest
            }
        }
    }

    /// Notes that something has no lowering.
    pub(super) fn refuse(&mut self, what: impl Into<String>) {
        self.unsupported.get_or_insert(what.into());
    }

    /// Notes that a value is read that was not computed: the schedule is wrong.
    pub(super) fn missing(&mut self, value: ValueId) {
        self.refuse(format!("{value} is read where it is not computed"));
    }

    /// A part of the block's shared memory, aligned to 16 bytes.
    pub(super) fn share(&mut self, name: &str, dtype: DType, elements: Size) -> crate::id::ViewId {
        let view = self.builder.view(name, dtype, self.shared.clone(), elements.clone());
        self.shared = self.shared.clone() + (elements * dtype.size() as u64).round_up(16);
        view
    }

    /// What a value is called: by the user's `let`, else by its operation.
    pub(super) fn name_value(&self, group: &ScheduledGroup, id: ValueId) -> String {
        let value = group.value(id);
        let named = value.node.and_then(|n| self.program.kernel.origins.get(n.index()));
        if let Some(name) = named.and_then(|o| o.name.clone()).filter(|n| !n.is_empty()) {
            return name;
        }
        match &value.op {
            BodyOp::Load(operand) => match &group.operands[operand.index()] {
                Operand::Buffer { buffer: BufferRef::Param(p), .. } => {
                    format!("{}_value", self.program.kernel.param(*p).name)
                }
                Operand::Buffer { .. } => "loaded".into(),
                Operand::Index(_) => "position".into(),
                Operand::Mask(_) => "inside".into(),
                Operand::Check { .. } => "in_range".into(),
            },
            BodyOp::Param(_) | BodyOp::Constant(_) | BodyOp::Extent(_) => "constant".into(),
            BodyOp::Map { function: MapFn::Op(ScalarOp::Cast(to)), .. } => format!("as_{to}"),
            BodyOp::Map { function: MapFn::Op(op), .. } => op.to_string(),
            BodyOp::Map { function: MapFn::Call { function, .. }, .. } => {
                self.program.kernel.functions.get(function.index()).map_or("call".into(), |f| f.name.clone())
            }
            BodyOp::Reduce { reducer, .. } => {
                let name = format!("{reducer:?}").to_lowercase();
                name.split([' ', '{']).next().unwrap_or("reduced").to_owned()
            }
            BodyOp::CumSum { .. } => "cumsum".into(),
        }
    }

    /// The value, which must have been computed.
    pub(super) fn value(&mut self, scope: &Scope, id: ValueId) -> Expr {
        match scope.values.get(id.index()).cloned().flatten() {
            Some(e) => e,
            None => {
                self.missing(id);
                Expr::from(0u32)
            }
        }
    }

    /// Computes values in order; those that are known already are left.
    pub(super) fn compute_all(&mut self, group: &ScheduledGroup, ids: &[ValueId], scope: &mut Scope) {
        for &id in ids {
            if scope.values[id.index()].is_none() {
                let e = self.compute(group, id, scope);
                scope.values[id.index()] = Some(e);
            }
        }
    }

    /// Uniform values and, if `outer`, outer ones that need no reduction.
    pub(super) fn compute_prologue(&mut self, group: &ScheduledGroup, outer: bool, scope: &mut Scope) {
        let wanted = |id: &ValueId| (group.value(*id).level == Level::Outer) == outer;
        let ids: Vec<ValueId> = group.prologue.iter().copied().filter(wanted).collect();
        self.compute_all(group, &ids, scope);
    }

    /// One value.
    pub(super) fn compute(&mut self, group: &ScheduledGroup, id: ValueId, scope: &Scope) -> Expr {
        let name = self.name_value(group, id);
        let node = group.value(id).node;
        match &group.value(id).op {
            BodyOp::Load(operand) => match &group.operands[operand.index()] {
                Operand::Buffer { buffer, dtype, map } => {
                    let when = self.bounds(&map.bounds, scope);
                    let when = both(scope.active.clone(), when);
                    let at = self.offset(*buffer, &map.indices, scope);
                    let pointer = self.pointer(*buffer, *dtype);
                    self.builder.load(&name, pointer, at, when)
                }
                Operand::Index(e) => {
                    let e = self.index_i64(e, scope);
                    self.builder.bind(&name, e)
                }
                Operand::Mask(bounds) => {
                    let all = self.bounds(bounds, scope).unwrap_or(true.into());
                    self.builder.bind(&name, all)
                }
                Operand::Check { when, bounds } => self.check(node, &name, (when, bounds), scope),
            },
            BodyOp::Param(p) => self.user_scalar(*p),
            BodyOp::Constant(v) => Expr::Const(v.cast(v.dtype().compute())),
            BodyOp::Extent(e) => Expr::Param(self.extent_arg(e, DType::I64)),
            BodyOp::Map { function: MapFn::Op(op), args } => {
                let args: Vec<Expr> = args.iter().map(|a| self.value(scope, *a)).collect();
                if op.may_fault(self.builder.dtype_of(&args[0])) {
                    let zero = args[1].clone().equals(self.zero_like(&args[1]));
                    let site = FaultSite { node, kind: FaultKind::DivisionByZero(Some(*op)) };
                    self.note_fault(site, zero, None, scope);
                }
                self.builder.bind(&name, Expr::Op(*op, args))
            }
            BodyOp::Map { function: MapFn::Call { function, result }, args } => {
                let args: Vec<Expr> = args.iter().map(|a| self.value(scope, *a)).collect();
                self.call(&name, node, *function, args, scope)
                    .into_iter()
                    .nth(*result as usize)
                    .unwrap_or(Expr::from(0u32))
            }
            BodyOp::Reduce { .. } | BodyOp::CumSum { .. } => {
                self.missing(id);
                Expr::from(0u32)
            }
        }
    }

    /// A loop over `0..count`, the variable a u32.
    pub(super) fn repeat(
        &mut self,
        name: &str,
        count: u32,
        unroll: Unroll,
        body: impl FnOnce(&mut Self, Expr),
    ) {
        if count == 1 {
            body(self, 0u32.into());
            return;
        }
        let local = self.builder.local(name, DType::U32, LocalKind::Loop);
        self.builder.open();
        body(self, Expr::Local(local));
        let body = self.builder.close();
        let (start, end, step) = (0u32.into(), count.into(), 1u32.into());
        self.builder.push(Stmt::For { local, start, end, step, unroll, body });
    }

    /// Whether a function of the user may fault.
    pub(super) fn may_call_fault(&self, function: FnId) -> bool {
        self.faulting.get(function.index()).copied().unwrap_or(true)
    }

    fn zero_like(&mut self, e: &Expr) -> Expr {
        Expr::Const(Value::zero(self.builder.dtype_of(e)))
    }

    /// Calls a function of the user for all its results.
    pub(super) fn call(
        &mut self,
        name: &str,
        node: Option<NodeId>,
        function: FnId,
        args: Vec<Expr>,
        scope: &Scope,
    ) -> Vec<Expr> {
        let functions = &self.program.kernel.functions;
        if self.builder.kernel().functions.is_empty() {
            self.builder.kernel_mut().functions = functions.clone();
        }
        let Some(callee) = functions.get(function.index()) else {
            self.refuse(format!("{function} does not exist"));
            return Vec::new();
        };
        let mut results = Vec::new();
        for value in &callee.results {
            let dtype = callee.expr_dtype(functions, value).unwrap_or(DType::F32).compute();
            results.push(Some(self.builder.local(name, dtype, LocalKind::Let)));
        }
        let faults = self.may_call_fault(function);
        let fault = faults.then(|| self.builder.local("divides_by_zero", DType::Bool, LocalKind::Let));
        self.builder.push(Stmt::Call { results: results.clone(), function, args, fault });
        if let Some(fault) = fault {
            let site = FaultSite { node, kind: FaultKind::DivisionByZero(None) };
            self.note_fault(site, fault.into(), None, scope);
        }
        results.into_iter().flatten().map(Expr::Local).collect()
    }

    /// Whether all bounds hold; a fault where those of `when` hold and one of them does not.
    fn check(
        &mut self,
        node: Option<NodeId>,
        name: &str,
        (when, bounds): (&[Bound], &[Bound]),
        scope: &Scope,
    ) -> Expr {
        let wanted = self.bounds(when, scope);
        let mut all: Option<Expr> = None;
        for bound in bounds {
            let one = self.bound(bound, scope);
            let one = self.builder.bind(name, one);
            let fails = one.clone().unary(ScalarOp::Not);
            // Of several bounds the first that fails is the fault.
            let fails = both(all.clone(), both(wanted.clone(), Some(fails))).unwrap_or(false.into());
            let axis = if let IndexExpr::Extent(axis) = bound.extent { axis } else { AxisId(0) };
            let index = self.index_i64(&bound.expr, scope);
            self.note_fault(FaultSite { node, kind: FaultKind::OutOfRange(axis) }, fails, Some(index), scope);
            all = both(all, Some(one));
        }
        let all = all.unwrap_or(true.into());
        self.builder.bind(name, all)
    }

    /// Notes a fault of this thread where `condition` holds.
    pub(super) fn note_fault(
        &mut self,
        site: FaultSite,
        condition: Expr,
        index: Option<Expr>,
        scope: &Scope,
    ) {
        let number = self.sites.iter().position(|s| *s == site).unwrap_or(self.sites.len());
        if number == self.sites.len() {
            self.sites.push(site);
        }
        let faults = self.faults_pointer();
        let condition = both(scope.active.clone(), Some(condition)).unwrap_or(false.into());
        let place = scope.place.clone().unwrap_or(Expr::from(0u64)).min(Expr::from(u64::from(u32::MAX)));
        let low = match index {
            Some(index) => {
                let held = index.max(Expr::from(i64::from(i32::MIN))).min(Expr::from(i64::from(i32::MAX)));
                held.cast(DType::I32).cast(DType::U32).cast(DType::U64)
            }
            None => Expr::from(0u64),
        };
        self.builder.if_then(condition, |b| {
            let key = b.bind("fault", (place << 32u32) | low);
            b.atomic(AtomicOp::Min, faults, Expr::from(number as u32), key, None);
        });
    }

    /// Stores a value at the position of the scope.
    pub(super) fn store(&mut self, group: &ScheduledGroup, store: &Store, scope: &Scope) {
        let value = self.value(scope, store.value);
        self.store_value(group, store, value, scope);
    }

    /// Stores `value` where `store` says.
    pub(super) fn store_value(&mut self, _: &ScheduledGroup, store: &Store, value: Expr, scope: &Scope) {
        let at = self.offset(store.buffer, &store.indices, scope);
        let pointer = self.pointer(store.buffer, store.dtype);
        let access = Access {
            memory: pointer.into(),
            dtype: store.dtype,
            index: at,
            count: 1,
            when: scope.active.clone(),
        };
        self.builder.push(Stmt::Store { source: crate::kernel_ir::Source::Value(value), access });
    }

    /// Whether a group may write a buffer that it also reads: sweeps must then be kept apart.
    pub(super) fn overwrites(&self, group: &ScheduledGroup) -> bool {
        (0..group.stores.len() as u32).any(|number| self.writes_over(group, number, false))
    }

    /// Whether something reads what a store of this number writes over, `elsewhere` only if at other positions than it
    /// writes.
    pub(super) fn writes_over(&self, group: &ScheduledGroup, number: u32, elsewhere: bool) -> bool {
        let store = &group.stores[number as usize];
        let in_place = &self.program.plan.in_place;
        let taken_over = |buffer: &BufferRef| {
            *buffer == store.buffer
                || in_place
                    .iter()
                    .any(|(id, to, from)| *id == group.id && *to == store.buffer && from == buffer)
        };
        group.operands.iter().any(|operand| match operand {
            Operand::Buffer { buffer, map, .. } if taken_over(buffer) => {
                !elsewhere || map.indices != store.indices || !map.bounds.is_empty()
            }
            Operand::Buffer { .. } | Operand::Index(_) | Operand::Mask(_) | Operand::Check { .. } => false,
        })
    }
}

/// The conjunction of two predicates of which either may be missing.
pub(super) fn both(a: Option<Expr>, b: Option<Expr>) -> Option<Expr> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a & b),
        (Some(e), None) | (None, Some(e)) => Some(e),
        (None, None) => None,
    }
}

/// `a * b + sum`, rounded once where it rounds.
pub(super) fn multiply_add(dtype: DType, [a, b]: [Expr; 2], sum: Expr) -> Expr {
    if dtype.is_float() { Expr::op(ScalarOp::MulAdd, vec![a, b, sum]) } else { a * b + sum }
}
