//! The verifier of kernels: types, scopes, indexes of register arrays, alignment of vector accesses, barriers.
//!
//! What depends on run-time values (bounds, races, uninitialised reads) is the simulator's.

mod align;

mod interface;

mod uniform;

use super::expr::Expr;
use super::stmt::{Access, Block, Memory, Scope, ShuffleKind, Slots, Source, Stmt, Target, Unroll, VoteKind};
use super::{Kernel, LocalKind, ParamKind, Usage};
use crate::dtype::{DType, Value};
use crate::id::{ArrayId, FactId, LocalId};
use align::Alignment;
use std::fmt;
use uniform::{Reach, Uniformity};

/// Iterations of a loop that is wholly unrolled, at most.
const UNROLL_LIMIT: i128 = 1024;

/// What is wrong with a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelError {
    /// The kernel's name.
    pub kernel: String,
    /// The first line of the statement; empty if it is the interface.
    pub at: String,
    /// What is wrong, without a final full stop.
    pub why: String,
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`", self.kernel)?;
        if !self.at.is_empty() {
            write!(f, ", at `{}`", self.at)?;
        }
        write!(f, ": {}", self.why)
    }
}

impl std::error::Error for KernelError {}

/// Checks a kernel.
///
/// # Errors
/// The first rule that is broken.
pub fn verify_kernel(kernel: &Kernel) -> Result<(), KernelError> {
    verify(kernel, true)
}

/// Checks of [`verify_kernel`] what a kernel needs to have a meaning at all: not that vectors are known to be aligned and
/// barriers known to be reached by all, which whoever executes it finds.
///
/// # Errors
/// The first rule that is broken.
pub(crate) fn verify_types(kernel: &Kernel) -> Result<(), KernelError> {
    verify(kernel, false)
}

fn verify(kernel: &Kernel, strict: bool) -> Result<(), KernelError> {
    let interface = |why| KernelError { kernel: kernel.name.clone(), at: String::new(), why };
    interface::check_interface(kernel).map_err(interface)?;
    let mut verifier = Verifier {
        kernel,
        strict,
        uniformity: Uniformity::compute(kernel),
        locals: vec![Scoped::Unseen; kernel.locals.len()],
        arrays: vec![Scoped::Unseen; kernel.arrays.len()],
        unrolled: Vec::new(),
        facts: Vec::new(),
        alignment: Alignment::new(kernel),
    };
    verifier.check_block(&kernel.body, Reach::Block)
}

/// Whether a name may be used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scoped {
    Unseen,
    Live,
    Gone,
}

/// A loop that is wholly unrolled, with its values.
struct Unrolled {
    local: LocalId,
    values: Vec<Value>,
}

struct Verifier<'a> {
    kernel: &'a Kernel,
    /// Whether what depends on run-time values must be known to be right.
    strict: bool,
    uniformity: Uniformity,
    locals: Vec<Scoped>,
    arrays: Vec<Scoped>,
    unrolled: Vec<Unrolled>,
    /// Facts that hold here.
    facts: Vec<FactId>,
    alignment: Alignment<'a>,
}

type Check = Result<(), String>;

fn require(ok: bool, why: impl FnOnce() -> String) -> Check {
    if ok { Ok(()) } else { Err(why()) }
}

impl Verifier<'_> {
    fn check_block(&mut self, block: &Block, reach: Reach) -> Result<(), KernelError> {
        let mut declared = (Vec::new(), Vec::new());
        for stmt in block {
            self.check_stmt(stmt, reach, &mut declared).map_err(|why| KernelError {
                kernel: self.kernel.name.clone(),
                at: self.kernel.show_stmt(stmt),
                why,
            })?;
            match stmt {
                Stmt::If { condition, then, otherwise } => {
                    let inner = reach.max(self.uniformity.of(self.kernel, condition));
                    let before = self.facts.len();
                    collect_facts(condition, &mut self.facts);
                    self.check_block(then, inner)?;
                    self.facts.truncate(before);
                    self.check_block(otherwise, inner)?;
                }
                Stmt::For { local, start, end, step, unroll, body } => {
                    let bounds = [start, end, step].map(|e| self.uniformity.of(self.kernel, e));
                    let inner = bounds.into_iter().fold(reach, Reach::max);
                    self.locals[local.index()] = Scoped::Live;
                    if *unroll == Unroll::Full {
                        let values = loop_values(self.kernel.local(*local).dtype, start, end, step);
                        self.unrolled.push(Unrolled { local: *local, values });
                    }
                    self.alignment.enter_loop(*local, start, step, &self.facts);
                    self.check_block(body, inner)?;
                    if *unroll == Unroll::Full {
                        self.unrolled.pop();
                    }
                    self.locals[local.index()] = Scoped::Gone;
                }
                _ => {}
            }
        }
        for id in declared.0 {
            self.locals[id] = Scoped::Gone;
        }
        for id in declared.1 {
            self.arrays[id] = Scoped::Gone;
        }
        Ok(())
    }

    fn check_stmt(&mut self, stmt: &Stmt, reach: Reach, declared: &mut (Vec<usize>, Vec<usize>)) -> Check {
        match stmt {
            Stmt::Comment(text) => require(!text.contains('\n'), || "a comment has several lines".into()),
            Stmt::Let { local, value } => {
                let dtype = self.dtype(value)?;
                self.alignment.bind(*local, value, &self.facts);
                self.declare(*local, LocalKind::Let, dtype, &mut declared.0)
            }
            Stmt::Register { local, value } => {
                let dtype = self.dtype(value)?;
                self.declare(*local, LocalKind::Register, dtype, &mut declared.0)
            }
            Stmt::Set { local, value } => {
                let found = self.dtype(value)?;
                self.dtype(&Expr::Local(*local))?;
                let local = self.kernel.local(*local);
                require(local.kind == LocalKind::Register, || format!("a {} is set", local.kind))?;
                require(local.dtype == found, || format!("a register of {} is set to {found}", local.dtype))
            }
            Stmt::Array { array, fill } => {
                let slot =
                    self.arrays.get_mut(array.index()).ok_or_else(|| format!("{array} does not exist"))?;
                require(*slot == Scoped::Unseen, || "an array is declared twice".into())?;
                *slot = Scoped::Live;
                declared.1.push(array.index());
                let dtype = self.kernel.array(*array).dtype;
                require(fill.is_none_or(|v| v.dtype() == dtype), || format!("the fill is not {dtype}"))
            }
            Stmt::SetElement { array, index, value } => {
                let found = self.dtype(value)?;
                let dtype = self.dtype(&Expr::Element(*array, Box::new(index.clone())))?;
                require(dtype == found, || format!("an element of {dtype} is set to {found}"))
            }
            Stmt::Load { target, access, fill } => {
                let dtype = self.check_access(access, Usage::Read)?;
                require(fill.dtype() == dtype, || format!("the fill is not {dtype}"))?;
                match target {
                    Target::Let(local) => {
                        require(access.count == 1, || "one local is loaded with several elements".into())?;
                        self.declare(*local, LocalKind::Let, dtype, &mut declared.0)
                    }
                    Target::Slots(slots) => {
                        require(slots.count == access.count, || {
                            "as many slots as elements are needed".into()
                        })?;
                        self.check_slots(slots, dtype)
                    }
                }
            }
            Stmt::Store { source, access } => {
                let dtype = self.check_access(access, Usage::Write)?;
                match source {
                    Source::Value(value) => {
                        require(access.count == 1, || "one value is stored to several elements".into())?;
                        let found = self.dtype(value)?;
                        require(found == dtype, || format!("{found} is stored as {}", access.dtype))
                    }
                    Source::Slots(slots) => {
                        require(slots.count == access.count, || {
                            "as many slots as elements are needed".into()
                        })?;
                        self.check_slots(slots, dtype)
                    }
                }
            }
            Stmt::Atomic { op: _, old, access, value } => {
                let dtype = self.check_access(access, Usage::ReadWrite)?;
                let sizes = matches!(dtype, DType::I32 | DType::U32 | DType::I64 | DType::U64);
                require(sizes, || format!("there are no atomics on {dtype}"))?;
                require(access.count == 1, || "an atomic has one element".into())?;
                let found = self.dtype(value)?;
                require(found == dtype, || format!("{found} is the operand of an atomic on {dtype}"))?;
                match old {
                    Some(local) => self.declare(*local, LocalKind::Let, dtype, &mut declared.0),
                    None => Ok(()),
                }
            }
            Stmt::CopyAsync { to, to_index, from, from_index, bytes, valid } => {
                require(matches!(bytes, 4 | 8 | 16), || format!("{bytes} bytes are copied at once"))?;
                if let Some(valid) = valid {
                    let found = self.dtype(valid)?;
                    require(found == DType::U32, || format!("`valid` is {found}"))?;
                }
                let (to, from) = (Memory::Shared(*to), Memory::Global(*from));
                self.check_address(to, self.memory_dtype(to)?, to_index, u64::from(*bytes))?;
                self.check_address(from, self.memory_dtype(from)?, from_index, u64::from(*bytes))?;
                self.check_usage(from, Usage::Read)
            }
            Stmt::CommitAsync => Ok(()),
            Stmt::WaitAsync { pending } => {
                require(*pending < 32, || "too many groups are left pending".into())
            }
            Stmt::LoadMatrix { target, transpose: _, view, index } => {
                self.check_warp_wide(reach)?;
                require(matches!(target.count, 1 | 2 | 4), || {
                    format!("{} matrices are loaded", target.count)
                })?;
                self.check_slots(target, DType::U32)?;
                let memory = Memory::Shared(*view);
                self.check_address(memory, self.memory_dtype(memory)?, index, 16)
            }
            Stmt::Mma { shape, d, a, b, c } => {
                self.check_warp_wide(reach)?;
                let [na, nb, nc] = shape.registers();
                for (name, slots, count, dtype) in [
                    ("d", d, nc, shape.accumulator()),
                    ("a", a, na, shape.operand_register()),
                    ("b", b, nb, shape.operand_register()),
                    ("c", c, nc, shape.accumulator()),
                ] {
                    require(slots.count == count, || format!("`{name}` of {shape} takes {count} registers"))?;
                    self.check_slots(slots, dtype)?;
                }
                Ok(())
            }
            Stmt::Shuffle { result, kind, value, lane, width } => {
                self.check_warp_wide(reach)?;
                let dtype = self.dtype(value)?;
                let found = self.dtype(lane)?;
                require(found == DType::U32, || format!("the lane is {found}"))?;
                let known = matches!(width, 2 | 4 | 8 | 16 | 32);
                require(known, || format!("a segment of {width} lanes"))?;
                if let (ShuffleKind::Xor, Some(Value::U32(n))) = (kind, lane.as_const()) {
                    require(n < *width, || format!("lane ^ {n} leaves segments of {width}"))?;
                }
                self.declare(*result, LocalKind::Let, dtype, &mut declared.0)
            }
            Stmt::Vote { result, kind, value } => {
                self.check_warp_wide(reach)?;
                let found = self.dtype(value)?;
                require(found == DType::Bool, || format!("a vote on {found}"))?;
                let dtype = if *kind == VoteKind::Ballot { DType::U32 } else { DType::Bool };
                self.declare(*result, LocalKind::Let, dtype, &mut declared.0)
            }
            Stmt::Call { results, function, args, fault } => {
                let kernel = self.kernel;
                let callee = kernel
                    .functions
                    .get(function.index())
                    .ok_or_else(|| format!("{function} does not exist"))?;
                require(args.len() == callee.parameters as usize, || {
                    "a call has too few or many arguments".into()
                })?;
                for (arg, parameter) in args.iter().zip(&callee.variables) {
                    let found = self.dtype(arg)?;
                    require(found == parameter.dtype, || {
                        format!("{found} is passed for {}", parameter.dtype)
                    })?;
                }
                require(results.len() == callee.results.len(), || {
                    "a call has too few or many results".into()
                })?;
                for (result, value) in results.iter().zip(&callee.results) {
                    let dtype = callee.expr_dtype(&kernel.functions, value);
                    let dtype = dtype.ok_or_else(|| "a function is not typed".to_owned())?.compute();
                    if let Some(local) = result {
                        self.declare(*local, LocalKind::Let, dtype, &mut declared.0)?;
                    }
                }
                match fault {
                    Some(local) => self.declare(*local, LocalKind::Let, DType::Bool, &mut declared.0),
                    None => Ok(()),
                }
            }
            Stmt::If { condition, .. } => {
                let found = self.dtype(condition)?;
                require(found == DType::Bool, || format!("the condition is {found}"))
            }
            Stmt::For { local, start, end, step, unroll, body } => {
                self.check_loop_head(*local, [start, end, step], *unroll, body)
            }
            Stmt::Barrier(Scope::Warp) => self.check_warp_wide(reach),
            Stmt::Barrier(Scope::Block) => require(!self.strict || reach == Reach::Block, || {
                "a barrier of the block stands where threads of the block may differ in the branches they take".into()
            }),
        }
    }

    fn check_loop_head(&mut self, local: LocalId, bounds: [&Expr; 3], unroll: Unroll, body: &Block) -> Check {
        let slot = *self.locals.get(local.index()).ok_or_else(|| format!("{local} does not exist"))?;
        require(slot == Scoped::Unseen, || "a loop variable is declared twice".into())?;
        let variable = self.kernel.local(local);
        require(variable.kind == LocalKind::Loop, || format!("a {} is a loop variable", variable.kind))?;
        let dtype = variable.dtype;
        let known = matches!(dtype, DType::U32 | DType::I32 | DType::U64 | DType::I64);
        require(known, || format!("the loop variable is {dtype}"))?;
        let mut changed = Vec::new();
        collect_set_locals(body, &mut changed);
        for e in bounds {
            let found = self.dtype(e)?;
            require(found == dtype, || format!("a bound is {found} and the variable {dtype}"))?;
            let mut stable = true;
            e.for_each(&mut |part| match part {
                Expr::Local(id) => stable &= !changed.contains(id),
                Expr::Element(..) => stable = false,
                _ => {}
            });
            require(stable, || "a bound reads what the loop may change".into())?;
        }
        let [start, end, step] = bounds.map(|e| e.as_const().and_then(Value::as_i128));
        require(step.is_none_or(|n| n > 0), || "the step is not positive".into())?;
        if unroll == Unroll::Full {
            let (Some(start), Some(end), Some(step)) = (start, end, step) else {
                return Err("a loop that is wholly unrolled needs literal bounds".into());
            };
            require((end - start) / step <= UNROLL_LIMIT, || "an unrolled loop is too long".into())?;
        }
        require(!matches!(unroll, Unroll::By(n) if n < 2), || "unrolling by less than 2".into())
    }

    fn declare(&mut self, local: LocalId, kind: LocalKind, dtype: DType, declared: &mut Vec<usize>) -> Check {
        let slot = self.locals.get_mut(local.index()).ok_or_else(|| format!("{local} does not exist"))?;
        require(*slot == Scoped::Unseen, || "a name is declared twice".into())?;
        *slot = Scoped::Live;
        declared.push(local.index());
        let local = self.kernel.local(local);
        require(local.kind == kind, || format!("a {} is declared as {kind}", local.kind))?;
        require(local.dtype == dtype, || format!("`{}` is {} and gets {dtype}", local.name, local.dtype))
    }

    /// The dtype of an expression whose names are in scope and whose array indexes are known.
    fn dtype(&self, e: &Expr) -> Result<DType, String> {
        let mut problem = None;
        e.for_each(&mut |part| {
            let found = match part {
                Expr::Local(id) if self.locals.get(id.index()) != Some(&Scoped::Live) => {
                    Err(format!("`{}` is not in scope", self.kernel.show(part)))
                }
                Expr::Element(id, index) => self.check_index(*id, index, 1),
                _ => Ok(()),
            };
            if let Err(why) = found {
                problem.get_or_insert(why);
            }
        });
        match problem {
            Some(why) => Err(why),
            None => e.dtype(self.kernel),
        }
    }

    fn check_slots(&self, slots: &Slots, dtype: DType) -> Check {
        self.check_index(slots.array, &slots.first, slots.count)?;
        self.dtype(&slots.first)?;
        let array = self.kernel.array(slots.array);
        require(array.dtype == dtype, || {
            format!("`{}` holds {} where {dtype} is needed", array.name, array.dtype)
        })
    }

    /// Checks that an index of an array is known at compile time and stays within, `count` elements from there.
    fn check_index(&self, id: ArrayId, index: &Expr, count: u32) -> Check {
        let slot = self.arrays.get(id.index());
        let array = self.kernel.arrays.get(id.index()).ok_or_else(|| format!("{id} does not exist"))?;
        require(slot == Some(&Scoped::Live), || format!("`{}` is not in scope", array.name))?;
        let outside =
            || format!("`{}[{}]` leaves the {} elements", array.name, self.kernel.show(index), array.len);
        let mut variables = Vec::new();
        let mut known = true;
        index.for_each(&mut |part| match part {
            Expr::Const(v) => known &= v.dtype().is_int(),
            Expr::Op(..) => {}
            Expr::Local(id) => match self.unrolled.iter().find(|u| u.local == *id) {
                Some(u) if !variables.iter().any(|v: &&Unrolled| v.local == *id) => variables.push(u),
                Some(_) => {}
                None => known = false,
            },
            _ => known = false,
        });
        require(known, || {
            format!("`{}` is indexed by `{}`, a run-time value", array.name, self.kernel.show(index))
        })?;
        let combinations = variables.iter().map(|u| u.values.len()).product::<usize>();
        require(combinations <= 1 << 16, || "an index of an array depends on too many loops".into())?;
        for mut number in 0..combinations {
            let mut values = Vec::new();
            for u in &variables {
                values.push((u.local, u.values[number % u.values.len()]));
                number /= u.values.len();
            }
            let position = align::eval_constant(index, &values).and_then(Value::as_i128);
            let inside = |p: i128| p >= 0 && p + i128::from(count) <= i128::from(array.len);
            require(position.is_some_and(inside), outside)?;
        }
        Ok(())
    }

    fn memory_dtype(&self, memory: Memory) -> Result<DType, String> {
        self.kernel.memory_dtype(memory).ok_or_else(|| "an access to what is no memory".to_owned())
    }

    /// Checks an access and gives the dtype of the registers that take part.
    fn check_access(&self, access: &Access, usage: Usage) -> Result<DType, String> {
        let own = self.memory_dtype(access.memory)?;
        let raw = access.dtype.is_unsigned_int();
        require(access.dtype == own || raw, || format!("{} is accessed as {}", own, access.dtype))?;
        let width = access.width();
        require(matches!(width, 1 | 2 | 4 | 8 | 16), || format!("an access of {width} bytes"))?;
        self.check_usage(access.memory, usage)?;
        self.check_address(access.memory, access.dtype, &access.index, width)?;
        if let Some(when) = &access.when {
            let found = self.dtype(when)?;
            require(found == DType::Bool, || format!("the predicate is {found}"))?;
        }
        Ok(access.dtype.compute())
    }

    fn check_usage(&self, memory: Memory, wanted: Usage) -> Check {
        let Memory::Global(id) = memory else { return Ok(()) };
        let ParamKind::Pointer { usage, .. } = self.kernel.param(id).kind else { return Ok(()) };
        let name = &self.kernel.param(id).name;
        require(usage == Usage::ReadWrite || usage == wanted, || {
            format!("`{name}` is declared for {usage:?} and used for {wanted:?}")
        })
    }

    /// Checks that the address of an access is a multiple of its width as far as is known.
    fn check_address(&self, memory: Memory, dtype: DType, index: &Expr, width: u64) -> Check {
        let found = self.dtype(index)?;
        let integer = matches!(found, DType::U32 | DType::I32 | DType::U64 | DType::I64);
        require(integer, || format!("memory is indexed by {found}"))?;
        if !self.strict {
            return Ok(());
        }
        let base = self.alignment.of_memory(memory, &self.facts);
        require(base.is_multiple_of(width), || {
            let name = self.kernel.memory_name(memory);
            format!("`{name}` is known to be aligned to {base} bytes and accessed by {width}")
        })?;
        let divisor = self.alignment.of_index(index, &self.facts);
        let bytes = divisor.wrapping_mul(dtype.size() as u64);
        require(bytes.is_multiple_of(width), || {
            format!(
                "the index `{}` is known to be a multiple of {divisor}; {width} bytes are accessed",
                self.kernel.show(index)
            )
        })
    }

    fn check_warp_wide(&self, reach: Reach) -> Check {
        require(!self.strict || reach <= Reach::Warp, || {
            "a warp-wide statement stands where lanes of a warp may differ in the branches they take".into()
        })
    }
}

/// The facts that hold where the condition does.
fn collect_facts(condition: &Expr, facts: &mut Vec<FactId>) {
    match condition {
        Expr::Fact(id) => facts.push(*id),
        Expr::Op(crate::scalar::ScalarOp::And, args) => args.iter().for_each(|a| collect_facts(a, facts)),
        _ => {}
    }
}

/// The registers that a block sets.
fn collect_set_locals(block: &Block, set: &mut Vec<LocalId>) {
    for stmt in block {
        match stmt {
            Stmt::Set { local, .. } => set.push(*local),
            Stmt::If { then, otherwise, .. } => {
                collect_set_locals(then, set);
                collect_set_locals(otherwise, set);
            }
            Stmt::For { body, .. } => collect_set_locals(body, set),
            _ => {}
        }
    }
}

/// The values of a loop with literal bounds.
fn loop_values(dtype: DType, start: &Expr, end: &Expr, step: &Expr) -> Vec<Value> {
    let number = |e: &Expr| e.as_const().and_then(Value::as_i128);
    let (Some(start), Some(end), Some(step)) = (number(start), number(end), number(step)) else {
        return Vec::new();
    };
    let count = if end > start { (end - start + step - 1) / step } else { 0 };
    (0..count).filter_map(|i| Value::from_i128(dtype, start + i * step)).collect()
}
