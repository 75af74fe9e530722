//! The end of destroyed allocations whose last use is over: closed for their device all together, and ended in the memory manager, in the
//! driver and in the CPU's view when the last binding and the last name are gone (memory §2.7, §6.2). `allocations` says which those are.

use gpu_fence::FenceId;
use kmt_calls::Reply;
use wddm_types::ProcessId;

use crate::adapter::Adapter;
use crate::allocations::{Allocation, Body, DestructionNumber, Dying, Gone};
use crate::effect::Cx;
use crate::number::{DeviceNumber, ResourceBodyNumber};

impl Adapter {
    /// Ends the destroyed allocations whose last use is over.
    pub(in crate::adapter) fn bury_dead(&mut self, cx: &mut Cx<'_>) {
        if self.memory.allocations.none_wait() {
            return;
        }
        let over = self.memory.allocations.over(|point| self.sync.is_past(cx.memory, point));
        let watched = over.iter().any(|number| self.memory.allocations.is_watched(*number));
        self.bury_all(cx, over);
        if watched {
            // The memory is waited for, or its process has gone: no later turn is to be counted on.
            self.memory.ring.clear_behind();
        }
    }

    /// Ends the destroyed allocations of a device whose queues have stopped.
    pub(in crate::adapter) fn bury_dead_of(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
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
    pub(super) fn bury(&mut self, cx: &mut Cx<'_>, dying: Dying) {
        let opens: Vec<_> = dying.bindings.iter().map(|binding| binding.open).collect();
        if !opens.is_empty() {
            let kmd = self.owners.kmd_of(dying.device);
            self.driver.call(cx).close_allocation(kmd, &opens);
        }
        let (mut gone, mut sections) = (Vec::new(), Vec::new());
        let mut works = Vec::with_capacity(dying.bindings.len());
        for binding in &dying.bindings {
            debug_assert_eq!(binding.device, dying.device, "a group is of one device");
            if self.memory.allocations.bury(binding.vidmm) {
                let (body, work) = self.end_body(cx, binding.vidmm);
                works.push((work, Some(binding.vidmm)));
                for instance in binding.renaming.former() {
                    self.memory.committing.release(body.creator, self.vidmm.allocation_bytes(instance.vidmm));
                    self.memory.cpu_view.forget(instance.vidmm);
                    works.push((self.vidmm.destroy_allocation(instance.vidmm, &[]), Some(instance.vidmm)));
                }
                gone.push(binding.kmd);
                sections.extend(body.rare.section);
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
        if body.rare.section.is_none() {
            self.memory.committing.release(body.creator, self.vidmm.allocation_bytes(id));
            self.discard_lines(cx, id);
        }
        self.memory.cpu_view.forget(id);
        (body, self.vidmm.destroy_allocation(id, &[]))
    }

    /// The last name of a resource has gone: its members that no device has end, and the resource with them if none has that.
    pub(in crate::adapter) fn bury_unnamed(
        &mut self,
        cx: &mut Cx<'_>,
        resource: ResourceBodyNumber,
        members: &[vidmm::AllocationId],
    ) {
        let (mut gone, mut works, mut sections) = (Vec::new(), Vec::new(), Vec::new());
        for &id in members {
            match self.memory.allocations.is_unbound(id) {
                Some(true) => {
                    gone.push(self.vidmm.kmd_handle(id));
                    let (body, work) = self.end_body(cx, id);
                    works.push((work, Some(id)));
                    sections.extend(body.rare.section);
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
        mut works: Vec<(Option<vidmm::Work<FenceId>>, Option<vidmm::AllocationId>)>,
        mut gone: Option<Gone>,
    ) {
        // A driver that panics at one of them takes the others along: their loss is no second bug.
        works.iter_mut().filter_map(|(work, _)| work.as_mut()).for_each(vidmm::Work::accept);
        if self.may_build_buffers() && works.iter().all(|(work, _)| work.is_none()) && self.memory.ring.has_nothing() {
            return self.end_at_once(cx, process, works.into_iter().filter_map(|(_, dead)| dead), gone);
        }
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

    /// Ends what needs no operation, while no operation names it: the driver destroys it now, and no engine is woken for that. Of what an empty
    /// work does, this is left ([`Adapter::queue_work`]).
    fn end_at_once(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        dead: impl Iterator<Item = vidmm::AllocationId>,
        gone: Option<Gone>,
    ) {
        self.revoke_returned(cx);
        self.emit_untold(cx, process, self.memory.ring.next_serial());
        dead.for_each(|dead| self.memory.allocations.tell_no_more(dead));
        if let Some(Gone { allocations, resource, with_resource }) = gone {
            self.destroy_in_driver(cx, &allocations, resource, with_resource);
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
