//! Kernels that load, store, pack and unpack: every bit pattern of the narrow dtypes, in vectors of every width.

use super::kernels::{Job, Output};
use super::values::{edge_values, some};
use super::{BLOCK, show};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::kernel_ir::build::{Builder, block_x, element, slots, thread_x};
use fuse_ir::kernel_ir::{Expr, Size, Usage};
use fuse_runtime::convert;
use half::{bf16, f16};

/// Every kernel.
pub(super) fn all_jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    for dtype in DType::ALL {
        for count in [1, 2, 4, 8, 16] {
            if count * dtype.size() <= 16 {
                jobs.push(job_of_loads(dtype, count));
                jobs.push(job_of_stores(dtype, count));
            }
        }
        let parts = 4 / dtype.size();
        if dtype.size() < 4 && dtype != DType::Bool {
            jobs.push(job_of_packs(dtype, parts));
        }
    }
    jobs
}

/// The integer with the bits of an element.
fn bits_dtype(dtype: DType) -> DType {
    match dtype.size() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// The value that the bits of an element stand for.
fn value_of_bits(dtype: DType, bits: u64) -> Value {
    match dtype {
        DType::F16 => Value::F32(f16::from_bits(bits as u16).to_f32()),
        DType::Bf16 => Value::F32(bf16::from_bits(bits as u16).to_f32()),
        DType::F8E4M3 => Value::F32(convert::f8e4m3_to_f32(bits as u8)),
        DType::F8E5M2 => Value::F32(convert::f8e5m2_to_f32(bits as u8)),
        DType::F32 => Value::F32(f32::from_bits(bits as u32)),
        DType::F64 => Value::F64(f64::from_bits(bits)),
        DType::Bool => Value::Bool(bits & 1 == 1),
        dtype => Value::from_i128(dtype, bits.into()).unwrap_or(Value::Bool(false)),
    }
}

/// The bits of a value that is stored as an element.
fn bits_of_value(dtype: DType, value: Value) -> u64 {
    let single = value.as_f64().unwrap_or(0.0) as f32;
    match dtype {
        DType::F16 => f16::from_f32(single).to_bits().into(),
        DType::Bf16 => bf16::from_f32(single).to_bits().into(),
        DType::F8E4M3 => convert::f32_to_f8e4m3(single).into(),
        DType::F8E5M2 => convert::f32_to_f8e5m2(single).into(),
        DType::F32 => single.to_bits().into(),
        DType::F64 => value.as_f64().unwrap_or(0.0).to_bits(),
        DType::Bool => u64::from(value == Value::Bool(true)),
        dtype => {
            let mask = u64::MAX >> (64 - dtype.size() * 8);
            value.as_i128().unwrap_or(0) as u64 & mask
        }
    }
}

/// Bit patterns of elements: all of one or two bytes.
fn patterns(dtype: DType) -> Vec<u64> {
    match dtype.size() {
        _ if dtype == DType::Bool => [0, 1, 1, 0].repeat(8),
        1 => (0..256).collect(),
        2 => (0..65536).collect(),
        _ => edge_values(dtype).into_iter().map(|v| bits_of_value(dtype, v)).collect(),
    }
}

fn unsigned(dtype: DType, bits: u64) -> Value {
    Value::from_i128(bits_dtype(dtype), bits.into()).unwrap_or(Value::Bool(false))
}

/// A kernel with a thread for each `count` elements, of which `body` gets the first element's number.
fn kernel(
    mut b: Builder,
    (elements, count): (usize, usize),
    body: impl FnOnce(&mut Builder, &Expr),
) -> (fuse_ir::kernel_ir::Kernel, usize) {
    let threads = b.scalar("threads", DType::U32);
    let blocks = Size::from(threads).ceil_div(BLOCK as u64);
    b.launch([blocks, 1.into(), 1.into()], [BLOCK as u32, 1, 1], 0);
    let i = b.bind("i", block_x() * BLOCK as u32 + thread_x());
    b.if_then(i.clone().lt(threads), |b| body(b, &(i * count as u32)));
    (b.finish().unwrap_or_else(|error| panic!("{error}")), elements / count)
}

fn cut(mut values: Vec<u64>, count: usize) -> Vec<u64> {
    values.truncate(values.len() / count * count);
    values
}

/// Elements that are loaded together, written one by one as what they stand for.
fn job_of_loads(dtype: DType, count: usize) -> Job {
    let bits = cut(patterns(dtype), count);
    let mut b = Builder::new("loads");
    let from = b.pointer_aligned("from", dtype, Usage::Read, (count * dtype.size()) as u32);
    let to = b.pointer("to", dtype.compute(), Usage::Write);
    let (kernel, threads) = kernel(b, (bits.len(), count), |b, first| {
        let values = b.array("values", dtype.compute(), count as u32, None);
        b.load_into(slots(values, 0u32, count as u32), from, first, None);
        for k in 0..count as u32 {
            b.store(to, first + k, element(values, k), None);
        }
    });
    let output = Output {
        what: format!("load of {count} {dtype}"),
        dtype: dtype.compute(),
        expected: bits.iter().map(|&n| value_of_bits(dtype, n)).collect(),
        arguments: bits.iter().map(|n| format!("{n:#x}")).collect(),
        ulps: 0,
    };
    let input = bits.iter().map(|&n| unsigned(dtype, n)).collect();
    Job { kernel, threads, inputs: vec![input], outputs: vec![output] }
}

/// Values to store: all that elements stand for, and what lies between.
fn values_to_store(dtype: DType) -> Vec<Value> {
    let mut values = edge_values(dtype.compute());
    if dtype.is_narrow_float() {
        let all = patterns(dtype).into_iter().map(|n| value_of_bits(dtype, n)).collect();
        let of_elements = some(all, 4096).into_iter().filter_map(Value::as_f64).map(|x| x as f32);
        let near = |x: f32| {
            let bits = x.to_bits();
            [x, x * 1.03125, x * 1.0625, x * 1.125, f32::from_bits(bits ^ 1), f32::from_bits(bits ^ 0x1000)]
        };
        values.extend(of_elements.flat_map(near).map(Value::F32));
        // The bits of a NaN are not compared; that it is one the loads show.
        values.retain(|v| v.as_f64().is_some_and(|x| !x.is_nan()));
    }
    values
}

/// Values read one by one and stored together.
fn job_of_stores(dtype: DType, count: usize) -> Job {
    let mut values = values_to_store(dtype);
    if dtype.size() >= 4 {
        values.retain(|v| v.as_f64().is_none_or(|x| !x.is_nan()));
    }
    while values.len() < count {
        values.extend(values.clone());
    }
    values.truncate(values.len() / count * count);
    let mut b = Builder::new("stores");
    let from = b.pointer("from", dtype.compute(), Usage::Read);
    let to = b.pointer_aligned("to", dtype, Usage::Write, (count * dtype.size()) as u32);
    let (kernel, threads) = kernel(b, (values.len(), count), |b, first| {
        let loaded = b.array("loaded", dtype.compute(), count as u32, None);
        for k in 0..count as u32 {
            let value = b.load("value", from, first + k, None);
            b.set_element(loaded, k, value);
        }
        b.store_from(to, first, slots(loaded, 0u32, count as u32), None);
    });
    let stored = |value: &Value| match (dtype, value.as_f64()) {
        (DType::F8E5M2, Some(x)) if x.is_infinite() => Value::U8(if x > 0.0 { 0x7c } else { 0xfc }),
        _ => unsigned(dtype, bits_of_value(dtype, *value)),
    };
    let output = Output {
        what: format!("store of {count} {dtype}"),
        dtype: bits_dtype(dtype),
        expected: values.iter().map(stored).collect(),
        arguments: values.iter().map(|v| show(&[*v])).collect(),
        ulps: 0,
    };
    Job { kernel, threads, inputs: vec![values], outputs: vec![output] }
}

/// Values packed into a word, and a word unpacked again.
fn job_of_packs(dtype: DType, parts: usize) -> Job {
    let mut values = values_to_store(dtype);
    values.truncate(values.len() / parts * parts);
    let mut b = Builder::new("packs");
    let from = b.pointer("from", dtype.compute(), Usage::Read);
    let words = b.pointer("words", DType::U32, Usage::Write);
    let to = b.pointer("to", dtype.compute(), Usage::Write);
    let (kernel, threads) = kernel(b, (values.len(), parts), |b, first| {
        let loaded = (0..parts as u32).map(|k| b.load("value", from, first + k, None)).collect();
        let word = b.bind("word", Expr::Pack(dtype, loaded));
        b.store(words, first / parts as u32, word.clone(), None);
        for k in 0..parts as u32 {
            b.store(to, first + k, Expr::Unpack(dtype, k, Box::new(word.clone())), None);
        }
    });
    let bits: Vec<u64> = values.iter().map(|v| bits_of_value(dtype, *v)).collect();
    let word = |chunk: &[u64]| {
        let bits = |(k, n): (usize, &u64)| n << (k * dtype.size() * 8);
        Value::U32(chunk.iter().enumerate().map(bits).sum::<u64>() as u32)
    };
    let arguments = |chunk: &[Value]| show(chunk);
    let packed = Output {
        what: format!("pack of {dtype}"),
        dtype: DType::U32,
        expected: bits.chunks(parts).map(word).collect(),
        arguments: values.chunks(parts).map(arguments).collect(),
        ulps: 0,
    };
    let unpacked = Output {
        what: format!("unpack of {dtype}"),
        dtype: dtype.compute(),
        expected: bits.iter().map(|&n| value_of_bits(dtype, n)).collect(),
        arguments: values.iter().map(|v| show(&[*v])).collect(),
        ulps: 0,
    };
    Job { kernel, threads, inputs: vec![values], outputs: vec![packed, unpacked] }
}
