//! Calls about content that must be resident or may go, and notifications of it (memory §5).

use kmt_calls::{Call, NotificationCall, ProcessAccess, Refusal, Reply};
use wddm_types::AdapterIndex;

use crate::call::{Turn, done};
use crate::machine::{Answer, Cx};
use crate::notification::RegistrationKind;
use crate::object::Object;
use crate::refusal::invalid;

impl Turn<'_> {
    pub(super) fn on_residency(
        &mut self,
        cx: &mut Cx<'_>,
        call: Call,
        touched: &mut Option<AdapterIndex>,
    ) -> Result<Answer, Refusal> {
        match call {
            Call::MakeResident { paging_queue, allocations, flags } => {
                let (index, queue) = self.paging_queue(paging_queue)?;
                self.alive(index, self.adapters[index.0 as usize].paging_queues[queue].device, touched)?;
                let list = self.allocations(index, &allocations)?;
                self.adapters[index.0 as usize]
                    .make_resident(cx, queue, &list, flags)
                    .and_then(|residency| done(Reply::Residency(residency)))
            }
            Call::Evict { device, allocations, flags } => {
                let (index, device) = self.live_device(device, touched)?;
                let list = self.allocations(index, &allocations)?;
                self.adapters[index.0 as usize]
                    .evict(cx, device, &list, flags)
                    .and_then(|bytes| done(Reply::BytesToTrim(bytes)))
            }
            Call::Notification(NotificationCall::RegisterTrim { adapter, device }) => {
                let (index, _) = self.live_device(device, touched)?;
                let is = self.adapters[index.0 as usize].luid;
                if let Some(other) = adapter.filter(|adapter| *adapter != is) {
                    return Err(invalid(format!("the device is on the adapter {is:?}, not on {other:?}")));
                }
                self.register(device, RegistrationKind::Trim, touched)
            }
            Call::Notification(NotificationCall::RegisterBudgetChange { device }) => {
                self.register(device, RegistrationKind::Budget, touched)
            }
            Call::Notification(NotificationCall::Unregister { registration }) => {
                let (index, number) = self.registration(registration)?;
                self.adapters[index.0 as usize].registrations.remove(number);
                self.process.handles.remove(registration);
                done(Reply::Done)
            }
            Call::OfferAllocations { device, list, priority, flags } => {
                self.offer_allocations(cx, (device, &list), (priority, flags), touched)
            }
            Call::ReclaimAllocations { device, list, asks } => {
                self.reclaim_allocations(cx, (device, &list), asks, touched)
            }
            Call::ReclaimAllocations2 { paging_queue, list } => {
                self.reclaim_by_queue(cx, (paging_queue, &list), touched)
            }
            Call::ChangeVideoMemoryReservation { process, adapter, local, reservation_bytes } => {
                let index = self.adapter(adapter)?;
                let process = self.nt_handles.process(self.from, process, ProcessAccess::SET_INFORMATION)?;
                self.adapters[index.0 as usize].life.running()?;
                *touched = Some(index);
                self.adapters[index.0 as usize].change_reservation(process, local, reservation_bytes)?;
                done(Reply::Done)
            }
            call => self.on_share(cx, call, touched),
        }
    }

    fn register(
        &mut self,
        device: wddm_types::RawHandle,
        kind: RegistrationKind,
        touched: &mut Option<AdapterIndex>,
    ) -> Result<Answer, Refusal> {
        let (index, device) = self.live_device(device, touched)?;
        let number = self.adapters[index.0 as usize].registrations.next_number();
        let handle = self.name(Object::Registration(index, number))?;
        self.adapters[index.0 as usize].register(device, kind, handle);
        done(Reply::Handle(handle))
    }
}
