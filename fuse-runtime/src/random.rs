//! Counter-based random numbers: the value at an index is a function of seed, stream and index alone.

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
///
/// The key is `seed`, the counter `index / 4` and `stream` (low words first), and `index % 4` chooses the word: four
/// neighbours share a block. Branch-free, so that a loop over consecutive indices is vector code.
#[inline(always)]
pub fn philox(seed: u64, stream: u64, index: u64) -> u32 {
    let block = index >> 2;
    let counter = [block as u32, (block >> 32) as u32, stream as u32, (stream >> 32) as u32];
    let words = philox_block(counter, [seed as u32, (seed >> 32) as u32]);
    let odd = index & 1 != 0;
    let lower = if odd { words[1] } else { words[0] };
    let upper = if odd { words[3] } else { words[2] };
    if index & 2 != 0 { upper } else { lower }
}

/// The four words of one block.
#[inline(always)]
pub fn philox_block(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    let mut round = 0;
    while round < 10 {
        let first = u64::from(counter[0]).wrapping_mul(0xd251_1f53);
        let second = u64::from(counter[2]).wrapping_mul(0xcd9e_8d57);
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
        round += 1;
    }
    counter
}

/// The upper 24 bits as a multiple of 2^-24 in [0, 1).
#[inline(always)]
pub fn uniform(word: u32) -> f32 {
    // Through i32, for which SSE2 has a conversion.
    ((word >> 8) as i32) as f32 * (1.0 / 16_777_216.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known-answer vectors that Random123 publishes for philox4x32-10.
    #[test]
    fn philox_gives_the_published_vectors() {
        let cases = [
            ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            (
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xa4093822, 0x299f31d0],
                [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox_block(counter, key), expected);
            let [c0, c1, c2, c3] = counter.map(u64::from);
            let seed = u64::from(key[0]) | u64::from(key[1]) << 32;
            for (word, expected) in expected.into_iter().enumerate() {
                let index = (c0 | c1 << 32) << 2 | word as u64;
                // The index has 62 bits of counter; the vectors with more of them are covered by the block alone.
                if index >> 2 == (c0 | c1 << 32) {
                    assert_eq!(philox(seed, c2 | c3 << 32, index), expected);
                }
            }
        }
    }

    #[test]
    fn uniform_is_below_one_and_exact() {
        assert_eq!(uniform(0), 0.0);
        assert_eq!(uniform(0xff), 0.0);
        assert_eq!(uniform(1 << 31), 0.5);
        assert_eq!(uniform(u32::MAX), 1.0 - 1.0 / 16_777_216.0);
    }

    #[test]
    fn seed_stream_and_index_each_matter() {
        let reference = philox(1, 2, 3);
        assert_ne!(reference, philox(2, 2, 3));
        assert_ne!(reference, philox(1 << 32 | 1, 2, 3));
        assert_ne!(reference, philox(1, 3, 3));
        assert_ne!(reference, philox(1, 1 << 32 | 2, 3));
        assert_ne!(reference, philox(1, 2, 2));
        assert_ne!(reference, philox(1, 2, 1 << 34 | 3));
    }
}
