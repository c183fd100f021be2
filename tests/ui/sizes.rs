// messages: op_too_large, too_many_operations

use fuse::fuse;

fuse! {
    #[op]
    fn f0(x: f32) -> f32 { x + 1.0 }
    #[op]
    fn f1(x: f32) -> f32 { f0(x) * f0(x.exp()) }
    #[op]
    fn f2(x: f32) -> f32 { f1(x) * f1(x.exp()) }
    #[op]
    fn f3(x: f32) -> f32 { f2(x) * f2(x.exp()) }
    #[op]
    fn f4(x: f32) -> f32 { f3(x) * f3(x.exp()) }
    #[op]
    fn f5(x: f32) -> f32 { f4(x) * f4(x.exp()) }
    #[op]
    fn f6(x: f32) -> f32 { f5(x) * f5(x.exp()) }
    #[op]
    fn f7(x: f32) -> f32 { f6(x) * f6(x.exp()) }
    #[op]
    fn f8(x: f32) -> f32 { f7(x) * f7(x.exp()) }
    #[op]
    fn f9(x: f32) -> f32 { f8(x) * f8(x.exp()) }
    #[op]
    fn f10(x: f32) -> f32 { f9(x) * f9(x.exp()) }
    #[op]
    fn f11(x: f32) -> f32 { f10(x) * f10(x.exp()) }
    #[op]
    fn f12(x: f32) -> f32 { f11(x) * f11(x.exp()) }
    #[op]
    fn f13(x: f32) -> f32 { f12(x) * f12(x.exp()) }
    #[op]
    fn f14(x: f32) -> f32 { f13(x) * f13(x.exp()) }
    #[op]
    fn f15(x: f32) -> f32 { f14(x) * f14(x.exp()) }
    #[op]
    fn f16(x: f32) -> f32 { f15(x) * f15(x.exp()) }
    #[op]
    fn f17(x: f32) -> f32 { f16(x) * f16(x.exp()) }

    fn g0<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { x + 1.0 }
    fn g1<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g0(x) * g0(x.exp()) }
    fn g2<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g1(x) * g1(x.exp()) }
    fn g3<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g2(x) * g2(x.exp()) }
    fn g4<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g3(x) * g3(x.exp()) }
    fn g5<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g4(x) * g4(x.exp()) }
    fn g6<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g5(x) * g5(x.exp()) }
    fn g7<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g6(x) * g6(x.exp()) }
    fn g8<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g7(x) * g7(x.exp()) }
    fn g9<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g8(x) * g8(x.exp()) }
    fn g10<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g9(x) * g9(x.exp()) }
    fn g11<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g10(x) * g10(x.exp()) }
    fn g12<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g11(x) * g11(x.exp()) }
    fn g13<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g12(x) * g12(x.exp()) }
    fn g14<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g13(x) * g13(x.exp()) }
    fn g15<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g14(x) * g14(x.exp()) }
    fn g16<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g15(x) * g15(x.exp()) }
    fn g17<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { g16(x) * g16(x.exp()) }

    #[kernel]
    fn twice<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { f17(x) + g17(x) }
}

fn main() {}
