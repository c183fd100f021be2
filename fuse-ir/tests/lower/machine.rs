//! The plainest machine that runs a kernel: block after block, statement after statement for all its threads.
//!
//! It finds no races; it gives the values. Elements are values, a pointer is the number of a buffer.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::{eval_fn, eval_op};
use fuse_ir::kernel_ir::{
    AtomicOp, Builtin, Dims, Expr, Kernel, Memory, ShuffleKind, Source, Stmt, Target, VoteKind,
};

/// An argument of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    /// A buffer, by number.
    Buffer(usize),
    /// A scalar.
    Scalar(Value),
}

/// Elements that nobody wrote are `None`.
pub(super) type Buffer = Vec<Option<Value>>;

struct Machine<'a> {
    kernel: &'a Kernel,
    args: &'a [Arg],
    dims: &'a Dims,
    buffers: &'a mut [Buffer],
    block: [u32; 3],
    shared: Vec<Buffer>,
    threads: usize,
    locals: Vec<Vec<Option<Value>>>,
    arrays: Vec<Vec<Option<Value>>>,
}

/// Runs a launch.
pub(super) fn run_kernel(kernel: &Kernel, args: &[Arg], dims: &Dims, lens: &[usize], buffers: &mut [Buffer]) {
    let threads = kernel.geometry.threads() as usize;
    for z in 0..dims.grid[2] {
        for y in 0..dims.grid[1] {
            for x in 0..dims.grid[0] {
                let mut machine = Machine {
                    kernel,
                    args,
                    dims,
                    buffers,
                    block: [x, y, z],
                    shared: lens.iter().map(|n| vec![None; *n]).collect(),
                    threads,
                    locals: vec![vec![None; kernel.locals.len()]; threads],
                    arrays: vec![
                        vec![None; kernel.arrays.iter().map(|a| a.len as usize).sum::<usize>()];
                        threads
                    ],
                };
                machine.block(&kernel.body, &vec![true; threads]);
            }
        }
    }
}

impl Machine<'_> {
    fn lanes(&self, mask: &[bool]) -> Vec<usize> {
        (0..self.threads).filter(|t| mask[*t]).collect()
    }

    fn slot(&self, array: fuse_ir::id::ArrayId, index: usize) -> usize {
        self.kernel.arrays[..array.index()].iter().map(|a| a.len as usize).sum::<usize>() + index
    }

    fn eval(&self, t: usize, e: &Expr) -> Value {
        match e {
            Expr::Const(v) => *v,
            Expr::Local(id) => self.locals[t][id.index()]
                .unwrap_or_else(|| panic!("`{}` is read before it is set", self.kernel.local(*id).name)),
            Expr::Element(id, index) => {
                let at = self.eval(t, index).as_i128().unwrap() as usize;
                self.arrays[t][self.slot(*id, at)].expect("an element that was set")
            }
            Expr::Param(id) => match self.args[id.index()] {
                Arg::Scalar(v) => v,
                Arg::Buffer(_) => panic!("a pointer is no value"),
            },
            Expr::Builtin(b) => {
                let linear = t as u32;
                let [bx, by, _] = self.kernel.geometry.block;
                Value::U32(match b {
                    Builtin::Thread(0) => linear % bx,
                    Builtin::Thread(1) => linear / bx % by,
                    Builtin::Thread(_) => linear / bx / by,
                    Builtin::Block(d) => self.block[usize::from(*d)],
                    Builtin::GridDim(d) => self.dims.grid[usize::from(*d)],
                    Builtin::Lane => linear % 32,
                    Builtin::Warp => linear / 32,
                })
            }
            Expr::Fact(id) => Value::Bool(self.dims.facts[id.index()]),
            Expr::Op(op, args) => {
                let args: Vec<Value> = args.iter().map(|a| self.eval(t, a)).collect();
                let value = eval_op(*op, &args).0;
                value.cast(value.dtype().compute())
            }
            Expr::Pack(..) | Expr::Unpack(..) => panic!("not made by the lowering"),
        }
    }

    fn when(&self, t: usize, when: &Option<Expr>) -> bool {
        when.as_ref().is_none_or(|e| self.eval(t, e) == Value::Bool(true))
    }

    fn memory(&mut self, memory: Memory) -> &mut Buffer {
        match memory {
            Memory::Global(id) => match self.args[id.index()] {
                Arg::Buffer(n) => &mut self.buffers[n],
                Arg::Scalar(_) => panic!("a scalar is no memory"),
            },
            Memory::Shared(id) => &mut self.shared[id.index()],
        }
    }

    fn address(&self, t: usize, index: &Expr) -> usize {
        let at = self.eval(t, index).as_i128().unwrap();
        usize::try_from(at).unwrap_or_else(|_| panic!("index {at}"))
    }

    fn name(&self, memory: Memory) -> String {
        self.kernel.memory_name(memory).to_owned()
    }

    fn read(&mut self, memory: Memory, at: usize) -> Value {
        let name = self.name(memory);
        let len = self.memory(memory).len();
        let value = self.memory(memory).get(at).unwrap_or_else(|| panic!("{name}[{at}] of {len}"));
        let value = value.unwrap_or_else(|| panic!("{name}[{at}] was never written"));
        value.cast(value.dtype().compute())
    }

    fn write(&mut self, memory: Memory, dtype: DType, at: usize, value: Value) {
        let name = self.name(memory);
        let len = self.memory(memory).len();
        let cell = self.memory(memory).get_mut(at).unwrap_or_else(|| panic!("{name}[{at}] of {len}"));
        *cell = Some(value.cast(dtype));
    }

    fn block(&mut self, block: &[Stmt], mask: &[bool]) {
        for stmt in block {
            if mask.iter().any(|m| *m) {
                self.stmt(stmt, mask);
            }
        }
    }

    fn stmt(&mut self, stmt: &Stmt, mask: &[bool]) {
        let lanes = self.lanes(mask);
        let whole = |lanes: &[usize]| {
            let warps: std::collections::BTreeSet<usize> = lanes.iter().map(|t| t / 32).collect();
            assert_eq!(warps.len() * 32, lanes.len(), "a warp is divided");
        };
        match stmt {
            Stmt::Comment(_) => {}
            Stmt::Let { local, value } | Stmt::Register { local, value } | Stmt::Set { local, value } => {
                for t in lanes {
                    self.locals[t][local.index()] = Some(self.eval(t, value));
                }
            }
            Stmt::Array { array, fill } => {
                let len = self.kernel.array(*array).len as usize;
                let first = self.slot(*array, 0);
                for t in lanes {
                    self.arrays[t][first..first + len].fill(*fill);
                }
            }
            Stmt::SetElement { array, index, value } => {
                for t in lanes {
                    let at = self.eval(t, index).as_i128().unwrap() as usize;
                    let slot = self.slot(*array, at);
                    self.arrays[t][slot] = Some(self.eval(t, value));
                }
            }
            Stmt::Load { target, access, fill } => {
                for t in lanes {
                    let on = self.when(t, &access.when);
                    for k in 0..access.count as usize {
                        let value = if on {
                            let at = self.address(t, &access.index);
                            assert_eq!(at % access.count as usize, 0, "a vector is aligned");
                            self.read(access.memory, at + k)
                        } else {
                            *fill
                        };
                        match target {
                            Target::Let(local) => self.locals[t][local.index()] = Some(value),
                            Target::Slots(s) => {
                                let first = self.eval(t, &s.first).as_i128().unwrap() as usize;
                                let slot = self.slot(s.array, first + k);
                                self.arrays[t][slot] = Some(value);
                            }
                        }
                    }
                }
            }
            Stmt::Store { source, access } => {
                for t in lanes {
                    if !self.when(t, &access.when) {
                        continue;
                    }
                    let at = self.address(t, &access.index);
                    assert_eq!(at % access.count as usize, 0, "a vector is aligned");
                    for k in 0..access.count as usize {
                        let value = match source {
                            Source::Value(e) => self.eval(t, e),
                            Source::Slots(s) => {
                                let first = self.eval(t, &s.first).as_i128().unwrap() as usize;
                                self.arrays[t][self.slot(s.array, first + k)].expect("a slot that was set")
                            }
                        };
                        self.write(access.memory, access.dtype, at + k, value);
                    }
                }
            }
            Stmt::Atomic { op: AtomicOp::Min, old: None, access, value } => {
                for t in lanes {
                    if self.when(t, &access.when) {
                        let at = self.address(t, &access.index);
                        let before = self.read(access.memory, at).as_i128().unwrap();
                        let value = self.eval(t, value);
                        if value.as_i128().unwrap() < before {
                            self.write(access.memory, access.dtype, at, value);
                        }
                    }
                }
            }
            Stmt::Shuffle { result, kind, value, lane, width } => {
                whole(&lanes);
                let offered: Vec<Option<Value>> =
                    (0..self.threads).map(|t| mask[t].then(|| self.eval(t, value))).collect();
                for t in lanes {
                    let n = self.eval(t, lane).as_i128().unwrap() as usize;
                    let (width, own) = (*width as usize, t % *width as usize);
                    let base = t - own;
                    let from = match kind {
                        ShuffleKind::Xor => own ^ n,
                        ShuffleKind::Up => own.checked_sub(n).unwrap_or(own),
                        ShuffleKind::Down => Some(own + n).filter(|l| *l < width).unwrap_or(own),
                        ShuffleKind::Idx => n % width,
                    };
                    self.locals[t][result.index()] = offered[base + from];
                }
            }
            Stmt::Vote { result, kind: VoteKind::Any, value } => {
                whole(&lanes);
                for &t in &lanes {
                    let any =
                        (t / 32 * 32..t / 32 * 32 + 32).any(|u| self.eval(u, value) == Value::Bool(true));
                    self.locals[t][result.index()] = Some(Value::Bool(any));
                }
            }
            Stmt::Call { results, function, args, fault } => {
                for t in lanes {
                    let args: Vec<Value> = args.iter().map(|a| self.eval(t, a)).collect();
                    let (values, problem) = eval_fn(&self.kernel.functions, *function, &args);
                    for (local, value) in results.iter().zip(values) {
                        if let Some(local) = local {
                            self.locals[t][local.index()] = Some(value.cast(value.dtype().compute()));
                        }
                    }
                    if let Some(local) = fault {
                        self.locals[t][local.index()] = Some(Value::Bool(problem.is_some()));
                    }
                }
            }
            Stmt::If { condition, then, otherwise } => {
                let taken: Vec<bool> = (0..self.threads)
                    .map(|t| mask[t] && self.eval(t, condition) == Value::Bool(true))
                    .collect();
                let other: Vec<bool> = (0..self.threads).map(|t| mask[t] && !taken[t]).collect();
                self.block(then, &taken);
                self.block(otherwise, &other);
            }
            Stmt::For { local, start, end, step, unroll: _, body } => {
                let dtype = self.kernel.local(*local).dtype;
                let number = |m: &Self, t: usize, e: &Expr| m.eval(t, e).as_i128().unwrap();
                let mut at = vec![0i128; self.threads];
                let mut ends = vec![(0i128, 1i128); self.threads];
                for &t in &lanes {
                    at[t] = number(self, t, start);
                    ends[t] = (number(self, t, end), number(self, t, step));
                    assert!(ends[t].1 > 0, "a loop that does not step");
                }
                loop {
                    let active: Vec<bool> = (0..self.threads).map(|t| mask[t] && at[t] < ends[t].0).collect();
                    if !active.iter().any(|a| *a) {
                        break;
                    }
                    for &t in &lanes {
                        if active[t] {
                            self.locals[t][local.index()] = Value::from_i128(dtype, at[t]);
                        }
                    }
                    self.block(body, &active);
                    for &t in &lanes {
                        at[t] += if active[t] { ends[t].1 } else { 0 };
                        let fits = Value::from_i128(dtype, at[t]).and_then(Value::as_i128) == Some(at[t]);
                        assert!(fits, "a loop variable leaves its dtype");
                    }
                }
            }
            Stmt::Barrier(fuse_ir::kernel_ir::Scope::Warp) => whole(&lanes),
            Stmt::Barrier(fuse_ir::kernel_ir::Scope::Block) => {
                assert_eq!(lanes.len(), self.threads, "a barrier in a divergent branch");
            }
            other => panic!("{other:?} is not made by the lowering"),
        }
    }
}
