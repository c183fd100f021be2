// messages: unknown_reduce_argument, identity_missing, combiner_signature

use fuse::fuse;

fuse! {
    #[reduce(identity = 0.0, sorted)]
    fn larger(a: f32, b: f32) -> f32 { a.max(b) }

    #[reduce]
    fn added(a: f32, b: f32) -> f32 { a + b }

    #[reduce(identity = 0.0)]
    fn counted(a: f32, n: i32) -> f32 { a + n as f32 }
}

fn main() {}
