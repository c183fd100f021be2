//! Calls of functions in which transcendental functions follow one another, written out as operations of the stage.
//!
//! A loop is cut where transcendental functions depend on one another (see [`super::segment`]), and a call is one value of
//! the loop. So that a chain is cut in an `#[op]` as it is in the body of a kernel, the calls of such ops are replaced by
//! their operations. Ops with branches, loops or faults stay calls, and so do all that have no chain inside.

use fuse_ir::dtype::Value;
use fuse_ir::graph::{Kernel, MapFn};
use fuse_ir::id::{FnId, ValueId, VarId};
use fuse_ir::scalar::{Expr, ScalarFn, ScalarOp, Stmt};
use fuse_ir::schedule::{BodyOp, BodyValue, ScheduledGroup};
use fuse_ir::stage::{Stage, find_faulting_functions};
use std::collections::BTreeMap;

/// A function of more operations stays a call.
const MOST_OPERATIONS: usize = 128;

/// The group and the stage with the calls of such functions written out; the same if there are none. What the stage is
/// given and gives stays as it is.
pub(super) fn inline_chains(
    kernel: &Kernel,
    group: &ScheduledGroup,
    stage: &Stage,
) -> Option<(ScheduledGroup, Stage)> {
    let chains = find_chains(&kernel.functions);
    let called = |v: &ValueId| match &group.value(*v).op {
        BodyOp::Map { function: MapFn::Call { function, .. }, .. } => chains[function.index()] >= Some(2),
        _ => false,
    };
    if !stage.values.iter().any(called) {
        return None;
    }
    let mut inliner = Inliner {
        kernel,
        chains: &chains,
        group: group.clone(),
        values: Vec::new(),
        made: BTreeMap::new(),
        constants: Vec::new(),
    };
    for &v in &stage.values {
        if called(&v) {
            inliner.write_out(v);
        } else {
            inliner.values.push(v);
        }
    }
    let stage = Stage { values: inliner.values, ..stage.clone() };
    Some((inliner.group, stage))
}

/// For each function the most transcendental functions that a path through it meets; `None` if it stays a call.
fn find_chains(functions: &[ScalarFn]) -> Vec<Option<usize>> {
    let faulting = find_faulting_functions(functions);
    let mut chains: Vec<Option<usize>> = Vec::with_capacity(functions.len());
    for (function, faults) in functions.iter().zip(faulting) {
        chains.push(if faults { None } else { chain_of(function, &chains) });
    }
    chains
}

fn chain_of(function: &ScalarFn, earlier: &[Option<usize>]) -> Option<usize> {
    let mut depths = vec![0; function.variables.len()];
    let mut operations = 0;
    for stmt in &function.body {
        let Stmt::Assign { variable, value } = stmt else { return None };
        depths[variable.index()] = depth_of(value, &depths, earlier, &mut operations)?;
    }
    let results = function.results.iter().map(|e| depth_of(e, &depths, earlier, &mut operations));
    let deepest = results.collect::<Option<Vec<usize>>>()?.into_iter().max().unwrap_or(0);
    (operations <= MOST_OPERATIONS).then_some(deepest)
}

fn depth_of(
    expr: &Expr,
    depths: &[usize],
    earlier: &[Option<usize>],
    operations: &mut usize,
) -> Option<usize> {
    let (args, own) = match expr {
        Expr::Constant(_) => return Some(0),
        Expr::Variable(v) => return Some(depths[v.index()]),
        Expr::Op(op, args) => (args, usize::from(op.is_transcendental())),
        Expr::Call { function, args, .. } => (args, earlier[function.index()]?),
    };
    *operations += 1;
    let mut deepest = 0;
    for arg in args {
        deepest = deepest.max(depth_of(arg, depths, earlier, operations)?);
    }
    Some(deepest + own)
}

struct Inliner<'a> {
    kernel: &'a Kernel,
    chains: &'a [Option<usize>],
    group: ScheduledGroup,
    /// The values of the stage so far.
    values: Vec<ValueId>,
    /// What was made of which operands, so that the results of one call share what they have in common.
    made: BTreeMap<(ScalarOp, Vec<ValueId>), ValueId>,
    constants: Vec<(Value, ValueId)>,
}

/// The value of each variable at one point of a function.
type Frame = Vec<Option<ValueId>>;

impl Inliner<'_> {
    /// Replaces a call: the operations come before it, and it becomes the last of them.
    fn write_out(&mut self, v: ValueId) {
        let call = self.group.values[v.index()].clone();
        let BodyOp::Map { function: MapFn::Call { function, result }, args } = &call.op else { return };
        let value = self.call(*function, args, *result, &call);
        // The name of the call stays with the value of that name.
        let same = BodyOp::Map { function: MapFn::Op(ScalarOp::Cast(call.dtype)), args: vec![value] };
        self.group.values[v.index()].op = same;
        self.values.push(v);
    }

    fn call(&mut self, function: FnId, args: &[ValueId], result: u32, call: &BodyValue) -> ValueId {
        let callee = &self.kernel.functions[function.index()];
        let mut frame: Frame = vec![None; callee.variables.len()];
        for (slot, &arg) in frame.iter_mut().zip(args) {
            *slot = Some(arg);
        }
        let needed = find_needed(callee, result);
        for (k, stmt) in callee.body.iter().enumerate() {
            if let (Stmt::Assign { variable, value }, true) = (stmt, needed[k]) {
                frame[variable.index()] = Some(self.expr(value, &frame, callee, call));
            }
        }
        self.expr(&callee.results[result as usize], &frame, callee, call)
    }

    fn expr(&mut self, expr: &Expr, frame: &Frame, callee: &ScalarFn, call: &BodyValue) -> ValueId {
        match expr {
            Expr::Constant(value) => self.constant(*value, call),
            // Every local is assigned before it is read; the zero is never seen.
            Expr::Variable(v) => match frame[v.index()] {
                Some(value) => value,
                None => self.constant(Value::zero(callee.variables[v.index()].dtype), call),
            },
            Expr::Op(op, args) => {
                let args: Vec<ValueId> = args.iter().map(|a| self.expr(a, frame, callee, call)).collect();
                self.operation(*op, args, call)
            }
            Expr::Call { function, args, result } => {
                let args: Vec<ValueId> = args.iter().map(|a| self.expr(a, frame, callee, call)).collect();
                debug_assert!(self.chains[function.index()].is_some(), "the caller would stay a call");
                self.call(*function, &args, *result, call)
            }
        }
    }

    fn operation(&mut self, op: ScalarOp, args: Vec<ValueId>, call: &BodyValue) -> ValueId {
        if let Some(&value) = self.made.get(&(op, args.clone())) {
            return value;
        }
        let dtypes: Vec<_> = args.iter().map(|a| self.group.value(*a).dtype).collect();
        let dtype = op.result_dtype(&dtypes).unwrap_or(call.dtype);
        let value = self.push(BodyOp::Map { function: MapFn::Op(op), args: args.clone() }, dtype, call);
        self.values.push(value);
        self.made.insert((op, args), value);
        value
    }

    fn constant(&mut self, value: Value, call: &BodyValue) -> ValueId {
        if let Some(&(_, made)) = self.constants.iter().find(|(known, _)| same_bits(*known, value)) {
            return made;
        }
        let made = self.push(BodyOp::Constant(value), value.dtype(), call);
        self.constants.push((value, made));
        made
    }

    fn push(&mut self, op: BodyOp, dtype: fuse_ir::dtype::DType, call: &BodyValue) -> ValueId {
        self.group.values.push(BodyValue { op, dtype, level: call.level, node: None });
        ValueId::from_index(self.group.values.len() - 1)
    }
}

fn same_bits(a: Value, b: Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(x), Some(y)) => a.dtype() == b.dtype() && x.to_bits() == y.to_bits(),
        _ => a == b,
    }
}

/// Which assignments of a function one of its results needs.
fn find_needed(function: &ScalarFn, result: u32) -> Vec<bool> {
    let mut read = vec![false; function.variables.len()];
    mark_read(&function.results[result as usize], &mut read);
    let mut needed = vec![false; function.body.len()];
    for (k, stmt) in function.body.iter().enumerate().rev() {
        if let Stmt::Assign { variable: VarId(v), value } = stmt
            && std::mem::take(&mut read[*v as usize])
        {
            needed[k] = true;
            mark_read(value, &mut read);
        }
    }
    needed
}

fn mark_read(expr: &Expr, read: &mut [bool]) {
    match expr {
        Expr::Constant(_) => {}
        Expr::Variable(v) => read[v.index()] = true,
        Expr::Op(_, args) | Expr::Call { args, .. } => args.iter().for_each(|a| mark_read(a, read)),
    }
}
