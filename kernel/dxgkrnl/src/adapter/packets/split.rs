//! Buffers whose list is residency (memory §6.1, §7.3, §7.4): a driver of the first generation knows no residency lists, so the kernel
//! brings in the allocations that a buffer names. `vidmm` says which of them fit together and where a buffer is to be split; here the
//! *portions* become submissions of one DMA buffer, patched and handed over one after the other. Work that waits for the buffer waits for
//! the last of them.
//!
//! ```text
//! Render ─► every portion decided: paging work, places ─► portion 1 ─► … ─► last portion ─► the packet is done
//!               └ the device is suspended: the call waits until its turn
//! ```
//! The kernel decides everything when it queues the buffer, so paging for a portion stands in the ring before anything that could wait
//! for the buffer. Each portion has a number on a fence of the kernel's own: content that leaves memory behind a portion that is not the
//! last waits for that.

use ddi::PatchLocation;
use events::Event;
use gpu_fence::{FenceId, WaitMode};
use kmt_calls::{DeviceState, Refusal, Reply};
use vidmm::{AllocationId, Cut, PortionError, Use};
use wddm_types::{Blame, FencePoint, NtStatus, ProcessId};

use crate::adapter::Adapter;
use crate::due::Waiter;
use crate::effect::{Answer, Cx, Effect, Token};
use crate::number::{DeviceNumber, FenceNumber, PacketContextNumber, PacketNumber};
use crate::packet::{Bound, ListEntry, Needed, Portion, Submission, WaitingRender, Work, check_private_data};
use crate::refusal::{invalid, no_memory, refuse};
use crate::store::ObjectNumber;

impl Adapter {
    /// Whether what lists name need not be on a residency list: the driver knows none.
    // spec: memory §6.1, memory §7.4
    pub(in crate::adapter) fn lists_are_residency(&self) -> bool {
        self.driver.is_wddm_1()
    }

    /// Queues a buffer with lists, or has the call wait until its device runs again: only then can be said where what the
    /// buffer names finds room.
    pub fn submit_listed(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        context: PacketContextNumber,
        entries: Vec<ListEntry>,
        what: Submission,
    ) -> Result<Answer, Refusal> {
        if let Submission::Render { command, places, .. } = &what
            && command.is_empty()
        {
            let unfinished = self.render_nothing(cx, context, &entries, places)?;
            return Ok(Answer::Done(Ok(Reply::Queued(unfinished))));
        }
        let device = self.packets[context].device;
        let is_quiesced = self.vidmm.is_suspended(self.owners.vidmm_of(device));
        let queue = self.packets.has_waiting_on(context);
        if self.lists_are_residency()
            && (is_quiesced || queue || self.waits_for_withheld(device, &entries))
            && self.names_unlisted(device, &entries)
        {
            // The kernel refuses a buffer that breaks a rule at once.
            if let Submission::Render { command, places, private_data } = &what {
                self.check_render(context, command, &entries, places)?;
                check_private_data(private_data, self.packets[context].info.dma_buffer_private_data_bytes)?;
            }
            self.check_own_locks(cx, device)?;
            self.locked_may_leave(cx, device, &entries)?;
            if self.uses_kept_out(&entries, &what) {
                return Err(self.portion_refused(cx, device, PortionError::Locked));
            }
            let done = self.create_fence(cx, None, ProcessId::SYSTEM, 0)?;
            let locked = self.own_locks(device);
            self.packets.wait_for_turn(WaitingRender { token, device, context, entries, what, done, locked });
            return Ok(Answer::Later(token));
        }
        self.queue_listed(cx, context, &entries, &what).map(|queued| Answer::Done(Ok(Reply::Queued(queued))))
    }

    fn queue_listed(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        entries: &[ListEntry],
        what: &Submission,
    ) -> Result<u32, Refusal> {
        match what {
            Submission::Render { command, places, private_data } => {
                self.render(cx, context, command, entries, places, private_data)
            }
            Submission::Present { rectangles } => self.present(cx, context, entries, rectangles),
        }
    }

    /// No process waits for its own unlock: a device whose list holds an allocation that its process has locked, and that may not come
    /// back before the unlock, has no turn until then.
    // spec: memory §6.5, memory §9.2, memory §10.1 row 23
    fn check_own_locks(&mut self, cx: &Cx<'_>, device: DeviceNumber) -> Result<(), Refusal> {
        if self.is_kept_out_by(cx, device, self.owners.process_of(device)) { Err(kept_out()) } else { Ok(()) }
    }

    /// Whether a buffer uses content that a lock keeps out: the device's turn would not bring it.
    // spec: memory §6.5
    fn uses_kept_out(&self, entries: &[ListEntry], what: &Submission) -> bool {
        let is_used = |at: usize| match what {
            // CAST: a list has far fewer entries.
            Submission::Render { places, .. } => places.iter().any(|place| place.allocation_index as usize == at),
            Submission::Present { .. } => true,
        };
        let used = entries.iter().enumerate().filter(|(at, _)| is_used(*at));
        let mut content = used.filter_map(|(_, entry)| entry.allocation).map(|listed| listed.instance);
        content.any(|id| self.vidmm.is_kept_out(id))
    }

    /// The locked allocations on a device's list that are its process's own. The call may come from the thread that is to unlock them.
    fn own_locks(&self, device: DeviceNumber) -> Vec<AllocationId> {
        let (owner, process) = (self.owners.vidmm_of(device), self.owners.process_of(device));
        let own = self.memory.allocations.bodies().filter(|(_, body)| body.creator == process).map(|(id, _)| id);
        own.filter(|id| self.vidmm.is_locked(*id) && self.vidmm.count(owner, *id) > 0).collect()
    }

    /// Whether a device has no turn before a process unlocks something. A lock of what the device evicted, and none of its queued buffers
    /// uses, keeps no turn away.
    pub(super) fn is_kept_out_by(&mut self, cx: &Cx<'_>, device: DeviceNumber, process: ProcessId) -> bool {
        let Some(owner) = self.owners.facts_of(device).map(|facts| facts.vidmm) else { return false };
        if self.vidmm.is_suspended(owner) {
            self.settle_postponed(cx, owner);
        }
        let locked = self.vidmm.kept_out_of(owner);
        // Only the creator of an allocation may lock it.
        locked.is_some_and(|locked| self.memory.allocations.body_of(locked).creator == process)
    }

    /// Whether a buffer waits until its device withholds nothing any more: it does not fit beside that at once.
    fn waits_for_withheld(&self, device: DeviceNumber, entries: &[ListEntry]) -> bool {
        let owner = self.owners.vidmm_of(device);
        let content = || entries.iter().filter_map(|entry| Some(entry.allocation?.instance)).collect::<Vec<_>>();
        self.vidmm.withholds(owner) && !self.vidmm.may_bring_in_behind(owner, &content())
    }

    /// Whether a list names something that no residency list of its device holds.
    fn names_unlisted(&self, device: DeviceNumber, entries: &[ListEntry]) -> bool {
        let owner = self.owners.vidmm_of(device);
        let mut named = entries.iter().filter_map(|entry| entry.allocation);
        named.any(|listed| self.vidmm.count(owner, listed.instance) == 0)
    }

    /// Whether a call of a device waits to be queued: it has something to run.
    pub(in crate::adapter) fn has_waiting_renders(&self, device: DeviceNumber) -> bool {
        self.packets.has_waiting(device)
    }

    /// Queues what waited for its device's turn, in the order of the calls.
    pub(in crate::adapter) fn renders_due(&mut self, cx: &mut Cx<'_>) {
        // Those behind one that is queued wait still, and what they name is not given away.
        for _ in 0..self.packets.waiting_count() {
            let waiting = self.packets.take_waiting().expect("only this loop takes one out");
            let device = self.owners.facts_of(waiting.device).filter(|_| self.owners.is_active(waiting.device));
            let lost = self.life.has_stopped() || self.packets.get(waiting.context).is_none();
            let known = |entry: &ListEntry| {
                entry
                    .allocation
                    .is_none_or(|listed| self.memory.allocations.has_instance(listed.number, listed.instance))
            };
            let result = match device {
                Some(known)
                    if !lost
                        && (self.vidmm.is_suspended(known.vidmm)
                            || self.waits_for_withheld(waiting.device, &waiting.entries)) =>
                {
                    let owner = known.vidmm;
                    self.settle_postponed(cx, owner);
                    // An allocation that was locked at the call may have had to leave since: there will be no turn before its unlock.
                    // Another thread of the process unlocks those locked since.
                    if !self.vidmm.all_kept_out_of(owner).any(|id| waiting.locked.contains(&id)) {
                        self.packets.wait_for_turn(waiting);
                        continue;
                    }
                    Err(kept_out())
                }
                Some(_) if !lost && waiting.entries.iter().all(known) => {
                    self.queue_listed(cx, waiting.context, &waiting.entries, &waiting.what).map(Reply::Queued)
                }
                Some(_) if !lost => Err(invalid("an allocation was destroyed while the buffer that names it waited")),
                _ => Err(self.lost_meanwhile(waiting.device)),
            };
            let queued = result.is_ok();
            cx.effects.push(Effect::Answer { token: waiting.token, result });
            self.render_settled(cx, &waiting, queued);
        }
    }

    /// A submission waits for its turn no more: it is done when its packet is, or was refused.
    fn render_settled(&mut self, cx: &mut Cx<'_>, waiting: &WaitingRender, queued: bool) {
        let packet = self.packets.get(waiting.context).filter(|_| queued);
        let point = packet.map(|known| self.sync.point(known.progress, self.packets.last_submitted(waiting.context)));
        let waiter = Waiter::Render { done: waiting.done };
        if point.is_none_or(|point| self.begin_wait(cx, &[point], WaitMode::All, waiter)) {
            self.render_done(cx, waiting.done);
        }
        for listed in waiting.entries.iter().filter_map(|entry| entry.allocation) {
            self.offer_if_retired(cx, listed);
        }
    }

    /// Ends the wait of work behind a submission that waited for its device's turn.
    pub(in crate::adapter) fn render_done(&mut self, cx: &mut Cx<'_>, done: FenceNumber) {
        self.signal_fence(cx, done, 1);
        self.defer_fence(done);
    }

    /// The entries of a list that a portion needs, and where they are when it runs.
    fn needs_of(&self, device: DeviceNumber, entries: &[Bound], content: &[AllocationId]) -> Vec<Option<Needed>> {
        let needed = |bound: &Bound| {
            let vidmm = bound.vidmm.filter(|id| content.contains(id))?;
            let bindings = self.bindings_of(device, vidmm, self.binding_of(vidmm));
            Some(Needed { vidmm, written: bound.written, bindings })
        };
        entries.iter().map(needed).collect()
    }

    /// Decides all portions of a buffer that is being queued: paging work goes into the ring, places are bound. A buffer all
    /// of whose memory is listed has none.
    ///
    /// # Errors
    /// The reason why none fits. Nothing was begun then: later portions have room if the first has (memory §7.3).
    // spec: memory §7.3, memory §7.4, memory §8.1
    pub(super) fn make_portions(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        number: PacketNumber,
        work: &mut Work,
    ) -> Result<(), Refusal> {
        let Work::Patched { written, entries, places, portions, .. } = work else { return Ok(()) };
        if !entries.iter().any(|bound| bound.unlisted) {
            return Ok(());
        }
        // CAST: a DMA buffer is far below 4 GiB.
        let bytes = (*written * 8) as u32;
        let device = self.packets[context].device;
        let uses = uses_of(entries, places);
        let (owner, process) = (self.owners.vidmm_of(device), self.owners.process_of(device));
        let mut from = Cut::default();
        loop {
            let made = match self.bring_in(cx, device, &uses, &from) {
                Ok(made) => made,
                Err(error) => {
                    let refusal = self.portion_refused(cx, device, error);
                    // Points behind its first portions were given away. They are passed with the device.
                    if !portions.is_empty() {
                        let reason = format!("a buffer that was begun found no memory: {}", refusal.reason);
                        self.fail_device(cx, device, DeviceState::ErrorOutOfMemory, reason);
                    }
                    return Err(refusal);
                }
            };
            self.queue_works(cx, process, made.work);
            let needs = self.needs_of(device, entries, &made.needs);
            let number_of_portion = made.cut.as_ref().map(|_| self.packets.number_portion(context));
            let end = made.cut.as_ref().map_or(bytes, |cut| cut.offset);
            portions.push_back(Portion {
                bytes: from.offset..end,
                places: made.uses,
                needs,
                number: number_of_portion,
                preempted: false,
            });
            let point = self.portion_point(context, number, number_of_portion);
            let writes = |id| entries.iter().any(|bound| bound.vidmm == Some(id) && bound.write);
            let leaves = self.vidmm.portion_queued(owner, &made.needs, writes, point);
            self.queue_works(cx, process, leaves);
            self.queue_any(cx, process, None);
            match made.cut {
                Some(cut) => from = cut,
                None => break,
            }
        }
        // What an aperture shows stays there until the portions have used it.
        self.watch_evictions(cx);
        debug_assert!(
            portions.front().is_some_and(|first| first.bytes.start == 0)
                && portions.back().is_some_and(|last| last.bytes.end == bytes && last.number.is_none()),
            "the portions of a buffer of {bytes} bytes are all of it"
        );
        if portions.len() > 1 {
            // CAST: at most one for each patch location.
            cx.emit(
                self.index,
                Event::PacketSplit { context: context.raw(), packet: number.raw(), portions: portions.len() as u32 },
            );
        }
        Ok(())
    }

    /// The point behind a portion: its own, or the packet's for the last.
    fn portion_point(
        &self,
        context: PacketContextNumber,
        packet: PacketNumber,
        portion: Option<u64>,
    ) -> FencePoint<FenceId> {
        let known = &self.packets[context];
        match portion {
            Some(portion) => self.sync.point(known.portions.expect("the context has portions"), portion),
            None => self.sync.point(known.progress, packet.raw()),
        }
    }

    pub(super) fn portion_refused(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, error: PortionError) -> Refusal {
        let (PortionError::Unsplittable { bytes_to_trim, .. } | PortionError::Held { bytes_to_trim, .. }) = error
        else {
            // spec: memory §6.5, memory §9.2
            let status = match error {
                PortionError::Locked => NtStatus::GRAPHICS_CANT_RENDER_LOCKED_ALLOCATION,
                _ => NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE,
            };
            return refuse(status, Blame::Caller, error.to_string());
        };
        cx.emit(self.index, Event::MakeResidentRefused { device: device.raw(), bytes_to_trim });
        let mut refusal = no_memory(error.to_string());
        refusal.bytes_to_trim = bytes_to_trim;
        refusal
    }
}

/// There is no turn before an unlock.
fn kept_out() -> Refusal {
    let reason = "the device is suspended until its process unlocks what its list holds";
    refuse(NtStatus::GRAPHICS_CANT_RENDER_LOCKED_ALLOCATION, Blame::Caller, reason)
}

/// The patch locations as residency sees them. An entry without one has no address in the buffer, and need not be anywhere.
fn uses_of(entries: &[Bound], places: &[PatchLocation]) -> Vec<Use> {
    places
        .iter()
        .map(|place| Use {
            slot: place.slot_id,
            split_offset: place.split_offset,
            allocation: entries[place.allocation_index as usize].vidmm,
        })
        .collect()
}
