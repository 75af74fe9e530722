//! Calls on devices, their state, and their paging queues.

use kmt_calls::{CreatedPagingQueue, DeviceCall, DeviceState, Refusal, Reply};
use wddm_types::{AdapterIndex, RawHandle};

use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::number::PhysicalAdapterIndex;
use crate::object::Object;

impl Turn<'_> {
    pub(super) fn on_device(&mut self, cx: &mut Cx<'_>, call: DeviceCall) -> Result<Answer, Refusal> {
        match call {
            DeviceCall::CreateDevice { adapter } => {
                let index = self.adapter(adapter)?;
                self.about = Some(index);
                self.create_device(cx, (index, adapter))
            }
            DeviceCall::DestroyDevice { device } => {
                let (index, number) = self.device(device)?;
                self.about = Some(index);
                let named = self.adapters[index].named_of_device(number);
                self.adapters[index].destroy_device(cx, number);
                self.close_keyed_mutexes_of(cx, (index, number));
                self.forget_all(named);
                done(Reply::Done)
            }
            DeviceCall::GetDeviceFault { device } => {
                let (index, number) = self.device(device)?;
                done(Reply::DeviceFault(self.adapters[index].fault_of(number)))
            }
            DeviceCall::GetDeviceState { device } => {
                let (index, number) = self.device(device)?;
                done(Reply::DeviceState(self.adapters[index].state_of(number)))
            }
            // [R]: no published source names the state of a device that its program gives up.
            DeviceCall::MarkDeviceAsError { device, by_driver } => {
                let (index, number) = self.live_device(device)?;
                self.about = Some(index);
                let whose = if by_driver { "its user-mode driver" } else { "its program" };
                let reason = format!("{whose} marked the device as in error");
                self.adapters[index].fail_device(cx, number, DeviceState::Stopped, reason);
                done(Reply::Done)
            }
            DeviceCall::WaitForIdle { device } => {
                let (index, number) = self.live_device(device)?;
                self.adapters[index].wait_until_idle(cx, self.token, number)
            }
            DeviceCall::CreatePagingQueue { device, priority, physical_adapter } => {
                let (index, device) = self.live_device(device)?;
                let (of, adapter) = (PhysicalAdapterIndex(physical_adapter), &mut self.adapters[index]);
                let number = adapter.create_paging_queue(cx, device, priority, of)?;
                let queue = self.name(Object::PagingQueue(index, number))?;
                let adapter = &self.adapters[index];
                let open = adapter.paging_fence_open(number);
                let fence_handle = self.name(Object::Fence(index, open))?;
                let fence = self.adapters[index].created_fence(open, fence_handle, Default::default());
                self.when_mapped(cx, index, Reply::PagingQueue(CreatedPagingQueue { queue, fence }))
            }
            DeviceCall::DestroyPagingQueue { queue } => {
                let (index, number) = self.paging_queue(queue)?;
                self.about = Some(index);
                let adapter = &mut self.adapters[index];
                let open = adapter.paging_fence_open(number);
                adapter.destroy_paging_queue(number);
                self.forget(queue, Object::Fence(index, open));
                done(Reply::Done)
            }
        }
    }

    fn create_device(
        &mut self,
        cx: &mut Cx<'_>,
        (index, handle): (AdapterIndex, RawHandle),
    ) -> Result<Answer, Refusal> {
        let adapter = &mut self.adapters[index];
        adapter.awake()?;
        let number = adapter.create_device(cx, (self.from, handle), self.process.terms)?;
        adapter.apply_terms(cx, self.from, self.process.terms);
        match self.process.handles.insert(Object::Device(index, number)) {
            // Its address space and fence words are there when the paging ring has got past their tables.
            Some(handle) => Ok(self.adapters[index].after_ring(cx, self.token, Reply::Handle(handle))),
            None => {
                self.adapters[index].destroy_device(cx, number);
                Err(self.handles_full(1))
            }
        }
    }
}
