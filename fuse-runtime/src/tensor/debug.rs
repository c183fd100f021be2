//! How a tensor prints: its type, its shape, and its first elements.

use super::Tensor;
use crate::element::Element;
use std::fmt;

/// How many elements are printed of a large tensor.
const SHOWN: usize = 24;

/// Prints `Tensor<f32, 2>[2, 3] [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]`: the elements in row-major order, a large tensor's first
/// only.
impl<T: Element, const R: usize> fmt::Debug for Tensor<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor<{}, {R}>{:?} ", T::DTYPE, self.shape)?;
        let Ok(_reading) = self.storage.read() else { return f.write_str("[in use]") };
        let count = self.len();
        f.write_str("[")?;
        for k in 0..count.min(SHOWN) {
            let comma = if k == 0 { "" } else { ", " };
            let (mut rest, mut offset) = (k, 0isize);
            for (&n, &stride) in self.shape.iter().zip(&self.strides).rev() {
                offset += (rest % n) as isize * stride;
                rest /= n;
            }
            let Ok(element) = self.read_element(offset) else { return f.write_str("unreadable]") };
            write!(f, "{comma}{element:?}")?;
        }
        f.write_str(if count > SHOWN { ", ..]" } else { "]" })
    }
}
