//! Plans for a device that waits for its turn: whether its whole list fits if the device is alone. Nothing is placed, because the turn places it.

use std::collections::BTreeSet;

use super::{Claim, Limit, Plan, Planner};
use crate::slab::AllocationId;
use crate::vidmm::VidMm;
use crate::vidmm::placement::residency::MakeResidentError;

impl<F: Copy + Eq> VidMm<F> {
    /// The budget's answer, and whether the device's whole list with these would fit if it were alone; nothing is
    /// placed. For a suspended device: it gets its room with its next turn, so there has to be one.
    pub(crate) fn plan_alone(&self, claim: Claim, list: &[AllocationId]) -> Result<Plan, MakeResidentError> {
        self.plan_alone_beside(claim, self.list_of(claim.device), list)
    }

    /// [`plan_alone`](Self::plan_alone) for a device whose list names these others.
    pub(crate) fn plan_alone_beside(
        &self,
        claim: Claim,
        listed: Vec<AllocationId>,
        list: &[AllocationId],
    ) -> Result<Plan, MakeResidentError> {
        Planner::new(self, claim, list, false).afford_all()?;
        self.place_alone(claim, listed, list)
    }

    /// Whether content fits beside what a device's list names when its uses are over, and what the device withholds.
    pub(crate) fn plan_behind(&self, claim: Claim, list: &[AllocationId]) -> Result<(), MakeResidentError> {
        let device = claim.device;
        Planner { behind_evicts: true, ..Planner::new(self, claim, list, false) }.afford_all()?;
        let named = self.list_of(device).into_iter().chain(self.devices.withheld_by(device));
        let stays = named.filter(|id| self.count(device, *id) > 0).collect();
        self.place_alone(claim, stays, list).map(drop)
    }

    fn place_alone(
        &self,
        claim: Claim,
        listed: Vec<AllocationId>,
        list: &[AllocationId],
    ) -> Result<Plan, MakeResidentError> {
        let all: Vec<AllocationId> = listed
            .into_iter()
            .filter(|id| self.allocations[*id].offer().is_none())
            .chain(list.iter().copied())
            .collect();
        let request: BTreeSet<AllocationId> = list.iter().copied().collect();
        let claim = Claim { limit: Limit::None, ..claim };
        Planner { request, ..Planner::new(self, claim, &all, true) }.run()?;
        Ok(Plan::default())
    }
}
