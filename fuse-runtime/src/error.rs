//! What can go wrong with tensors and at calls.

use fuse_ir::bind::BindError;
use std::fmt;

/// What went wrong, with where and why.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The sizes of a call do not fit the kernel, or each other.
    Sizes(Box<BindError>),
    /// A fault while a kernel ran: a gather out of range or an integer division by zero. The kernel has gone on with 0
    /// for the element, so that the outputs are complete.
    Fault(Box<Fault>),
    /// The tensor that a call should write its result to has another shape than the result.
    ResultShape {
        /// The kernel.
        kernel: String,
        /// `result`, or of several `result0`, `result1`, ….
        argument: String,
        /// The axis.
        axis: String,
        /// Its extent in the tensor.
        extent: usize,
        /// Its extent in the result.
        expected: usize,
    },
    /// An output of a call shares elements with another argument.
    Overlap {
        /// The kernel.
        kernel: String,
        /// The output.
        argument: String,
        /// The other argument.
        other: String,
    },
    /// An output of a call has elements that share memory with one another, as a broadcast view has.
    SelfOverlap {
        /// The kernel.
        kernel: String,
        /// The output.
        argument: String,
    },
    /// The memory of a tensor is in use by a call on another thread.
    InUse {
        /// The kernel and the argument; `None` if the tensor is read or written by the host.
        argument: Option<(String, String)>,
        /// Whether the other call writes.
        written: bool,
    },
    /// The number of elements is not that of the shape.
    ElementCount {
        /// The shape asked for.
        shape: Vec<usize>,
        /// How many elements there are.
        found: usize,
    },
    /// A tensor of this shape has more elements than can be addressed. Beside an empty axis the other extents count all the
    /// same, as in NumPy: strides are products of them.
    TooLarge {
        /// The shape.
        shape: Vec<usize>,
    },
    /// There is no memory for a tensor, or for what a kernel needs beside.
    OutOfMemory {
        /// How much was asked for.
        bytes: usize,
        /// Where.
        device: String,
        /// How much is free there, where that is known. It may be in pieces.
        free: Option<usize>,
        /// The kernel that was called, if one was.
        kernel: Option<String>,
        /// What it was for: a result of the kernel; `None` for what the kernel needs beside, or if there is no kernel.
        argument: Option<String>,
    },
    /// A view of another shape would have to copy.
    NotContiguous {
        /// The shape of the tensor.
        shape: Vec<usize>,
        /// Its strides in elements.
        strides: Vec<isize>,
        /// The shape asked for.
        wanted: Vec<usize>,
    },
    /// A shape cannot be broadcast to another.
    Broadcast {
        /// The shape of the tensor.
        shape: Vec<usize>,
        /// The shape asked for.
        wanted: Vec<usize>,
    },
    /// A view names an axis that the tensor does not have.
    NoSuchAxis {
        /// The axis asked for.
        axis: usize,
        /// How many there are.
        rank: usize,
    },
    /// `permute` was not given every axis once.
    NotAPermutation {
        /// What it was given.
        axes: Vec<usize>,
    },
    /// A slice is not within its axis.
    RangeOutside {
        /// The axis.
        axis: usize,
        /// The first position asked for.
        start: usize,
        /// The position behind the last.
        end: usize,
        /// The extent of the axis.
        extent: usize,
    },
    /// `step_by` with a step of 0.
    ZeroStep {
        /// The axis.
        axis: usize,
    },
    /// The tensors of a call are on several devices.
    OtherDevice {
        /// The kernel.
        kernel: String,
        /// The first tensor that is elsewhere.
        argument: String,
        /// Where it is.
        device: String,
        /// The first tensor of the call.
        first: String,
        /// Where that is.
        expected: String,
    },
    /// A launch of a kernel has no lowering for GPUs; it runs on the CPU.
    NotLowered {
        /// The kernel.
        kernel: String,
        /// Which launch of its plan.
        launch: usize,
        /// What cannot be lowered.
        what: String,
    },
    /// The simulator found something wrong with a kernel: a defect of this crate.
    Simulator(Box<Finding>),
    /// CUDA cannot be used; the text says what would help.
    Cuda(crate::cuda::CudaUnavailable),
    /// A call of the CUDA driver or of NVRTC failed. After most of them a GPU refuses all further work of the process.
    CudaCall {
        /// The device.
        device: String,
        /// The kernel that was called, if one was; what a call that waits gives is of a kernel before.
        kernel: Option<String>,
        /// The function that failed.
        call: String,
        /// Its error, e.g. `CUDA_ERROR_ILLEGAL_ADDRESS`.
        error: String,
        /// The number of that.
        code: u32,
    },
    /// The driver does not take what NVRTC made of a kernel, since it is for an older CUDA.
    CudaVersions {
        /// The kernel that was called.
        kernel: String,
        /// The device.
        device: String,
        /// The driver's error.
        error: String,
        /// The version of CUDA for which the driver is, major and minor.
        driver: (i32, i32),
        /// NVRTC's version.
        compiler: (i32, i32),
    },
    /// The CUDA C++ of a kernel does not compile: a defect of this crate.
    CudaCompile {
        /// The kernel that the user called.
        kernel: String,
        /// The entry of one of its launches.
        entry: String,
        /// What the compiler says.
        log: String,
    },
    /// The program carries no machine code of a kernel for the GPU, and it cannot be compiled here.
    NoMachineCode {
        /// The kernel that the user called.
        kernel: String,
        /// The entry of one of its launches.
        entry: String,
        /// The GPU's architecture, e.g. `sm_90`.
        architecture: String,
        /// Why it is not compiled.
        because: Box<crate::cuda::CudaUnavailable>,
    },
    /// Machine code that the program carries cannot be used.
    MachineCode {
        /// What is wrong with it.
        what: String,
    },
    /// A graph cannot be replayed, since the last tensor with the memory of an argument is gone.
    Dropped {
        /// The kernel.
        kernel: String,
        /// The argument.
        argument: String,
    },
    /// A kernel was expanded by another version of the crate than the one that runs it.
    Version {
        /// The kernel.
        kernel: String,
    },
    /// A kernel disagrees with its reference.
    Verification(Box<crate::verify::Failure>),
}

/// A fault while a kernel ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The kernel.
    pub kernel: String,
    /// The operation as written, e.g. `a / b`.
    pub operation: String,
    /// The file, as rustc names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// What happened.
    pub kind: FaultKind,
}

/// What the simulator found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The kernel that the user called.
    pub kernel: String,
    /// The entry that ran, of one of its launches.
    pub entry: String,
    /// What is wrong.
    pub what: String,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// An integer was divided by zero.
    DivisionByZero,
    /// An index was outside its axis.
    OutOfRange {
        /// The axis.
        axis: String,
        /// The index.
        index: i64,
        /// The extent of the axis.
        extent: i64,
    },
}

impl Finding {
    pub(crate) fn new(call: &crate::lowered::BoundCall<'_>, entry: &str, what: String) -> Finding {
        Finding { kernel: call.program.kernel.name.clone(), entry: entry.to_owned(), what }
    }
}

impl Error {
    /// That there is no memory on a device.
    pub(crate) fn out_of_memory(bytes: usize, device: &impl fmt::Display, free: Option<usize>) -> Error {
        Error::OutOfMemory { bytes, device: device.to_string(), free, kernel: None, argument: None }
    }

    /// What went wrong in the call of a kernel for it, or for an argument of it; what names a kernel already stays.
    pub(crate) fn of_call(self, kernel: &str, argument: Option<&str>) -> Error {
        match self {
            Error::OutOfMemory { bytes, device, free, kernel: None, .. } => {
                let (kernel, argument) = (Some(kernel.to_owned()), argument.map(str::to_owned));
                Error::OutOfMemory { bytes, device, free, kernel, argument }
            }
            Error::CudaCall { device, kernel: None, call, error, code } => {
                Error::CudaCall { device, kernel: Some(kernel.to_owned()), call, error, code }
            }
            other => other,
        }
    }
}

impl std::error::Error for Error {}

impl From<Box<BindError>> for Error {
    fn from(error: Box<BindError>) -> Self {
        Error::Sizes(error)
    }
}

impl From<crate::cuda::CudaUnavailable> for Error {
    fn from(unavailable: crate::cuda::CudaUnavailable) -> Self {
        Error::Cuda(unavailable)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Sizes(error) => write!(f, "{error}"),
            Error::Fault(fault) => write!(f, "{fault}"),
            Error::ResultShape { kernel, argument, axis, extent, expected } => {
                write!(f, "kernel `{kernel}`: argument `{argument}`: axis `{axis}` is {extent}, ")?;
                write!(f, "but the call gives {expected}")
            }
            Error::Overlap { kernel, argument, other } => {
                write!(f, "kernel `{kernel}`: output `{argument}` shares memory with argument `{other}`")
            }
            Error::SelfOverlap { kernel, argument } => {
                write!(f, "kernel `{kernel}`: output `{argument}` has elements that share memory")
            }
            Error::InUse { argument, written } => {
                let verb = if *written { "written" } else { "read" };
                match argument {
                    Some((kernel, argument)) => {
                        write!(f, "kernel `{kernel}`: argument `{argument}` is being {verb} by another call")
                    }
                    None => write!(f, "the tensor is being {verb} by a call on another thread"),
                }
            }
            Error::ElementCount { shape, found } => {
                let (one, many) = ("element", "elements");
                write!(
                    f,
                    "{found} {} for a tensor of shape {shape:?}",
                    if *found == 1 { one } else { many }
                )?;
                match shape.iter().try_fold(1usize, |n, &k| n.checked_mul(k)) {
                    Some(n) => write!(f, ", which has {n}"),
                    None => Ok(()),
                }
            }
            Error::TooLarge { shape } => {
                write!(f, "a tensor of shape {shape:?} has more elements than can be addressed")
            }
            Error::OutOfMemory { bytes, device, free, kernel, argument } => {
                match (kernel, argument) {
                    (Some(kernel), Some(argument)) => {
                        write!(
                            f,
                            "kernel `{kernel}`: no memory for argument `{argument}`, which has {bytes} bytes"
                        )?;
                    }
                    (Some(kernel), None) => {
                        write!(
                            f,
                            "kernel `{kernel}`: no memory for an intermediate buffer of {bytes} bytes"
                        )?;
                    }
                    (None, _) => write!(f, "no memory for a tensor of {bytes} bytes")?,
                }
                write!(f, ", on {device}")?;
                free.map_or(Ok(()), |free| write!(f, ", where {free} are free"))
            }
            Error::NotContiguous { shape, strides, wanted } => {
                write!(
                    f,
                    "a tensor of shape {shape:?} and strides {strides:?} has no view of shape {wanted:?}; "
                )?;
                write!(f, "its `clone()` has")
            }
            Error::Broadcast { shape, wanted } => {
                write!(f, "a tensor of shape {shape:?} cannot be broadcast to {wanted:?}")
            }
            Error::NoSuchAxis { axis, rank } => write!(f, "a tensor of rank {rank} has no axis {axis}"),
            Error::NotAPermutation { axes } => {
                write!(f, "{axes:?} does not name each of {} axes once", axes.len())
            }
            Error::RangeOutside { axis, start, end, extent } => {
                write!(f, "range {start}..{end} is not within axis {axis}, which has {extent}")
            }
            Error::ZeroStep { axis } => write!(f, "a step of 0 along axis {axis}"),
            Error::OtherDevice { kernel, argument, device, first, expected } => {
                write!(f, "kernel `{kernel}`: argument `{argument}` is on {device}, ")?;
                write!(f, "but `{first}` is on {expected}; `to_device` copies")
            }
            Error::NotLowered { kernel, launch, what } => {
                write!(f, "kernel `{kernel}`: launch {launch} runs on the CPU only: {what}")
            }
            Error::Simulator(finding) => {
                let Finding { kernel, entry, what } = finding.as_ref();
                write!(f, "kernel `{kernel}`: the simulator finds in `{entry}`: {what}")
            }
            Error::Cuda(unavailable) => write!(f, "CUDA cannot be used: {unavailable}"),
            Error::CudaCall { device, kernel, call, error, code } => {
                if let Some(kernel) = kernel {
                    write!(f, "kernel `{kernel}`: ")?;
                }
                write!(f, "`{call}` on {device} gives {error} ({code})")
            }
            Error::CudaVersions { kernel, device, error, driver, compiler } => {
                let ((major, minor), (c_major, c_minor)) = (driver, compiler);
                write!(
                    f,
                    "kernel `{kernel}`: the driver of {device}, which is for CUDA {major}.{minor}, does not take "
                )?;
                write!(
                    f,
                    "the code of NVRTC {c_major}.{c_minor}: {error}; install a newer driver, or NVRTC {major}.{minor}"
                )
            }
            Error::CudaCompile { kernel, entry, log } => {
                write!(f, "kernel `{kernel}`: the CUDA C++ of `{entry}` does not compile:\n{log}")
            }
            Error::NoMachineCode { kernel, entry, architecture, because } => {
                write!(
                    f,
                    "kernel `{kernel}`: the program carries no machine code of `{entry}` for {architecture}, "
                )?;
                write!(
                    f,
                    "which `cargo fuse warm --arch {architecture} --embed` writes, and it cannot be compiled here: "
                )?;
                write!(f, "{because}")
            }
            Error::MachineCode { what } => {
                write!(f, "the machine code cannot be used: {what}; `cargo fuse warm --embed` writes it anew")
            }
            Error::Dropped { kernel, argument } => {
                write!(
                    f,
                    "kernel `{kernel}`: argument `{argument}` was dropped, and a graph only owns what its calls gave"
                )
            }
            Error::Version { kernel } => {
                write!(
                    f,
                    "kernel `{kernel}` was expanded by another version of `fuse` than the one that runs it"
                )
            }
            Error::Verification(failure) => write!(f, "{failure}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}`: `{}`: ", self.kernel, self.operation)?;
        match &self.kind {
            FaultKind::DivisionByZero => write!(f, "integer division by zero")?,
            FaultKind::OutOfRange { axis, index, extent } => {
                write!(f, "index {index} is out of range for axis `{axis}`, which has {extent}")?;
            }
        }
        if self.line == 0 { Ok(()) } else { write!(f, " ({}:{})", self.file, self.line) }
    }
}
