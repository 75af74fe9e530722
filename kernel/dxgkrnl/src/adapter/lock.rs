//! Calls about the CPU's access to allocations: Lock2 and Unlock2 (memory §6.3); their legacy forms are `legacy`. `vidmm` decides what a
//! lock does, and `lock` has the rules of the calls; here handles become allocations, devices quiesce, copies are queued, the process
//! gets its mapping.

mod copy;
mod instance;
mod legacy;
mod mapping;
mod rename;

use gpu_fence::FenceId;
use kmt_calls::{Mapped, Refusal, Reply};
use vidmm::{AllocationId, LegacyLock, LockError, LockPlan};
use wddm_types::{CpuPlace, CpuRun, FencePoint, ProcessId, RawHandle};

use crate::adapter::Adapter;
use crate::effect::{Answer, Cx, Token};
use crate::lock::{LockCall, LockRequest, from_lock};
use crate::number::AllocationNumber;
use crate::refusal::invalid;

impl Adapter {
    /// `D3DKMTLock2`.
    // spec: memory §6.3
    pub fn lock2(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        number: AllocationNumber,
        flags: u32,
    ) -> Result<Answer, Refusal> {
        if flags != 0 {
            return Err(invalid(format!("Lock2 flags {flags:#x}: all bits are reserved")));
        }
        let vidmm = self.memory.allocations[number].vidmm;
        let how = LegacyLock::default();
        if self.vidmm.is_marked(vidmm) {
            // Lock2 knows no swizzled content: the old lock does, without a range.
            self.may_lock(number)?;
            let (mapped, wait_for) = self.lock_through(cx, number, how, true)?;
            return Ok(self.answer_lock(cx, token, vidmm, wait_for, Reply::Mapped(mapped)));
        }
        let device = self.memory.allocations[number].device;
        let (process, call, handle) = (self.owners.process_of(device), LockCall::Lock2, RawHandle::default());
        let request = LockRequest { call, token, device, process, number, handle, how, writes: true, discard: None };
        self.lock_when_unused(cx, request)
    }

    /// Locks what no queued work uses that a copy of the lock would wait for; else behind those uses, so that the paging ring waits for none of
    /// them.
    // spec: memory §6.3, memory §10.1
    fn lock_when_unused(&mut self, cx: &mut Cx<'_>, request: LockRequest) -> Result<Answer, Refusal> {
        let LockRequest { call, token, number, handle, writes, .. } = request;
        self.may_lock(number)?;
        let used = self.uses_before_lock(cx, number);
        if !used.is_empty() {
            return self.lock_behind(cx, request, &used);
        }
        let (mapped, wait_for) = self.lock(cx, number, writes)?;
        let reply = match call {
            LockCall::Lock2 => Reply::Mapped(mapped),
            LockCall::Reduced | LockCall::Legacy => Reply::Locked { allocation: handle, mapped },
        };
        let vidmm = self.memory.allocations[number].vidmm;
        Ok(self.answer_lock(cx, token, vidmm, wait_for, reply))
    }

    /// The uses that copies of a lock would wait for.
    fn uses_before_lock(&self, cx: &Cx<'_>, number: AllocationNumber) -> Vec<FencePoint<FenceId>> {
        let points = self.vidmm.lock_waits_for(self.memory.allocations[number].vidmm);
        if points.is_empty() {
            return Vec::new();
        }
        self.unreached(cx, self.sync.live_points(points.to_vec()))
    }

    /// `D3DKMTUnlock2`, answered when what the CPU wrote is where the GPU reads it.
    // spec: memory §2.2, memory §6.3
    pub fn unlock2(&mut self, cx: &mut Cx<'_>, token: Token, number: AllocationNumber) -> Result<Answer, Refusal> {
        let uploads = self.unlock(cx, number)?;
        Ok(self.answer_unlock(token, uploads))
    }

    /// Ends a lock. Says whether its content is being brought back.
    fn unlock(&mut self, cx: &mut Cx<'_>, number: AllocationNumber) -> Result<bool, Refusal> {
        let vidmm = self.memory.allocations[number].vidmm;
        if !self.vidmm.unlock(vidmm).map_err(from_lock)? {
            return Ok(false);
        }
        let written = self.written_pages(cx, vidmm);
        self.memory.cpu_view.forget_copy(vidmm);
        self.rotations_unlocked(vidmm, &written);
        let process = self.owners.process_of(self.memory.allocations[number].device);
        self.unmap_for_cpu(cx, process, vidmm);
        self.memory.cpu_view.lines_stay(vidmm);
        Ok(self.upload(cx, vidmm, written))
    }

    /// Answers an unlock: behind the ring, if something is being uploaded.
    fn answer_unlock(&mut self, token: Token, uploads: bool) -> Answer {
        if !uploads {
            return Answer::Done(Ok(Reply::Done));
        }
        self.defer_unlocked(token);
        Answer::Later(token)
    }

    /// `writes`: the caller does not promise only to read.
    fn lock(
        &mut self,
        cx: &mut Cx<'_>,
        number: AllocationNumber,
        writes: bool,
    ) -> Result<(Mapped, Option<u64>), Refusal> {
        self.may_lock(number)?;
        let (vidmm, device) = (self.memory.allocations[number].vidmm, self.memory.allocations[number].device);
        let process = self.owners.process_of(device);
        let planned = self.vidmm.lock(vidmm).and_then(|plan| self.window_of(cx, vidmm, plan));
        Ok(self.carry_out_lock(cx, (process, vidmm, writes), planned.map_err(from_lock)?))
    }

    /// Does what was planned.
    fn carry_out_lock(
        &mut self,
        cx: &mut Cx<'_>,
        (process, vidmm, writes): (ProcessId, AllocationId, bool),
        mut plan: LockPlan<FenceId>,
    ) -> (Mapped, Option<u64>) {
        self.clear_for_lock(cx, vidmm, &mut plan);
        self.copy_shown(vidmm);
        self.lines_mapped(cx, vidmm, writes);
        let mapping = self.map_for_cpu(cx, process, vidmm, &plan.runs);
        self.queue_any(cx, process, plan.work);
        self.show_in_turn(cx, process, mapping, &plan.runs);
        let size_bytes = self.vidmm.allocation_bytes(vidmm);
        (Mapped { mapping, runs: plan.runs, size_bytes }, plan.wait_for)
    }

    /// The CPU is about to see pages that no write has filled yet: they get the clear pattern.
    fn clear_for_lock(&mut self, cx: &Cx<'_>, allocation: AllocationId, plan: &mut LockPlan<FenceId>) {
        let clear = std::mem::take(&mut plan.clear);
        let in_system = |run: &CpuRun| matches!(run.place, CpuPlace::System | CpuPlace::CachedSystem);
        let uses_backing = !clear.is_empty() || plan.runs.iter().any(in_system);
        if !(uses_backing && self.backing_used(cx, allocation)) {
            self.clear_pages(cx, &clear);
        }
    }

    /// Has the window of a plan mapped; if that fails, the plan without one.
    fn window_of(
        &mut self,
        cx: &Cx<'_>,
        allocation: AllocationId,
        mut plan: LockPlan<FenceId>,
    ) -> Result<LockPlan<FenceId>, LockError> {
        self.clear_for_lock(cx, allocation, &mut plan);
        let Some(map) = &plan.window else { return Ok(plan) };
        if self.map_window(cx, allocation, map) {
            return Ok(plan);
        }
        self.vidmm.window_failed(allocation, map)
    }

    /// Answers when the copies that were queued before are over.
    // spec: memory §10.1 row 20
    fn answer_lock(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        vidmm: AllocationId,
        wait_for: Option<u64>,
        reply: Reply,
    ) -> Answer {
        self.reap_paging(cx);
        if self.memory.cpu_view.is_unshown(vidmm) {
            // The ring stands until the process has been lent what it locks: behind that it is answered.
            self.queue_work(cx, ProcessId::SYSTEM, None, None, Vec::new());
            self.defer_copy(vidmm);
            self.answer_after_ring(token, reply);
            return Answer::Later(token);
        }
        if self.memory.ring.is_idle() || wait_for.is_none_or(|serial| serial <= self.vidmm.completed_serial()) {
            self.note_copy(cx, vidmm);
            return Answer::Done(Ok(reply));
        }
        self.defer_copy(vidmm);
        self.answer_after_ring(token, reply);
        Answer::Later(token)
    }
}
