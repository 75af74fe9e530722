//! Renaming (memory §6.5): a lock with Discard gives the CPU other memory, under another name. Instances are the memory manager's:
//! each is an allocation of its own there, and the driver knows one allocation that it finds in several places. Buffers that
//! are queued keep the instance that they name, and buffers that are not submitted may name it for as long as `allocations` says.
//!
//! Without NoExistingReference the caller may have recorded commands that name the current instance; so it is never written
//! again, however idle the GPU is.
//!
//! ```text
//! current idle, NoExistingReference ────────▶ it is used again
//! a retired instance idle ──────────────────▶ it becomes current; NoExistingReference: any that is idle
//! fewer than MaximumRenamingListLength ─────▶ a new one becomes current; no room: refused, or with NoExistingReference
//! else ─────────────────────────────────────▶ the one given up longest ago is waited for; none is retired: refused
//! ```

use events::Event;
use gpu_fence::FenceId;
use kmt_calls::Refusal;
use vidmm::{AllocationId, ReclaimResult};
use wddm_types::FencePoint;

use crate::adapter::Adapter;
use crate::allocations::{Allocation, InstanceName};
use crate::effect::Cx;
use crate::number::AllocationNumber;
use crate::refusal::no_memory;
use crate::store::ObjectNumber;

/// The result of a rename.
pub(super) enum Renamed {
    /// The GPU is past the current instance, and no later buffer will have it read the old content.
    Ready,
    /// It has to get past these first; then it is to be tried again.
    Wait(Vec<FencePoint<FenceId>>),
}

/// Why there is no other instance.
enum Shortage {
    /// As many as there may be.
    Limit,
    /// Too little memory.
    Room(String),
}

/// The instance that is to become the current one.
#[derive(Clone, Copy)]
struct Next {
    id: AllocationId,
    name: InstanceName,
    /// It was just made.
    fresh: bool,
}

impl Adapter {
    /// Whether Discard means something for an allocation. It is ignored for what is pinned, a primary, or shared.
    // spec: memory §6.5
    pub(super) fn is_renamed(&self, number: AllocationNumber) -> bool {
        let id = self.memory.allocations[number].vidmm;
        // A process that has it locked goes on seeing its instance.
        self.vidmm.may_be_renamed(id) && !self.memory.allocations.is_shared(number) && !self.vidmm.is_locked(id)
    }

    /// Puts an instance that the GPU is past behind an allocation. `no_reference`: nothing unsubmitted names any instance, and
    /// the caller would rather wait than fail.
    ///
    /// # Errors
    /// There is no room for another instance, or none that the caller cannot name; nothing has changed.
    // spec: memory §6.5
    pub(super) fn rename(
        &mut self,
        cx: &mut Cx<'_>,
        number: AllocationNumber,
        no_reference: bool,
    ) -> Result<Renamed, Refusal> {
        let current = self.memory.allocations[number].vidmm;
        if no_reference && self.gpu_uses(cx, current, false).is_empty() {
            self.retire_all(cx, number);
            return Ok(Renamed::Ready);
        }
        let next = self.next_instance(cx, number, no_reference);
        let switched = next.and_then(|next| self.switch_instance(cx, number, next).map_err(Shortage::Room));
        let shortage = match switched {
            Ok(()) => {
                if no_reference {
                    self.retire_all(cx, number);
                }
                return Ok(Renamed::Ready);
            }
            Err(shortage) => shortage,
        };
        let former = self.memory.allocations[number].renaming.former();
        let free = former.filter(|instance| instance.retired || no_reference).map(|instance| instance.vidmm);
        let busy = free.chain(no_reference.then_some(current)).map(|id| self.gpu_uses(cx, id, false));
        let first = busy.into_iter().find(|points| !points.is_empty());
        match (shortage, first) {
            (Shortage::Limit, Some(points)) => Ok(Renamed::Wait(points)),
            (Shortage::Room(_), Some(points)) if no_reference => Ok(Renamed::Wait(points)),
            (Shortage::Room(reason), _) => Err(no_memory(format!("no room for another instance: {reason}"))),
            (Shortage::Limit, None) => {
                Err(no_memory("what was not submitted may name every instance that there may be"))
            }
        }
    }

    /// An instance that no list can name and no work uses, or a new one.
    // spec: memory §6.5
    fn next_instance(&mut self, cx: &Cx<'_>, number: AllocationNumber, no_reference: bool) -> Result<Next, Shortage> {
        let allocation = &self.memory.allocations[number];
        let renaming = &allocation.renaming;
        let mut former = renaming.former().filter(|instance| instance.retired || no_reference);
        if let Some(idle) = former.find(|instance| self.gpu_uses(cx, instance.vidmm, false).is_empty()) {
            return Ok(Next { id: idle.vidmm, name: idle.name, fresh: false });
        }
        let (info, owner) = (*self.vidmm.info(allocation.vidmm), self.owners.vidmm_of(allocation.device));
        let most = match info.renaming_list_length_max as usize {
            0 => usize::MAX,
            most => most,
        };
        let name = renaming.spare().filter(|_| renaming.former().len() + 1 < most).ok_or(Shortage::Limit)?;
        let bytes = self.vidmm.allocation_bytes(allocation.vidmm);
        let creator = self.memory.allocations.body_of(allocation.vidmm).creator;
        let room = self.memory.committing.may_commit(bytes);
        room.map_err(|over| Shortage::Room(over.refusal.reason.into_owned()))?;
        let made = self.vidmm.create_allocation(owner, info);
        let id = made.map_err(|error| Shortage::Room(error.to_string()))?;
        self.memory.committing.charge(creator, bytes);
        self.provide_backing(cx, creator, id);
        Ok(Next { id, name, fresh: true })
    }

    /// Makes an instance the current one: it takes the old one's place on its device's list.
    fn switch_instance(&mut self, cx: &mut Cx<'_>, number: AllocationNumber, next: Next) -> Result<(), String> {
        let (old, device) = (self.memory.allocations[number].vidmm, self.memory.allocations[number].device);
        let (owner, process) = (self.owners.vidmm_of(device), self.owners.process_of(device));
        // CAST: a list names an allocation far less often than 2^32 times.
        let count = self.vidmm.count(owner, old) as usize;
        self.reclaim_instance(cx, number, next.id)?;
        // Its moves are told under the allocation's number.
        self.memory.allocations.tell_as(next.id, number);
        if count > 0 {
            let work = match self.vidmm.make_resident(owner, &vec![next.id; count]) {
                Ok(work) => work,
                Err(error) => {
                    self.release_instance(cx, number, next);
                    return Err(error.to_string());
                }
            };
            self.queue_any(cx, process, work);
            let uses = self.gpu_uses(cx, old, false);
            let how = vidmm::EvictFlags { only_if_necessary: true, not_written_to: false };
            let work = self.vidmm.evict(owner, &vec![old; count], how, &uses).expect("just counted");
            self.queue_any(cx, process, work);
        }
        let instances = self.memory.allocations.switch(number, (next.id, next.name), next.fresh);
        cx.emit(self.index, Event::AllocationRenamed { allocation: number.raw(), instances });
        Ok(())
    }

    /// Takes an instance back that was offered. Of its content nothing is wanted.
    fn reclaim_instance(&mut self, cx: &mut Cx<'_>, number: AllocationNumber, id: AllocationId) -> Result<(), String> {
        if self.vidmm.offered(id).is_none() {
            return Ok(());
        }
        let &Allocation { device, vidmm: current, .. } = &self.memory.allocations[number];
        let creator = self.memory.allocations.body_of(current).creator;
        let process = self.owners.process_of(device);
        let (owner, bare) = (self.owners.vidmm_of(device), self.without_backing(&[id]));
        let reclaimed = self.vidmm.reclaim_with(owner, &[id], false).map_err(|error| error.to_string())?;
        bare.into_iter().for_each(|id| _ = self.lend_backing(cx, creator, id));
        self.queue_any(cx, process, reclaimed.work);
        match reclaimed.results[..] {
            [ReclaimResult::NotCommitted] => return Err("no memory for its backing store".into()),
            [ReclaimResult::Discarded] => {
                self.revoke_returned(cx);
                self.zero(cx, self.vidmm.pages_to_clear(id));
            }
            _ => {}
        }
        Ok(())
    }

    /// An instance that has no room on the list is what it was before.
    fn release_instance(&mut self, cx: &mut Cx<'_>, number: AllocationNumber, next: Next) {
        let process = self.owners.process_of(self.memory.allocations[number].device);
        if next.fresh {
            let creator = self.owners.process_of(self.memory.allocations[number].device);
            self.memory.committing.release(creator, self.vidmm.allocation_bytes(next.id));
            let work = self.vidmm.destroy_allocation(next.id, &[]);
            self.queue_any(cx, process, work);
            self.memory.allocations.tell_no_more(next.id);
            self.memory.cpu_view.forget(next.id);
            return;
        }
        if self.memory.allocations[number].renaming.is_retired(next.id) {
            self.offer_instance(cx, number, next.id);
        }
    }
}
