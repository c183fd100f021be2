// messages: unknown_method, unknown_function, unknown_value, no_such_field, wrong_argument_count, recursive_op

use fuse::fuse;

fuse! {
    #[op]
    fn inverse_root(x: f32) -> f32 { x.rsqt() }

    #[op]
    fn normalised(x: f32) -> f32 { x / x.sum(N) }

    #[op]
    fn activated(x: f32) -> f32 { gleu(x) }

    #[op]
    fn scaled(x: f32) -> f32 { x * crate::SCALE }

    #[op]
    fn third(p: (f32, f32)) -> f32 { p.2 }

    #[op]
    fn larger(x: f32) -> f32 { x.max() }

    #[op]
    fn endless(x: f32) -> f32 { endless(x) }
}

fn main() {}
