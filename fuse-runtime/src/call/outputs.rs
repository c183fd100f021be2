//! What a call gives back: nothing, a tensor, or a tuple of tensors.

use super::argument::Arg;
use super::{Loaded, ResultInfo};
use crate::device::Device;
use crate::element::Element;
use crate::error::Error;
use crate::tensor::Tensor;

/// The results that are still to be allocated.
pub struct ResultShapes<'a> {
    loaded: &'a Loaded,
    extents: &'a [i64],
    rest: std::slice::Iter<'a, ResultInfo>,
    device: &'a Device,
}

impl<'a> ResultShapes<'a> {
    pub(super) fn new(loaded: &'a Loaded, extents: &'a [i64], device: &'a Device) -> Self {
        ResultShapes { loaded, extents, rest: loaded.results.iter(), device }
    }

    /// Allocates the next result, for which every element will be written.
    fn allocate<T: Element, const R: usize>(&mut self) -> Result<Tensor<T, R>, Error> {
        let number = self.loaded.results.len() - self.rest.len();
        let fits = |info: &&ResultInfo| info.dtype == T::DTYPE && info.axes.len() == R;
        let info = self.rest.next().filter(fits).ok_or_else(|| self.loaded.version_error())?;
        let shape = std::array::from_fn(|k| self.extents[info.axes[k].index()] as usize);
        Tensor::allocate(shape, self.device).map_err(|error| {
            error.of_call(&self.loaded.kernel().name, Some(&self.loaded.result_name(number)))
        })
    }

    /// That there are no more.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        if self.rest.next().is_none() { Ok(()) } else { Err(self.loaded.version_error()) }
    }
}

mod sealed {
    /// Keeps [`super::Outputs`] closed: a call trusts what is allocated to be what it writes.
    pub trait Sealed {}
}

impl sealed::Sealed for () {}
impl<T: Element, const R: usize> sealed::Sealed for Tensor<T, R> {}

/// What a call gives back: nothing, a tensor, or a tuple of tensors.
pub trait Outputs: sealed::Sealed + Sized {
    /// Allocates them in order.
    ///
    /// # Errors
    /// If there is no memory.
    fn allocate(shapes: &mut ResultShapes<'_>) -> Result<Self, Error>;

    /// Writes one argument for each to `arguments`, which has as many places.
    fn fill_arguments<'a>(&'a self, arguments: &mut [Arg<'a>]);
}

impl Outputs for () {
    fn allocate(_: &mut ResultShapes<'_>) -> Result<Self, Error> {
        Ok(())
    }

    fn fill_arguments<'a>(&'a self, _: &mut [Arg<'a>]) {}
}

impl<T: Element, const R: usize> Outputs for Tensor<T, R> {
    fn allocate(shapes: &mut ResultShapes<'_>) -> Result<Self, Error> {
        shapes.allocate()
    }

    fn fill_arguments<'a>(&'a self, arguments: &mut [Arg<'a>]) {
        if let [argument] = arguments {
            *argument = Arg::tensor(self, true);
        }
    }
}

macro_rules! tuple_of_outputs {
    ($($name:ident $index:tt),*) => {
        impl<$($name: Outputs),*> sealed::Sealed for ($($name,)*) {}

        impl<$($name: Outputs),*> Outputs for ($($name,)*) {
            fn allocate(shapes: &mut ResultShapes<'_>) -> Result<Self, Error> {
                Ok(($($name::allocate(shapes)?,)*))
            }

            fn fill_arguments<'a>(&'a self, arguments: &mut [Arg<'a>]) {
                for (k, argument) in arguments.iter_mut().enumerate() {
                    match k {
                        $($index => self.$index.fill_arguments(std::slice::from_mut(argument)),)*
                        _ => {}
                    }
                }
            }
        }
    };
}

/// The tuples of every length up to that of the list, shortest first.
macro_rules! tuples_of_outputs {
    ([$($done:ident $at:tt),*]) => {};
    ([$($done:ident $at:tt),*] $name:ident $index:tt $(, $rest:ident $rest_index:tt)*) => {
        tuple_of_outputs!($($done $at,)* $name $index);
        tuples_of_outputs!([$($done $at,)* $name $index] $($rest $rest_index),*);
    };
}

// As many as the compiler allows: `fuse_compiler::syntax::MOST_RESULTS`.
tuples_of_outputs!([]
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15,
    Q 16, S 17, T 18, U 19, V 20, W 21, X 22, Y 23, Z 24, Aa 25, Bb 26, Cc 27, Dd 28, Ee 29, Ff 30, Gg 31
);
