//! Kernels written by hand: what the language must be able to say. Tests of the printer and the simulator run them.

mod attention;

mod row_sum;

mod transpose;

pub use attention::attention;
pub use row_sum::row_sum;
pub use transpose::transpose;
