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
//! The object is [`Fence`]: words, waiters, the driver's global handle. What one device has of it is [`FenceOpen`]: the
//! driver's local handle, and what this device may do.

use ddi::{
    CreateNativeFence, DriverStatus, FenceType, KmdGlobalFence, KmdLocalFence, OpenNativeFence, OsGlobalFence,
    OsLocalFence,
};
use events::Event;
use gpu_fence::FenceKind;
use kmt_calls::{
    CreatedFence, FenceFlags, FencePrivateData, NativeFenceRequest, OpenSyncObjectRequest, Refusal, SyncObjectAccess,
};
use shared_words::{Word, fence::MONITORED_NONE};
use wddm_types::{CpuVa, GpuVa, ProcessId, RawHandle};

use super::flags::{self, ObjectType};
use super::{FenceSlot, FenceWord};
use crate::adapter::{Adapter, Waiter};
use crate::machine::Cx;
use crate::object::{Fence, FenceOpen};
use crate::refusal::{access_denied, from_driver, invalid, no_memory, not_supported};

/// What a new fence is to be.
pub struct NewFence {
    /// The device that it is created on; `None` for the kernel's own.
    pub device: Option<u64>,
    pub owner: ProcessId,
    pub initial: u64,
    pub fence_type: FenceType,
    /// A monitored fence, also where there are native ones.
    pub monitored: Option<NewMonitored>,
    pub flags: FenceFlags,
    pub private_data: FencePrivateData,
}

/// What is particular about a new monitored fence.
#[derive(Clone, Copy)]
pub struct NewMonitored {
    /// The GPU reaches its word.
    pub mapped: bool,
    pub word: FenceWord,
}

/// A device's open, and what the driver had to say.
pub type Opened = (u64, FencePrivateData);

impl Adapter {
    /// `D3DKMTCreateNativeFence`: the creator's open.
    // spec: sync §3.2, sync §5
    pub fn create_native_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: u64,
        request: NativeFenceRequest,
    ) -> Result<Opened, Refusal> {
        if !self.has_native_fences() {
            return Err(not_supported("the adapter has no native fences"));
        }
        let fence_type = match request.fence_type {
            0 => FenceType::Default,
            1 => FenceType::IntraGpu,
            other => return Err(invalid(format!("fence type {other} does not exist"))),
        };
        flags::check(ObjectType::NativeFence, request.flags)?;
        check_affinity(request.engine_affinity)?;
        if request.flags.contains(FenceFlags::CROSS_ADAPTER) {
            if fence_type != FenceType::Default {
                return Err(invalid("only fences of type DEFAULT are shared across adapters"));
            }
            return Err(not_supported("cross-adapter native fences are not built yet"));
        }
        if fence_type == FenceType::IntraGpu && !self.features.native_fence_os_caps().intra_gpu_fence_type {
            return Err(not_supported("INTRA_GPU fences: the kernel does not announce SupportIntraGpuFenceType"));
        }
        let new = NewFence {
            device: Some(device),
            owner: self.devices[device].process,
            initial: request.initial_value,
            fence_type,
            monitored: None,
            flags: request.flags,
            private_data: request.private_data,
        };
        let (_, open, private_data) = self.make_fence(cx, new)?;
        self.devices[device].fences.insert(open);
        Ok((open, private_data))
    }

    /// Makes a fence of the kernel's own, or of a queue: nobody shares it.
    pub fn create_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: Option<u64>,
        owner: ProcessId,
        initial: u64,
    ) -> Result<u64, Refusal> {
        let (fence_type, flags) = (FenceType::Default, FenceFlags::empty());
        let private_data = FencePrivateData::default();
        let new = NewFence { device, owner, initial, fence_type, monitored: None, flags, private_data };
        self.make_fence(cx, new).map(|(fence, ..)| fence)
    }

    /// Makes a fence: words, their mappings, then the driver's create, then its open; published only when all has succeeded.
    // spec: sync §3.2
    pub fn make_fence(&mut self, cx: &mut Cx<'_>, new: NewFence) -> Result<(u64, u64, FencePrivateData), Refusal> {
        let shared = new.flags.contains(FenceFlags::SHARED);
        let slot = match (shared, new.fence_type, new.device, new.monitored) {
            // spec: sync §1.5, §6 A5: shared ones lie in system memory, whatever their type
            (true, ..) => self.take_shared_slot(cx, new.owner)?,
            (false, FenceType::IntraGpu, Some(device), _) => self.take_local_slot(cx, device)?,
            (false, _, _, None) => self.take_fence_slot(cx, new.owner)?,
            (false, _, _, Some(NewMonitored { mapped: true, .. })) => self.take_monitored_slot(cx, new.owner)?,
            (false, _, _, Some(NewMonitored { mapped: false, .. })) => self.take_unmapped_slot(new.owner)?,
        };
        if slot.on_cpu() {
            Word::store(self.memory.word(slot.monitored.0), MONITORED_NONE);
        }
        let number = self.fences.next_number();
        let native = new.monitored.is_none() && self.has_native_fences();
        let kind = if native { FenceKind::Native } else { FenceKind::Monitored };
        let waits = self.waits.create(kind);
        let fence = Fence {
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
            doomed: false,
        };
        assert_eq!(self.fences.insert(fence), number);
        if slot.on_cpu() {
            // spec: sync §1.4: an INTRA_GPU fence gets its initial value from a GPU write
            let initial = if new.fence_type == FenceType::IntraGpu { 0 } else { new.initial };
            self.fences[number].store(&self.memory, initial);
        }
        self.fence_numbers.insert(waits, number);
        let open = FenceOpen {
            fence: number,
            process: new.owner,
            device: new.device,
            kmd: None,
            flags: new.flags & PER_DEVICE,
            access: SyncObjectAccess::ALL_ACCESS,
        };
        match self.add_open(cx, open, new.private_data) {
            Ok((open, private_data)) => {
                let (process, current) = (new.owner.0, slot.current.0);
                cx.emit(Event::FenceCreated { process, fence: number, initial: new.initial, current });
                Ok((number, open, private_data))
            }
            Err(refusal) => {
                self.forget_fence(number);
                Err(refusal)
            }
        }
    }

    /// `D3DKMTOpenNativeFenceFromNtHandle`, `D3DKMTOpenSyncObjectFromNtHandle2`: the fence of a name, for another device.
    // spec: sync §3.3, sync §6 A11
    pub fn open_shared_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: u64,
        (fence, access): (u64, SyncObjectAccess),
        request: OpenSyncObjectRequest,
    ) -> Result<Opened, Refusal> {
        if !access.contains(SyncObjectAccess::STANDARD_RIGHTS_READ) {
            return Err(access_denied("the NT handle was made without STANDARD_RIGHTS_READ"));
        }
        check_affinity(request.engine_affinity)?;
        let wrong = request.flags.difference(PER_DEVICE);
        if !wrong.is_empty() {
            return Err(invalid(format!("flags {:#x} are an object's, or reserved: not of an open", wrong.bits())));
        }
        if request.flags.contains(FenceFlags::NO_SIGNAL | FenceFlags::NO_WAIT) {
            return Err(invalid("NoSignal and NoWait exclude each other"));
        }
        let process = self.devices[device].process;
        let open = FenceOpen { fence, process, device: Some(device), kmd: None, flags: request.flags, access };
        let (open, private_data) = self.add_open(cx, open, request.private_data)?;
        self.devices[device].fences.insert(open);
        cx.emit(Event::FenceOpened { process: process.0, fence, open });
        Ok((open, private_data))
    }

    /// Adds an open: the process sees the words, the driver has the fence, the driver opens it.
    fn add_open(
        &mut self,
        cx: &mut Cx<'_>,
        mut open: FenceOpen,
        mut private_data: FencePrivateData,
    ) -> Result<Opened, Refusal> {
        let number = self.fence_opens.next_number();
        let (fence, process) = (open.fence, open.process);
        let (slot, asleep) = (self.fences[fence].slot, self.fences[fence].kmd.is_none());
        if self.fences[fence].is_shareable() && !self.fences[fence].views.contains_key(&process) {
            let view = self.map_fence_view(cx, &slot, process)?;
            self.fences[fence].views.insert(process, view);
        }
        match self.open_fence_in_driver(fence, number, &open, &mut private_data) {
            Ok(kmd) => {
                open.kmd = kmd;
                assert_eq!(self.fence_opens.insert(open), number);
                let known = &mut self.fences[fence];
                known.opens.insert(number);
                if let Some(view) = known.views.get_mut(&process) {
                    view.opens += 1;
                }
                // spec: sync §6 B13: for good, also where the driver has made it anew
                if asleep && known.always_signaled {
                    self.tell_always_signaled(cx, fence);
                }
                Ok((number, private_data))
            }
            Err(status) => {
                self.drop_unused_view(cx, fence, process);
                Err(from_driver(status))
            }
        }
    }

    /// The driver's part of an open, with the create before it when nobody has the fence open. `None`: the adapter has no
    /// fences of its own, the kernel signals them.
    // spec: sync §3.2 steps 4 and 5, sync §3.3
    fn open_fence_in_driver(
        &mut self,
        fence: u64,
        number: u64,
        open: &FenceOpen,
        private_data: &mut FencePrivateData,
    ) -> Result<Option<KmdLocalFence>, DriverStatus> {
        let known = &self.fences[fence];
        if self.waits.kind(known.waits) == FenceKind::Monitored {
            return Ok(None);
        }
        let device = open.device.map_or(self.ring.device, |device| self.devices[device].kmd);
        let (current_va, monitored_va) = known.addresses(open.process);
        let global = match known.kmd {
            Some(global) => global,
            None => self.create_fence_in_driver(fence, private_data)?,
        };
        let fences = self.miniport.native_fences().expect("native fences have their facet");
        let opened = fences.open(&mut OpenNativeFence {
            global,
            local: OsLocalFence(number),
            device,
            current_va,
            monitored_va,
            private_data: &mut private_data.0,
        });
        if opened.is_err() && self.fences[fence].opens.is_empty() {
            // An open that failed is followed by destroy without close (sync §3.2).
            fences.destroy(global);
            self.fences[fence].kmd = None;
        }
        opened.map(Some)
    }

    fn create_fence_in_driver(
        &mut self,
        fence: u64,
        private_data: &mut FencePrivateData,
    ) -> Result<KmdGlobalFence, DriverStatus> {
        let known = &self.fences[fence];
        let (slot, fence_type) = (known.slot, known.fence_type);
        // spec: sync §1.5: both are 0 without MapToGpuSystemProcess, whatever the kernel has mapped for itself
        let told = self.fence_caps().map_to_gpu_system_process;
        let (current_system_va, monitored_system_va) =
            if told { (slot.system_current_va, slot.system_monitored_va) } else { Default::default() };
        let fences = self.miniport.native_fences().expect("native fences have their facet");
        let global = fences.create(&mut CreateNativeFence {
            fence: OsGlobalFence(fence),
            fence_type,
            current_system_va,
            monitored_system_va,
            private_data: &mut private_data.0,
        })?;
        self.fences[fence].kmd = Some(global);
        Ok(global)
    }

    /// `D3DKMTDestroySynchronizationObject`: what this device has of a fence. With the last open the driver's global handle goes,
    /// and the object itself unless it has a name.
    // spec: sync §3.4
    pub fn close_fence(&mut self, cx: &mut Cx<'_>, number: u64) {
        let open = self.fence_opens.remove(number).expect("an open is closed once");
        if let Some(device) = open.device.and_then(|device| self.devices.get_mut(device)) {
            device.fences.remove(&number);
        }
        let fence = &mut self.fences[open.fence];
        fence.opens.remove(&number);
        let (last, waits) = (fence.opens.is_empty(), fence.waits);
        let only_on_destroy = fence.flags.contains(FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY);
        // spec: sync §2.3: by default CPU waiters go on with any of the opens, else with the last; nobody outlives that
        let mut ends = |waiter: &Waiter| {
            last || !only_on_destroy && matches!(waiter, Waiter::Answer { .. } | Waiter::Event { .. })
        };
        let ended = self.waits.end_waits_on(waits, &mut ends);
        self.release(cx, ended.released);
        self.publish(cx, ended.updates);
        if let (Some(local), Some(fences)) = (open.kmd, self.miniport.native_fences()) {
            fences.close(local);
        }
        if let Some(view) = self.fences[open.fence].views.get_mut(&open.process) {
            view.opens -= 1;
        }
        if !last {
            self.drop_unused_view(cx, open.fence, open.process);
            cx.emit(Event::FenceClosed { process: open.process.0, fence: open.fence, open: number });
            return;
        }
        if let (Some(global), Some(fences)) = (self.fences[open.fence].kmd.take(), self.miniport.native_fences()) {
            fences.destroy(global);
        }
        self.drop_unused_view(cx, open.fence, open.process);
        if self.fences[open.fence].names == 0 {
            self.forget_fence(open.fence);
            cx.emit(Event::FenceDestroyed { fence: open.fence });
        } else {
            cx.emit(Event::FenceClosed { process: open.process.0, fence: open.fence, open: number });
        }
    }

    /// Destroys a fence of the kernel's own or of a queue, with its one open.
    pub fn destroy_fence(&mut self, cx: &mut Cx<'_>, number: u64) {
        let open = self.only_open(number);
        self.close_fence(cx, open);
    }

    /// The open of a fence that nobody shares.
    pub fn only_open(&self, fence: u64) -> u64 {
        *self.fences[fence].opens.first().expect("its creator's")
    }

    /// A fence that its process only waits for: the kernel or a queue signals it.
    pub fn forbid_signals(&mut self, fence: u64) {
        let open = self.only_open(fence);
        self.fence_opens[open].flags |= FenceFlags::NO_SIGNAL;
    }

    /// `D3DKMTShareObjects` of a fence: it has one name more.
    // spec: sync §2.2, sync §5
    pub fn share_fence(&mut self, open: u64, access: SyncObjectAccess) -> Result<u64, Refusal> {
        let unknown = access.difference(SyncObjectAccess::ALL_ACCESS);
        if !unknown.is_empty() {
            return Err(invalid(format!("access {:#x} is nothing that a synchronization object has", unknown.bits())));
        }
        let open = &self.fence_opens[open];
        let fence = &mut self.fences[open.fence];
        if !fence.flags.contains(FenceFlags::NT_SECURITY_SHARING) {
            return Err(invalid("the synchronization object was not created with NtSecuritySharing"));
        }
        if !open.access.contains(access) {
            return Err(access_denied("more access than whoever shares it has"));
        }
        fence.names = fence.names.checked_add(1).ok_or_else(|| no_memory("the fence has too many names"))?;
        Ok(open.fence)
    }

    /// A name of a fence has gone; with the last, and without an open, the fence.
    pub fn unname_fence(&mut self, cx: &mut Cx<'_>, number: u64) {
        let fence = &mut self.fences[number];
        fence.names -= 1;
        if fence.names == 0 && fence.opens.is_empty() {
            self.forget_fence(number);
            cx.emit(Event::FenceDestroyed { fence: number });
        }
    }

    fn drop_unused_view(&mut self, cx: &mut Cx<'_>, fence: u64, process: ProcessId) {
        let views = &mut self.fences[fence].views;
        if views.get(&process).is_some_and(|view| view.opens == 0)
            && let Some(view) = views.remove(&process)
        {
            self.unmap_fence_view(cx, process, view);
        }
    }

    /// Takes an object out that nobody has open: its words are given back.
    fn forget_fence(&mut self, number: u64) {
        let fence = self.fences.remove(number).expect("a fence is destroyed once");
        assert!(fence.opens.is_empty() && fence.kmd.is_none(), "a fence is destroyed behind its last close");
        self.fence_numbers.remove(&fence.waits);
        let nobody = self.waits.destroy(fence.waits);
        assert!(nobody.is_empty(), "its waiters went on with the last open");
        self.give_back_slot(fence.slot);
    }

    /// A fence as a device sees it.
    pub fn created_fence(&self, open: u64, handle: RawHandle, private_data: FencePrivateData) -> CreatedFence {
        let open = &self.fence_opens[open];
        let fence = &self.fences[open.fence];
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

    /// Whether the adapter's fences are native: the feature is on, the driver says so, and has what it takes.
    // spec: sync §3.1: the entry points are called in no other case
    pub fn has_native_fences(&mut self) -> bool {
        self.wddm_3_1_caps().contains(kmt_calls::Wddm31Caps::NATIVE_GPU_FENCE_SUPPORTED)
            && self.miniport.facets().native_fences.is_some()
    }
}

impl Fence {
    /// Whether it can be shared: it has pages of its own.
    pub fn is_shareable(&self) -> bool {
        self.flags.contains(FenceFlags::SHARED)
    }

    /// Where a process's GPU work sees CurrentValue and MonitoredValue.
    fn addresses(&self, process: ProcessId) -> (wddm_types::GpuVa, wddm_types::GpuVa) {
        let FenceSlot { current_va, monitored_va, .. } = self.slot;
        self.views.get(&process).map_or((current_va, monitored_va), |view| (view.current_va, view.monitored_va))
    }
}

/// Flags that each device has for itself; the rest are the object's.
// spec: sync §2.3
const PER_DEVICE: FenceFlags =
    FenceFlags::NO_SIGNAL.union(FenceFlags::NO_WAIT).union(FenceFlags::NO_SIGNAL_MAX_VALUE_ON_TDR);

/// An adapter here is one physical adapter: bit 0, or 0 for all.
// spec: sync §2.1
pub(super) fn check_affinity(engine_affinity: u32) -> Result<(), Refusal> {
    if engine_affinity > 1 {
        return Err(invalid(format!("EngineAffinity {engine_affinity:#x} names physical adapters that there are not")));
    }
    Ok(())
}
