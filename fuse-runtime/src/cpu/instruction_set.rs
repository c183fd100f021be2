//! Which of the compiled versions of a loop runs here.

use std::fmt;
use std::sync::OnceLock;

/// The instruction sets that loops are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum InstructionSet {
    /// What every processor of the architecture has: SSE2 on x86-64, NEON on AArch64.
    Baseline,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl InstructionSet {
    /// The best that this processor has, or the lesser one that `FUSE_ISA` asks for (`baseline`, `avx2`, `avx512`).
    pub(crate) fn current() -> InstructionSet {
        static CURRENT: OnceLock<InstructionSet> = OnceLock::new();
        *CURRENT.get_or_init(|| {
            let best = InstructionSet::detect();
            let asked = match std::env::var("FUSE_ISA").as_deref() {
                Ok("baseline") => InstructionSet::Baseline,
                Ok("avx2") => InstructionSet::Avx2,
                _ => best,
            };
            asked.min(best)
        })
    }

    /// Those that this processor has, the best first.
    pub(crate) fn available() -> Vec<InstructionSet> {
        let all = [InstructionSet::Avx512, InstructionSet::Avx2, InstructionSet::Baseline];
        all.into_iter().filter(|&set| set <= InstructionSet::detect()).collect()
    }

    #[cfg(target_arch = "x86_64")]
    fn detect() -> InstructionSet {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match (avx2, avx512) {
            (true, true) => InstructionSet::Avx512,
            (true, false) => InstructionSet::Avx2,
            (false, _) => InstructionSet::Baseline,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn detect() -> InstructionSet {
        InstructionSet::Baseline
    }
}

impl fmt::Display for InstructionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InstructionSet::Baseline => "baseline",
            InstructionSet::Avx2 => "avx2",
            InstructionSet::Avx512 => "avx512",
        })
    }
}

/// The mask of the first lanes of a vector of sixteen.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn first_lanes(count: usize) -> u16 {
    ((1u32 << count) - 1) as u16
}
