//! The life of a fence: created, opened, closed, destroyed, on two levels (sync §3.2–§3.4).
//!
//! ```text
//!            create                     open (another device or process)
//!   (none) ─────────▶ object + open LA ─────────────────────────────────▶ object + LA + LB
//!                          │  close                                           │ close
//!                          ▼                                                  ▼
//!        last open gone: the driver's global handle is destroyed         the other stays
//!                          │
//!          no NT handle ───┴─── an NT handle: the object sleeps, its words keep their value;
//!          the words go         the next open begins with a create in the driver again
//! ```
//!
//! The object is [`Fence`]: words, waiters, the driver's global handle. A device's open of it is [`FenceOpen`]: the driver's local
//! handle, and the accesses that this device has (`open`).

use ddi::FenceType;
use events::Event;
use gpu_fence::FenceKind;
use kmt_calls::{CreatedFence, FenceFlags, FencePrivateData, NativeFenceRequest, Refusal, SyncObjectAccess};
use shared_words::Word;
use wddm_types::{CpuVa, GpuVa, ProcessId, RawHandle};

use super::open::Opened;
use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::number::{DeviceNumber, FenceNumber, FenceOpenNumber};
use crate::refusal::{invalid, not_supported};
use crate::store::ObjectNumber;
use crate::sync::{
    CommonWord, Fence, FenceOpen, FenceSlot, FenceWord, ObjectType, PER_DEVICE, Periodic, check_affinity, check_flags,
};

/// The properties of a new fence.
pub struct NewFence {
    /// The device that it is created on; `None` for the kernel's own.
    pub device: Option<DeviceNumber>,
    pub owner: ProcessId,
    pub initial: u64,
    pub fence_type: FenceType,
    /// A monitored fence, also where there are native ones.
    pub monitored: Option<NewMonitored>,
    /// Engines of its process signal it: while no other process sees it its MonitoredValue may lie in local memory.
    pub by_engines: bool,
    /// The word is not the adapter's own: a cross-adapter fence's.
    pub common: Option<CommonWord>,
    pub flags: FenceFlags,
    /// The access of its first open.
    pub access: SyncObjectAccess,
    pub private_data: FencePrivateData,
}

impl NewFence {
    /// A fence that no process asked for.
    fn of_the_kernel(owner: ProcessId) -> NewFence {
        NewFence {
            device: None,
            owner,
            initial: 0,
            fence_type: FenceType::Default,
            monitored: None,
            by_engines: false,
            common: None,
            flags: FenceFlags::empty(),
            access: SyncObjectAccess::ALL_ACCESS,
            private_data: FencePrivateData::default(),
        }
    }
}

/// The properties that only a new monitored fence has.
#[derive(Clone, Copy)]
pub struct NewMonitored {
    /// The GPU reaches its word.
    pub mapped: bool,
    pub word: FenceWord,
    pub periodic: Option<Periodic>,
}

/// A fence, its creator's open of it, and what the driver had to say.
pub type MadeFence = (FenceNumber, FenceOpenNumber, FencePrivateData);

impl Adapter {
    /// `D3DKMTCreateNativeFence`: the creator's open.
    // spec: sync §3.2, sync §5
    pub fn create_native_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        request: NativeFenceRequest,
        common: Option<CommonWord>,
    ) -> Result<Opened, Refusal> {
        if !self.driver.has_native_fences() {
            return Err(not_supported("the adapter has no native fences"));
        }
        let fence_type = match request.fence_type {
            0 => FenceType::Default,
            1 => FenceType::IntraGpu,
            other => return Err(invalid(format!("fence type {other} does not exist"))),
        };
        check_flags(ObjectType::NativeFence, request.flags)?;
        check_affinity(request.engine_affinity, request.flags)?;
        if request.flags.contains(FenceFlags::CROSS_ADAPTER) && fence_type != FenceType::Default {
            return Err(invalid("only fences of type DEFAULT are shared across adapters"));
        }
        if fence_type == FenceType::IntraGpu && !self.driver.native_fence_os_caps().intra_gpu_fence_type {
            return Err(not_supported("INTRA_GPU fences: the kernel does not announce SupportIntraGpuFenceType"));
        }
        let new = NewFence {
            device: Some(device),
            owner: self.owners.process_of(device),
            initial: request.initial_value,
            fence_type,
            monitored: None,
            by_engines: true,
            common,
            flags: request.flags,
            access: SyncObjectAccess::ALL_ACCESS,
            private_data: request.private_data,
        };
        let (_, open, private_data) = self.make_fence(cx, new)?;
        self.sync.list_fence_open(open);
        Ok((open, private_data))
    }

    /// Makes the progress fence of a queue, which no other process shares.
    pub(in crate::adapter) fn create_progress_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        owner: ProcessId,
    ) -> Result<FenceNumber, Refusal> {
        let new = NewFence { device: Some(device), by_engines: true, ..NewFence::of_the_kernel(owner) };
        self.make_fence(cx, new).map(|(fence, ..)| fence)
    }

    /// Makes a fence of the kernel's own, or of a paging queue, which no other process shares.
    pub(in crate::adapter) fn create_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: Option<DeviceNumber>,
        owner: ProcessId,
        initial: u64,
    ) -> Result<FenceNumber, Refusal> {
        let new = NewFence { device, initial, ..NewFence::of_the_kernel(owner) };
        self.make_fence(cx, new).map(|(fence, ..)| fence)
    }

    /// Makes a fence: words, their mappings, then the driver's create, then its open; published only when all has succeeded.
    // spec: sync §3.2
    pub(super) fn make_fence(&mut self, cx: &mut Cx<'_>, new: NewFence) -> Result<MadeFence, Refusal> {
        let periodic = new.monitored.and_then(|monitored| monitored.periodic);
        let shared = new.flags.contains(FenceFlags::SHARED) || new.common.is_some() || periodic.is_some();
        let slot = self.take_slot(cx, &new, shared)?;
        let kind = match (new.monitored.is_none() && self.driver.has_native_fences(), new.common) {
            (false, _) => FenceKind::Monitored,
            // spec: sync §3.18: with doorbells it follows who waits, here and where they reach
            (true, Some(_)) if self.sync.inbox().is_none() => FenceKind::NativeCrossAdapter,
            (true, _) => FenceKind::Native,
        };
        let number = self.sync.add_fence(kind, |waits| Fence {
            waits,
            slot,
            word: new.monitored.map_or(FenceWord::Whole, |monitored| monitored.word),
            fence_type: new.fence_type,
            flags: new.flags,
            kmd: None,
            opens: Default::default(),
            views: Default::default(),
            names: 0,
            always_signaled: false,
            periodic,
            by_display: periodic.is_some() || new.common.is_some_and(|common| common.by_display),
            doomed: false,
        });
        // spec: sync §3.2 step 2: no waiter is there yet; of a cross-adapter fence it is 0 for life. A page that is on its way gets it with all
        // others of its words.
        let others_word = new.common.is_some_and(|common| common.joined && common.monitored.is_some());
        if kind != FenceKind::Monitored
            && !others_word
            && let Some(monitored) = self.monitored_words(cx).of(self.sync.fence(number))
        {
            Word::store(monitored, self.sync.monitored_value(self.sync.fence(number)));
        }
        if slot.on_cpu() && new.common.is_none_or(|common| !common.joined) {
            // spec: sync §1.4: an INTRA_GPU fence gets its initial value from a GPU write
            let initial = if new.fence_type == FenceType::IntraGpu { 0 } else { new.initial };
            self.sync.store(cx.memory, number, initial);
        }
        let open = FenceOpen {
            fence: number,
            process: new.owner,
            device: new.device,
            kmd: None,
            flags: new.flags & PER_DEVICE,
            access: new.access,
        };
        match self.add_open(cx, open, new.private_data) {
            Ok((open, private_data)) => {
                let (process, current) = (new.owner.0, slot.current.0);
                let initial =
                    if new.common.is_some() { self.sync.current_value(cx.memory, number) } else { new.initial };
                cx.emit(self.index, Event::FenceCreated { process, fence: number.raw(), initial, current });
                Ok((number, open, private_data))
            }
            Err(refusal) => {
                self.forget_fence(cx, number);
                Err(refusal)
            }
        }
    }

    /// Words for a new fence, in the memory that its kind asks for.
    fn take_slot(&mut self, cx: &mut Cx<'_>, new: &NewFence, shared: bool) -> Result<FenceSlot, Refusal> {
        match (shared, new.fence_type, new.device, new.monitored) {
            // spec: sync §1.5, §6 A5: shared ones lie in system memory, whatever their type
            (true, _, _, None) => self.take_shared_slot(cx, new.owner, new.common),
            (true, _, _, Some(NewMonitored { mapped, .. })) => {
                self.take_shared_monitored_slot(cx, new.owner, mapped, new.common)
            }
            (false, FenceType::IntraGpu, Some(device), _) => self.take_local_slot(cx, device),
            (false, _, Some(device), None) if new.by_engines && self.driver.has_native_fences() => {
                self.take_optimized_slot(cx, new.owner, device)
            }
            (false, _, _, None) => self.take_fence_slot(cx, new.owner),
            (false, _, _, Some(NewMonitored { mapped: true, .. })) => self.take_monitored_slot(cx, new.owner),
            (false, _, _, Some(NewMonitored { mapped: false, .. })) => self.take_unmapped_slot(cx, new.owner),
        }
    }

    /// Destroys a fence of the kernel's own or of a queue, with its one open.
    pub(in crate::adapter) fn destroy_fence(&mut self, cx: &mut Cx<'_>, number: FenceNumber) {
        let open = self.sync.only_open(number);
        self.close_fence(cx, open);
    }

    /// A name of a fence has gone; with the last, and without an open, the fence.
    pub fn unname_fence(&mut self, cx: &mut Cx<'_>, number: FenceNumber) {
        if self.sync.unname_fence(number) {
            self.forget_fence(cx, number);
            cx.emit(self.index, Event::FenceDestroyed { fence: number.raw() });
        }
    }

    /// Removes an object without opens, and gives its words back.
    pub(super) fn forget_fence(&mut self, cx: &Cx<'_>, number: FenceNumber) {
        let fence = self.sync.remove_fence(number);
        self.end_notification(cx, fence.periodic);
        self.give_back_slot(fence.slot);
    }

    /// A fence as a device sees it.
    pub fn created_fence(
        &self,
        open: FenceOpenNumber,
        handle: RawHandle,
        private_data: FencePrivateData,
    ) -> CreatedFence {
        let open = self.sync.open(open);
        let fence = self.sync.fence(open.fence);
        let (current_va, monitored_va) = fence.addresses(open.process);
        // spec: sync §1.5: behind an IOMMU the CPU address is used, and no GPU address
        let (current_va, current_cpu_va) = self.va_for_gpu(current_va);
        // spec: sync §1.4: no user address of an INTRA_GPU fence, wherever it lies
        let polled = fence.fence_type == FenceType::Default;
        let current = if polled { fence.slot.current } else { CreatedFence::NO_CPU_ADDRESS };
        CreatedFence { fence: handle, current, current_va, current_cpu_va, monitored_va, private_data }
    }

    /// An address for engines as a GPU address or, behind an IOMMU, as the CPU's.
    // spec: sync §1.5
    pub(super) fn va_for_gpu(&self, va: GpuVa) -> (GpuVa, CpuVa) {
        if self.uses_cpu_addresses() { (GpuVa::NULL, CpuVa(va.0)) } else { (va, CpuVa::NULL) }
    }
}
