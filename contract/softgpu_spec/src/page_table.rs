//! Page tables: 2 to 6 levels of tables of 64-bit entries, each table whole 4-KB pages in one piece of local or system
//! memory. How many levels a device has and how many index bits each takes is built into it ([`Shape`]); the register
//! [`crate::register::MMU_LEVELS`] says it.
//!
//! The bits above the width of a virtual address are 0, or repeat its highest bit: both forms name one place. The low 12 bits
//! are the offset in a page; the leaf (level 0) takes the next bits, then level 1, up to the root. A leaf entry names the page; an entry above names the next lower table. Tables are named by bus
//! address; the aperture does not lead to them.
//!
//! A device may be built with *dual entries* ([`Shape::with_dual_entries`]): those of level 1 are two words. The first is as
//! ever, but for LEAF_64KB, which means nothing there; the second names a leaf table of 64-KB entries. Each half is valid for
//! itself. Of every 64 KB of addresses the 64-KB entry counts if it is valid, and else the 4-KB ones; software keeps at most
//! one of both valid. With LARGE in the first the second does not count.
//!
//! A root may be shorter than its level allows: the low 12 bits of the address that a queue has of it count its 4-KB
//! pages ([`root`]), and an index beyond them faults. 0 there is a root of full length.
//!
//! A root may also name a process instead of a table ([`process_space`]): then the platform translates, not the device.

use crate::bus::PAGE_BYTES;

/// Fewest levels of a device.
pub const LEVELS_MIN: u32 = 2;
/// Most levels of a device.
pub const LEVELS_MAX: u32 = 6;
/// Most index bits of a level.
pub const INDEX_BITS_MAX: u32 = 20;
/// Most entries of a table.
pub const ENTRIES_MAX: u32 = 1 << INDEX_BITS_MAX;
/// Bytes of an entry.
pub const ENTRY_BYTES: u64 = 8;
/// Most bits of a virtual address.
pub const VA_BITS_MAX: u32 = 63;

/// The entry is valid.
pub const VALID: u64 = 1 << 0;
/// With VALID in a leaf: reads return 0, writes are dropped.
pub const ZERO: u64 = 1 << 1;
/// Accesses snoop the CPU's caches.
pub const COHERENT: u64 = 1 << 2;
/// Writes fault.
pub const READ_ONLY: u64 = 1 << 3;
/// In level 1, where a leaf table has 512 entries: the entry names 2 MB of consecutive memory, not a table.
pub const LARGE: u64 = 1 << 4;
/// Index bits of a leaf below which LARGE has its meaning.
pub const LARGE_LEAF_BITS: u32 = 9;
/// In level 1, where a leaf table has 16 entries or more: those of this one stand for 64 KB each, so that it has a sixteenth of the entries, at its beginning.
/// Their addresses are multiples of 65536.
pub const LEAF_64KB: u64 = 1 << 5;
/// Pages behind one entry of such a table.
pub const PAGES_64KB: u32 = 1 << LEAF_64KB_BITS;
/// Fewest index bits of a leaf with which LEAF_64KB has its meaning.
pub const LEAF_64KB_BITS: u32 = 4;
/// The address bits: a bus address, a multiple of 4096.
pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// How a device cuts virtual addresses into indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    levels: u32,
    /// Lowest address bit of each level's index; behind the last level the width of an address.
    shifts: [u32; LEVELS_MAX as usize + 1],
    /// Entries of level 1 are two words.
    dual: bool,
}

/// The bit of [`crate::register::MMU_LEVELS`] that says that a device has dual entries.
const DUAL: u64 = 1 << 56;

impl Shape {
    /// Four levels of 512 entries: 48 bits.
    pub const FOUR_LEVELS: Shape = Shape::new(&[9, 9, 9, 9]);

    /// Index bits of each level, the leaf first.
    ///
    /// # Panics
    /// When no device can be built so: see [`Shape::checked`].
    pub const fn new(index_bits: &[u32]) -> Shape {
        match Shape::checked(index_bits) {
            Some(shape) => shape,
            None => panic!("2 to 6 levels of 1 to 20 index bits, 63 address bits at most"),
        }
    }

    /// The same where the bits are not known to be right: 2 to 6 levels of 1 to 20 index bits each, and no more than 63
    /// bits of address.
    pub const fn checked(index_bits: &[u32]) -> Option<Shape> {
        let levels = index_bits.len();
        if levels < LEVELS_MIN as usize || levels > LEVELS_MAX as usize {
            return None;
        }
        let mut shifts = [12; LEVELS_MAX as usize + 1];
        let mut level = 0;
        while level < levels {
            if index_bits[level] == 0 || index_bits[level] > INDEX_BITS_MAX {
                return None;
            }
            shifts[level + 1] = shifts[level] + index_bits[level];
            level += 1;
        }
        if shifts[levels] > VA_BITS_MAX {
            return None;
        }
        // CAST: at most six, checked above.
        Some(Shape { levels: levels as u32, shifts, dual: false })
    }

    /// The same with dual entries.
    ///
    /// # Panics
    /// When no device can be built so: level 1 is the root, or leaf tables have less than 16 entries.
    pub const fn with_dual_entries(self) -> Shape {
        assert!(self.can_be_dual(), "dual entries stand between the root and leaf tables of 16 entries or more");
        Shape { dual: true, ..self }
    }

    const fn can_be_dual(&self) -> bool {
        self.levels > LEVELS_MIN && self.has_64kb_leaves()
    }

    /// The value of [`crate::register::MMU_LEVELS`]: index bits of each level in a byte of its own, the leaf in the lowest; 1 in the
    /// highest byte where entries are dual.
    pub fn to_register(&self) -> u64 {
        let dual = if self.dual { DUAL } else { 0 };
        (0..self.levels).fold(dual, |value, level| value | u64::from(self.index_bits(level)) << (8 * level))
    }

    /// The shape that the register tells of; `None` for a value that no device shows.
    pub fn from_register(value: u64) -> Option<Shape> {
        let dual = value & DUAL != 0;
        let bits: Vec<u32> = (value & !DUAL).to_le_bytes().into_iter().map(u32::from).collect();
        let levels = bits.iter().position(|bits| *bits == 0).unwrap_or(bits.len());
        let above = bits[levels..].iter().any(|bits| *bits != 0);
        let shape = if above { None } else { Shape::checked(&bits[..levels]) };
        match shape {
            Some(shape) if dual => shape.can_be_dual().then(|| shape.with_dual_entries()),
            shape => shape,
        }
    }

    /// How many levels.
    pub const fn levels(&self) -> u32 {
        self.levels
    }

    /// Number of the root's level.
    pub const fn root_level(&self) -> u32 {
        self.levels - 1
    }

    /// Index bits of a level.
    pub const fn index_bits(&self, level: u32) -> u32 {
        self.shifts[level as usize + 1] - self.shifts[level as usize]
    }

    /// Entries of a table of a level; of the root the most.
    pub const fn entries(&self, level: u32) -> u32 {
        1 << self.index_bits(level)
    }

    /// Words of 8 bytes in an entry of a level.
    pub const fn entry_words(&self, level: u32) -> u32 {
        if self.dual && level == 1 { 2 } else { 1 }
    }

    /// Whether entries of level 1 name two leaf tables.
    pub const fn has_dual_entries(&self) -> bool {
        self.dual
    }

    /// Bytes of a table of a level: whole pages.
    pub const fn table_bytes(&self, level: u32) -> u64 {
        (self.entries(level) as u64 * self.entry_words(level) as u64 * ENTRY_BYTES).next_multiple_of(PAGE_BYTES)
    }

    /// Bits of a virtual address.
    pub const fn va_bits(&self) -> u32 {
        self.shifts[self.levels as usize]
    }

    /// An address whose bits above the width repeat its highest bit, without them; any other as it is.
    #[inline]
    pub const fn plain(&self, va: u64) -> u64 {
        let bits = self.va_bits();
        if va >> (bits - 1) == u64::MAX >> (bits - 1) { va & ((1 << bits) - 1) } else { va }
    }

    /// Index into the table of a level for a virtual address.
    #[inline]
    pub const fn index(&self, va: u64, level: u32) -> u32 {
        // CAST: at most 20 bits.
        ((va >> self.shifts[level as usize]) as u32) & (self.entries(level) - 1)
    }

    /// Bytes of virtual address that one entry of a level covers.
    pub const fn coverage(&self, level: u32) -> u64 {
        1 << self.shifts[level as usize]
    }

    /// Whether leaf tables may have entries of 64 KB.
    pub const fn has_64kb_leaves(&self) -> bool {
        self.index_bits(0) >= LEAF_64KB_BITS
    }

    /// Bytes of a leaf table of 64-KB entries: whole pages.
    pub const fn leaf_64kb_bytes(&self) -> u64 {
        ((self.entries(0) / PAGES_64KB) as u64 * ENTRY_BYTES).next_multiple_of(PAGE_BYTES)
    }

    /// Whether an entry of level 1 may name memory: 2 MB of it.
    pub const fn has_large_pages(&self) -> bool {
        self.index_bits(0) == LARGE_LEAF_BITS
    }
}

/// The address of a root with its length.
pub mod root {
    use super::ENTRY_BYTES;
    use crate::bus::PAGE_BYTES;

    const PAGES: u64 = PAGE_BYTES - 1;
    /// Entries in a page of a root: a root is lengthened by so many at least.
    pub const ENTRIES_PER_PAGE: u64 = PAGE_BYTES / ENTRY_BYTES;
    /// Most entries that a short root can have.
    pub const ENTRIES_MAX: u64 = PAGES * ENTRIES_PER_PAGE;

    /// A root at a bus address that ends after so many entries, rounded up to whole pages; at most [`ENTRIES_MAX`].
    pub const fn short(table: u64, entries: u64) -> u64 {
        table | entries.div_ceil(ENTRIES_PER_PAGE)
    }

    /// Its bus address.
    #[inline]
    pub const fn table(root: u64) -> u64 {
        root & !PAGES
    }

    /// Its entries, of a level that has `full`.
    #[inline]
    pub const fn entries(root: u64, full: u32) -> u64 {
        let short = (root & PAGES) * ENTRIES_PER_PAGE;
        if short == 0 || short > full as u64 { full as u64 } else { short }
    }
}

/// Roots that name no table: addresses of such a space are those of a process, and the platform's IOMMU translates them
/// (`register::PASID_BITS`). Bit 63 is set, bits 31:12 are the process's number at the IOMMU, the others are 0.
pub mod process_space {
    const MARK: u64 = 1 << 63;
    const SHIFT: u32 = 12;
    /// Bits of a process's number.
    pub const PASID_BITS: u32 = 20;

    /// The root that stands for a process. Numbers have [`PASID_BITS`] bits; more are cut off.
    pub const fn root(pasid: u32) -> u64 {
        MARK | (pasid as u64 & ((1 << PASID_BITS) - 1)) << SHIFT
    }

    /// The process that a root stands for.
    #[inline]
    pub const fn of(found: u64) -> Option<u32> {
        // CAST: the number has 20 bits; other bits make the comparison fail.
        let pasid = (found >> SHIFT) as u32 & ((1 << PASID_BITS) - 1);
        if root(pasid) == found { Some(pasid) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_stands_for_a_process_or_names_a_table() {
        for pasid in [0, 1, 0xf_ffff] {
            assert_eq!(process_space::of(process_space::root(pasid)), Some(pasid));
        }
        let table = root::short(0x0000_4000_0000_0000, 1024);
        for other in [0, u64::MAX, table, process_space::root(1) | 1, process_space::root(1) | 1 << 32] {
            assert_eq!(process_space::of(other), None, "{other:#x}");
        }
    }

    #[test]
    fn indices_and_coverage_cut_an_address_without_rest() {
        for bits in [&[9, 20][..], &[10, 10], &[9, 9, 12], &[9, 9, 9, 9], &[9; 5], &[8, 9, 9, 9, 8, 8], &[1; 6]] {
            let shape = Shape::new(bits);
            assert_eq!(shape.va_bits(), 12 + bits.iter().sum::<u32>());
            for va in [0, 0x0000_1234_5678_9000, u64::MAX, 1 << (shape.va_bits() - 1)] {
                let va = va & ((1 << shape.va_bits()) - 1) & !0xfff;
                let joined = (0..shape.levels()).map(|level| u64::from(shape.index(va, level)) * shape.coverage(level));
                assert_eq!(joined.sum::<u64>(), va, "{bits:?} {va:#x}");
            }
            assert_eq!(Shape::from_register(shape.to_register()), Some(shape));
            if bits.len() > 2 && bits[0] >= 4 {
                let dual = shape.with_dual_entries();
                assert_eq!(Shape::from_register(dual.to_register()), Some(dual));
                assert_eq!(dual.table_bytes(1), (16u64 << bits[1]).next_multiple_of(4096));
                assert!(
                    (0..shape.levels()).all(|level| level == 1 || dual.table_bytes(level) == shape.table_bytes(level))
                );
            }
        }
    }

    #[test]
    fn a_shape_that_cannot_be_built_is_none() {
        let bad: [&[u32]; 6] = [&[], &[9], &[9; 7], &[9, 0, 9], &[21, 9], &[12, 10, 10, 10, 10]];
        for bits in bad {
            assert_eq!(Shape::checked(bits), None, "{bits:?}");
        }
        for register in
            [0, 9, 0x0009_0009, 0x0900_0000_0009, u64::MAX, DUAL, DUAL | 0x0909, DUAL | 0x0003_0303, 1 << 57 | 0x0909]
        {
            assert_eq!(Shape::from_register(register), None, "{register:#x}");
        }
    }

    #[test]
    fn a_short_root_says_how_long_it_is() {
        for (entries, told) in [(1, 512), (512, 512), (513, 1024), (4096, 4096)] {
            let root = root::short(0x7000, entries);
            assert_eq!((root::table(root), root::entries(root, 1 << 18)), (0x7000, told));
        }
        assert_eq!(root::entries(0x7000, 512), 512);
        assert_eq!(root::entries(root::short(0x7000, 4096), 512), 512);
    }
}
