//! Tiled surfaces (memory §6.5): which allocations lie in tiles, the ranges through which the CPU sees them in linear order,
//! and when a transfer turns one form into the other. First generation only.
//!
//! | allocation | in a memory segment | outside |
//! |---|---|---|
//! | no tiles | linear | linear |
//! | tiles, CPU-visible | tiles | linear: every transfer converts |
//! | tiles, not CPU-visible | tiles | tiles: the CPU never reads it |
//! | tiles, marked `Swizzled` | tiles | as the kernel says in each transfer |
//!
//! A range changes neither where the CPU finds a surface nor how long it is: rows stand in it one after the other where the
//! tiles are. For a surface with an alternate address the driver shows it in the CPU's window instead.

use ddi::{
    AcquireSwizzlingRange, AllocationFlags, AllocationInfo, DriverModel, DriverStatus, KmdAllocation,
    ReleaseSwizzlingRange, Swizzling, SwizzlingError, TransferFlags,
};
use softgpu_spec::bus;
use softgpu_spec::register;
use softgpu_spec::tile::Tiling;

use crate::driver::SoftGpuKmd;
use crate::segments::describe::cpu_address;

/// Bytes of the CPU's window for each range with an address of its own.
const ALTERNATE_BYTES: u64 = 1 << 36;

/// How an allocation is tiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiles {
    pub(crate) tiling: Tiling,
    /// The kernel keeps track (`Swizzled`).
    marked: bool,
    cpu_visible: bool,
    /// The CPU sees it at an address of the driver's choice (`UseAlternateVA`).
    alternate: bool,
}

impl Tiles {
    /// The tiles that private data ask for; `pitch` 0: none.
    pub(crate) fn asked(pitch: u32, model: DriverModel, info: &AllocationInfo) -> Result<Option<Tiles>, DriverStatus> {
        if pitch == 0 {
            return Ok(None);
        }
        // spec: memory §6.5, there are no swizzling ranges in WDDM 2
        if model != DriverModel::Wddm1 {
            return Err(DriverStatus::InvalidParameter("tiles are of the first generation"));
        }
        let tiling = Tiling::of_pitch(u64::from(pitch))
            .ok_or(DriverStatus::InvalidParameter("a row of a tiled surface is whole tiles wide"))?;
        if !info.size_bytes.is_multiple_of(tiling.band_bytes()) {
            return Err(DriverStatus::InvalidParameter("a tiled surface is whole bands"));
        }
        let has = |flag| info.flags.contains(flag);
        if !has(AllocationFlags::ACCESSED_PHYSICALLY) {
            return Err(DriverStatus::InvalidParameter("a tiled surface lies in one piece"));
        }
        Ok(Some(Tiles {
            tiling,
            marked: has(AllocationFlags::SWIZZLED),
            cpu_visible: has(AllocationFlags::CPU_VISIBLE) || has(AllocationFlags::CPU_VISIBLE_ON_DEMAND),
            alternate: has(AllocationFlags::USE_ALTERNATE_VA),
        }))
    }

    /// Whether a transfer into a memory segment (`inwards`) or out of one changes the form.
    // spec: memory §6.5
    pub(crate) fn converts(&self, inwards: bool, flags: TransferFlags) -> bool {
        match self.marked {
            true => flags.contains(if inwards { TransferFlags::SWIZZLE } else { TransferFlags::UNSWIZZLE }),
            false => self.cpu_visible,
        }
    }
}

impl Swizzling for SoftGpuKmd {
    fn swizzling_ranges(&self) -> u32 {
        // CAST: the device has a handful.
        self.ranges.len() as u32
    }

    // spec: memory §6.5
    fn acquire_swizzling_range(&mut self, acquire: &mut AcquireSwizzlingRange) -> Result<(), SwizzlingError> {
        let geometry = self.geometry.ok_or(SwizzlingError::Unsupported)?;
        let known = self.allocations.get(acquire.allocation.0).ok_or(SwizzlingError::Unsupported)?;
        let (size_bytes, tiles) = (known.size_bytes, known.tiles());
        match self.ranges.get(acquire.range as usize) {
            None => return Err(SwizzlingError::Unsupported),
            Some(Some(_)) => return Err(SwizzlingError::Unavailable),
            Some(None) => {}
        }
        // A surface of this device has one level.
        let memory = geometry.memory_segments().contains(acquire.segment);
        if acquire.private_driver_data != 0 || !memory {
            return Err(SwizzlingError::Unsupported);
        }
        // The kernel names the CPU's address of the surface; the device needs its address in local memory.
        let surface = (acquire.cpu_translated_address.checked_sub(cpu_address(bus::LOCAL_BASE)))
            .and_then(|offset| geometry.bus_of_range(acquire.segment, bus::LOCAL_BASE + offset, acquire.range_bytes))
            .ok_or(SwizzlingError::Unsupported)?;
        if let Some(tiles) = tiles {
            let start = match tiles.alternate {
                true => bus::CPU_WINDOW_BASE + u64::from(acquire.range) * ALTERNATE_BYTES,
                false => acquire.cpu_translated_address,
            };
            self.program_range(acquire.range, [start, surface, size_bytes, tiles.tiling.pitch()]);
            // spec: memory §6.5: only an alternate address may be another one
            acquire.cpu_translated_address = start;
        }
        self.ranges[acquire.range as usize] = Some(acquire.allocation);
        Ok(())
    }

    fn release_swizzling_range(&mut self, release: ReleaseSwizzlingRange) {
        let held = self.ranges.get_mut(release.range as usize).expect("the kernel names a range that there is");
        assert_eq!(held.take(), Some(release.allocation), "a range is released by whom it shows");
        self.program_range(release.range, [0; 4]);
    }
}

impl SoftGpuKmd {
    /// Asks how many ranges there are, and ends them.
    pub(crate) fn find_ranges(&mut self) {
        let count = match self.config.driver_model {
            // CAST: a device with more has no use for them.
            DriverModel::Wddm1 => self.port.read_register(register::RANGES).min(256) as u32,
            DriverModel::Wddm2 => 0,
        };
        self.ranges = vec![None; count as usize];
        (0..count).for_each(|range| self.program_range(range, [0; 4]));
    }

    /// The pitch comes last: with it the range holds, or ends.
    fn program_range(&self, range: u32, [start, surface, bytes, pitch]: [u64; 4]) {
        for (register, value) in [
            (register::RANGE_SELECT, u64::from(range)),
            (register::RANGE_START, start),
            (register::RANGE_SURFACE, surface),
            (register::RANGE_BYTES, bytes),
            (register::RANGE_PITCH, pitch),
        ] {
            self.port.write_register(register, value);
        }
    }

    /// The tiles of an allocation whose form a transfer changes.
    pub(crate) fn converted(
        &self,
        allocation: Option<KmdAllocation>,
        inwards: bool,
        flags: TransferFlags,
    ) -> Option<Tiling> {
        let tiles = self.allocations.get(allocation?.0)?.tiles()?;
        tiles.converts(inwards, flags).then_some(tiles.tiling)
    }

    /// The tiles of an allocation that the CPU saw at an alternate address: in rows, whatever the flags say.
    // spec: memory §3.4, operation 7
    pub(crate) fn shown_in_rows(&self, allocation: KmdAllocation) -> Option<Tiling> {
        self.allocations.get(allocation.0)?.tiles().map(|tiles| tiles.tiling)
    }
}

#[cfg(test)]
mod tests;
