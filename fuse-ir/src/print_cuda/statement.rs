//! Statements of kernels.

use super::expression::Expressions;
use super::literal::print_literal;
use super::operand::{Operand, rank};
use super::writer::Writer;
use crate::dtype::{DType, Value};
use crate::id::LocalId;
use crate::kernel_ir::{Block, Expr, Scope, ShuffleKind, Slots, Stmt, Unroll, VoteKind};
use crate::scalar::ScalarOp;

/// The mask of all lanes.
const ALL_LANES: &str = "0xffffffffu";

/// Prints the statements of kernels.
pub(super) struct Statements<'e, 'k> {
    pub(super) expressions: &'e Expressions<'k>,
    /// How scalar functions are called.
    pub(super) functions: &'e [super::function::Signature],
    pub(super) out: Writer,
}

impl Statements<'_, '_> {
    pub(super) fn text(&self, e: &Expr) -> String {
        self.expressions.text(e)
    }

    pub(super) fn line(&mut self, line: impl AsRef<str>) {
        self.out.line(line);
    }

    /// A name of the printer's own.
    pub(super) fn helper(&self, wish: &'static str) -> String {
        self.expressions.names.borrow_mut().helper(wish)
    }

    /// `const T name`, as the start of a declaration.
    pub(super) fn declare(&self, local: LocalId) -> String {
        let dtype = self.expressions.kernel.local(local).dtype;
        format!("const {dtype} {}", self.expressions.names.borrow().local(local))
    }

    /// The elements of consecutive slots.
    pub(super) fn slots(&self, slots: &Slots) -> Vec<String> {
        let dtype = self.expressions.dtype(&slots.first);
        let element = |k: u32| {
            let offset = Value::from_i128(dtype, k.into()).unwrap_or(Value::U32(k));
            let index = Expr::op(ScalarOp::Add, vec![slots.first.clone(), Expr::Const(offset)]);
            self.text(&Expr::Element(slots.array, Box::new(index)))
        };
        (0..slots.count).map(element).collect()
    }

    /// `head { … }`; without a head just the braces.
    pub(super) fn nest(&mut self, head: &str, body: impl FnOnce(&mut Self)) {
        self.line(if head.is_empty() { "{".to_owned() } else { format!("{head} {{") });
        self.deeper(body);
        self.line("}");
    }

    /// `if (condition) { … } else { … }`.
    pub(super) fn branch(
        &mut self,
        condition: &str,
        then: impl FnOnce(&mut Self),
        otherwise: impl FnOnce(&mut Self),
    ) {
        self.line(format!("if ({condition}) {{"));
        self.deeper(then);
        self.line("} else {");
        self.deeper(otherwise);
        self.line("}");
    }

    fn deeper(&mut self, body: impl FnOnce(&mut Self)) {
        self.out.indent();
        body(self);
        self.out.outdent();
    }

    pub(super) fn print_block(&mut self, block: &Block) {
        for stmt in block {
            self.print_stmt(stmt);
        }
    }

    fn print_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            // A backslash at the end would join the next line to the comment.
            Stmt::Comment(text) => self.line(format!("// {}", text.trim_end_matches(['\\', ' ']))),
            Stmt::Let { local, value } => {
                let line = format!("{} = {};", self.declare(*local), self.text(value));
                self.line(line);
            }
            Stmt::Register { local, value } => {
                let dtype = self.expressions.kernel.local(*local).dtype;
                let name = self.text(&Expr::Local(*local));
                let line = format!("{dtype} {name} = {};", self.text(value));
                self.line(line);
            }
            Stmt::Set { local, value } => {
                let line = format!("{} = {};", self.text(&Expr::Local(*local)), self.text(value));
                self.line(line);
            }
            Stmt::Array { array, fill } => self.print_array(*array, *fill),
            Stmt::SetElement { array, index, value } => {
                let place = self.text(&Expr::Element(*array, Box::new(index.clone())));
                let line = format!("{place} = {};", self.text(value));
                self.line(line);
            }
            Stmt::Load { target, access, fill } => self.print_load(target, access, *fill),
            Stmt::Store { source, access } => self.print_store(source, access),
            Stmt::Atomic { op, old, access, value } => self.print_atomic(*op, *old, access, value),
            Stmt::CopyAsync { to, to_index, from, from_index, bytes, valid } => {
                let names = self.expressions.names.borrow();
                let (to, from) = (names.view(*to).to_owned(), names.param(*from).to_owned());
                drop(names);
                let valid = valid.as_ref().map_or_else(|| format!("{bytes}u"), |e| self.text(e));
                let (to_index, from_index) = (self.text(to_index), self.text(from_index));
                self.line(format!(
                    "fuse::copy_async_{bytes}(&{to}[{to_index}], &{from}[{from_index}], {valid});"
                ));
            }
            Stmt::CommitAsync => self.line("fuse::commit_async();"),
            Stmt::WaitAsync { pending } => self.line(format!("fuse::wait_async<{pending}>();")),
            Stmt::LoadMatrix { target, transpose, view, index } => {
                let view = self.expressions.names.borrow().view(*view).to_owned();
                let (slots, index) = (self.slots(target).join(", "), self.text(index));
                let transposed = if *transpose { "_transposed" } else { "" };
                let count = target.count;
                self.line(format!("fuse::load_matrix_x{count}{transposed}({slots}, &{view}[{index}]);"));
            }
            Stmt::Mma { shape, d, a, b, c } => {
                let registers: Vec<String> = [d, a, b, c].iter().flat_map(|s| self.slots(s)).collect();
                let name = super::tensor_core::function_name(*shape);
                self.line(format!("fuse::{name}({});", registers.join(", ")));
            }
            Stmt::Shuffle { result, kind, value, lane, width } => {
                self.print_shuffle(*result, *kind, value, lane, *width)
            }
            Stmt::Vote { result, kind, value } => {
                let (declaration, value) = (self.declare(*result), self.text(value));
                self.line(match kind {
                    VoteKind::Any => format!("{declaration} = __any_sync({ALL_LANES}, {value}) != 0;"),
                    VoteKind::All => format!("{declaration} = __all_sync({ALL_LANES}, {value}) != 0;"),
                    VoteKind::Ballot => format!("{declaration} = __ballot_sync({ALL_LANES}, {value});"),
                });
            }
            Stmt::Call { results, function, args, fault } => {
                self.print_call(results, *function, args, *fault)
            }
            Stmt::If { condition, then, otherwise } => self.print_if(condition, then, otherwise),
            Stmt::For { local, start, end, step, unroll, body } => {
                self.line(match unroll {
                    Unroll::None => "#pragma unroll 1".to_owned(),
                    Unroll::By(n) => format!("#pragma unroll {n}"),
                    Unroll::Full => "#pragma unroll".to_owned(),
                });
                let dtype = self.expressions.kernel.local(*local).dtype;
                let name = self.text(&Expr::Local(*local));
                let end = self.expressions.print(end).at_least(rank::SHIFT);
                let next = match step.as_const().and_then(Value::as_i128) {
                    Some(1) => format!("++{name}"),
                    _ => format!("{name} += {}", self.text(step)),
                };
                let head = format!("for ({dtype} {name} = {}; {name} < {end}; {next})", self.text(start));
                self.nest(&head, |s| s.print_block(body));
            }
            Stmt::Barrier(Scope::Block) => self.line("__syncthreads();"),
            Stmt::Barrier(Scope::Warp) => self.line("__syncwarp();"),
        }
    }

    fn print_array(&mut self, array: crate::id::ArrayId, fill: Option<Value>) {
        let (dtype, len) = {
            let array = self.expressions.kernel.array(array);
            (array.dtype, array.len)
        };
        let name = self.expressions.names.borrow().array(array).to_owned();
        let Some(fill) = fill else {
            return self.line(format!("{dtype} {name}[{len}];"));
        };
        let value = print_literal(fill).text;
        // Braces without values are zeros, but of the positive kind.
        let zero = fill == Value::zero(dtype) && fill.as_f64().is_none_or(|x| x.is_sign_positive());
        if zero {
            self.line(format!("{dtype} {name}[{len}] = {{}};"));
        } else if len <= 4 {
            let values = vec![value.as_str(); len as usize].join(", ");
            self.line(format!("{dtype} {name}[{len}] = {{{values}}};"));
        } else {
            let slot = self.helper("slot");
            self.line(format!("{dtype} {name}[{len}];"));
            self.line("#pragma unroll");
            self.line(format!("for (u32 {slot} = 0; {slot} < {len}u; ++{slot}) {name}[{slot}] = {value};"));
        }
    }

    fn print_if(&mut self, condition: &Expr, then: &Block, otherwise: &Block) {
        let condition = self.text(condition);
        if otherwise.is_empty() {
            self.nest(&format!("if ({condition})"), |s| s.print_block(then));
        } else {
            self.branch(&condition, |s| s.print_block(then), |s| s.print_block(otherwise));
        }
    }

    fn print_shuffle(&mut self, result: LocalId, kind: ShuffleKind, value: &Expr, lane: &Expr, width: u32) {
        let name = match kind {
            ShuffleKind::Xor => "__shfl_xor_sync",
            ShuffleKind::Up => "__shfl_up_sync",
            ShuffleKind::Down => "__shfl_down_sync",
            ShuffleKind::Idx => "__shfl_sync",
        };
        let by = self.expressions.print(lane);
        let moves = matches!(kind, ShuffleKind::Up | ShuffleKind::Down);
        // The instruction takes the low five bits of the lane; a step out of the warp leaves the lane its own value.
        let lane = match by.constant {
            Some(Value::U32(n)) if moves && n >= 32 => "0".to_owned(),
            Some(Value::U32(n)) => n.to_string(),
            _ if moves => {
                let text = by.at_least(rank::SHIFT);
                format!("{text} < 32u ? {} : 0u", by.at_least(rank::LOGIC_OR))
            }
            _ => by.text,
        };
        let value = self.expressions.print(value);
        let narrow = value.dtype.size() < 4;
        let sent = if narrow { format!("i32({})", value.text) } else { value.text };
        let received = format!("{name}({ALL_LANES}, {sent}, {lane}, {width})");
        let received = match value.dtype {
            DType::Bool => format!("{received} != 0"),
            dtype if narrow => format!("{dtype}({received})"),
            _ => received,
        };
        let line = format!("{} = {received};", self.declare(result));
        self.line(line);
    }

    fn print_call(
        &mut self,
        results: &[Option<LocalId>],
        function: crate::id::FnId,
        args: &[Expr],
        fault: Option<LocalId>,
    ) {
        let functions = self.functions;
        let Some(signature) = functions.get(function.index()) else { return };
        let mut args: Vec<Operand> = args.iter().map(|a| self.expressions.print(a)).collect();
        if signature.faults {
            let name = match fault {
                Some(local) => self.expressions.names.borrow().local(local).to_owned(),
                None => self.expressions.names.borrow_mut().fresh("ignored_fault"),
            };
            self.line(format!("bool {name} = false;"));
            args.push(Operand::primary(name, DType::Bool));
        } else if let Some(local) = fault {
            let line = format!("{} = false;", self.declare(local));
            self.line(line);
        }
        let call = super::operation::call(&format!("op::{}", signature.name), &args, DType::Bool).text;
        if let [result] = results {
            let line = match result {
                Some(local) => format!("{} = {call};", self.declare(*local)),
                None => format!("{call};"),
            };
            return self.line(line);
        }
        let all = self.expressions.names.borrow_mut().fresh(&format!("{}_results", signature.name));
        self.line(format!("const auto {all} = {call};"));
        for (k, result) in results.iter().enumerate() {
            if let Some(local) = result {
                let line = format!("{} = {all}.r{k};", self.declare(*local));
                self.line(line);
            }
        }
    }
}
