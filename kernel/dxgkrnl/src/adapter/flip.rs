//! The primaries of flips: a flip pins its own when it is made, or when its turn comes, where the primary was away before. Between the two
//! the scheduler has it, behind what its context has queued.

use events::Event;
use kmt_calls::Refusal;
use vidmm::{AllocationId, DisplayError, PinError};
use wddm_types::{ProcessId, SegmentId, VidPnSourceId};

use super::Adapter;
use crate::display::{Displays, NextFlip, Primary};
use crate::effect::{Answer, Cx, Token};
use crate::number::{DeviceNumber, PacketContextNumber, QueueNumber};
use crate::packet::Listed;
use crate::queue::refused as queue_refused;
use crate::refusal::no_memory;
use crate::scheduling::AnyContext;
use crate::store::ObjectNumber;

/// The queue that a flip stands behind.
#[derive(Clone, Copy)]
pub enum Behind {
    /// A packet context.
    Context(PacketContextNumber),
    /// A hardware queue that the kernel feeds.
    // spec: sync §3.17, presentation stays on what the kernel submits
    Queue(QueueNumber),
}

/// Where a primary is that a display needs.
pub(super) enum Place<T = (SegmentId, u64)> {
    At(T),
    /// On its way.
    Away,
    /// Its content is not coming.
    Lost,
}

impl Adapter {
    /// `D3DKMTPresent` and `D3DKMTSubmitPresentToHwQueue` with Flags.Flip.
    // spec: memory §5.7, a flip has no DMA buffer; memory §5.1, only what the device lists
    pub fn present_flip(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        behind: Behind,
        listed: Listed,
        interval: u32,
    ) -> Result<Answer, Refusal> {
        let (context, device) = match behind {
            Behind::Context(context) => (AnyContext::Packets(context), self.packets[context].device),
            Behind::Queue(queue) => (AnyContext::Hardware(self.queues[queue].context), self.queues[queue].device),
        };
        let primary = self.primary(listed);
        let source = self.displays.check_flip(&mut self.driver.call(cx), device, primary, interval)?;
        match behind {
            Behind::Context(context) => self.may_queue(context, 1)?,
            Behind::Queue(queue) => {
                self.vidsch.queues.may_submit(self.queues[queue].vidsch, 1).map_err(queue_refused)?
            }
        }
        let pinned = self.pin_for_flip(cx, context, device, listed)?;
        let _ = self.ask_displays(cx, Displays::read_flip_logs);
        let flip = self.displays.make_flip(device, source, primary, interval, pinned);
        let (of, allocation) = (context.number(), listed.number.raw());
        let (flip_number, source) = (flip.number(), source.0);
        cx.emit(self.index, Event::FlipQueued { context: of, flip: flip_number, source, allocation, interval });
        match behind {
            Behind::Context(context) => {
                self.queue_flip(self.packets[context].vidsch, flip);
                self.pump_packets(cx);
            }
            Behind::Queue(queue) => {
                self.queue_flip(self.queues[queue].vidsch, flip);
                self.pump_queue(cx, queue);
            }
        }
        Ok(self.displays.answer_present(token, device))
    }

    /// Pins the primary of a flip from now on, if it is there; for a quiesced device it comes back first. Whether it is pinned.
    fn pin_for_flip(
        &mut self,
        cx: &mut Cx<'_>,
        context: AnyContext,
        device: DeviceNumber,
        listed: Listed,
    ) -> Result<bool, Refusal> {
        let (primary, owner) = (listed.instance, self.owners.vidmm_of(device));
        let brought_in = self.is_brought_in(device, primary);
        if !brought_in && let Err(error) = self.vidmm.reference_by_address(owner, primary) {
            return Err(self.reject(cx, context, device, error.to_string()));
        }
        if let AnyContext::Packets(context) = context {
            self.tell_of_flip(cx, context, listed)?;
        }
        if brought_in && !self.brings_nothing_in(owner) {
            self.bring_in_primary(cx, device, primary)?;
            return Ok(true);
        }
        match self.pin_displayed(cx, device, primary) {
            Ok(()) => Ok(true),
            Err(error @ DisplayError::Aperture(_)) => Err(no_memory(error.to_string())),
            Err(DisplayError::Pin(_)) => Ok(false),
        }
    }

    /// An allocation as displays know it.
    pub(super) fn primary(&self, Listed { number, instance: id }: Listed) -> Primary {
        Primary {
            id,
            kmd: self.memory.allocations[number].kmd,
            shown_on: self.memory.allocations.body_of(id).rare.primary,
        }
    }

    /// Where the primary of the next flip of a source lies; it stays there.
    pub(super) fn place_flip(&mut self, cx: &mut Cx<'_>, source: VidPnSourceId, next: NextFlip) -> Place {
        if !next.pinned {
            match self.pin_late(cx, next.device, next.primary) {
                Place::At(()) => self.displays.pin_next(source),
                Place::Away => return Place::Away,
                Place::Lost => return Place::Lost,
            }
        }
        self.shown_place(next.primary).map_or(Place::Away, Place::At)
    }

    /// Pins a primary that was away when the flip to it was queued, if it is back.
    pub(super) fn pin_late(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, primary: AllocationId) -> Place<()> {
        let owner = self.owners.facts_of(device).map(|facts| facts.vidmm);
        match (self.pin_displayed(cx, device, primary), owner) {
            (Ok(()), _) => Place::At(()),
            // The process gave it away before it was shown, or what is shown takes all the room of the aperture.
            (Err(DisplayError::Pin(PinError::NotResident)), Some(owner)) if self.is_brought_in(device, primary) => {
                match self.brings_nothing_in(owner) {
                    true => Place::Away,
                    false => self.bring_in_primary(cx, device, primary).map_or(Place::Lost, Place::At),
                }
            }
            (Err(DisplayError::Pin(PinError::NotResident)), Some(owner)) if self.vidmm.count(owner, primary) > 0 => {
                Place::Away
            }
            // The process gave it away before it was shown, or what is shown takes all the room of the aperture.
            (Err(_), _) => Place::Lost,
        }
    }

    /// Pins a primary for a display, and has an aperture show it if it takes that.
    // spec: memory §1.6, memory §4.1, memory §8.2
    pub(super) fn pin_displayed(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        primary: AllocationId,
    ) -> Result<(), DisplayError> {
        let work = self.vidmm.pin_displayed(primary)?;
        let process = self.owners.facts_of(device).map_or(ProcessId::SYSTEM, |facts| facts.process);
        self.queue_any(cx, process, work);
        Ok(())
    }

    /// Takes primaries that no display shows any more out of their apertures.
    // spec: memory §1.6
    pub(super) fn hide_undisplayed(&mut self, cx: &mut Cx<'_>) {
        if let Some(work) = self.vidmm.hide_undisplayed() {
            self.queue_work(cx, ProcessId::SYSTEM, None, Some(work), Vec::new());
        }
        self.watch_evictions(cx);
    }

    /// Where a primary lies, when it has come there.
    pub(super) fn shown_place(&self, id: AllocationId) -> Option<(SegmentId, u64)> {
        let reference = self.vidmm.whereabouts(id);
        reference.place.filter(|_| reference.serial <= self.vidmm.completed_serial())
    }

    /// The work of the memory manager that displays wait for: the first of it. The ring does not tell of its own accord.
    pub fn display_need(&self) -> Option<u64> {
        let serials = self.displays.awaited_places().map(|id| self.vidmm.whereabouts(id).serial);
        serials.filter(|serial| *serial > self.vidmm.completed_serial()).min()
    }

    /// Flips that have not come to their sources hold their primaries no more: all of them, or those to a primary that is destroyed.
    pub(super) fn unpin_queued(&mut self, destroyed: Option<AllocationId>) {
        for flip in self.software.queued_flips() {
            let unpinned = match destroyed {
                Some(primary) => flip.lose(primary),
                None => flip.unpin(),
            };
            if let Some(primary) = unpinned {
                self.vidmm.unpin_displayed(primary);
            }
        }
    }
}
