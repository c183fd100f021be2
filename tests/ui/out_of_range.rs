// messages: extent_cannot_fit, part_out_of_bounds, negative_position, probability_out_of_range, literal_out_of_range, literal_out_of_range_of_tensor, extent_of_itself, dimension_divided_by_zero, lifetime_not_supported, cfg_inside_block

use fuse::fuse;

fuse! {
    #[kernel]
    fn padded<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.pad(N, 1, 1, N) }

    #[kernel]
    fn renamed<const N: usize = 4, const M: usize = 5>(x: Tensor<f32, N>) -> Tensor<f32, M> { x.rename(N, M) }

    #[kernel]
    fn sliced<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.slice(N, 1, N) }

    #[kernel]
    fn from_before<N, P>(x: Tensor<f32, N>, y: Tensor<f32, P>) -> Tensor<f32, P> { x.slice(N, -1, P) + y }

    #[kernel]
    fn beyond<const N: usize = 3>(x: Tensor<f32, N>) -> Tensor<f32> { x.at(N, 3) }

    #[kernel]
    fn stored<const N: usize = 3>(x: &mut Tensor<f32, N>, y: Tensor<f32>) { x.at(N, 3) = y; }

    #[kernel]
    fn dropped<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.dropout(2.0, 1) }

    #[kernel]
    fn of_nan<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x.dropout(f32::NAN, 1) }

    #[kernel]
    fn great<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x + 1e39 }

    #[op]
    fn greater(x: f32) -> f32 { x - 1e39 }

    #[kernel]
    fn circle<N, const F: usize = { F + 1 }>(x: Tensor<f32, N>, y: Tensor<f32, F>) -> Tensor<f32, N> { x + y.sum(F) }

    #[kernel]
    fn by_zero<N, const F: usize = { N / 0 }>(x: Tensor<f32, N>, y: Tensor<f32, F>) -> Tensor<f32, N> { x + y.sum(F) }

    #[kernel]
    fn lived<N>(x: &'static Tensor<f32, N>) -> Tensor<f32, N> { x + 1.0 }

    #[kernel]
    fn sometimes<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        #[cfg(test)]
        let x = x + 1.0;
        x.exp()
    }

    // What is asked within a branch is asked where it is taken.
    #[kernel]
    fn in_a_branch<N, const P: usize = 4>(x: Tensor<f32, N>, y: Tensor<f32, P>, c: bool) -> Tensor<f32, P> {
        if c { x.slice(N, 0, P) } else { y }
    }
}

fn main() {}
