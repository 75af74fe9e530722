//! The plan of a process: its setup, its actions, its end.

mod hostile;

use kmt_calls::{
    AllocationRequest, Call, DeviceCall, EvictFlags, MakeResidentFlags, QueueCall, QueueFlags, ResourceRequest,
    SignalFlags, SyncCall, WaitFlags,
};
use softgpu_spec::private_data::Kind;
use wddm_types::{GpuVa, NodeId, RawHandle};

use crate::process::Process;
use crate::process::issue::{Op, Point, destroy_allocation};
use crate::process::model::{Owner, Phase, QUEUES_MAX, Queue, Wish};
use crate::process::submission::{Job, Wild};

/// Byte offset of the checksums in the report.
pub(super) const REPORT_SUMS: u64 = 1024;
/// Bytes of the report.
const REPORT_BYTES: u64 = 4096;
/// Surfaces to work with.
const SURFACES: usize = 8;
/// Fences of one process.
const FENCES: usize = 4;
/// How often the CPU looks at most at what it has locked.
const LOOKS_MAX: u64 = 12;
/// Most pages of a surface.
pub(super) const PAGES_MAX: u64 = 48;

impl Process {
    /// Plans a device with its queues.
    pub(super) fn plan_setup(&mut self) {
        self.plan.extend([Op::Device, Op::PagingQueue]);
        let count = 1 + self.random.index(QUEUES_MAX);
        self.surfaces.resize_with(1 + count + SURFACES, || None);
        self.fences.resize_with(FENCES, || None);
        self.report = Some(0);
        self.plan_pinned(0, REPORT_BYTES);
        for index in 0..count {
            let user = self.random.chance(65);
            let memory = 1 + index;
            self.plan_pinned(memory, 8192);
            self.queues.push(Queue {
                user,
                // CAST: a node's number.
                node: self.random.below(2) as u16,
                memory,
                context: RawHandle::NONE,
                handle: RawHandle::NONE,
                progress: None,
                reached: 0,
                bell: None,
                last_value: 0,
                written: 0,
                freed: 0,
                in_flight: Default::default(),
            });
            self.plan.push_back(Op::Context { queue: index });
            self.plan_queue(index);
        }
    }

    fn plan_pinned(&mut self, slot: usize, bytes: u64) {
        let wish = Wish { kind: Kind::System, bytes, visible: true, physical: false };
        self.plan.extend([
            Op::Create { slot, wish, pinned: true },
            Op::Map { slot, second: false },
            Op::Resident { slots: vec![slot], tries: 0 },
            Op::AwaitPaging { slots: vec![slot] },
            Op::Lock { slot },
        ]);
    }

    fn plan_queue(&mut self, queue: usize) {
        self.plan.push_back(Op::Queue { queue });
        if self.queues[queue].user {
            self.plan.extend([Op::Doorbell { queue }, Op::Connect { queue }]);
        }
    }

    /// Draws the next action into an empty plan.
    pub(super) fn choose(&mut self) {
        if self.working() && self.steps_left > 0 {
            self.steps_left -= 1;
            self.draw();
        } else {
            self.phase = Phase::Ending;
            self.plan_ending();
        }
    }

    fn draw(&mut self) {
        if self.habits.tiles && self.random.chance(20) {
            return self.plan_tiles();
        }
        match self.random.below(100) {
            0..12 => self.plan_surface(),
            12..54 => self.plan_work(),
            54..64 => self.plan_evict(),
            64..71 => self.plan_cpu(),
            71..75 => self.plan_second_address(),
            75..79 => self.plan_fence(),
            79..83 => self.plan_background(),
            83..85 => self.plan_fence_end(),
            85..88 => self.plan_surface_end(),
            88..90 => self.plan_queue_end(),
            90..95 => {
                let (call, why) = self.hostile_call();
                self.plan.push_back(Op::Hostile { call: Box::new(call), why });
            }
            95 => self.plan_paging_end(),
            96 => self.plan.extend([Op::QueryMemory, Op::State]),
            97 if self.hostile => self.plan_wild(),
            98 if self.hostile => self.plan.push_back(if self.random.chance(50) { Op::DestroyDevice } else { Op::Die }),
            _ => self.plan_await_all(),
        }
    }

    fn slots(&self, wanted: impl Fn(&crate::process::model::Surface) -> bool) -> Vec<usize> {
        let found =
            |slot: &usize| self.surfaces[*slot].as_ref().is_some_and(|surface| !surface.pinned && wanted(surface));
        (0..self.surfaces.len()).filter(found).collect()
    }

    fn some_of(&mut self, mut slots: Vec<usize>, count: u64) -> Vec<usize> {
        let wanted = 1 + self.random.below(count) as usize;
        while slots.len() > wanted {
            let at = self.random.index(slots.len());
            slots.swap_remove(at);
        }
        slots
    }

    fn plan_surface(&mut self) {
        let first = 1 + self.queues.len();
        let Some(slot) = (first..self.surfaces.len()).find(|slot| self.surfaces[*slot].is_none()) else { return };
        let kind = match self.random.below(10) {
            0..6 => Kind::Local,
            6..8 => Kind::LocalThenSystem,
            _ => Kind::System,
        };
        let mut bytes = 4096 * (1 + self.random.below(PAGES_MAX)) - 8 * self.random.below(512);
        if self.habits.whole && self.random.chance(70) {
            bytes = bytes.next_multiple_of(65536);
        }
        let wish = Wish {
            kind,
            bytes,
            visible: kind == Kind::System || self.random.chance(50),
            physical: self.random.chance(self.habits.physical_percent),
        };
        self.plan.extend([Op::Create { slot, wish, pinned: false }, Op::Map { slot, second: false }]);
    }

    fn plan_work(&mut self) {
        let slots = self.slots(|surface| surface.va.is_some() && surface.lock.is_none());
        if slots.is_empty() {
            return self.plan_surface();
        }
        let slots = self.some_of(slots, 3);
        let queue = self.random.index(self.queues.len());
        let again = self.random.chance(10);
        let missing: Vec<usize> =
            slots.iter().copied().filter(|slot| again || self.surface(*slot).count == 0).collect();
        if !missing.is_empty() {
            self.plan.push_back(Op::Resident { slots: missing, tries: 2 });
        }
        if self.random.chance(25) {
            self.plan.push_back(Op::AwaitPaging { slots: slots.clone() });
        }
        let (signal, wait) = (self.a_fence(40, |fence| fence.owner == Owner::Queue(queue)), self.waitable(queue));
        self.plan.push_back(Op::Submit(Job { queue, slots: slots.clone(), signal, wait, wild: None }));
        if self.random.chance(45) {
            let lazily = self.random.chance(60);
            self.plan.push_back(Op::Evict { slots, lazily });
        }
        if self.random.chance(15) {
            self.plan.push_back(Op::AwaitQueue { queue, value: u64::MAX });
        }
    }

    fn a_fence(&mut self, percent: u64, wanted: impl Fn(&crate::process::model::Fence) -> bool) -> Option<usize> {
        let found: Vec<usize> =
            (0..self.fences.len()).filter(|slot| self.fences[*slot].as_ref().is_some_and(&wanted)).collect();
        (!found.is_empty() && self.random.chance(percent)).then(|| *self.random.pick(&found))
    }

    /// A fence that a queue may wait for without waiting for itself.
    fn waitable(&mut self, queue: usize) -> Option<usize> {
        self.a_fence(25, |fence| fence.owner != Owner::Queue(queue))
    }

    fn plan_evict(&mut self) {
        let slots = self.slots(|surface| surface.count > 0);
        if !slots.is_empty() {
            let slots = self.some_of(slots, 3);
            let lazily = self.random.chance(60);
            self.plan.push_back(Op::Evict { slots, lazily });
        }
    }

    /// The CPU looks into a surface that the GPU has finished with.
    fn plan_cpu(&mut self) {
        let slots =
            self.slots(|surface| surface.wish.visible && (surface.count == 0 || surface.wish.kind == Kind::System));
        if slots.is_empty() {
            return;
        }
        let slot = *self.random.pick(&slots);
        self.plan_idle(self.surface(slot).uses);
        let times = if self.habits.lingers { 1 + self.random.below(LOOKS_MAX) } else { 1 };
        self.plan.push_back(Op::Lock { slot });
        self.plan.extend((0..times).map(|_| Op::CpuWork { slot }));
        self.plan.push_back(Op::Unlock { slot });
    }

    pub(super) fn plan_idle(&mut self, uses: [u64; QUEUES_MAX]) {
        let queues = (0..self.queues.len()).filter(|queue| uses[*queue] > 0);
        self.plan.extend(queues.map(|queue| Op::AwaitQueue { queue, value: uses[queue] }));
    }

    fn plan_await_all(&mut self) {
        self.plan.extend((0..self.queues.len()).map(|queue| Op::AwaitQueue { queue, value: u64::MAX }));
    }

    fn plan_second_address(&mut self) {
        let slots = self.slots(|surface| surface.va.is_some());
        if slots.is_empty() {
            return;
        }
        let slot = *self.random.pick(&slots);
        match self.surface(slot).second {
            None => self.plan.push_back(Op::Map { slot, second: true }),
            Some(mapping) => {
                self.plan_idle(mapping.uses);
                self.plan.push_back(Op::FreeSecond { slot });
            }
        }
    }

    fn plan_fence(&mut self) {
        if let Some(slot) = self.fences.iter().position(Option::is_none) {
            let owner =
                if self.random.chance(40) { Owner::Cpu } else { Owner::Queue(self.random.index(self.queues.len())) };
            let percent = self.habits.local_words_percent;
            let local = percent > 0 && owner != Owner::Cpu && self.random.chance(percent);
            self.plan.push_back(Op::Fence { slot, owner, local });
        }
    }

    fn plan_background(&mut self) {
        let waitable = |slot: &usize| self.fences[*slot].is_some_and(|fence| fence.local.is_none());
        let alive: Vec<usize> = (0..self.fences.len()).filter(waitable).collect();
        if alive.is_empty() {
            return self.plan_fence();
        }
        let chosen = self.some_of(alive, 3);
        let any = self.random.chance(40);
        let mut points = Vec::new();
        for slot in chosen {
            let (ahead, now) = (self.random.below(3), self.fence_value(slot));
            let fence = self.fences[slot].as_mut().expect("alive");
            let value = match fence.owner {
                Owner::Cpu => {
                    fence.promised = fence.promised.max(now) + ahead;
                    fence.promised
                }
                Owner::Queue(queue) => {
                    let job = Job { queue, slots: Vec::new(), signal: Some(slot), wait: None, wild: None };
                    self.plan.extend((0..ahead).map(|_| Op::Submit(job.clone())));
                    fence.signalled + ahead
                }
            };
            points.push(Point { handle: fence.made.fence, number: fence.number, value });
        }
        self.plan.push_front(Op::Background { points, any });
    }

    fn plan_fence_end(&mut self) {
        let Some(slot) = self.a_fence(100, |_| true) else { return };
        self.plan.push_back(Op::SignalCpu { fence: slot });
        self.plan_idle(self.fences[slot].expect("chosen").uses);
        self.plan.push_back(Op::DestroyFence { fence: slot });
    }

    fn plan_surface_end(&mut self) {
        let slots = self.slots(|surface| surface.lock.is_none());
        if !slots.is_empty() {
            let slot = *self.random.pick(&slots);
            self.plan.push_back(Op::Destroy { slot });
        }
    }

    /// Destroys a queue in the middle of its work, once no other queue waits for it, and makes it anew.
    fn plan_queue_end(&mut self) {
        let queue = self.random.index(self.queues.len());
        self.plan_promises();
        let others = (0..self.queues.len()).filter(|other| *other != queue);
        self.plan.extend(others.map(|queue| Op::AwaitQueue { queue, value: u64::MAX }));
        self.plan.push_back(Op::DestroyQueue { queue });
        self.plan_queue(queue);
    }

    /// Changes to another paging queue while the old one may still have evictions to carry out.
    fn plan_paging_end(&mut self) {
        self.plan_promises();
        self.plan_await_all();
        let slots = (0..self.surfaces.len()).filter(|slot| self.surfaces[*slot].is_some()).collect();
        self.plan.push_back(Op::AwaitPaging { slots });
        self.plan_evict();
        self.plan.extend([Op::DestroyPagingQueue, Op::PagingQueue]);
    }

    fn plan_promises(&mut self) {
        let owed = (0..self.fences.len()).filter(|slot| self.fences[*slot].is_some());
        self.plan.extend(owed.map(|fence| Op::SignalCpu { fence }));
    }

    fn plan_wild(&mut self) {
        let wild = *self.random.pick(&[Wild::Address, Wild::Command, Wild::Privileged, Wild::ReadOnly]);
        let queue = self.random.index(self.queues.len());
        self.plan.push_back(Op::Submit(Job { queue, slots: Vec::new(), signal: None, wait: None, wild: Some(wild) }));
    }

    /// Gives everything back in one of several ways, and dies.
    fn plan_ending(&mut self) {
        if self.device == RawHandle::NONE {
            return self.plan.push_back(Op::Die);
        }
        self.plan_promises();
        self.plan_await_all();
        match self.random.below(4) {
            0 => self.plan.push_back(Op::Die),
            1 | 2 => self.plan.push_back(Op::DestroyDevice),
            _ => {
                let queues = (0..self.queues.len()).filter(|queue| self.queues[*queue].progress.is_some());
                self.plan.extend(queues.map(|queue| Op::DestroyQueue { queue }));
                let fences = (0..self.fences.len()).filter(|slot| self.fences[*slot].is_some());
                self.plan.extend(fences.map(|fence| Op::DestroyFence { fence }));
                let surfaces = (0..self.surfaces.len()).filter(|slot| self.surfaces[*slot].is_some());
                self.plan.extend(surfaces.map(|slot| Op::Destroy { slot }));
                self.plan.push_back(Op::DestroyDevice);
            }
        }
    }

    /// A call that a device in error refuses.
    pub(super) fn harmless_call(&self) -> Call {
        Call::Device(DeviceCall::CreatePagingQueue { device: self.device, priority: 0, physical_adapter: 0 })
    }
}
