//! The kernels that are run: one for each list of operand dtypes, with all operations that take them.

use super::values::{edge_values, some};
use super::{BLOCK, REGISTERS, show};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::eval_op;
use fuse_ir::id::{ArgId, FnId, VarId};
use fuse_ir::kernel_ir::build::{Builder, block_x, thread_x};
use fuse_ir::kernel_ir::{Expr, Kernel, LocalKind, Memory, Size, Stmt, Usage};
use fuse_ir::scalar::{self, ScalarFn, ScalarOp, Variable};

/// A kernel with its arguments: inputs, outputs, the number of threads.
pub(super) struct Job {
    pub(super) kernel: Kernel,
    pub(super) threads: usize,
    pub(super) inputs: Vec<Vec<Value>>,
    pub(super) outputs: Vec<Output>,
}

/// What a kernel shall write for each thread.
pub(super) struct Output {
    /// The operation.
    pub(super) what: String,
    pub(super) dtype: DType,
    pub(super) expected: Vec<Value>,
    /// The operands of each value.
    pub(super) arguments: Vec<String>,
    pub(super) ulps: u64,
}

/// All operations but casts.
const OPERATIONS: &[ScalarOp] = {
    use ScalarOp::*;
    &[
        Add,
        Sub,
        Mul,
        Div,
        Rem,
        DivEuclid,
        RemEuclid,
        Neg,
        Not,
        And,
        Or,
        Xor,
        Shl,
        Shr,
        Min,
        Max,
        Minimum,
        Maximum,
        Clamp,
        MulAdd,
        Eq,
        Ne,
        Lt,
        Le,
        Gt,
        Ge,
        Select,
        Abs,
        Signum,
        Copysign,
        Sqrt,
        Rsqrt,
        Recip,
        Cbrt,
        Exp,
        Exp2,
        ExpM1,
        Ln,
        Log2,
        Log10,
        Ln1p,
        Sin,
        Cos,
        Tan,
        Asin,
        Acos,
        Atan,
        Atan2,
        Sinh,
        Cosh,
        Tanh,
        Asinh,
        Acosh,
        Atanh,
        Sigmoid,
        Erf,
        Erfc,
        Hypot,
        Powf,
        Powi,
        Pow,
        Floor,
        Ceil,
        Trunc,
        Round,
        RoundTiesEven,
        Fract,
        IsNan,
        IsInfinite,
        IsFinite,
        IsSignNegative,
        ToBits,
        FromBits,
        CountOnes,
        LeadingZeros,
        TrailingZeros,
        SaturatingAdd,
        SaturatingSub,
        AbsDiff,
        Philox,
    ]
};

/// Every kernel.
pub(super) fn all_jobs() -> Vec<Job> {
    let mut signatures: Vec<Vec<DType>> = Vec::new();
    for d in REGISTERS {
        signatures.extend([vec![d], vec![d, d], vec![d, DType::U32], vec![d, DType::I32]]);
        signatures.extend([vec![d, d, d], vec![DType::Bool, d, d]]);
    }
    signatures.push(vec![DType::U64, DType::U64, DType::I64]);
    signatures.sort();
    signatures.dedup();
    signatures
        .iter()
        .flat_map(|s| [job_of_operands(s), job_of_literals(s), job_of_functions(s)])
        .flatten()
        .collect()
}

/// The operations that take operands of these dtypes.
fn operations(dtypes: &[DType]) -> Vec<ScalarOp> {
    let casts = DType::ALL.into_iter().map(ScalarOp::Cast);
    let all = OPERATIONS.iter().copied().chain(casts);
    // CUDA's functions that are not inlined, which emulators need not have.
    let called = |op: &ScalarOp| {
        dtypes[0] == DType::F64
            && matches!(op, ScalarOp::Sin | ScalarOp::Cos | ScalarOp::Tan | ScalarOp::Powf)
    };
    all.filter(|op| op.result_dtype(dtypes).is_some() && !called(op)).collect()
}

/// All combinations of values of the operands; fewer of each the more operands there are.
fn combinations(dtypes: &[DType]) -> Vec<Vec<Value>> {
    let each = [0, usize::MAX, 60, 14][dtypes.len()];
    let mut rows: Vec<Vec<Value>> = vec![Vec::new()];
    for dtype in dtypes {
        let values = some(edge_values(*dtype), each.min(1000));
        let extend = |row: &Vec<Value>| {
            values.iter().map(|v| row.iter().copied().chain([*v]).collect()).collect::<Vec<Vec<Value>>>()
        };
        rows = rows.iter().flat_map(extend).collect();
    }
    rows
}

/// A float that a narrow one stands for, as registers hold it.
fn as_register(value: Value) -> Value {
    match value {
        Value::F16(x) | Value::Bf16(x) | Value::F8E4M3(x) | Value::F8E5M2(x) => Value::F32(x),
        other => other,
    }
}

/// How far a result may be from the reference.
fn ulps(op: ScalarOp, dtype: DType) -> u64 {
    match dtype {
        DType::F32 if op.is_transcendental() => 2,
        DType::F64 if op.is_transcendental() => 6,
        _ => 0,
    }
}

/// A kernel under construction: a thread for each row of operands.
struct Frame {
    b: Builder,
    inputs: Vec<ArgId>,
    rows: Vec<Vec<Value>>,
    outputs: Vec<Output>,
}

impl Frame {
    fn new(name: &str, dtypes: &[DType], rows: Vec<Vec<Value>>) -> Self {
        let mut b = Builder::new(name);
        let input = |(k, d): (usize, &DType)| b.pointer(&format!("in{k}"), *d, Usage::Read);
        let inputs = dtypes.iter().enumerate().map(input).collect();
        Frame { b, inputs, rows, outputs: Vec::new() }
    }

    /// An output with what it shall hold, and what gives it for a row.
    fn output(&mut self, what: String, ulps: u64, value: impl Fn(&[Value]) -> Value) -> ArgId {
        let expected: Vec<Value> = self.rows.iter().map(|row| as_register(value(row))).collect();
        let arguments = self.rows.iter().map(|row| show(row)).collect();
        let dtype = expected[0].dtype();
        let id = self.b.pointer(&format!("out{}", self.outputs.len()), dtype, Usage::Write);
        self.outputs.push(Output { what, dtype, expected, arguments, ulps });
        id
    }

    /// The kernel: `body` gets the operands and the thread's number.
    fn finish(mut self, body: impl FnOnce(&mut Builder, &[Expr], &Expr)) -> Job {
        let count = self.b.scalar("count", DType::U32);
        let blocks = Size::from(count).ceil_div(BLOCK as u64);
        self.b.launch([blocks, 1.into(), 1.into()], [BLOCK as u32, 1, 1], 0);
        let i = self.b.bind("i", block_x() * BLOCK as u32 + thread_x());
        let inputs = self.inputs;
        self.b.if_then(i.clone().lt(count), |b| {
            let operands: Vec<Expr> =
                inputs.iter().map(|id| b.load("x", Memory::Global(*id), &i, None)).collect();
            body(b, &operands, &i);
        });
        let columns = (0..inputs.len()).map(|k| self.rows.iter().map(|row| row[k]).collect()).collect();
        let kernel = self.b.finish().unwrap_or_else(|error| panic!("{error}"));
        Job { kernel, threads: self.rows.len(), inputs: columns, outputs: self.outputs }
    }
}

/// Operations whose operands are all read from memory.
fn job_of_operands(dtypes: &[DType]) -> Option<Job> {
    let operations = operations(dtypes);
    let mut frame = Frame::new("operands", dtypes, combinations(dtypes));
    let outputs: Vec<(ScalarOp, ArgId)> = operations
        .into_iter()
        .map(|op| (op, frame.output(op.to_string(), ulps(op, dtypes[0]), |row| eval_op(op, row).0)))
        .collect();
    (!outputs.is_empty()).then(|| {
        frame.finish(|b, operands, i| {
            for (op, out) in outputs {
                b.store(out, i, Expr::Op(op, operands.to_vec()), None);
            }
        })
    })
}

/// Operations whose last operand is a literal, which is printed in its own way.
fn job_of_literals(dtypes: &[DType]) -> Option<Job> {
    let [first, last] = dtypes else { return None };
    let mut frame = Frame::new("literals", &[*first], combinations(&[*first]));
    let literals = some(edge_values(*last), 6);
    let zeros = [Value::from_f64(*last, -0.0), Value::from_f64(*last, 0.0), Value::from_i128(*last, 0)];
    let literals: Vec<Value> = literals.into_iter().chain(zeros.into_iter().flatten()).collect();
    let mut outputs = Vec::new();
    let operations = operations(dtypes).into_iter().filter(|op| !op.is_transcendental());
    for (op, literal) in operations.flat_map(|op| literals.iter().map(move |v| (op, *v))) {
        let what = format!("{op} by {}", show(&[literal]));
        outputs.push((op, literal, frame.output(what, 0, |row| eval_op(op, &[row[0], literal]).0)));
    }
    (!outputs.is_empty()).then(|| {
        frame.finish(|b, operands, i| {
            for (op, literal, out) in outputs {
                let args = vec![operands[0].clone(), Expr::Const(literal)];
                b.store(out, i, Expr::Op(op, args), None);
            }
        })
    })
}

/// Operations that may fault, within functions that note it.
fn job_of_functions(dtypes: &[DType]) -> Option<Job> {
    let operations: Vec<ScalarOp> =
        operations(dtypes).into_iter().filter(|op| op.may_fault(dtypes[0])).collect();
    let mut frame = Frame::new("functions", dtypes, combinations(dtypes));
    let mut outputs = Vec::new();
    for (k, op) in operations.into_iter().enumerate() {
        let variable = |name: &str, dtype: &DType| Variable { name: name.into(), dtype: *dtype };
        let args = (0..dtypes.len()).map(|k| scalar::Expr::Variable(VarId::from_index(k))).collect();
        frame.b.kernel_mut().functions.push(ScalarFn {
            name: op.to_string(),
            parameters: dtypes.len() as u32,
            variables: dtypes.iter().map(|d| variable("x", d)).collect(),
            body: Vec::new(),
            results: vec![scalar::Expr::Op(op, args)],
        });
        let value = frame.output(op.to_string(), 0, |row| eval_op(op, row).0);
        let fault =
            frame.output(format!("fault of {op}"), 0, |row| Value::Bool(eval_op(op, row).1.is_some()));
        outputs.push((FnId::from_index(k), value, fault));
    }
    let dtype = dtypes[0];
    (!outputs.is_empty()).then(|| {
        frame.finish(|b, operands, i| {
            for (function, value, fault) in outputs {
                let result = b.local("result", dtype, LocalKind::Let);
                let noted = b.local("fault", DType::Bool, LocalKind::Let);
                let (args, results) = (operands.to_vec(), vec![Some(result)]);
                b.push(Stmt::Call { results, function, args, fault: Some(noted) });
                b.store(value, i, result, None);
                b.store(fault, i, noted, None);
            }
        })
    })
}
