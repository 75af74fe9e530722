//! The primaries of modes: a mode begins when its primary is pinned and in its place. Where lists are residency (memory §6.1) a process
//! could make nothing resident before: the kernel brings the primary in, for a quiesced device with its turn. A primary that an aperture
//! shows only while it is displayed (memory §1.6) goes there first. And everything that turns displays off again.

use kmt_calls::{Refusal, Reply, SourceOwnerType};
use vidmm::AllocationId;
use wddm_types::{Blame, NtStatus, Pages, ProcessId, SegmentId, VidPnSourceId};

use super::Adapter;
use super::flip::Place;
use crate::display::{ComingMode, Displays, Mode};
use crate::effect::{Answer, Cx, Effect, Token};
use crate::number::{AllocationNumber, DeviceNumber};
use crate::packet::Listed;
use crate::refusal::{invalid, no_memory, refuse};

impl Adapter {
    /// `D3DKMTSetVidPnSourceOwner`.
    pub fn set_source_owner(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        wanted: &[(VidPnSourceId, SourceOwnerType)],
    ) -> Result<(), Refusal> {
        let left = self.displays.set_owner(device, wanted)?;
        left.into_iter().for_each(|source| self.go_black(cx, source));
        Ok(())
    }

    /// `D3DKMTReleaseProcessVidPnSourceOwners`: no device of the process has a source any more.
    pub fn release_sources_of(&mut self, cx: &mut Cx<'_>, process: ProcessId) {
        let devices: Vec<DeviceNumber> = self.owners.devices_of(process).collect();
        for device in devices {
            let left = self.displays.disown(device);
            left.into_iter().for_each(|source| self.go_black(cx, source));
        }
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
        let id = self.memory.allocations[number].vidmm;
        self.mode_of(cx, device, number)?;
        let mut coming = ComingMode { token, device, number, primary: id, pinned: false };
        if !self.is_brought_in(device, id) {
            let owner = self.owners.vidmm_of(device);
            self.vidmm.reference_by_address(owner, id).map_err(|error| invalid(error.to_string()))?;
            // The caller may have read the paging fence: the kernel reaps what it says.
            self.reap_paging(cx);
            let there =
                self.vidmm.is_resident(id) && self.vidmm.whereabouts(id).serial <= self.vidmm.completed_serial();
            self.displays.asks_again(device, !there);
            if !there {
                return Err(refuse(NtStatus::RETRY, Blame::Scarcity, "the primary is still on its way into memory"));
            }
            self.pin_displayed(cx, device, id).map_err(|error| no_memory(error.to_string()))?;
            coming.pinned = true;
        }
        Ok(match self.bring_closer(cx, &mut coming)? {
            true => Answer::Done(Ok(Reply::Done)),
            false => {
                self.displays.await_mode(coming);
                Answer::Later(token)
            }
        })
    }

    fn mode_of(&mut self, cx: &Cx<'_>, device: DeviceNumber, number: AllocationNumber) -> Result<Mode, Refusal> {
        let primary = self.primary(Listed { number, instance: self.memory.allocations[number].vidmm });
        self.displays.mode_of(&mut self.driver.call(cx), device, primary)
    }

    /// Modes whose primaries have come begin.
    pub fn modes_due(&mut self, cx: &mut Cx<'_>) {
        // Others are answered while one begins, but none is added.
        for _ in 0..self.displays.coming_modes() {
            let Some(mut coming) = self.displays.take_coming_mode() else { return };
            let result = match self.bring_closer(cx, &mut coming) {
                Ok(false) => {
                    self.displays.await_mode(coming);
                    continue;
                }
                Ok(true) => Ok(Reply::Done),
                Err(refusal) => Err(refusal),
            };
            cx.effects.push(Effect::Answer { token: coming.token, result });
        }
    }

    /// Whether a mode has begun. A mode that could not begin has no pin.
    // spec: memory §6.1, memory §8.2
    fn bring_closer(&mut self, cx: &mut Cx<'_>, coming: &mut ComingMode) -> Result<bool, Refusal> {
        if !self.life.is_awake() {
            return Ok(false);
        }
        // The state that the call found may have changed.
        let mode = self.mode_of(cx, coming.device, coming.number).inspect_err(|_| {
            if std::mem::take(&mut coming.pinned) {
                self.vidmm.unpin_displayed(coming.primary);
            }
        })?;
        if !coming.pinned {
            if !self.is_brought_in(coming.device, coming.primary) {
                // It was put where the display reads it, and the adapter has slept since.
                match self.pin_late(cx, coming.device, coming.primary) {
                    Place::At(()) => {}
                    Place::Away => return Ok(false),
                    Place::Lost => return Err(no_memory("the primary was given away on its way to the display")),
                }
            } else if self.brings_nothing_in(self.owners.vidmm_of(coming.device)) {
                return Ok(false);
            } else {
                self.bring_in_primary(cx, coming.device, coming.primary)?;
            }
            coming.pinned = true;
        }
        let Some(place) = self.shown_place(coming.primary) else { return Ok(false) };
        self.begin_mode(cx, &mode, place).map(|()| true)
    }

    /// A source shows a pinned primary, which lies here. If it does not, the pin is undone.
    fn begin_mode(&mut self, cx: &mut Cx<'_>, mode: &Mode, place: (SegmentId, u64)) -> Result<(), Refusal> {
        self.go_black(cx, mode.source());
        self.lend_displays(cx, |displays, lent| displays.commit(lent, mode))?;
        self.make_room_for_log(cx, mode.source());
        if let Err(refusal) = self.lend_displays(cx, |displays, lent| displays.begin_flip_queue(lent, mode.source())) {
            let _ = self.ask_displays(cx, |displays, lent| displays.uncommit(lent, mode));
            return Err(refusal);
        }
        match self.ask_displays(cx, |displays, lent| displays.show_first(lent, mode, place)) {
            Some(()) => {
                debug_assert!(self.displays.is_on(mode.source()), "a mode that has begun shows its primary");
                Ok(())
            }
            None => self.life.running(),
        }
    }

    /// The log of a flip queue is a page of the kernel's own.
    fn make_room_for_log(&mut self, cx: &Cx<'_>, source: VidPnSourceId) {
        if !self.displays.are_queued_by_hardware() {
            return;
        }
        self.make_kernel_room(cx, Pages(1));
        if self.displays.lacks_log(source)
            && let Some(page) = self.driver.pages().take(Pages(1))
        {
            self.displays.give_log(source, page);
        }
    }

    /// Turns a display off: ends its flips and the calls that wait for its blanks, and unpins its primaries.
    fn go_black(&mut self, cx: &mut Cx<'_>, source: VidPnSourceId) {
        if self.displays.is_on(source) {
            let _ = self.ask_displays(cx, |displays, lent| displays.switch_off(lent, source));
            self.lend_displays(cx, |displays, lent| displays.forget_mode(lent, source));
        }
    }

    /// A device is lost or goes: nothing of it is shown, and its calls are over.
    pub fn device_leaves_displays(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        // Before its flips are over, which would let its presents go on.
        self.lend_displays(cx, |displays, lent| displays.end_calls(lent, |of| of == device));
        let left = self.displays.disown(device);
        left.into_iter().for_each(|source| self.go_black(cx, source));
    }

    /// The adapter stops: ends the calls that wait for displays.
    pub(super) fn displays_stopped(&mut self, cx: &mut Cx<'_>) {
        self.lend_displays(cx, |displays, lent| displays.end_calls(lent, |_| true));
    }

    /// The adapter goes to sleep, or stops: the primaries of displays are saved like all content, and displays need a mode when
    /// it is back.
    pub fn displays_sleep(&mut self, cx: &mut Cx<'_>) {
        self.displays.sources().for_each(|source| self.go_black(cx, source));
        debug_assert!(
            self.displays.sources().all(|source| !self.displays.is_on(source)),
            "no display reads memory that loses its power"
        );
        self.lend_displays(cx, Displays::unpin_coming_modes);
        self.unpin_queued(None);
        self.hide_undisplayed(cx);
    }

    /// The hardware was reset: displays read nothing any more, and the driver knows no mode.
    // spec: sync §4.4
    pub fn displays_lost(&mut self, cx: &mut Cx<'_>) {
        for source in self.displays.sources() {
            self.lend_displays(cx, |displays, lent| displays.forget_mode(lent, source));
        }
        self.lend_displays(cx, Displays::unpin_coming_modes);
        self.unpin_queued(None);
    }

    /// The last device that had an allocation has destroyed it: a display that shows it, or is about to, goes black.
    pub fn displays_lose(&mut self, cx: &mut Cx<'_>, id: AllocationId) {
        for token in self.lend_displays(cx, |displays, lent| displays.lose_coming_modes(lent, id)) {
            let result = Err(invalid("the primary was destroyed on its way to the display"));
            cx.effects.push(Effect::Answer { token, result });
        }
        let queued = self.displays.are_queued_by_hardware();
        for source in self.displays.sources() {
            if queued {
                let _ = self.ask_displays(cx, |displays, lent| displays.read_flip_log(lent, source));
                let _ = self.ask_displays(cx, |displays, lent| displays.take_flips_back(lent, source, id));
            }
            if self.displays.shows(source, id) {
                self.go_black(cx, source);
            } else {
                self.lend_displays(cx, |displays, lent| displays.drop_flips_to(lent, source, id));
            }
        }
        debug_assert!(
            self.displays.sources().all(|source| !self.displays.shows(source, id)),
            "{id:?} is destroyed, and shown"
        );
        self.unpin_queued(Some(id));
    }
}
