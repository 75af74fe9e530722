//! An adapter as people read it. Numbers come from the kernel's description; nothing is computed here but units.

use std::fmt::Write;

use ddi::SegmentFlags;
use dxgk_host::{Profile, StoresWait};
use dxgkrnl::{AdapterDescription, MonitoredFenceSignal, SegmentReport};
use wddm_types::{PageRun, PciFunction, SegmentId};

use super::names;
use terminal_text::units::{bytes, bytes_exact, grouped};

/// One line for each profile.
pub fn list(profiles: &[Profile]) -> String {
    let width = profiles.iter().map(|profile| profile.name.len()).max().unwrap_or(0);
    let line = |profile: &Profile| format!("{:width$}  {}\n", profile.name, profile.description);
    profiles.iter().map(line).collect()
}

/// One adapter in full.
pub fn adapter(profile: &Profile, adapter: &AdapterDescription) -> String {
    let mut sheet = Sheet::default();
    let said = &adapter.reported;
    sheet.text += &format!("{}: {}\n\n", adapter.name, profile.description);
    sheet.row("driver", format!("{:?}, interface version {}", said.driver_model, said.ddi_version));
    sheet.row("bus", bus(profile));
    sheet.row("memory caps", list_or_none(&names(said.memory_caps)));
    sheet.row("facets", list_or_none(&adapter.facets));
    features(&mut sheet, adapter);
    totals(&mut sheet, adapter);
    sheet.head("segments");
    adapter.segments.iter().for_each(|segment| one_segment(&mut sheet, segment));
    translation(&mut sheet, adapter);
    engines(&mut sheet, adapter);
    sheet.head("choices of the memory manager (`openwddm run --set CHOICE=VALUE`)");
    profile.memory_policy.written().into_iter().for_each(|(name, value)| sheet.row(name, value));
    sheet.text
}

/// What the bus says of the device.
fn bus(profile: &Profile) -> String {
    let PciFunction { vendor, device, subsystem_vendor, subsystem, revision, .. } = profile.pci;
    let place = profile.pci_address.map_or_else(|| "the next free device of bus 0".to_owned(), |at| at.to_string());
    format!(
        "{vendor:04x}:{device:04x}, board {subsystem_vendor:04x}:{subsystem:04x}, revision {revision:02x}, at {place}"
    )
}

fn features(sheet: &mut Sheet, adapter: &AdapterDescription) {
    let mut title = "features";
    for feature in &adapter.features {
        let what = match feature.off {
            None => format!("{} version {}", feature.name, feature.state.version),
            Some(why) => format!("{} off: {why}", feature.name),
        };
        sheet.row(title, what);
        title = "";
    }
    let caps = adapter.native_fence_os_caps;
    let allowed = [
        ("SupportOptimizedDefaultFenceType", caps.optimized_default_fence_type),
        ("SupportIntraGpuFenceType", caps.intra_gpu_fence_type),
    ];
    let allowed: Vec<_> = allowed.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
    sheet.row("native-fence caps", list_or_none(&allowed));
}

fn totals(sheet: &mut Sheet, adapter: &AdapterDescription) {
    sheet.head("memory");
    let totals = &adapter.totals;
    sheet.row("dedicated video", dedicated_video(adapter));
    sheet.row("dedicated system", bytes_exact(totals.dedicated_system_bytes));
    sheet.row("shared", format!("{}, the most that apertures map", bytes_exact(totals.shared_bytes)));
    sheet.row("total", bytes_exact(totals.video_bytes()));
    sheet.row("system for graphics", bytes_exact(totals.system_for_graphics_bytes));
    let [local, other] = adapter.budget_bytes;
    sheet.row("local budget", format!("{}, which its processes share", bytes_exact(local)));
    sheet.row("non-local budget", format!("{}, which its processes share", bytes_exact(other)));
    let paging = adapter.reported.paging_buffer;
    let size = bytes(u64::from(paging.size_bytes));
    sheet.row("locked stores wait", StoresWait::here().to_string());
    sheet.row("paging buffers", format!("{size} each, in {}", place(paging.segment)));
}

/// The memory of the adapter's own: for allocations, as a profile says it, and beside that.
fn dedicated_video(adapter: &AdapterDescription) -> String {
    let populated = SegmentFlags::POPULATED_FROM_SYSTEM_MEMORY;
    let memory = adapter.segments.iter().filter(|segment| !segment.aperture && !segment.flags.contains(populated));
    let (all, given) = memory.fold((0u64, 0u64), |(all, given), segment| {
        (all.saturating_add(segment.size_bytes), given.saturating_add(segment.capacity_bytes))
    });
    match all.saturating_sub(given) {
        0 => bytes_exact(adapter.totals.dedicated_video_bytes),
        beside => format!("{} for allocations; {} beside them, for page tables", bytes_exact(given), bytes(beside)),
    }
}

fn one_segment(sheet: &mut Sheet, segment: &SegmentReport) {
    let kind = if segment.aperture { "aperture" } else { "memory" };
    sheet.text += &format!("  {} {kind}\n", segment.id.0);
    sheet.deep("flags", list_or_none(&names(segment.flags)));
    if !segment.ignored.is_empty() {
        sheet.deep("without meaning", names(segment.ignored).join(" "));
    }
    sheet.deep("base address", format!("{:#x}", segment.base_address));
    sheet.deep("size", bytes_exact(segment.size_bytes));
    if segment.aperture {
        sheet.deep("commit limit", bytes_exact(segment.commit_limit_bytes));
    }
    sheet.deep("for allocations", bytes_exact(segment.capacity_bytes));
    sheet.deep("page", bytes(segment.page_bytes));
    sheet.deep("CPU access", cpu_access(segment));
    sheet.deep("budget group", if segment.local { "local" } else { "non-local" }.to_owned());
    if !segment.banks.is_empty() {
        sheet.deep("banks", segment.banks.iter().map(run).collect::<Vec<_>>().join(", "));
    }
    if !segment.invalid.is_empty() {
        sheet.deep("invalid", segment.invalid.iter().map(run).collect::<Vec<_>>().join(", "));
    }
}

fn cpu_access(segment: &SegmentReport) -> String {
    match (segment.aperture, segment.bus_address, segment.host_aperture) {
        (true, ..) => "through the system pages behind it".to_owned(),
        (_, Some(address), _) => format!("linear, from bus address {address:#x}"),
        (_, _, Some(window)) => {
            let pages = u64::from(window.size_in_pages);
            let size = bytes(pages * segment.page_bytes);
            format!("window of {} pages ({size}) at {:#x}", grouped(pages), window.physical_address)
        }
        _ => "none: content is locked in system memory".to_owned(),
    }
}

fn translation(sheet: &mut Sheet, adapter: &AdapterDescription) {
    let said = &adapter.reported;
    sheet.head("address translation");
    if names(said.memory_caps).contains(&"IO_MMU_SUPPORTED") {
        sheet.row("addresses", "the CPU's, translated by the IOMMU (IoMmu)".to_owned());
        sheet.row("levels", "none: the GPU has no page tables".to_owned());
        return;
    }
    if said.levels.is_empty() {
        sheet.row("levels", "none: engines use physical addresses".to_owned());
        return;
    }
    sheet.row("addresses", format!("{} bits, {} levels", said.mmu.virtual_address_bits, said.levels.len()));
    sheet.row("flags", list_or_none(&names(said.mmu.flags)));
    sheet.row("tables written", format!("{:?}", said.mmu.update_mode));
    sheet.row("paging process", format!("{} of addresses", bytes(said.paging_space_bytes)));
    let mut shift = 12;
    for (number, level) in said.levels.iter().enumerate() {
        let covers = bytes(1u64.checked_shl(shift).unwrap_or(u64::MAX));
        let what = if level.index_bits == 0 {
            // spec: memory §4.3, asked for root by root
            format!("entries of {covers}, lengthened and shortened, in {}", place(level.segment))
        } else {
            format!(
                "{} entries of {covers}, tables of {} in {}",
                grouped(1u64.checked_shl(level.index_bits).unwrap_or(0)),
                bytes(u64::from(level.size_bytes)),
                place(level.segment),
            )
        };
        let name = match number {
            0 => "level 0 (leaf)".to_owned(),
            last if last + 1 == said.levels.len() => format!("level {last} (root)"),
            number => format!("level {number}"),
        };
        let apart = match level.paging_process_segment == level.segment {
            true => String::new(),
            false => format!(", the paging process's in {}", place(level.paging_process_segment)),
        };
        sheet.row(&name, what + &apart);
        // spec: memory §4.5
        if number == 0 && said.mmu.leaf_table_64kb_bytes > 0 {
            let count = grouped(1u64.checked_shl(level.index_bits).unwrap_or(0) / 16);
            let size = bytes(u64::from(said.mmu.leaf_table_64kb_bytes));
            let (or, until) = match names(said.mmu.flags).contains(&"DUAL_PTE_SUPPORTED") {
                true => ("and", "beside each"),
                false => ("or", "until a smaller page appears"),
            };
            sheet.row("", format!("{or} {count} entries of {}, tables of {size}, {until}", bytes(1 << 16)));
        }
        shift += level.index_bits;
    }
}

fn engines(sheet: &mut Sheet, adapter: &AdapterDescription) {
    sheet.head("engines");
    for (number, node) in adapter.nodes.iter().enumerate() {
        let mut what = vec![node.name.to_owned()];
        if node.user_mode_submission {
            what.push("user-mode submission".to_owned());
        }
        what.push(match node.max_in_flight_buffers {
            0 => "buffers in flight without limit".to_owned(),
            limit => format!("{limit} buffers in flight"),
        });
        what.push(match adapter.monitored_fence_signals[number] {
            MonitoredFenceSignal::Packet => "monitored fences by software packets".to_owned(),
            MonitoredFenceSignal::Basic => format!("basic: stores fences of {} bits", adapter.monitored_fence_bits),
            MonitoredFenceSignal::Advanced => {
                format!("advanced: stores fences of {} bits and interrupts", adapter.monitored_fence_bits)
            }
        });
        if number == usize::from(adapter.reported.paging_node) {
            what.push("runs paging".to_owned());
        }
        sheet.row(&format!("node {number}"), what.join(", "));
    }
    // spec: sync §4.3
    let fine = adapter.preemption.map(|fine| {
        let (graphics, compute) = (fine.graphics.name(), fine.compute.name());
        format!("between two of: {graphics} (graphics), {compute} (compute)")
    });
    sheet.row("packet preemption", fine.unwrap_or_else(|| "none".to_owned()));
}

fn place(segment: SegmentId) -> String {
    if segment.is_system() { "system memory".to_owned() } else { format!("segment {}", segment.0) }
}

fn run(run: &PageRun) -> String {
    format!("{} from page {}", bytes(run.count.bytes()), grouped(run.first))
}

fn list_or_none(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(" ") }
}

/// Lines in the making.
#[derive(Default)]
struct Sheet {
    text: String,
}

impl Sheet {
    fn head(&mut self, name: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "\n{name}");
    }

    fn row(&mut self, name: &str, what: String) {
        let _ = writeln!(self.text, "  {name:<20} {what}");
    }

    fn deep(&mut self, name: &str, what: String) {
        let _ = writeln!(self.text, "    {name:<18} {what}");
    }
}
