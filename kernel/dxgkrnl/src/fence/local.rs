//! Fence words in local memory (sync §1.4, §1.5): both words of INTRA_GPU fences, which only engines and the context management
//! processor touch. Which segments, the driver says (FENCESTORAGE); whether at all, the kernel's configuration
//! (`SupportIntraGpuFenceType`). Shared fences lie in system memory always.
//!
//! A page of words is an allocation of the kernel's own on the device that creates the fence; it goes with its device. Where the
//! driver lists an aperture it may be demoted to system memory, and comes back when there is room: all devices of its process
//! stand still meanwhile, and the driver is told by NOTIFY_FENCE_RESIDENCY. Else it is pinned. It begins with zeros, or with
//! the MonitoredValue that nobody exceeds: no CPU has to write it first. What one fence leaves in a word stays for the next: the
//! user-mode driver gives an INTRA_GPU fence its initial value by a GPU write.

use ddi::{
    AllocationFlags, AllocationInfo, ContextAllocationFlags, FenceResidency, FenceStorageSurface, FenceType,
    FenceValueType, OsGlobalFence, PRIORITY_MAXIMUM,
};
use kmt_calls::{CreatedFence, Refusal};
use vidmm::{AllocationId, MapRequest, Protection, SpaceId, Target};
use wddm_types::{GpuVa, PAGE_BYTES, Pages, PhysicalAddress, ProcessId};

use crate::adapter::Adapter;
use crate::context_allocation::ContextAllocation;
use crate::machine::Cx;
use crate::object::{Device, Fence};
use crate::refusal::{from_driver, no_memory, not_supported};

/// The fill pattern of MonitoredValues that nobody exceeds, 32 bits of it.
const NOBODY: u32 = u32::MAX;

/// Words of one kind in one device's local memory.
#[derive(Debug)]
pub struct LocalPage {
    value_type: FenceValueType,
    allocation: AllocationId,
    va: GpuVa,
    system_va: GpuVa,
    stride: u64,
    free: Vec<u16>,
    /// Where the driver believes it to be.
    address: PhysicalAddress,
}

/// A word in local memory.
#[derive(Clone, Copy, Debug)]
pub struct LocalWord {
    device: u64,
    allocation: AllocationId,
    index: u16,
    pub va: GpuVa,
    pub system_va: GpuVa,
}

impl Adapter {
    /// A word in the local memory of a device.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` where the driver has no such storage; `NO_MEMORY`.
    // spec: sync §1.5
    pub(super) fn take_local_word(
        &mut self,
        cx: &mut Cx<'_>,
        device: u64,
        value_type: FenceValueType,
    ) -> Result<LocalWord, Refusal> {
        let pages = &self.devices[device].local_words;
        let page = match pages.iter().position(|page| page.value_type == value_type && !page.free.is_empty()) {
            Some(page) => page,
            None => self.add_local_page(cx, device, value_type)?,
        };
        let page = &mut self.devices[device].local_words[page];
        let index = page.free.pop().expect("a page with a free word");
        let offset = u64::from(index) * page.stride;
        Ok(LocalWord {
            device,
            allocation: page.allocation,
            index,
            va: page.va.offset(offset),
            system_va: page.system_va.offset(offset),
        })
    }

    pub(super) fn give_back_local_word(&mut self, word: LocalWord) {
        // With the device its pages have gone.
        let Some(device) = self.devices.get_mut(word.device) else { return };
        if let Some(page) = device.local_words.iter_mut().find(|page| page.allocation == word.allocation) {
            page.free.push(word.index);
        }
    }

    fn add_local_page(&mut self, cx: &mut Cx<'_>, device: u64, value_type: FenceValueType) -> Result<usize, Refusal> {
        let (size_bytes, priority) = (PAGE_BYTES, PRIORITY_MAXIMUM);
        let info = AllocationInfo { size_bytes, priority, ..AllocationInfo::default() };
        let mut surface = FenceStorageSurface { value_type, fence_type: FenceType::IntraGpu, info };
        let fences = self.miniport.native_fences().expect("native fences have their facet");
        fences.fence_storage(&mut surface).map_err(from_driver)?;
        // spec: sync §1.4: the CPU does not see INTRA_GPU fences
        if surface.info.flags.intersects(AllocationFlags::CPU_VISIBLE | AllocationFlags::CPU_VISIBLE_ON_DEMAND) {
            return Err(not_supported("the driver's storage for INTRA_GPU fences is CPU-visible"));
        }
        let info = AllocationInfo { size_bytes, priority, ..surface.info };
        let (stride, pattern) = match value_type {
            FenceValueType::Current => (crate::word_page::WORD_STRIDE, 0),
            FenceValueType::Monitored => (self.monitored_stride(), NOBODY),
        };
        let process = self.devices[device].process;
        let allocation = self.place_storage(cx, device, info, pattern)?;
        let mapped = self.map_local_page(cx, process, allocation, value_type);
        let (va, system_va) = match mapped {
            Ok(addresses) => addresses,
            Err(refusal) => {
                self.end_storage(cx, device, allocation);
                return Err(refusal);
            }
        };
        let address = self.vidmm.storage_address(allocation);
        let mapped_at = self.ring.queued();
        self.processes.get_mut(&process).expect("a device's process is here").words_mapped_at = mapped_at;
        let flags = ContextAllocationFlags::SHARED_ACROSS_CONTEXTS;
        let device = &mut self.devices[device];
        device.context_allocations.push(ContextAllocation { vidmm: allocation, flags });
        // CAST: a page has at most 512 words.
        let free = (0..(PAGE_BYTES / stride) as u16).rev().collect();
        device.local_words.push(LocalPage { value_type, allocation, va, system_va, stride, free, address });
        Ok(device.local_words.len() - 1)
    }

    /// Storage that is resident from now on, wherever that is.
    fn place_storage(
        &mut self,
        cx: &mut Cx<'_>,
        device: u64,
        info: AllocationInfo,
        pattern: u32,
    ) -> Result<AllocationId, Refusal> {
        let (vidmm, process) = (self.devices[device].vidmm, self.devices[device].process);
        let made = self.vidmm.create_fence_storage(vidmm, info, pattern);
        let allocation = made.map_err(|error| not_supported(format!("the driver's storage for fences: {error}")))?;
        for run in self.vidmm.backing(allocation) {
            self.memory.fill(run.first * PAGE_BYTES, run.count.bytes(), pattern);
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
        let (system, space) = (self.processes[&ProcessId::SYSTEM].space, self.processes[&process].space);
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
    pub fn unmap_local_words(&mut self, cx: &mut Cx<'_>, device: u64) {
        let (system, process) = (self.processes[&ProcessId::SYSTEM].space, self.devices[device].process);
        let space = self.processes[&process].space;
        for page in std::mem::take(&mut self.devices[device].local_words) {
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

    /// What the driver is to hear when storage of fences goes to an address: the fences that have words there, with the place of
    /// each word.
    // spec: memory §3.4, operation 18
    pub fn fences_moved(&self, storage: AllocationId, address: PhysicalAddress) -> Vec<FenceResidency> {
        let place = |word: LocalWord| {
            let page = self.devices[word.device].local_words.iter().find(|page| page.allocation == word.allocation);
            let page = page.expect("a fence's words are on its device's pages");
            let base = if word.allocation == storage { address } else { page.address };
            PhysicalAddress { offset: base.offset + u64::from(word.index) * page.stride, ..base }
        };
        let moved = |(number, fence): (u64, &Fence)| {
            let words = fence.slot.local_words().filter(|words| fence.kmd.is_some() && stands_in(words, storage))?;
            let [current, monitored] = words.map(place);
            let fence = OsGlobalFence(number);
            // spec: sync §1.4: no address for the CPU
            let (current_word, monitored_word) = (CreatedFence::NO_CPU_ADDRESS, CreatedFence::NO_CPU_ADDRESS);
            Some(FenceResidency { fence, current, monitored, current_word, monitored_word })
        };
        self.fences.iter().filter_map(moved).collect()
    }

    /// The driver has been told of a move.
    pub fn note_fences_moved(&mut self, storage: AllocationId, address: PhysicalAddress) {
        let has = |device: &Device| device.local_words.iter().any(|page| page.allocation == storage);
        let Some(owner) = self.devices.iter().find(|(_, device)| has(device)).map(|(number, _)| number) else { return };
        let pages = &mut self.devices[owner].local_words;
        pages.iter_mut().filter(|page| page.allocation == storage).for_each(|page| page.address = address);
    }

    /// Fence words have moved: the hardware knows words that are satisfied for ever by their place.
    // spec: sync §3.16
    pub fn words_have_moved(&mut self, cx: &mut Cx<'_>, storage: AllocationId) {
        let there = |fence: &Fence| fence.slot.local_words().is_some_and(|words| stands_in(&words, storage));
        let sealed = self.fences.iter().filter(|(_, fence)| fence.always_signaled && there(fence));
        for number in sealed.map(|(number, _)| number).collect::<Vec<_>>() {
            if !self.tell_always_signaled(cx, number) {
                return;
            }
        }
    }

    fn end_storage(&mut self, cx: &mut Cx<'_>, device: u64, allocation: AllocationId) {
        let process = self.devices[device].process;
        self.let_move(allocation);
        let work = self.vidmm.destroy_allocation(allocation, &[]);
        self.queue_any(cx, process, work);
    }
}

fn stands_in(words: &[LocalWord; 2], storage: AllocationId) -> bool {
    words.iter().any(|word| word.allocation == storage)
}
