//! Processes that are quiesced while their page tables change under them: a leaf table that is converted, or any change on hardware that
//! wants idle address spaces (memory §4.2, §4.5). The memory manager says for which work; all contexts of the process's devices leave the
//! hardware when that work's turn has come, and go on when the hardware has got past it. A device that comes in between is quiesced, too.
//!
//! Here stands which work quiesces which devices, and for how many works each device stands still; this part asks no other.
//! `adapter::stillness` has the devices suspended and resumed. A device is counted once for each work in `devices`.

use std::collections::btree_map::{BTreeMap, Entry};

use gpu_fence::FenceId;
use vidmm::{Operation, SpaceId, StateDigest, Work};

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

#[derive(Debug)]
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

    /// The works that quiesce processes.
    pub(super) fn stillnesses(&self) -> impl Iterator<Item = PagingWorkNumber> + '_ {
        self.stillnesses.of.keys().copied()
    }

    /// Those of them that quiesce a device.
    pub(super) fn stillness_works(&self, device: DeviceNumber) -> impl Iterator<Item = PagingWorkNumber> + '_ {
        let of_device = self.stillnesses.of.iter().filter(move |(_, known)| known.devices.contains(&device));
        of_device.map(|(work, _)| *work)
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

    /// For the digest of the adapter's state: what keeps devices off the hardware.
    pub fn add_to(&self, digest: &mut StateDigest) {
        let Stillnesses { of, changes, relocations } = &self.stillnesses;
        of.iter().for_each(|(work, stillness)| digest.add("stillness", work, stillness));
        changes.iter().for_each(|(device, works)| digest.add("page tables change under", device, works));
        relocations.iter().for_each(|(device, works)| digest.add("content moves under", device, works));
    }

    /// Finds a device that has gone and is to be brought back.
    ///
    /// # Errors
    /// It.
    pub fn check_stillnesses(&self, is_there: impl Fn(DeviceNumber) -> bool) -> Result<(), String> {
        let Stillnesses { changes, relocations, .. } = &self.stillnesses;
        match changes.keys().chain(relocations.keys()).find(|device| !is_there(**device)) {
            Some(device) => Err(format!("{device:?} has gone, and works that quiesce it are counted")),
            None => Ok(()),
        }
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

#[cfg(test)]
mod tests {
    use ddi::{KmdContext, KmdDevice};

    use super::*;
    use crate::store::ObjectNumber;

    fn digest(ring: &PagingRing) -> StateDigest {
        let mut digest = StateDigest::default();
        ring.add_to(&mut digest);
        digest
    }

    #[test]
    fn what_keeps_devices_off_the_hardware_is_digested_and_found_when_they_have_gone() {
        let mut ring = PagingRing::new(KmdDevice::default(), KmdContext::default(), true);
        let (work, device) = (PagingWorkNumber::from_raw(1), DeviceNumber::from_raw(7));
        let before = digest(&ring);
        ring.stillness_begins(work, Vec::new(), vec![device]);
        let quiesced = digest(&ring);
        assert_eq!(before.differences(&quiesced).len(), 2, "the work, and the device that it quiesces");
        ring.relocates(device);
        assert_eq!(quiesced.differences(&digest(&ring)).len(), 1);
        assert!(ring.check_stillnesses(|_| false).is_err_and(|wrong| wrong.contains('7')));
        assert_eq!(ring.check_stillnesses(|there| there == device), Ok(()));
        ring.device_goes(device);
        assert_eq!(ring.check_stillnesses(|_| false), Ok(()));
    }
}
