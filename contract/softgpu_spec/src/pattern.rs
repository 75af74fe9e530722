//! The content that the pattern kernels write and check: a function of a seed and the offset, cheap and never equal for
//! neighbouring words, so that a page in the wrong place or of the wrong age is told apart at its first word.

/// The 64-bit word at byte `offset` (a multiple of 8) of content with `seed`.
#[inline(always)]
pub const fn word(seed: u64, offset: u64) -> u64 {
    (seed ^ offset).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (seed >> 32)
}

/// Mixes a name (a storage, a generation) into a seed. Never 0, so that untouched memory is no pattern.
pub const fn seed(storage: u64, generation: u64) -> u64 {
    let mut x = storage.wrapping_mul(0xbf58_476d_1ce4_e5b9)
        ^ generation.wrapping_mul(0x94d0_49bb_1331_11eb)
        ^ 0x5851_f42d_4c95_7f2d;
    x ^= x >> 29;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 32;
    x | 1
}

/// The report that a check writes on its first mismatch, as 64-bit words at the report address. Word 0 is written last and
/// only if it is still 0, so that the first mismatch stays.
pub mod report {
    /// Words of a report.
    pub const WORDS: u64 = 4;
    /// Word 0: the tag of the check that failed, plus 1.
    pub const TAG: u64 = 0;
    /// Word 1: byte offset of the first word that differs.
    pub const OFFSET: u64 = 1;
    /// Word 2: the word that was found.
    pub const FOUND: u64 = 2;
    /// Word 3: the word that was expected.
    pub const EXPECTED: u64 = 3;
}
