//! Pages of fence words in local memory (sync §1.4, §1.5). Which segments, the driver says (FENCESTORAGE); whether at all, the
//! kernel's configuration. Shared fences lie in system memory always.
//!
//! | fence | words here | the kernel allows it by |
//! |---|---|---|
//! | INTRA_GPU | both; only engines and the context management processor touch them | `SupportIntraGpuFenceType` |
//! | DEFAULT | MonitoredValue, so that engines need not ask system memory at each signal; the CPU sees it | `SupportOptimizedDefaultFenceType` |
//!
//! The second is the kernel's own optimization: where the driver has no such storage, or there is no room, the word lies
//! in system memory.
//!
//! A page of words is an allocation of the kernel's own on the device that creates the fence; it goes with its device. Where the
//! driver lists an aperture it may be demoted to system memory, and comes back when there is room (`moved`). Else it is pinned.
//! It begins with zeros, or with the MonitoredValue that no signal exceeds: no CPU has to write it first. A word keeps what one INTRA_GPU
//! fence leaves for the next: the user-mode driver gives such a fence its initial value by a GPU write.

use ddi::{
    AllocationFlags, AllocationInfo, ContextAllocationFlags, DriverStatus, FenceStorageSurface, FenceType,
    FenceValueType, PRIORITY_MAXIMUM,
};
use kmt_calls::Refusal;
use vidmm::{AllocationError, AllocationId, MapRequest, Protection, SpaceId, Target};
use wddm_types::{GpuVa, NtStatus, PAGE_BYTES, Pages, ProcessId};

use crate::adapter::Adapter;
use crate::context_allocation::ContextAllocation;
use crate::effect::Cx;
use crate::number::DeviceNumber;
use crate::refusal::{from_driver, no_memory, not_supported};
use crate::sync::{LocalKind, LocalPage, LocalPlace, LocalWord};

/// The fill pattern of MonitoredValues that no signal exceeds, 32 bits of it.
const NO_WAITER: u32 = u32::MAX;

/// Why there is no page.
enum NoPage {
    /// The driver has no such storage.
    NoStorage(DriverStatus),
    Refused(Refusal),
}

impl From<Refusal> for NoPage {
    fn from(refusal: Refusal) -> NoPage {
        NoPage::Refused(refusal)
    }
}

impl Adapter {
    /// A word of an INTRA_GPU fence.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` where the driver has no such storage; `NO_MEMORY`.
    // spec: sync §1.5
    pub(super) fn take_intra_gpu_word(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        value_type: FenceValueType,
    ) -> Result<LocalWord, Refusal> {
        let kind = LocalKind { fence_type: FenceType::IntraGpu, value_type };
        self.take_local_word(cx, device, kind).map_err(|no| match no {
            NoPage::NoStorage(status) => from_driver(status),
            NoPage::Refused(refusal) => refusal,
        })
    }

    /// A MonitoredValue of a DEFAULT fence, if kernel and driver agree about it and there is room: the demand is not so
    /// strong that a fence should fail for it.
    ///
    /// # Errors
    /// The driver answered what it must not.
    // spec: sync §1.4 (DEFAULT optimized), sync §1.5
    pub(super) fn take_optimized_word(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
    ) -> Result<Option<LocalWord>, Refusal> {
        let allowed = self.driver.native_fence_os_caps().optimized_default_fence_type;
        if !allowed || cx.platform(self.index).bus().is_none() {
            return Ok(None);
        }
        match self.take_local_word(cx, device, LocalKind::OPTIMIZED) {
            Ok(word) => Ok(Some(word)),
            Err(NoPage::NoStorage(DriverStatus::NotSupported(_))) => Ok(None),
            Err(NoPage::NoStorage(status)) => Err(from_driver(status)),
            Err(NoPage::Refused(refusal)) if refusal.status == NtStatus::NO_MEMORY => Ok(None),
            Err(NoPage::Refused(refusal)) => Err(refusal),
        }
    }

    fn take_local_word(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, kind: LocalKind) -> Result<LocalWord, NoPage> {
        match self.sync.take_local_word(device, kind) {
            Some(word) => Ok(word),
            None => self.add_local_page(cx, device, kind),
        }
    }

    /// Adds a page of words, and takes the first of them.
    fn add_local_page(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, kind: LocalKind) -> Result<LocalWord, NoPage> {
        let LocalKind { fence_type, value_type } = kind;
        let (size_bytes, priority) = (PAGE_BYTES, PRIORITY_MAXIMUM);
        let info = AllocationInfo { size_bytes, priority, ..AllocationInfo::default() };
        let mut surface = FenceStorageSurface { value_type, fence_type, info };
        let fences = self.driver.call(cx).native_fences().expect("native fences have their facet");
        fences.fence_storage(&mut surface).map_err(NoPage::NoStorage)?;
        let visible = AllocationFlags::CPU_VISIBLE | AllocationFlags::CPU_VISIBLE_ON_DEMAND;
        match fence_type {
            // spec: sync §1.4: the CPU does not see INTRA_GPU fences
            FenceType::IntraGpu if surface.info.flags.intersects(visible) => {
                return Err(not_supported("the driver's storage for INTRA_GPU fences is CPU-visible").into());
            }
            // spec: sync §1.5: it is updated through CPU pointers
            FenceType::Default
                if !surface.info.flags.contains(AllocationFlags::CPU_VISIBLE)
                    || !self.vidmm.on_the_bus(surface.info.supported_segments) =>
            {
                return Err(not_supported("the driver's storage for MonitoredValues is not CPU-visible").into());
            }
            _ => {}
        }
        let info = AllocationInfo { size_bytes, priority, ..surface.info };
        let (stride, pattern) = match value_type {
            FenceValueType::Current => (crate::word_page::WORD_STRIDE, 0),
            FenceValueType::Monitored => (self.monitored_stride(), NO_WAITER),
        };
        let process = self.owners.process_of(device);
        let allocation = self.place_storage(cx, device, info, pattern)?;
        let mapped = self.map_local_page(cx, process, allocation, value_type);
        let (va, system_va) = match mapped {
            Ok(addresses) => addresses,
            Err(refusal) => {
                self.end_storage(cx, device, allocation);
                return Err(refusal.into());
            }
        };
        let address = self.vidmm.storage_address(allocation);
        let mapped_at = self.memory.ring.queued();
        self.sync.mapped_at(process, mapped_at);
        let flags = ContextAllocationFlags::SHARED_ACROSS_CONTEXTS;
        self.memory.allocations.keep_for_contexts(device, vec![ContextAllocation { vidmm: allocation, flags }]);
        let made = LocalPage { allocation, va, system_va };
        let place = LocalPlace { address, there_after: mapped_at };
        let word = self.sync.add_local_page(device, kind, made, stride, place);
        // The fill would overwrite a word that is stored before it, and until then the place may hold another owner's content.
        self.defer_words_moved(allocation);
        Ok(word)
    }

    /// Storage that is resident from now on, wherever that is.
    fn place_storage(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        info: AllocationInfo,
        pattern: u32,
    ) -> Result<AllocationId, Refusal> {
        let (vidmm, process) = (self.owners.vidmm_of(device), self.owners.process_of(device));
        let made = self.vidmm.create_fence_storage(vidmm, info, pattern);
        let allocation = made.map_err(|error| {
            let reason = format!("the driver's storage for fences: {error}");
            if matches!(error, AllocationError::NoBackingStore { .. }) {
                no_memory(reason)
            } else {
                not_supported(reason)
            }
        })?;
        self.revoke_returned(cx);
        for run in self.vidmm.backing(allocation) {
            cx.memory.fill(run.first * PAGE_BYTES, run.count.bytes(), pattern);
        }
        let resident = self.vidmm.make_resident(vidmm, &[allocation]);
        let placed = match resident {
            Ok(work) => {
                self.queue_any(cx, process, work);
                match self.vidmm.may_be_demoted(allocation) {
                    true => self.vidmm.is_resident(allocation),
                    false => self.vidmm.pin(allocation).is_ok(),
                }
            }
            Err(_) => false,
        };
        if placed {
            return Ok(allocation);
        }
        let work = self.vidmm.destroy_allocation(allocation, &[]);
        self.queue_any(cx, process, work);
        Err(no_memory("no room in local memory for the words of fences"))
    }

    fn map_local_page(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        allocation: AllocationId,
        value_type: FenceValueType,
    ) -> Result<(GpuVa, GpuVa), Refusal> {
        let (system, space) = (self.owners.space_of(ProcessId::SYSTEM), self.owners.space_of(process));
        let system_va = self.map_storage(cx, system, allocation, true)?;
        match self.map_storage(cx, space, allocation, value_type == FenceValueType::Current) {
            Ok(va) => Ok((va, system_va)),
            Err(refusal) => {
                self.unmap_pages(cx, system, system_va, Pages(1));
                Err(refusal)
            }
        }
    }

    fn map_storage(
        &mut self,
        cx: &mut Cx<'_>,
        space: SpaceId,
        allocation: AllocationId,
        write: bool,
    ) -> Result<GpuVa, Refusal> {
        let caps = self.fence_caps();
        let request = MapRequest {
            target: Target::FenceStorage(allocation),
            size_pages: Pages(1),
            base: None,
            minimum: caps.minimum_address,
            maximum: caps.maximum_address,
            protection: Protection { write, ..Protection::default() },
        };
        self.map_for_kernel(cx, space, request)
    }

    /// Takes the pages of a device that goes out of all spaces; the allocations go with its other ones.
    pub(in crate::adapter) fn unmap_local_words(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        let (system, process) = (self.owners.space_of(ProcessId::SYSTEM), self.owners.process_of(device));
        let space = self.owners.space_of(process);
        for page in self.sync.release_local_words(device) {
            self.unmap_pages(cx, system, page.system_va, Pages(1));
            self.unmap_pages(cx, space, page.va, Pages(1));
            self.let_move(page.allocation);
        }
    }

    fn let_move(&mut self, storage: AllocationId) {
        if !self.vidmm.may_be_demoted(storage) {
            self.vidmm.unpin(storage);
        }
    }

    fn end_storage(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, allocation: AllocationId) {
        let process = self.owners.process_of(device);
        self.let_move(allocation);
        let work = self.vidmm.destroy_allocation(allocation, &[]);
        self.queue_any(cx, process, work);
    }
}
