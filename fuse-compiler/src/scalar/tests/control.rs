//! Variables, blocks, branches, matches and loops.

use super::{lower_valid, same_as_rustc};
use fuse_ir::dtype::Value;
use fuse_ir::scalar::Stmt;

#[test]
fn variables_and_shadowing() {
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { let x = x + 1.0; let y = { let x = x * 2.0; x - 1.0 }; x + y });
    same_as_rustc!(Bits: fn f(x: i32) -> i32 { let mut y = 1; { y = y | x; let y = 3; let _ = y; } y });
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { let y: f32; let z; if x > 0.0 { y = x; z = 1.0; } else { y = 2.0; z = x; } y + z });
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { const SCALE: f32 = 2.0 * 0.25; x * SCALE });
}

#[test]
fn tuples_are_taken_apart() {
    same_as_rustc!(Bits: fn f(x: f32, n: i32) -> (i32, f32) { let p = (x, (n, 2.5)); let (a, (b, c)) = p; (b, a + c + p.1.1) });
    same_as_rustc!(Bits: fn f(x: f32, y: f32) -> (f32, f32) { let mut p = (x, y); p = (p.1, p.0); p.0 += 1.0; p });
    same_as_rustc!(Bits: fn f(x: f32, y: f32) -> (f32, f32) { let (mut a, mut b) = (x, y); (a, b) = (b, a); (a, b) = (a - b, a); (a, b) });
    same_as_rustc!(Bits: fn f(x: i32) -> i32 { let mut p = (x, (1, 2)); p.1.0 |= x; (p.1.1, _) = (p.1.0, 9); p.1.1 });
    same_as_rustc!(Bits: fn f(x: f32, y: f32) -> f32 { let (lo, hi) = if x < y { (x, y) } else { (y, x) }; hi - lo });
}

#[test]
fn operands_are_evaluated_from_left_to_right() {
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { let mut y = x; y + { y = 5.0; y * 2.0 } + y });
    same_as_rustc!(Bits: fn f(x: i32) -> (i32, i32, i32) { let mut y = x; (y, { y = 2; y }, y) });
    same_as_rustc!(Bits: fn f(x: i32) -> i32 { let mut y = 0; let z = if { y = 1; x > 0 } { y } else { y + 1 }; y = 7; z + y });
}

#[test]
fn a_compound_assignment_evaluates_its_value_first() {
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { let mut y = x; y += { y = 5.0; y * 2.0 }; y });
    same_as_rustc!(Bits: fn f(x: i32) -> i32 { let mut y = x; y ^= { y = 3; 5 }; y >>= { y |= x; 2u8 }; y });
    same_as_rustc!(Bits: fn f(x: f32) -> (f32, f32) { let mut p = (x, 1.0); p.1 -= { p = (p.1, p.0); p.0 }; p });
}

#[test]
fn branches() {
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { if x > 0.0 { x } else { 0.01 * x } });
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { if x < -1.0 { -1.0 } else if x > 1.0 { 1.0 } else { x } });
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { let mut y = x; if x < 0.0 { y = -x; } if y > 1.0 { y -= 1.0; } else { y *= 2.0; } y });
    same_as_rustc!(Bits: fn f(x: i32, y: i32) -> i32 { if y != 0 { let q = x / y; q } else { -1 } });
    same_as_rustc!(Bits: fn f(x: f32, c: bool) -> f32 { let mut y = x; let z = if c { y = 1.0; y + x } else { y }; y + z });
    same_as_rustc!(Bits: fn f(a: bool, b: bool) -> i32 { let mut a = a; let mut n = 0; if a { a = b; n = 1; } else { n = 2; } if a { n + 10 } else { n } });
}

#[test]
fn a_side_that_may_fault_is_not_computed_in_vain() {
    same_as_rustc!(Bits: fn f(x: i32, y: i32) -> bool { y != 0 && x / y > 2 });
    same_as_rustc!(Bits: fn f(x: i32, y: i32) -> bool { y == 0 || x % y == 1 || x > 0 });
    same_as_rustc!(Bits: fn f(x: i32, y: i32) -> i32 { match y { 0 => 0, -1 => x, _ => x / y } });
    same_as_rustc!(Bits:
        fn quotient(x: i32, y: i32) -> i32 { x / y }
        fn f(x: i32, y: i32) -> i32 { if y > 0 { quotient(x, y) } else { 3 } }
    );
    let items = lower_valid(
        "fn f(x: i32, y: i32) -> i32 { let _ = x / y; 1 } fn g(x: i32, y: i32) -> i32 { x / y; 1 }",
    );
    let id = items.by_name["g"].id;
    let (_, fault) = fuse_ir::eval::eval_fn(&items.functions, id, &[Value::I32(1), Value::I32(0)]);
    assert!(fault.is_some(), "a division whose value is dropped faults all the same");
}

#[test]
fn branches_without_faults_become_selections() {
    let items = lower_valid(
        "fn f(x: f32) -> f32 { let mut y = x; if x > 0.0 { let t = y * 2.0; y = t + 1.0; } match y as i32 { 0 => y, 1 | 2 => y.exp(), _ => 0.0 } }",
    );
    let body = &items.functions[0].body;
    assert!(body.iter().all(|statement| matches!(statement, Stmt::Assign { .. })), "{body:?}");
    let items = lower_valid("fn f(x: i32, y: i32) -> i32 { if y > 0 { x / y } else { x / 2 } }");
    assert!(matches!(items.functions[0].body[..], [Stmt::If { .. }]));
}

#[test]
fn matches() {
    same_as_rustc!(Bits: fn f(n: i32) -> i32 { match n { 0 => 10, 1 | 2 => 20, 3..=7 => 30, i32::MIN..0 => 40, _ => 50 } });
    same_as_rustc!(Bits: fn f(n: u8) -> u8 { match n { 0..100 => 1, 100.. => 2 } });
    same_as_rustc!(Bits: fn f(n: i32) -> i32 { match n { -1 => 1, m @ 0..=31 => m + 1, m if m & 1 == 0 => m / 2, m => m } });
    same_as_rustc!(Bits: fn f(a: bool, b: bool) -> i32 { match (a, b) { (true, false) => 1, (_, true) => 2, (false, false) => 3 } });
    same_as_rustc!(Bits: fn f(a: bool) -> f32 { match a { true => 1.0, false => 0.0 } });
    same_as_rustc!(Bits: fn f(n: i32, x: f32) -> (f32, i32) { match n { 1 => (x, n), 2 => (x + 1.0, 0), _ => { let y = x; (y, n) } } });
    same_as_rustc!(Bits: fn f(n: i32, y: i32) -> i32 { let mut r = 0; match n { 1 => r = y, 2 => { r = 5; r = r | y; } _ => {} } r });
    same_as_rustc!(Bits: fn f(n: i32, y: i32) -> i32 { match n { 7 if y != 0 && 100 / y > 3 => 1, 7 => 2, _ => 3 } });
    same_as_rustc!(Bits: fn f(n: i32) -> i32 { let mut n = n; match n { 0 => n = 1, 1 => n = 2, _ => n = 0 } n });
}

#[test]
fn matches_on_constants() {
    let items = lower_valid(
        "const LAST: i32 = 4 + 3; fn f(n: i32) -> i32 { match n { LAST => 1, 0..LAST => 2, _ => 3 } }",
    );
    let native = |(n,): (i32,)| match n {
        7 => 1,
        0..7 => 2,
        _ => 3,
    };
    super::compare(&items, "f", native, super::Closeness::Bits);
}

#[test]
fn loops() {
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { let mut s = 0.0; for i in 0..5 { s += x * i as f32; } s });
    same_as_rustc!(Bits: fn f(x: i32) -> i32 { let mut n = 0; for i in -2..=2 { for j in 0..3 { n = n ^ (x & (i * j)); } } n });
    same_as_rustc!(Bits: fn f(x: u8) -> u32 { let mut n = 0; let mut y = x; for _ in 0..8 { if y & 1 == 1 { n += 1; } y >>= 1; } n });
    same_as_rustc!(Bits: fn f(x: i64) -> i64 { let mut n = x; for mut i in 3..1 { i += 1; n = i; } for mut i in 1..3 { i = i * 2; n = n ^ i; } n });
    same_as_rustc!(Bits: fn f(x: f32) -> f32 { let (mut a, mut b) = (x, 1.0); for _ in 0..3 { let t = a; a = b; b = t + b; } a - b });
    same_as_rustc!(Bits: fn f(x: i32) -> i32 { let mut y = x; for _ in 0..4 { if y > 10 { for _ in 0..2 { y = y / 2; } } } y });
}

#[test]
fn loops_with_constant_bounds() {
    let items = lower_valid(
        "const N: i64 = 2; fn f(x: i64) -> i64 { let mut s = 0; for i in -N..=N * 2 + 1 { s ^= x + i; } s }",
    );
    let native = |(x,): (i64,)| (-2..=5).fold(0, |s, i| s ^ x.wrapping_add(i));
    super::compare(&items, "f", native, super::Closeness::Bits);
}
