//! `D3DKMTLock` and `D3DKMTUnlock` (memory §6.5): for a WDDM 2 driver Lock2 with what is left of the flags; for a WDDM 1 driver
//! the whole of it: the kernel knows what the GPU uses, waits for it or says that it is busy, and has swizzled content
//! shown in order through a range.
//!
//! The kernel answers a lock that waits when the GPU is done with what was submitted before it, and does not look in between.

use ddi::AllocationFlags;
use events::Event;
use gpu_fence::{FenceId, WaitMode};
use kmt_calls::{LockFlags, Mapped, Refusal, Reply};
use vidmm::LegacyLock;
use wddm_types::{Blame, FencePoint, NtStatus, RawHandle};

use super::rename::Renamed;
use crate::adapter::Adapter;
use crate::due::Waiter;
use crate::effect::{Answer, Cx, Effect, Token};
use crate::lock::{LockArguments, LockCall, LockRequest, Lockable, check_flags, from_lock};
use crate::number::{AllocationNumber, WaitingLockNumber};
use crate::refusal::{invalid, refuse};
use crate::store::ObjectNumber;

impl Adapter {
    /// `D3DKMTLock`.
    // spec: memory §6.5
    pub fn lock_legacy(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        number: AllocationNumber,
        handle: RawHandle,
        arguments: LockArguments<'_>,
    ) -> Result<Answer, Refusal> {
        let LockArguments { private_driver_data, pages, flags } = arguments;
        let first = self.driver.is_wddm_1();
        check_flags(flags, pages, first)?;
        let size_pages = self.vidmm.allocation_bytes(self.memory.allocations[number].vidmm) / wddm_types::PAGE_BYTES;
        if pages.iter().any(|page| u64::from(*page) >= size_pages) {
            return Err(invalid("a page beyond the end of the allocation"));
        }
        if !first {
            return self.lock_reduced(cx, token, number, handle, flags);
        }
        self.may_lock(number)?;
        self.lockable(cx, number).check(flags)?;
        // A lock that would be refused in the end does not wait first.
        self.vidmm.may_ever_lock_legacy(self.memory.allocations[number].vidmm).map_err(from_lock)?;
        let how = LegacyLock {
            acquire: flags.contains(LockFlags::ACQUIRE_APERTURE).then_some(private_driver_data),
            donot_evict: flags.contains(LockFlags::DONOT_EVICT),
        };
        let anywhere = self.vidmm.may_lock_anywhere(self.memory.allocations[number].vidmm, how);
        let discard = flags.contains(LockFlags::DISCARD) && self.is_renamed(number) && anywhere;
        let discard = discard.then(|| flags.contains(LockFlags::NO_EXISTING_REFERENCE));
        let (device, writes) = (self.memory.allocations[number].device, !flags.contains(LockFlags::READ_ONLY));
        let process = self.owners.process_of(device);
        let call = LockCall::Legacy;
        let request = LockRequest { call, token, device, process, number, handle, how, writes, discard };
        if request.discard.is_some() {
            // spec: memory §6.5: DonotWait and IgnoreSync have no effect with Discard
            return self.lock_renamed(cx, request);
        }
        let used = if flags.contains(LockFlags::IGNORE_SYNC) {
            // spec: memory §10.2: honoured alone, and logged
            if !flags.contains(LockFlags::DONOT_WAIT) {
                cx.emit(self.index, Event::IgnoreSyncAlone { allocation: number.raw() });
            }
            Vec::new()
        } else {
            self.gpu_uses(cx, self.memory.allocations[number].vidmm, flags.contains(LockFlags::IGNORE_READ_SYNC))
        };
        if used.is_empty() {
            return self.lock_now(cx, &request);
        }
        // spec: memory §6.5, DonotWait; memory §9.2: WasStillDrawing where a runtime asks
        if flags.contains(LockFlags::DONOT_WAIT) {
            return Err(refuse(NtStatus::GRAPHICS_ALLOCATION_BUSY, Blame::Scarcity, "the GPU still uses it"));
        }
        self.lock_behind(cx, request, &used)
    }

    /// Locks when the GPU has got past these.
    // spec: memory §6.4: an event, never a spin
    pub(super) fn lock_behind(
        &mut self,
        cx: &mut Cx<'_>,
        request: LockRequest,
        points: &[FencePoint<FenceId>],
    ) -> Result<Answer, Refusal> {
        let allocation = &self.memory.allocations[request.number];
        let former = allocation.renaming.former().map(|instance| instance.vidmm);
        let used: Vec<_> = former.chain([allocation.vidmm]).collect();
        let process = self.owners.process_of(request.device);
        if used.into_iter().any(|id| self.waits_for_unlock_by(cx, id, process)) {
            // spec: memory §10.1 row 23: no process waits for its own unlock
            let reason = "what uses it has no turn before its process unlocks something else";
            return Err(refuse(NtStatus::GRAPHICS_ALLOCATION_BUSY, Blame::Caller, reason));
        }
        let token = request.token;
        let waiting = self.memory.waiting_locks.begin(request);
        if self.begin_wait(cx, points, WaitMode::All, Waiter::Lock { waiting }) {
            let request = self.memory.waiting_locks.end(waiting);
            return self.lock_after_wait(cx, request);
        }
        Ok(Answer::Later(token))
    }

    /// Locks an instance that the GPU is past. If that is refused, because the driver has no range for what may not be moved,
    /// the rename stands: the caller has given the content up, and lists may name the former instance as before.
    // spec: memory §6.5
    fn lock_renamed(&mut self, cx: &mut Cx<'_>, request: LockRequest) -> Result<Answer, Refusal> {
        match self.rename(cx, request.number, request.discard == Some(true))? {
            Renamed::Ready => self.lock_now(cx, &request),
            Renamed::Wait(points) => self.lock_behind(cx, request, &points),
        }
    }

    /// The GPU is done with what a lock waits for.
    pub(in crate::adapter) fn lock_waited(&mut self, cx: &mut Cx<'_>, waiting: WaitingLockNumber) {
        let request = self.memory.waiting_locks.end(waiting);
        let token = request.token;
        let answer = if self.life.has_stopped() || !self.owners.is_active(request.device) {
            Err(self.lost_meanwhile(request.device))
        } else if self.memory.allocations.get(request.number).is_none() {
            Err(invalid("the allocation was destroyed while its lock waited"))
        } else {
            self.lock_after_wait(cx, request)
        };
        let result = match answer {
            Ok(Answer::Later(_)) => return,
            Ok(Answer::Done(result)) => result,
            Err(refusal) => Err(refusal),
        };
        cx.effects.push(Effect::Answer { token, result });
    }

    fn lock_after_wait(&mut self, cx: &mut Cx<'_>, request: LockRequest) -> Result<Answer, Refusal> {
        match request.call {
            LockCall::Reduced | LockCall::Lock2 => self.lock_when_unused(cx, request),
            // The instance that the lock waited for is idle now, unless another one has taken it meanwhile.
            LockCall::Legacy if request.discard.is_some() && self.is_renamed(request.number) => {
                self.lock_renamed(cx, request)
            }
            LockCall::Legacy => self.lock_now(cx, &request),
        }
    }

    /// Lock2 with the flags that are left.
    fn lock_reduced(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        number: AllocationNumber,
        handle: RawHandle,
        flags: LockFlags,
    ) -> Result<Answer, Refusal> {
        let vidmm = self.memory.allocations[number].vidmm;
        let moves = self.vidmm.lock_moves(vidmm).map_err(from_lock)?;
        if moves && flags.contains(LockFlags::DONOT_EVICT) {
            return Err(refuse(NtStatus::GRAPHICS_CANT_LOCK_MEMORY, Blame::Caller, "it had to be evicted"));
        }
        if flags.contains(LockFlags::DONOT_WAIT) && !self.uses_before_lock(cx, number).is_empty() {
            return Err(refuse(NtStatus::GRAPHICS_ALLOCATION_BUSY, Blame::Scarcity, "the GPU still uses it"));
        }
        let device = self.memory.allocations[number].device;
        let (process, writes) = (self.owners.process_of(device), !flags.contains(LockFlags::READ_ONLY));
        let (call, how) = (LockCall::Reduced, LegacyLock::default());
        let request = LockRequest { call, token, device, process, number, handle, how, writes, discard: None };
        self.lock_when_unused(cx, request)
    }

    fn lock_now(&mut self, cx: &mut Cx<'_>, request: &LockRequest) -> Result<Answer, Refusal> {
        let (mapped, wait_for) = self.lock_through(cx, request.number, request.how, request.writes)?;
        let current = self.memory.allocations[request.number].renaming.current();
        let allocation = current.map_or(request.handle, |name| name.handle);
        let reply = Reply::Locked { allocation, mapped };
        let vidmm = self.memory.allocations[request.number].vidmm;
        Ok(self.answer_lock(cx, request.token, vidmm, wait_for, reply))
    }

    pub(super) fn lock_through(
        &mut self,
        cx: &mut Cx<'_>,
        number: AllocationNumber,
        how: LegacyLock,
        writes: bool,
    ) -> Result<(Mapped, Option<u64>), Refusal> {
        let (vidmm, device) = (self.memory.allocations[number].vidmm, self.memory.allocations[number].device);
        let process = self.owners.process_of(device);
        let alternate = self.vidmm.info(vidmm).flags.contains(AllocationFlags::USE_ALTERNATE_VA);
        let comes = self.vidmm.page_in_for_lock(vidmm, how).map_err(from_lock)?;
        self.queue_any(cx, process, comes);
        let mut planned = self.vidmm.lock_legacy(vidmm, how);
        if let Ok(plan) = &mut planned
            && let Some(wish) = plan.range
        {
            let acquired = self.acquire_range(cx, vidmm, &wish, alternate);
            match self.heed_for_call(cx, acquired)? {
                Some(placed) => plan.runs = placed.unwrap_or_else(|| std::mem::take(&mut plan.runs)),
                None => planned = self.vidmm.range_failed(vidmm, &wish, how),
            }
        }
        Ok(self.carry_out_lock(cx, (process, vidmm, writes), planned.map_err(from_lock)?))
    }

    /// What of an allocation the rules of the flags ask for.
    fn lockable(&self, cx: &Cx<'_>, number: AllocationNumber) -> Lockable {
        let id = self.memory.allocations[number].vidmm;
        let info = self.vidmm.info(id);
        let aperture = |segment| self.vidmm.segments().iter().any(|known| known.id == segment && known.is_aperture());
        Lockable {
            flags: info.flags,
            in_aperture: info.supported_segments.iter().any(aperture),
            in_memory: info.supported_segments.iter().any(|segment| !aperture(segment)),
            io_coherent: self.is_io_coherent(cx),
            shared: self.memory.allocations.is_shared(number),
            locked: self.vidmm.is_locked(id),
        }
    }

    /// `D3DKMTUnlock`: one lock of each, all or none.
    pub fn unlock_legacy(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        numbers: &[AllocationNumber],
    ) -> Result<Answer, Refusal> {
        let mut once = numbers.to_vec();
        once.sort_unstable();
        once.dedup();
        // Two handles of one allocation end two of its locks: it must have both, or the first would end before the refusal.
        let mut memory: Vec<_> = numbers.iter().map(|number| self.memory.allocations[*number].vidmm).collect();
        memory.sort_unstable();
        let locked =
            memory.chunk_by(|one, other| one == other).all(|same| same.len() <= self.vidmm.locks_of(same[0]) as usize);
        if once.len() != numbers.len() || !locked {
            return Err(invalid("an allocation of the list is not locked, or stands in it twice"));
        }
        let mut uploads = false;
        for &number in numbers {
            uploads |= self.unlock(cx, number)?;
        }
        Ok(self.answer_unlock(token, uploads))
    }
}
