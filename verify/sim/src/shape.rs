//! Which device a world has, beside its memory: how it cuts addresses, where its page tables live and whether the CPU or the GPU writes
//! them. Called by the world at its start.

use ddi::PageTableUpdateMode;
use dxgk_host::{Eviction, Profile};
use softgpu_kmd::{TableHome, TableHomes};
use softgpu_spec::page_table::Shape;

use crate::process::Habits;
use crate::random::Random;

/// The first world in which more happens than in those before, which stay what they were.
const KINDS_FROM: u64 = 1000;
/// And the first whose processes live by packets.
const PACKETS_FROM: u64 = 2000;
/// The first of those whose memory moves in other ways.
const WAYS_FROM: u64 = 4000;
/// The first behind all of these: from here on kinds take turns.
const TURNS_FROM: u64 = 6000;
/// And from here on displays are among them.
const DISPLAYS_FROM: u64 = 9500;
/// And from here on kernels lend processes their memory.
const LENT_FROM: u64 = 12_000;
/// From here on some seeds have a world of waiters beside theirs.
const WAITERS_FROM: u64 = 13_000;
/// And from here on some have one of readers.
const READERS_FROM: u64 = 16_000;
/// From here on the CPUs of some worlds keep what they have locked.
const LINGERS_FROM: u64 = 17_000;
/// From here on drivers of some worlds are late with faults.
const HESITATES_FROM: u64 = 10_000_000_000;
/// From here on every world has a bystander, and every seed has a world of holders beside its own. Below lie the times in seconds that fresh
/// seeds were before, which tests name.
const BYSTANDERS_FROM: u64 = 10_000_000_000;
/// The kinds of any other seed's world, by its remainder: as many seeds in a row cover them all. Their number is coprime to the other
/// remainders that choices use, so that each kind meets every choice.
const TURNS: [Kind; 13] = [
    Kind::Plain,
    Kind::Converting,
    Kind::Dual,
    Kind::Contiguous,
    Kind::Tiled,
    Kind::Sprawling,
    Kind::Patched,
    Kind::Addressed,
    Kind::ByAddress,
    Kind::Idle,
    Kind::CpuAddresses,
    Kind::Idle,
    Kind::LocalWords,
];
/// Dual entries in tables that are a page each.
const DUAL_PAGES: Shape = Shape::new(&[9, 8, 9, 9]).with_dual_entries();
/// Addresses of the kernel's scratch area (memory §4.7), in pages.
const SCRATCH_PAGES: u64 = 8192;

/// The subject of a world.
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
    /// The same, and paging moves content and writes tables by addresses of its own, in packets (memory §3.3, §4.7).
    ByAddress,
    /// Packets at the CPU's addresses, which the IOMMU translates (memory §4.1).
    CpuAddresses,
    /// Fences whose words are in memory of the GPU and are evicted like its content (sync §1.5).
    LocalWords,
    /// Leaf tables of both forms side by side, each 64 KB in one of them (memory §4.5).
    Dual,
}

impl Kind {
    /// The kind of a seed's world.
    pub fn of(seed: u64) -> Kind {
        match seed {
            0..KINDS_FROM => Kind::Plain,
            KINDS_FROM..PACKETS_FROM => {
                [Kind::Converting, Kind::Idle, Kind::Contiguous, Kind::Tiled, Kind::Sprawling][(seed % 5) as usize]
            }
            PACKETS_FROM..WAYS_FROM => [Kind::Patched, Kind::Addressed][(seed % 2) as usize],
            WAYS_FROM..TURNS_FROM => [Kind::ByAddress, Kind::CpuAddresses, Kind::LocalWords][(seed % 3) as usize],
            _ => TURNS[(seed % TURNS.len() as u64) as usize],
        }
    }

    /// The adapters that it may have.
    pub fn profiles(self) -> &'static [&'static str] {
        match self {
            Kind::Converting => &["leaves-64k"],
            Kind::Idle => &["idle-spaces"],
            Kind::Patched => &["wddm1-banks"],
            Kind::Addressed => &["wddm2-packets"],
            Kind::ByAddress => &["packets-by-address"],
            Kind::CpuAddresses => &["iommu-packets"],
            Kind::LocalWords => &["intra-gpu-fences"],
            Kind::Dual => &["dual-entries"],
            _ => &["discrete-4k", "discrete-64k"],
        }
    }

    /// Whether its processes live by packets.
    pub fn has_packets(self) -> bool {
        matches!(self, Kind::Patched | Kind::Addressed | Kind::ByAddress | Kind::CpuAddresses)
    }

    /// The habits of its processes.
    pub fn habits(self) -> Habits {
        let plain = Habits {
            tiles: false,
            places: 0,
            apart: 0,
            whole: false,
            physical_percent: 5,
            local_words_percent: 0,
            looks: false,
            lingers: false,
        };
        match self {
            Kind::Plain | Kind::Patched | Kind::Addressed | Kind::ByAddress | Kind::CpuAddresses => plain,
            Kind::LocalWords => Habits { local_words_percent: 70, ..plain },
            Kind::Converting | Kind::Idle | Kind::Dual => {
                Habits { tiles: true, places: 6, apart: 2 << 20, whole: true, ..plain }
            }
            Kind::Contiguous => Habits { physical_percent: 70, ..plain },
            Kind::Tiled => Habits { tiles: true, ..plain },
            Kind::Sprawling => Habits { places: 64, apart: 1 << 30, ..plain },
        }
    }
}

/// Whether a seed's kernel lends its processes what they see, as it does for processes elsewhere: locks of video memory begin and end at
/// turns of the paging ring. Worlds that tests name by their seeds are not among them, nor is the first generation of drivers, whose
/// memory is not lent: what may be nowhere else could not be locked.
// spec: memory §6.3
pub fn lends(seed: u64, kind: Kind) -> bool {
    seed >= LENT_FROM && seed % 4 == 3 && kind != Kind::Patched
}

/// The reasons for which doorbells are taken away in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takers {
    /// There are fewer than queues: they are passed on.
    pub others: bool,
    /// Engines that have had nothing to do have less power.
    pub idleness: bool,
}

impl Takers {
    /// In a seed's world. Worlds that tests name by their seeds, because of what happens there, are not among them.
    // spec: sync §3.17
    pub fn of(seed: u64, kind: Kind) -> Takers {
        let may = seed >= TURNS_FROM && !kind.has_packets();
        Takers { others: may && matches!(seed % 7, 0 | 4 | 6), idleness: may && matches!(seed % 7, 1 | 5 | 6) }
    }

    /// Whether any doorbell may be taken away.
    pub fn any(self) -> bool {
        self.others || self.idleness
    }

    /// The adapter on which they do.
    pub fn apply(self, profile: &mut Profile) {
        let named = |name| Profile::named(name).expect("a built-in profile");
        if self.others {
            profile.doorbells = named("few-doorbells").doorbells;
        }
        if self.idleness {
            profile.driver.idle_ns = named("power-saving").driver.idle_ns;
        }
    }
}

/// Whether the computer sleeps now and then. Its processes know how to find their doorbells gone; neighbours do not.
pub fn sleeps(seed: u64, kind: Kind) -> bool {
    seed >= TURNS_FROM && matches!(seed % 11, 2 | 6) && !kind.has_packets() && !has_neighbours(seed, kind)
}

/// Whether CPUs look again and again at what they have locked, while others take its place: in two worlds of five. Worlds that tests name by
/// their seeds are not among them.
// spec: memory §6.3
pub fn lingers(seed: u64) -> bool {
    seed >= LINGERS_FROM && Random::new(seed.rotate_left(10)).chance(40)
}

/// Whether the driver is late with faults, and refuses meanwhile what is for the node that has faulted. In worlds of packets no work faults.
pub fn hesitates(seed: u64, kind: Kind) -> bool {
    seed >= HESITATES_FROM && !kind.has_packets() && Random::new(seed.rotate_left(33)).chance(50)
}

/// Whether processes of other sorts live beside a world's own.
pub fn has_neighbours(seed: u64, kind: Kind) -> bool {
    let chosen = match seed {
        0..TURNS_FROM => seed.is_multiple_of(5),
        _ => seed / TURNS.len() as u64 % 5 == 2,
    };
    chosen && !kind.has_packets()
}

/// Whether beside a seed's world one with two adapters is run: of any seeds in a row that meet every kind, one has.
pub fn has_crossing(seed: u64) -> bool {
    seed >= TURNS_FROM && seed.is_multiple_of(TURNS.len() as u64)
}

/// Whether beside a seed's world one with displays is run, likewise.
pub fn has_displays(seed: u64) -> bool {
    seed >= DISPLAYS_FROM && seed % TURNS.len() as u64 == 1
}

/// Whether beside a seed's world one of waiters is run, likewise.
pub fn has_waiters(seed: u64) -> bool {
    seed >= WAITERS_FROM && seed % TURNS.len() as u64 == 2
}

/// Whether beside a seed's world one of readers is run, likewise.
pub fn has_readers(seed: u64) -> bool {
    seed >= READERS_FROM && seed % TURNS.len() as u64 == 3
}

/// Whether a seed's worlds have a bystander each, and one of holders is run beside them.
pub fn has_bystanders(seed: u64) -> bool {
    seed >= BYSTANDERS_FROM
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
    if kind == Kind::Dual && home == TableHome::System {
        return profile.shape = DUAL_PAGES;
    }
    // A table in system memory is one page (memory §4.3).
    let pages = (0..shape.levels()).all(|level| shape.table_bytes(level) == 4096);
    // A window onto all tables takes more small leaf tables than there is room for.
    let wide = shape.entries(0) >= 64;
    if wide && (pages || home == TableHome::Local) {
        profile.shape = shape;
    }
}

fn shape_of(seed: u64, kind: Kind) -> Shape {
    match kind {
        Kind::Sprawling if seed.is_multiple_of(2) => Shape::new(&[9, 18]),
        Kind::Sprawling => Shape::new(&[6, 20]),
        // No root stands right above dual leaf tables.
        Kind::Dual if seed.is_multiple_of(8) => DUAL_PAGES,
        Kind::Dual => of_any(seed).with_dual_entries(),
        _ => of_any(seed),
    }
}

fn of_any(seed: u64) -> Shape {
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
    // The kernel's own pages lie at the top of each process, far from its other tables.
    let tops = 4 * (0..shape.root_level()).map(|level| shape.table_bytes(level)).sum::<u64>();
    let scarce = (1 << 20) + small + roots + tops + (8 << 12);
    if seed.is_multiple_of(3) || kind == Kind::Sprawling { scarce } else { 16 << 20 }
}

/// How the kernel of a world chooses its victims; the fuzzer draws likewise.
pub fn eviction(seed: u64) -> Eviction {
    match Random::new(!seed.rotate_left(21)).below(100) {
        0..30 => Eviction::Planner,
        _ => Eviction::Lru,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_eviction_policy_has_worlds() {
        for policy in Eviction::ALL {
            let worlds = (0..1000).filter(|seed| eviction(*seed) == *policy).count();
            assert!(worlds >= 50, "{worlds} of 1000 worlds have the policy {}", policy.name());
        }
    }

    #[test]
    fn any_seeds_in_a_row_meet_every_kind() {
        for first in [TURNS_FROM, 1_795_400_176, 1 << 40, u64::MAX - 100] {
            let met: Vec<Kind> = (first..first + TURNS.len() as u64).map(Kind::of).collect();
            for seed in 0..TURNS_FROM {
                assert!(met.contains(&Kind::of(seed)), "{:?} from {first} on", Kind::of(seed));
            }
            assert!(met.contains(&Kind::Dual), "from {first} on");
        }
    }
}
