//! Page tables: four levels of 512 entries of 64 bits, each table one 4-KB page of local or system memory.
//!
//! A virtual address has 48 bits: 12 of offset, then 9 for each level from the leaf (level 0) up to the root (level 3).
//! A leaf entry names the page; an entry above names the next lower table. Tables are named by bus
//! address; the aperture does not lead to them.

/// Levels; the root is level 3.
pub const LEVELS: u32 = 4;
/// Index bits of each level.
pub const INDEX_BITS: u32 = 9;
/// Entries of a table.
pub const ENTRIES: u32 = 1 << INDEX_BITS;
/// Bytes of a table.
pub const TABLE_BYTES: u64 = 4096;
/// Bits of a virtual address.
pub const VA_BITS: u32 = 12 + LEVELS * INDEX_BITS;

/// The entry is valid.
pub const VALID: u64 = 1 << 0;
/// With VALID in a leaf: reads return 0, writes are dropped.
pub const ZERO: u64 = 1 << 1;
/// Accesses snoop the CPU's caches.
pub const COHERENT: u64 = 1 << 2;
/// Writes fault.
pub const READ_ONLY: u64 = 1 << 3;
/// In level 1: the entry names 2 MB of consecutive memory, not a table.
pub const LARGE: u64 = 1 << 4;
/// The address bits: a bus address, a multiple of 4096.
pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Index into the table of `level` for a virtual address.
pub const fn index(va: u64, level: u32) -> u32 {
    ((va >> (12 + INDEX_BITS * level)) & (ENTRIES as u64 - 1)) as u32
}

/// Bytes of virtual address that one entry of `level` covers.
pub const fn coverage(level: u32) -> u64 {
    1 << (12 + INDEX_BITS * level)
}
