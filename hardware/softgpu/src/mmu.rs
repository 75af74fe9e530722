//! The MMU: virtual addresses to memory. Two ways in: single words through a TLB (fences, rings, logs, results), and long
//! ranges as runs of consecutive memory, which read the leaf tables in sequence and need no TLB.
//!
//! It decides about presence, zero pages and write permission; the [`crate::bus`] about whether memory exists. Each engine owns one; the
//! CMP walks without a TLB. A unit that changes an entry flushes ([`Flush`]) before relying on it.

mod tlb;
mod walk;

use std::sync::atomic::AtomicU64;

use softgpu_spec::bus::PAGE_BYTES;
use softgpu_spec::page_table::{ADDRESS, COHERENT, READ_ONLY, ZERO};
use softgpu_spec::register::fault;

use crate::bus::{Bus, Fault, Run, Site};
pub(crate) use tlb::Flush;
use tlb::{Leaf, Tlb};
pub(crate) use walk::{run, translate};

/// How an address is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// Virtual, under this root.
    Virtual(u64),
    /// A bus address.
    Bus,
}

impl Space {
    /// The longest piece of consecutive memory from `address` on, `bytes` at most (and at least 1).
    pub(crate) fn run(self, bus: &Bus, address: u64, bytes: u64, write: bool) -> Result<Run, Fault> {
        match self {
            Space::Virtual(root) => run(bus, root, address, bytes, write),
            Space::Bus => bus.run(address, bytes),
        }
    }
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A 64-bit word found.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) site: Site,
    pub(crate) word: &'a AtomicU64,
}

/// One engine's MMU.
pub(crate) struct Mmu {
    tlb: Tlb,
    /// Rises with each flush: an address that was translated under an older one must be translated again.
    generation: u64,
}

impl Mmu {
    pub(crate) fn new() -> Mmu {
        Mmu { tlb: Tlb::new(), generation: 0 }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn flush(&mut self, flush: Flush) {
        self.tlb.flush(flush);
        self.generation += 1;
    }

    /// The 64-bit word at an address.
    #[inline(always)]
    pub(crate) fn word<'a>(
        &mut self,
        bus: &'a Bus,
        space: Space,
        va: u64,
        access: Access,
    ) -> Result<Target<'a>, Fault> {
        if !va.is_multiple_of(8) {
            return Err(Fault { address: va, cause: fault::BAD_ADDRESS, level: 0 });
        }
        let site = match space {
            Space::Virtual(root) => self.site(bus, root, va, access)?,
            Space::Bus => bus.site(va)?,
        };
        let word = match access {
            Access::Read => bus.read_word(site),
            Access::Write => bus.write_word(site),
        };
        Ok(Target { site, word })
    }

    /// The byte at a virtual address.
    #[inline(always)]
    pub(crate) fn site(&mut self, bus: &Bus, root: u64, va: u64, access: Access) -> Result<Site, Fault> {
        let page = va / PAGE_BYTES;
        let leaf = match self.tlb.find(root, page) {
            Some(leaf) => leaf,
            None => self.miss(bus, root, va)?,
        };
        match leaf.site {
            Some(site) if access == Access::Read || leaf.entry & READ_ONLY == 0 => Ok(site.plus(va % PAGE_BYTES)),
            _ => leaf_site(bus, leaf.entry, va, access),
        }
    }

    /// Walks, and remembers what was found.
    #[cold]
    fn miss(&mut self, bus: &Bus, root: u64, va: u64) -> Result<Leaf, Fault> {
        let entry = walk::leaf(bus, root, va)?;
        // The content of the CPU's caches changes without a flush, too.
        let stays = entry & ZERO == 0 && !(bus.snoops() && entry & COHERENT != 0);
        let leaf = Leaf { entry, site: bus.page_that_stays(entry & ADDRESS).filter(|_| stays) };
        // A flush names pages in one form.
        self.tlb.fill(root, bus.shape.plain(va) / PAGE_BYTES, leaf);
        Ok(leaf)
    }
}

/// The place of one byte by a valid leaf entry.
#[inline]
fn leaf_site(bus: &Bus, leaf: u64, va: u64, access: Access) -> Result<Site, Fault> {
    if access == Access::Write && leaf & READ_ONLY != 0 {
        return Err(Fault { address: va, cause: fault::READ_ONLY, level: 0 });
    }
    if leaf & ZERO != 0 {
        return Ok(Site::Zero);
    }
    let site = bus.site((leaf & ADDRESS) + va % PAGE_BYTES).map_err(|fault| Fault { address: va, ..fault })?;
    Ok(if leaf & COHERENT == 0 { site } else { bus.snooped(site) })
}
