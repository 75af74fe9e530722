//! Renaming (memory §6.5): a lock with Discard of what the GPU still uses gives the CPU other memory under the same handle.
//! Instances are the memory manager's: each is an allocation of its own there, and the driver knows one allocation that it
//! finds in several places. Buffers that are queued keep the instance that they were given; what is rendered from then on
//! names the new one.
//!
//! ```text
//! current idle ─────────────────────────────▶ it is used again
//! an instance of the list idle ─────────────▶ it becomes current
//! fewer than MaximumRenamingListLength ─────▶ a new one becomes current; no room: refused, or with NoExistingReference
//! else ─────────────────────────────────────▶ the one given up longest ago is waited for
//! ```

use events::Event;
use gpu_fence::FenceId;
use kmt_calls::Refusal;
use vidmm::AllocationId;
use wddm_types::FencePoint;

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::refusal::no_memory;

/// What a rename came to.
pub(super) enum Renamed {
    /// The GPU is past the current instance.
    Ready,
    /// It has to get past these first; then it is to be tried again.
    Wait(Vec<FencePoint<FenceId>>),
}

impl Adapter {
    /// Whether Discard means something for an allocation. It is ignored for what is pinned, a primary, or shared.
    // spec: memory §6.5
    pub(super) fn is_renamed(&self, number: u64) -> bool {
        let id = self.allocations[number].vidmm;
        // Whoever has it locked goes on seeing the instance that he has.
        self.vidmm.may_be_renamed(id) && self.bodies[&id].bindings == 1 && !self.vidmm.is_locked(id)
    }

    /// Puts an instance that the GPU is past behind an allocation. `no_reference`: the caller would rather wait than fail.
    ///
    /// # Errors
    /// There is no room for another instance; nothing has changed.
    // spec: memory §6.5
    pub(super) fn rename(&mut self, cx: &mut Cx<'_>, number: u64, no_reference: bool) -> Result<Renamed, Refusal> {
        let allocation = &self.allocations[number];
        let (current, device) = (allocation.vidmm, allocation.device);
        if self.gpu_uses(current, false).is_empty() {
            return Ok(Renamed::Ready);
        }
        let idle = |id: &&AllocationId| self.gpu_uses(**id, false).is_empty();
        let (oldest, found) = (allocation.instances.front().copied(), allocation.instances.iter().find(idle).copied());
        let instances = allocation.instances.len() + 1;
        let info = *self.vidmm.info(current);
        let most = match info.renaming_list_length_max as usize {
            0 => usize::MAX,
            most => most,
        };
        let fresh = found.is_none();
        let next = match found {
            Some(id) => Ok(id),
            None if instances >= most => Err(None),
            None => {
                self.vidmm.create_allocation(self.devices[device].vidmm, info).map_err(|error| Some(error.to_string()))
            }
        };
        let switched = next.and_then(|id| {
            if fresh {
                self.clear_pages(self.vidmm.pages_to_clear(id));
            }
            self.switch_instance(cx, number, id, fresh).map_err(Some)
        });
        match switched {
            Ok(()) => Ok(Renamed::Ready),
            Err(Some(reason)) if !no_reference => Err(no_memory(format!("no room for another instance: {reason}"))),
            Err(_) => Ok(Renamed::Wait(self.gpu_uses(oldest.unwrap_or(current), false))),
        }
    }

    /// Makes an instance the current one: it takes the old one's place on its device's list.
    fn switch_instance(&mut self, cx: &mut Cx<'_>, number: u64, next: AllocationId, fresh: bool) -> Result<(), String> {
        let (old, device) = (self.allocations[number].vidmm, self.allocations[number].device);
        let (owner, process) = (self.devices[device].vidmm, self.devices[device].process);
        // CAST: a list names an allocation far less often than 2^32 times.
        let count = self.vidmm.count(owner, old) as usize;
        // Its moves are told under the allocation's number.
        self.allocation_numbers.insert(next, number);
        if count > 0 {
            let work = match self.vidmm.make_resident(owner, &vec![next; count]) {
                Ok(work) => work,
                Err(error) => {
                    if fresh {
                        let work = self.vidmm.destroy_allocation(next, &[]);
                        self.queue_work(cx, process, None, work, Vec::new());
                        self.allocation_numbers.remove(&next);
                    }
                    return Err(error.to_string());
                }
            };
            self.queue_any(cx, process, work);
            let uses = self.gpu_uses(old, false);
            let how = vidmm::EvictFlags { only_if_necessary: true, not_written_to: false };
            let work = self.vidmm.evict(owner, &vec![old; count], how, &uses).expect("just counted");
            self.queue_any(cx, process, work);
        }
        let body = self.bodies.remove(&old).expect("a binding has its body");
        self.bodies.insert(next, body);
        if let Some(resource) = self.allocations[number].resource {
            let body = self.resources[resource].body;
            let members = &mut self.resource_bodies[body].members;
            members.iter_mut().filter(|member| **member == old).for_each(|member| *member = next);
        }
        let allocation = &mut self.allocations[number];
        allocation.vidmm = next;
        allocation.instances.retain(|instance| *instance != next);
        allocation.instances.push_back(old);
        // CAST: instances are counted in ones.
        let instances = allocation.instances.len() as u32 + 1;
        cx.emit(Event::AllocationRenamed { allocation: number, instances });
        Ok(())
    }
}
