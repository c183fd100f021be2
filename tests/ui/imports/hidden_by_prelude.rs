// messages: (rustc's own)

// A single name that the prelude has is the prelude's, so that nothing uses this import.
#![deny(unused_imports)]

mod ops {
    #[fuse::op]
    pub fn twice(x: f32) -> f32 { x * 2.0 }
}

use ops::twice as gelu;

fuse::fuse! {
    #[kernel]
    fn activate<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { gelu(x) }
}

fn main() {}
