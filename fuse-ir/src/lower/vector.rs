//! Runs: a few consecutive positions along one axis, computed by one thread, loaded and stored as vectors.

use super::body::{Emitter, Scope, both};
use crate::dtype::DType;
use crate::id::{AxisId, ValueId};
use crate::index_map::IndexExpr;
use crate::kernel_ir::build::{element, slots};
use crate::kernel_ir::{Condition, Expr, Memory, Stmt};
use crate::schedule::{BodyOp, BufferRef, Operand, ScheduledGroup, Store};

/// How an element moves along the axis of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Motion {
    /// By one along the buffer's axis of that number: a vector, if the stride there is one.
    Vector(usize),
    /// Not at all.
    Same,
    /// In any other way.
    Each,
}

/// How the elements that an operand loads move along `axis`.
pub(super) fn motion_of_operand(operand: &Operand, axis: AxisId) -> Motion {
    let mut uses = !operand.reads().is_empty();
    operand.for_each_expr(|e| uses |= e.uses_index(axis));
    if !uses {
        return Motion::Same;
    }
    match operand {
        Operand::Buffer { map, .. } if operand.reads().is_empty() => {
            if map.bounds.iter().any(|b| b.expr.uses_index(axis)) {
                return Motion::Each;
            }
            motion_of_indices(&map.indices, axis)
        }
        _ => Motion::Each,
    }
}

/// How an element at these indices moves along `axis`.
pub(super) fn motion_of_indices(indices: &[(AxisId, IndexExpr)], axis: AxisId) -> Motion {
    let mut moving = indices.iter().enumerate().filter(|(_, (_, e))| e.uses_index(axis));
    match (moving.next(), moving.next()) {
        (None, _) => Motion::Same,
        (Some((k, (_, e))), None) if *e == IndexExpr::Index(axis) => Motion::Vector(k),
        (Some(_), _) => Motion::Each,
    }
}

/// How a thread walks a run.
pub(super) struct Run<'r> {
    /// The axis along which it goes; of a dense domain the last.
    pub(super) axis: AxisId,
    /// How many positions it has.
    pub(super) len: u32,
    /// Inner values that are computed, in order.
    pub(super) values: &'r [ValueId],
    /// Inner stores, by number.
    pub(super) stores: &'r [u32],
    /// Values that an earlier sweep kept.
    pub(super) kept: &'r [KeptRun],
    /// Values to be kept for later sweeps.
    pub(super) keep: &'r [KeptRun],
}

/// Where the kept values of a run lie: in pieces of 16 bytes at most.
#[derive(Clone, Debug)]
pub(super) struct KeptRun {
    pub(super) value: ValueId,
    pub(super) memory: Memory,
    /// The first element of the first piece.
    pub(super) first: Expr,
    /// Elements from one piece to the next; `None` where they follow one another.
    pub(super) apart: Option<Expr>,
}

impl Emitter<'_> {
    /// What must hold for elements of a buffer to be accessed as vectors of `len`, moving along its axis `k`.
    pub(super) fn vector_conditions(
        &mut self,
        buffer: BufferRef,
        dtype: DType,
        indices: &[(AxisId, IndexExpr)],
        k: usize,
        len: u32,
    ) -> Vec<Condition> {
        let pointer = self.pointer(buffer, dtype);
        let mut conditions = vec![Condition::Aligned { pointer, bytes: len * dtype.size() as u32 }];
        for (j, (axis, e)) in indices.iter().enumerate() {
            if *e == IndexExpr::Const(0) {
                continue;
            }
            let stride = self.stride(buffer, j as u32, *axis);
            conditions.push(if j == k {
                Condition::Equal(stride.into(), 1.into())
            } else {
                Condition::Multiple { size: stride.into(), of: len.into() }
            });
        }
        conditions
    }

    /// The same where a run is walked; over a dense domain only the alignment matters.
    fn run_conditions(
        &mut self,
        buffer: BufferRef,
        dtype: DType,
        indices: &[(AxisId, IndexExpr)],
        k: usize,
        len: u32,
        scope: &Scope,
    ) -> Vec<Condition> {
        let mut conditions = self.vector_conditions(buffer, dtype, indices, k, len);
        if scope.flat.is_some() {
            conditions.truncate(1);
        }
        conditions
    }

    /// The element of the first position of a run, for an access whose stride along the run is one.
    pub(super) fn vector_offset(
        &mut self,
        buffer: BufferRef,
        indices: &[(AxisId, IndexExpr)],
        k: usize,
        scope: &Scope,
    ) -> Expr {
        if let Some(flat) = &scope.flat {
            return flat.clone();
        }
        let others: Vec<_> = indices
            .iter()
            .enumerate()
            .map(|(j, (a, e))| (*a, if j == k { IndexExpr::Const(0) } else { e.clone() }))
            .collect();
        let rest = self.offset(buffer, &others, scope);
        rest + self.index_expr(&indices[k].1, scope)
    }

    /// The fact that these conditions hold, or `None` if the kernel requires them.
    pub(super) fn fact_for(&mut self, name: &str, conditions: Vec<Condition>) -> Option<Expr> {
        let kernel = self.builder.kernel();
        if conditions.iter().all(|c| kernel.requires.contains(c)) {
            return None;
        }
        let known = kernel.facts.iter().position(|f| f.conditions == conditions);
        let id = match known {
            Some(k) => crate::id::FactId::from_index(k),
            None => self.builder.fact(name, conditions),
        };
        Some(Expr::Fact(id))
    }

    /// Computes a run. `scope` stands at its first position; `each` is called at every position with the scope there.
    pub(super) fn emit_run(
        &mut self,
        group: &ScheduledGroup,
        run: &Run<'_>,
        scope: &Scope,
        each: &mut dyn FnMut(&mut Self, &Scope, Expr),
    ) {
        let mut scope = scope.clone();
        let mut loaded = Vec::new();
        for kept in run.kept {
            let name = format!("{}_kept", self.name_value(group, kept.value));
            let array = self.builder.array(&name, group.value(kept.value).dtype.compute(), run.len, None);
            self.access_kept(array, kept, run.len, true);
            loaded.push((kept.value, array));
        }
        for &id in run.values {
            if run.kept.iter().any(|k| k.value == id) {
                continue;
            }
            let BodyOp::Load(operand) = &group.value(id).op else { continue };
            let operand = &group.operands[operand.index()];
            match (motion_of_operand(operand, run.axis), operand) {
                (Motion::Same, _) => {
                    let value = self.compute(group, id, &scope);
                    scope.values[id.index()] = Some(value);
                }
                (Motion::Vector(k), Operand::Buffer { buffer, dtype, map }) => {
                    let name = self.name_value(group, id);
                    let array = self.builder.array(&name, dtype.compute(), run.len, None);
                    let piece = piece_of(*dtype, run.len);
                    let conditions = self.run_conditions(*buffer, *dtype, &map.indices, k, piece, &scope);
                    let when = self.bounds(&map.bounds, &scope);
                    let when = both(scope.active.clone(), when);
                    let pointer = self.pointer(*buffer, *dtype);
                    self.builder.open();
                    let at = self.vector_offset(*buffer, &map.indices, k, &scope);
                    for first in (0..run.len).step_by(piece as usize) {
                        let at = &at + self.number(first.into());
                        self.builder.load_into(slots(array, first, piece), pointer, at, when.clone());
                    }
                    let vector = self.builder.close();
                    match self.fact_for(&format!("{name}_vectors").to_uppercase(), conditions) {
                        None => vector.into_iter().for_each(|s| self.builder.push(s)),
                        Some(fact) => {
                            self.builder.open();
                            self.for_each_element(run, &scope, |em, scope, e| {
                                let value = em.compute(group, id, scope);
                                em.builder.set_element(array, e, value);
                            });
                            let otherwise = self.builder.close();
                            self.builder.push(Stmt::If { condition: fact, then: vector, otherwise });
                        }
                    }
                    loaded.push((id, array));
                }
                (_, _) => {}
            }
        }
        let mut stored = Vec::new();
        for &number in run.stores {
            let store = &group.stores[number as usize];
            if let Motion::Vector(k) = motion_of_indices(&store.indices, run.axis) {
                let name = format!("{}_out", self.name_value(group, store.value));
                let array = self.builder.array(&name, store.dtype.compute(), run.len, None);
                stored.push((store, k, array));
            }
        }
        let mut keeping = Vec::new();
        for kept in run.keep {
            let id = kept.value;
            let known = loaded.iter().find(|(v, _)| *v == id).map(|(_, a)| *a);
            let array = known.unwrap_or_else(|| {
                let name = format!("{}_keep", self.name_value(group, id));
                self.builder.array(&name, group.value(id).dtype.compute(), run.len, None)
            });
            keeping.push((kept, array, known.is_none()));
        }
        let values: Vec<ValueId> = run.values.to_vec();
        self.for_each_element(run, &scope, |em, scope, e| {
            let mut scope = scope.clone();
            for (id, array) in &loaded {
                scope.values[id.index()] = Some(element(*array, &e));
            }
            em.compute_all(group, &values, &mut scope);
            for (kept, array, fresh) in &keeping {
                if *fresh {
                    let value = em.value(&scope, kept.value);
                    em.builder.set_element(*array, &e, value);
                }
            }
            for &number in run.stores {
                let store = &group.stores[number as usize];
                match stored.iter().find(|(s, _, _)| std::ptr::eq(*s, store)) {
                    Some((_, _, array)) => {
                        let value = em.value(&scope, store.value);
                        em.builder.set_element(*array, &e, value);
                    }
                    None => em.store(group, store, &scope),
                }
            }
            each(em, &scope, e);
        });
        for (kept, array, _) in keeping {
            self.access_kept(array, kept, run.len, false);
        }
        for (store, k, array) in stored {
            self.store_run(group, store, k, array, run, &scope);
        }
    }

    /// Loads or stores a run of kept values.
    fn access_kept(&mut self, array: crate::id::ArrayId, kept: &KeptRun, len: u32, load: bool) {
        let size = self.builder.kernel().memory_dtype(kept.memory).map_or(8, DType::size) as u32;
        let piece = len.min(16 / size);
        for (k, first) in (0..len).step_by(piece as usize).enumerate() {
            let distance = match &kept.apart {
                Some(apart) => apart * self.number(k as u64),
                None => self.number(first.into()),
            };
            let (index, part) = (&kept.first + distance, slots(array, first, piece));
            if load {
                self.builder.load_into(part, kept.memory, index, None);
            } else {
                self.builder.store_from(kept.memory, index, part, None);
            }
        }
    }

    fn store_run(
        &mut self,
        group: &ScheduledGroup,
        store: &Store,
        k: usize,
        array: crate::id::ArrayId,
        run: &Run<'_>,
        scope: &Scope,
    ) {
        let piece = piece_of(store.dtype, run.len);
        let conditions = self.run_conditions(store.buffer, store.dtype, &store.indices, k, piece, scope);
        let pointer = self.pointer(store.buffer, store.dtype);
        self.builder.open();
        let at = self.vector_offset(store.buffer, &store.indices, k, scope);
        for first in (0..run.len).step_by(piece as usize) {
            let at = &at + self.number(first.into());
            self.builder.store_from(pointer, at, slots(array, first, piece), scope.active.clone());
        }
        let vector = self.builder.close();
        let name = format!("{}_vectors", self.builder.kernel().param(pointer).name).to_uppercase();
        match self.fact_for(&name, conditions) {
            None => vector.into_iter().for_each(|s| self.builder.push(s)),
            Some(fact) => {
                self.builder.open();
                self.for_each_element(run, scope, |em, scope, e| {
                    em.store_value(group, store, element(array, e), scope);
                });
                let otherwise = self.builder.close();
                self.builder.push(Stmt::If { condition: fact, then: vector, otherwise });
            }
        }
    }

    /// An unrolled loop over the positions of a run.
    fn for_each_element(&mut self, run: &Run<'_>, scope: &Scope, body: impl FnOnce(&mut Self, &Scope, Expr)) {
        let local = self.builder.local("e", DType::U32, crate::kernel_ir::LocalKind::Loop);
        let e = Expr::Local(local);
        self.builder.open();
        let mut inner = scope.clone();
        let step = self.widen(e.clone());
        if let Some(first) = scope.positions.get(&run.axis) {
            let first = first.clone();
            inner.positions.insert(run.axis, first + &step);
        }
        inner.flat = scope.flat.clone().map(|f| f + &step);
        inner.place = scope.place.clone().map(|p| p + e.clone().cast(DType::U64));
        body(self, &inner, e);
        let body = self.builder.close();
        let (start, end, step) = (0u32.into(), Expr::from(run.len), 1u32.into());
        self.builder.push(Stmt::For {
            local,
            start,
            end,
            step,
            unroll: crate::kernel_ir::Unroll::Full,
            body,
        });
    }
}

/// The positions of a run that one access has: 16 bytes at most. A run may be longer, where what is computed along it is
/// narrower than what is read.
fn piece_of(dtype: DType, len: u32) -> u32 {
    len.min(16 / dtype.size() as u32)
}

/// The positions of a run for which vectors have 16 bytes: by the largest dtype that is accessed.
pub(super) fn run_length(group: &ScheduledGroup, axis: AxisId) -> Option<u32> {
    let loads = group.operands.iter().filter_map(|o| match (motion_of_operand(o, axis), o) {
        (Motion::Vector(_), Operand::Buffer { dtype, .. }) => Some(dtype.size()),
        _ => None,
    });
    let stores = group.stores.iter().filter_map(|s| match motion_of_indices(&s.indices, axis) {
        Motion::Vector(_) => Some(s.dtype.size()),
        Motion::Same | Motion::Each => None,
    });
    loads.chain(stores).max().map(|size| (16 / size) as u32)
}
