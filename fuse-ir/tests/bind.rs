//! Binding of shapes and scalars to extents, and the exact words of what can go wrong.

use fuse_ir::bind::bind_extents;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::graph::{Axis, AxisSource, Check, CheckKind, Kernel, Origin, Param, ParamKind};
use fuse_ir::id::{AxisId, ParamId};
use fuse_ir::index_map::{Extent, IndexExpr};

const SHAPE: AxisSource = AxisSource::Shape;

fn ext(axis: u32) -> Extent {
    IndexExpr::Extent(AxisId(axis))
}

fn derived(e: Extent) -> AxisSource {
    AxisSource::Derived(e)
}

/// A kernel of that name; each axis has a name and a source, each parameter a name and its axes.
fn kernel(name: &str, axes: &[(&str, AxisSource)], params: &[(&str, &[u32])]) -> Kernel {
    let axis = |(name, source): &(&str, AxisSource)| Axis {
        name: (*name).to_owned(),
        source: source.clone(),
        assumed: None,
    };
    let param = |(name, axes): &(&str, &[u32])| Param {
        name: (*name).to_owned(),
        kind: ParamKind::Tensor {
            dtype: DType::F32,
            axes: axes.iter().map(|&a| AxisId(a)).collect(),
            mutable: false,
        },
    };
    Kernel {
        name: name.to_owned(),
        axes: axes.iter().map(axis).collect(),
        params: params.iter().map(param).collect(),
        ..Kernel::default()
    }
}

fn with_axis_param(mut k: Kernel, name: &str, axis: u32) -> Kernel {
    k.params.push(Param { name: name.to_owned(), kind: ParamKind::Axis { axis: AxisId(axis) } });
    k
}

fn with_check(mut k: Kernel, kind: CheckKind) -> Kernel {
    let origin = Origin { file: "src/lib.rs".to_owned(), line: 7, ..Origin::default() };
    k.checks.push(Check { kind, when: None, origin });
    k
}

/// Binds tensors of these shapes, then these scalars.
fn bind(k: &Kernel, shapes: &[&[usize]], scalars: &[i64]) -> Result<Vec<i64>, String> {
    let mut all: Vec<Option<&[usize]>> = shapes.iter().map(|s| Some(*s)).collect();
    let mut values = vec![None; all.len()];
    for &s in scalars {
        all.push(None);
        values.push(Some(Value::I64(s)));
    }
    bind_extents(k, &all, &values).map_err(|e| e.to_string())
}

fn check(k: &Kernel, shapes: &[&[usize]], scalars: &[i64], want: Result<&[i64], &str>) {
    assert_eq!(
        bind(k, shapes, scalars),
        want.map(<[i64]>::to_vec).map_err(str::to_owned),
        "kernel {} on {shapes:?}",
        k.name
    );
}

fn linear() -> Kernel {
    kernel(
        "linear",
        &[("M", SHAPE), ("K", SHAPE), ("N", SHAPE)],
        &[("x", &[0, 1]), ("w", &[1, 2]), ("b", &[2])],
    )
}

#[test]
fn extents_come_from_shapes() {
    check(&linear(), &[&[3, 5], &[5, 7], &[7]], &[], Ok(&[3, 5, 7]));
    check(&linear(), &[&[0, 5], &[5, 1], &[1]], &[], Ok(&[0, 5, 1]));
}

#[test]
fn extents_of_one_name_must_agree() {
    check(
        &linear(),
        &[&[3, 1024], &[512, 7], &[7]],
        &[],
        Err("kernel `linear`: argument `w`: axis `K` is 512, but `x` has 1024"),
    );
    // An extent of 1 is an extent like any other: it does not broadcast.
    check(
        &linear(),
        &[&[3, 5], &[5, 7], &[1]],
        &[],
        Err("kernel `linear`: argument `b`: axis `N` is 1, but `w` has 7"),
    );
}

#[test]
fn the_rank_is_part_of_the_shape() {
    check(
        &linear(),
        &[&[3], &[5, 7], &[7]],
        &[],
        Err("kernel `linear`: argument `x` has rank 1, but the kernel declares rank 2"),
    );
}

#[test]
fn an_axis_parameter_gives_an_extent() {
    let split =
        kernel("heads", &[("F", SHAPE), ("H", AxisSource::Host(ParamId(1))), ("D", SHAPE)], &[("x", &[0])]);
    // `split(F, (H, D))` with D from nowhere else: the check is the equation.
    let product = CheckKind::Equal { op: "split".into(), axis: AxisId(0), expected: ext(1).times(ext(2)) };
    let split = with_check(with_axis_param(split, "heads", 1), product);
    check(&split, &[&[12]], &[4], Ok(&[12, 4, 3]));
    check(
        &split,
        &[&[10]],
        &[4],
        Err(
            "kernel `heads`: argument `x`: axis `F` is 10, but no extent of axis `D` makes `H * D` equal to it",
        ),
    );
    check(&split, &[&[12]], &[-4], Err("kernel `heads`: argument `heads`: -4 is not an extent for axis `H`"));
    // Nothing times 0 heads is 12, anything times 0 heads is 0.
    check(
        &split,
        &[&[12]],
        &[0],
        Err(
            "kernel `heads`: argument `x`: axis `F` is 12, but no extent of axis `D` makes `H * D` equal to it",
        ),
    );
    check(&split, &[&[0]], &[0], Err("kernel `heads`: nothing in the call fixes the extent of axis `D`"));
}

#[test]
fn an_axis_parameter_agrees_with_shapes() {
    let k = kernel("k", &[("H", SHAPE)], &[("x", &[0])]);
    let k = with_axis_param(k, "heads", 0);
    check(&k, &[&[8]], &[8], Ok(&[8]));
    check(&k, &[&[8]], &[4], Err("kernel `k`: argument `x`: axis `H` is 8, but `heads` is 4"));
    // The same with the parameters in the other order.
    let mut k = k;
    k.params.swap(0, 1);
    let got = bind_extents(&k, &[None, Some(&[8])], &[Some(Value::U64(4)), None]);
    assert_eq!(
        got.map_err(|e| e.to_string()),
        Err("kernel `k`: argument `x`: axis `H` is 8, but `heads` is 4".to_owned())
    );
}

#[test]
fn a_static_extent_is_checked() {
    let k = kernel("rgb", &[("C", AxisSource::Static(3)), ("W", SHAPE)], &[("x", &[0, 1])]);
    check(&k, &[&[3, 9]], &[], Ok(&[3, 9]));
    check(&k, &[&[4, 9]], &[], Err("kernel `rgb`: argument `x`: axis `C` is 4, but the kernel declares 3"));
}

#[test]
fn derivations_are_solved_in_both_directions() {
    // F = 2 * N + 1, G = F - N.
    let f = IndexExpr::from(2).times(ext(0)).plus(1);
    let axes = [("N", SHAPE), ("F", derived(f)), ("G", derived(ext(1).minus(ext(0))))];
    let forward = kernel("k", &axes, &[("x", &[0])]);
    check(&forward, &[&[10]], &[], Ok(&[10, 21, 11]));
    let both = kernel("k", &axes, &[("x", &[0]), ("y", &[1])]);
    check(&both, &[&[10], &[21]], &[], Ok(&[10, 21, 11]));
    check(
        &both,
        &[&[10], &[22]],
        &[],
        Err("kernel `k`: argument `y`: axis `F` is 22, but `2 * N + 1` is 21"),
    );
    let backward = kernel("k", &axes, &[("y", &[1])]);
    check(&backward, &[&[21]], &[], Ok(&[10, 21, 11]));
    check(
        &backward,
        &[&[22]],
        &[],
        Err(
            "kernel `k`: argument `y`: axis `F` is 22, but no extent of axis `N` makes `2 * N + 1` equal to it",
        ),
    );
    check(
        &backward,
        &[&[0]],
        &[],
        Err(
            "kernel `k`: argument `y`: axis `F` is 0, but no extent of axis `N` makes `2 * N + 1` equal to it",
        ),
    );
}

#[test]
fn equations_feed_one_another() {
    // H = G * R and F = H * D, with F, D and R known: H = F / D, G = H / R.
    let axes = [
        ("G", SHAPE),
        ("R", SHAPE),
        ("H", derived(ext(0).times(ext(1)))),
        ("D", SHAPE),
        ("F", derived(ext(2).times(ext(3)))),
    ];
    let k = kernel("k", &axes, &[("x", &[4]), ("y", &[3, 1])]);
    check(&k, &[&[120], &[5, 3]], &[], Ok(&[8, 3, 24, 5, 120]));
    let k = kernel("k", &axes, &[("x", &[4]), ("y", &[3])]);
    check(&k, &[&[120], &[5]], &[], Err("kernel `k`: nothing in the call fixes the extent of axis `G`"));
}

#[test]
fn a_derived_extent_is_not_negative() {
    let k = kernel("tail", &[("N", SHAPE), ("P", derived(ext(0).minus(3)))], &[("x", &[0])]);
    check(&k, &[&[3]], &[], Ok(&[3, 0]));
    check(&k, &[&[2]], &[], Err("kernel `tail`: axis `P` is `N - 3`, which is -1"));
}

#[test]
fn huge_extents_are_errors_and_not_wrapped() {
    let k = kernel("k", &[("N", SHAPE), ("P", derived(ext(0).times(ext(0))))], &[("x", &[0])]);
    check(&k, &[&[1 << 32]], &[], Err("kernel `k`: the extent `N * N` does not fit 63 bits"));
    check(&k, &[&[usize::MAX]], &[], Err("kernel `k`: the extent `N` does not fit 63 bits"));
    check(&k, &[&[3_000_000_000]], &[], Ok(&[3_000_000_000, 9_000_000_000_000_000_000]));
    let cube = ext(0).times(ext(0)).times(ext(0)).times(ext(0)).times(ext(0));
    let k = kernel("k", &[("N", SHAPE), ("P", derived(cube))], &[("x", &[0])]);
    check(&k, &[&[1 << 62]], &[], Err("kernel `k`: the extent `N * N * N * N * N` does not fit 63 bits"));
}

#[test]
fn checks_run_on_the_bound_extents() {
    let k = kernel("k", &[("N", SHAPE)], &[("x", &[0])]);
    let empty = with_check(k.clone(), CheckKind::NotEmpty { op: "max".into(), axis: AxisId(0) });
    check(&empty, &[&[1]], &[], Ok(&[1]));
    check(&empty, &[&[0]], &[], Err("kernel `k`: `max` over axis `N`, which is empty (src/lib.rs:7)"));

    let bounds = |op: &str, start: Extent, length: i64| {
        let kind = CheckKind::InBounds { op: op.into(), axis: AxisId(0), start, length: length.into() };
        let mut k = k.clone();
        k.params.push(Param { name: "pos".into(), kind: ParamKind::Scalar { dtype: DType::I64 } });
        with_check(k, kind)
    };
    let slice = bounds("slice", IndexExpr::Param(ParamId(1)), 4);
    check(&slice, &[&[10]], &[6], Ok(&[10]));
    let message = |start: i64| {
        format!("kernel `k`: `slice` takes 4 positions from {start} of axis `N`, which has 10 (src/lib.rs:7)")
    };
    for start in [7, -1, i64::MAX, i64::MIN] {
        check(&slice, &[&[10]], &[start], Err(&message(start)));
    }
    let at = bounds("at", IndexExpr::Param(ParamId(1)), 1);
    check(
        &at,
        &[&[2]],
        &[2],
        Err("kernel `k`: `at` reads position 2 of axis `N`, which has 2 (src/lib.rs:7)"),
    );
}

#[test]
fn an_equality_check_names_the_operation() {
    let axes = [("F", SHAPE), ("H", SHAPE), ("D", SHAPE)];
    let k = kernel("k", &axes, &[("x", &[0]), ("y", &[1, 2])]);
    let product = CheckKind::Equal { op: "split".into(), axis: AxisId(0), expected: ext(1).times(ext(2)) };
    let k = with_check(k, product);
    check(&k, &[&[12], &[3, 4]], &[], Ok(&[12, 3, 4]));
    check(
        &k,
        &[&[13], &[3, 4]],
        &[],
        Err("kernel `k`: argument `x`: `split`: axis `F` is 13, but `H * D` is 12 (src/lib.rs:7)"),
    );
}
