//! The laws of the user's reducers: a combiner is associative, commutative unless it is ordered, and has its identity.

use super::report::Failure;
use crate::error::Error;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::eval_fn;
use fuse_ir::graph::{Kernel, Op, Reducer};
use fuse_ir::id::FnId;

/// How far two orders of combining may be apart, relative to the greatest value in play.
const ROUNDING: f64 = 1e-4;

/// Tries the laws of every user's reducer on values that include NaN, zeros of both signs and infinities. Gives the
/// number of reducers.
pub(super) fn check_reducer_laws(kernel: &Kernel) -> Result<usize, Error> {
    let mut seen: Vec<FnId> = Vec::new();
    for node in &kernel.nodes {
        let Op::Reduce { reducer: Reducer::User { combine, identity, ordered }, .. } = &node.op else {
            continue;
        };
        if !seen.contains(combine) {
            seen.push(*combine);
            check_laws(kernel, *combine, identity, *ordered)?;
        }
    }
    Ok(seen.len())
}

fn check_laws(kernel: &Kernel, combine: FnId, identity: &[Value], ordered: bool) -> Result<(), Error> {
    let call = |a: &[Value], b: &[Value]| {
        let args: Vec<Value> = a.iter().chain(b).copied().collect();
        eval_fn(&kernel.functions, combine, &args).0
    };
    let fail = |law: &str, values: &[&[Value]], left: &[Value], right: &[Value]| {
        let name = kernel.functions[combine.index()].name.clone();
        Err(Error::Verification(Box::new(Failure::law(kernel, &name, law, values, left, right))))
    };
    let samples = sample_tuples(identity);
    for a in &samples {
        for (left, right) in [(call(identity, a), a), (call(a, identity), a)] {
            if !agree(&left, right, &[a]) {
                return fail("has no identity", &[a], &left, right);
            }
        }
        for b in &samples {
            let (ab, ba) = (call(a, b), call(b, a));
            if !ordered && !agree(&ab, &ba, &[a, b]) {
                return fail("is not commutative", &[a, b], &ab, &ba);
            }
            for c in &samples {
                let (left, right) = (call(&ab, c), call(a, &call(b, c)));
                if !agree(&left, &right, &[a, b, c]) {
                    return fail("is not associative", &[a, b, c], &left, &right);
                }
            }
        }
    }
    Ok(())
}

/// Whether two results are equal up to rounding of the values that went in.
fn agree(left: &[Value], right: &[Value], inputs: &[&[Value]]) -> bool {
    let finite = |x: f64| if x.is_finite() { x.abs() } else { 0.0 };
    let scale =
        inputs.iter().flat_map(|v| v.iter()).filter_map(|v| v.as_f64()).map(finite).fold(0.0, f64::max);
    left.iter().zip(right).all(|(l, r)| match (l.as_f64(), r.as_f64()) {
        (Some(l), Some(r)) => {
            (l.is_nan() && r.is_nan())
                || l == r
                || (l - r).abs() <= ROUNDING * scale.max(finite(l)).max(finite(r))
        }
        _ => l == r,
    })
}

/// Tuples of values: each component takes its special values in turn, out of step with the others.
fn sample_tuples(identity: &[Value]) -> Vec<Vec<Value>> {
    const SAMPLES: usize = 11;
    (0..SAMPLES)
        .map(|k| identity.iter().enumerate().map(|(i, v)| sample(v.dtype(), k + 4 * i)).collect())
        .collect()
}

fn sample(dtype: DType, k: usize) -> Value {
    if dtype.is_float() {
        let samples = [1.0, -2.5, 0.0, f64::NAN, 3.0, f64::INFINITY, -0.0, f64::NEG_INFINITY, 1.0, 0.1, -7.0];
        return Value::from_f64(dtype, samples[k % samples.len()]).unwrap_or(Value::zero(dtype));
    }
    if dtype == DType::Bool {
        return Value::Bool(k % 3 == 1);
    }
    let samples = [0, 1, 5, i128::from(i64::MAX), 2, -1, 1, i128::from(i64::MIN), 7, 3, 127];
    Value::from_i128(dtype, samples[k % samples.len()]).unwrap_or(Value::zero(dtype))
}
