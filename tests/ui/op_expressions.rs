// messages: macro_in_scalar, closure_in_scalar, reference_in_scalar, indexing_in_scalar, unsupported_expression, unsupported_pattern, binding_in_or_pattern

use fuse::fuse;

fuse! {
    #[op]
    fn asserted(x: f32) -> f32 {
        assert!(x > 0.0);
        x
    }

    #[op]
    fn closure(x: f32) -> f32 {
        let g = |y| y;
        x
    }

    #[op]
    fn referred(x: f32) -> f32 {
        let y = &x;
        x
    }

    #[op]
    fn indexed(x: f32) -> f32 { x[0] }

    #[op]
    fn chosen(x: f32) -> f32 { if let y = x { y } else { x } }

    #[op]
    fn array(x: f32) -> f32 {
        let [a, b] = x;
        a
    }

    #[op]
    fn alternatives(n: i32) -> i32 {
        match (n, n) {
            (1, m) | (m, 1) => m,
            _ => 0,
        }
    }
}

fn main() {}
