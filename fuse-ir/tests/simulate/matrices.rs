//! Matrix products of every shape against a plain product, and the layout of `ldmatrix`.

use super::run::{Launch, noise};
use fuse_ir::dtype::{DType, Value};
use fuse_ir::kernel_ir::build::{Builder, element, slots};
use fuse_ir::kernel_ir::{Access, Builtin, Expr, Kernel, MmaShape, Stmt, Target, Usage};

/// `d = a · b + c` of one warp: `a` row-major, `b` column-major, `c` and `d` row-major. The fragments are loaded by the
/// tables of the PTX ISA, written here once more.
fn product(shape: MmaShape) -> Kernel {
    let mut b = Builder::new("product");
    b.launch([1.into(), 1.into(), 1.into()], [32, 1, 1], 0);
    let [_, n, k] = shape.extents();
    let accumulator = shape.accumulator();
    let pointer = |b: &mut Builder, name: &str, dtype, usage| b.pointer_aligned(name, dtype, usage, 16);
    let a = pointer(&mut b, "a", shape.operand(), Usage::Read);
    let right = pointer(&mut b, "b", shape.operand(), Usage::Read);
    let c = pointer(&mut b, "c", accumulator, Usage::Read);
    let d = pointer(&mut b, "d", accumulator, Usage::Write);
    let lane = Expr::from(Builtin::Lane);
    let (group, within) = (&lane / 4u32, &lane % 4u32);
    // Values in a register, and elements of the raw dtype in a row of K.
    let parts = if shape == MmaShape::M8N8K4F64 { 1 } else { 4 / shape.operand().size() as u32 };
    let raw = if shape == MmaShape::M8N8K4F64 { DType::F64 } else { DType::U32 };
    let row = k / parts;
    let counts = shape.registers();
    let arrays = [raw, raw, accumulator].map(|dtype| dtype);
    let names = ["a_regs", "b_regs", "acc"];
    let regs: Vec<_> = (0..3).map(|i| b.array(names[i], arrays[i], counts[i], None)).collect();
    let load = |b: &mut Builder, array, slot: u32, memory, dtype: DType, index: Expr| {
        let access = Access { memory, dtype, index, count: 1, when: None };
        let fill = Value::zero(dtype.compute());
        b.push(Stmt::Load { target: Target::Slots(slots(array, slot, 1)), access, fill });
    };
    for r in 0..counts[0] {
        let index = (&group + 8 * (r % 2)) * row + &within + 4 * (r / 2);
        load(&mut b, regs[0], r, a.into(), raw, index);
    }
    for r in 0..counts[1] {
        let index = &group * row + &within + 4 * r;
        load(&mut b, regs[1], r, right.into(), raw, index);
    }
    let place = |r: u32| (&group + 8 * (r / 2)) * n + &within * 2u32 + r % 2;
    for r in 0..counts[2] {
        load(&mut b, regs[2], r, c.into(), accumulator, place(r));
    }
    let all = |i: usize| slots(regs[i], 0u32, counts[i]);
    b.mma(shape, all(2), all(0), all(1));
    for r in 0..counts[2] {
        b.store(d, place(r), element(regs[2], r), None);
    }
    b.finish().unwrap()
}

#[test]
fn products_of_every_shape() {
    for shape in MmaShape::ALL {
        let kernel = product(shape);
        let [m, n, k] = shape.extents().map(|e| e as usize);
        let operand = shape.operand();
        let numbers = |seed, len| {
            let scale = if operand.is_float() { 1.0 } else { 100.0 };
            let x = noise(seed, DType::F64, len).into_iter().map(move |x| x * scale);
            // What tf32 ignores is not there.
            let cut =
                |x: f64| if operand == DType::F32 { f64::from((x * 1024.0) as i32) / 1024.0 } else { x };
            let value = move |x: f64| Value::F64(x).cast(operand);
            x.map(|x| {
                let v = value(cut(x));
                v.as_f64().unwrap_or_else(|| v.as_i128().unwrap() as f64)
            })
            .collect::<Vec<f64>>()
        };
        let (a, b) = (numbers(3, m * k), numbers(4, n * k));
        let c: Vec<f64> = (0..m * n).map(|i| i as f64 - 60.0).collect();
        let mut launch = Launch::default();
        launch.pass(operand, a.clone());
        launch.pass(operand, b.clone());
        launch.pass(shape.accumulator(), c.clone());
        let d = launch.pass_empty(shape.accumulator(), m * n);
        let counters = launch.run_clean(&kernel).counters;
        assert_eq!(counters.products, 1);
        for (at, got) in launch.read(d, shape.accumulator()).into_iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let want = (0..k).fold(c[at], |sum, l| {
                let (x, y) = (a[i * k + l], b[j * k + l]);
                if operand == DType::F64 { x.mul_add(y, sum) } else { sum + x * y }
            });
            let want = if shape.accumulator() == DType::F32 { f64::from(want as f32) } else { want };
            assert_eq!(got, want, "{shape} at {i}, {j}");
        }
    }
}

/// The low 13 bits of a tf32 operand do not count.
#[test]
fn tf32_ignores_low_bits() {
    let kernel = product(MmaShape::M16N8K8Tf32);
    let mut launch = Launch::default();
    let noisy = f64::from(f32::from_bits(1f32.to_bits() | 0x1fff));
    launch.pass(DType::F32, vec![noisy; 16 * 8]);
    launch.pass(DType::F32, vec![1.0; 8 * 8]);
    launch.pass(DType::F32, vec![0.0; 16 * 8]);
    let d = launch.pass_empty(DType::F32, 16 * 8);
    launch.run_clean(&kernel);
    assert!(launch.read(d, DType::F32).iter().all(|x| *x == 8.0));
}

/// Integer products wrap.
#[test]
fn integers_wrap() {
    let kernel = product(MmaShape::M16N8K32I8);
    let mut launch = Launch::default();
    launch.pass(DType::I8, vec![127.0; 16 * 32]);
    launch.pass(DType::I8, vec![127.0; 8 * 32]);
    launch.pass(DType::I32, vec![f64::from(i32::MAX); 16 * 8]);
    let d = launch.pass_empty(DType::I32, 16 * 8);
    launch.run_clean(&kernel);
    let want = i32::MAX.wrapping_add(32 * 127 * 127);
    assert!(launch.read(d, DType::I32).iter().all(|x| *x == f64::from(want)));
}

/// Lane `l` gets elements `2 (l % 4)` and the next of row `l / 4` of each matrix, or of its transpose.
#[test]
fn ldmatrix_spreads_rows() {
    for transpose in [false, true] {
        let mut b = Builder::new("spread");
        b.launch([1.into(), 1.into(), 1.into()], [32, 1, 1], 4 * 128);
        let x = b.pointer("x", DType::U16, Usage::Read);
        let out = b.pointer("out", DType::U32, Usage::Write);
        let tile = b.view("tile", DType::U16, 0, 4 * 64);
        let lane = Expr::from(Builtin::Lane);
        b.unrolled("part", 8, |b, part| {
            let at = b.bind("at", &part * 32u32 + &lane);
            let value = b.load("value", x, &at, None);
            b.store(tile, &at, value, None);
        });
        b.warp_barrier();
        let words = b.array("words", DType::U32, 4, None);
        b.load_matrix(slots(words, 0u32, 4), tile, &lane * 8u32, transpose);
        b.unrolled("i", 4, |b, i| b.store(out, &i * 32u32 + &lane, element(words, &i), None));
        let kernel = b.finish().unwrap();
        let mut launch = Launch::default();
        launch.pass(DType::U16, (0..256).map(f64::from));
        let out = launch.pass_empty(DType::U32, 128);
        let counters = launch.run_clean(&kernel).counters;
        assert_eq!(counters.shared_loads[4].wavefronts, 4);
        for (at, got) in launch.read(out, DType::U32).into_iter().enumerate() {
            let (matrix, lane) = (at as u32 / 32, at as u32 % 32);
            let (row, column) = (lane / 4, 2 * (lane % 4));
            let element = |r: u32, c: u32| matrix * 64 + if transpose { c * 8 + r } else { r * 8 + c };
            assert_eq!(got as u32, element(row, column) | element(row, column + 1) << 16);
        }
    }
}
