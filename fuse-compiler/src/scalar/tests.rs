//! Bodies are lowered and evaluated against the same source compiled by rustc.

#![allow(
    clippy::all,
    unreachable_pub,
    unused,
    reason = "the programs under test are compiled as they are, and many do what a lint would advise against"
)]

mod control;
mod errors;
mod items;
mod numbers;
mod rust_copy;

use super::{ConstSource, FnSource, Origin, ScalarItems, lower_scalar_items};
use crate::diagnostic::{Diagnostic, Diagnostics};
use fuse_ir::dtype::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Lowers a file of ops and constants.
fn lower(source: &str) -> (ScalarItems, Diagnostics) {
    let file = syn::parse_file(source).expect("the test's program parses");
    let mut diagnostics = Diagnostics::new();
    let (mut ops, mut reducers, mut consts) = (Vec::new(), Vec::new(), Vec::new());
    for item in &file.items {
        match item {
            syn::Item::Fn(item) => {
                let source = FnSource {
                    name: item.sig.ident.to_string(),
                    scope: String::new(),
                    item,
                    origin: Origin::Block,
                };
                match item.attrs.iter().find(|attribute| attribute.path().is_ident("reduce")) {
                    Some(attribute) => {
                        let identity: syn::MetaNameValue = attribute.parse_args().expect("an identity");
                        reducers
                            .push((super::ReduceArgs { identity: identity.value, ordered: false }, source));
                    }
                    None => ops.push(source),
                }
            }
            syn::Item::Const(item) => {
                consts.push(ConstSource { scope: String::new(), item, origin: Origin::Block });
            }
            _ => panic!("the test's program has ops and constants only"),
        }
    }
    let items = lower_scalar_items(&ops, &reducers, &consts, Default::default(), &mut diagnostics);
    (items, diagnostics)
}

/// Lowers a program without errors.
fn lower_valid(source: &str) -> ScalarItems {
    let (items, diagnostics) = lower(source);
    let texts: Vec<String> = diagnostics.iter().map(Diagnostic::text).collect();
    assert!(texts.is_empty(), "{source}\n{texts:#?}");
    items
}

/// A primitive type with the values at which functions go wrong.
trait Edge: Copy + 'static {
    const EDGES: &[Self];
    fn value(self) -> Value;
}

macro_rules! edges {
    ($($ty:ident $variant:ident [$($edge:expr),* $(,)?])*) => {
        $(impl Edge for $ty {
            const EDGES: &[Self] = &[$($edge),*];
            fn value(self) -> Value {
                Value::$variant(self)
            }
        })*
    };
}

edges! {
    f32 F32 [
        0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 3.7, 1e-40, -1e-45, 1e30, -1e30, 16777217.0, 2147483648.0, f32::MAX,
        f32::MIN_POSITIVE, f32::INFINITY, f32::NEG_INFINITY, f32::NAN,
    ]
    f64 F64 [0.0, -0.0, 1.0, -1.5, 0.1, 1e-310, 1e300, 9.3e18, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]
    i8 I8 [0, 1, -1, 5, -7, 100, i8::MAX, i8::MIN]
    i16 I16 [0, 1, -1, 300, i16::MAX, i16::MIN]
    i32 I32 [0, 1, -1, 2, 7, -13, 31, 32, 33, 65536, i32::MAX, i32::MIN]
    i64 I64 [0, 1, -1, 10, -63, 64, 1 << 40, i64::MAX, i64::MIN]
    u8 U8 [0, 1, 2, 8, 100, 200, u8::MAX]
    u16 U16 [0, 1, 300, u16::MAX]
    u32 U32 [0, 1, 5, 31, 32, 35, 1 << 31, u32::MAX]
    u64 U64 [0, 1, 64, 1 << 40, u64::MAX]
    bool Bool [false, true]
}

/// What a function gives, flattened.
trait Results {
    fn values(self) -> Vec<Value>;
}

impl<T: Edge> Results for T {
    fn values(self) -> Vec<Value> {
        vec![self.value()]
    }
}

impl<A: Results, B: Results> Results for (A, B) {
    fn values(self) -> Vec<Value> {
        [self.0.values(), self.1.values()].concat()
    }
}

impl<A: Results, B: Results, C: Results> Results for (A, B, C) {
    fn values(self) -> Vec<Value> {
        [self.0.values(), self.1.values(), self.2.values()].concat()
    }
}

/// Every combination of edge values.
trait Arguments: Sized + Copy {
    fn combinations() -> Vec<Self>;
    fn values(self) -> Vec<Value>;
}

impl<A: Edge> Arguments for (A,) {
    fn combinations() -> Vec<Self> {
        A::EDGES.iter().map(|&a| (a,)).collect()
    }
    fn values(self) -> Vec<Value> {
        vec![self.0.value()]
    }
}

impl<A: Edge, B: Edge> Arguments for (A, B) {
    fn combinations() -> Vec<Self> {
        A::EDGES.iter().flat_map(|&a| B::EDGES.iter().map(move |&b| (a, b))).collect()
    }
    fn values(self) -> Vec<Value> {
        vec![self.0.value(), self.1.value()]
    }
}

impl<A: Edge, B: Edge, C: Edge> Arguments for (A, B, C) {
    fn combinations() -> Vec<Self> {
        let pairs = <(A, B)>::combinations();
        pairs.into_iter().flat_map(|(a, b)| C::EDGES.iter().map(move |&c| (a, b, c))).collect()
    }
    fn values(self) -> Vec<Value> {
        vec![self.0.value(), self.1.value(), self.2.value()]
    }
}

/// How close a result must be to rustc's.
#[derive(Clone, Copy, PartialEq)]
enum Closeness {
    /// Bit for bit, any NaN for a NaN.
    Bits,
    /// The same number: the sign of a zero is free, as it is for `f32::max`.
    Number,
    /// Within a few units in the last place: the evaluator rounds transcendental functions once.
    Near,
}

fn agree(found: Value, expected: Value, closeness: Closeness) -> bool {
    match (found, expected) {
        (Value::F32(a), Value::F32(b)) => {
            let near =
                closeness == Closeness::Near && (a - b).abs() <= 4.0 * f32::EPSILON * b.abs().max(1e-37);
            let number = closeness != Closeness::Bits && a == b;
            (a.is_nan() && b.is_nan()) || a.to_bits() == b.to_bits() || number || near
        }
        (Value::F64(a), Value::F64(b)) => {
            let near =
                closeness == Closeness::Near && (a - b).abs() <= 4.0 * f64::EPSILON * b.abs().max(1e-300);
            let number = closeness != Closeness::Bits && a == b;
            (a.is_nan() && b.is_nan()) || a.to_bits() == b.to_bits() || number || near
        }
        _ => found == expected,
    }
}

/// Compares a lowered function with a native one on every combination of edge values. Where the native one panics (this
/// build checks overflow) there is nothing to compare with; at least one combination must remain.
fn compare<A: Arguments, R: Results>(
    items: &ScalarItems,
    name: &str,
    native: impl Fn(A) -> R,
    closeness: Closeness,
) {
    let signature = &items.by_name[name];
    for (index, function) in items.functions.iter().enumerate() {
        let verified = fuse_ir::scalar::verify_function(&items.functions[..index], function);
        assert_eq!(verified, Ok(()), "{function:#?}");
    }
    let mut compared = 0;
    for arguments in A::combinations() {
        let Ok(expected) = catch_unwind(AssertUnwindSafe(|| native(arguments).values())) else { continue };
        compared += 1;
        let (found, fault) = fuse_ir::eval::eval_fn(&items.functions, signature.id, &arguments.values());
        assert!(fault.is_none(), "{name}{:?} faults", arguments.values());
        assert_eq!(found.len(), expected.len());
        for (&found, &expected) in found.iter().zip(&expected) {
            let arguments = arguments.values();
            assert!(
                agree(found, expected, closeness),
                "{name}{arguments:?}: found {found:?}, rustc {expected:?}"
            );
        }
    }
    assert!(compared > 0, "`{name}` panics natively on every input");
}

/// Compiles functions natively, lowers their text, and compares the last with its native self.
macro_rules! same_as_rustc {
    ($closeness:ident: $($items:tt)*) => {
        same_as_rustc!(@split $closeness [$($items)*] [] $($items)*);
    };
    (@split $closeness:ident [$($all:tt)*] [$($before:tt)*]
        fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $result:ty $body:block) => {{
        use crate::scalar::tests::Extensions as _;
        $($before)*
        fn $name($($arg: $ty),*) -> $result $body
        let items = crate::scalar::tests::lower_valid(stringify!($($all)*));
        let native = |($($arg,)*): ($($ty,)*)| $name($($arg),*);
        crate::scalar::tests::compare(&items, stringify!($name), native, crate::scalar::tests::Closeness::$closeness);
    }};
    (@split $closeness:ident $all:tt [$($before:tt)*] $next:tt $($rest:tt)*) => {
        same_as_rustc!(@split $closeness $all [$($before)* $next] $($rest)*)
    };
}
use same_as_rustc;

/// The methods that std lacks, for the native side.
trait Extensions: Sized {
    fn rsqrt(self) -> Self;
    fn sigmoid(self) -> Self;
    fn square(self) -> Self;
}

impl Extensions for f32 {
    fn rsqrt(self) -> Self {
        1.0 / self.sqrt()
    }
    fn sigmoid(self) -> Self {
        1.0 / (1.0 + (-self).exp())
    }
    fn square(self) -> Self {
        self * self
    }
}
