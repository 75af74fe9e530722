//! Pages of fence words in the local memory of devices (sync §1.4, §1.5): which a device has, which of their words are free, where the
//! driver believes each page to be, and from which paging work on it is there. It is not how a page is made, mapped and moved: the
//! adapter does that, tells here what became of it, and unmaps the pages that it is handed when the device goes.

use std::collections::BTreeMap;

use ddi::{FenceResidency, FenceType, FenceValueType, OsGlobalFence};
use kmt_calls::CreatedFence;
use vidmm::{AllocationId, StateDigest};
use wddm_types::{GpuVa, PAGE_BYTES, PhysicalAddress, SegmentId, WordAddress};

use super::{Fence, LocalWord, Synchronization};
use crate::number::{DeviceNumber, FenceNumber};
use crate::store::ObjectNumber;

/// The kind of a page's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalKind {
    pub fence_type: FenceType,
    pub value_type: FenceValueType,
}

impl LocalKind {
    /// MonitoredValues of DEFAULT fences: those by which the kernel publishes.
    pub const OPTIMIZED: LocalKind =
        LocalKind { fence_type: FenceType::Default, value_type: FenceValueType::Monitored };
}

/// A page of words that is made: its allocation, and where the GPU sees it.
#[derive(Clone, Copy, Debug)]
pub struct LocalPage {
    pub allocation: AllocationId,
    /// In the space of the device's process.
    pub va: GpuVa,
    pub system_va: GpuVa,
}

/// A page as it stands.
#[derive(Clone, Copy, Debug)]
pub struct LocalPlace {
    /// Where the driver believes it to be.
    pub address: PhysicalAddress,
    /// The paging work behind which it is there, with its content.
    pub there_after: u64,
}

/// The words in local memory of all devices that have some.
#[derive(Debug, Default)]
pub(super) struct LocalWords {
    devices: BTreeMap<DeviceNumber, Vec<WordPage>>,
}

/// Words of one kind in one device's local memory.
#[derive(Debug)]
struct WordPage {
    kind: LocalKind,
    made: LocalPage,
    stride: u64,
    free: Vec<u16>,
    place: LocalPlace,
    /// Its content went with a reset of the adapter.
    lost: bool,
}

impl WordPage {
    /// A free word of the page, which has one.
    fn take(&mut self, device: DeviceNumber) -> LocalWord {
        let index = self.free.pop().expect("a page with a free word");
        let offset = u64::from(index) * self.stride;
        debug_assert!(offset < PAGE_BYTES, "a word is on its page: {index} of {} bytes each", self.stride);
        let LocalPage { allocation, va, system_va } = self.made;
        LocalWord { device, allocation, index, va: va.offset(offset), system_va: system_va.offset(offset) }
    }

    /// The place of a word while the page is there.
    fn place_of(&self, word: LocalWord, base: PhysicalAddress) -> PhysicalAddress {
        PhysicalAddress { offset: base.offset + u64::from(word.index) * self.stride, ..base }
    }
}

impl LocalWords {
    /// The devices that have some.
    pub(super) fn devices(&self) -> impl Iterator<Item = DeviceNumber> + '_ {
        self.devices.keys().copied()
    }

    fn page_of(&self, word: LocalWord) -> Option<&WordPage> {
        self.devices.get(&word.device)?.iter().find(|page| page.made.allocation == word.allocation)
    }
}

impl Synchronization {
    /// A free word of a device; `None`: it has none of the kind, and needs a page more.
    pub fn take_local_word(&mut self, device: DeviceNumber, kind: LocalKind) -> Option<LocalWord> {
        let pages = self.local.devices.get_mut(&device)?;
        let page = pages.iter_mut().find(|page| page.kind == kind && !page.free.is_empty())?;
        Some(page.take(device))
    }

    /// A device gets a page of words, all of them free. Answers with the first of them.
    pub fn add_local_page(
        &mut self,
        device: DeviceNumber,
        kind: LocalKind,
        made: LocalPage,
        stride: u64,
        place: LocalPlace,
    ) -> LocalWord {
        // CAST: a page has at most 512 words.
        let free = (0..(PAGE_BYTES / stride) as u16).rev().collect();
        let mut page = WordPage { kind, made, stride, free, place, lost: false };
        let word = page.take(device);
        self.local.devices.entry(device).or_default().push(page);
        word
    }

    /// A word that no fence uses any more.
    pub fn give_back_local_word(&mut self, word: LocalWord) {
        // With the device its pages have gone.
        let Some(pages) = self.local.devices.get_mut(&word.device) else { return };
        if let Some(page) = pages.iter_mut().find(|page| page.made.allocation == word.allocation) {
            debug_assert!((page.free.len() as u64) < PAGE_BYTES / page.stride, "a word is free once: {word:?}");
            page.free.push(word.index);
        }
    }

    /// A device goes: its pages, which the caller unmaps.
    #[must_use]
    pub fn release_local_words(&mut self, device: DeviceNumber) -> Vec<LocalPage> {
        self.local.devices.remove(&device).unwrap_or_default().into_iter().map(|page| page.made).collect()
    }

    /// The driver has been told of a move of a page.
    pub fn local_page_moved(&mut self, storage: AllocationId, place: LocalPlace) {
        let pages = self.local.devices.values_mut().flatten();
        pages.filter(|page| page.made.allocation == storage).for_each(|page| page.place = place);
    }

    /// Local memory is lost: no engine signals by these words any more.
    // spec: sync §4.4
    pub fn local_words_lost(&mut self) {
        self.local.devices.values_mut().flatten().for_each(|page| page.lost = true);
    }

    /// Where a word is that the kernel publishes by; `None`: it publishes by no such word, or cannot just now, when the ring is past
    /// the paging work `done`.
    pub fn published_place(&self, word: LocalWord, done: u64) -> Option<PhysicalAddress> {
        let page = self.local.page_of(word)?;
        let there = page.kind == LocalKind::OPTIMIZED && !page.lost && page.place.there_after <= done;
        there.then(|| page.place_of(word, page.place.address))
    }

    /// The driver's notice when storage of fences goes to an address: the fences that have words there, with the place of each word.
    // spec: memory §3.4, operation 18
    pub fn fences_moved(&self, storage: AllocationId, address: PhysicalAddress) -> Vec<FenceResidency> {
        let place = |word: LocalWord| {
            let page = self.local.page_of(word).expect("a fence's words are on its device's pages");
            let base = if word.allocation == storage { address } else { page.place.address };
            (page.place_of(word, base), page.kind == LocalKind::OPTIMIZED)
        };
        let moved = |(number, fence): (FenceNumber, &Fence)| {
            if fence.kmd.is_none() || !fence.slot.stands_in(storage) {
                return None;
            }
            // Its queue and its device have gone, and the pages of words with the device: no engine signals by these words any more.
            if fence.doomed
                && !fence.slot.local_monitored().is_some_and(|word| self.local.devices.contains_key(&word.device))
            {
                return None;
            }
            let (monitored, seen) = place(fence.slot.local_monitored()?);
            let monitored_word = match monitored.segment {
                SegmentId::SYSTEM if seen => WordAddress(monitored.offset),
                // spec: sync §1.4: no address for the CPU, or one that is lent with each update
                _ => CreatedFence::NO_CPU_ADDRESS,
            };
            let (current, current_word) = match fence.slot.local_current() {
                Some(current) => (place(current).0, CreatedFence::NO_CPU_ADDRESS),
                None => {
                    let word = fence.slot.current;
                    (PhysicalAddress { segment: SegmentId::SYSTEM, offset: word.0 }, word)
                }
            };
            Some(FenceResidency {
                fence: OsGlobalFence(number.raw()),
                current,
                monitored,
                current_word,
                monitored_word,
            })
        };
        self.fences().filter_map(moved).collect()
    }

    /// Whether the hardware, which is past the paging work `done`, has not yet brought a fence's CurrentValue, if that lies in local
    /// memory, to where the driver believes it to be.
    pub fn is_word_on_its_way(&self, number: FenceNumber, done: u64) -> bool {
        let page = self.fences[number].slot.local_current().and_then(|word| self.local.page_of(word));
        page.is_some_and(|page| page.place.there_after > done)
    }

    /// For the digest of the adapter's state.
    pub(super) fn add_local_words_to(&self, digest: &mut StateDigest) {
        self.local.devices.iter().for_each(|(device, pages)| digest.add("local words of", device, pages));
    }
}
