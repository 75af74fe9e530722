//! Flips on their way: from the call behind what the context has queued, to the source, to the driver. And hardware queues
//! whose commands write what is shown, which are held until it is not.

use ddi::{SetVidPnSourceAddress, SetVidPnSourceAddressFlags};
use events::Event;
use kmt_calls::{Refusal, Reply};
use vidmm::{AllocationId, DisplayError, PinError};
use wddm_types::{ProcessId, SegmentId};

use super::{Behind, Flip, INTERVAL_MAX};
use crate::adapter::{Adapter, Waiter};
use crate::machine::{Answer, Cx, Effect, Token};
use crate::object::{DeviceNumber, QueueNumber};
use crate::packet::Listed;
use crate::queue::refused as queue_refused;
use crate::refusal::{invalid, no_memory};
use crate::scheduling::AnyContext;
use crate::store::ObjectNumber;

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
        let Listed { number, instance: primary } = listed;
        let (context, device) = match behind {
            Behind::Context(context) => (AnyContext::Packets(context), self.packet_contexts[context].device),
            Behind::Queue(queue) => (AnyContext::Hardware(self.queues[queue].context), self.queues[queue].device),
        };
        let kmd = self.allocations[number].kmd;
        let source = self.owned_source(device, primary)?;
        self.check_interval(interval)?;
        let mode = self.displays.sources[source].mode.ok_or_else(|| invalid("the source has no mode"))?;
        if self.display()?.describe_allocation(kmd) != Some(mode) {
            return Err(invalid("a primary that has not the mode of its source"));
        }
        match behind {
            Behind::Context(context) => self.may_queue(context, 1)?,
            Behind::Queue(queue) => self.vidsch.may_submit(self.queues[queue].vidsch, 1).map_err(queue_refused)?,
        }
        let brought_in = self.is_brought_in(device, primary);
        if !brought_in && let Err(error) = self.vidmm.reference_by_address(self.devices[device].vidmm, primary) {
            return Err(self.reject(cx, context, device, error.to_string()));
        }
        if let Behind::Context(context) = behind {
            self.tell_of_flip(cx, context, listed)?;
        }
        // Pins the primary from now on, if it is there; for a quiesced device it comes back first.
        let pinned = if brought_in && !self.vidmm.is_suspended(self.devices[device].vidmm) {
            self.bring_in_primary(cx, device, primary)?;
            true
        } else {
            match self.pin_displayed(cx, device, primary) {
                Ok(()) => true,
                Err(error @ DisplayError::Aperture(_)) => return Err(no_memory(error.to_string())),
                Err(DisplayError::Pin(_)) => false,
            }
        };
        self.read_flip_logs(cx);
        self.displays.flips_made += 1;
        let flip = self.displays.flips_made;
        let name = self.displays.sources[source].path.source.0;
        let of = context.number();
        cx.emit(self.index, Event::FlipQueued { context: of, flip, source: name, allocation: number.raw(), interval });
        self.displays.devices.entry(device).or_default().queued += 1;
        let (gone, address, present_id, start) = (false, None, 0, 0);
        let number = flip;
        let flip = Flip { number, device, source, primary, kmd, interval, pinned, gone, address, present_id, start };
        match behind {
            Behind::Context(context) => {
                self.queue_flip(self.packet_contexts[context].vidsch, flip);
                self.pump_packets(cx);
            }
            Behind::Queue(queue) => {
                self.queue_flip(self.queues[queue].vidsch, flip);
                self.pump_queue(cx, queue);
            }
        }
        match self.displays.devices.get(&device) {
            Some(of) if of.queued > of.limit => {
                self.displays.blocked.push_back((token, device));
                Ok(Answer::Later(token))
            }
            of => Ok(Answer::Done(Ok(Reply::Queued(of.map_or(0, |of| of.queued))))),
        }
    }

    /// Vertical blanks between a flip and the one before: as many as the display can count, and none only where it flips at once.
    fn check_interval(&self, interval: u32) -> Result<(), Refusal> {
        if interval > INTERVAL_MAX {
            return Err(invalid(format!("an interval of {interval}; at most {INTERVAL_MAX}")));
        }
        if interval == 0 && !self.displays.caps.flip_immediate {
            return Err(invalid("an interval of 0, and the display flips at vertical blanks only"));
        }
        Ok(())
    }

    /// Everything before a flip on its context has completed.
    // spec: memory §5.6, memory §10.1
    pub fn flip_complete(&mut self, cx: &mut Cx<'_>, flip: Flip) {
        let known = &self.displays.sources[flip.source];
        if flip.gone || known.mode.is_none() || known.owner != Some(flip.device) {
            return self.drop_flip(cx, flip);
        }
        self.packets.flips.queue(flip.primary);
        self.displays.sources[flip.source].flips.push_back(flip);
        self.pump_displays(cx);
    }

    /// A flip will not be shown.
    pub fn drop_flip(&mut self, cx: &mut Cx<'_>, flip: Flip) {
        if flip.pinned {
            self.vidmm.unpin_displayed(flip.primary);
        }
        self.statistics.count_flip(self.displays.sources[flip.source].path.source, false);
        cx.emit(self.index, Event::FlipDropped { flip: flip.number });
        self.flip_over(cx, flip.device);
    }

    /// One flip less of a device.
    pub(super) fn flip_over(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        if let Some(of) = self.displays.devices.get_mut(&device) {
            of.queued -= 1;
        }
        self.answer_presents(cx, device);
    }

    /// Presents whose device has few enough flips are answered.
    pub(super) fn answer_presents(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        let Some(of) = self.displays.devices.get(&device).filter(|of| of.queued <= of.limit) else { return };
        let queued = of.queued;
        self.displays.blocked.retain(|(token, of)| {
            let answered = *of == device;
            if answered {
                cx.effects.push(Effect::Answer { token: *token, result: Ok(Reply::Queued(queued)) });
            }
            !answered
        });
    }

    /// Gives drivers the flips that they can take.
    pub fn pump_displays(&mut self, cx: &mut Cx<'_>) {
        if self.stopped.is_none() && self.is_awake() {
            self.hide_undisplayed(cx);
        }
        if self.displays.hardware.is_some() {
            return self.pump_flip_queues(cx);
        }
        for source in 0..self.displays.sources.len() {
            self.ask_for_blanks(source);
            while self.stopped.is_none() && self.is_awake() {
                match self.next_flip(cx, source) {
                    Next::Hand(set) => self.hand_flip(cx, source, set),
                    Next::Lost => self.lose_flip(cx, source),
                    Next::Wait => break,
                }
            }
        }
    }

    /// The first flip that the driver has not will not be shown.
    pub(super) fn lose_flip(&mut self, cx: &mut Cx<'_>, source: usize) {
        let handed = self.displays.sources[source].handed;
        let flip = self.displays.sources[source].flips.remove(handed).expect("just looked at");
        self.packets.flips.cancel(flip.primary);
        self.free_held_queues();
        self.drop_flip(cx, flip);
    }

    /// Decides about the first flip that the driver has not.
    // spec: sync §4.6, an interval of n is n refresh periods behind the flip before
    fn next_flip(&mut self, cx: &mut Cx<'_>, source: usize) -> Next {
        let depth = self.displays.caps.max_queued_flip_on_vsync as usize;
        let known = &mut self.displays.sources[source];
        let name = known.path.source;
        let shown = self.packets.flips.shown_on(name.0);
        let handed = known.handed;
        if handed >= depth {
            return Next::Wait;
        }
        let (before, rest) = known.flips.make_contiguous().split_at_mut(handed);
        let Some(flip) = rest.first() else { return Next::Wait };
        if handed == 0 && known.blanks + 1 < flip.interval {
            return Next::Wait;
        }
        // Behind others only what is shown one blank behind them, and by an address that tells it from them.
        let mut others = before.iter().map(|flip| flip.primary).chain(shown);
        if handed > 0 && (flip.interval != 1 || others.any(|other| other == flip.primary)) {
            return Next::Wait;
        }
        let (segment, physical_address) = match self.place_flip(cx, source) {
            Next::Hand(place) => place,
            Next::Wait => return Next::Wait,
            Next::Lost => return Next::Lost,
        };
        let flip = &mut self.displays.sources[source].flips[handed];
        let flags = match flip.interval {
            0 => SetVidPnSourceAddressFlags::FLIP_IMMEDIATE,
            _ => SetVidPnSourceAddressFlags::FLIP_ON_NEXT_VSYNC,
        };
        flip.address = Some(physical_address);
        Next::Hand(SetVidPnSourceAddress { source: name, segment, physical_address, allocation: flip.kmd, flags })
    }

    /// Where the primary of the first flip lies that the driver has not; it stays there.
    pub(super) fn place_flip(&mut self, cx: &mut Cx<'_>, source: usize) -> Next<(SegmentId, u64)> {
        let known = &self.displays.sources[source];
        let (handed, flip) = (known.handed, &known.flips[known.handed]);
        let primary = flip.primary;
        if !flip.pinned {
            match self.pin_late(cx, flip.device, primary) {
                Next::Hand(()) => self.displays.sources[source].flips[handed].pinned = true,
                Next::Wait => return Next::Wait,
                Next::Lost => return Next::Lost,
            }
        }
        self.shown_place(primary).map_or(Next::Wait, Next::Hand)
    }

    /// Pins a primary that was away when the flip to it was queued, if it is back.
    pub(super) fn pin_late(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, primary: AllocationId) -> Next<()> {
        let owner = self.devices.get(device).map(|device| device.vidmm);
        match (self.pin_displayed(cx, device, primary), owner) {
            (Ok(()), _) => Next::Hand(()),
            // The process gave it away before it was shown, or what is shown takes all the room of the aperture.
            (Err(DisplayError::Pin(PinError::NotResident)), Some(owner)) if self.is_brought_in(device, primary) => {
                match self.vidmm.is_suspended(owner) {
                    true => Next::Wait,
                    false => self.bring_in_primary(cx, device, primary).map_or(Next::Lost, Next::Hand),
                }
            }
            (Err(DisplayError::Pin(PinError::NotResident)), Some(owner)) if self.vidmm.count(owner, primary) > 0 => {
                Next::Wait
            }
            // The process gave it away before it was shown, or what is shown takes all the room of the aperture.
            (Err(_), _) => Next::Lost,
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
        let process = self.devices.get(device).map_or(ProcessId::SYSTEM, |device| device.process);
        self.queue_any(cx, process, work);
        Ok(())
    }

    /// Takes primaries that no display shows any more out of their apertures.
    // spec: memory §1.6
    pub(super) fn hide_undisplayed(&mut self, cx: &mut Cx<'_>) {
        if let Some(work) = self.vidmm.hide_undisplayed() {
            self.queue_work(cx, ProcessId::SYSTEM, None, Some(work), Vec::new());
        }
    }

    fn hand_flip(&mut self, cx: &mut Cx<'_>, source: usize, set: SetVidPnSourceAddress) {
        let known = &mut self.displays.sources[source];
        let flip = known.flips[known.handed].number;
        known.handed += 1;
        let physical_address = set.physical_address;
        cx.emit(self.index, Event::FlipHandedOver { source: set.source.0, flip, physical_address });
        let driver = self.driver.display().expect("it had displays when it started");
        if let Err(status) = driver.set_vidpn_source_address(set) {
            // Bug check 0x119, parameter 0xB.
            self.stop(cx, format!("SetVidPnSourceAddress failed: {status}"));
        }
    }

    /// A hardware queue has come to a command that writes primaries. Whether it may go on; if not, it does when they are free.
    // spec: memory §5.6, memory §10.1 row 31
    pub fn queue_may_write(&mut self, cx: &mut Cx<'_>, queue: QueueNumber, primaries: Vec<AllocationId>) -> bool {
        let Some(shown) = primaries.iter().copied().find(|primary| !self.packets.flips.may_write(*primary)) else {
            return true;
        };
        cx.emit(
            self.index,
            Event::QueueHeldForFlip {
                queue: queue.raw(),
                allocation: self.allocation_numbers.get(&shown).map_or(0, |number| number.raw()),
            },
        );
        self.displays.held.push((queue, primaries));
        false
    }

    /// Primaries may have come free: queues that waited for them go on.
    pub(super) fn free_held_queues(&mut self) {
        let flips = &self.packets.flips;
        let held = std::mem::take(&mut self.displays.held).into_iter();
        let (free, kept) = held.partition(|(_, primaries)| primaries.iter().all(|primary| flips.may_write(*primary)));
        self.displays.held = kept;
        let goes_on = |(queue, _): (QueueNumber, Vec<AllocationId>)| Waiter::Queue { queue, packet: true };
        self.due.extend(Vec::into_iter(free).map(goes_on));
    }

    /// A hardware queue goes.
    pub fn queue_leaves_displays(&mut self, queue: QueueNumber) {
        self.displays.held.retain(|(of, _)| *of != queue);
    }
}

/// The decision about a flip.
pub(super) enum Next<T = SetVidPnSourceAddress> {
    Hand(T),
    /// It stays where it is.
    Wait,
    /// Its content is not coming.
    Lost,
}
