//! Tensors: typed views of shared memory, with the rank in the type and the sizes at run time.

mod approx;
mod debug;
mod elements;
mod layout;
mod pool;
mod slice;
mod storage;
mod transfer;

pub use slice::{AxisRange, SliceRanges};

pub(crate) use layout::{Region, element_count, is_contiguous, overlap, overlaps_itself, row_major};
pub(crate) use storage::{InUse, Storage};

use crate::device::Device;
use crate::element::Element;
use crate::error::Error;
use std::marker::PhantomData;
use std::sync::Arc;

/// A tensor of elements `T` with `R` axes.
///
/// A tensor is a view of memory: [`transpose`](Self::transpose), [`permute`](Self::permute), [`slice`](Self::slice),
/// [`reshape`](Self::reshape) and [`broadcast_to`](Self::broadcast_to) give other views of the same memory, and all are
/// ordinary arguments of kernels. `clone` copies. The memory is freed with its last view, and kept for the next tensor
/// within the bounds that the environment variable `FUSE_POOL_MIB` sets (512 MiB unless it is set, 0 to keep nothing).
///
/// Calls take the memory of their arguments for reading or writing while they run. A call that meets memory which
/// another thread's call writes, or writes memory that another reads, is an [`Error::InUse`].
///
/// ```
/// use fuse_runtime::{Device, Tensor};
///
/// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3], &Device::cpu())?;
/// assert_eq!(x.transpose(0, 1)?.to_vec()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
/// assert_eq!(x.slice((1, 1..))?.to_vec()?, [5.0, 6.0]);
/// # Ok::<(), fuse_runtime::Error>(())
/// ```
pub struct Tensor<T: Element, const R: usize> {
    storage: Arc<Storage>,
    /// The first element, in elements from the start of the storage.
    offset: usize,
    shape: [usize; R],
    strides: [isize; R],
    element: PhantomData<T>,
}

impl<T: Element, const R: usize> Tensor<T, R> {
    /// A tensor of these elements, which stand in row-major order.
    ///
    /// # Errors
    /// If `data` has not as many elements as the shape, or there is no memory.
    pub fn from_vec(data: Vec<T>, shape: [usize; R], device: &Device) -> Result<Self, Error> {
        Self::from_slice(&data, shape, device)
    }

    /// A tensor of a copy of these elements, which stand in row-major order.
    ///
    /// # Errors
    /// If `data` has not as many elements as the shape, or there is no memory.
    pub fn from_slice(data: &[T], shape: [usize; R], device: &Device) -> Result<Self, Error> {
        if element_count(&shape, size_of::<T>()) != Some(data.len()) {
            return Err(Error::ElementCount { shape: shape.to_vec(), found: data.len() });
        }
        let mut tensor = Self::allocate(shape, device)?;
        if tensor.storage.is_host() {
            // SAFETY: the storage is new, so that nothing else reads it, and has room for as many elements as `data` has.
            unsafe { tensor.start_mut().copy_from_nonoverlapping(data.as_ptr(), data.len()) };
        } else {
            tensor.write_elements(data)?;
        }
        Ok(tensor)
    }

    /// A tensor whose element at each position is what `element` gives for it; called in row-major order.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn from_fn(
        shape: [usize; R],
        mut element: impl FnMut([usize; R]) -> T,
        device: &Device,
    ) -> Result<Self, Error> {
        let count =
            element_count(&shape, size_of::<T>()).ok_or_else(|| Error::TooLarge { shape: shape.to_vec() })?;
        let mut data = Vec::new();
        data.try_reserve_exact(count)
            .map_err(|_| Error::out_of_memory(count.saturating_mul(size_of::<T>()), &"the host", None))?;
        let mut position = [0; R];
        for _ in 0..count {
            data.push(element(position));
            for k in (0..R).rev() {
                position[k] += 1;
                if position[k] < shape[k] {
                    break;
                }
                position[k] = 0;
            }
        }
        Self::from_vec(data, shape, device)
    }

    /// A tensor of zeros, or of `false`.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn zeros(shape: [usize; R], device: &Device) -> Result<Self, Error> {
        // The bytes of every element type's zero are zero.
        Self::with_storage(shape, device, Storage::allocate_zeroed)
    }

    /// A tensor with `value` everywhere.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn full(value: T, shape: [usize; R], device: &Device) -> Result<Self, Error> {
        let mut tensor = Self::allocate(shape, device)?;
        let (start, count) = (tensor.start_mut(), tensor.len());
        if !tensor.storage.is_host() {
            tensor.write_elements(&vec![value; count])?;
            return Ok(tensor);
        }
        for k in 0..count {
            // SAFETY: the storage is new, so that nothing else reads it, and has room for `count` elements.
            unsafe { start.add(k).write(value) };
        }
        Ok(tensor)
    }

    /// A tensor with room for its elements, contiguous, with whatever contents. It must not reach a user before every
    /// element was written.
    pub(crate) fn allocate(shape: [usize; R], device: &Device) -> Result<Self, Error> {
        Self::with_storage(shape, device, Storage::allocate)
    }

    fn with_storage(
        shape: [usize; R],
        device: &Device,
        allocate: impl FnOnce(usize, &Device) -> Result<Storage, Error>,
    ) -> Result<Self, Error> {
        let count =
            element_count(&shape, size_of::<T>()).ok_or_else(|| Error::TooLarge { shape: shape.to_vec() })?;
        let storage = Arc::new(allocate(count * size_of::<T>(), device)?);
        Ok(Tensor { storage, offset: 0, shape, strides: row_major(shape), element: PhantomData })
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// If another thread's call writes the memory; on a GPU, for which it waits, also the first fault of the kernels since
    /// the last call that waited.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let _reading = self.storage.read()?;
        let elements = self.read_elements()?;
        self.storage.check_faults()?;
        Ok(elements)
    }

    /// The only element.
    ///
    /// # Errors
    /// If there is not exactly one, and as [`Tensor::to_vec`].
    pub fn item(&self) -> Result<T, Error> {
        if self.len() != 1 {
            return Err(Error::ElementCount { shape: Vec::new(), found: self.len() });
        }
        let _reading = self.storage.read()?;
        let element = self.read_element(0)?;
        self.storage.check_faults()?;
        Ok(element)
    }

    /// Overwrites the elements, in row-major order.
    ///
    /// # Errors
    /// If `data` has not as many elements as the tensor, or a call on another thread uses the memory.
    pub fn copy_from_slice(&mut self, data: &[T]) -> Result<(), Error> {
        if data.len() != self.len() {
            return Err(Error::ElementCount { shape: self.shape.to_vec(), found: data.len() });
        }
        let _writing = self.storage.write()?;
        self.write_elements(data)
    }

    /// The extent of each axis.
    pub fn shape(&self) -> [usize; R] {
        self.shape
    }

    /// The distance in elements between neighbours along each axis.
    pub fn strides(&self) -> [isize; R] {
        self.strides
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the tensor is.
    pub fn device(&self) -> Device {
        self.storage.device().clone()
    }

    /// Whether the elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        layout::is_contiguous(&self.shape, &self.strides)
    }

    /// A view with the two axes exchanged.
    ///
    /// # Errors
    /// If there is no axis of that number.
    pub fn transpose(&self, a: usize, b: usize) -> Result<Self, Error> {
        if a.max(b) >= R {
            return Err(Error::NoSuchAxis { axis: a.max(b), rank: R });
        }
        let mut view = self.view(self.offset, self.shape, self.strides);
        view.shape.swap(a, b);
        view.strides.swap(a, b);
        Ok(view)
    }

    /// A view whose axis `k` is axis `axes[k]` of this tensor.
    ///
    /// # Errors
    /// If `axes` does not name every axis once.
    pub fn permute(&self, axes: [usize; R]) -> Result<Self, Error> {
        if !(0..R).all(|axis| axes.contains(&axis)) {
            return Err(Error::NotAPermutation { axes: axes.to_vec() });
        }
        Ok(self.view(self.offset, axes.map(|axis| self.shape[axis]), axes.map(|axis| self.strides[axis])))
    }

    /// A view of a part: a tuple with a range for each axis (`x.slice((.., 2..5))?`), or one range for a tensor of one
    /// axis. A number in the place of a range takes that position alone; the axis stays, with extent 1.
    ///
    /// # Errors
    /// If a range is not within its axis.
    pub fn slice(&self, ranges: impl SliceRanges<R>) -> Result<Self, Error> {
        let ranges = ranges.resolve(self.shape);
        let mut view = self.view(self.offset, self.shape, self.strides);
        for (k, (start, end)) in ranges.into_iter().enumerate() {
            let n = self.shape[k];
            if start > end || end > n {
                return Err(Error::RangeOutside { axis: k, start, end, extent: n });
            }
            view.shape[k] = end - start;
            // An empty view keeps its offset, which must not leave the memory.
            if end > start {
                view.offset += start * self.strides[k].unsigned_abs();
            }
        }
        if view.is_empty() {
            view.offset = self.offset;
        }
        Ok(view)
    }

    /// A view of every `step`-th position of an axis, from the first.
    ///
    /// # Errors
    /// If there is no axis of that number, or `step` is 0.
    pub fn step_by(&self, axis: usize, step: usize) -> Result<Self, Error> {
        if axis >= R {
            return Err(Error::NoSuchAxis { axis, rank: R });
        }
        if step == 0 {
            return Err(Error::ZeroStep { axis });
        }
        let mut view = self.view(self.offset, self.shape, self.strides);
        view.shape[axis] = self.shape[axis].div_ceil(step);
        // With one position left, the stride is never used; it may be out of range then.
        if view.shape[axis] > 1 {
            view.strides[axis] *= step as isize;
        }
        Ok(view)
    }

    /// A view of another shape with the same elements in the same order.
    ///
    /// # Errors
    /// If the number of elements differs, or no strides give that shape without a copy; a `clone` is contiguous and has
    /// views of every shape.
    pub fn reshape<const Q: usize>(&self, shape: [usize; Q]) -> Result<Tensor<T, Q>, Error> {
        if element_count(&shape, size_of::<T>()) != Some(self.len()) {
            return Err(Error::ElementCount { shape: shape.to_vec(), found: self.len() });
        }
        match layout::reshape(&self.shape, &self.strides, shape) {
            Some(strides) => Ok(self.view(self.offset, shape, strides)),
            None => Err(Error::NotContiguous {
                shape: self.shape.to_vec(),
                strides: self.strides.to_vec(),
                wanted: shape.to_vec(),
            }),
        }
    }

    /// A view of a greater shape that repeats elements: axes are aligned from the last, axes of extent 1 and axes that
    /// this tensor does not have are repeated. It can be read by a kernel, not written.
    ///
    /// # Errors
    /// If an axis has another extent, neither equal nor 1, or the shape has fewer axes.
    pub fn broadcast_to<const Q: usize>(&self, shape: [usize; Q]) -> Result<Tensor<T, Q>, Error> {
        let refuse = || Error::Broadcast { shape: self.shape.to_vec(), wanted: shape.to_vec() };
        let new = Q.checked_sub(R).ok_or_else(refuse)?;
        // The view has no memory for each of its positions, but their number must still be one.
        if element_count(&shape, size_of::<T>()).is_none() {
            return Err(Error::TooLarge { shape: shape.to_vec() });
        }
        let mut strides = [0; Q];
        for k in 0..R {
            if self.shape[k] == shape[new + k] {
                strides[new + k] = self.strides[k];
            } else if self.shape[k] != 1 {
                return Err(refuse());
            }
        }
        Ok(self.view(self.offset, shape, strides))
    }

    /// A copy on that device.
    ///
    /// # Errors
    /// If there is no memory, or another thread's call writes this tensor.
    pub fn to_device(&self, device: &Device) -> Result<Self, Error> {
        let mut copy = Self::allocate(self.shape, device)?;
        let _reading = self.storage.read()?;
        self.copy_to(&mut copy)?;
        Ok(copy)
    }

    fn view<const Q: usize>(&self, offset: usize, shape: [usize; Q], strides: [isize; Q]) -> Tensor<T, Q> {
        Tensor { storage: Arc::clone(&self.storage), offset, shape, strides, element: PhantomData }
    }

    /// The first element. Memory of the host may be read while the state of the storage is taken for reading.
    fn start(&self) -> *const T {
        self.storage.start().cast::<T>().as_ptr().wrapping_add(self.offset)
    }

    /// The first element of a tensor that nothing else can see yet.
    fn start_mut(&mut self) -> *mut T {
        self.start().cast_mut()
    }

    /// What a call sees of the tensor.
    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// The first element, in elements from the start of the storage.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// The extents, by reference.
    pub(crate) fn shape_ref(&self) -> &[usize; R] {
        &self.shape
    }

    /// The strides, by reference.
    pub(crate) fn strides_ref(&self) -> &[isize; R] {
        &self.strides
    }
}

impl<T: Element> Tensor<T, 0> {
    /// A tensor without axes.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn scalar(value: T, device: &Device) -> Result<Self, Error> {
        Self::full(value, [], device)
    }
}

/// Copies the elements; the copy is contiguous. Waits while another thread's call writes them.
///
/// # Panics
/// If there is no memory, as `Vec::clone` aborts then, or a GPU fails; [`Tensor::to_device`] gives an error.
impl<T: Element, const R: usize> Clone for Tensor<T, R> {
    fn clone(&self) -> Self {
        let _reading = self.storage.read_when_free();
        let copied = Self::allocate(self.shape, self.storage.device()).and_then(|mut copy| {
            self.copy_to(&mut copy)?;
            Ok(copy)
        });
        match copied {
            Ok(copy) => copy,
            // A broadcast view may have more elements than there is memory.
            Err(error) => panic!("{error}"),
        }
    }
}
