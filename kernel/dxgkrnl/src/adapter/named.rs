//! Shared objects and their names (memory §2.7, sync §2.2): the machine has NT handles and global handles, the owner of an object knows
//! how many names it has. What a call does to both sides passes here.

use gpu_fence::LegacyKind;
use kmt_calls::{FenceFlags, OpenSyncObjectRequest, Refusal, SyncObjectAccess};
use wddm_types::{ProcessId, RawHandle};

use crate::adapter::Adapter;
use crate::allocations::InstanceName;
use crate::effect::Cx;
use crate::number::{
    AllocationNumber, CrossFenceNumber, DeviceNumber, EventName, FenceNumber, FenceOpenNumber, ResourceBodyNumber,
    SyncObjectNumber, SyncOpenNumber,
};
use crate::sync::PointUse;

/// Fences with a word in memory.
impl Adapter {
    /// A fence gets a name. With its number goes that of the fence of several adapters that it is, which has its names with the machine.
    ///
    /// # Errors
    /// It is not to be shared, or not with this access; it has too many names.
    pub fn share_fence(
        &mut self,
        open: FenceOpenNumber,
        access: SyncObjectAccess,
    ) -> Result<(FenceNumber, Option<CrossFenceNumber>), Refusal> {
        let fence = self.sync.share_fence(open, access)?;
        Ok((fence, self.sync.fence(fence).cross()))
    }

    /// A fence that has a name gets one more.
    ///
    /// # Errors
    /// It has too many names.
    pub fn name_fence_again(&mut self, fence: FenceNumber) -> Result<(), Refusal> {
        self.sync.name_fence_again(fence)
    }

    /// Whether a fence is a monitored one.
    pub fn is_monitored(&self, fence: FenceNumber) -> bool {
        self.sync.is_monitored(fence)
    }

    /// The fence of an open, if its process may do this with it.
    ///
    /// # Errors
    /// The name that it was opened by, or its flags, do not allow it.
    pub fn usable_fence(&self, open: FenceOpenNumber, what: PointUse) -> Result<FenceNumber, Refusal> {
        self.sync.usable_fence(open, what)
    }

    /// That a fence can have this value.
    ///
    /// # Errors
    /// The value is too large for its word, or too far away.
    // spec: sync §1.6
    pub fn admits_value(&self, cx: &Cx<'_>, fence: FenceNumber, value: u64) -> Result<(), Refusal> {
        self.sync.fence(fence).admits(cx.memory, value)
    }
}

/// Synchronization objects without a word in memory.
impl Adapter {
    /// The types 1 to 3 of `D3DKMTCreateSynchronizationObject2`. Answers with the creator's open.
    ///
    /// # Errors
    /// The flags or the initial state are none for the type.
    pub fn create_sync_object(
        &mut self,
        cx: &mut Cx<'_>,
        of: (ProcessId, DeviceNumber),
        flags: FenceFlags,
        kind: LegacyKind,
    ) -> Result<SyncOpenNumber, Refusal> {
        self.sync.create_object(cx, of, flags, kind)
    }

    /// The type 4: what sets an event.
    ///
    /// # Errors
    /// The flags are none for the type.
    pub fn create_cpu_notification(
        &mut self,
        cx: &mut Cx<'_>,
        of: (ProcessId, DeviceNumber),
        flags: FenceFlags,
        event: EventName,
    ) -> Result<SyncOpenNumber, Refusal> {
        self.sync.create_cpu_notification(cx, of, flags, event)
    }

    /// The object of an open.
    pub fn sync_object_of(&self, open: SyncOpenNumber) -> SyncObjectNumber {
        self.sync.object_of(open)
    }

    /// The same, if contexts of its process may do this with it.
    ///
    /// # Errors
    /// The name that it was opened by does not allow it.
    pub fn usable_sync_object(&self, open: SyncOpenNumber, what: PointUse) -> Result<SyncObjectNumber, Refusal> {
        self.sync.usable_object(open, what)
    }

    /// A process opens an object by its global handle.
    pub fn open_global_object(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        object: SyncObjectNumber,
    ) -> SyncOpenNumber {
        self.sync.open_global_object(cx, process, object)
    }

    /// A process opens an object by an NT handle.
    ///
    /// # Errors
    /// The name does not give the access; flags that are for fences.
    pub fn open_named_object(
        &mut self,
        cx: &mut Cx<'_>,
        of: (ProcessId, Option<DeviceNumber>),
        object: (SyncObjectNumber, SyncObjectAccess),
        request: OpenSyncObjectRequest,
    ) -> Result<SyncOpenNumber, Refusal> {
        self.sync.open_named_object(cx, of, object, request)
    }

    /// An object gets a name, by an open with this access.
    ///
    /// # Errors
    /// It is not to be shared, or not with this access; it has too many names.
    pub fn share_sync_object(
        &mut self,
        open: SyncOpenNumber,
        access: SyncObjectAccess,
    ) -> Result<SyncObjectNumber, Refusal> {
        self.sync.share_object(open, access)
    }

    /// An object that has a name gets one more.
    ///
    /// # Errors
    /// It has too many names.
    pub fn name_sync_object_again(&mut self, object: SyncObjectNumber) -> Result<(), Refusal> {
        self.sync.name_object_again(object)
    }

    /// An object was created, and goes by this global handle; NONE: it has none.
    pub fn sync_object_goes_by(&mut self, object: SyncObjectNumber, global: RawHandle) {
        self.sync.give_global(object, global);
    }
}

/// Resources, and the instances of their allocations.
impl Adapter {
    /// A resource gets a name, or one more.
    pub fn name_resource(&mut self, body: ResourceBodyNumber) {
        self.memory.allocations.name_resource(body);
    }

    /// A resource was created, and goes by this global handle.
    pub fn resource_goes_by(&mut self, body: ResourceBodyNumber, global: RawHandle) {
        self.memory.allocations.goes_by(body, global);
    }

    /// An allocation that its process knows by the handle `own` has another handle for the instance that its next rename makes.
    pub fn give_instance_name(&mut self, number: AllocationNumber, own: RawHandle, spare: InstanceName) {
        self.memory.allocations.give_name(number, own, spare);
    }

    /// The call that its name was for is refused. Whether it has not come to that rename: the name is taken back.
    #[must_use = "a name that was taken back leaves its process"]
    pub fn take_instance_name(&mut self, number: AllocationNumber) -> bool {
        self.memory.allocations.take_name(number)
    }
}
