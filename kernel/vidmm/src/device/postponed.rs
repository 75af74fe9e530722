//! Steps of suspended devices that wait for their queued work: it does not run before the next turn, and still needs what they give up.

use std::collections::BTreeSet;

use wddm_types::FencePoint;

use super::Devices;
use crate::slab::{AllocationId, DeviceId};

/// `D3DDDICB_EVICT` flags (memory §5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EvictFlags {
    /// Keep the content in place until its room is needed. Counts only where the count reaches 0.
    pub only_if_necessary: bool,
    /// The GPU did not write since the content was made resident.
    pub not_written_to: bool,
}

/// A step that a suspended device asked for and that waits for its queued work.
#[derive(Clone, Debug)]
pub(crate) enum Postponed<F> {
    /// Evict from the device's list.
    Evict { id: AllocationId, flags: EvictFlags, last_use: Vec<FencePoint<F>> },
    /// Destruction of the allocation.
    Doom { id: AllocationId, after: Vec<FencePoint<F>> },
    /// An offer: for its process it is offered.
    Offer { id: AllocationId, last_use: Vec<FencePoint<F>> },
}

impl<F> Postponed<F> {
    /// The allocation that it concerns.
    pub fn allocation(&self) -> AllocationId {
        match self {
            Postponed::Evict { id, .. } | Postponed::Doom { id, .. } | Postponed::Offer { id, .. } => *id,
        }
    }

    /// The last uses that it waits for.
    pub fn points(&self) -> &[FencePoint<F>] {
        match self {
            Postponed::Evict { last_use, .. } | Postponed::Offer { last_use, .. } => last_use,
            Postponed::Doom { after, .. } => after,
        }
    }
}

impl<F: Copy + Eq> Devices<F> {
    /// A suspended device's step waits for its turn.
    pub fn postpone(&mut self, device: DeviceId, step: Postponed<F>) {
        assert!(self[device].is_suspended(), "what a running device asks for is done at once");
        self.devices[device].postponed.push(step);
    }

    /// How many steps wait.
    pub fn postponed(&self, device: DeviceId) -> usize {
        self[device].postponed.len()
    }

    /// Takes all steps, to be done.
    pub fn take_postponed(&mut self, device: DeviceId) -> Vec<Postponed<F>> {
        std::mem::take(&mut self.devices[device].postponed)
    }

    /// Takes the steps whose last uses are over, to be done. A step waits for earlier ones of its allocation, and for none of another.
    pub fn take_postponed_over(
        &mut self,
        device: DeviceId,
        reached: impl Fn(&FencePoint<F>) -> bool,
    ) -> Vec<Postponed<F>> {
        let mut waiting = BTreeSet::new();
        let is_over = |step: &Postponed<F>| {
            let over = !waiting.contains(&step.allocation()) && step.points().iter().all(&reached);
            if !over {
                waiting.insert(step.allocation());
            }
            over
        };
        let (over, later) = self.take_postponed(device).into_iter().partition(is_over);
        self.devices[device].postponed = later;
        over
    }

    /// How often a list names an allocation, with the evicts that wait.
    pub fn count(&self, device: DeviceId, allocation: AllocationId) -> u64 {
        let known = &self[device];
        let evicted = |step: &&Postponed<F>| matches!(step, Postponed::Evict { id, .. } if *id == allocation);
        let postponed = known.postponed.iter().filter(evicted).count() as u64;
        let listed = known.times_listed(allocation);
        debug_assert!(
            postponed <= listed,
            "{postponed} evicts of {allocation:?} wait, and it is listed {listed} times"
        );
        listed - postponed
    }

    /// Nothing that waits concerns an allocation any more: it ends.
    pub fn forget_postponed(&mut self, id: AllocationId) {
        for device in self.line.values() {
            self.devices[*device].postponed.retain(|step| step.allocation() != id);
        }
    }

    /// An offer that waits is taken back.
    pub fn forget_postponed_offer(&mut self, id: AllocationId) {
        for device in self.line.values() {
            let is_it = |step: &Postponed<F>| matches!(step, Postponed::Offer { id: of, .. } if *of == id);
            self.devices[*device].postponed.retain(|step| !is_it(step));
        }
    }

    /// A device has closed an allocation: what it postponed for it is void. Answers whether an offer was among that.
    #[must_use = "nothing keeps such an offer waiting"]
    pub fn drop_postponed(&mut self, device: DeviceId, id: AllocationId) -> bool {
        let (gone, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.devices[device].postponed).into_iter().partition(|step| step.allocation() == id);
        self.devices[device].postponed = kept;
        gone.iter().any(|step| matches!(step, Postponed::Offer { .. }))
    }
}
