//! Which values are the same for all threads of a block, or all lanes of a warp.
//!
//! Conservative: what is not known to be equal may differ. Loads at an equal index give equal values, because a kernel
//! with a race has no meaning.

use crate::dtype::Value;
use crate::kernel_ir::expr::{Builtin, Expr};
use crate::kernel_ir::stmt::{Block, ShuffleKind, Source, Stmt, Target};
use crate::kernel_ir::{Kernel, WARP};
use crate::scalar::ScalarOp;

/// Over whom a value is the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Reach {
    /// All threads of a block.
    Block,
    /// All lanes of a warp.
    Warp,
    /// Nobody but the lane.
    Lane,
}

/// How far each local and each array (as a whole) is the same.
pub(super) struct Uniformity {
    locals: Vec<Reach>,
    arrays: Vec<Reach>,
    changed: bool,
}

impl Uniformity {
    /// Starts with everything the same and lowers until nothing changes.
    pub(super) fn compute(kernel: &Kernel) -> Self {
        let mut result = Uniformity {
            locals: vec![Reach::Block; kernel.locals.len()],
            arrays: vec![Reach::Block; kernel.arrays.len()],
            changed: true,
        };
        while std::mem::take(&mut result.changed) {
            result.walk(kernel, &kernel.body, Reach::Block);
        }
        result
    }

    /// Over whom an expression is the same.
    pub(super) fn of(&self, kernel: &Kernel, e: &Expr) -> Reach {
        let block = kernel.geometry.block;
        match e {
            Expr::Const(_) | Expr::Param(_) | Expr::Fact(_) => Reach::Block,
            Expr::Local(id) => self.locals.get(id.index()).copied().unwrap_or(Reach::Lane),
            Expr::Element(id, _) => self.arrays.get(id.index()).copied().unwrap_or(Reach::Lane),
            Expr::Builtin(Builtin::Block(_) | Builtin::GridDim(_)) => Reach::Block,
            Expr::Builtin(Builtin::Thread(d)) if block.get(usize::from(*d)) == Some(&1) => Reach::Block,
            Expr::Builtin(Builtin::Thread(1 | 2)) if block[0].is_multiple_of(WARP) => Reach::Warp,
            Expr::Builtin(Builtin::Warp) if kernel.geometry.threads() == WARP => Reach::Block,
            Expr::Builtin(Builtin::Warp) => Reach::Warp,
            Expr::Builtin(Builtin::Thread(_) | Builtin::Lane) => Reach::Lane,
            Expr::Op(ScalarOp::Div, args) if is_warp_number(kernel, args, |n| n % WARP == 0) => Reach::Warp,
            Expr::Op(ScalarOp::Shr, args) if is_warp_number(kernel, args, |n| (5..32).contains(&n)) => {
                Reach::Warp
            }
            Expr::Op(_, args) | Expr::Pack(_, args) => {
                args.iter().map(|a| self.of(kernel, a)).max().unwrap_or(Reach::Block)
            }
            Expr::Unpack(_, _, word) => self.of(kernel, word),
        }
    }

    fn lower(&mut self, local: Option<usize>, array: Option<usize>, reach: Reach) {
        let slot = match (local, array) {
            (Some(k), _) => self.locals.get_mut(k),
            (None, Some(k)) => self.arrays.get_mut(k),
            (None, None) => None,
        };
        if let Some(slot) = slot
            && *slot < reach
        {
            *slot = reach;
            self.changed = true;
        }
    }

    fn walk(&mut self, kernel: &Kernel, block: &Block, control: Reach) {
        for stmt in block {
            match stmt {
                Stmt::Let { local, value } | Stmt::Register { local, value } => {
                    let reach = self.of(kernel, value);
                    self.lower(Some(local.index()), None, reach);
                }
                // Lanes that do not take part keep what they had.
                Stmt::Set { local, value } => {
                    let reach = control.max(self.of(kernel, value));
                    self.lower(Some(local.index()), None, reach);
                }
                Stmt::SetElement { array, value, .. } => {
                    let reach = control.max(self.of(kernel, value));
                    self.lower(None, Some(array.index()), reach);
                }
                Stmt::Load { target, access, .. } => {
                    let when = access.when.as_ref().map_or(Reach::Block, |e| self.of(kernel, e));
                    let reach = when.max(self.of(kernel, &access.index));
                    match target {
                        Target::Let(local) => self.lower(Some(local.index()), None, reach),
                        Target::Slots(s) => self.lower(None, Some(s.array.index()), reach.max(control)),
                    }
                }
                Stmt::Atomic { old, .. } => {
                    self.lower(old.map(|l| l.index()), None, Reach::Lane);
                }
                Stmt::LoadMatrix { target: s, .. } | Stmt::Mma { d: s, .. } => {
                    self.lower(None, Some(s.array.index()), Reach::Lane);
                }
                Stmt::Shuffle { result, kind, value, lane, width } => {
                    let one = *kind == ShuffleKind::Idx && *width == WARP;
                    let from = self.of(kernel, lane).max(Reach::Warp);
                    let reach = match self.of(kernel, value) {
                        Reach::Lane if one => from,
                        other => other,
                    };
                    self.lower(Some(result.index()), None, reach);
                }
                Stmt::Vote { result, value, .. } => {
                    let reach = self.of(kernel, value).min(Reach::Warp);
                    self.lower(Some(result.index()), None, reach);
                }
                Stmt::Call { results, args, fault, .. } => {
                    let reach = args.iter().map(|a| self.of(kernel, a)).max().unwrap_or(Reach::Block);
                    for local in results.iter().chain([fault]).flatten() {
                        self.lower(Some(local.index()), None, reach);
                    }
                }
                Stmt::If { condition, then, otherwise } => {
                    let inner = control.max(self.of(kernel, condition));
                    self.walk(kernel, then, inner);
                    self.walk(kernel, otherwise, inner);
                }
                Stmt::For { local, start, end, step, body, .. } => {
                    let [start, end, step] = [start, end, step].map(|e| self.of(kernel, e));
                    self.lower(Some(local.index()), None, start.max(step));
                    self.walk(kernel, body, control.max(start).max(end).max(step));
                }
                Stmt::Store { source: Source::Value(_) | Source::Slots(_), .. } => {}
                Stmt::Comment(_) | Stmt::Array { .. } | Stmt::CopyAsync { .. } => {}
                Stmt::CommitAsync | Stmt::WaitAsync { .. } | Stmt::Barrier(_) => {}
            }
        }
    }
}

/// Whether it is the thread's position along x by a literal for which the result is the same in a warp.
fn is_warp_number(kernel: &Kernel, args: &[Expr], fits: impl Fn(u32) -> bool) -> bool {
    let [Expr::Builtin(Builtin::Thread(0)), Expr::Const(Value::U32(n))] = args else { return false };
    kernel.geometry.block[0].is_multiple_of(WARP) && *n > 0 && fits(*n)
}
