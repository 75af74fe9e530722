//! Calls about content that its process can do without, and its return (memory §5.9): the allocations that they name, and the
//! result for each.

use kmt_calls::{OfferFlags, OfferList, ReclaimResult, Refusal, Reply};
use wddm_types::{AdapterIndex, RawHandle};

use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::number::{AllocationNumber, DeviceNumber};

/// The allocations of a list.
struct Offerable {
    numbers: Vec<AllocationNumber>,
    /// How many of them each name stands for.
    parts: Vec<usize>,
}

impl Turn<'_> {
    /// `D3DKMTOfferAllocations`.
    // spec: memory §5.9
    pub(super) fn offer_allocations(
        &mut self,
        cx: &mut Cx<'_>,
        (device, list): (RawHandle, &OfferList),
        (priority, flags): (u32, OfferFlags),
    ) -> Result<Answer, Refusal> {
        let (index, device) = self.live_device(device)?;
        let offered = self.offerable(index, device, list)?;
        self.adapters[index].offer(cx, device, &offered.numbers, priority, flags)?;
        done(Reply::Done)
    }

    /// `D3DKMTReclaimAllocations`; `asks`: its caller has room for the results.
    // spec: memory §5.9
    pub(super) fn reclaim_allocations(
        &mut self,
        cx: &mut Cx<'_>,
        (device, list): (RawHandle, &OfferList),
        asks: bool,
    ) -> Result<Answer, Refusal> {
        let (index, device) = self.live_device(device)?;
        let offered = self.offerable(index, device, list)?;
        let adapter = &mut self.adapters[index];
        let results = adapter.reclaim(cx, device, &offered.numbers, asks)?;
        let lost = offered.of_each(&results).into_iter().map(|result| result != ReclaimResult::Ok);
        let lost = if asks { lost.collect() } else { Vec::new() };
        Ok(adapter.after_ring(cx, self.token, Reply::Discarded(lost)))
    }

    /// `D3DKMTReclaimAllocations2`, whose paging queue says when the content is there.
    // spec: memory §5.9
    pub(super) fn reclaim_by_queue(
        &mut self,
        cx: &mut Cx<'_>,
        (paging_queue, list): (RawHandle, &OfferList),
    ) -> Result<Answer, Refusal> {
        let (index, queue) = self.paging_queue(paging_queue)?;
        let device = self.adapters[index].device_of_paging_queue(queue);
        self.alive(index, device)?;
        let offered = self.offerable(index, device, list)?;
        let adapter = &mut self.adapters[index];
        let (results, paging_fence_value) = adapter.reclaim2(cx, queue, &offered.numbers)?;
        done(Reply::Reclaimed { results: offered.of_each(&results), paging_fence_value })
    }

    fn offerable(&self, index: AdapterIndex, device: DeviceNumber, list: &OfferList) -> Result<Offerable, Refusal> {
        let resources = match list {
            OfferList::Allocations(handles) => {
                let numbers = self.allocations(index, handles)?;
                return Ok(Offerable { parts: vec![1; numbers.len()], numbers });
            }
            OfferList::Resources(resources) => resources,
        };
        let (mut numbers, mut parts) = (Vec::new(), Vec::new());
        for handle in resources {
            let resource = self.resource_of(index, device, *handle)?;
            let members = self.adapters[index].members_of(resource);
            parts.push(members.len());
            numbers.extend(members);
        }
        Ok(Offerable { numbers, parts })
    }
}

impl Offerable {
    /// The result for each name: for a resource the worst of its allocations.
    // spec: memory §5.9, memory §9.2
    fn of_each(&self, results: &[ReclaimResult]) -> Vec<ReclaimResult> {
        let mut rest = results;
        let worst = |count: &usize| {
            let (own, others) = rest.split_at(*count);
            rest = others;
            own.iter().copied().max().unwrap_or(ReclaimResult::Ok)
        };
        self.parts.iter().map(worst).collect()
    }
}
