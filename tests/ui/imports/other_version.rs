// messages: import_of_other_version

use fuse::fuse;

/// What another version of the crate may have left.
mod old {
    macro_rules! tokens_of_old {
        ({ $($callback:tt)* } $($rest:tt)*) => {
            $($callback)*! { { "0.0.9" old { #[op] fn old(x: f32) -> f32 { x } } {} } $($rest)* }
        };
    }
    pub(crate) use tokens_of_old as __tokens;
}

fuse! {
    #[kernel]
    fn imported<N>(x: Tensor<f32, N>) -> Tensor<f32, N> { old(x) }
}

fn main() {}
