//! Why an adapter's description of its memory is refused: one name for each rule (memory §1.13). The adapter does not
//! start.

use wddm_types::SegmentId;

/// Why an adapter with these descriptors does not start. The driver is to blame, except where the text says that
/// something is not built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The message of each variant says what it means.
pub enum SegmentError {
    #[error("more than 31 segments (memory §0)")]
    TooMany,
    #[error("{0} aperture segments; a WDDM 2 adapter reports exactly one, or none if it only computes (memory §1.6)")]
    ApertureCount(usize),
    #[error("segment {}: an AGP segment without an AGP window (memory §1.9)", .0.0)]
    AgpWithoutWindow(SegmentId),
    #[error("segment {}: no other flag may stand beside Agp (memory §1.5)", .0.0)]
    AgpWithFlags(SegmentId),
    #[error("segment {}: a second AGP segment (memory §1.9)", .0.0)]
    AgpTwice(SegmentId),
    #[error("segment {}: the AGP kind does not exist in WDDM 2 (memory §1.9)", .0.0)]
    Agp(SegmentId),
    #[error("segment {}: reserved flags are set (memory §1.5)", .0.0)]
    ReservedFlags(SegmentId),
    #[error("segment {}: a flag of a later version of the contract (memory §1.3, §1.5)", .0.0)]
    Version(SegmentId),
    #[error("segment {}: size is zero or no multiple of the segment's page (memory §1.4)", .0.0)]
    Size(SegmentId),
    #[error("segment {}: its addresses overlap another segment or leave 64 bits (memory §1.1)", .0.0)]
    Overlap(SegmentId),
    #[error("segment {}: the commit limit exceeds the size (memory §1.13)", .0.0)]
    CommitLimit(SegmentId),
    #[error("segment {}: CpuVisible and a CPU host aperture exclude each other (memory §1.5)", .0.0)]
    CpuVisibleWithHostAperture(SegmentId),
    #[error("segment {}: a cached CPU host aperture without a CPU host aperture (memory §1.5)", .0.0)]
    CachedWithoutHostAperture(SegmentId),
    #[error("segment {}: the flags name one way of the CPU, the descriptor the other (memory §1.4)", .0.0)]
    CpuAccess(SegmentId),
    #[error("segment {}: its window on the bus leaves 64 bits (memory §1.7)", .0.0)]
    BusAddress(SegmentId),
    #[error("segment {}: a CPU host aperture has pages (memory §1.4)", .0.0)]
    HostApertureSize(SegmentId),
    #[error("segment {}: this combination of power flags is not recognised (memory §1.10)", .0.0)]
    PowerFlags(SegmentId),
    #[error("segment {}: SystemMemoryEndAddress is not 0 where a part survives hibernate (memory §1.10)", .0.0)]
    SystemMemoryEnd(SegmentId),
    #[error("segment {}: descriptor 4 carries no bank table (memory §10.1 row 3)", .0.0)]
    Banking(SegmentId),
    #[error("segment {}: only memory segments have banks (memory §1.8)", .0.0)]
    BanksOnAperture(SegmentId),
    #[error("segment {}: 1 to 127 banks, with as many ends or one fewer (memory §1.8)", .0.0)]
    BankCount(SegmentId),
    #[error("segment {}: bank ends rise, are whole pages, and the last one is the segment's (memory §1.8)", .0.0)]
    BankEnds(SegmentId),
    #[error("segment {}: invalid ranges are whole pages of a memory segment and do not overlap (memory §1.4)", .0.0)]
    InvalidRange(SegmentId),
    #[error("segment {}: the protected region is aligned as the driver says and lies in the segment, its reserve in it (memory §1.4)", .0.0)]
    ProtectedRange(SegmentId),
    #[error("segment {}: VprPreservedDuringStandby is about a protected region, and VprSupported says that there is none (memory §1.5)", .0.0)]
    ProtectedRangeMissing(SegmentId),
    #[error("segment {}: {} (memory §1.5)", .0.0, .1)]
    NotBuilt(SegmentId, &'static str),
    #[error("segment {}: paging by GPU virtual address converts no layout, so no segment may align pitches", .0.0)]
    PitchAlignment(SegmentId),
    #[error("{0} page-table levels; 2 to 6 are allowed and each has one description (memory §4.2)")]
    LevelCount(u32),
    #[error("level {0}: index bits do not add up to the width of an address (memory §4.3)")]
    IndexBits(u32),
    #[error("level {0}: only the root of two levels is resizable and may have 0 index bits (memory §4.2, §4.3)")]
    ResizableRoot(u32),
    #[error("GetRootPageTableSize: roots are asked for at two levels, and for no others (memory §4.6)")]
    RootSizes,
    #[error(
        "GetRootPageTableSize: {0} entries: no more than the root before, or no whole pages of the segment (memory §4.6)"
    )]
    RootSize(u32),
    #[error("level {0}: table size or alignment (memory §4.3)")]
    TableSize(u32),
    #[error("level {0}: page tables live in a memory segment or in system memory (memory §4.3)")]
    TableSegment(u32),
    #[error("GpuMmuCaps: {0} is not built (memory §4.2)")]
    MmuCapNotBuilt(&'static str),
    #[error("LeafPageTableSizeFor64KPagesInBytes is a multiple of 4096, and in system memory 4096 (memory §4.2, §4.3)")]
    LeafTableSize,
    #[error(
        "DualPteSupported needs leaf tables of 64-KB entries, and leaf levels of 16 entries at least (memory §4.5)"
    )]
    DualWithoutTables,
    #[error("GpuMmuCaps: reserved bits {0:#x} are set (memory §4.2)")]
    ReservedMmuCaps(u32),
    #[error("reserved bits {0:#x} of DXGK_GPUMMUCAPS.LegacyBehaviors (memory §4.2)")]
    ReservedLegacyBehaviors(u32),
    #[error("level {0}: CPU_VIRTUAL is not allowed when page directories live in local memory (memory §4.2)")]
    CpuWrittenDirectory(u32),
    #[error("level {0}: in CPU_VIRTUAL leaf tables live in system memory or in a CpuVisible segment (memory §4.2)")]
    CpuWrittenTable(u32),
    #[error("a page-table reserve does not fit its segment")]
    Reserve,
    #[error("no aperture: without GPU virtual addresses nothing else shows system memory to the engines (memory §1.6)")]
    NoAperture,
    #[error("segment {}: behind the IOMMU there is system memory only, so every segment is an aperture (memory §4.1)", .0.0)]
    MemoryBehindIoMmu(SegmentId),
    #[error("there is no system page for the dummy page")]
    NoSystemPage,
}
