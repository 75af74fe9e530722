//! The bus: which memory a bus address names. Every address from outside is checked here, once, before memory is touched.
//! It translates no virtual addresses ([`crate::mmu`] does) and keeps nothing but the memories and the place of the
//! aperture table. Called by the MMU, by physical commands and by the CMP.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use device_port::{CpuCaches, Iommu};
use shared_words::Memory;
use softgpu_spec::bus::{
    APERTURE_BASE, CPU_APERTURE_BASE, CPU_BAR_BASE, CPU_WINDOW_BASE, PAGE_BYTES, Place, SYSTEM_BASE, aperture_entry,
    place,
};
use softgpu_spec::page_table::{ADDRESS, ENTRY_BYTES, Shape, process_space};
use softgpu_spec::register::fault;

use crate::ranges::Ranges;
use crate::window::CpuWindow;

/// Memory that exists, or the page of zeros. The aperture is no site: it leads to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// Byte of local memory.
    Local(u64),
    /// Byte of system memory.
    System(u64),
    /// Byte of system memory that the CPU's caches hold, for an access that snoops.
    Cached(u64),
    /// Reads 0, drops writes.
    Zero,
}

impl Site {
    /// The bus address without the detour through the aperture. All ones for the page of zeros.
    pub(crate) fn bus(self) -> u64 {
        match self {
            Site::Local(offset) => offset,
            Site::System(offset) | Site::Cached(offset) => SYSTEM_BASE + offset,
            Site::Zero => u64::MAX,
        }
    }

    pub(crate) fn plus(self, bytes: u64) -> Site {
        match self {
            Site::Local(offset) => Site::Local(offset + bytes),
            Site::System(offset) => Site::System(offset + bytes),
            Site::Cached(offset) => Site::Cached(offset + bytes),
            Site::Zero => Site::Zero,
        }
    }

    /// Whether it lies behind the bus.
    pub(crate) fn is_system(self) -> bool {
        matches!(self, Site::System(_) | Site::Cached(_))
    }
}

/// Bytes that lie in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) site: Site,
    pub(crate) bytes: u64,
}

/// A page table that exists.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a> {
    pub(crate) memory: &'a Memory,
    /// Where in that memory.
    pub(crate) offset: u64,
}

/// Why an access failed, for a fault record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Virtual address, or bus address of a physical access.
    pub(crate) address: u64,
    /// One of [`softgpu_spec::register::fault`].
    pub(crate) cause: u64,
    /// Level of the page table that said so.
    pub(crate) level: u32,
}

/// Reads of the page of zeros find `ZERO`, and writes to it go to `DROPPED`.
static ZERO: AtomicU64 = AtomicU64::new(0);
static DROPPED: AtomicU64 = AtomicU64::new(0);

pub(crate) struct Bus {
    pub(crate) local: Arc<Memory>,
    pub(crate) system: Arc<Memory>,
    aperture_bytes: u64,
    /// Byte offset of the aperture table; any number, checked at each use.
    aperture_table: AtomicU64,
    pub(crate) window: CpuWindow,
    /// How virtual addresses are cut.
    pub(crate) shape: Shape,
    pub(crate) ranges: Ranges,
    /// The platform that translates the addresses of processes, once the device stands behind it.
    iommu: OnceLock<Arc<dyn Iommu>>,
    /// The CPU's caches, where they are played and the device snoops them.
    caches: OnceLock<Arc<dyn CpuCaches>>,
}

impl Bus {
    pub(crate) fn new(local: Arc<Memory>, system: Arc<Memory>, aperture_bytes: u64, shape: Shape) -> Bus {
        let aperture_bytes = aperture_bytes.min(CPU_WINDOW_BASE - APERTURE_BASE) / PAGE_BYTES * PAGE_BYTES;
        Bus {
            local,
            system,
            aperture_bytes,
            aperture_table: AtomicU64::new(0),
            window: CpuWindow::default(),
            ranges: Ranges::default(),
            shape,
            iommu: OnceLock::new(),
            caches: OnceLock::new(),
        }
    }

    /// Puts the device behind an IOMMU, for good.
    pub(crate) fn connect(&self, iommu: Arc<dyn Iommu>) {
        let second = self.iommu.set(iommu).is_err();
        assert!(!second, "a device stands behind one IOMMU");
    }

    /// Puts the device behind a coherent bus with these caches, for good.
    pub(crate) fn snoop(&self, caches: Arc<dyn CpuCaches>) {
        let second = self.caches.set(caches).is_err();
        assert!(!second, "a computer's CPU has its caches once");
    }

    pub(crate) fn snoops(&self) -> bool {
        self.caches.get().is_some()
    }

    /// Where an access that snoops gets to.
    pub(crate) fn snooped(&self, site: Site) -> Site {
        match (site, self.caches.get()) {
            (Site::System(offset), Some(caches)) if caches.holds(offset / PAGE_BYTES) => Site::Cached(offset),
            _ => site,
        }
    }

    /// How far a run goes on for accesses that snoop: a line that the caches hold lies in another memory.
    pub(crate) fn snooped_run(&self, run: Run) -> Run {
        let (Site::System(first), true) = (run.site, self.snoops()) else { return run };
        let site = self.snooped(run.site);
        let mut length = PAGE_BYTES - first % PAGE_BYTES;
        while length < run.bytes && self.snooped(Site::System(first + length)) == site.plus(length) {
            length += PAGE_BYTES;
        }
        Run { site, bytes: length.min(run.bytes) }
    }

    pub(crate) fn iommu(&self) -> Option<&dyn Iommu> {
        self.iommu.get().map(Arc::as_ref)
    }

    pub(crate) fn pasid_bits(&self) -> u32 {
        if self.iommu.get().is_some() { process_space::PASID_BITS } else { 0 }
    }

    pub(crate) fn aperture_bytes(&self) -> u64 {
        self.aperture_bytes
    }

    pub(crate) fn aperture_table(&self) -> u64 {
        self.aperture_table.load(Ordering::Relaxed)
    }

    pub(crate) fn set_aperture_table(&self, offset: u64) {
        self.aperture_table.store(offset, Ordering::Relaxed);
    }

    /// Where the CPU gets to at a bus address: byte of local memory, and how many follow it.
    pub(crate) fn seen_by_cpu(&self, bus: u64) -> Option<(u64, u64)> {
        if let Some(shown) = self.ranges.shown(bus) {
            return Some(shown);
        }
        let (offset, bytes) = self.seen_as_it_lies(bus)?;
        Some((offset, bytes.min(self.ranges.distance(bus))))
    }

    /// Where the CPU gets to through the aperture: byte of system memory, and how many follow it on its page.
    pub(crate) fn seen_through_aperture(&self, bus: u64) -> Option<(u64, u64)> {
        let offset = bus.checked_sub(CPU_APERTURE_BASE).filter(|offset| *offset < self.aperture_bytes)?;
        match self.redirected(offset) {
            Ok(Site::System(system) | Site::Cached(system)) => Some((system, PAGE_BYTES - offset % PAGE_BYTES)),
            _ => None,
        }
    }

    fn seen_as_it_lies(&self, bus: u64) -> Option<(u64, u64)> {
        match bus {
            CPU_WINDOW_BASE..CPU_BAR_BASE => self.window.shown(bus - CPU_WINDOW_BASE),
            CPU_BAR_BASE..SYSTEM_BASE => {
                let (offset, end) = (bus - CPU_BAR_BASE, self.local.bytes());
                (offset < end).then(|| (offset, end - offset))
            }
            _ => None,
        }
    }

    /// The page table at a bus address, its first `entries` entries: in local or in system memory.
    #[inline]
    pub(crate) fn table(&self, bus: u64, entries: u64) -> Option<Table<'_>> {
        let (memory, offset) = match place(bus) {
            Place::Local(offset) => (&*self.local, offset),
            Place::System(offset) => (&*self.system, offset),
            Place::Aperture(_) => return None,
        };
        let whole = offset.is_multiple_of(PAGE_BYTES) && memory.contains(offset, entries * ENTRY_BYTES);
        whole.then_some(Table { memory, offset })
    }

    /// Where a bus address leads.
    #[inline]
    pub(crate) fn site(&self, bus: u64) -> Result<Site, Fault> {
        let refused = |cause| Fault { address: bus, cause, level: 0 };
        match place(bus) {
            Place::Local(offset) if offset < self.local.bytes() => Ok(Site::Local(offset)),
            Place::System(offset) if offset < self.system.bytes() => Ok(Site::System(offset)),
            Place::Aperture(offset) if offset < self.aperture_bytes => self.redirected(offset).map_err(refused),
            _ => Err(refused(fault::BAD_ADDRESS)),
        }
    }

    /// Where a page at a bus address lies, if that changes by nothing: in the aperture it does.
    pub(crate) fn page_that_stays(&self, bus: u64) -> Option<Site> {
        let exists = |memory: &Memory, offset| memory.contains(offset, PAGE_BYTES);
        match place(bus) {
            Place::Local(offset) if exists(&self.local, offset) => Some(Site::Local(offset)),
            Place::System(offset) if exists(&self.system, offset) => Some(Site::System(offset)),
            _ => None,
        }
    }

    /// The longest piece from `bus` on, `bytes` at most.
    pub(crate) fn run(&self, bus: u64, bytes: u64) -> Result<Run, Fault> {
        let site = self.site(bus)?;
        let bytes = match (site, place(bus)) {
            (_, Place::Aperture(offset)) => self.aperture_run(offset, site, bytes),
            (Site::Local(offset), _) => bytes.min(self.local.bytes() - offset),
            (Site::System(offset) | Site::Cached(offset), _) => bytes.min(self.system.bytes() - offset),
            (Site::Zero, _) => bytes,
        };
        Ok(Run { site, bytes })
    }

    /// The word at an aligned site, for loads.
    #[inline(always)]
    pub(crate) fn read_word(&self, site: Site) -> &AtomicU64 {
        match site {
            Site::Local(offset) => self.local.word(offset),
            Site::System(offset) => self.system.word(offset),
            Site::Cached(offset) => self.lines().word(offset),
            Site::Zero => &ZERO,
        }
    }

    /// The word at an aligned site, for stores.
    #[inline(always)]
    pub(crate) fn write_word(&self, site: Site) -> &AtomicU64 {
        match site {
            Site::Zero => &DROPPED,
            other => self.read_word(other),
        }
    }

    /// Memory and offset of a site; nothing for the page of zeros.
    pub(crate) fn memory(&self, site: Site) -> Option<(&Memory, u64)> {
        match site {
            Site::Local(offset) => Some((&self.local, offset)),
            Site::System(offset) => Some((&self.system, offset)),
            Site::Cached(offset) => Some((self.lines(), offset)),
            Site::Zero => None,
        }
    }

    fn lines(&self) -> &Memory {
        self.caches.get().expect("nothing else leads to a line").lines()
    }

    /// The words of `count` aperture entries from `first`, if such entries exist: their offset in local memory.
    pub(crate) fn aperture_entries(&self, first: u64, count: u64) -> Option<u64> {
        let end = first.checked_add(count)?;
        if end > self.aperture_bytes / PAGE_BYTES {
            return None;
        }
        let offset = self.aperture_table().checked_add(first * 8)?;
        (offset.is_multiple_of(8) && self.local.contains(offset, count * 8)).then_some(offset)
    }

    /// Follows the aperture table for one byte.
    fn redirected(&self, offset: u64) -> Result<Site, u64> {
        let entry = self.aperture_entries(offset / PAGE_BYTES, 1).ok_or(fault::BAD_ADDRESS)?;
        let entry = self.local.word(entry).load(Ordering::Acquire);
        if entry & aperture_entry::VALID == 0 {
            return Err(fault::NOT_PRESENT);
        }
        let system = (entry & ADDRESS) + offset % PAGE_BYTES;
        if system >= self.system.bytes() {
            return Err(fault::BAD_ADDRESS);
        }
        let site = Site::System(system);
        Ok(if entry & aperture_entry::COHERENT == 0 { site } else { self.snooped(site) })
    }

    /// How far the aperture leads to consecutive system pages.
    fn aperture_run(&self, offset: u64, site: Site, bytes: u64) -> u64 {
        let mut length = PAGE_BYTES - offset % PAGE_BYTES;
        while length < bytes
            && offset + length < self.aperture_bytes
            && self.redirected(offset + length) == Ok(site.plus(length))
        {
            length += PAGE_BYTES;
        }
        length.min(bytes)
    }
}
