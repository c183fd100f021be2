//! Products of tensor cores as inline PTX, one function for each shape.

use crate::dtype::DType;
use crate::kernel_ir::MmaShape;

/// The name of a shape's function within the namespace.
pub(super) fn function_name(shape: MmaShape) -> String {
    let [m, n, k] = shape.extents();
    format!("mma_m{m}n{n}k{k}_{}", operand_name(shape))
}

fn operand_name(shape: MmaShape) -> &'static str {
    if shape == MmaShape::M16N8K8Tf32 { "tf32" } else { shape.operand().name() }
}

/// `D = A · B + C`; the parameters are the registers of D, A, B and C in order.
pub(super) fn print_section(shape: MmaShape) -> String {
    let [m, n, k] = shape.extents();
    let [a, b, c] = shape.registers();
    let accumulator = shape.accumulator().name();
    let operand = shape.operand_register().name();
    let names = |prefix: &str, count: u32| (0..count).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
    let declare = |dtype: &str, names: &[String]| {
        names.iter().map(|n| format!("{dtype} {n}")).collect::<Vec<_>>().join(", ")
    };
    let (d, a, b, c) = (names("d", c), names("a", a), names("b", b), names("c", c));
    let parameters = [
        declare(&format!("{accumulator}&"), &d),
        declare(operand, &a),
        declare(operand, &b),
        declare(accumulator, &c),
    ];
    let mut next = 0;
    let mut places = |count: usize| {
        let list: Vec<String> = (next..next + count).map(|i| format!("%{i}")).collect();
        next += count;
        format!("{{{}}}", list.join(", "))
    };
    let places = [places(d.len()), places(a.len()), places(b.len()), places(c.len())].join(", ");
    let pass = |dtype: DType, prefix: &str, names: &[String]| {
        let letter = match dtype {
            DType::F32 => "f",
            DType::F64 => "d",
            _ => "r",
        };
        names.iter().map(|n| format!("\"{prefix}{letter}\"({n})")).collect::<Vec<_>>().join(", ")
    };
    let (result, register) = (shape.accumulator(), shape.operand_register());
    let outputs = pass(result, "=", &d);
    let inputs = [pass(register, "", &a), pass(register, "", &b), pass(result, "", &c)].join(", ");
    let [to, of] = [ptx_type(shape.accumulator()), ptx_operand(shape)];
    format!(
        "// D = A * B + C on tensor cores, {m} x {n} x {k}.\n\
         FUSE_DEVICE void {}({}) {{\n    \
         asm volatile(\"mma.sync.aligned.m{m}n{n}k{k}.row.col.{to}.{of}.{of}.{to} {places};\"\n                 \
         : {outputs} : {inputs});\n}}",
        function_name(shape),
        parameters.join(", "),
    )
}

fn ptx_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        _ => "s32",
    }
}

fn ptx_operand(shape: MmaShape) -> &'static str {
    match shape {
        MmaShape::M16N8K8F16 | MmaShape::M16N8K16F16 => "f16",
        MmaShape::M16N8K16Bf16 => "bf16",
        MmaShape::M16N8K8Tf32 => "tf32",
        MmaShape::M16N8K32I8 => "s8",
        MmaShape::M16N8K32U8 => "u8",
        MmaShape::M16N8K32F8E4M3 => "e4m3",
        MmaShape::M16N8K32F8E5M2 => "e5m2",
        MmaShape::M8N8K4F64 => "f64",
    }
}
