//! Index expressions as expressions of a kernel.
//!
//! Positions, extents and strides are unsigned, of the index dtype. An expression that cannot be negative is computed
//! in it; others are computed in the signed dtype of the same width, those with indirect parts or scalar parameters in
//! i64. Where bounds are tested a negative number is one too large: `0 <= e < n` is `e < n` of unsigned numbers.

use super::body::{Emitter, Scope};
use crate::dtype::{DType, Value};
use crate::id::{AxisId, ValueId};
use crate::index_map::{Bound, IndexExpr};
use crate::kernel_ir::Expr;
use crate::scalar::ScalarOp;
use crate::schedule::BufferRef;

impl Emitter<'_> {
    /// A literal of the index dtype.
    pub(super) fn number(&self, n: u64) -> Expr {
        if self.index == DType::U64 { Expr::from(n) } else { Expr::from(n as u32) }
    }

    /// A u32 as an index.
    pub(super) fn widen(&self, e: Expr) -> Expr {
        if self.index == DType::U32 { e } else { e.cast(self.index) }
    }

    /// The positions on `axes` of the linear position `linear`; the first axis is outermost and needs no division.
    pub(super) fn decompose(&mut self, linear: Expr, axes: &[AxisId], scope: &mut Scope) {
        let mut rest = linear;
        for (k, axis) in axes.iter().enumerate().rev() {
            let name = self.axis_name(*axis);
            if k == 0 {
                let position = self.builder.bind(&format!("i_{name}"), rest.clone());
                scope.positions.insert(*axis, position);
                break;
            }
            let extent = self.extent(&IndexExpr::Extent(*axis));
            let position = self.builder.bind(&format!("i_{name}"), &rest % &extent);
            rest = self.builder.bind("rest", rest / extent);
            scope.positions.insert(*axis, position);
        }
    }

    /// The number of positions on `axes`, as a size and as an expression.
    pub(super) fn count(&mut self, axes: &[AxisId]) -> (crate::kernel_ir::Size, Expr) {
        let product = axes.iter().fold(IndexExpr::Const(1), |p, a| p.times(IndexExpr::Extent(*a)));
        match product {
            IndexExpr::Const(n) => ((n as u64).into(), self.number(n as u64)),
            product => {
                let id = self.extent_arg(&product, self.index);
                (id.into(), id.into())
            }
        }
    }

    /// An index expression as an unsigned number of the index dtype; negative ones wrap.
    pub(super) fn index_expr(&mut self, e: &IndexExpr, scope: &Scope) -> Expr {
        if is_natural(e) {
            return self.index_in(e, scope, self.index);
        }
        let dtype = self.signed_dtype(e);
        self.index_in(e, scope, dtype).cast(self.index)
    }

    /// The dtype in which an expression that may be negative is computed.
    fn signed_dtype(&self, e: &IndexExpr) -> DType {
        let mut far = self.index == DType::U64;
        e.for_each_leaf(&mut |leaf| far |= matches!(leaf, IndexExpr::Param(_) | IndexExpr::Indirect(_)));
        if far { DType::I64 } else { DType::I32 }
    }

    /// An index expression as an i64.
    pub(super) fn index_i64(&mut self, e: &IndexExpr, scope: &Scope) -> Expr {
        if is_natural(e) {
            return self.index_in(e, scope, self.index).cast(DType::I64);
        }
        let dtype = self.signed_dtype(e);
        self.index_in(e, scope, dtype).cast(DType::I64)
    }

    fn index_in(&mut self, e: &IndexExpr, scope: &Scope, dtype: DType) -> Expr {
        let mut two = |op: ScalarOp, a: &IndexExpr, b: &IndexExpr| {
            let args = vec![self.index_in(a, scope, dtype), self.index_in(b, scope, dtype)];
            Expr::op(op, args)
        };
        let signed = dtype.is_signed_int();
        match e {
            IndexExpr::Const(n) => {
                Expr::Const(Value::from_i128(dtype, i128::from(*n)).unwrap_or(Value::I64(*n)))
            }
            IndexExpr::Index(axis) => {
                let position = scope.positions.get(axis).cloned().unwrap_or_else(|| self.number(0));
                position.cast_to(self.index, dtype)
            }
            IndexExpr::Extent(axis) => self.extent(&IndexExpr::Extent(*axis)).cast_to(self.index, dtype),
            IndexExpr::Param(p) => {
                let scalar = self.user_scalar(*p);
                let from = self.builder.dtype_of(&scalar);
                scalar.cast_to(from, dtype)
            }
            IndexExpr::Indirect(n) => {
                let value = scope.values.get(n.index()).cloned().flatten();
                let value = value.unwrap_or_else(|| {
                    self.missing(ValueId(n.0));
                    Expr::from(0i64)
                });
                let from = self.builder.dtype_of(&value);
                // A u64 beyond i64 saturates, as it does where the reference reads it.
                let value = if from == DType::U64 { value.min(Expr::from(i64::MAX as u64)) } else { value };
                value.cast_to(from, dtype)
            }
            IndexExpr::Add(a, b) => two(ScalarOp::Add, a, b),
            IndexExpr::Sub(a, b) => two(ScalarOp::Sub, a, b),
            IndexExpr::Mul(a, b) => two(ScalarOp::Mul, a, b),
            IndexExpr::FloorDiv(a, b) => two(if signed { ScalarOp::DivEuclid } else { ScalarOp::Div }, a, b),
            IndexExpr::Mod(a, b) => two(if signed { ScalarOp::RemEuclid } else { ScalarOp::Rem }, a, b),
        }
    }

    /// Whether a bound holds. With an indirect or scalar part it is tested in 64 bits, before anything is narrowed.
    pub(super) fn bound(&mut self, bound: &Bound, scope: &Scope) -> Expr {
        if is_natural(&bound.expr) && is_natural(&bound.extent) {
            let e = self.index_in(&bound.expr, scope, self.index);
            return e.lt(self.index_in(&bound.extent, scope, self.index));
        }
        let dtype = match (self.signed_dtype(&bound.expr), self.signed_dtype(&bound.extent)) {
            (DType::I32, DType::I32) => DType::I32,
            _ => DType::I64,
        };
        let unsigned = if dtype == DType::I32 { DType::U32 } else { DType::U64 };
        let e = self.index_in(&bound.expr, scope, dtype);
        let extent = self.index_in(&bound.extent, scope, dtype);
        // A negative extent, which only a wrong call could have, admits nothing.
        let extent = if is_natural(&bound.extent) {
            extent
        } else {
            extent.max(Value::from_i128(dtype, 0).unwrap_or(Value::I64(0)))
        };
        e.cast(unsigned).lt(extent.cast(unsigned))
    }

    /// Whether all bounds hold; `None` if there are none.
    pub(super) fn bounds(&mut self, bounds: &[Bound], scope: &Scope) -> Option<Expr> {
        let mut all = None;
        for bound in bounds {
            let one = self.bound(bound, scope);
            all = Some(match all {
                None => one,
                Some(all) => all & one,
            });
        }
        all
    }

    /// The element of a buffer at positions on its axes.
    pub(super) fn offset(
        &mut self,
        buffer: BufferRef,
        indices: &[(AxisId, IndexExpr)],
        scope: &Scope,
    ) -> Expr {
        if let (Some(flat), false) = (&scope.flat, indices.is_empty()) {
            return flat.clone();
        }
        let mut sum = self.number(0);
        for (k, (axis, e)) in indices.iter().enumerate() {
            if *e == IndexExpr::Const(0) {
                continue;
            }
            let at = self.index_expr(e, scope);
            let stride = self.stride(buffer, k as u32, *axis);
            sum = sum + at * stride;
        }
        sum
    }
}

impl Expr {
    /// The same number in another integer dtype.
    fn cast_to(self, from: DType, to: DType) -> Expr {
        if from == to { self } else { self.cast(to) }
    }
}

/// Whether an index expression is never negative, whatever the positions.
pub(super) fn is_natural(e: &IndexExpr) -> bool {
    match e {
        IndexExpr::Const(n) => *n >= 0,
        IndexExpr::Index(_) | IndexExpr::Extent(_) => true,
        IndexExpr::Param(_) | IndexExpr::Indirect(_) | IndexExpr::Sub(..) => false,
        IndexExpr::Add(a, b) | IndexExpr::Mul(a, b) | IndexExpr::FloorDiv(a, b) | IndexExpr::Mod(a, b) => {
            is_natural(a) && is_natural(b)
        }
    }
}
