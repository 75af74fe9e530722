//! Applies an answer to the model, and checks that the model allows it.

use std::collections::VecDeque;

use kmt_calls::{LockFlags, Refusal, Reply, Residency};
use kmt_link::MappedBytes;
use softgpu_spec::private_data::Kind;
use wddm_types::{Blame, NtStatus};

use super::client::{Client, Op};
use super::model::{Content, Paging, Surface};
use super::plan::Job;

impl Client {
    pub(super) fn answered(&mut self, op: Op, result: Result<Reply, Refusal>) -> Result<(), String> {
        match result {
            Ok(reply) => self.accepted(op, reply),
            Err(refusal) => self.refused(&op, &refusal),
        }
    }

    fn refused(&mut self, op: &Op, refusal: &Refusal) -> Result<(), String> {
        // A destroyed allocation is named by nothing, and the CPU works on nothing that was not locked.
        self.plan.clear();
        match op {
            Op::Lock { slot, flags: Some(flags) } if refusal.status == NtStatus::GRAPHICS_ALLOCATION_BUSY => {
                let done = self.busy_before >= self.surface(*slot).last_use;
                if done || !flags.contains(LockFlags::DONOT_WAIT) {
                    return Err(format!("{op:?} says that the GPU uses what it does not: {refusal}"));
                }
            }
            Op::Lock { flags: Some(flags), .. }
                if refusal.status == NtStatus::GRAPHICS_CANT_LOCK_MEMORY && flags.contains(LockFlags::DONOT_EVICT) => {}
            // Beside a lock of its own of what is listed and has no other place.
            Op::Submit(_)
                if refusal.status == NtStatus::GRAPHICS_CANT_RENDER_LOCKED_ALLOCATION
                    && !self.slots(|of| of.lock.is_some() && of.count > 0 && of.kind != Kind::System).is_empty() => {}
            _ if refusal.blame != Blame::Scarcity => {
                return Err(format!("a well-behaved call was refused: {op:?}: {refusal}"));
            }
            Op::Context { .. } | Op::Progress { .. } | Op::Device | Op::PagingQueue => self.plan.push_back(Op::Die),
            Op::Map { slot } => self.plan.push_back(Op::Destroy { slot: *slot }),
            Op::Resident { .. } => {
                let listed = self.slots(|surface| surface.count > 0 && surface.lock.is_none());
                if !listed.is_empty() {
                    self.plan.push_back(Op::Evict { slots: listed, lazily: false });
                }
            }
            _ => {}
        }
        let pinned = |slot: usize| self.surfaces[slot].as_ref().is_none_or(|surface| surface.pinned);
        match op {
            // Without its report or its command memory it has nothing to live for.
            Op::Create { pinned: true, .. } => self.plan = VecDeque::from([Op::Die]),
            Op::Map { slot } | Op::Lock { slot, .. } if pinned(*slot) => self.plan = VecDeque::from([Op::Die]),
            Op::Resident { slots } if slots.iter().all(|slot| pinned(*slot)) => {
                self.plan = VecDeque::from([Op::Die]);
            }
            _ => {}
        }
        // Locks that are held end all the same.
        self.plan_unlocks();
        Ok(())
    }

    fn accepted(&mut self, op: Op, reply: Reply) -> Result<(), String> {
        match (op, reply) {
            (Op::Open(_), Reply::Handle(handle)) => self.adapter = handle,
            (Op::Device, Reply::Handle(handle)) => self.device = handle,
            (Op::PagingQueue, Reply::PagingQueue(made)) => {
                self.paging = Some(Paging { queue: made.queue, fence: made.fence });
            }
            (Op::Context { at }, Reply::Handle(handle)) => self.contexts[at].handle = handle,
            (Op::Context { at }, Reply::Context(made)) => self.contexts[at].handle = made.context,
            (Op::Progress { at }, Reply::MonitoredFence(made)) => self.contexts[at].progress = Some(made),
            (Op::Create { slot, kind, bytes, home, pinned }, Reply::Allocations(created)) => {
                let [made] = &created.allocations[..] else { return Err("one handle for one allocation".into()) };
                self.surfaces[slot] = Some(Surface {
                    pinned,
                    ..Surface::fresh(made.handle, (kind, bytes, home), made.address.for_gpu())
                });
            }
            (Op::Map { slot }, Reply::MappedVa { va, paging_fence_value }) => {
                let surface = self.surface_mut(slot);
                (surface.va, surface.ready_at) = (va, surface.ready_at.max(paging_fence_value));
            }
            (Op::Resident { slots }, Reply::Residency(residency)) => {
                for slot in slots {
                    let surface = self.surface_mut(slot);
                    surface.count += 1;
                    if let Residency::Pending { paging_fence_value, .. } = residency {
                        surface.ready_at = surface.ready_at.max(paging_fence_value);
                    }
                }
            }
            (Op::Evict { slots, .. }, Reply::BytesToTrim(_)) => {
                slots.iter().for_each(|slot| self.surface_mut(*slot).count -= 1);
            }
            (Op::Destroy { slot }, Reply::Done) => self.surfaces[slot] = None,
            (Op::Submit(job), Reply::Queued(_)) => self.submitted(job),
            (Op::Lock { slot, .. }, Reply::Mapped(mapped)) => {
                let lock = MappedBytes::new(&**self.link(), mapped);
                self.surface_mut(slot).lock = Some(lock);
            }
            (Op::Lock { slot, flags }, Reply::Locked { allocation, mapped }) => {
                let lock = MappedBytes::new(&**self.link(), mapped);
                let surface = self.surface_mut(slot);
                (surface.handle, surface.lock) = (allocation, Some(lock));
                if flags.is_some_and(|flags| flags.contains(LockFlags::DISCARD)) {
                    surface.content = Content::UNKNOWN;
                }
            }
            (Op::Await { at, value }, Reply::Done) => {
                if self.reached(at) < value {
                    return Err(format!("a wait for {value} of context {at} ended at {}", self.reached(at)));
                }
            }
            (Op::DestroyContext { at }, Reply::Done) => self.context_gone(at),
            (Op::DestroyDevice, Reply::Done) => self.surfaces.clear(),
            (
                Op::Signal { .. }
                | Op::GpuWait { .. }
                | Op::GpuWaitPaging { .. }
                | Op::AwaitPaging { .. }
                | Op::Unlock { .. }
                | Op::Priority { .. }
                | Op::Class(_)
                | Op::CatchUp { .. },
                Reply::Done,
            ) => {}
            (op, reply) => return Err(format!("{op:?} answered {reply:?}")),
        }
        Ok(())
    }

    /// A buffer is on its way: what it uses holds from now on what it writes.
    fn submitted(&mut self, job: Job) {
        let context = &mut self.contexts[job.at];
        context.last += 1;
        let value = context.last;
        for (slot, content) in job.leaves {
            let surface = self.surface_mut(slot);
            (surface.content, surface.last_use) = (content, value);
        }
        self.plan.push_front(Op::Signal { at: job.at });
    }

    /// Unfinished work of a destroyed context is lost.
    fn context_gone(&mut self, at: usize) {
        let reached = self.reached(at);
        for surface in self.surfaces.iter_mut().flatten().filter(|surface| surface.home == at) {
            if surface.last_use > reached {
                surface.content = Content::UNKNOWN;
            }
            surface.last_use = 0;
        }
    }
}
