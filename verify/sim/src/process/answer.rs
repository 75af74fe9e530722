//! Applies an answer to the model, and checks that the model allows it.

use kmt_calls::{DeviceState, Refusal, Reply, Residency};
use kmt_link::MappedBytes;
use softgpu_spec::pattern::report;
use wddm_types::RawHandle;
use wddm_types::{Blame, NtStatus};

use crate::process::Process;
use crate::process::bells::Bell;
use crate::process::issue::Op;
use crate::process::model::{Content, Fence, Known, Mapping, Owner, PagingQueue, Phase, QUEUES_MAX, Surface};
use crate::process::plan::REPORT_SUMS;

impl Process {
    /// The call of `op` was answered. `fence` is the number of the fence that it made, if it made one.
    ///
    /// # Errors
    /// An answer that the model does not allow.
    pub fn answered(&mut self, op: Op, result: Result<Reply, Refusal>, fence: u64) -> Result<(), String> {
        match (op, result) {
            (Op::Hostile { call, why }, Ok(reply)) => {
                Err(format!("hostile call accepted: {why}: {call:?} answered {reply:?}"))
            }
            (Op::Hostile { why, .. }, Err(refusal)) => self.refused_rightly(why, &refusal),
            (Op::Doomed { call }, Ok(reply)) => Err(format!("a call on a lost device: {call:?} answered {reply:?}")),
            (Op::Doomed { .. }, Err(refusal)) if refusal.status == NtStatus::DEVICE_REMOVED => Ok(()),
            (Op::State, Ok(Reply::DeviceState(state))) => self.state_is(state),
            (op, Ok(reply)) => self.accepted(op, reply, fence),
            (op, Err(refusal)) => self.refused(op, &refusal),
        }
    }

    /// A queue or a paging fence reached what it was awaited for, or the device was lost meanwhile.
    ///
    /// # Errors
    /// When the device was lost for no fault of the process.
    pub fn wait_over(&mut self, result: Result<Reply, Refusal>) -> Result<(), String> {
        match result {
            Ok(Reply::Done) if self.guilty => Err("a wait ended well although the device is lost".into()),
            Ok(Reply::Done) => Ok(()),
            Ok(other) => Err(format!("a wait answered {other:?}")),
            Err(refusal) if self.guilty && refusal.status == NtStatus::DEVICE_REMOVED => Ok(()),
            Err(refusal) => Err(format!("a wait of a well-behaved process was refused: {refusal}")),
        }
    }

    /// Looks at what the GPU reported.
    ///
    /// # Errors
    /// Content that is not what the model says.
    pub fn verify(&mut self) -> Result<(), String> {
        let Some(report) = self.report.filter(|_| !self.guilty && self.phase != Phase::Dead) else { return Ok(()) };
        let Some(lock) = self.surfaces[report].as_ref().and_then(|surface| surface.lock.clone()) else { return Ok(()) };
        let word = |at: u64| lock.read_word(at * 8);
        if word(report::TAG) != 0 {
            let (tag, offset) = (word(report::TAG) - 1, word(report::OFFSET));
            let (found, expected) = (word(report::FOUND), word(report::EXPECTED));
            return Err(format!(
                "process {}: surface {} (submission {} of queue {}) at {offset:#x}: found {found:#x}, expected {expected:#x}",
                self.id.0,
                tag >> 32,
                tag & 0x0fff_ffff,
                tag >> 28 & 0xf
            ));
        }
        for sum in std::mem::take(&mut self.sums) {
            let reached = self.queues[sum.queue].progress.map_or(0, |progress| self.read(progress.made.current));
            if reached < sum.value {
                self.sums.push(sum);
                continue;
            }
            let found = lock.read_word(REPORT_SUMS + sum.place * 8);
            if found != sum.expected {
                return Err(format!(
                    "process {}: {:?} sums to {found:#x}, expected {:#x} (submission {} of queue {})",
                    self.id.0, sum.what, sum.expected, sum.value, sum.queue
                ));
            }
        }
        Ok(())
    }

    fn refused_rightly(&self, why: &'static str, refusal: &Refusal) -> Result<(), String> {
        // spec: memory §9.3
        if refusal.blame == Blame::Caller || self.guilty {
            Ok(())
        } else {
            Err(format!("hostile call ({why}) blamed on {:?}: {refusal}", refusal.blame))
        }
    }

    fn state_is(&self, state: DeviceState) -> Result<(), String> {
        match (self.guilty, state) {
            (true, DeviceState::ErrorDmaPageFault) | (false, DeviceState::Active) => Ok(()),
            (guilty, state) => {
                Err(format!("the device is {state:?}, its process is {}", if guilty { "guilty" } else { "innocent" }))
            }
        }
    }

    fn refused(&mut self, op: Op, refusal: &Refusal) -> Result<(), String> {
        if self.guilty {
            return Ok(());
        }
        if refusal.blame != Blame::Scarcity {
            return Err(format!("a well-behaved call was refused: {op:?}: {refusal}"));
        }
        self.plan.clear();
        match op {
            Op::Resident { slots, tries } if tries > 0 => {
                let held = |slot: &usize| {
                    self.surfaces[*slot].as_ref().is_some_and(|s| s.count > 0 && !s.pinned && !slots.contains(slot))
                };
                let others: Vec<usize> = (0..self.surfaces.len()).filter(held).collect();
                if !others.is_empty() {
                    let lazily = self.random.chance(50);
                    self.plan.push_back(Op::Evict { slots: others, lazily });
                }
                self.plan.push_back(Op::Resident { slots, tries: tries - 1 });
            }
            Op::Create { slot, .. } => self.surfaces[slot] = None,
            // The one of its life before is gone.
            Op::Device => self.device = RawHandle::NONE,
            _ => {}
        }
        // Without its queues or its paging queue a process has nothing left to do but to end.
        if self.phase == Phase::Setup || self.paging.is_none() {
            self.phase = Phase::Ending;
            self.plan.clear();
        }
        Ok(())
    }

    fn accepted(&mut self, op: Op, reply: Reply, number: u64) -> Result<(), String> {
        match (op, reply) {
            (Op::Open(_), Reply::Handle(handle)) => self.adapter = handle,
            (Op::Device, Reply::Handle(handle)) => self.device = handle,
            (Op::PagingQueue, Reply::PagingQueue(made)) => {
                self.paging = Some(PagingQueue { handle: made.queue, fence: Known { made: made.fence, number } });
            }
            (Op::Create { slot, wish, pinned }, Reply::Allocations(created)) => {
                let [made] = &created.allocations[..] else {
                    return Err(format!("{} handles for one allocation", created.allocations.len()));
                };
                self.surfaces[slot] = Some(Surface { pinned, ..Surface::fresh(made.handle, wish) });
            }
            (Op::Map { slot, second }, Reply::MappedVa { va, paging_fence_value }) => {
                let mapping = Some(Mapping { va, at: paging_fence_value, uses: [0; QUEUES_MAX] });
                let surface = self.surface_mut(slot);
                if second { surface.second = mapping } else { surface.va = mapping }
            }
            (Op::Resident { slots, .. }, Reply::Residency(residency)) => {
                for slot in slots {
                    let surface = self.surface_mut(slot);
                    if surface.count == 0 {
                        surface.written = false;
                    }
                    surface.count += 1;
                    if let Residency::Pending { paging_fence_value, .. } = residency {
                        surface.resident_at = paging_fence_value;
                    }
                }
            }
            (Op::Evict { slots, .. }, Reply::BytesToTrim(_)) => {
                slots.iter().for_each(|slot| self.surface_mut(*slot).count -= 1)
            }
            (Op::Lock { slot }, Reply::Mapped(mapped)) => {
                let lock = MappedBytes::new(&**self.link(), mapped);
                self.surface_mut(slot).lock = Some(lock);
            }
            (Op::Destroy { slot }, Reply::Done) => {
                let gone = self.surfaces[slot].take().expect("it was there");
                self.tiles_forget(slot);
                self.dead_handles.push(gone.handle);
            }
            (Op::Reserve, Reply::MappedVa { va, .. }) => self.reserved(va),
            (Op::TileFence, Reply::Fence(made)) => self.tiles_ready(Known { made, number }),
            (Op::Tiles { changes, .. }, Reply::Done) => self.tiles_changed(&changes),
            (Op::Fence { slot, owner, local }, Reply::Fence(made)) => {
                let (uses, local) = ([0; QUEUES_MAX], local.then_some(false));
                self.fences[slot] = Some(Fence { made, number, owner, promised: 0, signalled: 0, uses, local });
            }
            (Op::DestroyFence { fence }, Reply::Done) => {
                let gone = self.fences[fence].take().expect("it was there");
                self.dead_handles.push(gone.made.fence);
            }
            (Op::DestroyPagingQueue, Reply::Done) => self.paging_gone(),
            (Op::DestroyDevice, Reply::Done) => self.device_gone(),
            // Usage may exceed a budget that has shrunk since; what is reserved never exceeds what could be.
            (Op::QueryMemory, Reply::VideoMemoryInfo(info))
                if info.current_reservation_bytes <= info.available_for_reservation_bytes => {}
            (Op::QueryMemory, other) => return Err(format!("QueryVideoMemoryInfo answered {other:?}")),
            (op, reply) => return self.accepted_queue(op, reply, number),
        }
        Ok(())
    }

    fn accepted_queue(&mut self, op: Op, reply: Reply, number: u64) -> Result<(), String> {
        match (op, reply) {
            (Op::Context { queue }, Reply::Handle(handle)) => self.queues[queue].context = handle,
            (Op::Queue { queue }, Reply::HwQueue(made)) => {
                let last = queue + 1 == self.queues.len();
                let queue = &mut self.queues[queue];
                (queue.handle, queue.progress) = (made.queue, Some(Known { made: made.progress, number }));
                (queue.last_value, queue.written, queue.freed) = (0, 0, 0);
                queue.in_flight.clear();
                if last && !queue.user && self.phase == Phase::Setup {
                    self.phase = Phase::Working;
                }
            }
            (Op::Doorbell { queue }, Reply::Doorbell(made)) => {
                self.queues[queue].bell = Some(Bell::new(self.link().as_ref(), &made)?);
            }
            (Op::Connect { queue }, Reply::DoorbellConnected { .. }) => {
                if queue + 1 == self.queues.len() && self.phase == Phase::Setup {
                    self.phase = Phase::Working;
                }
            }
            (Op::DestroyQueue { queue }, Reply::Done) => self.queue_gone(queue),
            (
                Op::FreeSecond { .. }
                | Op::Unlock { .. }
                | Op::KernelWait { .. }
                | Op::KernelCommand { .. }
                | Op::KernelSignal { .. }
                | Op::SignalCpu { .. },
                Reply::Done,
            ) => {}
            (op, reply) => return Err(format!("{op:?} answered {reply:?}")),
        }
        Ok(())
    }

    /// Unfinished work of a destroyed queue is lost: the content that it wrote is unknown, and the CPU gives its signals.
    fn queue_gone(&mut self, queue: usize) {
        let handle = self.queues[queue].handle;
        self.dead_handles.push(handle);
        let reached = self.queues[queue].reached;
        for surface in self.surfaces.iter_mut().flatten() {
            if surface.uses[queue] > reached {
                surface.content = Content::Unknown;
            }
            surface.uses[queue] = 0;
            for mapping in [&mut surface.va, &mut surface.second].into_iter().flatten() {
                mapping.uses[queue] = 0;
            }
        }
        for fence in self.fences.iter_mut().flatten() {
            fence.uses[queue] = 0;
            if fence.owner == Owner::Queue(queue) && fence.local.is_some() {
                // The CPU cannot: its next queue begins anew.
                (fence.signalled, fence.local) = (0, Some(false));
            } else if fence.owner == Owner::Queue(queue) {
                fence.owner = Owner::Cpu;
                fence.promised = fence.promised.max(fence.signalled);
            }
        }
        self.sums.retain(|sum| sum.queue != queue);
        self.tiles_unused(queue);
        let gone = &mut self.queues[queue];
        (gone.progress, gone.bell, gone.last_value) = (None, None, 0);
        gone.in_flight.clear();
    }

    /// Its fence goes when it is drained; everything that was awaited on it has been reached before.
    fn paging_gone(&mut self) {
        for surface in self.surfaces.iter_mut().flatten() {
            surface.resident_at = 0;
            for mapping in [&mut surface.va, &mut surface.second].into_iter().flatten() {
                mapping.at = 0;
            }
        }
        self.dead_handles.extend(self.paging.take().map(|paging| paging.handle));
    }

    fn device_gone(&mut self) {
        self.dead_handles.push(self.device);
        self.dead_handles.extend(self.surfaces.iter().flatten().map(|surface| surface.handle));
        (self.paging, self.report, self.guilty) = (None, None, false);
        self.tiles = None;
        self.queues.clear();
        self.surfaces.clear();
        self.fences.clear();
        self.sums.clear();
        self.plan.clear();
        if self.lives_left == 0 {
            self.plan.push_back(Op::Die);
            return;
        }
        self.lives_left -= 1;
        self.steps_left = 10 + self.random.below(30);
        self.phase = Phase::Setup;
        self.plan_setup();
    }
}
