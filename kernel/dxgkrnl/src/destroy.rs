//! Destruction of allocations and resources (memory §6.2): handles die at once, the allocations when the commands queued
//! before are done with them. An allocation that several devices have open lives until its last binding is buried: each
//! device waits for its own commands, so a device that says AssumeNotInUse speaks for itself only.

use events::Event;
use gpu_fence::{FenceId, WaitMode};
use kmt_calls::{DestroyFlags, Refusal, Reply};
use wddm_types::{FencePoint, ProcessId};

use crate::adapter::Adapter;
use crate::due::Waiter;
use crate::dying::Dying;
use crate::machine::{Answer, Cx, Token};
use crate::object::{Allocation, AllocationNumber, Body, DeviceNumber, Gone, ResourceNumber};
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
        let ids: Vec<_> = numbers.iter().map(|number| self.allocations[*number].vidmm).collect();
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
            Some(token) if self.dying.iter().next_back().is_some_and(|dying| dying.answer == Some(token)) => {
                Answer::Later(token)
            }
            Some(token) => self.after_ring(cx, token, Reply::Done),
            None => Answer::Done(Ok(Reply::Done)),
        })
    }

    /// Destroys an allocation: everything in `after` may touch it; it goes when that is done.
    pub fn destroy_allocation(&mut self, cx: &mut Cx<'_>, number: AllocationNumber, after: &[FencePoint<FenceId>]) {
        let device = self.allocations[number].device;
        self.destroy_group(cx, device, &[number], None, after, None);
    }

    /// Destroys a device's resource with all its allocations.
    pub fn destroy_resource(&mut self, cx: &mut Cx<'_>, number: ResourceNumber, after: &[FencePoint<FenceId>]) {
        let device = self.resources[number].device;
        let numbers = self.resources[number].allocations.clone();
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
        let process = self.devices[device].process;
        let mut bindings = Vec::with_capacity(numbers.len());
        for &number in numbers {
            let allocation = self.allocations.remove(number).expect("an allocation is destroyed once");
            self.living.remove(&(allocation.vidmm, number));
            self.end_lock(cx, &allocation, process);
            self.updates_lose_binding(&allocation, process);
            self.devices[device].allocations.remove(&number);
            if let Some(resource) = allocation.resource {
                self.resources[resource].allocations.retain(|member| *member != number);
            }
            cx.emit(self.index, Event::AllocationDestroyed { allocation: number.raw() });
            bindings.push(allocation);
        }
        let mut resource_body = None;
        if let Some(resource) = resource {
            let gone = self.resources.remove(resource).expect("a resource is destroyed once");
            self.devices[device].resources.remove(&resource);
            self.resource_bodies[gone.body].living -= 1;
            resource_body = Some(gone.body);
        }
        let live = self.live_points(after.to_vec());
        let after = self.unreached(cx, live);
        let ids: Vec<_> = bindings.iter().map(|binding| binding.vidmm).collect();
        for id in &ids {
            let body = self.bodies.get_mut(id).expect("a binding has its body");
            body.living -= 1;
            body.pending.extend(after.iter().copied());
        }
        for id in &ids {
            if self.bodies[id].living == 0 {
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
            self.dying.add(dying);
        }
        // Of an allocation that every binding has destroyed and some work still uses, the pages are the first to go.
        ids.into_iter().for_each(|id| self.doom_unreachable(id));
    }

    /// An allocation without a living binding or a name stays only for the work that is queued.
    fn doom_unreachable(&mut self, id: vidmm::AllocationId) {
        if self.is_kept(id) {
            return;
        }
        if let Some(body) = self.bodies.get_mut(&id).filter(|body| body.living == 0) {
            let pending = std::mem::take(&mut body.pending);
            self.vidmm.doom_allocation(id, &pending);
        }
    }

    /// Whether an NT handle names the resource of an allocation that is there.
    // spec: sync §2.2
    pub fn is_kept(&self, id: vidmm::AllocationId) -> bool {
        let resource = self.bodies.get(&id).and_then(|body| self.resource_bodies.get(body.resource?));
        resource.is_some_and(|resource| resource.names > 0)
    }

    /// The process's last binding takes the address of a locked allocation with it at return, and ends its locks: another process that
    /// has it finds it unlocked.
    // spec: memory §10.1 row 27
    fn end_lock(&mut self, cx: &mut Cx<'_>, gone: &Allocation, process: ProcessId) {
        // Only the creator's process has locks, and only a shared one has other bindings.
        let body = &self.bodies[&gone.vidmm];
        let shared = self.living_of(gone.vidmm).any(|other| self.devices[other.device].process == process);
        if body.creator != process || shared || !self.vidmm.is_locked(gone.vidmm) {
            return;
        }
        self.vidmm.unlock_all(gone.vidmm);
        self.forget_copy(gone.vidmm);
        self.unmap_for_cpu(cx, process, gone.vidmm);
        self.lines_unmapped(gone.vidmm);
    }

    /// The points after which no buffer of a device uses these that names one of them in its list, in whatever instance.
    // spec: memory §6.2
    fn listed_uses(&self, cx: &Cx<'_>, device: DeviceNumber, numbers: &[AllocationNumber]) -> Vec<FencePoint<FenceId>> {
        let known = numbers.iter().map(|number| &self.allocations[*number]);
        let instances = known.flat_map(|known| {
            let former = known.renaming.former.iter().map(|instance| instance.vidmm);
            former.chain([known.vidmm])
        });
        instances.flat_map(|instance| self.gpu_uses_of(cx, device, instance)).collect()
    }

    /// Nothing that this device has queued uses them, but for buffers with lists (`unlisted`: there are none). Others speak for
    /// themselves, so what others have open is not asked; and what a name keeps stays where those buffers find it.
    fn assume_not_in_use(&mut self, numbers: &[AllocationNumber], unlisted: bool) {
        for number in numbers {
            let id = self.allocations[*number].vidmm;
            if self.bodies[&id].bindings == 1 && (unlisted || !self.is_kept(id)) {
                self.vidmm.assume_not_in_use(id);
            }
        }
    }

    /// The allocations of a body that are not destroyed.
    pub fn living_of(&self, id: vidmm::AllocationId) -> impl Iterator<Item = &Allocation> {
        self.living
            .range((id, AllocationNumber::from_raw(0))..=(id, AllocationNumber::from_raw(u64::MAX)))
            .map(|(_, number)| &self.allocations[*number])
    }

    /// Ends the destroyed allocations whose last use is over.
    pub fn bury_dead(&mut self, cx: &mut Cx<'_>) {
        if self.dying.is_empty() {
            return;
        }
        let mut dying = std::mem::take(&mut self.dying);
        let over = dying.over(|point| self.is_past(cx, point));
        self.dying = dying;
        self.bury_all(cx, over);
    }

    /// Ends the destroyed allocations of a device whose queues have stopped.
    pub fn bury_dead_of(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        let over = self.dying.of_device(device);
        self.bury_all(cx, over);
    }

    fn bury_all(&mut self, cx: &mut Cx<'_>, over: Vec<u64>) {
        for number in over {
            let dying = self.dying.take(number);
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
            let kmd = self.devices[dying.device].kmd;
            self.driver.call(cx).close_allocation(kmd, &opens);
        }
        let (mut gone, mut sections) = (Vec::new(), Vec::new());
        let mut works = Vec::with_capacity(dying.bindings.len());
        for binding in &dying.bindings {
            let kept = self.is_kept(binding.vidmm);
            let body = self.bodies.get_mut(&binding.vidmm).expect("a binding has its body");
            body.bindings -= 1;
            if body.bindings == 0 && !kept {
                let (body, work) = self.end_body(cx, binding.vidmm);
                works.push((work, Some(binding.vidmm)));
                for instance in &binding.renaming.former {
                    self.commitments.release(body.creator, self.vidmm.allocation_bytes(instance.vidmm));
                    self.unexported_pages.remove(&instance.vidmm);
                    works.push((self.vidmm.destroy_allocation(instance.vidmm, &[]), Some(instance.vidmm)));
                }
                gone.push(binding.kmd);
                sections.extend(body.section);
            } else {
                works.push((self.leave(binding, dying.process), None));
            }
        }
        let gone = self.leave_resource(dying.resource_body, gone);
        self.queue_burial(cx, dying.process, works, gone);
        sections.into_iter().for_each(|section| self.defer_section(section));
    }

    /// An allocation that nothing names, or uses, any more ends.
    fn end_body(&mut self, cx: &Cx<'_>, id: vidmm::AllocationId) -> (Body, Option<vidmm::Work<FenceId>>) {
        let body = self.bodies.remove(&id).expect("an allocation ends once");
        if body.section.is_none() {
            self.commitments.release(body.creator, self.vidmm.allocation_bytes(id));
            self.discard_lines(cx, id);
        } else {
            self.lines.forget(&id);
        }
        self.unexported_pages.remove(&id);
        (body, self.vidmm.destroy_allocation(id, &[]))
    }

    /// The last name of a resource has gone: its members that no device has end, and the resource with them if none has that.
    pub fn bury_unnamed(&mut self, cx: &mut Cx<'_>, resource: u64, members: &[vidmm::AllocationId]) {
        let (mut gone, mut works, mut sections) = (Vec::new(), Vec::new(), Vec::new());
        for &id in members {
            match self.bodies.get(&id).map(|body| body.bindings) {
                Some(0) => {
                    gone.push(self.vidmm.kmd_handle(id));
                    let (body, work) = self.end_body(cx, id);
                    works.push((work, Some(id)));
                    sections.extend(body.section);
                }
                Some(_) => self.doom_unreachable(id),
                None => {}
            }
        }
        let gone = self.end_resource(resource, gone);
        self.queue_burial(cx, ProcessId::SYSTEM, works, gone);
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
                self.allocation_numbers.remove(&dead);
            }
        }
        if gone.is_some() {
            self.queue_work(cx, process, None, None, gone.into_iter().collect());
        }
    }

    /// One binding of several goes: the device's counts go, and with the last binding of its process the addresses.
    // spec: memory §6.2, memory §10.1
    fn leave(&mut self, binding: &Allocation, process: ProcessId) -> Option<vidmm::Work<FenceId>> {
        let body = &self.bodies[&binding.vidmm];
        let dying = (body.bindings > body.living).then(|| self.dying.iter().flat_map(|dying| &dying.bindings));
        let dying = dying.into_iter().flatten().filter(|other| other.vidmm == binding.vidmm);
        let mut others = self.living_of(binding.vidmm).chain(dying).map(|other| other.device).peekable();
        // None has it, if only a name keeps it.
        let heir = others.peek().copied();
        let same_process = others.any(|device| self.devices[device].process == process);
        drop(others);
        let (device, heir) = (self.devices[binding.device].vidmm, heir.map(|heir| self.devices[heir].vidmm));
        self.vidmm.leave_allocation(binding.vidmm, device, heir, !same_process)
    }

    /// A device's hold on a resource ends; with the last, and the last name, the driver forgets the resource.
    fn leave_resource(&mut self, body: Option<u64>, allocations: Vec<ddi::KmdAllocation>) -> Option<Gone> {
        match body {
            Some(number) => {
                self.resource_bodies[number].holds -= 1;
                self.end_resource(number, allocations)
            }
            None => (!allocations.is_empty()).then(|| Gone { allocations, ..Gone::default() }),
        }
    }

    /// The driver's part of a destroyed resource: these allocations, and the resource itself if no device holds it and no name keeps it.
    fn end_resource(&mut self, number: u64, allocations: Vec<ddi::KmdAllocation>) -> Option<Gone> {
        let body = &self.resource_bodies[number];
        let mut gone = Gone { allocations, resource: body.kmd, with_resource: false };
        if body.holds == 0 && body.names == 0 {
            let body = self.resource_bodies.remove(number).expect("just seen");
            if body.global != wddm_types::RawHandle::NONE {
                self.due.global_gone(body.global);
            }
            gone.with_resource = body.kmd.0 != 0;
        }
        (!gone.allocations.is_empty() || gone.with_resource).then_some(gone)
    }
}
