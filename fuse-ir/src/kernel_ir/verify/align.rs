//! What is known to divide an index, and so the alignment of a vector access.

use crate::dtype::Value;
use crate::eval::eval_op;
use crate::id::{FactId, LocalId};
use crate::kernel_ir::expr::Expr;
use crate::kernel_ir::size::{Condition, Size};
use crate::kernel_ir::stmt::Memory;
use crate::kernel_ir::{Kernel, ParamKind};
use crate::scalar::ScalarOp;

/// The alignment of the dynamic allocation of shared memory that is relied on.
const SHARED_ALIGN: u64 = 128;

/// Powers of two that divide lets and loop variables.
pub(super) struct Alignment<'a> {
    kernel: &'a Kernel,
    locals: Vec<u64>,
}

impl<'a> Alignment<'a> {
    pub(super) fn new(kernel: &'a Kernel) -> Self {
        Alignment { kernel, locals: vec![1; kernel.locals.len()] }
    }

    /// Keeps what divides a let.
    pub(super) fn bind(&mut self, local: LocalId, value: &Expr, facts: &[FactId]) {
        let divisor = self.of_index(value, facts);
        if let Some(slot) = self.locals.get_mut(local.index()) {
            *slot = divisor;
        }
    }

    /// Keeps what divides a loop variable.
    pub(super) fn enter_loop(&mut self, local: LocalId, start: &Expr, step: &Expr, facts: &[FactId]) {
        let divisor = self.of_index(start, facts).min(self.of_index(step, facts));
        if let Some(slot) = self.locals.get_mut(local.index()) {
            *slot = divisor;
        }
    }

    /// A power of two that divides the address of a memory, by promises, requirements and the facts that hold.
    pub(super) fn of_memory(&self, memory: Memory, facts: &[FactId]) -> u64 {
        match memory {
            Memory::Shared(id) => {
                power_of_two(self.kernel.view(id).offset.known_divisor(self.kernel)).min(SHARED_ALIGN)
            }
            Memory::Global(id) => {
                let ParamKind::Pointer { align, .. } = self.kernel.param(id).kind else { return 1 };
                let known = self.conditions(facts).filter_map(|c| match c {
                    Condition::Aligned { pointer, bytes } if *pointer == id => Some(*bytes),
                    _ => None,
                });
                known.fold(align, u32::max).into()
            }
        }
    }

    fn conditions<'f>(&'f self, facts: &'f [FactId]) -> impl Iterator<Item = &'f Condition> {
        facts.iter().flat_map(|id| &self.kernel.fact(*id).conditions).chain(&self.kernel.requires)
    }

    /// A power of two that divides an integer expression; only these survive arithmetic that wraps.
    pub(super) fn of_index(&self, e: &Expr, facts: &[FactId]) -> u64 {
        let of = |e: &Expr| self.of_index(e, facts);
        match e {
            Expr::Const(v) => v.as_i128().map_or(1, |n| power_of_two(n as u64)),
            Expr::Local(id) => self.locals.get(id.index()).copied().unwrap_or(1),
            Expr::Param(id) => {
                let ParamKind::Scalar { multiple_of, .. } = self.kernel.param(*id).kind else { return 1 };
                let known = self.conditions(facts).filter_map(|c| match c {
                    Condition::Multiple { size: Size::Param(p), of } if p == id => Some(*of),
                    _ => None,
                });
                known.map(power_of_two).fold(power_of_two(multiple_of), u64::max)
            }
            Expr::Op(op, args) => match (op, args.as_slice()) {
                (ScalarOp::Add | ScalarOp::Sub | ScalarOp::Min | ScalarOp::Max, [a, b])
                | (ScalarOp::Xor | ScalarOp::Or | ScalarOp::Rem, [a, b])
                | (ScalarOp::Select, [_, a, b]) => of(a).min(of(b)),
                (ScalarOp::And, [a, b]) => of(a).max(of(b)),
                (ScalarOp::Mul, [a, b]) => power_of_two(of(a) * of(b)),
                (ScalarOp::Shl, [a, Expr::Const(Value::U32(n))]) if *n <= 16 => power_of_two(of(a) << *n),
                (ScalarOp::Div, [a, Expr::Const(c)]) => {
                    let c = c.as_i128().and_then(|c| u64::try_from(c).ok()).unwrap_or(0);
                    if c > 0 && of(a) % c == 0 { of(a) / c } else { 1 }
                }
                (ScalarOp::Cast(to), [a]) if to.is_int() => of(a),
                (_, _) => 1,
            },
            Expr::Element(..) | Expr::Builtin(_) | Expr::Fact(_) | Expr::Pack(..) | Expr::Unpack(..) => 1,
        }
    }
}

/// The greatest power of two, up to 2^16, that divides it.
fn power_of_two(n: u64) -> u64 {
    1 << n.trailing_zeros().min(16)
}

/// The value of an expression of literals and these variables; `None` if there is anything else in it.
pub(super) fn eval_constant(e: &Expr, variables: &[(LocalId, Value)]) -> Option<Value> {
    match e {
        Expr::Const(v) => Some(*v),
        Expr::Local(id) => variables.iter().find(|(v, _)| v == id).map(|(_, value)| *value),
        Expr::Op(op, args) => {
            let values = args.iter().map(|a| eval_constant(a, variables)).collect::<Option<Vec<_>>>()?;
            op.result_dtype(&values.iter().map(|v| v.dtype()).collect::<Vec<_>>())?;
            Some(eval_op(*op, &values).0)
        }
        _ => None,
    }
}
