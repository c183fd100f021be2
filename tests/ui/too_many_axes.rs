// messages: unplannable

use fuse::fuse;

fuse! {
    #[kernel]
    fn doubled<A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q>(
        x: Tensor<f32, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q>,
    ) -> Tensor<f32, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q> {
        x * 2.0
    }
}

fn main() {}
