//! Addresses of spaces and what they show; what the CPU sees.

use super::{BrokenInvariant, broken, ensure};
use crate::allocation::Placement;
use crate::space::Shown;
use crate::vidmm::VidMm;

impl<F: Copy + Eq + std::fmt::Debug> VidMm<F> {
    // spec: memory §4.8
    pub(super) fn check_addresses(&self) -> Result<(), BrokenInvariant> {
        self.spaces.check_addresses().map_err(broken("addresses"))?;
        for (id, space) in self.spaces.iter() {
            let known = self.processes.knows(id);
            ensure(known != space.is_paging(), "addresses", || format!("{id:?} is of no process"))?;
            for (at, mapping) in space.mappings() {
                let Shown::Allocation(shown, from) = mapping.shown else { continue };
                let holds = self.allocations.get(shown).is_some_and(|allocation| {
                    allocation.mappings.contains(&(id, at)) && from + mapping.pages <= allocation.pages
                });
                ensure(holds, "addresses", || format!("{id:?} shows {mapping:?} at page {at:#x}, unknown to it"))?;
            }
        }
        for (id, allocation) in self.allocations.iter() {
            for &(space, at) in &allocation.mappings {
                let mapping = self.spaces.get(space).and_then(|space| space.mapping_at(at));
                let shows = mapping.is_some_and(|m| matches!(m.shown, Shown::Allocation(shown, _) if shown == id));
                ensure(shows, "addresses", || format!("{id:?} is mapped at page {at:#x} of {space:?}: {mapping:?}"))?;
            }
        }
        Ok(())
    }

    // spec: memory §6.3, memory §6.6
    pub(super) fn check_locks(&self) -> Result<(), BrokenInvariant> {
        for (id, allocation) in self.allocations.iter() {
            if allocation.locks.count > 0 {
                let (shown, lies) = (&allocation.locks.runs, self.cpu_runs(id));
                ensure(*shown == lies, "locks", || format!("{id:?} is shown {shown:?} and lies {lies:?}"))?;
            }
        }
        let locks = |id| self.allocations.get(id).map(|known| known.locks.count);
        self.windows.check(locks).map_err(broken("locks"))?;
        // spec: memory §6.5
        self.ranges
            .check(|id| {
                let known = self.allocations.get(id)?;
                matches!(known.placement, Placement::Memory(..)).then_some(known.locks.count)
            })
            .map_err(broken("locks"))
    }
}
