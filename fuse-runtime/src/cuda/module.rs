//! The functions of a kernel on a GPU: each variant compiled and loaded when a call first takes it.

use super::cubin::{self, Code};
use super::gpu::Gpu;
use super::handle::{CallError, CompileError, Function, Module};
use super::stream::Stream;
use crate::call::{CudaSource, Loaded};
use crate::error::Error;
use crate::lowered::LoweredProgram;
use fuse_ir::kernel_ir::Kernel;
use fuse_ir::lower::LoweredKernel;
use fuse_ir::print_cuda::{compile_options, entry_name, print_cuda};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// A kernel's functions on the GPUs of this process.
#[derive(Debug, Default)]
pub(crate) struct CudaKernels(RwLock<Vec<(usize, Arc<GpuKernel>)>>);

/// A kernel's functions on one GPU.
#[derive(Debug)]
pub(super) struct GpuKernel {
    gpu: Arc<Gpu>,
    pub(super) lowered: Arc<LoweredProgram>,
    functions: RwLock<HashMap<FunctionKey, LoadedFunction>>,
    /// Held by whoever compiles, so that two threads do not compile one function.
    compiling: Mutex<()>,
}

/// Which function: a variant, specialised.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct FunctionKey {
    pub(super) launch: u32,
    pub(super) wide: bool,
    pub(super) step: u32,
    pub(super) variant: u32,
    /// Which facts hold, a bit for each.
    pub(super) facts: u64,
}

/// A function that can be launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedFunction {
    pub(super) function: Function,
    /// Bytes of a thread's local memory, where the compiler puts registers for which there is no room.
    pub(super) local_bytes: u32,
    module: Module,
}

impl CudaKernels {
    /// The functions on a GPU.
    pub(super) fn on(&self, loaded: &Loaded, gpu: &Arc<Gpu>) -> Arc<GpuKernel> {
        let find = |all: &[(usize, Arc<GpuKernel>)]| {
            all.iter().find(|(ordinal, _)| *ordinal == gpu.ordinal).map(|(_, kernel)| Arc::clone(kernel))
        };
        if let Some(found) = find(&self.0.read().unwrap_or_else(PoisonError::into_inner)) {
            return found;
        }
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = find(&all) {
            return found;
        }
        let new = Arc::new(GpuKernel {
            gpu: Arc::clone(gpu),
            lowered: loaded.lowered.get(loaded.plan.program(), gpu.shared_memory),
            functions: RwLock::default(),
            compiling: Mutex::default(),
        });
        all.push((gpu.ordinal, Arc::clone(&new)));
        new
    }
}

impl GpuKernel {
    /// The function of a variant, compiled and loaded now if it was not yet.
    ///
    /// # Errors
    /// If it does not compile or load.
    pub(super) fn function(
        &self,
        loaded: &Loaded,
        stream: &Stream,
        kernel: &LoweredKernel,
        key: FunctionKey,
    ) -> Result<LoadedFunction, Error> {
        if let Some(found) = self.find(key) {
            return Ok(found);
        }
        let _compiling = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.find(key) {
            return Ok(found);
        }
        let new = self.load(loaded, stream, kernel, key)?;
        self.functions.write().unwrap_or_else(PoisonError::into_inner).insert(key, new);
        Ok(new)
    }

    fn find(&self, key: FunctionKey) -> Option<LoadedFunction> {
        self.functions.read().unwrap_or_else(PoisonError::into_inner).get(&key).copied()
    }

    fn load(
        &self,
        loaded: &Loaded,
        stream: &Stream,
        kernel: &LoweredKernel,
        key: FunctionKey,
    ) -> Result<LoadedFunction, Error> {
        let name = &loaded.kernel().name;
        let kernel = &kernel.kernel;
        let embedded = loaded.sources.iter().find(|source| is_text_of(source, key)).map(|source| source.text);
        debug_assert!(embedded.is_none_or(|text| text == print_cuda(kernel)), "it is the lowered kernel's");
        let first = match embedded {
            Some(text) => self.load_text(stream, name, kernel, key, text)?,
            None => self.load_text(stream, name, kernel, key, &print_cuda(kernel))?,
        };
        if first.local_bytes == 0 || kernel.geometry.resident_blocks > 0 {
            return Ok(first);
        }
        // The compiler has saved registers so that more blocks fit, and moved some to memory for that. Told that one block
        // is enough it does not. The function that there is serves if this does not help.
        let mut roomy = kernel.clone();
        roomy.geometry.resident_blocks = 1;
        match self.load_text(stream, name, &roomy, key, &print_cuda(&roomy)) {
            Ok(second) if second.local_bytes < first.local_bytes => {
                self.unload(first);
                Ok(second)
            }
            Ok(second) => {
                self.unload(second);
                Ok(first)
            }
            Err(_) => Ok(first),
        }
    }

    /// Compiles a text of a kernel and loads its function.
    fn load_text(
        &self,
        stream: &Stream,
        name: &str,
        kernel: &Kernel,
        key: FunctionKey,
        text: &str,
    ) -> Result<LoadedFunction, Error> {
        let code = self.code(kernel, key, text).map_err(|error| match error {
            CompileError::Log(log) => {
                Error::CudaCompile { kernel: name.to_owned(), entry: kernel.name.clone(), log }
            }
            CompileError::Call(error) => stream.error(error, Some(name)),
            CompileError::NoCompiler(because) => Error::NoMachineCode {
                kernel: name.to_owned(),
                entry: kernel.name.clone(),
                architecture: self.gpu.architecture_name(),
                because: Box::new(because),
            },
        })?;
        let driver = self.gpu.driver;
        let module = self.gpu.enter().and_then(|()| driver.load_module(&code.bytes));
        let module = module.map_err(|error| self.load_error(stream, error, name, code.compiler))?;
        let find = || {
            let function = driver.function(module, &entry_name(kernel))?;
            let (_, local_bytes) = driver.resources(function)?;
            let shared = kernel.geometry.shared_bytes.as_const();
            if shared.is_none_or(|bytes| bytes > 48 << 10) {
                driver.allow_shared_memory(function, self.gpu.shared_memory as u32)?;
            }
            Ok(LoadedFunction { function, local_bytes, module })
        };
        find().map_err(|error| {
            // SAFETY: its function was given to nobody.
            let _ = unsafe { driver.unload_module(module) };
            stream.error(error, Some(name))
        })
    }

    /// The code of a text. Where nothing compiles, what the program carries without the facts serves as well: they are
    /// promises of which it makes no use.
    fn code(&self, kernel: &Kernel, key: FunctionKey, text: &str) -> Result<Code, CompileError> {
        let facts: Vec<bool> = (0..kernel.facts.len()).map(|k| key.facts >> k & 1 == 1).collect();
        let code = cubin::compile(&self.gpu, text, compile_options(kernel, &facts));
        let Err(CompileError::NoCompiler(because)) = code else { return code };
        let options = compile_options(kernel, &vec![false; facts.len()]);
        cubin::find_embedded(&self.gpu, text, options).ok_or(CompileError::NoCompiler(because))
    }

    /// Gives a function back that nobody launches.
    fn unload(&self, function: LoadedFunction) {
        // A module says itself of which GPU it is.
        let _ = self.gpu.enter();
        // SAFETY: nothing launches it, by the callers; the driver keeps what runs.
        let _ = unsafe { self.gpu.driver.unload_module(function.module) };
    }

    /// That code cannot be loaded. A driver that is for an older CUDA than NVRTC may not take NVRTC's code.
    fn load_error(&self, stream: &Stream, error: CallError, kernel: &str, compiler: (i32, i32)) -> Error {
        match self.gpu.driver.version() {
            Ok(driver) if error.is_refused_code() && driver < compiler => Error::CudaVersions {
                kernel: kernel.to_owned(),
                device: stream.to_string(),
                error: error.to_string(),
                driver,
                compiler,
            },
            _ => stream.error(error, Some(kernel)),
        }
    }
}

/// Whether a text of the binary is that of a function: those of 32-bit indices are embedded.
fn is_text_of(source: &CudaSource, key: FunctionKey) -> bool {
    !key.wide
        && (source.launch, source.step, source.variant)
            == (key.launch as usize, key.step as usize, key.variant as usize)
}

impl Drop for GpuKernel {
    fn drop(&mut self) {
        let functions = std::mem::take(&mut *self.functions.write().unwrap_or_else(PoisonError::into_inner));
        // The kernel is gone, so that nothing launches its functions.
        functions.into_values().for_each(|function| self.unload(function));
    }
}
