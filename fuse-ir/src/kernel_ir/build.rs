//! Building kernels: names are made unique, dtypes follow from the expressions, blocks nest as closures do.

use super::expr::{Builtin, Expr};
use super::mma::MmaShape;
use super::size::{Condition, Size};
use super::stmt::{
    Access, AtomicOp, Block, Memory, Scope, ShuffleKind, Slots, Source, Stmt, Target, Unroll, VoteKind,
};
use super::verify::{KernelError, verify_kernel};
use super::{Array, Fact, Kernel, Local, LocalKind, Origin, Param, ParamKind, Usage, View};
use crate::dtype::{DType, Value};
use crate::id::{ArgId, ArrayId, FactId, FnId, LocalId, ViewId};
use std::collections::BTreeSet;

/// A kernel while it is built. Type errors are found by [`Builder::finish`].
#[derive(Debug)]
pub struct Builder {
    kernel: Kernel,
    names: BTreeSet<String>,
    /// The blocks that are open, the innermost last; the first is the body.
    open: Vec<Block>,
    error: Option<String>,
}

impl Builder {
    /// A kernel of that name with nothing in it.
    pub fn new(name: &str) -> Self {
        let name = identifier(name);
        let names = BTreeSet::from([name.clone()]);
        Builder { kernel: Kernel { name, ..Kernel::default() }, names, open: vec![Block::new()], error: None }
    }

    /// The kernel so far; its body is empty until [`Builder::finish`].
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The same, to set what has no method of its own: comment, geometry, functions.
    pub fn kernel_mut(&mut self) -> &mut Kernel {
        &mut self.kernel
    }

    /// The finished kernel, verified.
    ///
    /// # Errors
    /// The first thing that [`verify_kernel`] finds wrong.
    pub fn finish(mut self) -> Result<Kernel, KernelError> {
        while self.open.len() > 1 {
            let inner = self.close();
            self.extend(inner);
        }
        self.kernel.body = self.open.pop().unwrap_or_default();
        if let Some(why) = self.error {
            return Err(KernelError { kernel: self.kernel.name, at: String::new(), why });
        }
        verify_kernel(&self.kernel)?;
        Ok(self.kernel)
    }

    /// A name like `wish` that nothing else has.
    pub fn unique(&mut self, wish: &str) -> String {
        let wish = identifier(wish);
        let mut name = wish.clone();
        let mut number = 1;
        while !self.names.insert(name.clone()) {
            number += 1;
            name = format!("{wish}_{number}");
        }
        name
    }

    /// A parameter.
    pub fn param(&mut self, name: &str, kind: ParamKind, source: Origin) -> ArgId {
        let name = self.unique(name);
        self.kernel.params.push(Param { name, kind, source });
        ArgId::from_index(self.kernel.params.len() - 1)
    }

    /// A pointer given by position, aligned as its elements are.
    pub fn pointer(&mut self, name: &str, dtype: DType, usage: Usage) -> ArgId {
        self.pointer_aligned(name, dtype, usage, dtype.size() as u32)
    }

    /// A pointer given by position with a promise of alignment.
    pub fn pointer_aligned(&mut self, name: &str, dtype: DType, usage: Usage, align: u32) -> ArgId {
        self.param(name, ParamKind::Pointer { dtype, usage, align, unaliased: true }, Origin::Given)
    }

    /// A scalar given by position.
    pub fn scalar(&mut self, name: &str, dtype: DType) -> ArgId {
        self.param(name, ParamKind::Scalar { dtype, multiple_of: 1 }, Origin::Given)
    }

    /// A fact.
    pub fn fact(&mut self, name: &str, conditions: Vec<Condition>) -> FactId {
        let name = self.unique(name);
        self.kernel.facts.push(Fact { name, conditions });
        FactId::from_index(self.kernel.facts.len() - 1)
    }

    /// A view of shared memory at an offset in bytes.
    pub fn view(
        &mut self,
        name: &str,
        dtype: DType,
        offset: impl Into<Size>,
        len: impl Into<Size>,
    ) -> ViewId {
        let name = self.unique(name);
        self.kernel.views.push(View { name, dtype, offset: offset.into(), len: len.into() });
        ViewId::from_index(self.kernel.views.len() - 1)
    }

    /// Sets grid, block and bytes of shared memory.
    pub fn launch(&mut self, grid: [Size; 3], block: [u32; 3], shared_bytes: impl Into<Size>) {
        self.kernel.geometry.grid = grid;
        self.kernel.geometry.block = block;
        self.kernel.geometry.shared_bytes = shared_bytes.into();
    }

    /// Appends a statement to the innermost open block.
    pub fn push(&mut self, stmt: Stmt) {
        if let Some(block) = self.open.last_mut() {
            block.push(stmt);
        }
    }

    fn extend(&mut self, block: Block) {
        for stmt in block {
            self.push(stmt);
        }
    }

    /// Opens a block; statements go there until [`Builder::close`] takes it.
    pub fn open(&mut self) {
        self.open.push(Block::new());
    }

    /// Takes the innermost block that [`Builder::open`] opened.
    pub fn close(&mut self) -> Block {
        if self.open.len() > 1 { self.open.pop().unwrap_or_default() } else { Block::new() }
    }

    /// What stands in the innermost open block so far.
    pub fn so_far(&self) -> &[Stmt] {
        self.open.last().map_or(&[], Vec::as_slice)
    }

    /// The dtype of an expression; a mistake is kept for [`Builder::finish`].
    pub fn dtype_of(&mut self, e: &Expr) -> DType {
        e.dtype(&self.kernel).unwrap_or_else(|why| {
            self.error.get_or_insert(why);
            DType::U32
        })
    }

    /// A local without a statement that declares it.
    pub fn local(&mut self, name: &str, dtype: DType, kind: LocalKind) -> LocalId {
        let name = self.unique(name);
        self.kernel.locals.push(Local { name, dtype, kind });
        LocalId::from_index(self.kernel.locals.len() - 1)
    }

    /// A line for the reader.
    pub fn comment(&mut self, text: &str) {
        self.push(Stmt::Comment(text.replace('\n', " ")));
    }

    /// `let name = value`; literals and what has a name already are given back as they are.
    pub fn bind(&mut self, name: &str, value: impl Into<Expr>) -> Expr {
        let value = value.into();
        let named = match &value {
            Expr::Const(_) | Expr::Param(_) => true,
            Expr::Local(id) => {
                self.kernel.locals.get(id.index()).is_some_and(|l| l.kind != LocalKind::Register)
            }
            _ => false,
        };
        if named {
            return value;
        }
        let dtype = self.dtype_of(&value);
        let local = self.local(name, dtype, LocalKind::Let);
        self.push(Stmt::Let { local, value });
        Expr::Local(local)
    }

    /// `reg name = value`.
    pub fn register(&mut self, name: &str, value: impl Into<Expr>) -> LocalId {
        let value = value.into();
        let dtype = self.dtype_of(&value);
        let local = self.local(name, dtype, LocalKind::Register);
        self.push(Stmt::Register { local, value });
        local
    }

    /// `local = value`.
    pub fn set(&mut self, local: LocalId, value: impl Into<Expr>) {
        self.push(Stmt::Set { local, value: value.into() });
    }

    /// An array of registers.
    pub fn array(&mut self, name: &str, dtype: DType, len: u32, fill: Option<Value>) -> ArrayId {
        let name = self.unique(name);
        self.kernel.arrays.push(Array { name, dtype, len });
        let array = ArrayId::from_index(self.kernel.arrays.len() - 1);
        self.push(Stmt::Array { array, fill });
        array
    }

    /// `array[index] = value`.
    pub fn set_element(&mut self, array: ArrayId, index: impl Into<Expr>, value: impl Into<Expr>) {
        self.push(Stmt::SetElement { array, index: index.into(), value: value.into() });
    }

    fn access(&mut self, memory: Memory, index: Expr, count: u32, when: Option<Expr>) -> Access {
        let dtype = self.kernel.memory_dtype(memory).unwrap_or_else(|| {
            self.error.get_or_insert_with(|| "an access to what is no memory".into());
            DType::U32
        });
        Access { memory, dtype, index, count, when }
    }

    /// `let name = memory[index]`, zero where `when` is false.
    pub fn load(
        &mut self,
        name: &str,
        memory: impl Into<Memory>,
        index: impl Into<Expr>,
        when: Option<Expr>,
    ) -> Expr {
        let access = self.access(memory.into(), index.into(), 1, when);
        let dtype = access.dtype.compute();
        let local = self.local(name, dtype, LocalKind::Let);
        self.push(Stmt::Load { target: Target::Let(local), access, fill: Value::zero(dtype) });
        Expr::Local(local)
    }

    /// Loads consecutive elements into an array, zero where `when` is false.
    pub fn load_into(
        &mut self,
        target: Slots,
        memory: impl Into<Memory>,
        index: impl Into<Expr>,
        when: Option<Expr>,
    ) {
        let access = self.access(memory.into(), index.into(), target.count, when);
        let fill = Value::zero(access.dtype.compute());
        self.push(Stmt::Load { target: Target::Slots(target), access, fill });
    }

    /// `memory[index] = value`.
    pub fn store(
        &mut self,
        memory: impl Into<Memory>,
        index: impl Into<Expr>,
        value: impl Into<Expr>,
        when: Option<Expr>,
    ) {
        let access = self.access(memory.into(), index.into(), 1, when);
        self.push(Stmt::Store { source: Source::Value(value.into()), access });
    }

    /// Stores consecutive elements from an array.
    pub fn store_from(
        &mut self,
        memory: impl Into<Memory>,
        index: impl Into<Expr>,
        source: Slots,
        when: Option<Expr>,
    ) {
        let access = self.access(memory.into(), index.into(), source.count, when);
        self.push(Stmt::Store { source: Source::Slots(source), access });
    }

    /// An atomic whose old value is not wanted.
    pub fn atomic(
        &mut self,
        op: AtomicOp,
        memory: impl Into<Memory>,
        index: impl Into<Expr>,
        value: impl Into<Expr>,
        when: Option<Expr>,
    ) {
        let access = self.access(memory.into(), index.into(), 1, when);
        self.push(Stmt::Atomic { op, old: None, access, value: value.into() });
    }

    /// A shuffle over segments of `width` lanes.
    pub fn shuffle(
        &mut self,
        name: &str,
        kind: ShuffleKind,
        value: impl Into<Expr>,
        lane: impl Into<Expr>,
        width: u32,
    ) -> Expr {
        let value = value.into();
        let dtype = self.dtype_of(&value);
        let result = self.local(name, dtype, LocalKind::Let);
        self.push(Stmt::Shuffle { result, kind, value, lane: lane.into(), width });
        Expr::Local(result)
    }

    /// A vote.
    pub fn vote(&mut self, name: &str, kind: VoteKind, value: impl Into<Expr>) -> Expr {
        let dtype = if kind == VoteKind::Ballot { DType::U32 } else { DType::Bool };
        let result = self.local(name, dtype, LocalKind::Let);
        self.push(Stmt::Vote { result, kind, value: value.into() });
        Expr::Local(result)
    }

    /// Calls a function for one of its results.
    pub fn call(&mut self, name: &str, function: FnId, args: Vec<Expr>, result: u32) -> Expr {
        let Some(callee) = self.kernel.functions.get(function.index()) else {
            self.error.get_or_insert_with(|| format!("{function} does not exist"));
            return 0u32.into();
        };
        let dtype =
            callee.results.get(result as usize).and_then(|e| callee.expr_dtype(&self.kernel.functions, e));
        let mut results = vec![None; callee.results.len()];
        let local = self.local(name, dtype.unwrap_or(DType::U32), LocalKind::Let);
        if let Some(slot) = results.get_mut(result as usize) {
            *slot = Some(local);
        }
        self.push(Stmt::Call { results, function, args, fault: None });
        Expr::Local(local)
    }

    /// `if condition { then }`.
    pub fn if_then(&mut self, condition: impl Into<Expr>, then: impl FnOnce(&mut Self)) {
        self.if_else(condition, then, |_| ());
    }

    /// `if condition { then } else { otherwise }`.
    pub fn if_else(
        &mut self,
        condition: impl Into<Expr>,
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        let condition = condition.into();
        self.open();
        then(self);
        let then = self.close();
        self.open();
        otherwise(self);
        let otherwise = self.close();
        self.push(Stmt::If { condition, then, otherwise });
    }

    /// `for name in start..end` by `step`; the variable has the dtype of `start`.
    pub fn for_each(
        &mut self,
        name: &str,
        range: (impl Into<Expr>, impl Into<Expr>),
        step: impl Into<Expr>,
        unroll: Unroll,
        body: impl FnOnce(&mut Self, Expr),
    ) {
        let (start, end, step) = (range.0.into(), range.1.into(), step.into());
        let dtype = self.dtype_of(&start);
        let local = self.local(name, dtype, LocalKind::Loop);
        self.open();
        body(self, Expr::Local(local));
        let body = self.close();
        self.push(Stmt::For { local, start, end, step, unroll, body });
    }

    /// `for name in 0..count`, wholly unrolled: the variable, a u32, may index arrays.
    pub fn unrolled(&mut self, name: &str, count: u32, body: impl FnOnce(&mut Self, Expr)) {
        self.for_each(name, (0u32, count), 1u32, Unroll::Full, body);
    }

    /// A barrier of the block.
    pub fn block_barrier(&mut self) {
        self.push(Stmt::Barrier(Scope::Block));
    }

    /// A barrier of the warp.
    pub fn warp_barrier(&mut self) {
        self.push(Stmt::Barrier(Scope::Warp));
    }

    /// `cp.async` of 4, 8 or 16 bytes, the first `valid` of them read.
    pub fn copy_async(&mut self, to: (ViewId, Expr), from: (ArgId, Expr), bytes: u32, valid: Option<Expr>) {
        self.push(Stmt::CopyAsync {
            to: to.0,
            to_index: to.1,
            from: from.0,
            from_index: from.1,
            bytes,
            valid,
        });
    }

    /// Closes the lane's group of copies.
    pub fn commit_async(&mut self) {
        self.push(Stmt::CommitAsync);
    }

    /// Waits until at most `pending` groups are in flight.
    pub fn wait_async(&mut self, pending: u32) {
        self.push(Stmt::WaitAsync { pending });
    }

    /// `ldmatrix` of `target.count` matrices.
    pub fn load_matrix(&mut self, target: Slots, view: ViewId, index: impl Into<Expr>, transpose: bool) {
        self.push(Stmt::LoadMatrix { target, transpose, view, index: index.into() });
    }

    /// `acc = a · b + acc`.
    pub fn mma(&mut self, shape: MmaShape, acc: Slots, a: Slots, b: Slots) {
        self.push(Stmt::Mma { shape, d: acc.clone(), a, b, c: acc });
    }
}

impl From<ArgId> for Memory {
    fn from(id: ArgId) -> Self {
        Memory::Global(id)
    }
}

impl From<ViewId> for Memory {
    fn from(id: ViewId) -> Self {
        Memory::Shared(id)
    }
}

impl From<LocalId> for Expr {
    fn from(id: LocalId) -> Self {
        Expr::Local(id)
    }
}

impl From<ArgId> for Expr {
    fn from(id: ArgId) -> Self {
        Expr::Param(id)
    }
}

/// `count` elements of `array` from `first` on.
pub fn slots(array: ArrayId, first: impl Into<Expr>, count: u32) -> Slots {
    Slots { array, first: first.into(), count }
}

/// `array[index]`.
pub fn element(array: ArrayId, index: impl Into<Expr>) -> Expr {
    Expr::Element(array, Box::new(index.into()))
}

/// The thread's position along x.
pub fn thread_x() -> Expr {
    Builtin::Thread(0).into()
}

/// The block's position along x.
pub fn block_x() -> Expr {
    Builtin::Block(0).into()
}

/// `name` made a valid identifier of Rust and C.
fn identifier(name: &str) -> String {
    let mut valid: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    while valid.contains("__") {
        valid = valid.replace("__", "_");
    }
    if valid.chars().next().is_none_or(|c| c.is_ascii_digit()) {
        valid.insert(0, 'k');
    }
    valid
}
