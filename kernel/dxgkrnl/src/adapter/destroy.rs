//! Destruction of allocations and resources (memory §6.2): handles die at once, the allocations when the commands queued
//! before are done with them. An allocation that several devices have open lives until its last binding is buried: each
//! device waits for its own commands, so a device that says AssumeNotInUse speaks for itself only.
//!
//! Which bindings there are and which wait is `allocations`'s. The adapter joins with them the queued work of devices and fences, locks, updates
//! of mappings and displays; `burial` ends what nothing uses any more.

mod burial;

use events::Event;
use gpu_fence::{FenceId, WaitMode};
use kmt_calls::{DestroyFlags, Refusal, Reply};
use wddm_types::{FencePoint, ProcessId};

use crate::adapter::Adapter;
use crate::allocations::{Allocation, Dying};
use crate::due::Waiter;
use crate::effect::{Answer, Cx, Token};
use crate::number::{AllocationNumber, DeviceNumber, ResourceNumber};
use crate::refusal::invalid;
use crate::store::ObjectNumber;

impl Adapter {
    /// `D3DKMTDestroyAllocation2`: all of it was checked.
    // spec: memory §6.2
    pub fn destroy_bindings(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        device: DeviceNumber,
        numbers: &[AllocationNumber],
        resource: Option<ResourceNumber>,
        flags: DestroyFlags,
    ) -> Result<Answer, Refusal> {
        let known = DestroyFlags::ASSUME_NOT_IN_USE | DestroyFlags::SYNCHRONOUS_DESTROY;
        if !known.contains(flags) {
            return Err(invalid(format!("destroy flags {:#x}: reserved, or not for user mode", flags.bits())));
        }
        let ids: Vec<_> = numbers.iter().map(|number| self.memory.allocations[*number].vidmm).collect();
        self.check_rings(device, &ids)?;
        let after = match flags.contains(DestroyFlags::ASSUME_NOT_IN_USE) {
            // Buffers with lists say what they use, whatever the caller says: they hold physical addresses.
            true => self.listed_uses(cx, device, numbers),
            false => self.queued_work(cx, device)?,
        };
        if flags.contains(DestroyFlags::ASSUME_NOT_IN_USE) {
            self.assume_not_in_use(numbers, after.is_empty());
        }
        // spec: memory §8.6: of a stopped adapter destruction is left, and nothing that could be waited for
        let waits = flags.contains(DestroyFlags::SYNCHRONOUS_DESTROY) && !self.life.has_stopped();
        let synchronous = waits.then_some(token);
        self.destroy_group(cx, device, numbers, resource, &after, synchronous);
        Ok(match synchronous {
            // spec: memory §6.2: the call returns when the memory is reclaimed
            Some(token) if self.memory.allocations.last_waits_for(token) => Answer::Later(token),
            Some(token) => self.after_ring(cx, token, Reply::Done),
            None => Answer::Done(Ok(Reply::Done)),
        })
    }

    /// Destroys an allocation: everything in `after` may touch it; it goes when that is done.
    pub fn destroy_allocation(&mut self, cx: &mut Cx<'_>, number: AllocationNumber, after: &[FencePoint<FenceId>]) {
        let device = self.memory.allocations[number].device;
        self.destroy_group(cx, device, &[number], None, after, None);
    }

    /// Destroys a device's resource with all its allocations.
    pub fn destroy_resource(&mut self, cx: &mut Cx<'_>, number: ResourceNumber, after: &[FencePoint<FenceId>]) {
        let device = self.memory.allocations.resource(number).device;
        let numbers = self.memory.allocations.resource(number).allocations.clone();
        self.destroy_group(cx, device, &numbers, Some(number), after, None);
    }

    fn destroy_group(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        numbers: &[AllocationNumber],
        resource: Option<ResourceNumber>,
        after: &[FencePoint<FenceId>],
        answer: Option<Token>,
    ) {
        let process = self.owners.process_of(device);
        let mut bindings = Vec::with_capacity(numbers.len());
        for &number in numbers {
            let allocation = self.memory.allocations.destroy(number);
            debug_assert_eq!(allocation.device, device, "a device destroys its own bindings");
            self.end_lock(cx, &allocation, process);
            self.updates_lose_binding(&allocation, process);
            cx.emit(self.index, Event::AllocationDestroyed { allocation: number.raw() });
            bindings.push(allocation);
        }
        let resource_body = resource.map(|resource| self.memory.allocations.destroy_resource(resource));
        let live = self.sync.live_points(after.to_vec());
        let after = self.unreached(cx, live);
        let ids: Vec<_> = bindings.iter().map(|binding| binding.vidmm).collect();
        self.memory.allocations.lose(&bindings, &after);
        for id in &ids {
            if !self.memory.allocations.body_of(*id).is_alive() {
                self.displays_lose(cx, *id);
            }
        }
        let dying = Dying { device, process, bindings, resource_body, after, answer };
        if dying.after.is_empty() {
            self.bury(cx, dying);
        } else {
            // Otherwise the dead are buried with the next turn that comes along.
            if dying.answer.is_some() && self.begin_wait(cx, &dying.after, WaitMode::All, Waiter::Burial) {
                self.due.wait_ended(Waiter::Burial);
            }
            self.memory.allocations.wait(dying);
        }
        // Of an allocation that every binding has destroyed and some work still uses, the pages are the first to go.
        ids.into_iter().for_each(|id| self.doom_unreachable(id));
    }

    /// An allocation without a living binding or a name stays only for the work that is queued.
    fn doom_unreachable(&mut self, id: vidmm::AllocationId) {
        if let Some(pending) = self.memory.allocations.take_last_uses(id) {
            let taken = self.memory.ring.used_content().filter(|(_, used)| used.allocation == id);
            let taken: Vec<FencePoint<FenceId>> = taken.flat_map(|(_, used)| used.until.iter().copied()).collect();
            self.vidmm.doom_allocation(id, &pending, &taken);
        }
    }

    /// The process's last binding takes the address of a locked allocation with it at return, and ends its locks: another process that
    /// has it finds it unlocked.
    // spec: memory §10.1 row 27
    fn end_lock(&mut self, cx: &mut Cx<'_>, gone: &Allocation, process: ProcessId) {
        // Only the creator's process has locks, and only a shared one has other bindings.
        let body = self.memory.allocations.body_of(gone.vidmm);
        let shared =
            self.memory.allocations.living_of(gone.vidmm).any(|other| self.owners.process_of(other.device) == process);
        if body.creator != process || shared || !self.vidmm.is_locked(gone.vidmm) {
            return;
        }
        self.vidmm.unlock_all(gone.vidmm);
        self.memory.cpu_view.forget_copy(gone.vidmm);
        self.unmap_for_cpu(cx, process, gone.vidmm);
        self.memory.cpu_view.lines_stay(gone.vidmm);
    }

    /// The points after which no buffer of a device uses these that names one of them in its list, in whatever instance.
    // spec: memory §6.2
    fn listed_uses(&self, cx: &Cx<'_>, device: DeviceNumber, numbers: &[AllocationNumber]) -> Vec<FencePoint<FenceId>> {
        let instances = numbers.iter().flat_map(|number| self.memory.allocations[*number].instances());
        instances.flat_map(|instance| self.gpu_uses_of(cx, device, instance)).collect()
    }

    /// Nothing that this device has queued uses them, but for buffers with lists (`unlisted`: there are none). Others speak for
    /// themselves, so what others have open is not asked; and what a name keeps stays where those buffers find it.
    fn assume_not_in_use(&mut self, numbers: &[AllocationNumber], unlisted: bool) {
        for number in numbers {
            let id = self.memory.allocations[*number].vidmm;
            let alone = self.memory.allocations.body_of(id).has_one_binding();
            if alone && (unlisted || !self.memory.allocations.is_kept(id)) {
                self.vidmm.assume_not_in_use(id);
            }
        }
    }
}
