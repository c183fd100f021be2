//! Machine code ahead of time, for an architecture that need not be here: into the folder of compiled kernels, or for a
//! program to carry.

use super::cubin::{Request, add_architecture};
use super::disk_cache::DiskCache;
use super::embedded::MachineCode;
use super::gpu::show_version;
use super::handle::{CompileError, Output};
use super::{Compiler, CudaUnavailable};
use fuse_ir::lower::{LowerOptions, LoweredKernel, lower_launch};
use fuse_ir::print_cuda::{compile_options, print_cuda};
use fuse_ir::program::Program;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// NVRTC and, if there is one, the folder of compiled kernels, for one architecture.
#[derive(Clone, Debug)]
pub struct Precompiler {
    compiler: &'static Compiler,
    cache: Result<(DiskCache, PathBuf), PrecompileError>,
    /// 90 for `sm_90`.
    number: u32,
    architecture: String,
}

/// A kernel to compile.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Precompile {
    /// The kernel's entry.
    pub entry: String,
    text: String,
    options: Vec<String>,
}

/// What was done about a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Precompiled {
    /// It was compiled.
    Compiled,
    /// It was there.
    Kept,
}

/// Why kernels cannot be compiled ahead of time.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PrecompileError {
    /// NVRTC cannot be used.
    Unavailable(CudaUnavailable),
    /// There is no folder for compiled kernels.
    NoCache(String),
    /// The compiler does not take a kernel.
    Compile {
        /// The kernel's entry.
        entry: String,
        /// What the compiler says.
        log: String,
    },
    /// The code cannot be kept.
    NotKept {
        /// The folder.
        folder: PathBuf,
    },
}

impl Precompiler {
    /// For an architecture, e.g. `sm_90`.
    ///
    /// # Errors
    /// If there is no NVRTC or it does not know the architecture.
    pub fn open(architecture: &str) -> Result<Precompiler, PrecompileError> {
        let compiler = Compiler::get().map_err(PrecompileError::Unavailable)?;
        let number = architecture.strip_prefix("sm_").and_then(|number| number.parse::<u32>().ok());
        let Some(number) = number.filter(|number| compiler.architectures().contains(number)) else {
            return Err(PrecompileError::Unavailable(CudaUnavailable::UnknownArchitecture {
                device: architecture.to_owned(),
                compiler: show_version(compiler),
            }));
        };
        let folder = DiskCache::folder_of_user().map_err(PrecompileError::NoCache);
        let cache = folder.and_then(|folder| match DiskCache::open(folder.clone()) {
            Some(cache) => Ok((cache, folder)),
            None => Err(PrecompileError::NotKept { folder }),
        });
        Ok(Precompiler { compiler, cache, number, architecture: architecture.to_owned() })
    }

    /// The architecture, e.g. `sm_90`.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// Where code is kept.
    ///
    /// # Errors
    /// If there is no folder for it.
    pub fn folder(&self) -> Result<&Path, PrecompileError> {
        self.cache.as_ref().map(|(_, folder)| folder.as_path()).map_err(Clone::clone)
    }

    /// The kernels of a program that calls take whose tensors are contiguous and have 32-bit indices: every variant. What
    /// other calls take is compiled when they come.
    pub fn list(program: &Program) -> Vec<Precompile> {
        list_variants(program, false, true)
    }

    /// Kernels of a program with which every call can be made: those of [`Precompiler::list`], and with 32-bit and 64-bit
    /// indices those that take tensors of any strides and alignment.
    pub fn list_for_every_call(program: &Program) -> Vec<Precompile> {
        let mut kernels = Precompiler::list(program);
        let general = [false, true].into_iter().flat_map(|wide| list_variants(program, wide, false));
        // A kernel without facts is the same in both.
        for kernel in general {
            if !kernels.contains(&kernel) {
                kernels.push(kernel);
            }
        }
        kernels
    }

    /// A kernel as PTX, NVIDIA's assembly that is the same for all GPUs of the architecture and after.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn print_ptx(&self, kernel: &Precompile) -> Result<String, PrecompileError> {
        let virtual_architecture = self.architecture.replace("sm_", "compute_");
        let options = add_architecture(kernel.options.clone(), &virtual_architecture);
        let request = Request { text: &kernel.text, options, output: Output::Ptx };
        let code = request.compile(self.compiler, None).map_err(|error| kernel.refused(error))?;
        Ok(String::from_utf8_lossy(&code).trim_end_matches('\0').to_owned())
    }

    /// Compiles a kernel into the folder of compiled kernels, unless its code is there.
    ///
    /// # Errors
    /// If it does not compile, or cannot be kept.
    pub fn keep(&self, kernel: &Precompile) -> Result<Precompiled, PrecompileError> {
        let (cache, folder) = self.cache.as_ref().map_err(Clone::clone)?;
        let (_, done) = self.compile(kernel)?;
        match self.request(kernel).find(self.compiler, cache) {
            Some(_) => Ok(done),
            None => Err(PrecompileError::NotKept { folder: folder.clone() }),
        }
    }

    /// Compiles a kernel for a program to carry, unless its code is in the folder of compiled kernels.
    ///
    /// # Errors
    /// If it does not compile.
    pub fn embed(
        &self,
        kernel: &Precompile,
        into: &Mutex<MachineCode>,
    ) -> Result<Precompiled, PrecompileError> {
        let (code, done) = self.compile(kernel)?;
        let options = self.request(kernel).options;
        let mut into = into.lock().unwrap_or_else(PoisonError::into_inner);
        into.insert((&kernel.text, &options), self.number, self.compiler.version(), code);
        Ok(done)
    }

    /// The code of a kernel, and whether it was there.
    fn compile(&self, kernel: &Precompile) -> Result<(Vec<u8>, Precompiled), PrecompileError> {
        let request = self.request(kernel);
        let cache = self.cache.as_ref().ok().map(|(cache, _)| cache);
        match cache.and_then(|cache| request.find(self.compiler, cache)) {
            Some(code) => Ok((code, Precompiled::Kept)),
            None => {
                let code = request.compile(self.compiler, cache).map_err(|error| kernel.refused(error))?;
                Ok((code, Precompiled::Compiled))
            }
        }
    }

    fn request<'a>(&self, kernel: &'a Precompile) -> Request<'a> {
        let options = add_architecture(kernel.options.clone(), &self.architecture);
        Request { text: &kernel.text, options, output: Output::Cubin }
    }
}

/// The kernels of a program with indices of that width, with all facts or with none.
fn list_variants(program: &Program, wide: bool, facts: bool) -> Vec<Precompile> {
    // The shared memory of a block is no part of a text.
    let options = LowerOptions { wide, shared_memory: u64::MAX };
    let launches = (0..program.plan.launches.len()).filter_map(|k| lower_launch(program, k, &options).ok());
    let kernels = launches.flat_map(|launch| launch.steps).flatten();
    let make = |lowered: LoweredKernel| {
        let kernel = lowered.kernel;
        let options = compile_options(&kernel, &vec![facts; kernel.facts.len()]);
        Precompile { entry: kernel.name.clone(), text: print_cuda(&kernel), options }
    };
    kernels.map(make).collect()
}

impl Precompile {
    fn refused(&self, error: CompileError) -> PrecompileError {
        let log = match error {
            CompileError::Log(log) => log,
            CompileError::Call(call) => format!("`{}` gives {}", call.call, call.name),
            CompileError::NoCompiler(because) => because.to_string(),
        };
        PrecompileError::Compile { entry: self.entry.clone(), log }
    }
}

impl std::error::Error for PrecompileError {}

impl fmt::Display for PrecompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrecompileError::Unavailable(error) => error.fmt(f),
            PrecompileError::NoCache(error) => f.write_str(error),
            PrecompileError::Compile { entry, log } => {
                write!(f, "`{entry}` does not compile:\n{}", log.trim_end())
            }
            PrecompileError::NotKept { folder } => write!(
                f,
                "nothing can be kept in `{}`: it cannot be written, or others than its user may write it",
                folder.display()
            ),
        }
    }
}
