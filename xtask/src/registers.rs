//! How many registers a thread of a kernel will have, by its text alone.
//!
//! Values are counted where most are live at once: locals and arrays that are read later, the parts of the expression at
//! hand, and for an access its address and its bytes. A loop keeps what its body reads from outside. What the compiler
//! does beyond that (it moves loads ahead of their uses, and keeps addresses instead of indices) is in the constants,
//! which are chosen by what `cargo xtask ptxas` says of the kernels of tests and benches.
//!
//! The planner does not ask this: it weighs hundreds of groups of which none has a kernel yet, and to lower each would take
//! many times as long as planning does. It counts the live values of a body instead.

use fuse_ir::dtype::DType;
use fuse_ir::id::{ArrayId, LocalId};
use fuse_ir::kernel_ir::{Access, Expr, Kernel, Memory, Slots, Source, Stmt, Target, Unroll};
use std::collections::BTreeSet;

/// Registers that every kernel has: the thread's place, the stack.
const BASE: u32 = 8;
/// The most of a thread.
pub(crate) const MOST: u32 = 255;

/// What is live.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Local(LocalId),
    Array(ArrayId),
}

type Live = BTreeSet<Name>;

/// Walks a kernel backwards.
struct Walk<'a> {
    kernel: &'a Kernel,
    most: u32,
}

/// The registers of a thread of a kernel. For sm_120 the compiler takes more for most kernels: about a fifth is added.
pub(crate) fn predict(kernel: &Kernel, architecture: &str) -> u32 {
    let mut walk = Walk { kernel, most: 0 };
    let mut live = Live::new();
    walk.block(&kernel.body, &mut live);
    let registers = BASE + walk.most;
    let more = if architecture == "sm_120" { registers / 5 } else { 0 };
    (registers + more).min(MOST)
}

impl Walk<'_> {
    /// Registers of what is live.
    fn count(&self, live: &Live) -> u32 {
        let one = |name: &Name| match *name {
            Name::Local(id) => registers(self.kernel.local(id).dtype),
            Name::Array(id) => {
                let array = self.kernel.array(id);
                array.len * registers(array.dtype).max(1)
            }
        };
        live.iter().map(one).sum()
    }

    /// Makes `live` what is live before a block out of what is after it.
    fn block(&mut self, block: &[Stmt], live: &mut Live) {
        for stmt in block.iter().rev() {
            self.stmt(stmt, live);
        }
    }

    fn stmt(&mut self, stmt: &Stmt, live: &mut Live) {
        match stmt {
            Stmt::Comment(_) | Stmt::CommitAsync | Stmt::WaitAsync { .. } | Stmt::Barrier(_) => {}
            Stmt::Let { local, value } | Stmt::Register { local, value } => {
                live.remove(&Name::Local(*local));
                self.point(&[value], 0, live);
            }
            Stmt::Set { local, value } => {
                live.remove(&Name::Local(*local));
                self.point(&[value], 0, live);
            }
            Stmt::Array { array, .. } => {
                live.remove(&Name::Array(*array));
            }
            Stmt::SetElement { array, index, value } => {
                live.insert(Name::Array(*array));
                self.point(&[index, value], 0, live);
            }
            Stmt::Load { target, access, .. } => {
                match target {
                    Target::Let(local) => _ = live.remove(&Name::Local(*local)),
                    Target::Slots(slots) => _ = live.insert(Name::Array(slots.array)),
                }
                self.access(access, &[], live);
            }
            Stmt::Store { source, access } => match source {
                Source::Value(value) => self.access(access, &[value], live),
                Source::Slots(slots) => {
                    live.insert(Name::Array(slots.array));
                    self.access(access, &[&slots.first], live);
                }
            },
            Stmt::Atomic { old, access, value, .. } => {
                old.iter().for_each(|local| _ = live.remove(&Name::Local(*local)));
                self.access(access, &[value], live);
            }
            Stmt::CopyAsync { to_index, from_index, valid, .. } => {
                let parts: Vec<&Expr> = [to_index, from_index].into_iter().chain(valid).collect();
                self.point(&parts, 3, live);
            }
            Stmt::LoadMatrix { target, index, .. } => {
                live.insert(Name::Array(target.array));
                self.point(&[index, &target.first], 1, live);
            }
            Stmt::Mma { d, a, b, c, .. } => {
                let all: [&Slots; 4] = [d, a, b, c];
                all.iter().for_each(|slots| _ = live.insert(Name::Array(slots.array)));
                self.point(&all.map(|slots| &slots.first), 0, live);
            }
            Stmt::Shuffle { result, value, lane, .. } => {
                live.remove(&Name::Local(*result));
                self.point(&[value, lane], 1, live);
            }
            Stmt::Vote { result, value, .. } => {
                live.remove(&Name::Local(*result));
                self.point(&[value], 1, live);
            }
            Stmt::Call { results, function, args, fault } => {
                results.iter().flatten().chain(fault).for_each(|local| _ = live.remove(&Name::Local(*local)));
                let args: Vec<&Expr> = args.iter().collect();
                let body = self.kernel.functions.get(function.index()).map_or(0, |f| f.body.len() as u32 / 4);
                self.point(&args, body.min(12), live);
            }
            Stmt::If { condition, then, otherwise } => {
                let mut other = live.clone();
                self.block(then, live);
                self.block(otherwise, &mut other);
                live.append(&mut other);
                self.point(&[condition], 0, live);
            }
            Stmt::For { local, start, end, step, unroll, body } => {
                // What the body reads from outside is live throughout; a walk more finds it all.
                let variable = Name::Local(*local);
                let whole = *unroll == Unroll::Full;
                for _ in 0..2 {
                    if !whole {
                        live.insert(variable);
                        [end, step].into_iter().for_each(|e| names(e, live));
                    }
                    let mut inside = live.clone();
                    self.block(body, &mut inside);
                    live.append(&mut inside);
                }
                live.remove(&variable);
                self.point(&[start, end, step], 0, live);
            }
        }
    }

    /// A statement that reads these expressions and needs so many registers beside.
    fn point(&mut self, read: &[&Expr], beside: u32, live: &mut Live) {
        read.iter().for_each(|e| names(e, live));
        let parts = read.iter().map(|e| depth(e)).max().unwrap_or(0);
        self.most = self.most.max(self.count(live) + parts + beside);
    }

    fn access(&mut self, access: &Access, read: &[&Expr], live: &mut Live) {
        let address = if matches!(access.memory, Memory::Global(_)) { 2 } else { 1 };
        let bytes = access.width().div_ceil(4) as u32;
        let parts: Vec<&Expr> =
            [&access.index].into_iter().chain(&access.when).chain(read.iter().copied()).collect();
        self.point(&parts, address + bytes, live);
    }
}

fn registers(dtype: DType) -> u32 {
    if dtype == DType::Bool { 0 } else { (dtype.size() as u32).div_ceil(4) }
}

/// Adds what an expression reads.
fn names(e: &Expr, live: &mut Live) {
    e.for_each(&mut |part| match part {
        Expr::Local(id) => _ = live.insert(Name::Local(*id)),
        Expr::Element(id, _) => _ = live.insert(Name::Array(*id)),
        _ => {}
    });
}

/// Registers for the parts of an expression, the largest first.
fn depth(e: &Expr) -> u32 {
    let mut parts: Vec<u32> = e.operands().iter().map(depth).collect();
    parts.sort_unstable_by(|a, b| b.cmp(a));
    let all = parts.iter().enumerate().map(|(k, n)| k as u32 + n).max().unwrap_or(0);
    all.max(u32::from(!matches!(e, Expr::Const(_) | Expr::Local(_))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuse_ir::dtype::Value;

    /// A kernel that loads so many floats before it stores their sum.
    fn sum_of_loads(count: usize) -> Kernel {
        let mut kernel = fuse_ir::kernel_ir::examples::row_sum().expect("a kernel");
        let mut body = Vec::new();
        let first = kernel.locals.len();
        let access = |index: usize| Access {
            memory: Memory::Global(fuse_ir::id::ArgId::from_index(0)),
            dtype: DType::F32,
            index: Expr::Const(Value::U32(index as u32)),
            count: 1,
            when: None,
        };
        for k in 0..count {
            let local = fuse_ir::kernel_ir::Local {
                name: format!("x{k}"),
                dtype: DType::F32,
                kind: fuse_ir::kernel_ir::LocalKind::Let,
            };
            kernel.locals.push(local);
            let target = Target::Let(LocalId::from_index(first + k));
            body.push(Stmt::Load { target, access: access(k), fill: Value::F32(0.0) });
        }
        let locals = (0..count).map(|k| Expr::Local(LocalId::from_index(first + k)));
        let sum = locals.reduce(|a, b| Expr::Op(fuse_ir::scalar::ScalarOp::Add, vec![a, b]));
        let source = Source::Value(sum.expect("there are loads"));
        body.push(Stmt::Store { source, access: access(0) });
        kernel.body = body;
        kernel
    }

    #[test]
    fn each_value_that_is_live_has_a_register() {
        let [few, many] = [sum_of_loads(4), sum_of_loads(24)].map(|kernel| predict(&kernel, "sm_90"));
        assert_eq!(many - few, 20);
        assert_eq!(predict(&sum_of_loads(1000), "sm_90"), MOST);
    }

    #[test]
    fn what_a_loop_reads_from_outside_is_live_in_it() {
        let mut kernel = sum_of_loads(8);
        let store = kernel.body.pop().expect("the store");
        let straight = predict(&kernel, "sm_90");
        let local = LocalId::from_index(kernel.locals.len());
        kernel.locals.push(fuse_ir::kernel_ir::Local {
            name: "i".to_owned(),
            dtype: DType::U32,
            kind: fuse_ir::kernel_ir::LocalKind::Loop,
        });
        let number = |n| Expr::Const(Value::U32(n));
        let (start, end, step) = (number(0), number(4), number(1));
        kernel.body.push(Stmt::For { local, start, end, step, unroll: Unroll::None, body: vec![store] });
        assert!(predict(&kernel, "sm_90") >= straight + 8, "the eight values, whatever the loop is");
    }
}
