//! Destruction of allocations and resources (memory §6.2): handles die at once, the allocations when the commands queued
//! before are done with them. An allocation that several devices have open lives until its last binding is buried: each
//! device waits for its own commands, so a device that says AssumeNotInUse speaks for itself only.

use events::Event;
use gpu_fence::{FenceId, WaitMode};
use kmt_calls::{DestroyFlags, Refusal, Reply};
use wddm_types::{FencePoint, ProcessId};

use crate::adapter::Adapter;
use crate::allocations::{
    Allocation, AllocationNumber, Body, DestructionNumber, Dying, Gone, ResourceBodyNumber, ResourceNumber,
};
use crate::due::Waiter;
use crate::effect::{Answer, Cx, Token};
use crate::number::DeviceNumber;
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
            self.end_lock(cx, &allocation, process);
            self.updates_lose_binding(&allocation, process);
            self.devices[device].allocations.remove(&number);
            cx.emit(self.index, Event::AllocationDestroyed { allocation: number.raw() });
            bindings.push(allocation);
        }
        let resource_body = resource.map(|resource| {
            self.devices[device].resources.remove(&resource);
            self.memory.allocations.destroy_resource(resource)
        });
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
            self.vidmm.doom_allocation(id, &pending);
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
        self.lines_unmapped(gone.vidmm);
    }

    /// The points after which no buffer of a device uses these that names one of them in its list, in whatever instance.
    // spec: memory §6.2
    fn listed_uses(&self, cx: &Cx<'_>, device: DeviceNumber, numbers: &[AllocationNumber]) -> Vec<FencePoint<FenceId>> {
        let known = numbers.iter().map(|number| &self.memory.allocations[*number]);
        let instances = known.flat_map(|known| {
            let former = known.renaming.former().map(|instance| instance.vidmm);
            former.chain([known.vidmm])
        });
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

    /// Ends the destroyed allocations whose last use is over.
    pub fn bury_dead(&mut self, cx: &mut Cx<'_>) {
        if self.memory.allocations.none_wait() {
            return;
        }
        // The question whether a point is past goes to fences alone.
        let mut allocations = std::mem::take(&mut self.memory.allocations);
        let over = allocations.over(|point| self.sync.is_past(cx.memory, point));
        self.memory.allocations = allocations;
        self.bury_all(cx, over);
    }

    /// Ends the destroyed allocations of a device whose queues have stopped.
    pub fn bury_dead_of(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        let over = self.memory.allocations.waiting_of(device);
        self.bury_all(cx, over);
    }

    fn bury_all(&mut self, cx: &mut Cx<'_>, over: Vec<DestructionNumber>) {
        for number in over {
            let dying = self.memory.allocations.take(number);
            let answer = dying.answer;
            self.bury(cx, dying);
            if let Some(token) = answer {
                self.answer_after_ring(token, Reply::Done);
            }
        }
    }

    // spec: memory §2.7: closed for its device all together, destroyed when the last binding is gone
    fn bury(&mut self, cx: &mut Cx<'_>, dying: Dying) {
        let opens: Vec<_> = dying.bindings.iter().map(|binding| binding.open).collect();
        if !opens.is_empty() {
            let kmd = self.owners.kmd_of(dying.device);
            self.driver.call(cx).close_allocation(kmd, &opens);
        }
        let (mut gone, mut sections) = (Vec::new(), Vec::new());
        let mut works = Vec::with_capacity(dying.bindings.len());
        for binding in &dying.bindings {
            if self.memory.allocations.bury(binding.vidmm) {
                let (body, work) = self.end_body(cx, binding.vidmm);
                works.push((work, Some(binding.vidmm)));
                for instance in binding.renaming.former() {
                    self.memory.committing.release(body.creator, self.vidmm.allocation_bytes(instance.vidmm));
                    self.memory.cpu_view.forget(instance.vidmm);
                    works.push((self.vidmm.destroy_allocation(instance.vidmm, &[]), Some(instance.vidmm)));
                }
                gone.push(binding.kmd);
                sections.extend(body.section);
            } else {
                works.push((self.leave(binding, dying.process), None));
            }
        }
        let ended = self.memory.allocations.leave_resource(dying.resource_body, gone);
        if let Some(global) = ended.global {
            self.due.global_gone(global);
        }
        self.queue_burial(cx, dying.process, works, ended.gone);
        sections.into_iter().for_each(|section| self.defer_section(section));
    }

    /// An allocation that nothing names, or uses, any more ends.
    fn end_body(&mut self, cx: &Cx<'_>, id: vidmm::AllocationId) -> (Body, Option<vidmm::Work<FenceId>>) {
        let body = self.memory.allocations.end(id);
        if body.section.is_none() {
            self.memory.committing.release(body.creator, self.vidmm.allocation_bytes(id));
            self.discard_lines(cx, id);
        }
        self.memory.cpu_view.forget(id);
        (body, self.vidmm.destroy_allocation(id, &[]))
    }

    /// The last name of a resource has gone: its members that no device has end, and the resource with them if none has that.
    pub fn bury_unnamed(&mut self, cx: &mut Cx<'_>, resource: ResourceBodyNumber, members: &[vidmm::AllocationId]) {
        let (mut gone, mut works, mut sections) = (Vec::new(), Vec::new(), Vec::new());
        for &id in members {
            match self.memory.allocations.is_unbound(id) {
                Some(true) => {
                    gone.push(self.vidmm.kmd_handle(id));
                    let (body, work) = self.end_body(cx, id);
                    works.push((work, Some(id)));
                    sections.extend(body.section);
                }
                Some(false) => self.doom_unreachable(id),
                None => {}
            }
        }
        let ended = self.memory.allocations.end_resource(resource, gone);
        if let Some(global) = ended.global {
            self.due.global_gone(global);
        }
        self.queue_burial(cx, ProcessId::SYSTEM, works, ended.gone);
        sections.into_iter().for_each(|section| self.defer_section(section));
    }

    /// Queues the works of a burial. The driver's own destroy stands behind every operation that may still name one of them.
    fn queue_burial(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        works: Vec<(Option<vidmm::Work<FenceId>>, Option<vidmm::AllocationId>)>,
        mut gone: Option<Gone>,
    ) {
        let last = works.len();
        for (nth, (work, dead)) in works.into_iter().enumerate() {
            let destroys = if nth + 1 == last { gone.take() } else { None };
            let destroys = destroys.into_iter().collect();
            self.queue_work(cx, process, None, work, destroys);
            // Its moves were told under its number.
            if let Some(dead) = dead {
                self.memory.allocations.tell_no_more(dead);
            }
        }
        if gone.is_some() {
            self.queue_work(cx, process, None, None, gone.into_iter().collect());
        }
    }

    /// One binding of several goes: the device's counts go, and with the last binding of its process the addresses.
    // spec: memory §6.2, memory §10.1
    fn leave(&mut self, binding: &Allocation, process: ProcessId) -> Option<vidmm::Work<FenceId>> {
        let mut others = self.memory.allocations.others(binding).peekable();
        // None has it, if only a name keeps it.
        let heir = others.peek().copied();
        let same_process = others.any(|device| self.owners.process_of(device) == process);
        drop(others);
        let (device, heir) = (self.owners.vidmm_of(binding.device), heir.map(|heir| self.owners.vidmm_of(heir)));
        self.vidmm.leave_allocation(binding.vidmm, device, heir, !same_process)
    }
}
