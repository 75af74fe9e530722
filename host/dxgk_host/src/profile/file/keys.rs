//! Everything that a file may say of an adapter: one row a name, with its meaning, its form and its field, in the order in which a printed
//! file has them. The choices of the memory manager are not here: they name themselves. Called by `file`.

use ddi::{DdiVersion, PageTableUpdateMode, SegmentFlags};
use softgpu_kmd::{Addressing, Layout, PeerMode, TableHome, VictimPolicy};
use softgpu_spec::context_data::DmaBuffers;
use toml::de::DeValue;

use super::draft::{Draft, TWO_MEMORIES};
use super::form;

/// A name of the file.
pub(super) struct Key {
    /// The name, with that of its part in front.
    pub name: &'static str,
    /// Its meaning, in a line.
    pub about: &'static str,
    /// Takes a value over.
    pub read: fn(&mut Draft, &DeValue<'_>) -> Result<(), String>,
    /// The value as a file has it.
    pub write: fn(&Draft) -> String,
}

macro_rules! keys {
    ($($name:literal: $form:ident($($term:expr),*) of $($field:ident).+, $about:literal;)*) => {
        /// All names.
        pub(super) const KEYS: &[Key] = &[$(Key {
            name: $name,
            about: $about,
            read: |draft, value| {
                draft.$($field).+ = form::$form::read(value $(, $term)*)?;
                Ok(())
            },
            write: |draft| form::$form::write(&draft.$($field).+ $(, $term)*),
        },)*];
    };
}

/// Largest rate, in bytes a microsecond.
const RATE_MAX: u64 = 1 << 40;
/// Longest time of one step, in nanoseconds: a minute.
const STEP_MAX: u64 = 60_000_000_000;
/// Most memory: what a device's local memory has room for on its bus.
const MEMORY_MAX: u64 = 1 << 44;
const NAME_BYTES_MAX: usize = 64;
const LINE_BYTES_MAX: usize = 200;

const LAYOUTS: &[(&str, Layout)] = &[
    ("memory", Layout::Memory),
    ("two-memories", TWO_MEMORIES),
    ("two-apertures", Layout::TwoApertures),
    ("aperture", Layout::Aperture),
    ("compute-only", Layout::ComputeOnly),
];
const HOMES: &[(&str, TableHome)] =
    &[("local", TableHome::Local), ("second", TableHome::Second), ("system", TableHome::System)];
const ADDRESSINGS: &[(&str, Addressing)] = &[("gpu-mmu", Addressing::GpuMmu), ("iommu", Addressing::IoMmu)];
const UPDATES: &[(&str, PageTableUpdateMode)] = &[
    ("gpu-physical", PageTableUpdateMode::GpuPhysical),
    ("gpu-virtual", PageTableUpdateMode::GpuVirtual),
    ("cpu-virtual", PageTableUpdateMode::CpuVirtual),
];
const PRESERVED: &[(&str, SegmentFlags)] = &[
    ("standby", SegmentFlags::PRESERVED_DURING_STANDBY),
    ("hibernate", SegmentFlags::PRESERVED_DURING_HIBERNATE),
    ("part-of-hibernate", SegmentFlags::PARTIALLY_PRESERVED_DURING_HIBERNATE),
];
const PEERS: &[(&str, PeerMode)] =
    &[("none", PeerMode::None), ("doorbells", PeerMode::Doorbells), ("linear-storage", PeerMode::LinearStorage)];
const VICTIMS: &[(&str, VictimPolicy)] = &[("idle", VictimPolicy::Idle), ("oldest", VictimPolicy::Oldest)];
const BUFFERS: &[(&str, DmaBuffers)] =
    &[("contiguous", DmaBuffers::Contiguous), ("aperture", DmaBuffers::Aperture), ("local", DmaBuffers::Local)];
const SIGNALS: &[(&str, u32)] = &[("64", 64), ("32", 32)];
/// `DXGKMDT_OPM_BUS_TYPE` without its flags (sync §2.10).
const BUSES: &[(&str, u32)] = &[("other", 0), ("pci", 1), ("pci-x", 2), ("pci-express", 3), ("agp", 4)];
const PAGES: &[(&str, u64)] = &[("4KiB", 4096), ("64KiB", 65536)];
const DOORBELLS_MAX: u64 = softgpu_spec::doorbell::PAGES_MAX as u64;
const DISPLAYS_MAX: u64 = softgpu_spec::display::DISPLAYS_MAX as u64;

keys! {
    "name": name(NAME_BYTES_MAX) of name, "The adapter's name in reports, and for programs that enumerate adapters.";
    "description": line(LINE_BYTES_MAX) of description, "One line for people.";
    "wddm": word(&DdiVersion::LEVELS) of wddm, "The level that the driver states. Below 2.0 there are no GPU virtual addresses; hardware scheduling needs 3.2 here.";
    "call_ns": number(0, STEP_MAX) of profile.call_ns, "Virtual time: nanoseconds that a call costs its caller.";
    "io_coherent": switch() of profile.io_coherent, "The GPU snoops the CPU's caches; else software maintains them.";
    "plays_caches": switch() of profile.plays_caches, "The host plays the CPU's caches although they are snooped: what is not marked as snooped is seen stale.";

    "pci.vendor": id(4, 0xfffe) of profile.pci.vendor, "What the bus says of the device: its maker. This number is no maker's; 0xffff is no device.";
    "pci.device": id(4, 0xffff) of profile.pci.device, "The maker's number of the device.";
    "pci.subsystem_vendor": id(4, 0xffff) of profile.pci.subsystem_vendor, "The maker of the board.";
    "pci.subsystem": id(4, 0xffff) of profile.pci.subsystem, "That maker's number of the board.";
    "pci.revision": id(2, 0xff) of profile.pci.revision, "The revision of the device.";
    "pci.bus_type": word(BUSES) of profile.pci.bus_type, "The kind of the bus that programs are told.";
    "pci.address": place() of profile.pci_address, "Bus, device and function in hexadecimal digits, as \"01:00.0\"; \"\": the next free device of bus 0.";

    "memory.layout": word(LAYOUTS) of layout, "The segments: memory and an aperture, two memories (the second a quarter) and an aperture, memory and two apertures, an aperture alone, or memory alone.";
    "memory.vram": bytes(4096, MEMORY_MAX) of profile.vram_bytes, "Video memory, unless the command line says otherwise.";
    "memory.aperture": bytes(4096, MEMORY_MAX) of profile.aperture_bytes, "Size of the aperture segment.";
    "memory.hidden": bytes(0, MEMORY_MAX) of hidden_bytes, "Two memories: what lies between them, and the driver keeps for itself; 0 in another layout.";
    "memory.page": word(PAGES) of profile.driver.segment_page_bytes, "Page of the memory segments.";
    "memory.resized_bar": switch() of profile.driver.cpu_visible, "The CPU reaches all of video memory through the BAR.";
    "memory.bar_window_pages": number(0, 1 << 20) of profile.driver.cpu_window_pages, "Without a resized BAR: pages of the window (CPU host aperture) through which the CPU reaches video memory; 0: no window.";
    "memory.aperture_visible": switch() of profile.driver.aperture_visible, "The CPU reaches memory through the aperture, too.";
    "memory.banks": number(0, 255) of profile.driver.banks, "Below WDDM 2.0: equal banks of the memory segment; 0: none.";
    "memory.preserved": words(PRESERVED) of profile.driver.preserved, "Sleeping states that memory survives: \"standby\", \"hibernate\", \"part-of-hibernate\".";
    "memory.pitch_aligned": switch() of profile.driver.pitch_aligned, "The second of two memories aligns pitches.";

    "addresses.translation": word(ADDRESSINGS) of profile.driver.addressing, "The GPU has page tables of its own, or uses the CPU's addresses through the platform's IOMMU.";
    "addresses.index_bits": numbers(1, 20) of index_bits, "Index bits of each page-table level, the leaf first.";
    "addresses.dual_entries": switch() of dual_entries, "Entries above the leaves name a table of 4-KB and one of 64-KB entries.";
    "addresses.large_pages": switch() of profile.driver.large_pages, "2 MB of consecutive memory have one entry.";
    "addresses.leaf_64kb": switch() of profile.driver.leaf_64kb, "Leaf tables may have entries of 64 KB.";
    "addresses.idle_spaces": switch() of profile.driver.idle_spaces, "Nothing runs in an address space while its tables change.";
    "addresses.update": word(UPDATES) of profile.driver.update_mode, "Page tables are written by the GPU by physical or by virtual address, or by the CPU.";
    "addresses.leaf_tables": word(HOMES) of profile.driver.tables.leaf, "The home of leaf tables: the first memory, the second memory, or system memory.";
    "addresses.middle_tables": word(HOMES) of profile.driver.tables.middle, "The home of the tables between leaf and root.";
    "addresses.root_tables": word(HOMES) of profile.driver.tables.root, "The home of root tables.";
    "addresses.paging_leaf_tables": word(HOMES) of profile.driver.tables.paging_leaf, "The same for leaf tables of the paging process.";
    "addresses.paging_directories": word(HOMES) of profile.driver.tables.paging_directories, "And for its other tables.";

    "paging.by_address": switch() of profile.driver.paging_by_gpu_va, "Content is paged by GPU virtual address.";
    "paging.source_tables": switch() of profile.driver.source_page_table_va, "Copies by address come with the addresses of the tables that translate their ends.";
    "paging.map_aperture2": switch() of profile.driver.map_aperture2, "Aperture maps are taken as device pages (from WDDM 2.9 on).";

    "engines.hardware_scheduling": switch() of profile.driver.hardware_queues, "The engines have hardware queues; else they take packets. Nothing below WDDM 2.0.";
    "engines.ring": bytes(4096, 1 << 30) of profile.driver.ring_bytes, "Ring of a kernel-mode queue: a power of two.";
    "engines.max_in_flight": number(0, 65_535) of profile.driver.max_in_flight, "Buffers of a hardware queue in flight at most.";
    "engines.preemption": switch() of profile.driver.preemption, "The driver takes packets back from an engine.";
    "engines.copy_addresses": switch() of profile.driver.copy_addresses, "The copy engine has GPU virtual addresses; else its buffers are patched.";
    "engines.dma_buffers": word(BUFFERS) of profile.driver.dma_buffers, "The place of DMA buffers when a context chooses none.";
    "engines.context_save": bytes(0, 1 << 26) of profile.driver.context_save_bytes, "Save area of each context; 0: none.";
    "engines.device_save": bytes(0, 1 << 26) of profile.driver.device_save_bytes, "Area that each device has for its contexts; 0: none.";
    "engines.idle_ns": number(0, STEP_MAX) of profile.driver.idle_ns, "Nanoseconds without work after which an engine asks for less power; 0: never.";
    "engines.reset_together": switch() of reset_together, "The engines are reset together.";
    "engines.doorbells": number(0, DOORBELLS_MAX) of profile.doorbells, "Doorbells for processes; with fewer than queues they are passed on.";
    "engines.doorbell_victim": word(VICTIMS) of profile.driver.victims, "The queue that loses its doorbell to another one.";
    "engines.notify_after_ring": switch() of profile.driver.notify_after_ring, "Processes tell the kernel after each ring.";

    "fences.native": switch() of native_fences, "Fences are native: with hardware scheduling, and never without.";
    "fences.intra_gpu": switch() of profile.fence_caps.intra_gpu_fence_type, "The kernel allows fences whose words lie in video memory.";
    "fences.local_monitored": switch() of profile.fence_caps.optimized_default_fence_type, "The kernel keeps MonitoredValues in video memory.";
    "fences.optimized_interrupt": switch() of profile.driver.optimized_fence_interrupt, "Fence interrupts name queues, whose logs have the signals.";
    "fences.peers": word(PEERS) of profile.driver.peers, "How signals reach other GPUs without the CPU.";
    "fences.interrupt": switch() of profile.driver.fence_interrupt, "Engines interrupt when they signal a monitored fence.";
    "fences.signal_bits": word(SIGNALS) of profile.signal_bits, "Bits that an engine stores in one piece when it signals a monitored fence.";

    "displays.count": number(0, DISPLAYS_MAX) of profile.displays.count, "Displays.";
    "displays.period_ns": number(0, STEP_MAX) of profile.displays.period_ns, "Nanoseconds from one vertical blank to the next.";
    "displays.queue_entries": number(0, 64) of profile.displays.queue_entries, "Flips that may wait on each display.";
    "displays.flip_queue": switch() of profile.driver.flip_queue, "The hardware keeps the queue of flips; else the kernel does.";
    "displays.maps_displayed": switch() of profile.driver.maps_displayed, "The aperture shows primaries in system memory only while they are displayed.";

    "timing.command_ns": number(0, STEP_MAX) of profile.timing.command_ns, "Virtual time: fetching and decoding a command.";
    "timing.launch_ns": number(0, STEP_MAX) of profile.timing.launch_ns, "Starting a compute kernel.";
    "timing.compute_bytes_per_us": number(1, RATE_MAX) of profile.timing.compute_bytes_per_us, "Bytes that a kernel reads or writes in a microsecond.";
    "timing.copy_bytes_per_us": number(1, RATE_MAX) of profile.timing.copy_bytes_per_us, "Bytes that a copy moves in a microsecond from or to system memory.";
    "timing.local_copy_bytes_per_us": number(1, RATE_MAX) of profile.timing.local_copy_bytes_per_us, "Bytes that a copy moves in a microsecond inside video memory.";
    "timing.copy_latency_ns": number(0, STEP_MAX) of profile.timing.copy_latency_ns, "Starting a copy.";
    "timing.signal_ns": number(0, STEP_MAX) of profile.timing.signal_ns, "Storing a fence's value and deciding about the interrupt.";
    "timing.wait_ns": number(0, STEP_MAX) of profile.timing.wait_ns, "Looking at a fence's value.";
    "timing.unpark_ns": number(0, STEP_MAX) of profile.timing.unpark_ns, "From a signal until a parked queue goes on.";
    "timing.entry_ps": number(0, STEP_MAX) of profile.timing.entry_ps, "Picoseconds for a page-table entry.";
    "timing.duplex": switch() of profile.timing.duplex, "The bus carries both directions at once.";
    "timing.shares_bus": switch() of profile.timing.shares_bus, "Kernels that use system memory and copies share one bus.";
}
