//! What there is, for those who ask.

use super::disk_cache::DiskCache;
use super::gpu::count_gpus;
use super::stream::open_device;
use super::{Compiler, CudaUnavailable, Driver};
use crate::survey;

/// The version of CUDA for which the driver is.
///
/// # Errors
/// Why there is no driver.
pub(crate) fn find_driver() -> Result<(i32, i32), CudaUnavailable> {
    Driver::get()?.version().map_err(CudaUnavailable::start)
}

/// The GPUs by number, each described or with the reason why it cannot be used.
///
/// # Errors
/// Why there is no driver.
pub(crate) fn find_gpus() -> Result<Vec<Result<survey::Gpu, CudaUnavailable>>, CudaUnavailable> {
    let count = count_gpus(Driver::get()?)?;
    let describe = |ordinal| {
        let stream = open_device(ordinal)?;
        let gpu = &stream.0.gpu;
        Ok(survey::Gpu {
            name: gpu.name.clone(),
            architecture: gpu.architecture_name(),
            shared_memory: gpu.shared_memory,
        })
    };
    Ok((0..count).map(describe).collect())
}

/// NVRTC.
///
/// # Errors
/// Why there is none.
pub(crate) fn find_compiler() -> Result<survey::Compiler, CudaUnavailable> {
    let compiler = Compiler::get()?;
    let architectures = compiler.architectures().iter().map(|number| format!("sm_{number}"));
    Ok(survey::Compiler { version: compiler.version(), architectures: architectures.collect() })
}

/// The folder of compiled kernels.
///
/// # Errors
/// Why there is none.
pub(crate) fn find_cache() -> Result<survey::Cache, String> {
    let folder = DiskCache::folder_of_user()?;
    if DiskCache::open(folder.clone()).is_none() {
        return Err(format!(
            "`{}` cannot be made, or others than its user may write it; let FUSE_CACHE_DIR name a folder of yours",
            folder.display()
        ));
    }
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let kernels = files.filter(|file| file.path().extension().is_some_and(|e| e == "cubin"));
    let sizes: Vec<u64> = kernels.filter_map(|file| file.metadata().ok()).map(|data| data.len()).collect();
    Ok(survey::Cache { folder, kernels: sizes.len(), bytes: sizes.iter().sum() })
}
