//! Descriptions of what a plan is priced for. Figures are rounded data-sheet values: they choose between plans, they do
//! not predict times.

use serde::{Deserialize, Serialize};

/// A device as the cost model sees it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Target {
    /// `cpu`, `sm_90`, …
    pub name: String,
    /// Cores or streaming multiprocessors.
    pub units: u32,
    /// Bytes a second over memory with all units at work.
    pub bandwidth: f64,
    /// Bytes a second that one unit can draw.
    pub unit_bandwidth: f64,
    /// Simple f32 operations a second of one unit.
    pub unit_rate: f64,
    /// Multiply-adds a second of one unit in a contraction of f32.
    pub multiply_adds: f64,
    /// How much faster than memory a row is read again from the cache.
    pub cache_gain: f64,
    /// Seconds to start one launch.
    pub launch: f64,
    /// Positions that one unit works on at once: vector lanes, or resident threads.
    pub lanes: u32,
    /// Values of one position that may live at once.
    pub live_values: u32,
    /// Buffers and scalars of one launch.
    pub parameters: u32,
    /// Values of a body.
    pub code_size: u32,
    /// Reductions of one group.
    pub reductions: u32,
    /// Elements of a row that one buffer may hold.
    pub row_buffer: u64,
    /// Bytes of shared memory of a block; 0 on a CPU.
    pub shared_memory: u64,
    /// 32-bit registers of a unit; 0 on a CPU.
    pub registers: u32,
}

impl Target {
    /// A desktop or server CPU: 8 cores, two channels of DDR5 (about 60 GB/s; one core draws about a quarter), AVX2
    /// at 3 GHz with two vector operations a cycle, of which half is reached, in contractions four fifths (a core of the
    /// machine of the README reaches 80e9 multiply-adds a second). Starting work on a thread pool costs
    /// microseconds and is amortised by working inline where there is little to do.
    pub fn cpu() -> Self {
        Target {
            name: "cpu".into(),
            units: 8,
            bandwidth: 60e9,
            unit_bandwidth: 14e9,
            unit_rate: 24e9,
            multiply_adds: 80e9,
            cache_gain: 4.0,
            launch: 2e-6,
            lanes: 64,
            live_values: 48,
            parameters: 96,
            code_size: 256,
            reductions: 8,
            row_buffer: 1 << 18,
            shared_memory: 0,
            registers: 0,
        }
    }

    /// The GPU of that compute capability, e.g. `sm_80`; `None` if it is not known. Numbers of multiprocessors and
    /// bandwidths are those of the largest product of the generation (NVIDIA's data sheets and white papers): T4,
    /// A100 80 GB, A10, L40S, H100 SXM, B200, RTX PRO 6000. Rates count one f32 instruction for each lane and clock.
    pub fn gpu(name: &str) -> Option<Self> {
        let (units, bandwidth, rate, shared_kib) = match name {
            "sm_75" => (40, 300e9, 64.0 * 1.59e9, 64),
            "sm_80" => (108, 2.0e12, 64.0 * 1.41e9, 163),
            "sm_86" => (72, 600e9, 128.0 * 1.70e9, 99),
            "sm_89" => (142, 864e9, 128.0 * 2.52e9, 99),
            "sm_90" => (132, 3.35e12, 128.0 * 1.83e9, 227),
            "sm_100" => (148, 8.0e12, 128.0 * 1.85e9, 227),
            "sm_120" => (188, 1.79e12, 128.0 * 2.40e9, 99),
            _ => return None,
        };
        Some(Target {
            name: name.into(),
            units,
            bandwidth,
            unit_bandwidth: bandwidth / f64::from(units) * 2.0,
            unit_rate: rate,
            multiply_adds: 0.5 * rate,
            cache_gain: 2.5,
            launch: 3e-6,
            lanes: if name == "sm_75" { 1024 } else { 1536 },
            // 65536 registers over 1024 threads leave 64; addresses and temporaries take the rest.
            live_values: 48,
            // The parameter space is 4 KiB; a buffer takes a pointer and its strides.
            parameters: 96,
            code_size: 256,
            reductions: 8,
            row_buffer: shared_kib * 1024 / 4,
            shared_memory: shared_kib * 1024,
            registers: 65536,
        })
    }

    /// Every target that is described.
    pub fn all() -> Vec<Target> {
        let gpus = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"];
        std::iter::once(Target::cpu()).chain(gpus.into_iter().filter_map(Target::gpu)).collect()
    }
}
