//! Processes that are quiesced while their page tables change under them: a leaf table that is converted, or any change on hardware that
//! wants idle address spaces (memory §4.2, §4.5). The memory manager says for which work; all contexts of the process's devices leave the
//! hardware when that work's turn has come, and go on when the hardware has got past it. A device that comes in between is quiesced, too.
//!
//! Here stands which work quiesces which devices, and for how many works each device stands still; this part asks no other.
//! `adapter::stillness` has the devices suspended and resumed. A device is counted once for each work in `devices`.

use std::collections::btree_map::{BTreeMap, Entry};

use gpu_fence::FenceId;
use vidmm::{Operation, SpaceId, Work};

use super::PagingRing;
use crate::number::{DeviceNumber, PagingWorkNumber};

/// The spaces and devices that each work quiesces, by its number.
#[derive(Default)]
pub(super) struct Stillnesses {
    of: BTreeMap<PagingWorkNumber, Stillness>,
    /// The works that change the page tables of each device.
    changes: BTreeMap<DeviceNumber, u32>,
    /// The works under way that move content of each device's list within a segment.
    relocations: BTreeMap<DeviceNumber, u32>,
}

struct Stillness {
    spaces: Vec<SpaceId>,
    devices: Vec<DeviceNumber>,
}

impl PagingRing {
    /// A work quiesces these devices, and each that comes to these spaces before the hardware has got past it.
    pub fn stillness_begins(&mut self, work: PagingWorkNumber, spaces: Vec<SpaceId>, devices: Vec<DeviceNumber>) {
        devices.iter().for_each(|device| *self.stillnesses.changes.entry(*device).or_default() += 1);
        let before = self.stillnesses.of.insert(work, Stillness { spaces, devices });
        debug_assert!(before.is_none(), "a work quiesces once: {work:?}");
    }

    /// A device comes to a space. Answers how many works quiesce it.
    #[must_use = "the device is quiesced"]
    pub fn device_comes(&mut self, device: DeviceNumber, space: SpaceId) -> usize {
        let quiescing = self.stillnesses.of.values_mut().filter(|known| known.spaces.contains(&space));
        let count = quiescing.map(|stillness| stillness.devices.push(device)).count();
        if count > 0 {
            // CAST: the ring has few works.
            *self.stillnesses.changes.entry(device).or_default() += count as u32;
        }
        count
    }

    /// The hardware has got past a work. Answers with the devices that it quiesced.
    #[must_use = "each device needs one stillness less"]
    pub fn stillness_ends(&mut self, work: PagingWorkNumber) -> Vec<DeviceNumber> {
        self.stillnesses.of.remove(&work).map(|stillness| stillness.devices).unwrap_or_default()
    }

    /// A work that has quiesced a device for its page tables is past. True: no other needs the device quiesced for that.
    #[must_use = "the device goes on"]
    pub fn needs_stillness_no_more(&mut self, device: DeviceNumber) -> bool {
        is_last(&mut self.stillnesses.changes, device)
    }

    /// A work moves content of a device's list within a segment: its turn has come.
    pub fn relocates(&mut self, device: DeviceNumber) {
        *self.stillnesses.relocations.entry(device).or_default() += 1;
    }

    /// A work has moved content of a device's list. True: no other does.
    #[must_use = "the device goes on"]
    pub fn relocates_no_more(&mut self, device: DeviceNumber) -> bool {
        is_last(&mut self.stillnesses.relocations, device)
    }

    /// A device goes: no work that is past brings it back.
    pub fn device_goes(&mut self, device: DeviceNumber) {
        self.stillnesses.changes.remove(&device);
        self.stillnesses.relocations.remove(&device);
    }
}

/// Counts one down; false also for a device that has gone.
fn is_last(counts: &mut BTreeMap<DeviceNumber, u32>, device: DeviceNumber) -> bool {
    let Entry::Occupied(mut count) = counts.entry(device) else { return false };
    debug_assert!(*count.get() > 0, "a device that no work quiesces is not counted: {device:?}");
    *count.get_mut() -= 1;
    let last = *count.get() == 0;
    if last {
        count.remove();
    }
    last
}

/// The spaces in which nothing may run during a work, each with its strongest reason.
pub fn causes(work: &Work<FenceId>) -> Vec<(SpaceId, events::Stillness)> {
    let converts = |space: SpaceId| work.conversions.iter().any(|conversion| conversion.space == space);
    let switches = |space: SpaceId| {
        work.operations.iter().any(|what| matches!(what, Operation::SwitchRoot { space: of, .. } if *of == space))
    };
    let cause = |space| match (switches(space), converts(space)) {
        (true, _) => events::Stillness::Root,
        (false, true) => events::Stillness::Conversion,
        (false, false) => events::Stillness::Hardware,
    };
    work.idle_spaces.iter().map(|space| (*space, cause(*space))).collect()
}
