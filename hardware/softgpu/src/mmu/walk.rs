//! The page walk: from a root through local memory to a leaf entry, and along leaf tables for long ranges. Nothing in the
//! tables is trusted: a table outside of local memory is a fault, not a panic. Called by the MMU, kernels and the CMP.

use std::sync::atomic::Ordering;

use softgpu_spec::bus::{PAGE_BYTES, Place, place};
use softgpu_spec::page_table::{ADDRESS, ENTRIES, LEVELS, READ_ONLY, TABLE_BYTES, VA_BITS, VALID, ZERO, index};
use softgpu_spec::register::fault;

use super::{Access, leaf_site};
use crate::bus::{Bus, Fault, Run, Site};

/// Where a virtual address leads, without a TLB.
pub(crate) fn translate(bus: &Bus, root: u64, va: u64, access: Access) -> Result<Site, Fault> {
    leaf_site(bus, leaf(bus, root, va)?, va, access)
}

/// The longest piece of consecutive memory from `va` on, `bytes` at most: consecutive entries that name consecutive
/// addresses with equal flags are one piece, across leaf tables too.
pub(crate) fn run(bus: &Bus, root: u64, va: u64, bytes: u64, write: bool) -> Result<Run, Fault> {
    let access = if write { Access::Write } else { Access::Read };
    let mut table = leaf_table(bus, root, va)?;
    let leaf = leaf_in(bus, table, va)?;
    let site = leaf_site(bus, leaf, va, access)?;
    let mut length = PAGE_BYTES - va % PAGE_BYTES;
    while length < bytes {
        let next = va + length;
        if index(next, 0) == 0 {
            match leaf_table(bus, root, next) {
                Ok(found) => table = found,
                Err(_) => break,
            }
        }
        let at = u64::from(index(next, 0));
        let wanted = (bytes - length).div_ceil(PAGE_BYTES).min(u64::from(ENTRIES) - at);
        let matched = matching(bus, table + at * 8, wanted, leaf, (va % PAGE_BYTES + length) / PAGE_BYTES, write);
        length += matched * PAGE_BYTES;
        if matched < wanted {
            break;
        }
    }
    let length = length.min(bytes);
    if site == Site::Zero {
        return Ok(Run { site, bytes: length });
    }
    let found = bus.run((leaf & ADDRESS) + va % PAGE_BYTES, length);
    found.map_err(|fault| Fault { address: va, ..fault })
}

/// The valid leaf entry for `va`.
pub(super) fn leaf(bus: &Bus, root: u64, va: u64) -> Result<u64, Fault> {
    leaf_in(bus, leaf_table(bus, root, va)?, va)
}

fn leaf_in(bus: &Bus, table: u64, va: u64) -> Result<u64, Fault> {
    let leaf = bus.local.word(table + u64::from(index(va, 0)) * 8).load(Ordering::Acquire);
    if leaf & VALID == 0 {
        return Err(Fault { address: va, cause: fault::NOT_PRESENT, level: 0 });
    }
    Ok(leaf)
}

/// The byte offset of the leaf table for `va`: aligned, and inside local memory.
fn leaf_table(bus: &Bus, root: u64, va: u64) -> Result<u64, Fault> {
    let refused = |cause, level| Fault { address: va, cause, level };
    if va >> VA_BITS != 0 {
        return Err(refused(fault::NOT_PRESENT, LEVELS - 1));
    }
    let mut table = root;
    for level in (0..LEVELS).rev() {
        if !table.is_multiple_of(TABLE_BYTES) || !bus.local.contains(table, TABLE_BYTES) {
            return Err(refused(fault::BAD_ADDRESS, level));
        }
        if level == 0 {
            break;
        }
        let entry = bus.local.word(table + u64::from(index(va, level)) * 8).load(Ordering::Acquire);
        if entry & VALID == 0 {
            return Err(refused(fault::NOT_PRESENT, level));
        }
        table = match place(entry & ADDRESS) {
            Place::Local(offset) => offset,
            _ => return Err(refused(fault::BAD_ADDRESS, level)),
        };
    }
    Ok(table)
}

/// How many of the `wanted` entries from `offset` go on where `leaf` began, `pages` pages further.
fn matching(bus: &Bus, offset: u64, wanted: u64, leaf: u64, pages: u64, write: bool) -> u64 {
    let stopped = if leaf & ZERO != 0 {
        let forbidden = if write { READ_ONLY } else { 0 };
        bus.local.scan_words(offset, wanted, |_, entry| entry & (VALID | ZERO | forbidden) == VALID | ZERO)
    } else {
        let expected = leaf.wrapping_add(pages * PAGE_BYTES);
        bus.local.scan_words(offset, wanted, |at, entry| entry == expected.wrapping_add(at * PAGE_BYTES))
    };
    stopped.unwrap_or(wanted)
}
