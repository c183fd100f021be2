//! Machine code ahead of time: into the folder of compiled kernels, for an architecture that need not be here.

use super::cubin::{Request, add_architecture};
use super::disk_cache::DiskCache;
use super::gpu::show_version;
use super::handle::{CompileError, Output};
use super::{Compiler, CudaUnavailable};
use fuse_ir::lower::{LowerOptions, lower_launch};
use fuse_ir::print_cuda::{compile_options, print_cuda};
use fuse_ir::program::Program;
use std::fmt;
use std::path::PathBuf;

/// NVRTC and the folder of compiled kernels, for one architecture.
#[derive(Clone, Debug)]
pub struct Precompiler {
    compiler: &'static Compiler,
    cache: DiskCache,
    folder: PathBuf,
    architecture: String,
}

/// A kernel to compile.
#[derive(Clone, PartialEq, Debug)]
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
    /// If there is no NVRTC or it does not know the architecture, or nothing can be kept.
    pub fn open(architecture: &str) -> Result<Precompiler, PrecompileError> {
        let compiler = Compiler::get().map_err(PrecompileError::Unavailable)?;
        let number = architecture.strip_prefix("sm_").and_then(|number| number.parse::<u32>().ok());
        if number.is_none_or(|number| !compiler.architectures().contains(&number)) {
            return Err(PrecompileError::Unavailable(CudaUnavailable::UnknownArchitecture {
                device: architecture.to_owned(),
                compiler: show_version(compiler),
            }));
        }
        let folder = DiskCache::folder_of_user().map_err(PrecompileError::NoCache)?;
        let cache = DiskCache::open(folder.clone())
            .ok_or_else(|| PrecompileError::NotKept { folder: folder.clone() })?;
        Ok(Precompiler { compiler, cache, folder, architecture: architecture.to_owned() })
    }

    /// Where the code is kept.
    pub fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// The kernels of a program that calls take whose tensors are contiguous and have 32-bit indices: every variant. What
    /// other calls take is compiled when they come.
    pub fn list(program: &Program) -> Vec<Precompile> {
        // The shared memory of a block is no part of a text.
        let options = LowerOptions { wide: false, shared_memory: u64::MAX };
        let launches =
            (0..program.plan.launches.len()).filter_map(|k| lower_launch(program, k, &options).ok());
        let kernels = launches.flat_map(|launch| launch.steps).flatten();
        let make = |lowered: fuse_ir::lower::LoweredKernel| {
            let kernel = lowered.kernel;
            let facts = vec![true; kernel.facts.len()];
            let options = compile_options(&kernel, &facts);
            Precompile { entry: kernel.name.clone(), text: print_cuda(&kernel), options }
        };
        kernels.map(make).collect()
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

    /// Compiles a kernel, unless its code is there.
    ///
    /// # Errors
    /// If it does not compile, or cannot be kept.
    pub fn compile(&self, kernel: &Precompile) -> Result<Precompiled, PrecompileError> {
        let options = add_architecture(kernel.options.clone(), &self.architecture);
        let request = Request { text: &kernel.text, options, output: Output::Cubin };
        if request.find(self.compiler, &self.cache).is_some() {
            return Ok(Precompiled::Kept);
        }
        request.compile(self.compiler, Some(&self.cache)).map_err(|error| kernel.refused(error))?;
        match request.find(self.compiler, &self.cache) {
            Some(_) => Ok(Precompiled::Compiled),
            None => Err(PrecompileError::NotKept { folder: self.folder.clone() }),
        }
    }
}

impl Precompile {
    fn refused(&self, error: CompileError) -> PrecompileError {
        let log = match error {
            CompileError::Log(log) => log,
            CompileError::Call(call) => format!("`{}` gives {}", call.call, call.name),
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
