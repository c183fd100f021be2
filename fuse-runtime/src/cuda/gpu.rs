//! A GPU: its context, architecture and limits, and how its code is compiled.

use super::handle::{Attribute, CallError, Context, Output};
use super::stream::Stream;
use super::unavailable::CudaUnavailable;
use super::{Compiler, Driver, embedded};
use fuse_ir::kernel_ir::DeviceNumbers;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A GPU that can be used.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(super) driver: &'static Driver,
    /// NVRTC, or why there is none: then the program carries code for this GPU.
    pub(super) compiler: Result<&'static Compiler, CudaUnavailable>,
    pub(super) ordinal: usize,
    pub(super) name: String,
    pub(super) context: Context,
    /// 90 for `sm_90`.
    pub(super) architecture: u32,
    /// Streaming multiprocessors.
    pub(super) multiprocessors: u32,
    /// Bytes of shared memory of a block.
    pub(super) shared_memory: u64,
    /// Whether memory can be allocated in the order of a stream.
    pub(super) has_pools: bool,
    /// Its streams.
    streams: Mutex<Vec<Weak<Stream>>>,
}

/// How many GPUs the driver finds.
pub(super) fn count_gpus(driver: &Driver) -> Result<usize, CudaUnavailable> {
    driver.device_count().map(|n| usize::try_from(n).unwrap_or(0)).map_err(CudaUnavailable::start)
}

/// The version of NVRTC as text.
pub(super) fn show_version(compiler: &Compiler) -> String {
    let (major, minor) = compiler.version();
    format!("{major}.{minor}")
}

impl Gpu {
    /// The GPU of that number.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(super) fn open(ordinal: usize) -> Result<Gpu, CudaUnavailable> {
        let driver = Driver::get()?;
        let count = count_gpus(driver)?;
        if ordinal >= count {
            return Err(CudaUnavailable::NoDevice { ordinal, count });
        }
        let gpu = Gpu::ask(driver, Compiler::get(), ordinal).map_err(CudaUnavailable::start)?;
        match gpu.code() {
            Err(_) if embedded::has_architecture(gpu.architecture) => Ok(gpu),
            Err(because) => Err(because),
            Ok(_) => Ok(gpu),
        }
    }

    fn ask(
        driver: &'static Driver,
        compiler: Result<&'static Compiler, CudaUnavailable>,
        ordinal: usize,
    ) -> Result<Gpu, CallError> {
        let number = ordinal as i32;
        let ask = |attribute| driver.attribute(number, attribute).map(|n| n.max(0));
        let gpu = Gpu {
            driver,
            compiler,
            ordinal,
            name: driver.device_name(number)?,
            architecture: (ask(Attribute::Major)? * 10 + ask(Attribute::Minor)?) as u32,
            multiprocessors: ask(Attribute::Multiprocessors)? as u32,
            shared_memory: ask(Attribute::SharedMemory)? as u64,
            has_pools: ask(Attribute::MemoryPools)? == 1,
            streams: Mutex::default(),
            // The last, since it is given back with the rest alone.
            context: driver.retain_primary_context(number)?,
        };
        gpu.enter()?;
        if gpu.has_pools {
            driver.keep_pool_memory(number)?;
        }
        Ok(gpu)
    }

    /// What texts are compiled to: machine code for the GPU's own architecture, or, by a compiler that does not know it,
    /// PTX of the last one that it knows, which the driver compiles on. A driver older than the compiler does not take its
    /// PTX, so that this is the second choice.
    ///
    /// # Errors
    /// If there is no compiler, or none for this GPU.
    pub(super) fn code(&self) -> Result<(&'static Compiler, Output, String), CudaUnavailable> {
        let compiler = self.compiler.clone()?;
        let known = compiler.architectures();
        if known.contains(&self.architecture) {
            return Ok((compiler, Output::Cubin, self.architecture_name()));
        }
        match known.iter().rev().find(|&&a| a < self.architecture) {
            Some(older) => Ok((compiler, Output::Ptx, format!("compute_{older}"))),
            None => Err(CudaUnavailable::UnknownArchitecture {
                device: self.architecture_name(),
                compiler: show_version(compiler),
            }),
        }
    }

    /// What launches pass and choose variants by.
    pub(super) fn numbers(&self) -> DeviceNumbers {
        DeviceNumbers { architecture: self.architecture, multiprocessors: self.multiprocessors }
    }

    /// E.g. `sm_90`.
    pub(super) fn architecture_name(&self) -> String {
        format!("sm_{}", self.architecture)
    }

    /// Notes a stream of it.
    pub(super) fn add_stream(&self, stream: &Arc<Stream>) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// Its streams.
    pub(super) fn streams(&self) -> Vec<Arc<Stream>> {
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.iter().filter_map(Weak::upgrade).collect()
    }

    /// Bytes of its memory that are free, if it says so.
    pub(super) fn free_memory(&self) -> Option<usize> {
        self.enter().and_then(|()| self.driver.free_memory()).ok()
    }

    /// Makes the GPU this thread's. Other libraries may have made theirs, so that this is asked before each call.
    pub(super) fn enter(&self) -> Result<(), CallError> {
        self.driver.set_current(self.context)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: it was retained once for this, and streams and modules, which use it, own this.
        let _ = unsafe { self.driver.release_primary_context(self.ordinal as i32) };
    }
}
