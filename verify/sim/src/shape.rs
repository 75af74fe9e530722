//! Which device a world has, beside its memory: how it cuts addresses, where its page tables live and who writes them.
//! Called by the world at its start.

use ddi::PageTableUpdateMode;
use dxgk_host::Profile;
use softgpu_kmd::{TableHome, TableHomes};
use softgpu_spec::page_table::Shape;

use crate::process::Habits;

/// The first world in which more happens than in those before, which stay what they were.
const KINDS_FROM: u64 = 1000;
/// And the first whose processes live by packets.
const PACKETS_FROM: u64 = 2000;
/// Addresses of the kernel's scratch area (memory §4.7), in pages.
const SCRATCH_PAGES: u64 = 8192;

/// What a world is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Everything, on adapters with plain leaf tables.
    Plain,
    /// Leaf tables of 64-KB entries, which are converted (memory §4.5).
    Converting,
    /// The same, and nothing may run while tables change (memory §4.2).
    Idle,
    /// Surfaces in one piece each, that move out of each other's way (memory §8.2).
    Contiguous,
    /// Tiles, whose entries are copied (memory §4.8).
    Tiled,
    /// Addresses far apart, so that a root of two levels grows while tables leave and come back (memory §4.6).
    Sprawling,
    /// Packets with lists, locks and residency of the first generation (memory §6.1, §7.3).
    Patched,
    /// Packets with lists and packets at addresses (memory §5.6).
    Addressed,
}

impl Kind {
    /// The kind of a seed's world.
    pub fn of(seed: u64) -> Kind {
        if let Some(seed) = seed.checked_sub(PACKETS_FROM).filter(|seed| *seed < PACKETS_FROM) {
            return if seed.is_multiple_of(2) { Kind::Patched } else { Kind::Addressed };
        }
        match seed.checked_sub(KINDS_FROM).map(|seed| seed % 5) {
            None => Kind::Plain,
            Some(0) => Kind::Converting,
            Some(1) => Kind::Idle,
            Some(2) => Kind::Contiguous,
            Some(3) => Kind::Tiled,
            Some(_) => Kind::Sprawling,
        }
    }

    /// The adapters that it may have.
    pub fn profiles(self) -> &'static [&'static str] {
        match self {
            Kind::Converting => &["leaves-64k"],
            Kind::Idle => &["idle-spaces"],
            Kind::Patched => &["wddm1-banks"],
            Kind::Addressed => &["wddm2-packets"],
            _ => &["discrete-4k", "discrete-64k"],
        }
    }

    /// Whether its processes live by packets.
    pub fn has_packets(self) -> bool {
        matches!(self, Kind::Patched | Kind::Addressed)
    }

    /// What its processes like to do.
    pub fn habits(self) -> Habits {
        let plain = Habits { tiles: false, places: 0, apart: 0, whole: false, physical_percent: 5 };
        match self {
            Kind::Plain | Kind::Patched | Kind::Addressed => plain,
            Kind::Converting | Kind::Idle => {
                Habits { tiles: true, places: 6, apart: 2 << 20, whole: true, physical_percent: 5 }
            }
            Kind::Contiguous => Habits { physical_percent: 70, ..plain },
            Kind::Tiled => Habits { tiles: true, ..plain },
            Kind::Sprawling => Habits { places: 64, apart: 1 << 30, ..plain },
        }
    }
}

/// Builds the device of a world. The seed says how and not the world's random numbers, so that the first worlds are the
/// same with one device more.
pub fn build(profile: &mut Profile, seed: u64, kind: Kind) {
    if kind.has_packets() {
        return;
    }
    let shape = shape_of(seed, kind);
    let (home, update_mode) = match seed / 8 % 4 {
        1 => (TableHome::System, PageTableUpdateMode::CpuVirtual),
        2 => (TableHome::Local, PageTableUpdateMode::GpuVirtual),
        3 => (TableHome::System, PageTableUpdateMode::GpuVirtual),
        _ if seed / 32 % 2 == 1 => {
            // Every second time levels live apart, if leaf tables are pages.
            if shape.table_bytes(0) == 4096 {
                let local = TableHomes::all(TableHome::Local);
                profile.driver.tables = TableHomes { leaf: TableHome::System, ..local };
            }
            return profile.shape = shape;
        }
        _ => return profile.shape = shape,
    };
    (profile.driver.tables, profile.driver.update_mode) = (TableHomes::all(home), update_mode);
    // A table in system memory is one page (memory §4.3).
    let pages = (0..shape.levels()).all(|level| shape.table_bytes(level) == 4096);
    // A window onto all tables takes more small leaf tables than there is room for.
    let wide = shape.entries(0) >= 64;
    if wide && (pages || home == TableHome::Local) {
        profile.shape = shape;
    }
}

fn shape_of(seed: u64, kind: Kind) -> Shape {
    if kind == Kind::Sprawling {
        return if seed.is_multiple_of(2) { Shape::new(&[9, 18]) } else { Shape::new(&[6, 20]) };
    }
    match seed % 8 {
        // Small leaf tables: the root is lengthened again and again.
        0 => Shape::new(&[3, 18]),
        4 => Shape::new(&[9, 9, 12]),
        5 => Shape::new(&[9, 9, 9, 9, 9]),
        6 => Shape::new(&[8, 9, 9, 9, 9, 4]),
        7 => Shape::new(&[6, 6, 16]),
        _ => Shape::FOUR_LEVELS,
    }
}

/// Memory for page tables, the paging process's megabyte included, and what small leaf tables take of it beside for the scratch
/// area. In one world of three the tables of all processes do not
/// fit beside each other: beyond their roots there are eight pages.
pub fn page_table_bytes(seed: u64, kind: Kind, shape: Shape) -> u64 {
    let roots = 4 * shape.table_bytes(shape.root_level());
    let tables = (SCRATCH_PAGES / u64::from(shape.entries(0))).saturating_sub(SCRATCH_PAGES / 512);
    let small = (tables * 3 / 2) << 12;
    if seed.is_multiple_of(3) || kind == Kind::Sprawling { (1 << 20) + small + roots + (8 << 12) } else { 16 << 20 }
}
