//! Launching kernels on plain vectors.

use fuse_ir::dtype::{DType, Value};
use fuse_ir::kernel_ir::Kernel;
use fuse_ir::simulate::{Argument, GlobalMemory, Report, SimulateOptions, simulate_kernel};

/// The memory and arguments of a launch.
#[derive(Clone, Default)]
pub(super) struct Launch {
    pub(super) memory: GlobalMemory,
    pub(super) args: Vec<Argument>,
}

impl Launch {
    /// Passes an allocation with these elements; its number.
    pub(super) fn pass(&mut self, dtype: DType, elements: impl IntoIterator<Item = f64>) -> usize {
        let value = |x: f64| if dtype.is_float() { Value::F64(x) } else { Value::I64(x as i64) };
        let bits = elements.into_iter().map(|x| value(x).cast(dtype).to_bits().to_le_bytes());
        let bytes = bits.flat_map(|b| b[..dtype.size()].to_vec()).collect();
        let buffer = self.memory.allocate(bytes);
        self.args.push(Argument::Pointer { buffer, offset: 0 });
        buffer
    }

    /// Passes an allocation of as many elements without contents; its number.
    pub(super) fn pass_empty(&mut self, dtype: DType, len: usize) -> usize {
        let buffer = self.memory.allocate_uninitialised(len * dtype.size());
        self.args.push(Argument::Pointer { buffer, offset: 0 });
        buffer
    }

    /// Passes a number.
    pub(super) fn scalar(&mut self, value: Value) {
        self.args.push(Argument::Scalar(value));
    }

    /// Runs the kernel.
    pub(super) fn run(&mut self, kernel: &Kernel) -> Report {
        let options = SimulateOptions::default();
        simulate_kernel(kernel, &mut self.memory, &self.args, &options).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Runs the kernel, which has no fault.
    pub(super) fn run_clean(&mut self, kernel: &Kernel) -> Report {
        let report = self.run(kernel);
        let faults: Vec<String> = report.faults.iter().map(|f| f.to_string()).collect();
        assert!(faults.is_empty(), "{faults:#?}\n{kernel}");
        report
    }

    /// The elements of an allocation, all of which somebody wrote.
    pub(super) fn read(&self, buffer: usize, dtype: DType) -> Vec<f64> {
        let buffer = &self.memory.buffers[buffer];
        assert!(buffer.written.iter().flatten().all(|w| *w), "not all elements are written");
        let element = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let value = Value::from_bits(dtype, u64::from_le_bytes(word));
            value.as_f64().unwrap_or_else(|| value.as_i128().unwrap_or(0) as f64)
        };
        buffer.bytes.chunks(dtype.size()).map(element).collect()
    }
}

/// Numbers that look random, between −1 and 1, of the dtype.
pub(super) fn noise(seed: u64, dtype: DType, len: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..len).map(|_| Value::F64(next()).cast(dtype).as_f64().unwrap_or(0.0)).collect()
}
