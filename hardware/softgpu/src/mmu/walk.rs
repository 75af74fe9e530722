//! The page walk: from a root through local or system memory to a leaf entry, and along leaf tables for long ranges.
//! Nothing in the tables is trusted: a table outside of memory is a fault, not a panic. Addresses of processes are asked of
//! the platform's IOMMU instead. Called by the MMU, kernels and the
//! CMP.

use std::sync::atomic::Ordering;

use device_port::IommuRun;
use softgpu_spec::bus::{PAGE_BYTES, SYSTEM_BASE};
use softgpu_spec::page_table::{
    ADDRESS, COHERENT, LARGE, LEAF_64KB, PAGES_64KB, READ_ONLY, VALID, ZERO, process_space, root,
};
use softgpu_spec::register::fault;

use super::{Access, leaf_site};
use crate::bus::{Bus, Fault, Run, Site, Table};

/// Where a virtual address leads, without a TLB.
pub(crate) fn translate(bus: &Bus, root: u64, va: u64, access: Access) -> Result<Site, Fault> {
    leaf_site(bus, leaf(bus, root, va)?, va, access)
}

/// The longest piece of consecutive memory from `va` on, `bytes` at most: consecutive entries that name consecutive
/// addresses with equal flags are one piece, across leaf tables too.
pub(crate) fn run(bus: &Bus, root: u64, va: u64, bytes: u64, write: bool) -> Result<Run, Fault> {
    let access = if write { Access::Write } else { Access::Read };
    if let Some(pasid) = process_space::of(root) {
        return platform_run(bus, pasid, va, bytes, access);
    }
    // A fault names the address as it was given.
    plain_run(bus, root, bus.shape.plain(va), bytes, write).map_err(|fault| Fault { address: va, ..fault })
}

/// The same from an address without a repeated sign.
fn plain_run(bus: &Bus, root: u64, va: u64, bytes: u64, write: bool) -> Result<Run, Fault> {
    let access = if write { Access::Write } else { Access::Read };
    let shape = &bus.shape;
    let mut lowest = lowest(bus, root, va)?;
    let leaf = lowest.leaf(bus, va)?;
    let site = leaf_site(bus, leaf, va, access)?;
    let mut length = PAGE_BYTES - va % PAGE_BYTES;
    while length < bytes {
        let next = va + length;
        if shape.index(next, 0) == 0 {
            match self::lowest(bus, root, next) {
                Ok(found) => lowest = found,
                Err(_) => break,
            }
        }
        let at = u64::from(shape.index(next, 0));
        let wanted = (bytes - length).div_ceil(PAGE_BYTES).min(u64::from(shape.entries(0)) - at);
        let pages = (va % PAGE_BYTES + length) / PAGE_BYTES;
        let matched = match lowest {
            Lowest::Table(table) => matching(table, at * 8, wanted, leaf, pages, write),
            Lowest::Pair { .. } => matching_pair(bus, lowest, next, (wanted, pages), leaf, write),
            Lowest::Coarse(_) => matching_coarse(bus, lowest, next, (wanted, pages), leaf, write),
            Lowest::Large(_) if lowest.leaf(bus, next)? == leaf.wrapping_add(pages * PAGE_BYTES) => wanted,
            Lowest::Large(_) => 0,
        };
        length += matched * PAGE_BYTES;
        if matched < wanted {
            break;
        }
    }
    let length = length.min(bytes);
    if site == Site::Zero {
        return Ok(Run { site, bytes: length });
    }
    let found = bus.run((leaf & ADDRESS) + va % PAGE_BYTES, length).map_err(|fault| Fault { address: va, ..fault })?;
    Ok(if leaf & COHERENT == 0 { found } else { bus.snooped_run(found) })
}

/// The valid leaf entry for `va`.
pub(super) fn leaf(bus: &Bus, root: u64, va: u64) -> Result<u64, Fault> {
    if let Some(pasid) = process_space::of(root) {
        return platform_leaf(platform(bus, pasid, va, 1)?, va);
    }
    lowest(bus, root, va)?.leaf(bus, va)
}

/// Asks the platform where `va` of a process leads. Without an IOMMU no process has addresses here.
fn platform(bus: &Bus, pasid: u32, va: u64, pages_max: u64) -> Result<IommuRun, Fault> {
    let found = bus.iommu().and_then(|iommu| iommu.translate(pasid, va / PAGE_BYTES, pages_max));
    found.filter(|run| run.pages > 0).ok_or(Fault { address: va, cause: fault::NOT_PRESENT, level: 0 })
}

/// The leaf entry that would name the first page of an answer. A page that no entry can name is not in system memory.
fn platform_leaf(found: IommuRun, va: u64) -> Result<u64, Fault> {
    let address = found.system_page.checked_mul(PAGE_BYTES).and_then(|system| SYSTEM_BASE.checked_add(system));
    match address.filter(|address| address & !ADDRESS == 0) {
        // The platform's translations snoop.
        Some(address) => Ok(address | VALID | COHERENT | if found.writable { 0 } else { READ_ONLY }),
        None => Err(Fault { address: va, cause: fault::BAD_ADDRESS, level: 0 }),
    }
}

/// The longest piece that the platform has in one run.
fn platform_run(bus: &Bus, pasid: u32, va: u64, bytes: u64, access: Access) -> Result<Run, Fault> {
    let within = va % PAGE_BYTES;
    let found = platform(bus, pasid, va, bytes.saturating_add(within).div_ceil(PAGE_BYTES).max(1))?;
    let leaf = platform_leaf(found, va)?;
    let refused = |fault: Fault| Fault { address: va, ..fault };
    leaf_site(bus, leaf, va, access)?;
    let length = found.pages.saturating_mul(PAGE_BYTES).saturating_sub(within).min(bytes);
    bus.run((leaf & ADDRESS) + within, length).map(|run| bus.snooped_run(run)).map_err(refused)
}

/// The tables or page that the entry of level 1 names.
#[derive(Clone, Copy)]
enum Lowest<'a> {
    /// A leaf table.
    Table(Table<'a>),
    /// A leaf table whose entries stand for 64 KB each.
    Coarse(Table<'a>),
    /// Two leaf tables: of 64 KB the second counts where its entry is valid, and else the first.
    Pair { small: Option<Table<'a>>, coarse: Option<Table<'a>> },
    /// Memory: the entry as the leaf entry of its first page.
    Large(u64),
}

impl Lowest<'_> {
    /// The valid leaf entry for `va`.
    fn leaf(self, bus: &Bus, va: u64) -> Result<u64, Fault> {
        let index = u64::from(bus.shape.index(va, 0));
        match self {
            Lowest::Table(table) => leaf_in(table, index, va),
            Lowest::Coarse(table) => {
                let leaf = leaf_in(table, index / u64::from(PAGES_64KB), va)?;
                Ok(leaf.wrapping_add(index % u64::from(PAGES_64KB) * PAGE_BYTES))
            }
            Lowest::Pair { small, coarse } => {
                let valid = |table| Lowest::Coarse(table).leaf(bus, va).ok();
                let not_present = Fault { address: va, cause: fault::NOT_PRESENT, level: 0 };
                let fine = || small.ok_or(not_present).and_then(|table| leaf_in(table, index, va));
                coarse.and_then(valid).map_or_else(fine, Ok)
            }
            Lowest::Large(entry) => Ok(entry.wrapping_add(index * PAGE_BYTES)),
        }
    }
}

fn leaf_in(table: Table<'_>, index: u64, va: u64) -> Result<u64, Fault> {
    let leaf = table.memory.word(table.offset + index * 8).load(Ordering::Acquire);
    if leaf & VALID == 0 {
        return Err(Fault { address: va, cause: fault::NOT_PRESENT, level: 0 });
    }
    Ok(leaf)
}

/// The last step of the translation of `va`: a leaf table, aligned and inside memory, or a large page.
fn lowest(bus: &Bus, root: u64, va: u64) -> Result<Lowest<'_>, Fault> {
    let refused = |cause, level| Fault { address: va, cause, level };
    let (shape, top) = (&bus.shape, bus.shape.root_level());
    let mut entries = root::entries(root, shape.entries(top));
    let va = shape.plain(va);
    if va >> shape.va_bits() != 0 || u64::from(shape.index(va, top)) >= entries {
        return Err(refused(fault::NOT_PRESENT, top));
    }
    let mut address = root::table(root);
    for level in (1..=top).rev() {
        let words = u64::from(shape.entry_words(level));
        let table = bus.table(address, entries * words).ok_or(refused(fault::BAD_ADDRESS, level))?;
        let at = table.offset + u64::from(shape.index(va, level)) * words * 8;
        let entry = table.memory.word(at).load(Ordering::Acquire);
        if words == 1 && entry & VALID == 0 {
            return Err(refused(fault::NOT_PRESENT, level));
        }
        if level == 1 && entry & (LARGE | VALID) == LARGE | VALID && shape.has_large_pages() {
            return Ok(Lowest::Large(entry & !LARGE));
        }
        if words == 2 {
            let second = table.memory.word(at + 8).load(Ordering::Acquire);
            return pair(bus, entry, second)
                .ok_or(refused(fault::BAD_ADDRESS, 0))?
                .ok_or(refused(fault::NOT_PRESENT, 1));
        }
        address = entry & ADDRESS;
        entries = u64::from(shape.entries(level - 1));
        if level == 1 && entry & LEAF_64KB != 0 && shape.has_64kb_leaves() {
            let coarse = bus.table(address, entries / u64::from(PAGES_64KB)).map(Lowest::Coarse);
            return coarse.ok_or(refused(fault::BAD_ADDRESS, 0));
        }
    }
    bus.table(address, entries).map(Lowest::Table).ok_or(refused(fault::BAD_ADDRESS, 0))
}

/// The leaf tables of a dual entry; inside: `None` where both halves are invalid; outside: where one names no memory.
fn pair(bus: &Bus, first: u64, second: u64) -> Option<Option<Lowest<'_>>> {
    let entries = u64::from(bus.shape.entries(0));
    let table = |half: u64, entries: u64| match half & VALID {
        0 => Some(None),
        _ => bus.table(half & ADDRESS, entries).map(Some),
    };
    let (small, coarse) = (table(first, entries)?, table(second, entries / u64::from(PAGES_64KB))?);
    Some((small.is_some() || coarse.is_some()).then_some(Lowest::Pair { small, coarse }))
}

/// How many of the `wanted` pages from `va` on go on where `leaf` began, `pages` pages further, in two leaf tables: 64 KB by
/// 64 KB, each in its form.
fn matching_pair(bus: &Bus, lowest: Lowest<'_>, va: u64, (wanted, pages): (u64, u64), leaf: u64, write: bool) -> u64 {
    let Lowest::Pair { small, coarse } = lowest else { return 0 };
    let mut matched = 0;
    while matched < wanted {
        let here = va + matched * PAGE_BYTES;
        let index = bus.shape.index(here, 0);
        let part = u64::from(PAGES_64KB - index % PAGES_64KB).min(wanted - matched);
        let whole = coarse.map(Lowest::Coarse).filter(|coarse| coarse.leaf(bus, here).is_ok());
        let found = match (whole, small) {
            (Some(coarse), _) => matching_coarse(bus, coarse, here, (part, pages + matched), leaf, write),
            (None, Some(table)) => matching(table, u64::from(index) * 8, part, leaf, pages + matched, write),
            (None, None) => 0,
        };
        matched += found;
        if found < part {
            break;
        }
    }
    matched
}

/// How many of the `wanted` pages from `va` on go on where `leaf` began, `pages` pages further, in a table of 64-KB entries.
fn matching_coarse(bus: &Bus, lowest: Lowest<'_>, va: u64, (wanted, pages): (u64, u64), leaf: u64, write: bool) -> u64 {
    let forbidden = if write { READ_ONLY } else { 0 };
    let mut matched = 0;
    while matched < wanted {
        let here = va + matched * PAGE_BYTES;
        let Ok(found) = lowest.leaf(bus, here) else { break };
        let goes_on = if leaf & ZERO != 0 {
            found & (ZERO | forbidden) == ZERO
        } else {
            found == leaf.wrapping_add((pages + matched) * PAGE_BYTES)
        };
        if !goes_on {
            break;
        }
        matched += u64::from(PAGES_64KB - bus.shape.index(here, 0) % PAGES_64KB);
    }
    matched.min(wanted)
}

/// How many of the `wanted` entries from `offset` go on where `leaf` began, `pages` pages further.
fn matching(table: Table<'_>, offset: u64, wanted: u64, leaf: u64, pages: u64, write: bool) -> u64 {
    let stopped = if leaf & ZERO != 0 {
        let forbidden = if write { READ_ONLY } else { 0 };
        table
            .memory
            .scan_words(table.offset + offset, wanted, |_, entry| entry & (VALID | ZERO | forbidden) == VALID | ZERO)
    } else {
        let expected = leaf.wrapping_add(pages * PAGE_BYTES);
        table
            .memory
            .scan_words(table.offset + offset, wanted, |at, entry| entry == expected.wrapping_add(at * PAGE_BYTES))
    };
    stopped.unwrap_or(wanted)
}
