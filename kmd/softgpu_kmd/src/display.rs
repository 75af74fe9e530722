//! Displays: the data sheet's outputs as sources with one target each. Source and target have the output's number. A mode is that of
//! a primary, whose private data have the size that is shown; flips carry addresses, so the driver keeps nothing else. `flip_queue` has
//! the device's queue of flips with times and a log.

mod flip_queue;

use ddi::{
    AllocationListEntry, Display, DriverStatus, FlipCaps, KmdAllocation, KmdNotification, NotificationId, RenderStatus,
    SetVidPnSourceAddress, SetVidPnSourceAddressFlags, Surface, SurfaceFormat, VidPnPath,
};
use softgpu_spec::display::{self as sheet, control, flip};
use softgpu_spec::private_data::Details;
use wddm_types::{SegmentId, VidPnSourceId, VidPnTargetId};

use crate::driver::SoftGpuKmd;
use crate::interrupts::What;
use crate::segments::Geometry;

/// The data sheet's outputs show surfaces of any size, and have no monitor that prefers one: this one is the driver's recommendation.
const RECOMMENDED: Surface = Surface { width: 1920, height: 1080, format: SurfaceFormat::X8R8G8B8 };

/// An output of the device.
#[derive(Debug)]
pub(crate) struct Output {
    refresh_ns: u64,
    /// Flips that wait on it at most.
    queue_entries: u32,
    /// Its mode: texels of a row, and rows.
    mode: Option<(u32, u32)>,
    visible: bool,
    /// It interrupts at blanks.
    told: bool,
    /// Flips that were written.
    flips: u64,
    /// Entries of its log.
    log_entries: u32,
    /// Its alarms: nanoseconds before the blank, and the notifications that share each.
    alarms: [Option<(u64, Vec<NotificationId>)>; sheet::ALARMS],
}

/// The part of an allocation with these details that a display shows: texels of a row, and rows.
pub(crate) fn size_of(details: &Details, size_bytes: u64) -> Result<Option<(u32, u32)>, DriverStatus> {
    let (width, height) = (u32::from(details.display_width), u32::from(details.display_height));
    match (width, height) {
        (0, 0) => Ok(None),
        (0, _) | (_, 0) => Err(DriverStatus::InvalidParameter("private data: a surface of a display without texels")),
        _ if sheet::pitch_bytes(width) * u64::from(height) > size_bytes => {
            Err(DriverStatus::InvalidParameter("private data: a surface of a display that its size does not hold"))
        }
        _ if details.tile_pitch != 0 || details.pitch_aligned_size_bytes != 0 => {
            Err(DriverStatus::InvalidParameter("private data: displays read rows at the pitch of the data sheet"))
        }
        _ => Ok(Some((width, height))),
    }
}

impl SoftGpuKmd {
    /// Reads the device's outputs, and switches them off.
    pub(crate) fn find_outputs(&mut self) {
        let count = self.port.read_register(sheet::DISPLAYS).min(u64::from(sheet::DISPLAYS_MAX));
        self.outputs.clear();
        for number in 0..count {
            self.port.write_register(sheet::DISPLAY_SELECT, number);
            let [refresh_ns, entries] =
                [sheet::DISPLAY_PERIOD, sheet::DISPLAY_QUEUE_ENTRIES].map(|at| self.port.read_register(at));
            let (mode, visible, told, flips, log_entries, alarms) = (None, false, false, 0, 0, Default::default());
            // CAST: a device that says more takes as many as it does.
            let queue_entries = entries.clamp(1, 64) as u32;
            let refresh_ns = refresh_ns.max(1);
            let output = Output { refresh_ns, queue_entries, mode, visible, told, flips, log_entries, alarms };
            self.outputs.push(output);
            (0..sheet::ALARMS as u64).for_each(|alarm| self.write_alarm(number, alarm, 0));
            for register in [sheet::DISPLAY_CONTROL, sheet::DISPLAY_LOG, sheet::DISPLAY_TOLD_ID] {
                self.port.write_register(register, 0);
            }
        }
    }

    /// Every display is off and has no mode.
    pub(crate) fn blacken(&mut self) {
        for number in 0..self.outputs.len() {
            let output = &mut self.outputs[number];
            (output.mode, output.visible, output.told) = (None, false, false);
            self.write_control(number);
        }
    }

    fn write_alarm(&self, output: u64, alarm: u64, value: u64) {
        self.port.write_register(sheet::DISPLAY_SELECT, output);
        self.port.write_register(sheet::DISPLAY_ALARM_SELECT, alarm);
        self.port.write_register(sheet::DISPLAY_ALARM, value);
    }

    /// A record of an alarm: reports each notification that shares the alarm.
    pub(crate) fn gather_alarm(&mut self, field: u64, alarm: u64) {
        let number = field & 0xff;
        let Some(output) = self.outputs.get(number as usize) else { return };
        if let Some((_, ids)) = output.alarms.get(alarm as usize).and_then(Option::as_ref) {
            // CAST: a byte.
            ids.iter().for_each(|id| self.gathered.periodic(VidPnTargetId(number as u32), *id));
        }
    }

    fn write_control(&self, number: usize) {
        let output = &self.outputs[number];
        let bit = |set: bool, bit: u64| if set { bit } else { 0 };
        self.port.write_register(sheet::DISPLAY_SELECT, number as u64);
        self.port.write_register(
            sheet::DISPLAY_CONTROL,
            bit(output.visible, control::ENABLE) | bit(output.told, control::VSYNC_INTERRUPT),
        );
    }

    /// A record of a blank, or of an immediate flip. The driver drops the record of a display that is off: it was switched off behind the record.
    pub(crate) fn gather_shown(&mut self, field: u64, address: u64, id: u64, immediate: bool) {
        let number = field & 0xff;
        if !self.outputs.get(number as usize).is_some_and(|output| output.visible) {
            return;
        }
        // CAST: a byte.
        let target = VidPnTargetId(number as u32);
        let what = match self.queues_flips() {
            true => What::Flip { present_id: id, first_free_log_entry: self.first_free(number as usize) },
            false => What::Address(address),
        };
        self.gathered.shown(target, what, immediate);
    }

    /// Records were lost: reads from each display what it shows.
    pub(crate) fn recheck_displays(&mut self) {
        for number in 0..self.outputs.len() {
            self.port.write_register(sheet::DISPLAY_SELECT, number as u64);
            let [address, id] = [sheet::DISPLAY_ADDRESS, sheet::DISPLAY_SHOWN_ID].map(|at| self.port.read_register(at));
            self.gather_shown(number as u64, address, id, false);
        }
    }

    /// The bus address of a primary that has the mode of its source.
    fn shown_at(
        &mut self,
        source: VidPnSourceId,
        allocation: KmdAllocation,
        segment: SegmentId,
        physical_address: u64,
    ) -> Result<u64, DriverStatus> {
        let shown = self.allocations.get(allocation.0).and_then(|known| known.shown());
        let Some((width, height)) = self.output(source)?.mode.filter(|mode| shown == Some(*mode)) else {
            return Err(DriverStatus::InvalidParameter("the primary has not the mode of the source"));
        };
        let bytes = sheet::pitch_bytes(width) * u64::from(height);
        let geometry = self.geometry.ok_or(DriverStatus::Unsuccessful("the device is not started"))?;
        geometry
            .bus_of_range(segment, physical_address, bytes)
            .ok_or(DriverStatus::InvalidParameter("the primary is not in its segment"))
    }

    /// The list of a flip: NULL, and a primary of a display, which is in its segment if it is anywhere.
    // spec: memory §5.7
    pub(crate) fn check_flip(&self, list: &[AllocationListEntry]) -> Result<(), RenderStatus> {
        let [AllocationListEntry { allocation: None, .. }, primary] = list else {
            return Err(RenderStatus::InvalidParameter("a flip has two elements, the first is NULL"));
        };
        let opened = primary.allocation.and_then(|open| self.opened.get(open.0));
        let shown = opened.and_then(|opened| self.allocations.get(opened.allocation.0)?.shown());
        let (width, height) = shown.ok_or(RenderStatus::InvalidHandle("no display shows such an allocation"))?;
        let bytes = sheet::pitch_bytes(width) * u64::from(height);
        let place = |geometry: Geometry| geometry.bus_of_range(primary.segment, primary.physical_address, bytes);
        if !primary.segment.is_system() && self.geometry.and_then(place).is_none() {
            return Err(RenderStatus::InvalidParameter("the primary is not in its segment"));
        }
        Ok(())
    }

    /// Writes a flip, and lets the device take it unless it is the first of a mode.
    fn write_flip(
        &self,
        source: VidPnSourceId,
        address: u64,
        time: u64,
        id: u64,
        flags: Option<SetVidPnSourceAddressFlags>,
    ) {
        for (register, value) in [
            (sheet::DISPLAY_SELECT, u64::from(source.0)),
            (sheet::DISPLAY_FLIP_ADDRESS, address),
            (sheet::DISPLAY_FLIP_TIME, time),
            (sheet::DISPLAY_FLIP_ID, id),
        ] {
            self.port.write_register(register, value);
        }
        if let Some(flags) = flags {
            let immediate = flags.contains(SetVidPnSourceAddressFlags::FLIP_IMMEDIATE);
            self.port.write_register(sheet::DISPLAY_FLIP, if immediate { flip::IMMEDIATE } else { flip::ON_VSYNC });
        }
    }

    fn output(&mut self, source: VidPnSourceId) -> Result<&mut Output, DriverStatus> {
        self.outputs.get_mut(source.0 as usize).ok_or(DriverStatus::InvalidParameter("there is no such source"))
    }
}

impl Display for SoftGpuKmd {
    fn vidpn_paths(&self) -> Vec<VidPnPath> {
        let path = |(number, output): (usize, &Output)| {
            // CAST: 8 displays at most.
            let number = number as u32;
            let (source, target) = (VidPnSourceId(number), VidPnTargetId(number));
            VidPnPath { source, target, refresh_ns: output.refresh_ns, preferred: RECOMMENDED }
        };
        self.outputs.iter().enumerate().map(path).collect()
    }

    fn flip_caps(&self) -> FlipCaps {
        let entries = self.outputs.iter().map(|output| output.queue_entries).min();
        FlipCaps { max_queued_flip_on_vsync: entries.unwrap_or(1), flip_immediate: true }
    }

    fn describe_allocation(&mut self, allocation: KmdAllocation) -> Option<Surface> {
        let (width, height) = self.allocations.get(allocation.0)?.shown()?;
        Some(Surface { width, height, format: SurfaceFormat::X8R8G8B8 })
    }

    fn commit_vidpn(&mut self, source: VidPnSourceId, primary: Option<KmdAllocation>) -> Result<(), DriverStatus> {
        let shown = primary.map(|primary| self.allocations.get(primary.0).and_then(|known| known.shown()));
        let mode = match shown {
            None => None,
            Some(Some(mode)) => Some(mode),
            Some(None) => return Err(DriverStatus::InvalidParameter("no display shows such an allocation")),
        };
        self.output(source)?;
        // Records that the display has raised so far belong to the mode before; the driver drops them.
        self.gather();
        self.gathered.forget_target(VidPnTargetId(source.0));
        let output = self.output(source)?;
        (output.mode, output.visible) = (mode, false);
        self.write_control(source.0 as usize);
        if let Some((width, height)) = mode {
            self.port.write_register(sheet::DISPLAY_SIZE, sheet::size(width, height));
            self.port.write_register(sheet::DISPLAY_PITCH, sheet::pitch_bytes(width));
        }
        Ok(())
    }

    fn set_vidpn_source_address(&mut self, set: SetVidPnSourceAddress) -> Result<(), DriverStatus> {
        let address = self.shown_at(set.source, set.allocation, set.segment, set.physical_address)?;
        // The first address of a mode is shown when the source becomes visible; it is flip 0.
        let first = set.flags.contains(SetVidPnSourceAddressFlags::MODE_CHANGE);
        let output = self.output(set.source)?;
        output.flips = if first { 0 } else { output.flips + 1 };
        let id = output.flips;
        self.write_flip(set.source, address, 0, id, (!first).then_some(set.flags));
        Ok(())
    }

    fn set_vidpn_source_visibility(&mut self, source: VidPnSourceId, visible: bool) {
        if let Ok(output) = self.output(source) {
            output.visible = visible && output.mode.is_some();
            self.write_control(source.0 as usize);
        }
    }

    fn control_interrupt(&mut self, source: VidPnSourceId, enable: bool) {
        if let Ok(output) = self.output(source) {
            output.told = enable;
            self.write_control(source.0 as usize);
        }
    }

    // spec: sync §2.2
    fn create_periodic_frame_notification(
        &mut self,
        target: VidPnTargetId,
        time_100ns: u64,
        id: NotificationId,
    ) -> Result<KmdNotification, DriverStatus> {
        let output = self.output(VidPnSourceId(target.0))?;
        let before = time_100ns.checked_mul(100).filter(|before| *before <= output.refresh_ns);
        let before = before.ok_or(DriverStatus::InvalidParameter("more than a refresh period"))?;
        // Notifications for the same time share an alarm.
        let same = output.alarms.iter().position(|alarm| alarm.as_ref().is_some_and(|(at, _)| *at == before));
        let free = || output.alarms.iter().position(Option::is_none);
        let alarm = same.or_else(free).ok_or(DriverStatus::NoMemory("the display has no alarm left"))?;
        let (_, ids) = output.alarms[alarm].get_or_insert((before, Vec::new()));
        ids.push(id);
        if ids.len() == 1 {
            self.write_alarm(u64::from(target.0), alarm as u64, before | sheet::ALARM_SET);
        }
        Ok(KmdNotification(u64::from(target.0) << 32 | u64::from(id.0)))
    }

    fn destroy_periodic_frame_notification(&mut self, KmdNotification(notification): KmdNotification) {
        // CAST: the two halves of the handle.
        let (number, id) = ((notification >> 32) as usize, NotificationId(notification as u32));
        if number >= self.outputs.len() {
            return;
        }
        for alarm in 0..sheet::ALARMS {
            let Some((_, ids)) = &mut self.outputs[number].alarms[alarm] else { continue };
            ids.retain(|told| *told != id);
            if ids.is_empty() {
                self.outputs[number].alarms[alarm] = None;
                self.write_alarm(number as u64, alarm as u64, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests;
