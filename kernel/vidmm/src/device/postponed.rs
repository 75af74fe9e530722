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
    /// A step waits for the turn of its device, or for what the device withholds. A destruction stays the last step of its allocation.
    pub fn postpone(&mut self, device: DeviceId, step: Postponed<F>) {
        assert!(
            self[device].is_suspended() || self.withholds(device),
            "what a running device asks for is done at once"
        );
        let steps = &mut self.devices[device].postponed;
        let id = step.allocation();
        let ends = steps.iter().position(|known| matches!(known, Postponed::Doom { id: of, .. } if *of == id));
        steps.insert(ends.unwrap_or(steps.len()), step);
    }

    /// How many steps wait.
    pub fn postponed(&self, device: DeviceId) -> usize {
        self[device].postponed.len()
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
        let (over, later) = std::mem::take(&mut self.devices[device].postponed).into_iter().partition(is_over);
        self.devices[device].postponed = later;
        over
    }

    /// How often a list names an allocation that no evict which waits takes off.
    pub fn stays_listed(&self, device: DeviceId, allocation: AllocationId) -> u64 {
        self[device].times_listed(allocation).saturating_sub(self.evicts_waiting(device, allocation))
    }

    /// Whether a list that names an allocation once more names it more often than evicts wait.
    pub fn stays_if_listed(&self, device: DeviceId, allocation: AllocationId) -> bool {
        self[device].times_listed(allocation) >= self.evicts_waiting(device, allocation)
    }

    /// What a device has evicted and its list still names, because queued work uses it.
    pub fn evicted_behind_work(&self, device: DeviceId) -> impl Iterator<Item = AllocationId> + '_ {
        let evicts = self[device].postponed.iter().filter(|step| matches!(step, Postponed::Evict { .. }));
        evicts.map(Postponed::allocation)
    }

    fn evicts_waiting(&self, device: DeviceId, allocation: AllocationId) -> u64 {
        let evicted = |step: &&Postponed<F>| matches!(step, Postponed::Evict { id, .. } if *id == allocation);
        self[device].postponed.iter().filter(evicted).count() as u64
    }

    /// How often a device's process has made an allocation resident, without the evicts that wait.
    pub fn count(&self, device: DeviceId, allocation: AllocationId) -> u64 {
        let postponed = self.evicts_waiting(device, allocation);
        let listed = self[device].times_listed(allocation) + self.times_withheld(device, allocation);
        debug_assert!(
            postponed <= listed,
            "{postponed} evicts of {allocation:?} wait, and it is listed {listed} times"
        );
        listed - postponed
    }

    /// Nothing that waits concerns an allocation any more: it ends.
    pub fn forget_postponed(&mut self, id: AllocationId) {
        for device in self.line.values().chain(&self.withholding) {
            self.devices[*device].postponed.retain(|step| step.allocation() != id);
        }
    }

    /// An offer that waits is taken back.
    pub fn forget_postponed_offer(&mut self, id: AllocationId) {
        for device in self.line.values().chain(&self.withholding) {
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
