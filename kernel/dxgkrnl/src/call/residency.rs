//! Calls about content that must be resident or may go (memory §5).

use kmt_calls::{ProcessAccess, Refusal, Reply, ResidencyCall};

use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::number::NtHandleNumber;
use crate::store::ObjectNumber;

impl Turn<'_> {
    pub(super) fn on_residency(&mut self, cx: &mut Cx<'_>, call: ResidencyCall) -> Result<Answer, Refusal> {
        match call {
            ResidencyCall::MakeResident { paging_queue, allocations, flags } => {
                let (index, queue) = self.paging_queue(paging_queue)?;
                self.alive(index, self.adapters[index].device_of_paging_queue(queue))?;
                let list = self.allocations(index, &allocations)?;
                self.adapters[index]
                    .make_resident(cx, queue, &list, flags)
                    .and_then(|residency| done(Reply::Residency(residency)))
            }
            // [R]: no published source says more of the call than its name.
            ResidencyCall::FlushHeapTransitions { adapter } => {
                let index = self.adapter(adapter)?;
                self.about = Some(index);
                Ok(self.adapters[index].after_ring(cx, self.token, Reply::Done))
            }
            ResidencyCall::Evict { device, allocations, flags } => {
                let (index, device) = self.live_device(device)?;
                let list = self.allocations(index, &allocations)?;
                self.adapters[index].evict(cx, device, &list, flags).and_then(|bytes| done(Reply::BytesToTrim(bytes)))
            }
            ResidencyCall::OfferAllocations { device, list, priority, flags } => {
                self.offer_allocations(cx, (device, &list), (priority, flags))
            }
            ResidencyCall::ReclaimAllocations { device, list, asks } => {
                self.reclaim_allocations(cx, (device, &list), asks)
            }
            ResidencyCall::ReclaimAllocations2 { paging_queue, list } => {
                self.reclaim_by_queue(cx, (paging_queue, &list))
            }
            ResidencyCall::ChangeVideoMemoryReservation { process, adapter, local, reservation_bytes } => {
                let index = self.adapter(adapter)?;
                let process = self.nt_handles.process(
                    self.from,
                    NtHandleNumber::from_raw(process),
                    ProcessAccess::SET_INFORMATION,
                )?;
                self.adapters[index].running()?;
                self.about = Some(index);
                self.adapters[index].change_reservation(process, local, reservation_bytes)?;
                done(Reply::Done)
            }
        }
    }
}
