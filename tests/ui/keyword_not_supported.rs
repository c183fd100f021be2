// messages: keyword_not_supported

use fuse::fuse;

fuse! {
    #[kernel]
    fn repeated<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        for i in 0..3 {
            x = x * 2.0;
        }
        x
    }

    #[kernel]
    fn early<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { return x; }

    #[kernel]
    fn closure<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let plus_one = |y| y + 1.0;
        x
    }

    #[kernel]
    fn printed<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        println!("{x}");
        x
    }

    #[kernel]
    fn matched<N>(x: Tensor<f32, N>, mode: i32) -> Tensor<f32, N> {
        match mode {
            0 => x,
            _ => -x,
        }
    }
}

fn main() {}
