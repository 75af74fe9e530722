//! Learns from the answers to a hostile process.

use super::*;
use kmt_calls::{AdapterCall, AllocationCall, DeviceCall, GpuVaCall, LockCall, ResidencyCall};
use kmt_calls::{AllocationRequest, CreatedAllocations, NotificationCall, OpenedResource, SectionCall};

impl Known {
    /// Takes an answer in.
    pub fn answered(&mut self, call: &Call, reply: &Reply) {
        let on = self.device_of(call);
        match (call, reply) {
            (call, Reply::Handle(handle)) => self.learn(kind_of_handle(call), *handle, on),
            (_, Reply::SyncObject(made)) => self.learn_shared(Kind::SyncObject, made.object, made.global_share, on),
            (_, Reply::Context(made)) => self.learn(Kind::ListContext, made.context, on),
            (Call::Allocation(AllocationCall::CreateAllocation { allocations, .. }), Reply::Allocations(made)) => {
                self.created(allocations, made, on);
            }
            (_, Reply::OpenedResource(opened)) => {
                self.opened(opened, on);
            }
            (_, Reply::KeyedMutex(made)) => self.learn_shared(Kind::KeyedMutex, made.mutex, made.global_share, on),
            (_, Reply::Section(made)) => self.learn(Kind::Section, made.section, on),
            (_, Reply::NtHandle(handle)) => self.nt_handles.push(*handle),
            (_, Reply::PagingQueue(made)) => {
                self.learn(Kind::PagingQueue, made.queue, on);
                self.learn_fence(&made.fence, on);
            }
            (_, Reply::HwQueue(made)) => {
                self.learn(Kind::Queue, made.queue, on);
                self.learn_fence(&made.progress, on);
            }
            (_, Reply::Doorbell(made)) => self.learn(Kind::Doorbell, made.doorbell, on),
            (_, Reply::MonitoredFence(made)) => {
                self.learn(Kind::Fence, made.fence, on);
                self.learn(Kind::OwnFence, made.fence, on);
                self.words.push(made.value_va);
            }
            (_, Reply::Fence(made)) => {
                self.learn_fence(made, on);
                self.learn(Kind::OwnFence, made.fence, on);
            }
            (
                Call::GpuVa(GpuVaCall::MapGpuVirtualAddress { size_in_pages, allocation, .. }),
                Reply::MappedVa { va, .. },
            ) => {
                self.learn_mapping(*allocation, *va, size_in_pages * PAGE_BYTES);
            }
            (Call::GpuVa(GpuVaCall::ReserveGpuVirtualAddress { size_bytes, .. }), Reply::MappedVa { va, .. }) => {
                self.learn_reserved(*va, *size_bytes);
            }
            (Call::Residency(ResidencyCall::MakeResident { allocations, .. }), Reply::Residency(_)) => {
                allocations.iter().for_each(|handle| self.learn(Kind::Listed, *handle, on));
            }
            (Call::Residency(ResidencyCall::Evict { allocations, .. }), Reply::BytesToTrim(_)) => {
                allocations.iter().for_each(|handle| self.forget_one(Kind::Listed, *handle));
            }
            (Call::Lock(LockCall::Lock2 { allocation, .. } | LockCall::Lock { allocation, .. }), _) => {
                self.learn(Kind::Locked, *allocation, on);
            }
            (
                Call::Residency(ResidencyCall::ReclaimAllocations { list, .. })
                | Call::Residency(ResidencyCall::ReclaimAllocations2 { list, .. }),
                _,
            ) => {
                handles_of(list).iter().for_each(|handle| self.forget_one(Kind::Offered, *handle));
            }
            (call, Reply::Done) => self.done(call, on),
            _ => {}
        }
    }

    /// Allocations of its own, what they were asked to be, and the names of their resource.
    fn created(&mut self, requests: &[AllocationRequest], made: &CreatedAllocations, on: RawHandle) {
        for (request, made) in requests.iter().zip(&made.allocations) {
            self.asked.extend(Asked::of(request).map(|asked| (made.handle, asked)));
        }
        made.allocations.iter().for_each(|made| self.learn(Kind::Allocation, made.handle, on));
        made.allocations.iter().for_each(|made| self.learn_own_address(made));
        self.learn(Kind::Resource, made.resource, on);
        self.learn(Kind::GlobalShare, made.global_share, on);
    }

    /// An object and its global handle.
    fn learn_shared(&mut self, kind: Kind, object: RawHandle, global_share: RawHandle, on: RawHandle) {
        self.learn(kind, object, on);
        self.learn(Kind::GlobalShare, global_share, on);
    }

    /// A resource of another process, and what was shared with it.
    fn opened(&mut self, opened: &OpenedResource, on: RawHandle) {
        opened.allocations.iter().for_each(|made| self.learn(Kind::Allocation, made.handle, on));
        self.learn(Kind::Resource, opened.resource, on);
        self.learn(Kind::KeyedMutex, opened.keyed_mutex, on);
        self.learn(Kind::SyncObject, opened.sync_object, on);
    }

    /// Reserved addresses, to be mapped later; the process forgets the oldest beyond [`MEMORY`].
    fn learn_reserved(&mut self, va: GpuVa, size_bytes: u64) {
        self.learn_address(va, size_bytes);
        self.reserved.push((va, size_bytes));
        let most = self.reserved.len().saturating_sub(MEMORY);
        self.reserved.drain(..most);
    }

    fn done(&mut self, call: &Call, on: RawHandle) {
        match call {
            Call::Lock(LockCall::Unlock2 { allocation, .. }) => self.forget_one(Kind::Locked, *allocation),
            Call::Lock(LockCall::Unlock { allocations, .. }) => {
                allocations.iter().for_each(|handle| self.forget_one(Kind::Locked, *handle));
            }
            Call::GpuVa(GpuVaCall::FreeGpuVirtualAddress { base, .. }) => {
                self.mapped.retain(|(_, va, _)| va != base);
                self.addresses.retain(|(va, _)| va != base);
            }
            Call::Residency(ResidencyCall::OfferAllocations { list, .. }) => {
                handles_of(list).iter().for_each(|handle| self.learn(Kind::Offered, *handle, on));
            }
            Call::Device(DeviceCall::DestroyDevice { device }) => {
                let others = self.count(Kind::Device) > 1;
                self.dies(*device);
                if !others {
                    self.forget_devices();
                }
            }
            Call::Allocation(AllocationCall::DestroyAllocation { target, .. }) => {
                target.allocations.iter().for_each(|handle| self.dies(*handle));
                self.dies(target.resource);
            }
            Call::Adapter(AdapterCall::CloseAdapter { adapter: handle })
            | Call::Device(DeviceCall::DestroyPagingQueue { queue: handle })
            | Call::Section(SectionCall::Close { section: handle })
            | Call::Queue(QueueCall::DestroyHwContext { context: handle })
            | Call::Packet(PacketCall::DestroyContext { context: handle })
            | Call::Queue(QueueCall::DestroyHwQueue { queue: handle })
            | Call::Queue(QueueCall::DestroyDoorbell { doorbell: handle })
            | Call::Sync(SyncCall::DestroySynchronizationObject { fence: handle })
            | Call::Event(EventCall::Close { event: handle })
            | Call::KeyedMutex(KeyedMutexCall::Destroy { mutex: handle })
            | Call::Notification(NotificationCall::Unregister { registration: handle }) => self.dies(*handle),
            _ => {}
        }
    }
}

/// The kind of the handle that such a call is answered with.
fn kind_of_handle(call: &Call) -> Kind {
    match call {
        Call::Adapter(AdapterCall::OpenAdapterFromLuid { .. }) => Kind::Adapter,
        Call::Device(DeviceCall::CreateDevice { .. }) => Kind::Device,
        Call::Queue(QueueCall::CreateHwContext { .. }) => Kind::HwContext,
        Call::Packet(PacketCall::CreateContextVirtual { .. }) => Kind::VirtualContext,
        Call::Display(_) => Kind::GlobalShare,
        Call::Event(_) => Kind::Event,
        Call::KeyedMutex(_) => Kind::KeyedMutex,
        Call::Sync(_) => Kind::SyncObject,
        _ => Kind::Registration,
    }
}
