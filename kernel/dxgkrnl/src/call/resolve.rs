//! Handles to objects: an allegation becomes an object of the calling process, or the call is refused (memory §9.3).

use kmt_calls::Refusal;
use wddm_types::{AdapterIndex, RawHandle};

use crate::call::Turn;
use crate::effect::Cx;
use crate::memory::LIST_MAX;
use crate::number::{
    AllocationNumber, ContextNumber, DeviceNumber, DoorbellNumber, FenceNumber, FenceOpenNumber, KeyedMutexOpenNumber,
    PagingQueueNumber, QueueNumber, RegistrationNumber, ResourceNumber, SectionNumber,
};
use crate::object::Object;
use crate::packet::Listed;
use crate::refusal::invalid;
use crate::sync::{POINTS_MAX, PointUse};

impl Turn<'_> {
    pub(super) fn device(&self, handle: RawHandle) -> Result<(AdapterIndex, DeviceNumber), Refusal> {
        match self.process.handles.get(handle) {
            Some(Object::Device(adapter, number)) => Ok((*adapter, *number)),
            _ => Err(wrong_handle("device", handle)),
        }
    }

    pub(super) fn live_device(&mut self, handle: RawHandle) -> Result<(AdapterIndex, DeviceNumber), Refusal> {
        let (index, number) = self.device(handle)?;
        self.alive(index, number)?;
        Ok((index, number))
    }

    pub(super) fn alive(&mut self, index: AdapterIndex, device: DeviceNumber) -> Result<(), Refusal> {
        self.about = Some(index);
        self.adapters[index].device_alive(device)
    }

    pub(super) fn live_queue(&mut self, handle: RawHandle) -> Result<(AdapterIndex, QueueNumber), Refusal> {
        let (index, number) = self.queue(handle)?;
        self.alive(index, self.adapters[index].device_of_queue(number))?;
        Ok((index, number))
    }

    pub(super) fn adapter(&self, handle: RawHandle) -> Result<AdapterIndex, Refusal> {
        match self.process.handles.get(handle) {
            Some(Object::Adapter(adapter)) => Ok(*adapter),
            _ => Err(wrong_handle("adapter", handle)),
        }
    }

    pub(super) fn paging_queue(&self, handle: RawHandle) -> Result<(AdapterIndex, PagingQueueNumber), Refusal> {
        match self.process.handles.get(handle) {
            Some(Object::PagingQueue(adapter, number)) => Ok((*adapter, *number)),
            _ => Err(wrong_handle("paging queue", handle)),
        }
    }

    pub(super) fn context(&self, handle: RawHandle) -> Result<(AdapterIndex, ContextNumber), Refusal> {
        match self.process.handles.get(handle) {
            Some(Object::Context(adapter, number)) => Ok((*adapter, *number)),
            _ => Err(wrong_handle("context", handle)),
        }
    }

    pub(super) fn queue(&self, handle: RawHandle) -> Result<(AdapterIndex, QueueNumber), Refusal> {
        match self.process.handles.get(handle) {
            Some(Object::Queue(adapter, number)) => Ok((*adapter, *number)),
            _ => Err(wrong_handle("hardware queue", handle)),
        }
    }

    pub(super) fn registration(&self, handle: RawHandle) -> Result<(AdapterIndex, RegistrationNumber), Refusal> {
        match self.process.handles.get(handle) {
            Some(Object::Registration(adapter, number)) => Ok((*adapter, *number)),
            _ => Err(wrong_handle("registration", handle)),
        }
    }

    pub(super) fn doorbell(&self, handle: RawHandle) -> Result<(AdapterIndex, DoorbellNumber), Refusal> {
        match self.process.handles.get(handle) {
            Some(Object::Doorbell(adapter, number)) => Ok((*adapter, *number)),
            _ => Err(wrong_handle("doorbell", handle)),
        }
    }

    /// The open of a fence that a handle names.
    pub(super) fn fence(&self, handle: RawHandle) -> Result<(AdapterIndex, FenceOpenNumber), Refusal> {
        match self.process.handles.get(handle) {
            Some(Object::Fence(adapter, number)) => Ok((*adapter, *number)),
            _ => Err(wrong_handle("synchronization object", handle)),
        }
    }

    pub(super) fn any_resource(&self, handle: RawHandle) -> Result<(AdapterIndex, ResourceNumber), Refusal> {
        match self.process.handles.get(handle) {
            Some(Object::Resource(adapter, number)) => Ok((*adapter, *number)),
            _ => Err(wrong_handle("resource", handle)),
        }
    }

    pub(super) fn section(&self, handle: RawHandle) -> Result<SectionNumber, Refusal> {
        match self.process.system_handles.get(handle) {
            Some(Object::Section(number)) => Ok(*number),
            _ => Err(wrong_handle("section", handle)),
        }
    }

    /// The open of a keyed mutex that a handle names.
    pub(super) fn keyed_mutex(&self, handle: RawHandle) -> Result<KeyedMutexOpenNumber, Refusal> {
        match self.process.handles.get(handle) {
            Some(Object::KeyedMutex(open)) => Ok(*open),
            _ => Err(wrong_handle("keyed mutex", handle)),
        }
    }

    pub(super) fn allocation(&self, index: AdapterIndex, handle: RawHandle) -> Result<AllocationNumber, Refusal> {
        match self.process.handles.get(handle) {
            Some(Object::Allocation(adapter, number) | Object::Instance(adapter, number, _)) if *adapter == index => {
                Ok(*number)
            }
            _ => Err(wrong_handle("allocation", handle)),
        }
    }

    /// The instance that an entry of an allocation list names: a rename gives an instance a name of its own.
    // spec: memory §6.5, memory §7.2
    pub(super) fn instance(
        &self,
        index: AdapterIndex,
        number: AllocationNumber,
        handle: RawHandle,
    ) -> Result<Listed, Refusal> {
        let name = match self.process.handles.get(handle) {
            Some(Object::Instance(_, _, name)) => *name,
            _ => 0,
        };
        self.adapters[index].listed_instance(number, name)
    }

    pub(super) fn allocation_of(
        &self,
        index: AdapterIndex,
        device: DeviceNumber,
        handle: RawHandle,
    ) -> Result<AllocationNumber, Refusal> {
        let number = self.allocation(index, handle)?;
        let owner = self.adapters[index].device_of_allocation(number);
        if owner == device { Ok(number) } else { Err(invalid("an allocation of another device")) }
    }

    pub(super) fn allocations(
        &self,
        index: AdapterIndex,
        list: &[RawHandle],
    ) -> Result<Vec<AllocationNumber>, Refusal> {
        if list.len() > LIST_MAX {
            return Err(invalid(format!("a list of {}; at most {LIST_MAX}", list.len())));
        }
        list.iter().map(|handle| self.allocation(index, *handle)).collect()
    }

    /// The fences of a call, all of which it may use so.
    pub(super) fn points(
        &self,
        cx: &Cx<'_>,
        index: AdapterIndex,
        list: &[(RawHandle, u64)],
        what: PointUse,
    ) -> Result<Vec<(FenceNumber, u64)>, Refusal> {
        if list.is_empty() || list.len() > POINTS_MAX {
            return Err(invalid(format!("a call names 1 to {POINTS_MAX} objects, not {}", list.len())));
        }
        let adapter = &self.adapters[index];
        list.iter()
            .map(|(handle, value)| {
                let fence = self.usable_fence(index, *handle, what)?;
                // spec: sync §1.6
                adapter.admits_value(cx, fence, *value)?;
                Ok((fence, *value))
            })
            .collect()
    }

    /// The fence of a handle, if it may be used so.
    pub(super) fn usable_fence(
        &self,
        index: AdapterIndex,
        handle: RawHandle,
        what: PointUse,
    ) -> Result<FenceNumber, Refusal> {
        match self.fence(handle)? {
            (adapter, open) if adapter == index => self.adapters[index].usable_fence(open, what),
            _ => Err(invalid("a fence of another adapter")),
        }
    }
}

fn wrong_handle(kind: &str, handle: RawHandle) -> Refusal {
    invalid(format!("{handle} is no {kind} of this process"))
}
