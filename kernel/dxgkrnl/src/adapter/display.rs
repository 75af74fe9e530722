//! The displays at work: `Displays` lent its leaves, its news carried out, the driver given flips. `flip` and `mode` are about the
//! primaries of flips and modes, which the memory manager has.

use ddi::PlaneVsync;
use events::Event;
use kmt_calls::{PresentState, Refusal};
use vidmm::AllocationId;
use wddm_types::{RawHandle, VidPnSourceId, VidPnTargetId};

use super::Adapter;
use super::flip::Place;
use crate::allocations::ResourceBody;
use crate::breach::Breach;
use crate::display::{DisplayNews, Displays, Flip, Lent};
use crate::due::Waiter;
use crate::effect::{Answer, Cx, Effect, Token};
use crate::number::{DeviceNumber, QueueNumber};
use crate::store::ObjectNumber;

impl Adapter {
    /// Asks the displays for something, and carries out their news.
    pub(super) fn lend_displays<T>(
        &mut self,
        cx: &mut Cx<'_>,
        ask: impl FnOnce(&mut Displays, &mut Lent<'_, '_>) -> T,
    ) -> T {
        let mut lent = Lent {
            adapter: self.index,
            runs: self.runs(),
            driver: self.driver.call(cx),
            tally: &mut self.tally,
            memory: cx.memory,
            cx,
            news: Vec::new(),
        };
        let answer = ask(&mut self.displays, &mut lent);
        for news in lent.news {
            match news {
                DisplayNews::Unpin(primary) => self.vidmm.unpin_displayed(primary),
                DisplayNews::GoesOn(queue) => self.due.wait_ended(Waiter::Queue { queue, packet: true }),
                DisplayNews::Lost(token, device) => {
                    let result = Err(self.lost_meanwhile(device));
                    cx.effects.push(Effect::Answer { token, result });
                }
                DisplayNews::ResetDue(reason) => self.life.reset_falls_due(reason),
            }
        }
        answer
    }

    /// The same of something in which the driver may break the contract: the adapter stops then, behind the news.
    pub(super) fn ask_displays<T>(
        &mut self,
        cx: &mut Cx<'_>,
        ask: impl FnOnce(&mut Displays, &mut Lent<'_, '_>) -> Result<T, Breach>,
    ) -> Option<T> {
        let told = self.lend_displays(cx, ask);
        self.heed(cx, told)
    }

    /// Whether the adapter has neither stopped nor lost its power.
    fn runs(&self) -> bool {
        self.life.is_awake()
    }

    /// Gives drivers the flips that they can take.
    pub fn pump_displays(&mut self, cx: &mut Cx<'_>) {
        if !self.runs() {
            return;
        }
        self.hide_undisplayed(cx);
        // Only flip queues have refusals that a reset mends: until it comes they get nothing more.
        let queued = self.displays.are_queued_by_hardware();
        for source in self.displays.sources() {
            if self.runs() {
                self.displays.ask_for_blanks(&mut self.driver.call(cx), source);
            }
            while self.runs() && !(queued && self.life.is_reset_due()) && self.hand_over_flip(cx, source) {}
        }
        self.ask_for_awaited_flips(cx);
    }

    /// Gives the driver the next flip of a source, or drops it. Whether the one behind it may have its turn.
    fn hand_over_flip(&mut self, cx: &mut Cx<'_>, source: VidPnSourceId) -> bool {
        let Some(next) = self.displays.next_flip(source) else { return false };
        match self.place_flip(cx, source, next) {
            Place::At(place) => {
                self.ask_displays(cx, |displays, lent| displays.hand_over(lent, source, place)).is_some()
            }
            Place::Lost => {
                self.lend_displays(cx, |displays, lent| displays.lose_flip(lent, source));
                true
            }
            Place::Away => false,
        }
    }

    /// Says of which flips the driver is to tell, now that all has been done that could be.
    pub fn ask_for_awaited_flips(&mut self, cx: &Cx<'_>) {
        if self.displays.are_queued_by_hardware() && !self.life.has_stopped() {
            let written = self.primaries_of_waiting_packets();
            for source in self.displays.sources() {
                self.displays.ask_for_flips(&mut self.driver.call(cx), source, &written);
            }
        }
    }

    /// Reads the logs of flip queues if a call or a packet waits for a flip. Whether flips have come to an end.
    pub fn read_awaited_flips(&mut self, cx: &mut Cx<'_>) -> bool {
        let awaited = self.displays.are_queued_by_hardware()
            && (self.displays.await_flips() || !self.primaries_of_waiting_packets().is_empty());
        awaited && self.ask_displays(cx, Displays::read_flip_logs) == Some(true)
    }

    /// Interrupt 3 of a target ([`Displays::vertical_blank`]).
    pub fn vertical_blank(&mut self, cx: &mut Cx<'_>, target: VidPnTargetId, address: u64, immediate: bool) {
        let is_on = self.ask_displays(cx, |displays, lent| displays.vertical_blank(lent, target, address, immediate));
        if is_on == Some(true) {
            self.pump_displays(cx);
        }
    }

    /// Interrupt 18 of a target ([`Displays::planes_blank`]).
    pub fn planes_blank(&mut self, cx: &mut Cx<'_>, target: VidPnTargetId, planes: &[PlaneVsync], immediate: bool) {
        let is_on = self.ask_displays(cx, |displays, lent| displays.planes_blank(lent, target, planes, immediate));
        if is_on == Some(true) {
            self.pump_displays(cx);
        }
    }

    /// `D3DKMTWaitForVerticalBlankEvent`.
    pub fn wait_for_blank(
        &mut self,
        cx: &Cx<'_>,
        token: Token,
        device: DeviceNumber,
        source: VidPnSourceId,
    ) -> Result<Answer, Refusal> {
        self.displays.wait_for_blank(token, device, source)?;
        if !self.life.has_stopped() {
            self.displays.ask_for_blanks(&mut self.driver.call(cx), source);
            let written = self.primaries_of_waiting_packets();
            self.displays.ask_for_flips(&mut self.driver.call(cx), source, &written);
        }
        Ok(Answer::Later(token))
    }

    /// `D3DKMTCheckVidPnExclusiveOwnership`.
    ///
    /// # Errors
    /// `GRAPHICS_PRESENT_OCCLUDED`; `INVALID_PARAMETER` when there is no such source.
    pub fn check_exclusive_ownership(&self, source: VidPnSourceId) -> Result<(), Refusal> {
        self.displays.check_exclusive_ownership(source)
    }

    /// The global handles of what may be a source's shared primary, the first one first: that of what it shows, then those of what the
    /// embedding program made for it, the newest first. One that has gone may be among them.
    ///
    /// # Errors
    /// The adapter has stopped, has no displays, or has no such source.
    // spec: memory §2.7
    pub fn shared_primaries(&self, source: VidPnSourceId) -> Result<Vec<RawHandle>, Refusal> {
        self.life.running()?;
        let (shown, made) = self.displays.shared_primaries(source)?;
        let allocations = &self.memory.allocations;
        let shown = shown.and_then(|shown| allocations.body(shown)).and_then(|body| body.resource);
        let bodies = shown.into_iter().chain(made).filter_map(|body| allocations.resource_body(body));
        Ok(bodies.map(ResourceBody::global).collect())
    }

    /// `D3DKMTGetDeviceState` of presents.
    pub fn present_state(&self, device: DeviceNumber, source: VidPnSourceId) -> PresentState {
        self.displays.present_state(&self.tally, device, source)
    }

    /// `D3DKMTSetQueuedLimit` with `D3DKMT_GET_QUEUEDLIMIT_PRESENT`.
    pub fn queued_limit(&self, device: DeviceNumber) -> u32 {
        self.displays.queued_limit(device)
    }

    /// `D3DKMTSetQueuedLimit`.
    ///
    /// # Errors
    /// There is no such limit.
    pub fn set_queued_limit(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, limit: u32) -> Result<(), Refusal> {
        self.displays.set_queued_limit(cx, device, limit)
    }

    /// Everything before a flip on its context has completed.
    pub fn flip_complete(&mut self, cx: &mut Cx<'_>, flip: Flip) {
        if self.lend_displays(cx, |displays, lent| displays.flip_complete(lent, flip)) {
            self.pump_displays(cx);
        }
    }

    /// A flip will not be shown.
    pub fn drop_flip(&mut self, cx: &mut Cx<'_>, flip: Flip) {
        self.lend_displays(cx, |displays, lent| displays.drop_flip(lent, flip));
    }

    /// A hardware queue has come to a command that writes primaries. Whether it may go on; if not, it does when they are free.
    pub fn queue_may_write(&mut self, cx: &mut Cx<'_>, queue: QueueNumber, primaries: Vec<AllocationId>) -> bool {
        let Some(shown) = self.displays.hold(queue, primaries) else { return true };
        let allocation = self.memory.allocations.told_as(shown);
        cx.emit(self.index, Event::QueueHeldForFlip { queue: queue.raw(), allocation });
        false
    }
}
