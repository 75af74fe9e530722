//! Flips on their way: from the call, which makes them, to the source, to the driver. Where they stand in between, behind what their
//! contexts have queued, the scheduler keeps them.

use ddi::{KmdAllocation, SetVidPnSourceAddress, SetVidPnSourceAddressFlags, Surface};
use events::Event;
use kmt_calls::Refusal;
use vidmm::AllocationId;
use wddm_types::{SegmentId, VidPnSourceId};

use super::{DisplayNews, Displays, INTERVAL_MAX, Lent, Primary, display};
use crate::breach::Breach;
use crate::driver::EntryPoints;
use crate::number::DeviceNumber;
use crate::refusal::invalid;

/// A flip.
pub struct Flip {
    pub(super) number: u64,
    pub(super) device: DeviceNumber,
    pub(super) source: VidPnSourceId,
    pub(super) primary: AllocationId,
    pub(super) kmd: KmdAllocation,
    pub(super) interval: u32,
    pinned: bool,
    /// The primary was destroyed.
    gone: bool,
    /// Where it is, since the driver has been told.
    pub(super) address: Option<u64>,
    /// Its number in the flip queue of the hardware, and the blank at which it is to be shown; 0: not known.
    pub(super) present_id: u64,
    pub(super) start: u64,
}

/// The first flip of a source that the driver has not, when its turn has come: as soon as its primary has its place.
#[derive(Clone, Copy, Debug)]
pub struct NextFlip {
    /// The device that made it.
    pub device: DeviceNumber,
    /// Its primary.
    pub primary: AllocationId,
    /// The primary stays where it is.
    pub pinned: bool,
}

impl Flip {
    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its primary.
    pub fn primary(&self) -> AllocationId {
        self.primary
    }

    /// When the display shows it.
    pub(super) fn flags(&self) -> SetVidPnSourceAddressFlags {
        match self.interval {
            0 => SetVidPnSourceAddressFlags::FLIP_IMMEDIATE,
            _ => SetVidPnSourceAddressFlags::FLIP_ON_NEXT_VSYNC,
        }
    }

    /// For the digest of the adapter's state.
    pub(super) fn digest(&self) -> (u64, DeviceNumber, AllocationId) {
        (self.number, self.device, self.primary)
    }

    /// It holds its primary no more. The primary, if it did.
    #[must_use = "the memory manager pins it once less"]
    pub fn unpin(&mut self) -> Option<AllocationId> {
        std::mem::take(&mut self.pinned).then_some(self.primary)
    }

    /// A primary is destroyed: a flip to it will not be shown. As [`Flip::unpin`] of such a flip.
    #[must_use = "the memory manager pins it once less"]
    pub fn lose(&mut self, primary: AllocationId) -> Option<AllocationId> {
        self.gone |= self.primary == primary;
        if self.gone { self.unpin() } else { None }
    }
}

impl Displays {
    /// The source that a device may flip to a primary on, with this interval.
    ///
    /// # Errors
    /// The primary or its source is not the device's, the display cannot count the interval, or its mode is another.
    pub fn check_flip(
        &self,
        driver: &mut EntryPoints<'_>,
        device: DeviceNumber,
        primary: Primary,
        interval: u32,
    ) -> Result<VidPnSourceId, Refusal> {
        let source = self.owned_source(device, primary)?;
        self.check_interval(interval)?;
        let mode: Surface = self.sources[source].mode.ok_or_else(|| invalid("the source has no mode"))?;
        if display(driver.again())?.describe_allocation(primary.kmd) != Some(mode) {
            return Err(invalid("a primary that has not the mode of its source"));
        }
        Ok(source)
    }

    /// Vertical blanks between a flip and the one before: as many as the display can count, and none only where it flips at once.
    fn check_interval(&self, interval: u32) -> Result<(), Refusal> {
        if interval > INTERVAL_MAX {
            return Err(invalid(format!("an interval of {interval}; at most {INTERVAL_MAX}")));
        }
        if interval == 0 && !self.caps.flip_immediate {
            return Err(invalid("an interval of 0, and the display flips at vertical blanks only"));
        }
        Ok(())
    }

    /// A flip that [`Displays::check_flip`] allows. It counts as queued from now on.
    pub fn make_flip(
        &mut self,
        device: DeviceNumber,
        source: VidPnSourceId,
        primary: Primary,
        interval: u32,
        pinned: bool,
    ) -> Flip {
        self.flips_made += 1;
        self.flip_begins(device);
        Flip {
            number: self.flips_made,
            device,
            source,
            primary: primary.id,
            kmd: primary.kmd,
            interval,
            pinned,
            gone: false,
            address: None,
            present_id: 0,
            start: 0,
        }
    }

    /// Everything before a flip on its context has completed. Whether it is on its source now; if not, it is dropped. A flip does not outlive
    /// the mode in which its device made it: its primary may have another size, and the later mode shows what its caller named.
    // spec: memory §5.6, memory §10.1
    pub fn flip_complete(&mut self, lent: &mut Lent<'_, '_>, flip: Flip) -> bool {
        debug_assert!(
            (flip.address, flip.present_id) == (None, 0),
            "flip {} comes to its source, and its driver has it",
            flip.number
        );
        let known = &mut self.sources[flip.source];
        let of_this_mode = known.mode.is_some() && flip.number > known.flips_before;
        if flip.gone || !of_this_mode || known.owner != Some(flip.device) {
            self.drop_flip(lent, flip);
            return false;
        }
        self.flips.queue(flip.primary);
        known.flips.push_back(flip);
        true
    }

    /// A flip will not be shown.
    pub fn drop_flip(&mut self, lent: &mut Lent<'_, '_>, mut flip: Flip) {
        lent.news.extend(flip.unpin().map(DisplayNews::Unpin));
        lent.tally.count_flip(flip.source, false);
        lent.emit(Event::FlipDropped { flip: flip.number });
        self.flip_over(lent.cx, flip.device);
    }

    /// The first flip of a source that the driver has not will not be shown.
    pub fn lose_flip(&mut self, lent: &mut Lent<'_, '_>, source: VidPnSourceId) {
        let known = &mut self.sources[source];
        let flip = known.flips.remove(known.handed).expect("just looked at");
        self.flips.cancel(flip.primary);
        self.free_held_queues(lent);
        self.drop_flip(lent, flip);
    }

    /// The first flip of a source that the driver has not, if the driver may have it now.
    pub fn next_flip(&self, source: VidPnSourceId) -> Option<NextFlip> {
        let known = &self.sources[source];
        debug_assert!(known.handed <= known.flips.len(), "{} are handed of {}", known.handed, known.flips.len());
        let flip = known.flips.get(known.handed)?;
        let its_turn = match &self.hardware {
            Some(hardware) => self.may_queue_on_hardware(hardware, source),
            None => self.may_follow(source, flip),
        };
        its_turn.then_some(NextFlip { device: flip.device, primary: flip.primary, pinned: flip.pinned })
    }

    /// Whether a flip may be with the driver behind those that the driver has.
    // spec: sync §4.6, an interval of n is n refresh periods behind the flip before
    fn may_follow(&self, source: VidPnSourceId, flip: &Flip) -> bool {
        let known = &self.sources[source];
        if known.handed >= self.caps.max_queued_flip_on_vsync as usize {
            return false;
        }
        if known.handed == 0 {
            return known.blanks + 1 >= flip.interval;
        }
        // Behind others only what is shown one blank behind them, and by an address that tells it from them.
        let mut others = known.with_driver().map(Flip::primary).chain(self.flips.shown_on(source.0));
        flip.interval == 1 && others.all(|other| other != flip.primary)
    }

    /// The primary of the next flip of a source stays where it is from now on.
    pub fn pin_next(&mut self, source: VidPnSourceId) {
        let known = &mut self.sources[source];
        let flip = &mut known.flips[known.handed];
        debug_assert!(!flip.pinned, "flip {} pins its primary once", flip.number);
        flip.pinned = true;
    }

    /// Gives the driver the next flip of a source, whose primary lies here and stays there.
    ///
    /// # Errors
    /// The driver fails.
    pub fn hand_over(
        &mut self,
        lent: &mut Lent<'_, '_>,
        source: VidPnSourceId,
        place: (SegmentId, u64),
    ) -> Result<(), Breach> {
        let known = &self.sources[source];
        debug_assert!(known.mode.is_some(), "source {} is off, and its driver gets a flip", source.0);
        debug_assert!(
            known.flips[known.handed].pinned,
            "flip {} is handed over, and its primary may move",
            known.flips[known.handed].number
        );
        match self.hardware {
            Some(hardware) => {
                let queued = self.timed_flip(&mut lent.driver, &hardware, source, place)?;
                self.queue_on_hardware(lent, queued)
            }
            None => self.set_address(lent, source, place),
        }
    }

    fn set_address(
        &mut self,
        lent: &mut Lent<'_, '_>,
        source: VidPnSourceId,
        (segment, physical_address): (SegmentId, u64),
    ) -> Result<(), Breach> {
        let known = &mut self.sources[source];
        let flip = &mut known.flips[known.handed];
        known.handed += 1;
        flip.address = Some(physical_address);
        let flags = flip.flags();
        let set = SetVidPnSourceAddress { source, segment, physical_address, allocation: flip.kmd, flags };
        lent.emit(Event::FlipHandedOver { source: source.0, flip: flip.number, physical_address });
        // Bug check 0x119, parameter 0xB.
        let set = lent.display().set_vidpn_source_address(set);
        set.map_err(|status| Breach(format!("SetVidPnSourceAddress failed: {status}")))
    }

    /// The primaries whose places displays wait for.
    pub fn awaited_places(&self) -> impl Iterator<Item = AllocationId> {
        let comes = self.coming.iter().filter(|coming| coming.pinned).map(|coming| coming.primary);
        let next = self.sources.iter().filter_map(|source| source.flips.get(source.handed));
        comes.chain(next.filter(|flip| flip.pinned).map(Flip::primary))
    }
}
