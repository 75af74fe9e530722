//! Processes that are quiesced while their page tables change under them: a leaf table that is converted, or any change on hardware that
//! wants idle address spaces (memory §4.2, §4.5). The memory manager says for which work; all contexts of the process's devices leave the
//! hardware when that work's turn has come, and go on when the hardware has got past it. A device that comes in between is quiesced, too.
//!
//! Here stands which work quiesces which devices; this part asks no other. `adapter::stillness` has the devices suspended and resumed. A
//! device is counted once for each work in `devices`.

use std::collections::BTreeMap;

use gpu_fence::FenceId;
use vidmm::{Operation, SpaceId, Work};

use super::PagingRing;
use crate::number::{DeviceNumber, PagingWorkNumber};

/// The spaces and devices that each work quiesces, by its number.
#[derive(Default)]
pub(super) struct Stillnesses {
    of: BTreeMap<PagingWorkNumber, Stillness>,
}

struct Stillness {
    spaces: Vec<SpaceId>,
    devices: Vec<DeviceNumber>,
}

impl PagingRing {
    /// A work quiesces these devices, and each that comes to these spaces before the hardware has got past it.
    pub fn stillness_begins(&mut self, work: PagingWorkNumber, spaces: Vec<SpaceId>, devices: Vec<DeviceNumber>) {
        self.stillnesses.of.insert(work, Stillness { spaces, devices });
    }

    /// A device comes to a space. Answers how many works quiesce it.
    #[must_use = "the device is quiesced"]
    pub fn device_comes(&mut self, device: DeviceNumber, space: SpaceId) -> usize {
        let quiescing = self.stillnesses.of.values_mut().filter(|known| known.spaces.contains(&space));
        quiescing.map(|stillness| stillness.devices.push(device)).count()
    }

    /// The hardware has got past a work. Answers with the devices that it quiesced.
    #[must_use = "the devices go on, unless another work quiesces them"]
    pub fn stillness_ends(&mut self, work: PagingWorkNumber) -> Vec<DeviceNumber> {
        self.stillnesses.of.remove(&work).map(|stillness| stillness.devices).unwrap_or_default()
    }
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
