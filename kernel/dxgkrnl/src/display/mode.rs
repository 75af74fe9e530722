//! Owners and modes: the calls that turn a display on, and everything that turns it off.

use ddi::{Display, KmdAllocation, SetVidPnSourceAddress, SetVidPnSourceAddressFlags, Surface};
use events::Event;
use kmt_calls::{PresentState, Refusal, Reply};
use vidmm::AllocationId;
use wddm_types::{Blame, NtStatus, SegmentId, VidPnSourceId};

use super::{INTERVAL_MAX, QUEUED_LIMIT_MAX};
use crate::adapter::Adapter;
use crate::machine::{Answer, Cx, Effect, Token};
use crate::object::{AllocationNumber, DeviceNumber};
use crate::refusal::{access_denied, from_driver, invalid, no_memory, not_supported, refuse};
use crate::store::ObjectNumber;

/// A mode that a source is to show.
pub(super) struct Mode {
    device: DeviceNumber,
    source: usize,
    id: AllocationId,
    kmd: KmdAllocation,
    surface: Surface,
}

impl Adapter {
    /// `D3DKMTSetVidPnSourceOwner`.
    pub fn set_source_owner(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        wanted: &[VidPnSourceId],
    ) -> Result<(), Refusal> {
        for source in wanted {
            let source = self.source(*source)?;
            if self.displays.sources[source].owner.is_some_and(|owner| owner != device) {
                return Err(access_denied(format!("source {source} is another device's")));
            }
        }
        for source in 0..self.displays.sources.len() {
            let known = &mut self.displays.sources[source];
            let keeps = wanted.contains(&known.path.source);
            if keeps {
                known.owner = Some(device);
            } else if known.owner == Some(device) {
                known.owner = None;
                self.go_black(cx, source);
            }
        }
        Ok(())
    }

    /// `D3DKMTGetDeviceState` of presents.
    pub fn present_state(&self, device: DeviceNumber, source: VidPnSourceId) -> PresentState {
        let known = self.displays.devices.get(&device);
        PresentState {
            shown: self.statistics.shown_on(source),
            limit_reached: known.is_some_and(|known| known.queued >= known.limit),
        }
    }

    /// `D3DKMTCheckVidPnExclusiveOwnership`: a source that a device owns shows what that device presents, and nothing else.
    ///
    /// # Errors
    /// `GRAPHICS_PRESENT_OCCLUDED`; `INVALID_PARAMETER` when there is no such source.
    pub fn check_exclusive_ownership(&self, source: VidPnSourceId) -> Result<(), Refusal> {
        let source = self.source(source)?;
        match self.displays.sources[source].owner {
            None => Ok(()),
            Some(_) => {
                let reason = format!("a device owns source {source}");
                Err(refuse(NtStatus::GRAPHICS_PRESENT_OCCLUDED, Blame::Caller, reason))
            }
        }
    }

    /// `D3DKMTSetQueuedLimit`.
    pub fn set_queued_limit(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, limit: u32) -> Result<(), Refusal> {
        if !(1..=QUEUED_LIMIT_MAX).contains(&limit) {
            return Err(invalid(format!("a limit of {limit}; 1 to {QUEUED_LIMIT_MAX} flips may be queued")));
        }
        self.displays.devices.entry(device).or_default().limit = limit;
        self.answer_presents(cx, device);
        Ok(())
    }

    /// `D3DKMTSetDisplayMode`: the primary is shown at once.
    // spec: memory §8.2, displayed primaries stay
    pub fn set_display_mode(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        device: DeviceNumber,
        number: AllocationNumber,
    ) -> Result<Answer, Refusal> {
        let id = self.allocations[number].vidmm;
        self.mode_of(device, number)?;
        if self.is_brought_in(device, id) {
            return self.mode_comes(cx, token, (device, number), false);
        }
        self.vidmm.reference_by_address(self.devices[device].vidmm, id).map_err(|error| invalid(error.to_string()))?;
        // The caller may have read the paging fence: the kernel reaps what it says.
        self.reap_paging(cx);
        let there = self.vidmm.is_resident(id) && self.vidmm.whereabouts(id).serial <= self.vidmm.completed_serial();
        self.displays.devices.entry(device).or_default().asks = !there;
        if !there {
            return Err(refuse(NtStatus::RETRY, Blame::Scarcity, "the primary is still on its way into memory"));
        }
        self.pin_displayed(cx, device, id).map_err(|error| no_memory(error.to_string()))?;
        self.mode_comes(cx, token, (device, number), true)
    }

    /// The mode that a primary gives its source, which is this device's.
    pub(super) fn mode_of(&mut self, device: DeviceNumber, number: AllocationNumber) -> Result<Mode, Refusal> {
        let (id, kmd) = (self.allocations[number].vidmm, self.allocations[number].kmd);
        let source = self.owned_source(device, id)?;
        let surface = self.display()?.describe_allocation(kmd);
        let surface = surface.ok_or_else(|| invalid("a primary that no display of this adapter shows"))?;
        Ok(Mode { device, source, id, kmd, surface })
    }

    /// A source shows a pinned primary, which lies here. If it does not, the pin is undone.
    pub(super) fn begin_mode(
        &mut self,
        cx: &mut Cx<'_>,
        &Mode { device, source, id, kmd, surface }: &Mode,
        (segment, physical_address): (SegmentId, u64),
    ) -> Result<(), Refusal> {
        self.go_black(cx, source);
        let name = self.displays.sources[source].path.source;
        if let Err(status) = self.display()?.commit_vidpn(name, Some(kmd)) {
            self.vidmm.unpin_displayed(id);
            return Err(from_driver(status));
        }
        if let Err(refusal) = self.begin_flip_queue(source) {
            self.vidmm.unpin_displayed(id);
            if let Err(status) = self.display()?.commit_vidpn(name, None) {
                self.stop(cx, format!("CommitVidPn of no mode failed: {status}"));
            }
            return Err(refusal);
        }
        let flags = SetVidPnSourceAddressFlags::MODE_CHANGE;
        let set = SetVidPnSourceAddress { source: name, segment, physical_address, allocation: kmd, flags };
        if let Err(status) = self.display()?.set_vidpn_source_address(set) {
            self.vidmm.unpin_displayed(id);
            // Bug check 0x119, parameter 0xB.
            self.stop(cx, format!("SetVidPnSourceAddress failed: {status}"));
            return self.running();
        }
        self.display()?.set_vidpn_source_visibility(name, true);
        let known = &mut self.displays.sources[source];
        (known.mode, known.blanks) = (Some(surface), INTERVAL_MAX);
        let before = self.packets.flips.begin(name.0, id);
        assert_eq!(before, None, "it was off");
        cx.emit(
            self.index,
            Event::DisplayOn { source: name.0, device: device.raw(), width: surface.width, height: surface.height },
        );
        Ok(())
    }

    /// The source of a primary, which is this device's.
    pub(super) fn owned_source(&self, device: DeviceNumber, id: AllocationId) -> Result<usize, Refusal> {
        let shown_on = self.bodies[&id].primary.ok_or_else(|| invalid("an allocation that is no primary"))?;
        let source = self.source(shown_on)?;
        if self.displays.sources[source].owner != Some(device) {
            return Err(access_denied(format!("source {source} is not the device's")));
        }
        Ok(source)
    }

    pub(super) fn source(&self, source: VidPnSourceId) -> Result<usize, Refusal> {
        if self.displays.sources.is_empty() {
            return Err(not_supported("the adapter only renders: it has no displays"));
        }
        let known = (source.0 as usize) < self.displays.sources.len();
        known.then_some(source.0 as usize).ok_or_else(|| invalid(format!("there is no source {}", source.0)))
    }

    pub fn display(&mut self) -> Result<&mut dyn Display, Refusal> {
        self.driver.display().ok_or_else(|| not_supported("the adapter only renders: it has no displays"))
    }

    /// Turns a display off: ends its flips and the calls that wait for its blanks, and unpins its primaries.
    pub(super) fn go_black(&mut self, cx: &mut Cx<'_>, source: usize) {
        if self.displays.sources[source].mode.is_none() {
            return;
        }
        self.end_flip_queue(cx, source);
        let name = self.displays.sources[source].path.source;
        // It must succeed; and of a stopped adapter nothing is heard any more.
        if let Some(display) = self.driver.display().filter(|_| self.stopped.is_none()) {
            display.control_interrupt(name, false);
            if let Err(status) = display.commit_vidpn(name, None) {
                self.stop(cx, format!("CommitVidPn of no mode failed: {status}"));
            }
        }
        self.forget_mode(cx, source);
    }

    fn forget_mode(&mut self, cx: &mut Cx<'_>, source: usize) {
        let known = &mut self.displays.sources[source];
        if known.mode.take().is_none() {
            return;
        }
        let (flips, name) = (std::mem::take(&mut known.flips), known.path.source);
        (known.handed, known.told, known.blanks) = (0, false, INTERVAL_MAX);
        for (token, _) in std::mem::take(&mut known.waiting) {
            let result = Err(invalid("the display was switched off"));
            cx.effects.push(Effect::Answer { token, result });
        }
        cx.emit(self.index, Event::DisplayOff { source: name.0 });
        for flip in flips {
            self.packets.flips.cancel(flip.primary);
            self.drop_flip(cx, flip);
        }
        if let Some(shown) = self.packets.flips.end(name.0) {
            self.vidmm.unpin_displayed(shown);
        }
        self.free_held_queues();
    }

    /// A device is lost or goes: nothing of it is shown, and its calls are over.
    pub fn device_leaves_displays(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        // Before its flips are over, which would let its presents go on.
        self.answer_lost(cx, |of| of == device);
        for source in 0..self.displays.sources.len() {
            if self.displays.sources[source].owner == Some(device) {
                self.displays.sources[source].owner = None;
                self.go_black(cx, source);
            }
        }
    }

    /// The adapter has stopped: ends the calls that wait for a blank.
    pub fn displays_stopped(&mut self, cx: &mut Cx<'_>) {
        self.answer_lost(cx, |_| true);
    }

    fn answer_lost(&mut self, cx: &mut Cx<'_>, lost: impl Fn(DeviceNumber) -> bool) {
        let waiting = self.displays.sources.iter_mut().flat_map(|source| {
            let (gone, kept) = std::mem::take(&mut source.waiting).into_iter().partition(|(_, of)| lost(*of));
            source.waiting = kept;
            Vec::into_iter(gone)
        });
        let mut answered: Vec<_> = waiting.collect();
        answered.extend(self.forget_pending_modes(|pending| lost(pending.device)));
        let blocked = std::mem::take(&mut self.displays.blocked).into_iter();
        let (gone, kept) = blocked.partition::<Vec<_>, _>(|(_, of)| lost(*of));
        self.displays.blocked = kept.into();
        answered.extend(gone);
        for (token, of) in answered {
            let result: Result<Reply, Refusal> = Err(self.lost_meanwhile(of));
            cx.effects.push(Effect::Answer { token, result });
        }
    }

    /// The adapter goes to sleep, or stops: the primaries of displays are saved like all content, and displays need a mode when
    /// it is back.
    pub fn displays_sleep(&mut self, cx: &mut Cx<'_>) {
        (0..self.displays.sources.len()).for_each(|source| self.go_black(cx, source));
        self.unpin_pending_modes();
        self.unpin_queued(|_| true);
        self.hide_undisplayed(cx);
    }

    /// The hardware was reset: displays read nothing any more, and the driver knows no mode.
    // spec: sync §4.4
    pub fn displays_lost(&mut self, cx: &mut Cx<'_>) {
        (0..self.displays.sources.len()).for_each(|source| self.forget_mode(cx, source));
        self.unpin_pending_modes();
        self.unpin_queued(|_| true);
    }

    /// The last device that had an allocation has destroyed it: a display that shows it, or is about to, goes black.
    pub fn displays_lose(&mut self, cx: &mut Cx<'_>, id: AllocationId) {
        for (token, _) in self.forget_pending_modes(|pending| pending.id == id) {
            let result = Err(invalid("the primary was destroyed on its way to the display"));
            cx.effects.push(Effect::Answer { token, result });
        }
        for source in 0..self.displays.sources.len() {
            if self.displays.hardware.is_some() {
                self.read_flip_log(cx, source);
                self.take_flips_back(cx, source, id);
            }
            let known = &self.displays.sources[source];
            let handed = known.flips.iter().take(known.handed).any(|flip| flip.primary == id);
            if handed || self.packets.flips.shown_on(known.path.source.0) == Some(id) {
                self.go_black(cx, source);
                continue;
            }
            let (gone, kept) = std::mem::take(&mut self.displays.sources[source].flips)
                .into_iter()
                .partition::<Vec<_>, _>(|flip| flip.primary == id);
            self.displays.sources[source].flips = kept.into();
            for flip in gone {
                self.packets.flips.cancel(id);
                self.drop_flip(cx, flip);
            }
        }
        self.unpin_queued(|flip| {
            flip.gone |= flip.primary == id;
            flip.gone
        });
    }

    /// Flips that have not come to their sources hold these primaries no more.
    fn unpin_queued(&mut self, mut which: impl FnMut(&mut super::Flip) -> bool) {
        for flip in self.software.queued_flips() {
            if which(flip) && std::mem::take(&mut flip.pinned) {
                self.vidmm.unpin_displayed(flip.primary);
            }
        }
    }
}
