//! Calls about the CPU's access to allocations: Lock2 and Unlock2 (memory §6.3); their legacy forms are `legacy`. What a lock
//! does is decided in `vidmm`; here handles become allocations, devices stand still, copies are queued, the process gets
//! its mapping.

mod legacy;
mod rename;

pub use legacy::{LegacyRequest, LockArguments};

use gpu_fence::FenceId;
use kmt_calls::{Mapped, Refusal, Reply};
use vidmm::{AllocationId, LegacyLock, LockError, LockPlan};
use wddm_types::{Blame, FencePoint, NtStatus, ProcessId};

use crate::adapter::Adapter;
use crate::machine::{Answer, Cx, Token};
use crate::refusal::{invalid, refuse};
use crate::suspension::SuspendReasons;

impl Adapter {
    /// `D3DKMTLock2`.
    // spec: memory §6.3
    pub fn lock2(&mut self, cx: &mut Cx<'_>, token: Token, number: u64, flags: u32) -> Result<Answer, Refusal> {
        if flags != 0 {
            return Err(invalid(format!("Lock2 flags {flags:#x}: all bits are reserved")));
        }
        let (mapped, wait_for) = if self.vidmm.is_marked(self.allocations[number].vidmm) {
            // Lock2 knows no swizzled content: the old lock does, without a range.
            self.may_lock(number)?;
            self.lock_through(cx, number, LegacyLock::default())?
        } else {
            self.lock(cx, number)?
        };
        Ok(self.answer_lock(cx, token, wait_for, Reply::Mapped(mapped)))
    }

    /// `D3DKMTUnlock2`.
    pub fn unlock(&mut self, cx: &mut Cx<'_>, number: u64) -> Result<(), Refusal> {
        let vidmm = self.allocations[number].vidmm;
        if self.vidmm.unlock(vidmm).map_err(from_lock)? {
            self.unmap_for_cpu(cx, vidmm);
            self.lines_unmapped(vidmm);
            self.retry_held(cx);
        }
        Ok(())
    }

    fn lock(&mut self, cx: &mut Cx<'_>, number: u64) -> Result<(Mapped, Option<u64>), Refusal> {
        self.may_lock(number)?;
        let (vidmm, device) = (self.allocations[number].vidmm, self.allocations[number].device);
        let process = self.devices[device].process;
        let disturbs = self.vidmm.lock_disturbs(vidmm).map_err(from_lock)?;
        let (mut disturbed, points) = self.hold_still(cx, &disturbs);
        let planned = self.vidmm.lock(vidmm, &points);
        let planned = planned.and_then(|plan| self.window_of(cx, vidmm, plan, &mut disturbed));
        let plan = match planned {
            Ok(plan) => plan,
            Err(error) => {
                self.lock_moved(cx, disturbed);
                return Err(from_lock(error));
            }
        };
        Ok(self.carry_out_lock(cx, process, vidmm, plan, disturbed))
    }

    /// Does what was planned. `disturbed`: devices that stand still for it.
    fn carry_out_lock(
        &mut self,
        cx: &mut Cx<'_>,
        process: ProcessId,
        vidmm: AllocationId,
        plan: LockPlan<FenceId>,
        disturbed: Vec<u64>,
    ) -> (Mapped, Option<u64>) {
        for &device in &disturbed {
            self.packets_moved(device, vidmm);
        }
        self.clear_pages(&plan.clear);
        self.lines_mapped(vidmm);
        let mapping = self.map_for_cpu(cx, process, vidmm, &plan.runs);
        if plan.work.is_some() {
            self.queue_work(cx, process, None, plan.work, Vec::new());
        }
        if !disturbed.is_empty() {
            self.defer_lock_moved(disturbed);
        }
        let size_bytes = self.vidmm.allocation_bytes(vidmm);
        (Mapped { mapping, runs: plan.runs, size_bytes }, plan.wait_for)
    }

    /// Has the window of a plan mapped; if that fails, what the plan is without one.
    fn window_of(
        &mut self,
        cx: &mut Cx<'_>,
        allocation: AllocationId,
        plan: LockPlan<FenceId>,
        disturbed: &mut Vec<u64>,
    ) -> Result<LockPlan<FenceId>, LockError> {
        let Some(map) = &plan.window else { return Ok(plan) };
        self.clear_pages(&plan.clear);
        if self.map_window(allocation, map) {
            return Ok(plan);
        }
        // Nobody stands still for a window; for the move that comes instead they do.
        let (devices, points) = self.hold_still(cx, &self.vidmm.holders(allocation));
        disturbed.extend(devices);
        self.vidmm.window_failed(allocation, map, &points)
    }

    /// Has devices stand still while a lock moves what their lists hold: their numbers, and the points from which on they do.
    fn hold_still(&mut self, cx: &mut Cx<'_>, devices: &[vidmm::DeviceId]) -> (Vec<u64>, Vec<FencePoint<FenceId>>) {
        let of = |(number, device): (u64, &crate::object::Device)| devices.contains(&device.vidmm).then_some(number);
        let numbers: Vec<u64> = self.devices.iter().filter_map(of).collect();
        let mut points = Vec::new();
        for &number in &numbers {
            self.devices[number].lock_moves += 1;
            points.extend(self.suspend_device(cx, number, SuspendReasons::CPU_ACCESS));
        }
        (numbers, points)
    }

    /// The move that a lock needed is over: its devices go on, unless another lock needs them still.
    pub fn lock_moved(&mut self, cx: &mut Cx<'_>, devices: Vec<u64>) {
        for number in devices {
            let Some(device) = self.devices.get_mut(number) else { continue };
            device.lock_moves -= 1;
            if device.lock_moves == 0 {
                self.resume_device(cx, number, SuspendReasons::CPU_ACCESS);
            }
        }
    }

    /// Answers when the copies that were queued before are over.
    // spec: memory §10.1 row 20
    fn answer_lock(&mut self, cx: &mut Cx<'_>, token: Token, wait_for: Option<u64>, reply: Reply) -> Answer {
        self.reap_paging(cx);
        if wait_for.is_none_or(|serial| serial <= self.vidmm.completed_serial()) {
            return Answer::Done(Ok(reply));
        }
        self.after_ring(cx, token, reply)
    }
}

// spec: memory §9.3
fn from_lock(error: LockError) -> Refusal {
    let (status, blame) = match error {
        LockError::CantLock => (NtStatus::GRAPHICS_CANT_LOCK_MEMORY, Blame::Caller),
        LockError::Pinned => (NtStatus::GRAPHICS_CANT_EVICT_PINNED_ALLOCATION, Blame::Caller),
        LockError::Offered => (NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE, Blame::Caller),
        LockError::ContentLost => (NtStatus::GRAPHICS_ALLOCATION_CONTENT_LOST, Blame::Caller),
        LockError::TooManyReferences => (NtStatus::GRAPHICS_TOO_MANY_REFERENCES, Blame::Scarcity),
        // spec: memory §9.2: NOTAVAILABLE where a runtime asks
        LockError::NeedsEviction => (NtStatus::GRAPHICS_CANT_LOCK_MEMORY, Blame::Caller),
        LockError::NotAcquired | LockError::NotLocked => (NtStatus::INVALID_PARAMETER, Blame::Caller),
    };
    refuse(status, blame, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: memory §9.2, memory §9.3
    #[test]
    fn every_refused_lock_has_its_status() {
        let rows = [
            (LockError::CantLock, 0xC01E_0101),
            (LockError::Pinned, 0xC01E_0109),
            (LockError::TooManyReferences, 0xC01E_0103),
            (LockError::Offered, 0xC01E_0110),
            (LockError::ContentLost, 0xC01E_0116),
            (LockError::NotLocked, 0xC000_000D),
        ];
        for (error, status) in rows {
            assert_eq!(from_lock(error).status, NtStatus(status), "{error}");
        }
    }
}
