//! What a call asks of an object that one of its handles names, before it acts: whose it is, which fence comes with it, what of it the
//! caller is told. The owners of the objects answer. What changes here are the objects that are nothing but a name: registrations.

use kmt_calls::{DeviceFault, DeviceState, NativeFenceLogDetail, Refusal};
use wddm_types::{ProcessId, RawHandle};

use crate::adapter::Adapter;
use crate::notification::RegistrationKind;
use crate::number::{
    AllocationNumber, ContextNumber, DeviceNumber, DoorbellNumber, FenceOpenNumber, PacketContextNumber,
    PagingQueueNumber, QueueNumber, RegistrationNumber, ResourceNumber, UpdateContext,
};
use crate::refusal::invalid;

/// The device of what a handle names.
impl Adapter {
    /// Of a hardware context.
    pub fn device_of_hw_context(&self, context: ContextNumber) -> DeviceNumber {
        self.queues[context].device
    }

    /// Of a packet context.
    pub fn device_of_packets(&self, context: PacketContextNumber) -> DeviceNumber {
        self.packets[context].device
    }

    /// Of a context that has updates of addresses queued.
    ///
    /// # Errors
    /// The context has no addresses.
    // spec: memory §4.8
    pub fn device_of_updates(&self, context: UpdateContext) -> Result<DeviceNumber, Refusal> {
        match context {
            UpdateContext::Hardware(number) => Ok(self.queues[number].device),
            UpdateContext::Packets(number) if self.packets[number].addresses => Ok(self.packets[number].device),
            UpdateContext::Packets(_) => Err(invalid("a context that is patched has no addresses to update")),
        }
    }

    /// Of a hardware queue.
    pub fn device_of_queue(&self, queue: QueueNumber) -> DeviceNumber {
        self.queues[queue].device
    }

    /// Of a paging queue.
    pub fn device_of_paging_queue(&self, queue: PagingQueueNumber) -> DeviceNumber {
        self.memory.paging_queues.device_of(queue)
    }

    /// Of an allocation.
    pub fn device_of_allocation(&self, number: AllocationNumber) -> DeviceNumber {
        self.memory.allocations[number].device
    }

    /// Of a resource.
    pub fn device_of_resource(&self, number: ResourceNumber) -> DeviceNumber {
        self.memory.allocations.resource(number).device
    }

    /// Of an open of a fence; `None` for a fence of the kernel's own.
    pub fn device_of_fence_open(&self, open: FenceOpenNumber) -> Option<DeviceNumber> {
        self.sync.open(open).device
    }

    /// A device that stands for a process's addresses here. One in error does only when there is no other.
    pub fn any_device_of(&self, process: ProcessId) -> Option<DeviceNumber> {
        self.owners.devices_of(process).min_by_key(|device| self.device_alive(*device).is_err())
    }
}

/// What belongs to it.
impl Adapter {
    /// The queue of a doorbell that has a handle.
    pub fn queue_of_doorbell(&self, doorbell: DoorbellNumber) -> QueueNumber {
        self.doorbells.queue_of(doorbell).expect("it has a handle")
    }

    /// The open of a queue's progress fence.
    pub fn progress_open(&self, queue: QueueNumber) -> FenceOpenNumber {
        self.sync.only_open(self.queues[queue].progress)
    }

    /// The open of a paging queue's fence.
    pub fn paging_fence_open(&self, queue: PagingQueueNumber) -> FenceOpenNumber {
        self.sync.only_open(self.memory.paging_queues.fence_of(queue))
    }

    /// Whether an open of a fence is closed by its process: it does not go with a queue.
    pub fn is_closed_by_process(&self, open: FenceOpenNumber) -> bool {
        self.sync.is_asked_for(open)
    }

    /// The allocations of a resource.
    pub fn members_of(&self, resource: ResourceNumber) -> &[AllocationNumber] {
        &self.memory.allocations.resource(resource).allocations
    }

    /// The resource that an allocation is of, if it is of one.
    pub fn resource_of(&self, number: AllocationNumber) -> Option<ResourceNumber> {
        self.memory.allocations[number].resource
    }

    /// The handles of an allocation's instances.
    pub fn instance_handles(&self, number: AllocationNumber) -> impl Iterator<Item = RawHandle> + '_ {
        self.memory.allocations[number].renaming.handles()
    }
}

/// What a process is told of it.
impl Adapter {
    /// The logs of a queue that its process feeds.
    pub fn logs_of(&self, queue: QueueNumber) -> Option<NativeFenceLogDetail> {
        self.queues[queue].logs.detail()
    }

    /// The sizes of the lists and DMA buffers of a packet context.
    pub fn packet_sizes(&self, context: PacketContextNumber) -> ddi::ContextInfo {
        self.packets[context].info
    }

    /// Whether what a packet context is given is dropped.
    pub fn is_null_rendering(&self, context: PacketContextNumber) -> bool {
        self.packets[context].null_rendering
    }

    /// Whether the driver has made allocations for a hardware context: they are there before the process uses it.
    pub fn has_driver_allocations(&self, context: ContextNumber) -> bool {
        !self.queues[context].allocations.is_empty()
    }

    /// The same of a packet context.
    pub fn has_packet_allocations(&self, context: PacketContextNumber) -> bool {
        !self.packets.allocations(context).is_empty()
    }

    /// Why a device was lost to the GPU.
    pub fn fault_of(&self, device: DeviceNumber) -> Option<DeviceFault> {
        self.owners.fault_of(device)
    }

    /// The state of a device.
    pub fn state_of(&self, device: DeviceNumber) -> DeviceState {
        self.owners.state_of(device)
    }
}

/// Registrations for notifications about memory, as calls begin and end them (memory §5); `turns` and `moves` tell them.
impl Adapter {
    /// The number that the next registration gets, to be named before it is there.
    pub fn next_registration(&self) -> RegistrationNumber {
        self.memory.registrations.next_number()
    }

    /// The process of a device wants to be told, by this handle.
    pub fn register(&mut self, device: DeviceNumber, kind: RegistrationKind, handle: RawHandle) {
        self.memory.registrations.enter(device, kind, handle);
    }

    /// A registration ends.
    pub fn unregister(&mut self, number: RegistrationNumber) {
        self.memory.registrations.remove(number);
    }
}
