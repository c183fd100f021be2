//! What a profiler would count.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Traffic between warps and global memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct GlobalTraffic {
    /// Accesses of a warp.
    pub requests: u64,
    /// 32-byte sectors that they touch.
    pub sectors: u64,
    /// The sectors that would do if the distinct bytes of each request lay side by side.
    pub least_sectors: u64,
    /// Bytes that lanes ask for, each lane counted.
    pub bytes: u64,
}

/// Traffic between warps and shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SharedTraffic {
    /// Accesses of a warp.
    pub requests: u64,
    /// Passes over the 32 banks of 4 bytes. A pass serves 32 lanes of up to 4 bytes, 16 of 8 or 8 of 16; each further
    /// word in one bank takes one more. Equal words are one.
    pub wavefronts: u64,
    /// The passes that would do without bank conflicts.
    pub least_wavefronts: u64,
}

impl SharedTraffic {
    /// Passes that are there because of bank conflicts.
    pub fn conflicts(self) -> u64 {
        self.wavefronts - self.least_wavefronts
    }
}

/// What one launch did. Statements and operations of the kernel IR count as instructions, a loop two for each iteration;
/// what is known at compile time counts nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Counters {
    /// Warps that were launched.
    pub warps: u64,
    /// Instructions, one for each warp with an active lane.
    pub instructions: u64,
    /// The same, for each active lane.
    pub lane_instructions: u64,
    /// Loads, and the global side of `cp.async`.
    pub global_loads: GlobalTraffic,
    /// Stores.
    pub global_stores: GlobalTraffic,
    /// Atomics.
    pub global_atomics: GlobalTraffic,
    /// Loads from shared memory, those of `ldmatrix` too, by the width of a lane's access: 1, 2, 4, 8, 16 bytes.
    pub shared_loads: [SharedTraffic; 5],
    /// Stores to shared memory, those of `cp.async` and atomics too, by width.
    pub shared_stores: [SharedTraffic; 5],
    /// Barriers of the block, one for each block.
    pub block_barriers: u64,
    /// Barriers of a warp.
    pub warp_barriers: u64,
    /// Shuffles, one for each warp.
    pub shuffles: u64,
    /// Votes.
    pub votes: u64,
    /// Matrix products.
    pub products: u64,
    /// `cp.async` statements, one for each warp.
    pub async_copies: u64,
}

impl Counters {
    /// Shared-memory traffic of all widths, both ways.
    pub fn shared(&self) -> SharedTraffic {
        let mut all = SharedTraffic::default();
        self.shared_loads.iter().chain(&self.shared_stores).for_each(|t| all += *t);
        all
    }

    /// Instructions of the average warp.
    pub fn instructions_per_warp(&self) -> f64 {
        if self.warps == 0 { 0.0 } else { self.instructions as f64 / self.warps as f64 }
    }
}

impl AddAssign for GlobalTraffic {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.sectors += other.sectors;
        self.least_sectors += other.least_sectors;
        self.bytes += other.bytes;
    }
}

impl AddAssign for SharedTraffic {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.wavefronts += other.wavefronts;
        self.least_wavefronts += other.least_wavefronts;
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.warps += other.warps;
        self.instructions += other.instructions;
        self.lane_instructions += other.lane_instructions;
        self.global_loads += other.global_loads;
        self.global_stores += other.global_stores;
        self.global_atomics += other.global_atomics;
        for (a, b) in self.shared_loads.iter_mut().zip(other.shared_loads) {
            *a += b;
        }
        for (a, b) in self.shared_stores.iter_mut().zip(other.shared_stores) {
            *a += b;
        }
        self.block_barriers += other.block_barriers;
        self.warp_barriers += other.warp_barriers;
        self.shuffles += other.shuffles;
        self.votes += other.votes;
        self.products += other.products;
        self.async_copies += other.async_copies;
    }
}

/// What one warp's access of `width` bytes at these addresses, multiples of the width, costs.
pub(super) fn count_global(mask: u32, addresses: &[u64; 32], width: u64) -> GlobalTraffic {
    let mut sorted = [0; 32];
    let mut count = 0;
    let mut ascending = true;
    for (lane, address) in addresses.iter().enumerate() {
        if mask >> lane & 1 == 1 {
            ascending &= count == 0 || sorted[count - 1] <= *address;
            sorted[count] = *address;
            count += 1;
        }
    }
    let sorted = &mut sorted[..count];
    if !ascending {
        sorted.sort_unstable();
    }
    let (mut sectors, mut distinct) = (0, 0);
    let mut last = None;
    for address in sorted {
        distinct += u64::from(last != Some(*address));
        sectors += u64::from(last.is_none_or(|l: u64| l / 32 != *address / 32));
        last = Some(*address);
    }
    let least_sectors = (distinct * width).div_ceil(32);
    GlobalTraffic { requests: 1, sectors, least_sectors, bytes: width * count as u64 }
}

/// What one warp's access of `width` bytes at these offsets, multiples of the width, costs.
pub(super) fn count_shared(mask: u32, offsets: &[u64; 32], width: u64) -> SharedTraffic {
    let words = (width / 4).max(1);
    let together = (32 / words) as usize;
    let mut traffic = SharedTraffic { requests: 1, ..SharedTraffic::default() };
    for first in (0..32).step_by(together) {
        let part = (mask >> first) & (u32::MAX >> (32 - together));
        if part == 0 {
            continue;
        }
        let (wavefronts, least) = count_pass(part, &offsets[first..first + together], words);
        traffic.wavefronts += wavefronts;
        traffic.least_wavefronts += least;
    }
    traffic
}

fn count_pass(mask: u32, offsets: &[u64], words: u64) -> (u64, u64) {
    let mut touched = [0; 32];
    let mut count = 0;
    // The word that each bank serves first.
    let mut banks = [u64::MAX; 32];
    let mut conflict = false;
    for (lane, offset) in offsets.iter().enumerate() {
        if mask >> lane & 1 == 0 {
            continue;
        }
        for word in offset / 4..offset / 4 + words {
            let bank = &mut banks[(word % 32) as usize];
            if *bank == u64::MAX {
                *bank = word;
            }
            conflict |= *bank != word;
            touched[count] = word;
            count += 1;
        }
    }
    if !conflict {
        return (1, 1);
    }
    let touched = &mut touched[..count];
    touched.sort_unstable();
    let mut in_bank = [0u64; 32];
    let (mut distinct, mut last) = (0u64, None);
    for word in touched {
        if last != Some(*word) {
            in_bank[(*word % 32) as usize] += 1;
            distinct += 1;
        }
        last = Some(*word);
    }
    (in_bank.into_iter().max().unwrap_or(1), distinct.div_ceil(32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(f: impl Fn(u64) -> u64) -> [u64; 32] {
        std::array::from_fn(|l| f(l as u64))
    }

    #[test]
    fn sectors() {
        let check = |f: &dyn Fn(u64) -> u64, width, sectors, least| {
            let found = count_global(u32::MAX, &lanes(f), width);
            assert_eq!((found.sectors, found.least_sectors), (sectors, least));
        };
        check(&|l| 4 * l, 4, 4, 4);
        check(&|l| 4 * (31 - l), 4, 4, 4);
        check(&|l| 4 * l + 4, 4, 5, 4);
        check(&|l| 128 * l, 4, 32, 4);
        check(&|_| 64, 4, 1, 1);
        check(&|l| 16 * l, 16, 16, 16);
        check(&|l| 2 * l, 2, 2, 2);
        assert_eq!(count_global(0x7, &lanes(|l| 4 * l), 4).sectors, 1);
    }

    #[test]
    fn wavefronts() {
        let check = |f: &dyn Fn(u64) -> u64, width, wavefronts, least| {
            let found = count_shared(u32::MAX, &lanes(f), width);
            assert_eq!((found.wavefronts, found.least_wavefronts), (wavefronts, least));
        };
        check(&|l| 4 * l, 4, 1, 1);
        check(&|l| 128 * l, 4, 32, 1);
        check(&|l| 132 * l, 4, 1, 1);
        check(&|l| 8 * l, 4, 2, 1);
        check(&|_| 12, 4, 1, 1);
        check(&|l| 2 * l, 2, 1, 1);
        check(&|l| 8 * l, 8, 2, 2);
        check(&|l| 16 * l, 16, 4, 4);
        // Eight rows of 128 bytes, all at one chunk.
        check(&|l| 128 * l, 16, 32, 4);
        // Two halves at two words of every bank.
        check(&|l| 4 * (l % 16) + 128 * (l / 16), 4, 2, 1);
    }
}
