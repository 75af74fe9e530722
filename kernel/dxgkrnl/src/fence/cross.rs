//! One adapter's part of cross-adapter fences (sync §3.12): a word that is not its own, and news for the others. The machine knows the
//! others (`crate::cross_adapter`).
//!
//! ```text
//!  interrupt names it, a scan finds it,          machine                 another adapter
//!  the CPU signals it, a packet signals it ────▶ Signaled, Stored ──────▶ values_arrived: the driver looks at its
//!  its device is lost ─────────────────────────▶ Always  ──────────────▶ signal_always   run list, waiters are sampled
//!  waits for it here change ───────────────────▶ Awaited ──────────────▶ agree (only with doorbells)
//!  nothing here reaches the word any more ─────▶ Left
//! ```
//! Nothing that arrives makes news: so nothing comes back to where it came from.

use std::collections::BTreeMap;

use ddi::{CurrentUpdate, FenceType, UpdateCurrentFlags};
use events::Event;
use gpu_fence::FenceKind;
use kmt_calls::{FenceFlags, OpenSyncObjectRequest, Refusal, SyncObjectAccess};
use wddm_types::{PAGE_BYTES, PageRun, Pages};

use super::lifetime::NewMonitored;
use super::open::{Opened, PER_DEVICE, check_open};
use super::{FenceWord, NewFence};
use crate::adapter::Adapter;
use crate::fence::FenceNumber;
use crate::machine::Cx;
use crate::object::DeviceNumber;
use crate::refusal::no_memory;
use crate::store::ObjectNumber;

/// The CurrentValue of a cross-adapter fence as an adapter is lent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonWord {
    /// Which cross-adapter fence.
    pub cross: u64,
    /// Its page, which no other fence uses.
    pub page: PageRun,
    /// The page of its MonitoredValue, where all adapters share that, too.
    // spec: sync §3.18
    pub monitored: Option<PageRun>,
    /// Only a display of its creator signals it.
    pub by_display: bool,
    /// It has a value already: this adapter comes to a fence that there is.
    pub joined: bool,
}

/// An adapter's news for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The processor has given a fence another value.
    Stored(u64),
    /// An engine may have given a fence another value.
    Signaled(u64),
    /// The waits for a fence here have changed, or whether this adapter has it at all.
    Awaited(u64),
    /// A fence counts as reached for ever.
    Always(u64),
    /// No process has a fence open any more that is kept here, or neither engines nor paging work reach its word.
    Left(u64),
}

/// The cross-adapter fences of one adapter.
#[derive(Debug, Default)]
pub struct CommonFences {
    /// The adapter's fence of each that is open here.
    pub members: BTreeMap<u64, FenceNumber>,
    /// How many times the word is reached from here: opens, and those that have ended but for queued paging work.
    uses: BTreeMap<u64, u32>,
    /// Which adapters each is told to by doorbells, a bit for each.
    peers: BTreeMap<u64, u64>,
    news: Vec<News>,
}

impl CommonFences {
    /// Whether anything here still reaches the word of a fence.
    pub fn uses(&self, cross: u64) -> bool {
        self.uses.contains_key(&cross)
    }

    /// Whether there is anything to tell.
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Takes the news.
    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Something is to be told.
    pub fn tell(&mut self, news: News) {
        self.news.push(news);
    }

    /// Whether an engine's signal of a fence reaches an adapter without the processor.
    pub fn rings(&self, cross: u64, to: usize) -> bool {
        self.peers.get(&cross).is_some_and(|peers| peers >> to & 1 != 0)
    }

    /// A fence is one of this adapter's.
    pub(super) fn join(&mut self, cross: u64, number: FenceNumber) {
        self.members.insert(cross, number);
        self.news.push(News::Awaited(cross));
    }

    /// It is not any more.
    pub(super) fn leave(&mut self, cross: u64) {
        self.members.remove(&cross);
        self.peers.remove(&cross);
        self.news.push(News::Awaited(cross));
    }

    /// The word is mapped once more.
    pub(super) fn begin_use(&mut self, cross: u64) {
        *self.uses.entry(cross).or_default() += 1;
    }

    /// A mapping of the word has ended.
    pub fn end_use(&mut self, cross: u64) {
        let uses = self.uses.get_mut(&cross).expect("it was begun");
        *uses -= 1;
        if *uses == 0 {
            self.uses.remove(&cross);
            // An engine may have signalled it behind its last close here, of which no interrupt tells.
            self.news.extend([News::Signaled(cross), News::Left(cross)]);
        }
    }
}

impl Adapter {
    /// Opens a cross-adapter fence that no process has open here: this adapter gets a fence of its own over the word. `flags` are those
    /// that the object was created with.
    // spec: sync §3.3 step 3, sync §3.13
    pub fn join_fence(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        (common, flags, native): (CommonWord, FenceFlags, bool),
        access: SyncObjectAccess,
        request: OpenSyncObjectRequest,
    ) -> Result<Opened, Refusal> {
        check_open(access, &request)?;
        let mapped = !flags.contains(FenceFlags::NO_GPU_ACCESS) && self.reaches_common_words();
        let new = NewFence {
            device: Some(device),
            owner: self.devices[device].process,
            initial: 0,
            fence_type: FenceType::Default,
            monitored: (!native).then_some(NewMonitored { mapped, word: FenceWord::Whole, periodic: None }),
            by_engines: false,
            common: Some(common),
            flags: flags.difference(PER_DEVICE) | request.flags,
            access,
            private_data: request.private_data,
        };
        let (_, open, private_data) = self.make_fence(cx, new)?;
        self.devices[device].fences.insert(open);
        Ok((open, private_data))
    }

    /// Pages for the words of a cross-adapter fence that is created here, zeroed: the first is CurrentValue's, which processes see.
    pub fn take_common_pages(&mut self, count: Pages) -> Result<PageRun, Refusal> {
        let run = self.take_kernel_pages(count).ok_or_else(|| no_memory(super::page::NO_PAGES))?;
        self.memory.fill(run.first * PAGE_BYTES, count.bytes(), 0);
        self.show_word_page(PageRun { first: run.first, count: Pages(1) });
        Ok(run)
    }

    /// Whether engines of an adapter without native fences may store to a word that others read as 64 bits.
    // spec: sync §3.13: without 64-bit atomics only packets signal it
    pub fn reaches_common_words(&self) -> bool {
        self.driver.has_page_tables() && self.driver.has_64_bit_atomics()
    }

    /// Something is news of a fence: other adapters are told, if it has any.
    pub(super) fn tell_others(&mut self, number: FenceNumber, news: fn(u64) -> News) {
        if let Some(cross) = self.fences[number].cross() {
            self.common.tell(news(cross));
        }
    }

    /// Sets which peers hear of a fence's signals by doorbells, and the least value that is waited for where they reach.
    // spec: sync §3.18
    pub fn agree(&mut self, cx: &mut Cx<'_>, cross: u64, peers: u64, elsewhere: Option<u64>) {
        let (Some(number), true) = (self.common.members.get(&cross).copied(), !self.life.has_stopped()) else { return };
        let before = self.common.peers.insert(cross, peers).unwrap_or(0);
        let fence = &self.fences[number];
        if let (true, Some(global), Some(doorbells)) = (before != peers, fence.kmd, self.driver.peer_doorbells())
            && let Err(status) = doorbells.share_with_peers(global, cross, peers)
        {
            self.stop(cx, format!("the driver cannot share a fence with other adapters: {status}"));
            return;
        }
        let updates = self.waits.set_elsewhere(self.fences[number].waits, elsewhere);
        self.publish(cx, updates);
    }

    /// The least value of a fence that is waited for here.
    pub fn earliest_of(&self, number: FenceNumber) -> Option<u64> {
        self.waits.earliest(self.fences[number].waits)
    }

    /// The same of all that are native here, or are not, and for whose members this holds: the interrupt did not say which.
    // spec: sync §3.12, derived cases: idempotent, so it is told unless nobody can wait for it
    pub fn tell_others_of_any(&mut self, native: bool, which: impl Fn(&Adapter, FenceNumber) -> bool) {
        let is = |number: FenceNumber| (self.waits.kind(self.fences[number].waits) != FenceKind::Monitored) == native;
        let members = self.common.members.iter().filter(|(_, number)| is(**number) && which(self, **number));
        let news: Vec<News> = members.map(|(cross, _)| News::Signaled(*cross)).collect();
        self.common.news.extend(news);
    }

    /// Another adapter reports that these may have other values. The driver looks at its run lists for `told` of them, whether or not the
    /// kernel knows of a wait, for it knows nothing of waits on the GPU: for all, but those that its hardware was told of by itself. Then
    /// the kernel releases the waits here.
    // spec: sync §3.12 rows 5 to 7, sync §3.18
    pub fn values_arrived(&mut self, cx: &mut Cx<'_>, numbers: &[FenceNumber], told: &[FenceNumber]) {
        if self.life.has_stopped() {
            return;
        }
        for &fence in numbers {
            let value = self.current_value(fence);
            cx.emit(self.index, Event::CrossAdapterValueArrived { adapter: self.index.0, fence: fence.raw(), value });
        }
        if self.notify_only(cx, told) {
            self.sample_fences(cx, numbers);
        }
    }

    /// `UpdateCurrentValuesFromCpu` with NotificationOnly. A device without power runs no work that waits, and is told when it wakes.
    /// False: the driver failed, and the adapter is stopped.
    // spec: sync §2.6, sync §3.12
    pub(super) fn notify_only(&mut self, cx: &mut Cx<'_>, numbers: &[FenceNumber]) -> bool {
        if self.life.is_off() {
            return true;
        }
        let update = |number: &FenceNumber| {
            let fence = &self.fences[*number];
            let (value, current) = (fence.value(&self.memory), self.memory.word(fence.slot.current.0));
            fence.kmd.map(|global| CurrentUpdate { fence: global, value, current: Some(current) })
        };
        let batch: Vec<CurrentUpdate<'_>> = numbers.iter().filter_map(update).collect();
        let Some(fences) = self.driver.native_fences().filter(|_| !batch.is_empty()) else { return true };
        let told = fences.update_current_values(&batch, UpdateCurrentFlags::NOTIFICATION_ONLY);
        if let Err(status) = told {
            self.stop(cx, format!("bug check 0x119, parameter 0x13: UpdateCurrentValuesFromCpu failed: {status}"));
        }
        told.is_ok()
    }

    /// The adapter has failed: waits elsewhere for its signals end.
    // spec: sync §3.12, derived cases; sync §3.16
    pub fn lose_common_fences(&mut self) {
        let lost = |(cross, number): (&u64, &FenceNumber)| {
            let mut opens = self.fences[*number].opens.iter();
            let signals = opens.any(|open| self.fence_opens[*open].is_lost_with_device());
            (signals || self.fences[*number].periodic.is_some()).then_some((*cross, *number))
        };
        let lost: Vec<_> = self.common.members.iter().filter_map(lost).collect();
        for (cross, number) in lost {
            let fence = &mut self.fences[number];
            if !std::mem::replace(&mut fence.always_signaled, true) {
                fence.store(&self.memory, u64::MAX);
                self.common.tell(News::Always(cross));
            }
        }
    }
}
