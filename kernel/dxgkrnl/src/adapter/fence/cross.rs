//! One adapter's part of cross-adapter fences (sync §3.12): a word that is not its own, and news for the others. The machine knows the
//! others (`crate::machine::news`).
//!
//! ```text
//!  interrupt names it, a scan finds it,          machine                 another adapter
//!  the CPU signals it, a packet signals it ────▶ Signaled, Stored ──────▶ values_arrived: the driver looks at its
//!  its device is lost ─────────────────────────▶ Always  ──────────────▶ signal_always   run list, waiters are sampled
//!  waits for it here change ───────────────────▶ Awaited ──────────────▶ agree (only with doorbells)
//!  nothing here reaches the word any more ─────▶ Left
//! ```
//! Nothing that arrives makes news: so nothing comes back to where it came from.

use ddi::FenceType;
use events::Event;
use kmt_calls::{FenceFlags, OpenSyncObjectRequest, Refusal, SyncObjectAccess};
use wddm_types::{AdapterIndex, PAGE_BYTES, PageRun, Pages};

use super::lifetime::{NewFence, NewMonitored};
use super::open::Opened;
use crate::adapter::Adapter;
use crate::breach::Breach;
use crate::cross_adapter::Opener;
use crate::effect::Cx;
use crate::number::{CrossFenceNumber, DeviceNumber, FenceNumber};
use crate::platform::Viewers;
use crate::refusal::no_memory;
use crate::store::ObjectNumber;
use crate::sync::{CommonWord, FenceWord, PER_DEVICE, check_open};

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
        check_open(access, flags, &request)?;
        let mapped = !flags.contains(FenceFlags::NO_GPU_ACCESS) && self.reaches_common_words();
        let new = NewFence {
            device: Some(device),
            owner: self.owners.process_of(device),
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
        self.sync.list_fence_open(open);
        Ok((open, private_data))
    }

    /// Pages for the words of a cross-adapter fence that is created here, zeroed: the first is CurrentValue's, which processes see.
    pub fn take_common_pages(&mut self, cx: &Cx<'_>, count: Pages) -> Result<PageRun, Refusal> {
        let run = self.take_kernel_pages(cx, count).ok_or_else(|| no_memory(super::page::NO_PAGES))?;
        cx.memory.fill(run.first * PAGE_BYTES, count.bytes(), 0);
        self.show_word_page(cx, Viewers::Several, PageRun { first: run.first, count: Pages(1) });
        Ok(run)
    }

    /// The fence to which they belonged has gone.
    pub fn give_common_pages_back(&mut self, cx: &Cx<'_>, page: PageRun) {
        let clients = cx.platform(self.index).clients();
        self.driver.pages().give_back(clients, page);
    }

    /// This adapter, for the fences that it opens.
    pub fn as_opener(&self) -> Opener {
        Opener {
            adapter: self.index,
            has_native_fences: self.driver.has_native_fences(),
            has_inbox: self.sync.inbox().is_some(),
        }
    }

    /// Whether native fences of several adapters have a MonitoredValue that all share.
    pub fn has_linear_storage(&self) -> bool {
        self.sync.has_linear_storage()
    }

    /// The adapter's own fence of one that several have, if it has one.
    pub fn part_in(&self, cross: CrossFenceNumber) -> Option<FenceNumber> {
        self.sync.member(cross)
    }

    /// Whether it has one.
    pub fn has_part_in(&self, cross: CrossFenceNumber) -> bool {
        self.sync.member(cross).is_some()
    }

    /// Whether anything here reaches the word of such a fence.
    pub fn reaches_common_word(&self, cross: CrossFenceNumber) -> bool {
        self.sync.reaches_common_word(cross)
    }

    /// Whether an engine's signal of it reaches another adapter without the processor.
    pub fn rings(&self, cross: CrossFenceNumber, to: usize) -> bool {
        self.sync.rings(cross, to)
    }

    /// Of an adapter that has the fence: whether peers' doorbells reach it, and the least value that is waited for here.
    pub fn waits_for(&self, cross: CrossFenceNumber) -> Option<(bool, Option<u64>)> {
        let number = self.sync.member(cross)?;
        let rings = self.sync.inbox().is_some() && !self.sync.is_monitored(number) && !self.life.has_stopped();
        Some((rings, self.sync.earliest_of(number)))
    }

    /// The creator keeps the fence of a display's signals without an open here.
    pub fn keep_fence(&mut self, cross: CrossFenceNumber) {
        self.sync.keep_fence(cross);
    }

    /// Whether engines of an adapter without native fences may store to a word that others read as 64 bits.
    // spec: sync §3.13: without 64-bit atomics only packets signal it
    pub(super) fn reaches_common_words(&self) -> bool {
        self.driver.has_page_tables() && self.driver.has_64_bit_atomics()
    }

    /// Sets which peers hear of a fence's signals by doorbells, and the least value that is waited for where they reach.
    // spec: sync §3.18
    pub fn agree(&mut self, cx: &mut Cx<'_>, cross: CrossFenceNumber, peers: u64, elsewhere: Option<u64>) {
        let agreed = self.agree_with_driver(cx, cross, peers, elsewhere);
        self.heed(cx, agreed);
    }

    fn agree_with_driver(
        &mut self,
        cx: &mut Cx<'_>,
        cross: CrossFenceNumber,
        peers: u64,
        elsewhere: Option<u64>,
    ) -> Result<(), Breach> {
        let (Some(number), true) = (self.sync.member(cross), !self.life.has_stopped()) else { return Ok(()) };
        let (changed, kmd) = (self.sync.set_peers_of(cross, peers), self.sync.fence(number).kmd);
        if let (true, Some(global), Some(doorbells)) = (changed, kmd, self.driver.call(cx).peer_doorbells())
            && let Err(status) = doorbells.share_with_peers(global, cross.raw(), peers)
        {
            return Err(Breach(format!("the driver cannot share a fence with other adapters: {status}")));
        }
        let updates = self.sync.set_elsewhere(number, elsewhere);
        self.publish(cx, updates);
        Ok(())
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
            let value = self.sync.current_value(cx.memory, fence);
            cx.emit(self.index, Event::CrossAdapterValueArrived { adapter: self.index.0, fence: fence.raw(), value });
        }
        let notified = self.notify_only(cx, told);
        if self.heed(cx, notified).is_some() {
            self.sample_fences(cx, numbers);
        }
    }

    /// The driver looks at its run lists for these fences. A device without power runs no work that waits, and is told when it wakes.
    ///
    /// # Errors
    /// The driver failed: bug check 0x119, parameter 0x13.
    // spec: sync §2.6, sync §3.12
    pub(super) fn notify_only(&mut self, cx: &Cx<'_>, numbers: &[FenceNumber]) -> Result<(), Breach> {
        if self.life.is_off() {
            return Ok(());
        }
        self.sync.notify(self.driver.call(cx), cx.memory, numbers)
    }
}

/// The adapter's doorbells for its peers, out of a page of the kernel and with the driver (sync §3.18).
impl Adapter {
    /// Gives the adapter an inbox, if its driver has doorbells, its fences are native and its number has a lane. One for which there is
    /// no page goes without.
    // spec: sync §3.18: a capability of both, else sync §3.12
    pub fn make_inbox(&mut self, cx: &Cx<'_>) {
        let number = self.index.0;
        let Some(caps) = self.driver.facets().peer_doorbells.filter(|_| self.driver.has_native_fences()) else {
            return;
        };
        if u64::from(number) >= shared_words::peer::LANES {
            return;
        }
        let Some(page) = self.take_kernel_pages(cx, Pages(1)) else { return };
        cx.memory.fill(page.first * PAGE_BYTES, PAGE_BYTES, 0);
        self.sync.give_inbox(page, caps.linear_storage);
        self.driver.call(cx).peer_doorbells().expect("it has them").set_inbox(number, page.first * PAGE_BYTES);
    }

    /// The address of its inbox, if it has one.
    pub fn inbox(&self) -> Option<u64> {
        self.sync.inbox()
    }

    /// Tells the driver where another adapter's inbox is.
    pub fn connect_peer(&mut self, cx: &Cx<'_>, peer: AdapterIndex, inbox: u64) {
        if let Some(doorbells) = self.driver.call(cx).peer_doorbells().filter(|_| self.sync.inbox().is_some()) {
            doorbells.connect_peer(peer.0, inbox);
        }
    }
}
