//! Tensors of any dtype and layout, in memory that the engine reads and writes.

use super::cases::Layout;
use crate::call::Arg;
use crate::cpu::Buffer;
use crate::element::Element;
use crate::tensor::Storage;
use fuse_ir::dtype::{DType, Value};
use fuse_ir::eval::Array;
use std::sync::Arc;

/// A tensor in memory.
pub(super) struct StridedBuffer {
    dtype: DType,
    shape: Vec<usize>,
    strides: Vec<isize>,
    /// The first element, in elements.
    offset: usize,
    /// Eight bytes a word, so that every dtype is aligned.
    words: Vec<u64>,
}

impl StridedBuffer {
    /// A tensor of zeros.
    pub(super) fn zeros(dtype: DType, shape: &[usize], layout: Layout) -> StridedBuffer {
        let rank = shape.len();
        let mut strides = vec![0isize; rank];
        let mut step = 1usize;
        let pad = usize::from(layout == Layout::Padded);
        for k in 0..rank {
            let axis = if layout == Layout::Transposed { k } else { rank - 1 - k };
            strides[axis] = step as isize;
            step *= shape[axis].max(1) + pad;
        }
        let offset = 3 * pad;
        let bytes = (step + offset) * dtype.size();
        StridedBuffer { dtype, shape: shape.to_vec(), strides, offset, words: vec![0; bytes.div_ceil(8) + 1] }
    }

    /// A tensor with these elements.
    pub(super) fn from_array(array: &Array, layout: Layout) -> StridedBuffer {
        let mut buffer = StridedBuffer::zeros(array.dtype, &array.shape, layout);
        for (k, &value) in array.data.iter().enumerate() {
            buffer.set(k, value);
        }
        buffer
    }

    /// The elements.
    pub(super) fn to_array(&self) -> Array {
        let count = self.shape.iter().product();
        let data = (0..count).map(|k| self.get(k)).collect();
        Array { dtype: self.dtype, shape: self.shape.clone(), data }
    }

    /// The memory as the engine sees it.
    pub(super) fn as_buffer(&mut self) -> Buffer<'_> {
        let start = self.words.as_mut_ptr().cast::<u8>().wrapping_add(self.offset * self.dtype.size());
        Buffer { data: start, strides: &self.strides }
    }

    /// All bytes, those between the elements too.
    pub(super) fn as_bytes(&self) -> &[u8] {
        // SAFETY: the words are initialised, and bytes are aligned everywhere.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.words.len() * 8) }
    }

    /// All bytes, to be overwritten.
    pub(super) fn as_bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the words are initialised, any bytes are words, and bytes are aligned everywhere.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.words.len() * 8) }
    }

    /// The tensor as an argument, if its bytes are in that storage.
    pub(super) fn as_arg<'a>(&'a self, storage: &'a Arc<Storage>, written: bool) -> Arg<'a> {
        Arg::view(storage, self.offset * self.dtype.size(), &self.shape, &self.strides, self.dtype, written)
    }

    /// The position in memory of the element of that number in row-major order, in elements.
    fn position(&self, k: usize) -> usize {
        let (mut rest, mut position) = (k, self.offset);
        for (&n, &stride) in self.shape.iter().zip(&self.strides).rev() {
            position += (rest % n) * stride.unsigned_abs();
            rest /= n;
        }
        position
    }

    fn get(&self, k: usize) -> Value {
        match self.dtype {
            DType::F32 => self.get_as::<f32>(k),
            DType::F64 => self.get_as::<f64>(k),
            DType::F16 => self.get_as::<half::f16>(k),
            DType::Bf16 => self.get_as::<half::bf16>(k),
            DType::F8E4M3 => self.get_as::<crate::convert::F8E4M3>(k),
            DType::F8E5M2 => self.get_as::<crate::convert::F8E5M2>(k),
            DType::I8 => self.get_as::<i8>(k),
            DType::I16 => self.get_as::<i16>(k),
            DType::I32 => self.get_as::<i32>(k),
            DType::I64 => self.get_as::<i64>(k),
            DType::U8 => self.get_as::<u8>(k),
            DType::U16 => self.get_as::<u16>(k),
            DType::U32 => self.get_as::<u32>(k),
            DType::U64 => self.get_as::<u64>(k),
            // Bytes other than 0 and 1 would be a fault of the kernel; they must not be read as a bool.
            DType::Bool => Value::Bool(self.get_byte(k) != 0),
        }
    }

    fn set(&mut self, k: usize, value: Value) {
        match self.dtype {
            DType::F32 => self.set_as::<f32>(k, value),
            DType::F64 => self.set_as::<f64>(k, value),
            DType::F16 => self.set_as::<half::f16>(k, value),
            DType::Bf16 => self.set_as::<half::bf16>(k, value),
            DType::F8E4M3 => self.set_as::<crate::convert::F8E4M3>(k, value),
            DType::F8E5M2 => self.set_as::<crate::convert::F8E5M2>(k, value),
            DType::I8 => self.set_as::<i8>(k, value),
            DType::I16 => self.set_as::<i16>(k, value),
            DType::I32 => self.set_as::<i32>(k, value),
            DType::I64 => self.set_as::<i64>(k, value),
            DType::U8 => self.set_as::<u8>(k, value),
            DType::U16 => self.set_as::<u16>(k, value),
            DType::U32 => self.set_as::<u32>(k, value),
            DType::U64 => self.set_as::<u64>(k, value),
            DType::Bool => self.set_as::<bool>(k, value),
        }
    }

    fn get_byte(&self, k: usize) -> u8 {
        // SAFETY: the position is within the words, for every element of the shape.
        unsafe { self.words.as_ptr().cast::<u8>().add(self.position(k)).read() }
    }

    fn get_as<T: Element>(&self, k: usize) -> Value {
        // SAFETY: the position is within the words, for every element of the shape; all bits are valid for numbers.
        unsafe { self.words.as_ptr().cast::<T>().add(self.position(k)).read() }.to_value()
    }

    fn set_as<T: Element>(&mut self, k: usize, value: Value) {
        let position = self.position(k);
        // SAFETY: the position is within the words, for every element of the shape.
        unsafe { self.words.as_mut_ptr().cast::<T>().add(position).write(T::from_value(value)) };
    }
}
