//! Elements between tensors and the host, wherever the tensors are. Callers have taken the state of the memory.

use super::Tensor;
use super::elements::{collect_elements, copy_elements, scatter_elements};
use crate::element::Element;
use crate::error::Error;
use fuse_ir::dtype::DType;
use std::mem::MaybeUninit;

impl<T: Element, const R: usize> Tensor<T, R> {
    /// The elements in row-major order.
    pub(super) fn read_elements(&self) -> Result<Vec<T>, Error> {
        if self.storage.is_host() {
            // SAFETY: the memory is the host's, and its state is taken.
            return Ok(unsafe { collect_elements(self.start(), &self.shape, &self.strides) });
        }
        let span = self.read_span()?;
        // SAFETY: the span holds every element of the view, from the first on.
        Ok(unsafe { collect_elements(span.as_ptr().cast(), &self.shape, &self.strides) })
    }

    /// Overwrites the elements, in row-major order; `data` has one for each.
    pub(super) fn write_elements(&self, data: &[T]) -> Result<(), Error> {
        if self.storage.is_host() {
            // SAFETY: the memory is the host's, its state is taken for writing, and `data` cannot be the memory of a tensor,
            // to which no slice is ever given.
            unsafe { scatter_elements(data, self.start().cast_mut(), &self.shape, &self.strides) };
            return Ok(());
        }
        if self.is_contiguous() {
            return self.write_bytes(data.as_ptr().cast(), data.len());
        }
        let mut span = self.read_span()?;
        // SAFETY: the span holds every element of the view, from the first on, and is apart from `data`.
        unsafe { scatter_elements(data, span.as_mut_ptr().cast(), &self.shape, &self.strides) };
        self.write_bytes(span.as_ptr().cast(), span.len())
    }

    /// Copies the elements to a new tensor, which is contiguous.
    pub(super) fn copy_to(&self, copy: &mut Self) -> Result<(), Error> {
        if self.storage.is_host() && copy.storage.is_host() {
            // SAFETY: the copy is new and has room for every element; this tensor's state is taken for reading.
            unsafe { copy_elements(self.start(), &self.shape, &self.strides, copy.start_mut()) };
            return Ok(());
        }
        let bytes = size_of::<T>();
        let moved = self.is_contiguous()
            && copy.storage.copy_on_device(&self.storage, self.offset * bytes, self.len() * bytes)?;
        if moved { Ok(()) } else { copy.write_elements(&self.read_elements()?) }
    }

    /// The element at an offset from the first.
    pub(super) fn read_element(&self, offset: isize) -> Result<T, Error> {
        let mut element = MaybeUninit::<T>::zeroed();
        let at = self.offset.wrapping_add_signed(offset) * size_of::<T>();
        // SAFETY: there is room for one element. Its bytes are zeros or an element's, and `make_valid` sees to bools.
        unsafe {
            self.storage.read_bytes(at, element.as_mut_ptr().cast(), size_of::<T>())?;
            make_valid(std::slice::from_mut(&mut element));
            Ok(element.assume_init())
        }
    }

    /// What lies in memory from the first element to the last.
    fn read_span(&self) -> Result<Vec<MaybeUninit<T>>, Error> {
        let count = match self.is_empty() {
            true => 0,
            false => {
                let reach = |(&n, &s): (&usize, &isize)| (n - 1) * s.unsigned_abs();
                1 + self.shape.iter().zip(&self.strides).map(reach).sum::<usize>()
            }
        };
        let mut span = Vec::new();
        let bytes = count * size_of::<T>();
        span.try_reserve_exact(count).map_err(|_| Error::out_of_memory(bytes, &"the host", None))?;
        span.resize_with(count, MaybeUninit::<T>::zeroed);
        // SAFETY: the vector has room for as many bytes.
        unsafe { self.storage.read_bytes(self.offset * size_of::<T>(), span.as_mut_ptr().cast(), bytes)? };
        make_valid(&mut span);
        Ok(span)
    }

    /// Overwrites memory from the first element on.
    fn write_bytes(&self, start: *const u8, count: usize) -> Result<(), Error> {
        // SAFETY: callers pass the start of `count` elements, all of whose bytes are initialised: no element type has gaps,
        // and a span starts as zeros.
        let bytes = unsafe { std::slice::from_raw_parts(start, count * size_of::<T>()) };
        self.storage.copy_from_host(self.offset * size_of::<T>(), bytes)
    }
}

/// Makes every bool one. Other bytes than 0 and 1 would be the fault of a kernel, or of another program with the same GPU;
/// they must not become undefined behaviour here.
fn make_valid<T: Element>(elements: &mut [MaybeUninit<T>]) {
    if T::DTYPE == DType::Bool {
        for element in elements {
            let byte = element.as_mut_ptr().cast::<u8>();
            // SAFETY: a bool is one byte, which is initialised.
            unsafe { byte.write(u8::from(byte.read() != 0)) };
        }
    }
}
