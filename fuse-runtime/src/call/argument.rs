//! An argument of a call, whatever its type.

use crate::cpu::Buffer;
use crate::element::Element;
use crate::tensor::{Region, Storage, Tensor};
use fuse_ir::dtype::{DType, Value};

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
    pub(super) storage: &'a Storage,
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
    pub(super) const NOTHING: Arg<'static> = Arg { kind: ArgKind::Nothing };

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

    pub(super) fn as_tensor(&self) -> Option<&TensorArg<'a>> {
        if let ArgKind::Tensor(tensor) = &self.kind { Some(tensor) } else { None }
    }

    pub(super) fn shape(&self) -> Option<&'a [usize]> {
        self.as_tensor().map(|tensor| tensor.shape)
    }

    pub(super) fn scalar_value(&self) -> Option<Value> {
        if let ArgKind::Scalar(value) = self.kind { Some(value) } else { None }
    }

    pub(super) fn buffer(&self) -> Option<Buffer<'a>> {
        self.as_tensor().map(TensorArg::buffer)
    }
}

impl<'a> TensorArg<'a> {
    /// The memory as the engine sees it.
    fn buffer(&self) -> Buffer<'a> {
        // SAFETY: the offset of a view is within its storage, or 0 if that is empty.
        let data = unsafe { self.storage.start().as_ptr().add(self.offset) };
        Buffer { data, strides: self.strides }
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
