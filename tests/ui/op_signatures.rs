// messages: narrow_float_in_scalar, unsupported_scalar_type, generic_scalar, modifier_on_scalar, self_in_scalar, scalar_without_result

use fuse::fuse;

fuse! {
    #[op]
    fn narrow(x: f16) -> f32 { x }

    #[op]
    fn sized(n: usize) -> i64 { n as i64 }

    #[op]
    fn text(x: String) -> f32 { 0.0 }

    #[op]
    fn generic<T>(x: f32) -> f32 { x }

    #[op]
    async fn waiting(x: f32) -> f32 { x }

    #[op]
    fn method(self) -> f32 { 0.0 }

    #[op]
    fn silent(x: f32) {}
}

fn main() {}
