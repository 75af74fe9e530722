//! The platform's IOMMU: the CPU page tables of processes as devices see them (memory §4.1). The kernel writes them, the
//! device behind it asks, and neither knows the other. It holds pieces: a piece of a process's addresses leads to consecutive pages of
//! system memory.
//!
//! Lock order: the kernel's lock, or an engine's state, then the tables. The IOMMU releases the tables' lock before it tells a device to
//! forget translations, because the device may be asking at that moment.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use device_port::{Iommu as Translator, IommuRun, TranslationCache};
use dxgkrnl::IoMmu;
use wddm_types::{CpuVa, PAGE_BYTES, PageRun, Pages, Pasid};

/// The IOMMU of one device.
#[derive(Default)]
pub struct Iommu {
    tables: RwLock<BTreeMap<u32, Table>>,
    device: OnceLock<Weak<dyn TranslationCache>>,
}

/// Pieces of a process's addresses by their first page. None overlaps another.
type Table = BTreeMap<u64, Piece>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    pages: u64,
    system_page: u64,
    writable: bool,
}

impl Iommu {
    /// An IOMMU with nothing behind it yet.
    pub fn new() -> Arc<Iommu> {
        Arc::new(Iommu::default())
    }

    /// Puts a device behind it, once: the device forgets cached translations when the kernel changes them.
    pub fn attach(&self, device: Weak<dyn TranslationCache>) {
        let second = self.device.set(device).is_err();
        assert!(!second, "one device stands behind it");
    }

    fn forget(&self, pasid: Pasid, first: u64, last: u64) {
        if let Some(device) = self.device.get().and_then(Weak::upgrade) {
            device.invalidate(pasid.0, first, last);
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut BTreeMap<u32, Table>) -> R) -> R {
        change(&mut self.tables.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Shows the number of pieces and no address: so traces of a run are the same for the same calls.
impl std::fmt::Debug for Iommu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pieces: usize =
            self.tables.read().unwrap_or_else(PoisonError::into_inner).values().map(BTreeMap::len).sum();
        write!(f, "an IOMMU with {pieces} pieces")
    }
}

impl IoMmu for Iommu {
    fn map(&self, pasid: Pasid, first: CpuVa, run: PageRun, writable: bool) {
        let first = first.0 / PAGE_BYTES;
        self.change(|tables| {
            let table = tables.entry(pasid.0).or_default();
            cut_out(table, first, run.count.0);
            table.insert(first, Piece { pages: run.count.0, system_page: run.first, writable });
        });
    }

    fn unmap(&self, pasid: Pasid, first: CpuVa, count: Pages) {
        self.change(|tables| {
            if let Some(table) = tables.get_mut(&pasid.0) {
                cut_out(table, first.0 / PAGE_BYTES, count.0);
            }
        });
    }

    fn invalidate(&self, pasid: Pasid, first: CpuVa, last: CpuVa) {
        self.forget(pasid, first.0, last.0);
    }

    fn release(&self, pasid: Pasid) {
        self.change(|tables| tables.remove(&pasid.0));
        self.forget(pasid, 0, 0);
    }
}

impl Translator for Iommu {
    fn translate(&self, pasid: u32, page: u64, pages_max: u64) -> Option<IommuRun> {
        let tables = self.tables.read().unwrap_or_else(PoisonError::into_inner);
        let table = tables.get(&pasid)?;
        let (&first, piece) = table.range(..=page).next_back()?;
        let within = page - first;
        if within >= piece.pages {
            return None;
        }
        let (system_page, writable) = (piece.system_page + within, piece.writable);
        let mut pages = piece.pages - within;
        // Pieces that continue each other are one run.
        for (&next, piece) in table.range(page + 1..) {
            let goes_on = next == page + pages
                && piece.system_page == system_page + pages
                && piece.writable == writable
                && pages < pages_max;
            if !goes_on {
                break;
            }
            pages += piece.pages;
        }
        Some(IommuRun { system_page, pages: pages.min(pages_max), writable })
    }
}

/// Takes a range out of a table; the parts of pieces outside the range stay.
fn cut_out(table: &mut Table, first: u64, count: u64) {
    let end = first + count;
    let from = table.range(..=first).next_back().map_or(first, |(&at, _)| at);
    let touched: Vec<(u64, Piece)> = table.range(from..end).map(|(&at, &piece)| (at, piece)).collect();
    for (at, piece) in touched.into_iter().filter(|(at, piece)| at + piece.pages > first) {
        table.remove(&at);
        if at < first {
            table.insert(at, Piece { pages: first - at, ..piece });
        }
        if at + piece.pages > end {
            let gone = end - at;
            let rest = Piece { pages: piece.pages - gone, system_page: piece.system_page + gone, ..piece };
            table.insert(end, rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const PASID: Pasid = Pasid(3);

    fn va(page: u64) -> CpuVa {
        CpuVa(page * PAGE_BYTES)
    }

    fn run(first: u64, pages: u64) -> PageRun {
        PageRun { first, count: Pages(pages) }
    }

    #[derive(Default)]
    struct Told(Mutex<Vec<(u32, u64, u64)>>);

    impl TranslationCache for Told {
        fn invalidate(&self, pasid: u32, first: u64, last: u64) {
            self.0.lock().unwrap().push((pasid, first, last));
        }
    }

    /// A page-by-page table gives the same translations, however mappings overlap.
    #[test]
    fn every_page_leads_where_it_was_mapped_last() {
        let iommu = Iommu::new();
        let mut naive: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut dice = |sides: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % sides
        };
        for _ in 0..2000 {
            let (first, pages) = (1 + dice(60), 1 + dice(20));
            if dice(3) == 0 {
                iommu.unmap(PASID, va(first), Pages(pages));
                naive.retain(|page, _| !(first..first + pages).contains(page));
            } else {
                let (system, writable) = (dice(100), dice(2) == 0);
                iommu.map(PASID, va(first), run(system, pages), writable);
                naive.extend((0..pages).map(|page| (first + page, (system + page, writable))));
            }
            for page in 0..90 {
                let most = 1 + dice(30);
                let found = iommu.translate(PASID.0, page, most);
                assert_eq!(found.map(|run| (run.system_page, run.writable)), naive.get(&page).copied(), "page {page}");
                let Some(found) = found else { continue };
                assert!(found.pages >= 1 && found.pages <= most);
                for next in 0..found.pages {
                    assert_eq!(naive.get(&(page + next)), Some(&(found.system_page + next, found.writable)));
                }
                if found.pages < most {
                    let beyond = naive.get(&(page + found.pages));
                    assert_ne!(beyond, Some(&(found.system_page + found.pages, found.writable)), "the run is whole");
                }
            }
            assert_eq!(iommu.translate(PASID.0 + 1, first, 1), None, "another process has nothing");
        }
    }

    #[test]
    fn a_number_that_is_released_leads_nowhere_and_is_forgotten() {
        let (iommu, told) = (Iommu::new(), Arc::new(Told::default()));
        let device: Arc<dyn TranslationCache> = Arc::clone(&told) as Arc<dyn TranslationCache>;
        iommu.attach(Arc::downgrade(&device));
        iommu.map(PASID, va(5), run(9, 2), true);
        iommu.invalidate(PASID, va(5), CpuVa(7 * PAGE_BYTES - 1));
        iommu.release(PASID);
        assert_eq!(iommu.translate(PASID.0, 5, 1), None);
        assert_eq!(*told.0.lock().unwrap(), [(3, 5 * PAGE_BYTES, 7 * PAGE_BYTES - 1), (3, 0, 0)]);
        drop((device, told));
        iommu.release(PASID);
    }
}
