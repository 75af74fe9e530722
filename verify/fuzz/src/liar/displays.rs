//! The lies about displays: paths that there are not, blanks that never were, flips that are refused, logs of what never happened.

use ddi::*;
use miniport_filter::*;
use wddm_types::{VidPnSourceId, VidPnTargetId};

use super::{Liar, Lie};
use crate::dice::Dice;

/// A blank that never was.
pub fn false_blank(dice: &mut Dice, notify: &mut dyn Notify) {
    let target = VidPnTargetId(if dice.chance(90) { 0 } else { dice.number32(2) });
    let flags = InterruptFlags::from_bits_retain(dice.number32(8));
    if dice.chance(50) {
        return notify.interrupt(Interrupt::CrtcVsync { target, physical_address: dice.number(1 << 16), flags });
    }
    let layer = if dice.chance(90) { 0 } else { dice.number32(2) };
    let first_free_log_entry = dice.number32(4);
    let planes = &[PlaneVsync { layer, present_id: dice.number(9), first_free_log_entry }];
    notify.interrupt(Interrupt::CrtcVsyncWithMultiPlaneOverlay3 { target, planes, flags });
}

impl DisplayFilter for Liar {
    fn vidpn_paths(&self, mut paths: Vec<VidPnPath>) -> Vec<VidPnPath> {
        if let Some(mut dice) = self.lies.tells(Lie::Displays)
            && let Some(path) = paths.first_mut()
        {
            match dice.below(3) {
                0 => path.refresh_ns = dice.edge(),
                1 => path.source = VidPnSourceId(dice.number32(3)),
                _ => path.target = VidPnTargetId(dice.number32(3)),
            }
        }
        paths
    }

    fn flip_caps(&self, mut caps: FlipCaps) -> FlipCaps {
        if let Some(mut dice) = self.lies.tells(Lie::Displays) {
            caps.max_queued_flip_on_vsync = dice.number32(99);
        }
        caps
    }

    fn describe_allocation(&mut self, next: &mut dyn Display, allocation: KmdAllocation) -> Option<Surface> {
        let surface = next.describe_allocation(allocation);
        match self.lies.tells(Lie::Displays) {
            Some(mut dice) => {
                dice.chance(50).then_some(Surface { width: 32, height: 8, format: SurfaceFormat::X8R8G8B8 })
            }
            None => surface,
        }
    }

    fn commit_vidpn(
        &mut self,
        next: &mut dyn Display,
        source: VidPnSourceId,
        primary: Option<KmdAllocation>,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Displays)?;
        next.commit_vidpn(source, primary)
    }

    fn set_vidpn_source_address(
        &mut self,
        next: &mut dyn Display,
        set: SetVidPnSourceAddress,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::Flips)?;
        next.set_vidpn_source_address(set)
    }

    fn set_vidpn_source_visibility(&mut self, next: &mut dyn Display, source: VidPnSourceId, visible: bool) {
        let visible = visible ^ self.lies.tells(Lie::Displays).is_some();
        next.set_vidpn_source_visibility(source, visible);
    }

    fn control_interrupt(&mut self, next: &mut dyn Display, source: VidPnSourceId, enable: bool) {
        let enable = enable ^ self.lies.tells(Lie::Blanks).is_some();
        next.control_interrupt(source, enable);
    }
}

impl FlipQueueFilter for Liar {
    fn flip_queue_caps(&self, honest: FlipQueueCaps) -> FlipQueueCaps {
        match self.lies.tells(Lie::Flips) {
            Some(mut dice) => FlipQueueCaps { max_hw_queued_flips: dice.number32(99) },
            None => honest,
        }
    }

    fn set_flip_queue_log_buffer(
        &mut self,
        next: &mut dyn FlipQueue,
        set: SetFlipQueueLogBuffer,
    ) -> Result<(), DriverStatus> {
        self.lies.refusal(Lie::FlipLog)?;
        next.set_flip_queue_log_buffer(set)
    }

    fn queue_flip(&mut self, next: &mut dyn FlipQueue, mut flip: QueueFlip) -> Result<(), FlipRefusal> {
        if let Some(mut dice) = self.lies.tells(Lie::Flips) {
            let drains = [DrainNeeded::Plane, DrainNeeded::AllPlanes, DrainNeeded::AllSources];
            match dice.below(6) {
                at @ 0..3 => return Err(FlipRefusal::Retry(drains[at as usize])),
                3 => self.lies.refusal(Lie::Flips).map_err(FlipRefusal::Failed)?,
                4 => flip.target_flip_time = dice.edge(),
                _ => flip.present_id = dice.number(9),
            }
        }
        next.queue_flip(flip)
    }

    fn update_flip_queue_log(&mut self, next: &mut dyn FlipQueue, source: VidPnSourceId, layer: u32) -> u32 {
        let end = next.update_flip_queue_log(source, layer);
        self.lies.tells(Lie::FlipLog).map_or(end, |mut dice| dice.number32(300))
    }

    fn set_interrupt_target_present_id(
        &mut self,
        next: &mut dyn FlipQueue,
        source: VidPnSourceId,
        layer: u32,
        present_id: u64,
    ) {
        let told = self.lies.tells(Lie::Blanks).map_or(present_id, |mut dice| dice.number(9));
        next.set_interrupt_target_present_id(source, layer, told);
    }

    fn cancel_flips(&mut self, next: &mut dyn FlipQueue, source: VidPnSourceId, layer: u32, first: u64) -> u64 {
        let cancelled = next.cancel_flips(source, layer, first);
        self.lies.tells(Lie::FlipLog).map_or(cancelled, |mut dice| dice.number(9))
    }
}
