//! An argument of a call, whatever its type.

use crate::cpu::Buffer;
use crate::element::Element;
use crate::lowered::Place;
use crate::tensor::{Region, Storage, Tensor};
use fuse_ir::dtype::{DType, Value};
use std::sync::Arc;

/// An argument of a call: a tensor that is read or written, or a scalar.
#[derive(Clone, Copy)]
pub struct Arg<'a> {
    pub(super) kind: ArgKind<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum ArgKind<'a> {
    Tensor(TensorArg<'a>),
    Scalar(Value),
    Nothing,
}

#[derive(Clone, Copy)]
pub(super) struct TensorArg<'a> {
    pub(super) storage: &'a Arc<Storage>,
    /// The first element, in bytes from the start of the storage.
    pub(super) offset: usize,
    pub(super) shape: &'a [usize],
    pub(super) strides: &'a [isize],
    pub(super) dtype: DType,
    /// Passed as `&mut`.
    pub(super) written: bool,
}

impl<'a> Arg<'a> {
    /// Fills lists before the arguments are known.
    pub(crate) const NOTHING: Arg<'static> = Arg { kind: ArgKind::Nothing };

    /// A tensor that the kernel reads.
    pub fn read<T: Element, const R: usize>(tensor: &'a Tensor<T, R>) -> Self {
        Arg::tensor(tensor, false)
    }

    /// A tensor that the kernel may write.
    pub fn write<T: Element, const R: usize>(tensor: &'a mut Tensor<T, R>) -> Self {
        Arg::tensor(tensor, true)
    }

    /// A scalar.
    pub fn scalar<T: Element>(value: T) -> Self {
        Arg { kind: ArgKind::Scalar(value.to_value()) }
    }

    /// An extent that the host gives.
    pub fn axis(extent: usize) -> Self {
        Arg { kind: ArgKind::Scalar(Value::U64(extent as u64)) }
    }

    pub(super) fn tensor<T: Element, const R: usize>(tensor: &'a Tensor<T, R>, written: bool) -> Self {
        Arg {
            kind: ArgKind::Tensor(TensorArg {
                storage: tensor.storage(),
                offset: tensor.offset() * size_of::<T>(),
                shape: tensor.shape_ref(),
                strides: tensor.strides_ref(),
                dtype: T::DTYPE,
                written,
            }),
        }
    }

    /// A scalar of whatever dtype.
    pub(crate) fn value(value: Value) -> Self {
        Arg { kind: ArgKind::Scalar(value) }
    }

    /// A view of a storage, whose `offset` is in bytes.
    pub(crate) fn view(
        storage: &'a Arc<Storage>,
        offset: usize,
        shape: &'a [usize],
        strides: &'a [isize],
        dtype: DType,
        written: bool,
    ) -> Self {
        Arg { kind: ArgKind::Tensor(TensorArg { storage, offset, shape, strides, dtype, written }) }
    }

    pub(super) fn as_tensor(&self) -> Option<&TensorArg<'a>> {
        if let ArgKind::Tensor(tensor) = &self.kind { Some(tensor) } else { None }
    }

    /// The memory of a tensor.
    pub(crate) fn storage(&self) -> Option<&'a Arc<Storage>> {
        self.as_tensor().map(|tensor| tensor.storage)
    }

    /// What [`Arg::view`] makes a tensor of.
    #[allow(clippy::type_complexity, reason = "the parameters of a function that is beside it")]
    pub(crate) fn parts(&self) -> Option<(&'a Arc<Storage>, usize, &'a [usize], &'a [isize], DType, bool)> {
        self.as_tensor().map(|t| (t.storage, t.offset, t.shape, t.strides, t.dtype, t.written))
    }

    pub(super) fn shape(&self) -> Option<&'a [usize]> {
        self.as_tensor().map(|tensor| tensor.shape)
    }

    pub(crate) fn scalar_value(&self) -> Option<Value> {
        if let ArgKind::Scalar(value) = self.kind { Some(value) } else { None }
    }

    pub(super) fn buffer(&self) -> Option<Buffer<'a>> {
        self.as_tensor().map(TensorArg::buffer)
    }

    pub(super) fn place(&self) -> Option<Place<'a>> {
        self.as_tensor().map(TensorArg::place)
    }
}

impl<'a> TensorArg<'a> {
    /// The memory as the engine sees it; of a GPU's an address that means nothing to the host.
    fn buffer(&self) -> Buffer<'a> {
        let data = self.storage.start().as_ptr().wrapping_add(self.offset);
        Buffer { data, strides: self.strides }
    }

    /// Where it lies on its device.
    pub(super) fn place(&self) -> Place<'a> {
        let address = self.storage.address() + self.offset as u64;
        Place { address, shape: self.shape, strides: self.strides }
    }

    pub(super) fn region(&self) -> Region<'a> {
        Region {
            offset: self.offset,
            shape: self.shape,
            strides: self.strides,
            element_size: self.dtype.size(),
        }
    }
}
