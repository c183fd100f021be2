//! Random scalar functions and combiners.

use super::Prng;
use super::inputs::{Filling, random_value};
use crate::dtype::{DType, Value};
use crate::id::{FnId, VarId};
use crate::scalar::{Expr, ScalarFn, ScalarOp, Stmt, Variable};

/// The dtypes that scalar functions compute in here.
pub(super) const COMPUTE: [DType; 5] = [DType::F32, DType::F64, DType::I64, DType::I32, DType::Bool];

/// Operations on one float.
pub(super) const FLOAT_UNARY: [ScalarOp; 22] = {
    use ScalarOp::*;
    [
        Neg,
        Abs,
        Signum,
        Sqrt,
        Rsqrt,
        Recip,
        Exp,
        Ln,
        Sin,
        Tanh,
        Sigmoid,
        Erf,
        Floor,
        Ceil,
        Trunc,
        Round,
        RoundTiesEven,
        Fract,
        ExpM1,
        Ln1p,
        Cbrt,
        Atan,
    ]
};

/// Operations on two floats of one dtype.
pub(super) const FLOAT_BINARY: [ScalarOp; 15] = {
    use ScalarOp::*;
    [Add, Sub, Mul, Div, Rem, Min, Max, Minimum, Maximum, Copysign, Atan2, Powf, Add, Mul, Sub]
};

/// Operations on two integers of one dtype.
pub(super) const INT_BINARY: [ScalarOp; 16] = {
    use ScalarOp::*;
    [
        Add,
        Sub,
        Mul,
        Div,
        Rem,
        DivEuclid,
        RemEuclid,
        Min,
        Max,
        And,
        Or,
        Xor,
        SaturatingAdd,
        SaturatingSub,
        Add,
        Mul,
    ]
};

/// Comparisons.
pub(super) const COMPARE: [ScalarOp; 6] = {
    use ScalarOp::*;
    [Eq, Ne, Lt, Le, Gt, Ge]
};

/// Operations on two bools.
pub(super) const BOOL_BINARY: [ScalarOp; 3] = [ScalarOp::And, ScalarOp::Or, ScalarOp::Xor];

/// A function of one to three parameters and one or two results, which may call `earlier` ones.
pub(super) fn random_function(rng: &mut Prng, earlier: &[ScalarFn]) -> ScalarFn {
    let parameters = 1 + rng.below(3);
    let variables =
        (0..parameters).map(|i| Variable { name: format!("a{i}"), dtype: rng.pick(&COMPUTE) }).collect();
    let mut draft = Draft { earlier, variables, readable: (0..parameters).collect() };
    let mut body = Vec::new();
    for _ in 0..rng.below(3) {
        draft.random_statement(rng, &mut body);
    }
    let results = (0..1 + rng.below(2)).map(|_| {
        let dtype = rng.pick(&COMPUTE);
        draft.random_expr(rng, dtype, 2)
    });
    let results = results.collect();
    ScalarFn {
        name: format!("op{}", earlier.len()),
        parameters: parameters as u32,
        variables: draft.variables,
        body,
        results,
    }
}

struct Draft<'a> {
    earlier: &'a [ScalarFn],
    variables: Vec<Variable>,
    readable: Vec<usize>,
}

impl Draft<'_> {
    fn declare(&mut self, dtype: DType) -> usize {
        self.variables.push(Variable { name: format!("v{}", self.variables.len()), dtype });
        self.variables.len() - 1
    }

    fn random_statement(&mut self, rng: &mut Prng, body: &mut Vec<Stmt>) {
        let dtype = rng.pick(&COMPUTE);
        match rng.below(3) {
            0 => {
                let value = self.random_expr(rng, dtype, 2);
                let v = self.declare(dtype);
                body.push(assign(v, value));
                self.readable.push(v);
            }
            1 => {
                let condition = self.random_expr(rng, DType::Bool, 1);
                let (then, otherwise) = (self.random_expr(rng, dtype, 2), self.random_expr(rng, dtype, 2));
                let v = self.declare(dtype);
                body.push(Stmt::If {
                    condition,
                    then: vec![assign(v, then)],
                    otherwise: vec![assign(v, otherwise)],
                });
                self.readable.push(v);
            }
            _ => {
                let start = self.random_expr(rng, dtype, 1);
                let v = self.declare(dtype);
                body.push(assign(v, start));
                self.readable.push(v);
                let counter = self.declare(DType::I64);
                self.readable.push(counter);
                let step = self.random_expr(rng, dtype, 2);
                self.readable.pop();
                let variable = VarId::from_index(counter);
                body.push(Stmt::For {
                    variable,
                    start: 0,
                    end: rng.below(4) as i64,
                    body: vec![assign(v, step)],
                });
            }
        }
    }

    fn random_expr(&self, rng: &mut Prng, dtype: DType, depth: usize) -> Expr {
        let of_dtype: Vec<usize> =
            self.readable.iter().copied().filter(|&v| self.variables[v].dtype == dtype).collect();
        if depth == 0 || rng.one_in(4) {
            if !of_dtype.is_empty() && !rng.one_in(5) {
                return Expr::Variable(VarId::from_index(rng.pick(&of_dtype)));
            }
            let filling = Filling { specials: rng.one_in(6) };
            return Expr::Constant(random_value(rng, dtype, filling));
        }
        let next = |rng: &mut Prng, dtype| self.random_expr(rng, dtype, depth - 1);
        match rng.below(6) {
            0 => {
                let condition = next(rng, DType::Bool);
                Expr::Op(ScalarOp::Select, vec![condition, next(rng, dtype), next(rng, dtype)])
            }
            1 => {
                let from = rng.pick(&COMPUTE);
                Expr::Op(ScalarOp::Cast(dtype), vec![next(rng, from)])
            }
            2 if !self.earlier.is_empty() => {
                let f = rng.below(self.earlier.len());
                let callee = &self.earlier[f];
                let result = rng.below(callee.results.len());
                let given = callee.expr_dtype(self.earlier, &callee.results[result]);
                let args = callee.parameter_dtypes().into_iter().map(|d| next(rng, d)).collect();
                let call = Expr::Call { function: FnId::from_index(f), args, result: result as u32 };
                if given == Some(dtype) { call } else { Expr::Op(ScalarOp::Cast(dtype), vec![call]) }
            }
            _ if dtype == DType::Bool => {
                let of = rng.pick(&COMPUTE);
                Expr::Op(rng.pick(&COMPARE), vec![next(rng, of), next(rng, of)])
            }
            _ if dtype.is_float() && rng.one_in(2) => {
                Expr::Op(rng.pick(&FLOAT_UNARY), vec![next(rng, dtype)])
            }
            _ if dtype.is_float() => {
                Expr::Op(rng.pick(&FLOAT_BINARY), vec![next(rng, dtype), next(rng, dtype)])
            }
            _ => Expr::Op(rng.pick(&INT_BINARY), vec![next(rng, dtype), next(rng, dtype)]),
        }
    }
}

fn assign(variable: usize, value: Expr) -> Stmt {
    Stmt::Assign { variable: VarId::from_index(variable), value }
}

/// A combiner over one f32 or over (f32, i64), with its identity. The tree is fixed, so that it needs no laws: the last
/// one has none.
pub(super) fn random_combiner(rng: &mut Prng) -> (ScalarFn, Vec<Value>) {
    let v = |i: usize| Expr::Variable(VarId::from_index(i));
    let op = |op: ScalarOp, args: &[Expr]| Expr::Op(op, args.to_vec());
    let variable = |i: usize, dtype| Variable { name: format!("c{i}"), dtype };
    let single = |name: &str, results| ScalarFn {
        name: name.to_owned(),
        parameters: 2,
        variables: vec![variable(0, DType::F32), variable(1, DType::F32)],
        body: Vec::new(),
        results: vec![results],
    };
    match rng.below(3) {
        0 => {
            let hypot =
                op(ScalarOp::Sqrt, &[op(ScalarOp::MulAdd, &[v(0), v(0), op(ScalarOp::Mul, &[v(1), v(1)])])]);
            (single("norm", hypot), vec![Value::F32(0.0)])
        }
        1 => {
            let dtypes = [DType::F32, DType::I64, DType::F32, DType::I64, DType::Bool];
            let later = op(ScalarOp::Gt, &[v(2), v(0)]);
            let best = ScalarFn {
                name: "best".to_owned(),
                parameters: 4,
                variables: dtypes.iter().enumerate().map(|(i, &d)| variable(i, d)).collect(),
                body: vec![assign(4, later)],
                results: vec![
                    op(ScalarOp::Select, &[v(4), v(2), v(0)]),
                    op(ScalarOp::Select, &[v(4), v(3), v(1)]),
                ],
            };
            (best, vec![Value::F32(f32::NEG_INFINITY), Value::I64(-1)])
        }
        _ => {
            let odd = op(ScalarOp::Sub, &[op(ScalarOp::Mul, &[v(0), Expr::Constant(Value::F32(0.5))]), v(1)]);
            (single("odd", odd), vec![Value::F32(1.5)])
        }
    }
}
