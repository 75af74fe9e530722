//! Owners and modes: the sources that devices have, what turns a display on, and what turns it off.

use ddi::{KmdAllocation, SetVidPnSourceAddress, SetVidPnSourceAddressFlags, Surface};
use events::Event;
use kmt_calls::{Refusal, SourceOwnerType};
use vidmm::AllocationId;
use wddm_types::{Blame, NtStatus, SegmentId, VidPnSourceId};

use super::{DisplayNews, Displays, INTERVAL_MAX, Lent, display, no_displays};
use crate::breach::Breach;
use crate::driver::EntryPoints;
use crate::effect::Effect;
use crate::number::DeviceNumber;
use crate::refusal::{access_denied, from_driver, invalid, refuse};
use crate::store::ObjectNumber;

/// An allocation that a caller names as a primary.
#[derive(Clone, Copy, Debug)]
pub struct Primary {
    /// As the memory manager has it.
    pub id: AllocationId,
    /// As the driver has it.
    pub kmd: KmdAllocation,
    /// The source that it was created for, of a primary.
    pub shown_on: Option<VidPnSourceId>,
}

/// A mode that a source is to show.
pub struct Mode {
    device: DeviceNumber,
    source: VidPnSourceId,
    primary: Primary,
    surface: Surface,
}

impl Mode {
    /// The source that it is a mode of.
    pub fn source(&self) -> VidPnSourceId {
        self.source
    }
}

impl Displays {
    /// `D3DKMTSetVidPnSourceOwner`: a device has these sources and no others. Those that it has no more, which go black.
    ///
    /// # Errors
    /// `GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE` for a source that there is not; `GRAPHICS_VIDPN_SOURCE_IN_USE` where another device has it, or
    /// the desktop, beside which nothing here presents; `INVALID_PARAMETER` for a device that has it in another way, or a source that is named in two ways.
    /// Nothing has changed.
    // spec: sync §3.17
    pub fn set_owner(
        &mut self,
        device: DeviceNumber,
        wanted: &[(VidPnSourceId, SourceOwnerType)],
    ) -> Result<Vec<VidPnSourceId>, Refusal> {
        wanted.iter().try_for_each(|(source, way)| self.may_own(device, *source, *way))?;
        let is_other = |(source, way): &(VidPnSourceId, SourceOwnerType)| {
            wanted.iter().any(|(of, other)| of == source && other != way)
        };
        if let Some((source, _)) = wanted.iter().find(|of| is_other(of)) {
            return Err(invalid(format!("source {} is named in two ways", source.0)));
        }
        let asks = |source, way| wanted.contains(&(source, way));
        let mut left = Vec::new();
        for known in self.sources.iter_mut() {
            let source = known.path.source;
            if asks(source, SourceOwnerType::Exclusive) {
                known.owner = Some(device);
            } else if known.owner == Some(device) {
                known.owner = None;
                left.push(source);
            }
            match asks(source, SourceOwnerType::Emulated) {
                true => known.emulated.insert(device),
                false => known.emulated.remove(&device),
            };
        }
        Ok(left)
    }

    fn may_own(&self, device: DeviceNumber, source: VidPnSourceId, way: SourceOwnerType) -> Result<(), Refusal> {
        if self.sources.is_empty() {
            return Err(no_displays());
        }
        if !self.sources.has(source) {
            let last = self.sources.iter().len() - 1;
            let reason = format!("source {}; the adapter has sources 0 to {last}", source.0);
            return Err(refuse(NtStatus::GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE, Blame::Caller, reason));
        }
        let known = &self.sources[source];
        let (exclusive, emulated) = (known.owner == Some(device), known.emulated.contains(&device));
        let otherwise = match way {
            SourceOwnerType::ExclusiveGdi => {
                return Err(invalid(format!("source {}: EXCLUSIVEGDI is for devices of GDI", source.0)));
            }
            SourceOwnerType::Exclusive => emulated,
            SourceOwnerType::Emulated | SourceOwnerType::Shared => exclusive,
        };
        if otherwise {
            let reason = format!("source {} is the device's in another way: give it up first", source.0);
            return Err(invalid(reason));
        }
        let in_use = match way {
            SourceOwnerType::Shared => Some("the desktop's"),
            _ => known.owner.filter(|owner| *owner != device).map(|_| "another device's"),
        };
        in_use.map_or(Ok(()), |whose| {
            let reason = format!("source {} is {whose}", source.0);
            Err(refuse(NtStatus::GRAPHICS_VIDPN_SOURCE_IN_USE, Blame::Caller, reason))
        })
    }

    /// A device is lost or goes: it has no source any more. Those that it had, which go black.
    pub fn disown(&mut self, device: DeviceNumber) -> Vec<VidPnSourceId> {
        self.set_owner(device, &[]).expect("it wants none")
    }

    /// `D3DKMTCheckVidPnExclusiveOwnership`: a source that a device owns shows what that device presents, and nothing else.
    ///
    /// # Errors
    /// `GRAPHICS_PRESENT_OCCLUDED`; `INVALID_PARAMETER` when there is no such source.
    pub fn check_exclusive_ownership(&self, source: VidPnSourceId) -> Result<(), Refusal> {
        let source = self.source(source)?;
        match self.sources[source].owner {
            None => Ok(()),
            Some(_) => {
                let reason = format!("a device owns source {}", source.0);
                Err(refuse(NtStatus::GRAPHICS_PRESENT_OCCLUDED, Blame::Caller, reason))
            }
        }
    }

    /// The source of a primary, which is this device's.
    pub(super) fn owned_source(&self, device: DeviceNumber, primary: Primary) -> Result<VidPnSourceId, Refusal> {
        let shown_on = primary.shown_on.ok_or_else(|| invalid("an allocation that is no primary"))?;
        let source = self.source(shown_on)?;
        if self.sources[source].owner != Some(device) {
            return Err(access_denied(format!("source {} is not the device's", source.0)));
        }
        Ok(source)
    }

    /// Whether a source shows a mode.
    pub fn is_on(&self, source: VidPnSourceId) -> bool {
        self.sources[source].mode.is_some()
    }

    /// The mode that a primary gives its source, which is this device's.
    ///
    /// # Errors
    /// It is no primary, its source is not the device's, or no display shows such a thing.
    pub fn mode_of(
        &self,
        driver: &mut EntryPoints<'_>,
        device: DeviceNumber,
        primary: Primary,
    ) -> Result<Mode, Refusal> {
        let source = self.owned_source(device, primary)?;
        let surface = display(driver.again())?.describe_allocation(primary.kmd);
        let surface = surface.ok_or_else(|| invalid("a primary that no display of this adapter shows"))?;
        Ok(Mode { device, source, primary, surface })
    }

    /// The driver sets a mode on its source, which is off. A mode that it refuses pins its primary no more.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn commit(&mut self, lent: &mut Lent<'_, '_>, mode: &Mode) -> Result<(), Refusal> {
        debug_assert!(!self.is_on(mode.source), "source {} gets a mode, and shows one", mode.source.0);
        let committed = display(lent.driver.again())?.commit_vidpn(mode.source, Some(mode.primary.kmd));
        committed.map_err(|status| {
            lent.tell(DisplayNews::Unpin(mode.primary.id));
            from_driver(status)
        })
    }

    /// A mode that was committed will not be shown.
    ///
    /// # Errors
    /// The driver fails, and must not.
    pub fn uncommit(&mut self, lent: &mut Lent<'_, '_>, mode: &Mode) -> Result<(), Breach> {
        lent.tell(DisplayNews::Unpin(mode.primary.id));
        commit_nothing(lent, mode.source)
    }

    /// A source shows the primary of the mode that was committed, which lies here and is pinned. The pin is undone if it does not.
    ///
    /// # Errors
    /// The driver fails.
    pub fn show_first(
        &mut self,
        lent: &mut Lent<'_, '_>,
        &Mode { device, source, primary, surface }: &Mode,
        (segment, physical_address): (SegmentId, u64),
    ) -> Result<(), Breach> {
        let flags = SetVidPnSourceAddressFlags::MODE_CHANGE;
        let set = SetVidPnSourceAddress { source, segment, physical_address, allocation: primary.kmd, flags };
        if let Err(status) = lent.display().set_vidpn_source_address(set) {
            lent.tell(DisplayNews::Unpin(primary.id));
            // Bug check 0x119, parameter 0xB.
            return Err(Breach(format!("SetVidPnSourceAddress failed: {status}")));
        }
        lent.display().set_vidpn_source_visibility(source, true);
        let known = &mut self.sources[source];
        debug_assert!(known.mode.is_none() && known.flips.is_empty(), "source {} was off, and had flips", source.0);
        debug_assert_eq!(known.handed, 0, "the driver has flips of a source that was off");
        (known.mode, known.blanks) = (Some(surface), INTERVAL_MAX);
        known.flips_before = self.flips_made;
        let before = self.flips.begin(source.0, primary.id);
        assert_eq!(before, None, "it was off");
        let Surface { width, height, .. } = surface;
        lent.emit(Event::DisplayOn { source: source.0, device: device.raw(), width, height });
        Ok(())
    }

    /// The driver turns a display off that is on. Its mode is to be forgotten in any case ([`Displays::forget_mode`]).
    ///
    /// # Errors
    /// The driver fails, and must not.
    pub fn switch_off(&mut self, lent: &mut Lent<'_, '_>, source: VidPnSourceId) -> Result<(), Breach> {
        // Of an adapter that has stopped nothing is heard any more.
        if !lent.runs {
            return Ok(());
        }
        self.end_flip_queue(lent, source)?;
        lent.display().control_interrupt(source, false);
        commit_nothing(lent, source)
    }

    /// A display is off: its flips and the calls that wait for its blanks are over, and its primaries unpinned.
    pub fn forget_mode(&mut self, lent: &mut Lent<'_, '_>, source: VidPnSourceId) {
        let known = &mut self.sources[source];
        if known.mode.take().is_none() {
            return;
        }
        let flips = std::mem::take(&mut known.flips);
        (known.handed, known.told, known.blanks) = (0, false, INTERVAL_MAX);
        for (token, _) in std::mem::take(&mut known.waiting) {
            let result = Err(invalid("the display was switched off"));
            lent.cx.effects.push(Effect::Answer { token, result });
        }
        lent.emit(Event::DisplayOff { source: source.0 });
        for flip in flips {
            self.flips.cancel(flip.primary());
            self.drop_flip(lent, flip);
        }
        if let Some(shown) = self.flips.end(source.0) {
            lent.tell(DisplayNews::Unpin(shown));
        }
        self.free_held_queues(lent);
    }

    /// Devices are lost: their calls that wait for blanks, modes and flips are over.
    pub fn end_calls(&mut self, lent: &mut Lent<'_, '_>, lost: impl Fn(DeviceNumber) -> bool) {
        let mut over = Vec::new();
        for source in self.sources.iter_mut() {
            over.extend(source.waiting.extract_if(.., |(_, of)| lost(*of)));
        }
        over.extend(self.forget_coming_modes(lent, |coming| lost(coming.device)));
        let blocked = std::mem::take(&mut self.blocked).into_iter();
        let (gone, kept) = blocked.partition::<Vec<_>, _>(|(_, of)| lost(*of));
        self.blocked = kept.into();
        over.extend(gone);
        lent.news.extend(over.into_iter().map(|(token, of)| DisplayNews::Lost(token, of)));
    }

    /// Whether a display shows a primary, or its driver is about to.
    pub fn shows(&self, source: VidPnSourceId, primary: AllocationId) -> bool {
        let handed = self.sources[source].with_driver().any(|flip| flip.primary() == primary);
        handed || self.flips.shown_on(source.0) == Some(primary)
    }

    /// A primary is destroyed: flips to it that the driver has not are dropped.
    pub fn drop_flips_to(&mut self, lent: &mut Lent<'_, '_>, source: VidPnSourceId, primary: AllocationId) {
        debug_assert!(!self.shows(source, primary), "source {} shows {primary:?}, which is destroyed", source.0);
        let flips = std::mem::take(&mut self.sources[source].flips).into_iter();
        let (gone, kept) = flips.partition::<Vec<_>, _>(|flip| flip.primary() == primary);
        self.sources[source].flips = kept.into();
        for flip in gone {
            self.flips.cancel(primary);
            self.drop_flip(lent, flip);
        }
    }
}

fn commit_nothing(lent: &mut Lent<'_, '_>, source: VidPnSourceId) -> Result<(), Breach> {
    let committed = lent.display().commit_vidpn(source, None);
    committed.map_err(|status| Breach(format!("CommitVidPn of no mode failed: {status}")))
}
