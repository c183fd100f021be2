//! What each reducer starts with and how it joins two partial results.

use super::Reducer;
use crate::dtype::{DType, Value};
use crate::scalar::ScalarOp;

impl Reducer {
    /// What an empty row gives and every accumulator starts with, over sources of which the first is of this dtype.
    ///
    /// ```
    /// use fuse_ir::dtype::{DType, Value};
    /// use fuse_ir::graph::Reducer;
    ///
    /// assert_eq!(Reducer::Max.identity(DType::I8), [Value::I8(-128)]);
    /// ```
    pub fn identity(&self, dtype: DType) -> Vec<Value> {
        let extreme = |infinity: f64| {
            Value::from_f64(dtype, infinity).unwrap_or_else(|| Value::F64(infinity).cast(dtype))
        };
        // A position beyond all others marks that nothing was seen.
        let nowhere = Value::I64(i64::MAX);
        match self {
            Reducer::Sum | Reducer::Dot => vec![Value::zero(dtype)],
            Reducer::Prod => vec![Value::I64(1).cast(dtype)],
            Reducer::Max => vec![extreme(f64::NEG_INFINITY)],
            Reducer::Min => vec![extreme(f64::INFINITY)],
            Reducer::Any => vec![Value::Bool(false)],
            Reducer::All => vec![Value::Bool(true)],
            Reducer::ArgMax => vec![extreme(f64::NEG_INFINITY), nowhere],
            Reducer::ArgMin => vec![extreme(f64::INFINITY), nowhere],
            Reducer::User { identity, .. } => identity.clone(),
        }
    }

    /// The operation that joins two partial results of one component; of (value, position) the comparison by which a
    /// value comes before another. `None` for a user's function.
    pub(crate) fn operation(&self, float: bool) -> Option<ScalarOp> {
        Some(match self {
            // Of a contraction the products are partial results.
            Reducer::Sum | Reducer::Dot => ScalarOp::Add,
            Reducer::Prod => ScalarOp::Mul,
            Reducer::Max if float => ScalarOp::Maximum,
            Reducer::Max => ScalarOp::Max,
            Reducer::Min if float => ScalarOp::Minimum,
            Reducer::Min => ScalarOp::Min,
            Reducer::Any => ScalarOp::Or,
            Reducer::All => ScalarOp::And,
            Reducer::ArgMax => ScalarOp::Gt,
            Reducer::ArgMin => ScalarOp::Lt,
            Reducer::User { .. } => return None,
        })
    }

    /// Whether two reducers are one. Identities are compared by their bits, so that a NaN equals itself.
    pub(crate) fn is_same(&self, other: &Reducer) -> bool {
        let bits = |values: &[Value]| values.iter().map(|v| (v.dtype(), v.to_bits())).collect::<Vec<_>>();
        match (self, other) {
            (
                Reducer::User { combine, identity, ordered },
                Reducer::User { combine: with, identity: from, ordered: in_order },
            ) => combine == with && ordered == in_order && bits(identity) == bits(from),
            _ => self == other,
        }
    }
}
