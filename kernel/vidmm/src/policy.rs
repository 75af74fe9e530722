//! Every choice that the specification leaves to the implementer (its rows tagged [R]), in one place. Not a configuration file: the kernel
//! fills it once, when it starts an adapter.
//!
//! Choices that are code, not numbers, and where they live:
//! - the backing store stays committed while content lies in a memory segment (memory §8.3 lets VidMm free it, where
//!   a page file keeps the commit): what is freed would have to stay reserved for the next eviction, and a clean range would
//!   not leave without a copy any more (`residency`);
//! - the order of victims (memory §8.2) (`rank`), the budget formula (memory §5.5) (`budget`), the order in which devices
//!   take turns (memory §8.6) (`suspend`);
//! - page tables leave whole, all of a process's but the root, because contexts name that (memory §4.6); nothing of them is
//!   copied, they are written anew (`table_room`);
//! - a victim loses pages from its end, only as many as are needed (memory §8.3, partial residency) (`victim`);
//! - a contiguous request for which pages enough are free and no hole moves other content before anybody loses any; only
//!   what its owner has destroyed goes first (memory §8.1) (`plan`, `compaction`);
//! - content that sits in a less preferred place for lack of room is placed anew at the next MakeResident from count 0
//!   (`residency`), and moves up in idle time if there is free room, at no cost but a short stop of devices that are never idle (memory
//!   §8.1 step 4) (`promote`);
//! - a combination of power flags that the specification does not list fails adapter start (memory §1.13) (`segment`).

use wddm_types::{PageRun, Pages};

macro_rules! evictions {
    ($($(#[$doc:meta])* $policy:ident = $name:literal,)*) => {
        /// Which of the lazily evicted loses its place first, within a tier and a priority (`rank`). The first is the default.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Eviction {
            $($(#[$doc])* $policy,)*
        }

        impl Eviction {
            /// Each policy there is.
            pub const ALL: &'static [Eviction] = &[$(Eviction::$policy,)*];

            /// The policy's name, as profiles and command lines write it.
            pub const fn name(self) -> &'static str {
                match self { $(Eviction::$policy => $name,)* }
            }
        }
    };
}

evictions! {
    /// The least recently used allocation.
    Lru = "lru",
    /// The allocation whose next use the planner foresees last, as far as its account lets it deviate from `Lru` (`foreseen`).
    Planner = "planner",
}

impl Default for Eviction {
    fn default() -> Self {
        Eviction::ALL[0]
    }
}

/// The choices of one adapter.
// spec: memory §10.3
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// System memory for backing stores and the kernel's own pages, by page number.
    pub system_pages: PageRun,
    /// Taken from the end of the segment of leaf tables for page tables; not available to allocations. Where those of the
    /// paging process lie in another segment, as much is taken there.
    pub page_table_reserve: Pages,
    /// Taken from the end of each segment that only tables above the leaf live in (memory §4.3).
    pub directory_reserve: Pages,
    /// The part of `page_table_reserve` for the tables of the paging process; beside directories of processes an eighth at
    /// most. They have frames of their own because the CPU writes them at once: a frame that queued work still writes must
    /// not become one of them.
    pub paging_table_reserve: Pages,
    /// The 32-bit pattern that memory holds before anybody wrote it (memory §3.3, operation 1).
    pub clear_pattern: u32,
    /// So many pages at the beginning of a process's address space stay invalid (memory §4.6): access through a pointer that
    /// was never set faults.
    pub invalid_pages: Pages,
    /// Alignment in bytes of the addresses that VidMm chooses: 64 KB, so that 64-KB pages agree in their low 16 bits
    /// (memory §4.5). A power of two.
    pub va_alignment_bytes: u64,
    /// Most locks outstanding on one allocation (memory §9.3).
    pub lock_count_max: u32,
    /// Which of the lazily evicted loses its place first.
    pub eviction: Eviction,
    /// Where evictions are planned: content that work only reads may stay in system memory while it does, if its driver supports that and the
    /// planner says that its room is worth more (`in_place`).
    pub read_in_place: bool,
    /// Room may be made by suspending devices that rank lower (memory §8.2). If not, a device keeps its resident list, and later claims are
    /// refused. A device that a lock holds up is suspended like any other that waits: its content is room for later claims, and it comes
    /// back when the others leave it enough.
    pub suspend_others: bool,
    /// The page tables of a process that has nothing to run leave when others need room for theirs (memory §4.6).
    pub evict_page_tables: bool,
    /// How long a device keeps the room that it had from others, and how long what it lost stays away.
    pub residency_quantum_ns: u64,
    /// How many times as long as it took to bring a device back it runs before another's turn costs it its place.
    pub turn_worth: u64,
    /// Time between periodic trims, while there is pressure (memory §5.4).
    pub trim_period_ns: u64,
    /// Time between two requests to one process to trim to its budget (memory §5.4).
    pub trim_retry_ns: u64,
    /// The part of a group in percent that all processes together may reserve (memory §5.5).
    pub reservable_percent: u64,
    /// A budget is told anew when it has changed by more than the group's size shifted right by this (memory §5.5).
    pub budget_step_shift: u32,
    /// Steps of the search for a packing of a list that failed in its own order.
    pub plan_search_steps: u32,
    /// Dirty lazily evicted content is copied out while the copy engine is idle.
    pub write_back_ahead: bool,
    /// Content in a less preferred place moves to a better one while the copy engine is idle and there is room (memory §8.1).
    pub promote: bool,
    /// How long content that has room where it would rather be waits for its devices to have nothing to run. Then they stop
    /// for it, at the turn of the move in the ring. `u64::MAX`: never.
    pub promote_patience_ns: u64,
    /// Free pages of each segment that are cleared while the copy engine is idle, at most. 0: none.
    pub clear_ahead: Pages,
    /// Most that one sub-transfer moves (memory §3.2): a longer transfer is cut, so that no single command keeps the
    /// copy engine for longer than some milliseconds. Not 0.
    pub transfer_pages_max: Pages,
    /// Locks show content in memory segments, where hardware allows it. If not, what is locked goes to system memory (memory §6.3 row 5).
    pub cpu_reaches_local: bool,
    /// Most windows of a CPU host aperture that are kept after the last unlock (memory §6.6).
    pub windows_kept_max: usize,
    /// The driver pages by GPU virtual address (memory §3.3): nothing is announced when it is dropped, and nothing goes
    /// through an aperture, because both ends of a copy are addresses.
    pub paging_by_gpu_va: bool,
    /// Paging buffers run in the paging process's address space (memory §3.3, §4.7), so that an operation can name what has no address of its
    /// own by a window there. If not, the memory manager decides no operation that needs a window.
    pub paging_has_addresses: bool,
    /// Backing stores of one device lie beside each other where there is room. Where every owner's pages are mapped by themselves, neighbours
    /// of one owner take one mapping.
    pub gathers_backing: bool,
    /// Content moves within its segment to make a hole for a contiguous request (memory §1.14, MovePagingSupported). If
    /// not, victims make it.
    pub moves_within_segments: bool,
    /// Addresses of the paging process in pages, if its root reaches that far (memory §4.7).
    pub paging_space: Pages,
    /// Pages of one window of the paging process's scratch area (memory §4.7): the longest chunk of a copy by address.
    pub scratch_window: Pages,
    /// Slots of two windows each: so many chunks are under way at once.
    pub scratch_slots: u32,
}

impl Policy {
    /// The usual choices over the given system memory.
    pub const fn new(system_pages: PageRun) -> Policy {
        Policy {
            system_pages,
            page_table_reserve: Pages(16384),
            directory_reserve: Pages(2048),
            paging_table_reserve: Pages(256),
            clear_pattern: 0,
            invalid_pages: Pages(16),
            va_alignment_bytes: 65536,
            lock_count_max: u32::MAX,
            eviction: Eviction::Lru,
            read_in_place: false,
            suspend_others: false,
            evict_page_tables: true,
            residency_quantum_ns: 20_000_000,
            turn_worth: 4,
            trim_period_ns: 1_000_000_000,
            trim_retry_ns: 100_000_000,
            reservable_percent: 50,
            budget_step_shift: 6,
            plan_search_steps: 1024,
            write_back_ahead: false,
            promote: true,
            promote_patience_ns: u64::MAX,
            clear_ahead: Pages::ZERO,
            transfer_pages_max: Pages(65536),
            cpu_reaches_local: true,
            windows_kept_max: usize::MAX,
            paging_by_gpu_va: false,
            paging_has_addresses: true,
            gathers_backing: false,
            moves_within_segments: true,
            paging_space: Pages(1 << 20),
            scratch_window: Pages(512),
            scratch_slots: 8,
        }
    }
}
