//! The IoMmu model (memory §4.1): the GPU uses a process's CPU addresses, and the platform's IOMMU translates them by the
//! process's number, its PASID. The kernel owns the processes' CPU page tables, so it is the kernel that writes them, at
//! the places of the paging ring where it would have a GPU write its own. It decides nothing about residency and asks no other part. The
//! ring, start, and the creation and end of processes call it; `adapter::io_mmu` gives allocations their addresses.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::{Operation, SpaceId};
use wddm_types::{CpuVa, PageRun, Pasid};

use crate::platform::IoMmu;

/// Numbers of processes, of 20 bits. 0 is what a request without a number has.
const PASID_END: u32 = 1 << 20;

/// The processes of an adapter at its IOMMU. Without one no process has a number.
#[derive(Debug, Default)]
pub struct Pasids {
    by_space: BTreeMap<SpaceId, Pasid>,
    /// Numbers given back.
    free: BTreeSet<Pasid>,
    /// The lowest number that no process ever had; 0: the adapter is of another model.
    next: u32,
}

impl Pasids {
    /// All numbers at the IOMMU of an adapter of the model.
    pub fn of_the_model() -> Pasids {
        Pasids { next: 1, ..Pasids::default() }
    }

    /// Whether processes have numbers here.
    pub fn are_there(&self) -> bool {
        self.next != 0
    }

    /// A number for a process that is being made: `None` without an IOMMU.
    ///
    /// # Errors
    /// Scarcity: all are taken.
    pub fn take(&mut self) -> Result<Option<Pasid>, OutOfPasids> {
        if !self.are_there() {
            return Ok(None);
        }
        if let Some(free) = self.free.pop_first() {
            return Ok(Some(free));
        }
        if self.next == PASID_END {
            return Err(OutOfPasids);
        }
        debug_assert!((1..PASID_END).contains(&self.next), "a process's number is one of the IOMMU's: {}", self.next);
        self.next += 1;
        Ok(Some(Pasid(self.next - 1)))
    }

    /// The process is there, with this space.
    pub fn enter(&mut self, space: SpaceId, pasid: Option<Pasid>) {
        debug_assert!(!self.by_space.contains_key(&space), "a space has one number: {space:?}");
        debug_assert_eq!(pasid.is_some(), self.are_there(), "on an adapter of the model each process has a number");
        self.by_space.extend(pasid.map(|pasid| (space, pasid)));
    }

    /// The process was not made after all.
    pub fn give_back(&mut self, pasid: Option<Pasid>) {
        self.free.extend(pasid);
    }

    /// Nothing uses the space any more.
    pub fn leave(&mut self, platform: Option<&dyn IoMmu>, space: SpaceId) {
        if let (Some(pasid), Some(platform)) = (self.by_space.remove(&space), platform) {
            platform.release(pasid);
            let fresh = self.free.insert(pasid);
            debug_assert!(fresh, "a number is given back once: {pasid:?}");
        }
    }

    /// The number of the process with this space.
    pub fn of(&self, space: SpaceId) -> Option<Pasid> {
        self.by_space.get(&space).copied()
    }

    /// Whether an operation is the platform's, not the driver's.
    pub fn carries_out(&self, operation: &Operation) -> bool {
        self.are_there() && matches!(operation, Operation::PlatformEntries { .. } | Operation::FlushTlb { .. })
    }

    /// Carries out an operation that is the platform's; false for all others.
    // spec: memory §4.1
    pub fn carry_out(&self, platform: Option<&dyn IoMmu>, operation: &Operation) -> bool {
        let Some(platform) = platform.filter(|_| self.are_there()) else { return false };
        // PANIC: a space keeps its number until the ring has got past every operation on it.
        match operation {
            Operation::PlatformEntries { space, first, count, shows: Some(page), writable } => {
                let run = PageRun { first: *page, count: *count };
                platform.map(self.by_space[space], *first, run, *writable);
            }
            Operation::PlatformEntries { space, first, count, shows: None, .. } => {
                platform.unmap(self.by_space[space], *first, *count);
            }
            Operation::FlushTlb { space, start, end, .. } => {
                platform.invalidate(self.by_space[space], CpuVa(start.0), CpuVa(end.0));
            }
            _ => return false,
        }
        true
    }
}

/// Every number of a process is taken (scarcity).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no process number is left at the IOMMU")]
pub struct OutOfPasids;

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use wddm_types::{PAGE_BYTES, Pages};

    use super::*;

    #[derive(Debug, Default)]
    struct Released(Mutex<Vec<u32>>);

    impl IoMmu for Released {
        fn map(&self, _pasid: Pasid, _first: CpuVa, _run: PageRun, _writable: bool) {}
        fn unmap(&self, _pasid: Pasid, _first: CpuVa, _count: Pages) {}
        fn invalidate(&self, _pasid: Pasid, _first: CpuVa, _last: CpuVa) {}
        fn release(&self, pasid: Pasid) {
            self.0.lock().unwrap().push(pasid.0);
        }
    }

    #[test]
    fn a_number_is_one_process_s_until_nothing_uses_its_space() {
        // spec: memory §4.1
        let platform = Released::default();
        let mut pasids = Pasids::of_the_model();
        let mut mm: vidmm::VidMm<u8> = {
            let run = PageRun { first: 0, count: Pages(64) };
            let aperture = ddi::SegmentDescriptor4 {
                flags: ddi::SegmentFlags::APERTURE,
                size_bytes: 64 * PAGE_BYTES,
                commit_limit_bytes: 64 * PAGE_BYTES,
                ..Default::default()
            };
            vidmm::VidMm::with_cpu_addresses(vidmm::Policy::new(run), &[aperture]).expect("it keeps the rules")
        };
        let mut space = || mm.create_space(vidmm::SpaceKind::Process).expect("it takes nothing").0;
        let (first, second) = (space(), space());
        for (space, number) in [(first, 1), (second, 2)] {
            let pasid = pasids.take().expect("enough");
            assert_eq!(pasid, Some(Pasid(number)), "no process gets 0");
            pasids.enter(space, pasid);
        }
        let third = pasids.take().expect("enough");
        pasids.give_back(third);
        pasids.leave(Some(&platform), first);
        assert_eq!(*platform.0.lock().unwrap(), [1]);
        assert_eq!((pasids.of(first), pasids.of(second)), (None, Some(Pasid(2))));
        assert_eq!(pasids.take(), Ok(Some(Pasid(1))), "the lowest that is free");
        pasids.next = PASID_END;
        assert_eq!(pasids.take(), Ok(third));
        assert_eq!(pasids.take(), Err(OutOfPasids));
        assert_eq!(Pasids::default().take(), Ok(None), "without an IOMMU no process has a number");
    }
}
