//! A device and its paging queue.

use std::sync::Arc;

use kmt_calls::{
    AllocationCall, AllocationRequest, Call, DeviceCall, DeviceState, EvictFlags, MakeResidentFlags,
    NativeFenceRequest, NotificationCall, OfferFlags, OfferList, OpenSyncObjectRequest, PropertyCall, PropertyRequest,
    QueueCall, ReclaimResult, Refusal, Reply, Residency, ResidencyCall, ResourceRequest, SignalFlags, SyncCall,
    WaitFlags,
};
use kmt_link::Link;
use wddm_types::{NodeId, RawHandle};

use crate::allocation::Allocation;
use crate::fence::Fence;
use crate::queue::HwContext;
use crate::{Adapter, Owned, expect_reply};

/// A device (`D3DKMTCreateDevice`): the owner of allocations, contexts and a residency list.
pub struct Device {
    owned: Owned,
}

impl Device {
    /// Creates a device on an adapter.
    ///
    /// # Errors
    /// When memory is short or the adapter has gone.
    pub fn create(adapter: &Adapter) -> Result<Device, Refusal> {
        let link = Arc::clone(adapter.link());
        let call = Call::Device(DeviceCall::CreateDevice { adapter: adapter.handle() });
        let handle = expect_reply!(link.call(call)?, Reply::Handle(handle) => handle);
        Ok(Device {
            owned: Owned { link, handle, destroy: |device| Call::Device(DeviceCall::DestroyDevice { device }) },
        })
    }

    /// `D3DKMTGetDeviceState`.
    ///
    /// # Errors
    /// When the handle is dead.
    pub fn state(&self) -> Result<DeviceState, Refusal> {
        let call = Call::Device(DeviceCall::GetDeviceState { device: self.handle() });
        Ok(expect_reply!(self.link().call(call)?, Reply::DeviceState(state) => state))
    }

    /// `D3DKMTCreatePagingQueue` with priority NORMAL.
    ///
    /// # Errors
    /// When memory is short or the device is in error.
    pub fn create_paging_queue(&self) -> Result<PagingQueue, Refusal> {
        self.create_paging_queue_of(0)
    }

    /// `D3DKMTCreatePagingQueue` with a priority: -1 BELOW_NORMAL, 0 NORMAL, 1 ABOVE_NORMAL. When the device has to wait for
    /// its turn, the queues that wait with it go on by their priorities; beside that, work is done in the order of the calls.
    ///
    /// # Errors
    /// When there is no such priority, memory is short, or the device is in error.
    pub fn create_paging_queue_of(&self, priority: i32) -> Result<PagingQueue, Refusal> {
        let call = Call::Device(DeviceCall::CreatePagingQueue { device: self.handle(), priority, physical_adapter: 0 });
        let created = expect_reply!(self.link().call(call)?, Reply::PagingQueue(created) => created);
        let link = Arc::clone(self.link());
        let fence = Fence::borrowed(Arc::clone(&link), created.fence);
        let owned = Owned {
            link,
            handle: created.queue,
            destroy: |queue| Call::Device(DeviceCall::DestroyPagingQueue { queue }),
        };
        Ok(PagingQueue { owned, fence })
    }

    /// `D3DKMTCreateAllocation2` for one allocation.
    ///
    /// # Errors
    /// When the driver refuses the private data or memory is short.
    pub fn create_allocation(&self, private_data: Vec<u8>) -> Result<Arc<Allocation>, Refusal> {
        let call = Call::Allocation(AllocationCall::CreateAllocation {
            device: self.handle(),
            allocations: vec![AllocationRequest { private_data, ..AllocationRequest::default() }],
            resource: ResourceRequest::default(),
        });
        let created = expect_reply!(self.link().call(call)?, Reply::Allocations(created) => created);
        Ok(Arc::new(Allocation::new(Arc::clone(self.link()), self.handle(), &created.allocations[0])))
    }

    /// `D3DKMTEvict`. Returns the bytes over budget.
    ///
    /// # Errors
    /// When a count would fall below zero: nothing has changed.
    pub fn evict(&self, allocations: Vec<RawHandle>, flags: EvictFlags) -> Result<u64, Refusal> {
        let call = Call::Residency(ResidencyCall::Evict { device: self.handle(), allocations, flags });
        Ok(expect_reply!(self.link().call(call)?, Reply::BytesToTrim(bytes) => bytes))
    }

    /// The same for several lists with flags of their own, one after the other, with one way to the kernel and back. Returns the bytes over
    /// budget behind the last.
    ///
    /// # Errors
    /// The first refusal; of the other lists each that is not refused itself is evicted.
    pub fn evict_lists(&self, lists: Vec<(Vec<RawHandle>, EvictFlags)>) -> Result<u64, Refusal> {
        let evict =
            |(allocations, flags)| Call::Residency(ResidencyCall::Evict { device: self.handle(), allocations, flags });
        let results = self.link().calls(lists.into_iter().map(evict).collect());
        results.into_iter().try_fold(0, |_, result| Ok(expect_reply!(result?, Reply::BytesToTrim(bytes) => bytes)))
    }

    /// `D3DKMTOfferAllocations`: their content may be thrown away once what was submitted before is over. They may be neither
    /// locked nor used until [`PagingQueue::reclaim`].
    ///
    /// # Errors
    /// When one is offered, locked or pinned already, or the priority is none of 1 to 4: nothing has changed.
    pub fn offer(&self, list: impl Into<OfferList>, priority: u32, flags: OfferFlags) -> Result<(), Refusal> {
        let list = list.into();
        self.link()
            .call(Call::Residency(ResidencyCall::OfferAllocations { device: self.handle(), list, priority, flags }))
            .map(drop)
    }

    /// `D3DKMTReclaimAllocations`, the form without a fence: at return the GPU may use them. `asks`: the caller wants to know the lost
    /// ones; without it all content may be lost. An allocation without memory counts as lost, and stays offered.
    ///
    /// # Errors
    /// As [`PagingQueue::reclaim`].
    pub fn reclaim(&self, list: impl Into<OfferList>, asks: bool) -> Result<Vec<bool>, Refusal> {
        let call =
            Call::Residency(ResidencyCall::ReclaimAllocations { device: self.handle(), list: list.into(), asks });
        Ok(expect_reply!(self.link().call(call)?, Reply::Discarded(lost) => lost))
    }

    /// `D3DKMTRegisterTrimNotification`: trims of this device come through the link's notifications as long as the
    /// registration lives.
    ///
    /// # Errors
    /// When the device is in error.
    pub fn register_trim(&self) -> Result<Registration, Refusal> {
        self.register(Call::Notification(NotificationCall::RegisterTrim { adapter: None, device: self.handle() }))
    }

    /// `D3DKMTRegisterBudgetChangeNotification`: the same for the process's budgets.
    ///
    /// # Errors
    /// When the device is in error.
    pub fn register_budget_change(&self) -> Result<Registration, Refusal> {
        self.register(Call::Notification(NotificationCall::RegisterBudgetChange { device: self.handle() }))
    }

    fn register(&self, call: Call) -> Result<Registration, Refusal> {
        let handle = expect_reply!(self.link().call(call)?, Reply::Handle(handle) => handle);
        let destroy = |registration| Call::Notification(NotificationCall::Unregister { registration });
        Ok(Registration { owned: Owned { link: Arc::clone(self.link()), handle, destroy } })
    }

    /// `D3DKMTCreateHwContext`.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn create_context(&self, node: NodeId) -> Result<HwContext, Refusal> {
        let call = Call::Queue(QueueCall::CreateHwContext { device: self.handle(), node, private_data: Vec::new() });
        let handle = expect_reply!(self.link().call(call)?, Reply::Handle(handle) => handle);
        Ok(HwContext::new(Arc::clone(self.link()), handle))
    }

    /// `D3DKMTCreateNativeFence`.
    ///
    /// # Errors
    /// As the request's rules say (sync §3.2).
    pub fn create_native_fence(&self, request: NativeFenceRequest) -> Result<Fence, Refusal> {
        let call = Call::Sync(SyncCall::CreateNativeFence { device: self.handle(), request });
        let created = expect_reply!(self.link().call(call)?, Reply::Fence(created) => created);
        Ok(Fence::owned(Arc::clone(self.link()), created))
    }

    /// `D3DKMTOpenNativeFenceFromNtHandle`: opens a shared fence for this device.
    ///
    /// # Errors
    /// `INVALID_HANDLE` when nothing has this name; `ACCESS_DENIED` when the name gives no access; otherwise as the flags'
    /// rules say (sync §2.1, §3.3).
    pub fn open_native_fence(&self, request: OpenSyncObjectRequest) -> Result<Fence, Refusal> {
        self.opened_fence(Call::Sync(SyncCall::OpenNativeFenceFromNtHandle { device: self.handle(), request }))
    }

    /// `D3DKMTOpenSyncObjectFromNtHandle2`: opens a shared monitored fence; or a native one, of which this older call tells no address of
    /// MonitoredValue.
    ///
    /// # Errors
    /// As [`Device::open_native_fence`].
    pub fn open_sync_object(&self, request: OpenSyncObjectRequest) -> Result<Fence, Refusal> {
        self.opened_fence(Call::Sync(SyncCall::OpenSyncObjectFromNtHandle2 { device: self.handle(), request }))
    }

    fn opened_fence(&self, call: Call) -> Result<Fence, Refusal> {
        let link = Arc::clone(self.link());
        match self.link().call(call)? {
            Reply::MonitoredFence(opened) => Ok(Fence::monitored(link, opened)),
            reply => Ok(Fence::owned(link, expect_reply!(reply, Reply::Fence(opened) => opened))),
        }
    }

    /// Blocks until all the fences have reached their values (`D3DKMTWaitForSynchronizationObjectFromCpu`).
    ///
    /// # Errors
    /// When a handle is wrong, or the device is lost while waiting.
    pub fn wait(&self, points: &[(&Fence, u64)]) -> Result<(), Refusal> {
        self.wait_with(points, None, WaitFlags::empty())
    }

    /// Signals a fence from the CPU (`D3DKMTSignalSynchronizationObjectFromCpu`).
    ///
    /// # Errors
    /// When the value is lower than the current one.
    pub fn signal(&self, fence: &Fence, value: u64) -> Result<(), Refusal> {
        self.signal_with(&[(fence, value)], SignalFlags::empty())
    }

    /// Its handle.
    pub fn handle(&self) -> RawHandle {
        self.owned.handle
    }

    /// The way to the kernel.
    pub fn link(&self) -> &Arc<dyn Link> {
        &self.owned.link
    }
}

/// A registration for notifications; dropping it ends it.
pub struct Registration {
    owned: Owned,
}

impl Registration {
    /// The name that notifications bear.
    pub fn handle(&self) -> RawHandle {
        self.owned.handle
    }
}

/// A paging queue with its fence: its requests complete in order on the GPU.
pub struct PagingQueue {
    owned: Owned,
    fence: Fence,
}

impl PagingQueue {
    /// `D3DKMTMakeResident`. Pending: let the GPU wait for the value of [`PagingQueue::fence`] before it uses them.
    ///
    /// # Errors
    /// `NO_MEMORY` with the bytes to trim: no count has changed.
    pub fn make_resident(&self, allocations: Vec<RawHandle>, flags: MakeResidentFlags) -> Result<Residency, Refusal> {
        let call = Call::Residency(ResidencyCall::MakeResident { paging_queue: self.handle(), allocations, flags });
        Ok(expect_reply!(self.owned.link.call(call)?, Reply::Residency(residency) => residency))
    }

    /// `D3DKMTReclaimAllocations2`: the state of each, and the paging-fence value from which the GPU may use them (0: now). The CPU may
    /// lock them at once. Of a resource it is the worst of its allocations.
    ///
    /// # Errors
    /// When one is not offered; or when what the device lists would not fit with it even if it were alone: nothing has changed.
    pub fn reclaim(&self, list: impl Into<OfferList>) -> Result<(Vec<ReclaimResult>, u64), Refusal> {
        let call =
            Call::Residency(ResidencyCall::ReclaimAllocations2 { paging_queue: self.handle(), list: list.into() });
        Ok(
            expect_reply!(self.owned.link.call(call)?, Reply::Reclaimed { results, paging_fence_value } => (results, paging_fence_value)),
        )
    }

    /// `D3DKMTUpdateAllocationProperty`: effective now, or at the value of [`PagingQueue::fence`].
    ///
    /// # Errors
    /// When the driver or a rule refuses the change.
    pub fn update_allocation_property(
        &self,
        allocation: &Allocation,
        request: PropertyRequest,
    ) -> Result<Residency, Refusal> {
        let call = Call::Property(PropertyCall::UpdateAllocationProperty {
            paging_queue: self.handle(),
            allocation: allocation.handle(),
            request,
        });
        Ok(expect_reply!(self.owned.link.call(call)?, Reply::Residency(residency) => residency))
    }

    /// The paging fence.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The way to the kernel.
    pub fn link(&self) -> &Arc<dyn Link> {
        &self.owned.link
    }

    /// Its handle.
    pub fn handle(&self) -> RawHandle {
        self.owned.handle
    }
}
