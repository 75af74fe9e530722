//! Unswizzling ranges: bus addresses at which the CPU sees a tiled surface in linear order ([`softgpu_spec::tile`]). They are programmed
//! by registers; engines neither use nor notice them. Register accesses call this file, and the host that plays the bus for the CPU.

use std::sync::Mutex;

use softgpu_spec::bus::SYSTEM_BASE;
use softgpu_spec::register;
use softgpu_spec::tile::{RANGE_COUNT, Tiling};

use crate::lock;

/// The ranges.
#[derive(Default)]
pub(crate) struct Ranges(Mutex<RangeBank>);

#[derive(Default)]
struct RangeBank {
    selected: usize,
    ranges: [Registers; RANGE_COUNT as usize],
}

/// One range as it was written.
#[derive(Clone, Copy, Default)]
struct Registers {
    start: u64,
    surface: u64,
    bytes: u64,
    pitch: u64,
    /// Set when the pitch was written and everything made sense.
    tiling: Option<Tiling>,
}

impl Ranges {
    pub(crate) fn read(&self, offset: u32) -> u64 {
        let state = lock(&self.0);
        let range = &state.ranges[state.selected];
        match offset {
            register::RANGES => u64::from(RANGE_COUNT),
            register::RANGE_SELECT => state.selected as u64,
            register::RANGE_START => range.start,
            register::RANGE_SURFACE => range.surface,
            register::RANGE_BYTES => range.bytes,
            register::RANGE_PITCH => range.pitch,
            _ => 0,
        }
    }

    /// Writes a register. `local_bytes`: how far surfaces may go.
    pub(crate) fn write(&self, offset: u32, value: u64, local_bytes: u64) {
        let mut state = lock(&self.0);
        if offset == register::RANGE_SELECT {
            // A range that there is not cannot be selected: the selection stays.
            if let Some(index) = usize::try_from(value).ok().filter(|index| *index < state.ranges.len()) {
                state.selected = index;
            }
            return;
        }
        let selected = state.selected;
        let range = &mut state.ranges[selected];
        match offset {
            register::RANGE_START => range.start = value,
            register::RANGE_SURFACE => range.surface = value,
            register::RANGE_BYTES => range.bytes = value,
            register::RANGE_PITCH => range.pitch = value,
            _ => return,
        }
        // A range that is half written shows nothing: the pitch comes last.
        range.tiling = Tiling::of_pitch(value).filter(|tiling| {
            let ends = |first: u64, limit: u64| first.checked_add(range.bytes).is_some_and(|end| end <= limit);
            offset == register::RANGE_PITCH
                && range.bytes != 0
                && range.bytes.is_multiple_of(tiling.band_bytes())
                && ends(range.start, SYSTEM_BASE)
                && ends(range.surface, local_bytes)
        });
    }

    /// The memory that a range shows at a bus address: byte of local memory, and how many follow it in the same order.
    pub(crate) fn shown(&self, bus: u64) -> Option<(u64, u64)> {
        let state = lock(&self.0);
        let within =
            |range: &&Registers| range.tiling.is_some() && (range.start..range.start + range.bytes).contains(&bus);
        let range = state.ranges.iter().find(within)?;
        let (place, room) = range.tiling?.place(bus - range.start);
        Some((range.surface + place, room))
    }

    /// How far it is from a bus address to the next range.
    pub(crate) fn distance(&self, bus: u64) -> u64 {
        let state = lock(&self.0);
        let starts = state.ranges.iter().filter(|range| range.tiling.is_some()).map(|range| range.start);
        starts.filter_map(|start| start.checked_sub(bus)).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: u64 = 1 << 20;

    fn program(ranges: &Ranges, index: u64, [start, surface, bytes, pitch]: [u64; 4]) {
        for (offset, value) in [
            (register::RANGE_SELECT, index),
            (register::RANGE_START, start),
            (register::RANGE_SURFACE, surface),
            (register::RANGE_BYTES, bytes),
            (register::RANGE_PITCH, pitch),
        ] {
            ranges.write(offset, value, LOCAL);
        }
    }

    #[test]
    fn a_range_shows_rows_one_after_the_other() {
        let ranges = Ranges::default();
        program(&ranges, 1, [8192, 8192, 16384, 1024]);
        assert_eq!(ranges.shown(8191), None);
        assert_eq!(ranges.distance(0), 8192);
        assert_eq!(ranges.shown(8192), Some((8192, 512)), "row 0 begins");
        assert_eq!(ranges.shown(8192 + 512), Some((8192 + 4096, 512)), "its second half is in the second tile");
        assert_eq!(ranges.shown(8192 + 1024 + 8), Some((8192 + 512 + 8, 504)), "row 1");
        assert_eq!(ranges.shown(8192 + 16384), None);
        program(&ranges, 2, [1 << 45, 0, 8192, 1024]);
        assert_eq!(ranges.shown((1 << 45) + 8192 - 1), Some((8191, 1)), "elsewhere in the window");
        ranges.write(register::RANGE_PITCH, 0, LOCAL);
        assert_eq!(ranges.shown(1 << 45), None, "it has ended");
        assert!(ranges.shown(8192).is_some(), "the other has not");
    }

    #[test]
    fn what_makes_no_sense_shows_nothing() {
        let ranges = Ranges::default();
        for wrong in [
            [0, 0, 0, 512],
            [0, 0, 4096, 100],
            [0, 0, 4096, 1024],
            [0, LOCAL, 4096, 512],
            [u64::MAX - 8, 0, 4096, 512],
            [SYSTEM_BASE - 8, 0, 4096, 512],
            [0, u64::MAX - 8, 4096, 512],
        ] {
            program(&ranges, 0, wrong);
            assert_eq!(ranges.shown(wrong[0]), None, "{wrong:?}");
        }
        program(&ranges, 99, [0, 0, 4096, 512]);
        assert_eq!(ranges.read(register::RANGE_SELECT), 0, "there is no such range");
    }
}
