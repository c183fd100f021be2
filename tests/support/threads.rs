//! Launches on a number of threads.

/// A pool of that many threads, in which launches run.
pub(crate) fn with_threads<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
    pool.install(run)
}
