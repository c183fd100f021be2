// messages: closure_in_scalar, item_in_scalar, item_in_body, keyword_not_supported, value_called, turbofish_not_expected

use fuse::fuse;

fuse! {
    #[op]
    fn with_closure(x: f32) -> f32 {
        let f = |y: f32| y + 1.0;
        f(x)
    }

    #[op]
    fn with_function(x: f32) -> f32 {
        fn g(y: f32) -> f32 { y }
        g(x)
    }

    #[op]
    fn called(x: f32) -> f32 { x(1.0) }

    #[op]
    fn with_type(x: f32) -> f32 { x.max::<f32>(1.0) }

    #[kernel]
    fn closure<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let f = |y| y;
        f(x)
    }

    #[kernel]
    fn function<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        fn g(y: f32) -> f32 { y }
        g(x)
    }

    #[kernel]
    fn value<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let h = x.exp();
        h(x)
    }

    #[kernel]
    fn pattern<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        let Some(y) = x else { return x };
        y
    }

    #[kernel]
    fn mutable<N>(x: Tensor<f32, N>) -> Tensor<f32, N> {
        unsafe { x }
    }
}

fn main() {}
