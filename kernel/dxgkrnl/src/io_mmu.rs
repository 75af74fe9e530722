//! The IoMmu model (memory §4.1): the GPU uses a process's CPU addresses, and the platform's IOMMU translates them by the
//! process's number, its PASID. The kernel owns the processes' CPU page tables, so it is the kernel that writes them, at
//! the places of the paging ring where it would have a GPU write its own. It decides nothing about residency. The ring, start, and the
//! creation and end of processes call it.

use std::collections::{BTreeMap, BTreeSet};

use events::Event;
use kmt_calls::Refusal;
use vidmm::{AllocationId, Operation, SpaceId};
use wddm_types::{CpuVa, PageRun, Pasid, ProcessId};

use crate::adapter::Adapter;
use crate::allocations::AllocationNumber;
use crate::effect::Cx;
use crate::platform::IoMmu;
use crate::refusal::no_memory;
use crate::store::ObjectNumber;

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
    fn are_there(&self) -> bool {
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
        self.next += 1;
        Ok(Some(Pasid(self.next - 1)))
    }

    /// The process is there, with this space.
    pub fn enter(&mut self, space: SpaceId, pasid: Option<Pasid>) {
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
            self.free.insert(pasid);
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

/// The result of [`Adapter::give_addresses`].
#[derive(Debug, Default)]
pub struct Given {
    /// The allocations that had none before.
    pub fresh: Vec<AllocationId>,
    /// Some of it is resident, and is shown when the ring has got so far.
    pub shown_later: bool,
}

/// Every number of a process is taken (scarcity).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no process number is left at the IOMMU")]
pub struct OutOfPasids;

impl Adapter {
    /// Whether the adapter is of the IoMmu model: the GPU uses the CPU's addresses of a process.
    pub fn uses_cpu_addresses(&self) -> bool {
        self.memory.pasids.are_there()
    }

    /// Whether engines have addresses of processes at all, their own or the CPU's.
    pub fn has_addresses(&mut self) -> bool {
        self.uses_cpu_addresses() || self.driver.facets().gpu_va
    }

    /// Gives the allocations of a call their addresses in the process, all or none. Nothing to do on adapters of other models,
    /// and for what the process has already.
    // spec: memory §4.1
    pub fn give_addresses(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        allocations: &[AllocationId],
        write: bool,
    ) -> Result<Given, Refusal> {
        let mut given = Given::default();
        if !self.uses_cpu_addresses() {
            return Ok(given);
        }
        let space = self.owners.space_of(process);
        for &id in allocations {
            if self.vidmm.cpu_address(space, id).is_some() {
                continue;
            }
            match self.vidmm.give_cpu_address(space, id, write) {
                Ok(work) => {
                    given.fresh.push(id);
                    if work.is_some() {
                        given.shown_later = true;
                        self.queue_work(cx, process, None, work, Vec::new());
                    }
                }
                Err(error) => {
                    self.take_addresses(cx, process, &given.fresh);
                    return Err(no_memory(error.to_string()));
                }
            }
        }
        Ok(given)
    }

    /// Tells traces where a process has an allocation, when that has just been decided.
    pub fn announce_address(
        &self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        id: AllocationId,
        allocation: AllocationNumber,
    ) {
        let CpuVa(va) = self.address_of(process, id);
        if va != 0 {
            let size_bytes = self.vidmm.allocation_bytes(id);
            cx.emit(
                self.index,
                Event::GpuVaMapped { process: process.0, va, size_bytes, allocation: allocation.raw() },
            );
        }
    }

    /// Takes back what was given for a call that failed later.
    pub fn take_addresses(&mut self, cx: &mut Cx<'_>, process: ProcessId, allocations: &[AllocationId]) {
        let space = self.owners.space_of(process);
        for &id in allocations {
            let work = self.vidmm.take_cpu_address(space, id);
            self.queue_any(cx, process, work);
        }
    }

    /// Where a process has an allocation, on an adapter of this model; else NULL.
    pub fn address_of(&self, process: ProcessId, allocation: AllocationId) -> CpuVa {
        let space = self.owners.facts_of_process(process).map(|facts| facts.space);
        space.and_then(|space| self.vidmm.cpu_address(space, allocation)).unwrap_or(CpuVa::NULL)
    }
}

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
