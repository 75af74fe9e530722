//! The lists of evictions that stand aside, by the devices that asked for them: `vidmm::placement::aside` has the rule, the book of
//! allocations owns the lists.

use std::collections::BTreeMap;

use super::Allocations;
use crate::slab::{AllocationId, DeviceId};

/// An eviction that stands aside until the queued work that uses the content is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aside {
    /// The device whose call took the content off the last list.
    pub device: DeviceId,
    /// The time of that call.
    pub tick: u64,
}

/// The evictions that stand aside, by device and time.
pub(super) type Asides = BTreeMap<(DeviceId, u64), AllocationId>;

impl<F> Allocations<F> {
    /// The eviction of an allocation stands aside.
    pub fn stand_aside(&mut self, id: AllocationId, aside: Aside) {
        let allocation = &mut self.known[id];
        assert!(allocation.aside.is_none(), "an allocation leaves its last list once");
        debug_assert_eq!(allocation.count, 0, "{id:?} is evicted, and listed");
        allocation.aside = Some(Box::new(aside));
        let before = self.asides.insert((aside.device, aside.tick), id);
        assert!(before.is_none(), "each eviction has a tick of its own");
    }

    /// The eviction of an allocation stands aside no more: it is carried out, or taken back.
    pub fn forget_aside(&mut self, id: AllocationId) {
        if let Some(aside) = self.known[id].aside.take() {
            let known = self.asides.remove(&(aside.device, aside.tick));
            debug_assert_eq!(known, Some(id), "{id:?} stands aside as {aside:?}");
        }
    }

    /// Whether any eviction stands aside: asked after every call, so it costs nothing.
    pub fn any_aside(&self) -> bool {
        !self.asides.is_empty()
    }

    /// The devices whose evictions stand aside.
    pub fn devices_aside(&self) -> impl Iterator<Item = DeviceId> + '_ {
        let mut next = self.asides.keys().next().map(|(device, _)| *device);
        std::iter::from_fn(move || {
            let device = next?;
            next = self.asides.range((device, u64::MAX)..).next().map(|((device, _), _)| *device);
            Some(device)
        })
    }

    /// A device's, the oldest first.
    pub fn asides_of(&self, device: DeviceId) -> impl Iterator<Item = AllocationId> + '_ {
        self.asides.range((device, 0)..=(device, u64::MAX)).map(|(_, id)| *id)
    }

    /// Finds a fault in the lists.
    pub(super) fn check_asides(&self) -> Result<(), String> {
        let known = self.iter().filter_map(|(id, allocation)| Some((allocation.aside.as_deref()?, id)));
        let expected: Asides = known.map(|(aside, id)| ((aside.device, aside.tick), id)).collect();
        if expected != self.asides {
            return Err(format!("{:?} stand aside, and should {expected:?}", self.asides));
        }
        match self.iter().find(|(_, known)| known.aside.is_some() && (known.count > 0 || known.doomed.is_some())) {
            Some((id, _)) => Err(format!("the eviction of {id:?} stands aside, and it is listed or destroyed")),
            None => Ok(()),
        }
    }
}
