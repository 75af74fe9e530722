//! What always holds of processes and their budgets. Called by `invariant`; nothing here changes anything.

use std::fmt::Debug;

use super::{Processes, SegmentGroup};
use crate::slab::{DeviceId, SpaceId};

impl Processes {
    /// Finds a fault, given what the lists of a process's devices require in a group.
    // spec: memory §5.5, §10.1 row 7
    pub(crate) fn check(&self, listed: impl Fn(SpaceId, SegmentGroup) -> u64) -> Result<(), String> {
        for (&space, process) in &self.processes {
            for group in SegmentGroup::ALL {
                let theirs = process.groups[group as usize];
                let known = self.claims[group as usize].contains(&space);
                if theirs.claims() != known {
                    return Err(format!("{space:?} is looked at for {group:?}: {known}"));
                }
                let (need, sum) = (theirs.need, listed(space, group));
                if sum != need {
                    return Err(format!("{space:?} needs {need} bytes {group:?}, its lists {sum}"));
                }
            }
        }
        for group in SegmentGroup::ALL {
            let reserved: u64 = self.processes.values().map(|process| process.groups[group as usize].reservation).sum();
            let whole = self.group_bytes(group);
            if reserved > whole {
                return Err(format!("{reserved} of {whole} bytes {group:?} are reserved"));
            }
            let needed: u64 = self.processes.values().map(|process| process.groups[group as usize].need).sum();
            if needed != self.needs[group as usize] {
                return Err(format!(
                    "all need {needed} bytes {group:?}, and {} are counted",
                    self.needs[group as usize]
                ));
            }
            if let Some(space) = self.claims[group as usize].iter().find(|space| !self.knows(**space)) {
                return Err(format!("{space:?} claims of {group:?}, and is no process"));
            }
        }
        let groups = self.processes.values().flat_map(|process| process.groups);
        let capped = groups.filter(|group| group.cap.is_some()).count();
        if capped != self.caps {
            return Err(format!("{capped} budgets are capped, and {} are counted", self.caps));
        }
        Ok(())
    }

    /// The bytes that all processes have reserved: those without a claim have reserved nothing.
    pub(super) fn reserved(&self, group: SegmentGroup) -> u64 {
        let claims = self.claims[group as usize].iter();
        claims.map(|space| self.processes[space].groups[group as usize].reservation).sum()
    }

    /// The terms of each process, which a refused call must leave as they were.
    pub(crate) fn state(&self) -> impl Iterator<Item = (SpaceId, impl Debug + use<>)> + '_ {
        self.processes.iter().map(|(&space, process)| {
            let groups = process.groups.map(|group| (group.cap, group.reservation, group.need));
            let devices: Vec<DeviceId> = process.devices.values().copied().collect();
            (space, (space, process.priority, devices, groups))
        })
    }

    /// Miscounts a need, for those who test the check.
    #[cfg(test)]
    pub(crate) fn miscount(&mut self, space: SpaceId) {
        self.process_mut(space).groups[0].need += 1;
        self.needs[0] += 1;
    }
}
