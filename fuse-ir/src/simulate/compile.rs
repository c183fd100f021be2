//! From a kernel to [`Code`], for the facts and scalars of one launch.

use super::SimulateError;
use super::code::{AccessCode, Code, Coded, Reg, Src, Step, Uniform};
use crate::dtype::{DType, Value};
use crate::eval::eval_op;
use crate::id::{ArgId, LocalId};
use crate::kernel_ir::{
    Access, Block, Builtin, Dims, Expr, Kernel, LaunchArg, Memory, Slots, Source, Stmt, Target, Unroll,
};
use crate::scalar::ScalarOp;
use std::collections::HashMap;

/// Steps of a kernel whose loops are written out, at most.
const STEP_LIMIT: usize = 1 << 22;

/// Compiles a kernel whose types are verified.
pub(super) fn compile_kernel(
    kernel: &Kernel,
    dims: &Dims,
    args: &[LaunchArg],
) -> Result<Code, SimulateError> {
    let first_local = Code::PLACE;
    let first_array = first_local + kernel.locals.len() as u32;
    let mut arrays = Vec::new();
    let mut next = first_array;
    for array in &kernel.arrays {
        arrays.push(next);
        next = next.saturating_add(array.len);
    }
    if u64::from(next) > STEP_LIMIT as u64 {
        return Err(SimulateError::TooLarge);
    }
    let mut compiler = Compiler {
        kernel,
        dims,
        args,
        locals: (0..kernel.locals.len() as u32).map(|n| Src::Reg(first_local + n)).collect(),
        arrays,
        filled: vec![false; kernel.arrays.len()],
        uniforms: Vec::new(),
        constants: HashMap::new(),
        variables: Vec::new(),
        statements: Vec::new(),
        path: Vec::new(),
        numbers: HashMap::new(),
        out: Vec::new(),
        stmt: 0,
        steps: 0,
        temp: next,
        registers: next,
    };
    compiler.block(&kernel.body, 0)?;
    Ok(Code {
        body: compiler.out,
        registers: compiler.registers,
        uniforms: compiler.uniforms,
        statements: compiler.statements,
    })
}

struct Compiler<'a> {
    kernel: &'a Kernel,
    dims: &'a Dims,
    args: &'a [LaunchArg],
    /// Where each local stands: in its register, or it is a constant here.
    locals: Vec<Src>,
    /// The first register of each array.
    arrays: Vec<Reg>,
    /// Whether an array was declared with a fill.
    filled: Vec<bool>,
    uniforms: Vec<Uniform>,
    constants: HashMap<(DType, u64), u32>,
    /// Shared registers that are no constants of the text.
    variables: Vec<(Shared, u32)>,
    statements: Vec<Vec<u32>>,
    path: Vec<u32>,
    numbers: HashMap<Vec<u32>, u32>,
    out: Vec<Coded>,
    stmt: u32,
    steps: usize,
    /// The next free register.
    temp: Reg,
    registers: Reg,
}

/// What a shared register holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shared {
    Param(ArgId),
    Block(u8),
    Grid(u8),
}

type Compiled<T = ()> = Result<T, SimulateError>;

impl Compiler<'_> {
    fn emit(&mut self, step: Step) -> Compiled {
        self.steps += 1;
        if self.steps > STEP_LIMIT {
            return Err(SimulateError::TooLarge);
        }
        self.out.push(Coded { step, stmt: self.stmt });
        Ok(())
    }

    fn fresh(&mut self) -> Reg {
        let reg = self.temp;
        self.temp += 1;
        self.registers = self.registers.max(self.temp);
        reg
    }

    fn constant(&mut self, value: Value) -> Src {
        let uniforms = &mut self.uniforms;
        let number = self.constants.entry((value.dtype(), value.to_bits())).or_insert_with(|| {
            uniforms.push(Uniform::Constant(value));
            uniforms.len() as u32 - 1
        });
        Src::Uniform(*number)
    }

    /// The value of an operand that is the same in every launch of the compiled text.
    fn known(&self, src: Src) -> Option<Value> {
        match src {
            Src::Uniform(n) => match self.uniforms[n as usize] {
                Uniform::Constant(v) if self.constants.get(&(v.dtype(), v.to_bits())) == Some(&n) => Some(v),
                Uniform::Constant(_) | Uniform::Block(_) => None,
            },
            Src::Reg(_) => None,
        }
    }

    /// The shared register of what is no constant of the text.
    fn uniform(&mut self, shared: Shared, uniform: Uniform) -> Src {
        if let Some((_, number)) = self.variables.iter().find(|(s, _)| *s == shared) {
            return Src::Uniform(*number);
        }
        self.uniforms.push(uniform);
        let number = self.uniforms.len() as u32 - 1;
        self.variables.push((shared, number));
        Src::Uniform(number)
    }

    fn block(&mut self, block: &Block, first: usize) -> Compiled {
        for (k, stmt) in block.iter().enumerate() {
            self.path.push((first + k) as u32);
            let number = match self.numbers.get(&self.path) {
                Some(number) => *number,
                None => {
                    self.statements.push(self.path.clone());
                    let number = self.statements.len() as u32 - 1;
                    self.numbers.insert(self.path.clone(), number);
                    number
                }
            };
            let (before, temp) = (std::mem::replace(&mut self.stmt, number), self.temp);
            self.stmt(stmt)?;
            self.stmt = before;
            self.temp = temp;
            self.path.pop();
        }
        Ok(())
    }

    /// Compiles a block on its own.
    fn nested(&mut self, block: &Block, first: usize) -> Compiled<Vec<Coded>> {
        let before = std::mem::take(&mut self.out);
        self.block(block, first)?;
        Ok(std::mem::replace(&mut self.out, before))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Compiled {
        match stmt {
            Stmt::Comment(_) => Ok(()),
            Stmt::Let { local, value } => {
                let dst = self.own(*local);
                let src = self.expr(value, Some(dst))?;
                // What all warps share needs no register of its own.
                self.locals[local.index()] = if let Src::Uniform(_) = src { src } else { Src::Reg(dst) };
                if matches!(src, Src::Reg(reg) if reg != dst) {
                    self.emit(Step::Copy { dst, src })?;
                }
                Ok(())
            }
            Stmt::Register { local, value } | Stmt::Set { local, value } => {
                let dst = self.own(*local);
                self.assign(dst, value)
            }
            Stmt::Array { array, fill } => {
                let (first, count) = (self.arrays[array.index()], self.kernel.array(*array).len);
                self.filled[array.index()] = fill.is_some();
                match fill {
                    Some(value) => {
                        let src = self.constant(*value);
                        (first..first + count).try_for_each(|dst| self.emit(Step::Copy { dst, src }))
                    }
                    None => self.emit(Step::Undefine { first, count }),
                }
            }
            Stmt::SetElement { array, index, value } => {
                let dst = self.arrays[array.index()] + self.index(index)?;
                self.assign(dst, value)
            }
            Stmt::Load { target, access, fill } => {
                let access = self.access(access)?;
                let dst = match target {
                    Target::Let(local) => {
                        let dst = self.own(*local);
                        self.locals[local.index()] = Src::Reg(dst);
                        dst
                    }
                    Target::Slots(slots) => self.slots(slots)?,
                };
                self.emit(Step::Load { access, dst, fill: *fill })
            }
            Stmt::Store { source, access } => {
                let from = match source {
                    Source::Value(value) => self.expr(value, None)?,
                    Source::Slots(slots) => Src::Reg(self.read_slots(slots)?),
                };
                let access = self.access(access)?;
                self.emit(Step::Store { access, from })
            }
            Stmt::Atomic { op, old, access, value } => {
                let value = self.expr(value, None)?;
                let access = self.access(access)?;
                let old = old.map(|local| self.own(local));
                self.emit(Step::Atomic { op: *op, access, value, old })
            }
            Stmt::CopyAsync { to, to_index, from, from_index, bytes, valid } => {
                let valid = valid.as_ref().map(|e| self.expr(e, None)).transpose()?;
                let to = self.raw_access(Memory::Shared(*to), to_index, *bytes)?;
                let source = self.raw_access(Memory::Global(*from), from_index, *bytes)?;
                self.emit(Step::CopyAsync { to, from: source, pointer: *from, valid })
            }
            Stmt::CommitAsync => self.emit(Step::CommitAsync),
            Stmt::WaitAsync { pending } => self.emit(Step::WaitAsync { pending: *pending }),
            Stmt::LoadMatrix { target, transpose, view, index } => {
                let access = self.raw_access(Memory::Shared(*view), index, 16)?;
                let dst = self.slots(target)?;
                self.emit(Step::LoadMatrix { access, dst, matrices: target.count, transpose: *transpose })
            }
            Stmt::Mma { shape, d, a, b, c } => {
                let [a, b, c] = [self.read_slots(a)?, self.read_slots(b)?, self.read_slots(c)?];
                let d = self.slots(d)?;
                self.emit(Step::Mma { shape: *shape, d, a, b, c })
            }
            Stmt::Shuffle { result, kind, value, lane, width } => {
                let (value, lane) = (self.expr(value, None)?, self.expr(lane, None)?);
                let dst = self.own(*result);
                self.emit(Step::Shuffle { dst, kind: *kind, value, lane, width: *width })
            }
            Stmt::Vote { result, kind, value } => {
                let value = self.expr(value, None)?;
                let dst = self.own(*result);
                self.emit(Step::Vote { dst, kind: *kind, value })
            }
            Stmt::Call { results, function, args, fault } => {
                let args = args.iter().map(|a| self.expr(a, None)).collect::<Compiled<Vec<Src>>>()?;
                let results = results.iter().map(|r| r.map(|local| self.own(local))).collect();
                let fault = fault.map(|local| self.own(local));
                self.emit(Step::Call { function: *function, args, results, fault })
            }
            Stmt::If { condition, then, otherwise } => self.branch(condition, then, otherwise),
            Stmt::For { local, start, end, step, unroll, body } => {
                if *unroll == Unroll::Full {
                    return self.unrolled(*local, [start, end, step], body);
                }
                let [start, end, step] = [self.pinned(start)?, self.pinned(end)?, self.pinned(step)?];
                let variable = self.own(*local);
                let body = self.nested(body, 0)?;
                self.emit(Step::Loop { variable, start, end, step, body })
            }
            Stmt::Barrier(scope) => self.emit(Step::Barrier(*scope)),
        }
    }

    /// The register of a local, from now on where it stands.
    fn own(&mut self, local: LocalId) -> Reg {
        let reg = Code::PLACE + local.0;
        self.locals[local.index()] = Src::Reg(reg);
        reg
    }

    fn assign(&mut self, dst: Reg, value: &Expr) -> Compiled {
        let src = self.expr(value, Some(dst))?;
        if src == Src::Reg(dst) { Ok(()) } else { self.emit(Step::Copy { dst, src }) }
    }

    /// An operand that no statement of the loop changes: bounds are taken once.
    fn pinned(&mut self, e: &Expr) -> Compiled<Src> {
        let src = self.expr(e, None)?;
        let Src::Reg(_) = src else { return Ok(src) };
        let dst = self.fresh();
        self.emit(Step::Copy { dst, src })?;
        Ok(Src::Reg(dst))
    }

    fn branch(&mut self, condition: &Expr, then: &Block, otherwise: &Block) -> Compiled {
        let condition = self.expr(condition, None)?;
        match self.known(condition) {
            Some(Value::Bool(true)) => self.block(then, 0),
            Some(_) => self.block(otherwise, then.len()),
            None => {
                let first = self.nested(then, 0)?;
                let second = self.nested(otherwise, then.len())?;
                self.emit(Step::If { condition, then: first, otherwise: second })
            }
        }
    }

    fn unrolled(&mut self, local: LocalId, bounds: [&Expr; 3], body: &Block) -> Compiled {
        let number = |e: &Expr| e.as_const().and_then(Value::as_i128).unwrap_or(0);
        let [start, end, step] = bounds.map(number);
        let dtype = self.kernel.local(local).dtype;
        let mut at = start;
        while at < end && step > 0 {
            let value = Value::from_i128(dtype, at).unwrap_or(Value::U32(0));
            self.locals[local.index()] = self.constant(value);
            self.block(body, 0)?;
            at += step;
        }
        Ok(())
    }

    fn access(&mut self, access: &Access) -> Compiled<AccessCode> {
        let when = access.when.as_ref().map(|e| self.expr(e, None)).transpose()?;
        let index = self.expr(&access.index, None)?;
        Ok(AccessCode { memory: access.memory, dtype: access.dtype, index, count: access.count, when })
    }

    /// An access to `bytes` from an index in units of the memory's dtype.
    fn raw_access(&mut self, memory: Memory, index: &Expr, bytes: u32) -> Compiled<AccessCode> {
        let dtype = self.kernel.memory_dtype(memory).unwrap_or(DType::U8);
        let index = self.expr(index, None)?;
        Ok(AccessCode { memory, dtype, index, count: bytes / dtype.size() as u32, when: None })
    }

    /// An index of an array, which the verifier has found to be known and within.
    fn index(&mut self, e: &Expr) -> Compiled<u32> {
        let src = self.expr(e, None)?;
        let known = self.known(src).and_then(Value::as_i128);
        Ok(known.and_then(|n| u32::try_from(n).ok()).unwrap_or(0))
    }

    fn slots(&mut self, slots: &Slots) -> Compiled<Reg> {
        Ok(self.arrays[slots.array.index()] + self.index(&slots.first)?)
    }

    fn read_slots(&mut self, slots: &Slots) -> Compiled<Reg> {
        let first = self.slots(slots)?;
        if !self.filled[slots.array.index()] {
            self.emit(Step::Require { first, count: slots.count, array: slots.array })?;
        }
        Ok(first)
    }

    /// Emits what computes an expression; the last step writes to `wish` if there is one and a step is needed.
    fn expr(&mut self, e: &Expr, wish: Option<Reg>) -> Compiled<Src> {
        match e {
            Expr::Const(v) => Ok(self.constant(*v)),
            Expr::Local(id) => Ok(self.locals[id.index()]),
            Expr::Element(id, index) => {
                let first = self.arrays[id.index()] + self.index(index)?;
                if !self.filled[id.index()] {
                    self.emit(Step::Require { first, count: 1, array: *id })?;
                }
                Ok(Src::Reg(first))
            }
            Expr::Param(id) => match self.args.get(id.index()) {
                Some(LaunchArg::Scalar(v)) => Ok(self.uniform(Shared::Param(*id), Uniform::Constant(*v))),
                Some(LaunchArg::Pointer(_)) | None => Ok(self.constant(Value::U32(0))),
            },
            Expr::Builtin(builtin) => Ok(match builtin {
                Builtin::Thread(d) => Src::Reg(u32::from(*d)),
                Builtin::Lane => Src::Reg(3),
                Builtin::Warp => Src::Reg(4),
                Builtin::Block(d) => self.uniform(Shared::Block(*d), Uniform::Block(*d)),
                Builtin::GridDim(d) => {
                    let extent = self.dims.grid.get(usize::from(*d)).copied().unwrap_or(1);
                    self.uniform(Shared::Grid(*d), Uniform::Constant(Value::U32(extent)))
                }
            }),
            Expr::Fact(id) => {
                let holds = self.dims.holds(*id);
                Ok(self.constant(Value::Bool(holds)))
            }
            Expr::Op(op, args) => self.op(*op, args, wish),
            Expr::Pack(dtype, parts) => {
                let parts = parts.iter().map(|p| self.expr(p, None)).collect::<Compiled<Vec<Src>>>()?;
                let dst = wish.unwrap_or_else(|| self.fresh());
                self.emit(Step::Pack { dtype: *dtype, dst, parts })?;
                Ok(Src::Reg(dst))
            }
            Expr::Unpack(dtype, part, word) => {
                let src = self.expr(word, None)?;
                let dst = wish.unwrap_or_else(|| self.fresh());
                self.emit(Step::Unpack { dtype: *dtype, part: *part, dst, src })?;
                Ok(Src::Reg(dst))
            }
        }
    }

    fn op(&mut self, op: ScalarOp, args: &[Expr], wish: Option<Reg>) -> Compiled<Src> {
        let mut sources = [Src::Reg(0); 3];
        for (slot, arg) in sources.iter_mut().zip(args) {
            *slot = self.expr(arg, None)?;
        }
        let known: Option<Vec<Value>> = sources.iter().take(args.len()).map(|s| self.known(*s)).collect();
        if let Some(values) = known {
            return Ok(self.constant(eval_op(op, &values).0.widened()));
        }
        let dst = wish.unwrap_or_else(|| self.fresh());
        self.emit(Step::Op { op, dst, args: sources, arity: args.len() as u8 })?;
        Ok(Src::Reg(dst))
    }
}
