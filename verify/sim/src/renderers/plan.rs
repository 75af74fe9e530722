//! The plan of a client: its setup, its work, its end.

use kmt_calls::LockFlags;
use softgpu_spec::Command;
use softgpu_spec::private_data::Kind;
use wddm_types::{GpuVa, RawHandle};

use super::client::{Client, Op};
use super::listing::Listing;
use super::model::{Base, Content, Context, Surface};

/// Slot of the surface to which checks report.
pub const REPORT: usize = 0;
const REPORT_BYTES: u64 = 4096;
/// Contexts of a client at most.
const CONTEXTS_MAX: u64 = 3;
/// Surfaces to work with.
const SURFACES: usize = 6;
/// Most pages of a surface.
const PAGES_MAX: u64 = 40;
/// Commands of a buffer at most.
const COMMANDS_MAX: u64 = 6;
/// Bytes that such a buffer has room in: no command has more than six words, and a check may follow each.
const BUFFER_BYTES: u64 = 1024;
/// Buffers that lie beside each other at addresses: so many submissions may be under way.
const BUFFERS: u64 = 32;
/// The copy engine's node, where paging is, too.
const COPY: u16 = 1;

/// One submission: its words, and what it will have left.
#[derive(Clone, Debug)]
pub struct Job {
    pub at: usize,
    pub listing: Listing,
    pub leaves: Vec<(usize, Content)>,
    /// Where its words lie in the context's memory, if it has some.
    pub offset: u64,
}

impl Client {
    /// Plans contexts with their progress, and the report.
    pub(super) fn plan_setup(&mut self) {
        let count = 1 + self.random.below(CONTEXTS_MAX) as usize;
        self.surfaces.resize_with(1 + count + SURFACES, || None);
        for at in 0..count {
            let addressed = self.cpu_addresses || !self.first_generation && self.random.chance(50);
            let node = if self.random.chance(70) { COPY } else { 0 };
            let (handle, progress) = (RawHandle::NONE, None);
            self.contexts.push(Context { node, addressed, handle, progress, last: 0, memory: 1 + at });
            self.plan.extend([Op::Context { at }, Op::Progress { at }]);
            if addressed {
                self.plan_pinned(1 + at, BUFFERS * BUFFER_BYTES);
                self.plan.push_back(Op::Lock { slot: 1 + at, flags: None });
            }
            if self.random.chance(80) {
                let priority = self.in_process_priority();
                self.plan.push_back(Op::Priority { at, priority });
            }
        }
        self.plan_pinned(REPORT, REPORT_BYTES);
    }

    fn plan_pinned(&mut self, slot: usize, bytes: u64) {
        self.plan.push_back(Op::Create { slot, kind: Kind::System, bytes, home: 0, pinned: true });
        if !self.first_generation {
            let slots = vec![slot];
            self.plan_map(slot);
            self.plan.extend([Op::Resident { slots }, Op::AwaitPaging { slot }]);
        }
    }

    /// An address for a surface that does not come with one.
    fn plan_map(&mut self, slot: usize) {
        if !self.cpu_addresses {
            self.plan.push_back(Op::Map { slot });
        }
    }

    fn in_process_priority(&mut self) -> i32 {
        // CAST: below 15.
        self.random.below(15) as i32 - 7
    }

    /// Draws the next action into an empty plan.
    pub(super) fn choose(&mut self) {
        if self.steps_left == 0 {
            return self.plan_ending();
        }
        self.steps_left -= 1;
        match self.random.below(100) {
            0..12 => self.plan_surface(),
            12..62 => self.plan_work(),
            62..67 => self.plan_evict(),
            67..78 => self.plan_cpu(),
            78..84 => {
                let (at, priority) = (self.random.index(self.contexts.len()), self.in_process_priority());
                self.plan.push_back(Op::Priority { at, priority });
            }
            84..86 => {
                // CAST: below 3.
                let class = 1 + self.random.below(3) as u32;
                self.plan.push_back(Op::Class(class));
            }
            86..90 => self.plan_order(),
            90..92 => self.plan_context_end(),
            92..95 => self.plan_surface_end(),
            95..97 => self.plan_report(),
            97 if self.random.chance(15) => self.plan.push_back(Op::Die),
            _ => self.plan_await_all(),
        }
        if self.plan.is_empty() {
            self.plan_await_all();
        }
    }

    pub(super) fn slots(&self, wanted: impl Fn(&Surface) -> bool) -> Vec<usize> {
        let found = |slot: &usize| self.surfaces[*slot].as_ref().is_some_and(|of| !of.pinned && wanted(of));
        (0..self.surfaces.len()).filter(found).collect()
    }

    fn plan_surface(&mut self) {
        let first = 1 + self.contexts.len();
        let Some(slot) = (first..self.surfaces.len()).find(|slot| self.surfaces[*slot].is_none()) else { return };
        let kind = match self.random.below(10) {
            0..6 => Kind::Local,
            6..8 => Kind::LocalThenSystem,
            _ => Kind::System,
        };
        let bytes = 4096 * (1 + self.random.below(PAGES_MAX));
        let home = self.random.index(self.contexts.len());
        self.plan.push_back(Op::Create { slot, kind, bytes, home, pinned: false });
        if self.contexts[home].addressed {
            self.plan_map(slot);
        }
    }

    /// Some buffers for one of the contexts, one behind the other.
    fn plan_work(&mut self) {
        self.plan_work_beside(None);
    }

    /// The same without a surface that will be locked by then.
    fn plan_work_beside(&mut self, locked: Option<usize>) {
        let at = self.random.index(self.contexts.len());
        let slots = self.workable(at, locked);
        if slots.is_empty() {
            return self.plan_surface();
        }
        let count = if self.random.chance(40) { 2 + self.random.below(4) } else { 1 };
        self.plan.extend((0..count).map(|_| Op::Work { at, locked }));
        if self.random.chance(40) {
            let lazily = self.random.chance(40);
            self.plan.push_back(Op::EvictListed { slots, lazily });
        }
    }

    /// Surfaces that a context may be told to use.
    fn workable(&self, at: usize, locked: Option<usize>) -> Vec<usize> {
        let mapped = |of: &Surface| !self.contexts[of.home].addressed || of.va != GpuVa::NULL;
        let mut slots = self.slots(|of| of.home == at && of.lock.is_none() && mapped(of));
        slots.retain(|slot| Some(*slot) != locked);
        slots
    }

    /// A buffer for a context, and before it what it needs to be resident.
    pub(super) fn plan_buffer(&mut self, at: usize, locked: Option<usize>) {
        let slots = self.workable(at, locked);
        if slots.is_empty() {
            return;
        }
        let missing: Vec<usize> = slots.iter().copied().filter(|slot| self.surface(*slot).count == 0).collect();
        let lists = !self.first_generation || self.random.chance(10);
        if lists && !missing.is_empty() {
            // The buffer is made when what it names is on the list.
            self.plan.push_front(Op::Work { at, locked });
            return self.plan.push_front(Op::Resident { slots: missing });
        }
        let job = self.job(at, &slots);
        self.plan.push_front(Op::Submit(job));
        if self.contexts[at].addressed {
            let oldest = (self.contexts[at].last + 1).saturating_sub(BUFFERS);
            self.plan.push_front(Op::Await { at, value: oldest });
            let ready = slots.iter().map(|slot| self.surface(*slot).ready_at).max().unwrap_or(0);
            if self.paging_reached() < ready {
                self.plan.push_front(Op::GpuWaitPaging { at, value: ready });
            }
        }
    }

    /// Some commands on some of these surfaces.
    fn job(&mut self, at: usize, slots: &[usize]) -> Job {
        let offset = self.contexts[at].last % BUFFERS * BUFFER_BYTES;
        let mut job = Job { at, listing: Listing::new(), leaves: Vec::new(), offset };
        for _ in 0..1 + self.random.below(COMMANDS_MAX) {
            let slot = *self.random.pick(slots);
            let held = job.holds(self, slot);
            let left = self.command(&mut job, slot, slots, held);
            job.leaves.retain(|(known, _)| *known != slot);
            job.leaves.push((slot, left));
            if self.random.chance(25) {
                self.check(&mut job, slot, left);
            }
        }
        job
    }

    /// One command that changes a surface; says what it leaves.
    fn command(&mut self, job: &mut Job, slot: usize, slots: &[usize], held: Content) -> Content {
        self.next_seed += 1;
        let (seed, roll) = (self.next_seed, self.random.below(100));
        let (va, handle) = self.operand(job.at, slot);
        let bytes = self.surface(slot).bytes;
        let from = *self.random.pick(slots);
        let source = (from != slot && self.surface(from).bytes >= bytes).then(|| job.holds(self, from));
        match source.filter(|content| content.base != Base::Unknown) {
            Some(content) if roll < 20 => {
                let (source_va, source) = self.operand(job.at, from);
                let command = Command::Copy { source_va, target_va: va, bytes };
                job.listing.push(&command, &[(1, source, false), (2, handle, true)]);
                job.leaves.push((from, content));
                content
            }
            _ if roll < 35 || held.base == Base::Unknown => {
                job.listing.push(&Command::Pattern { va, bytes, seed }, &[(1, handle, true)]);
                Content::fresh(Base::Seed(seed))
            }
            _ if roll < 45 => {
                // CAST: any 32 bits will do.
                job.listing.push(&Command::Fill { va, bytes, pattern: seed as u32 }, &[(1, handle, true)]);
                Content::fresh(Base::Filled(seed as u32))
            }
            _ => {
                job.listing.push(&Command::Touch { va, bytes, write: true, within: false }, &[(1, handle, true)]);
                Content { touched: held.touched + 1, ..held }
            }
        }
    }

    /// A check of what the surface holds then, where the GPU can say it.
    fn check(&mut self, job: &mut Job, slot: usize, held: Content) {
        let Content { base: Base::Seed(seed), touched: 0 } = held else { return };
        let ((va, handle), (report_va, report)) = (self.operand(job.at, slot), self.operand(job.at, REPORT));
        let command = Command::Check { va, bytes: self.surface(slot).bytes, seed, report_va, tag: slot as u64 };
        job.listing.push(&command, &[(1, handle, false), (4, report, true)]);
    }

    /// The name of a surface in a command of a context: an address, or a place in its list.
    fn operand(&self, at: usize, slot: usize) -> (u64, RawHandle) {
        let surface = self.surface(slot);
        (if self.contexts[at].addressed { surface.va.0 } else { 0 }, surface.handle)
    }

    fn plan_evict(&mut self) {
        let slots = self.slots(|surface| surface.count > 0 && surface.lock.is_none());
        if !slots.is_empty() {
            let lazily = self.random.chance(50);
            self.plan.push_back(Op::Evict { slots, lazily });
        }
    }

    /// The CPU looks into a surface: with the lock of its generation.
    fn plan_cpu(&mut self) {
        if self.first_generation {
            return self.plan_legacy_lock();
        }
        let slots = self.slots(|of| of.lock.is_none() && (of.count == 0 || of.kind == Kind::System));
        if slots.is_empty() {
            return;
        }
        let slot = *self.random.pick(&slots);
        let (at, value) = (self.surface(slot).home, self.surface(slot).last_use);
        let write = self.random.chance(40);
        self.plan.extend([Op::Await { at, value }, Op::Lock { slot, flags: None }, Op::CpuWork { slot, write }]);
        self.plan.push_back(Op::Unlock { slot, legacy: false });
    }

    /// The lock of the first generation: it waits for the GPU by itself, or not, as its flags say.
    // spec: memory §6.5
    fn plan_legacy_lock(&mut self) {
        let slots = self.slots(|of| of.lock.is_none());
        if slots.is_empty() {
            return;
        }
        let slot = *self.random.pick(&slots);
        let (at, value) = (self.surface(slot).home, self.surface(slot).last_use);
        let entire = LockFlags::LOCK_ENTIRE;
        // Past what the GPU does with it only what can be in an aperture may be locked, through a range only what can be in
        // memory of the GPU.
        let roll = match self.surface(slot).kind {
            Kind::Local => self.random.below(5),
            Kind::System => 1 + self.random.below(7),
            Kind::LocalThenSystem => self.random.below(8),
        };
        let (flags, write) = match roll {
            0 => (entire | LockFlags::ACQUIRE_APERTURE, self.random.chance(50)),
            1 | 2 => (entire, self.random.chance(50)),
            3 => (entire | LockFlags::DONOT_WAIT, self.random.chance(50)),
            4 => (entire | LockFlags::WRITE_ONLY | LockFlags::DISCARD, true),
            5 => (entire | LockFlags::DONOT_EVICT, self.random.chance(50)),
            6 => (entire | LockFlags::READ_ONLY | LockFlags::IGNORE_READ_SYNC, false),
            _ => {
                self.plan.push_back(Op::Await { at, value });
                (entire | LockFlags::DONOT_WAIT | LockFlags::IGNORE_SYNC, self.random.chance(50))
            }
        };
        self.plan.extend([Op::Lock { slot, flags: Some(flags) }, Op::CpuWork { slot, write }]);
        if self.random.chance(40) {
            // The engines go on beside it.
            self.plan_work_beside(Some(slot));
            self.plan.push_back(Op::CpuWork { slot, write: false });
        }
        self.plan.push_back(Op::Unlock { slot, legacy: true });
    }

    /// Locks that are held, when a plan is given up.
    pub(super) fn plan_unlocks(&mut self) {
        for slot in self.slots(|of| of.lock.is_some()) {
            self.plan.push_back(Op::Unlock { slot, legacy: self.first_generation });
        }
    }

    /// A context goes on behind what another was given.
    fn plan_order(&mut self) {
        let (at, on) = (self.random.index(self.contexts.len()), self.random.index(self.contexts.len()));
        if at != on {
            self.plan.push_back(Op::GpuWait { at, on });
        }
    }

    fn plan_context_end(&mut self) {
        let at = self.random.index(self.contexts.len());
        self.plan.extend([Op::DestroyContext { at }, Op::CatchUp { at }, Op::Context { at }]);
    }

    fn plan_surface_end(&mut self) {
        let slots = self.slots(|surface| surface.lock.is_none());
        if !slots.is_empty() {
            let slot = *self.random.pick(&slots);
            self.plan.push_back(Op::Destroy { slot });
        }
    }

    fn plan_report(&mut self) {
        self.plan_await_all();
        let (slot, legacy) = (REPORT, self.first_generation);
        let flags = legacy.then_some(LockFlags::LOCK_ENTIRE | LockFlags::READ_ONLY);
        self.plan.extend([Op::Lock { slot, flags }, Op::CpuWork { slot, write: false }, Op::Unlock { slot, legacy }]);
    }

    fn plan_await_all(&mut self) {
        self.plan.extend((0..self.contexts.len()).map(|at| Op::Await { at, value: self.contexts[at].last }));
    }

    /// Looks at everything once more, and goes.
    fn plan_ending(&mut self) {
        if std::mem::replace(&mut self.ending, true) {
            if self.random.chance(60) {
                self.plan.push_back(Op::DestroyDevice);
            }
            return self.plan.push_back(Op::Die);
        }
        self.plan_report();
        if !self.first_generation {
            self.plan_evict();
        }
        let legacy = self.first_generation;
        let flags = legacy.then_some(LockFlags::LOCK_ENTIRE);
        for slot in self.slots(|of| of.lock.is_none()) {
            self.plan.extend([Op::Lock { slot, flags }, Op::CpuWork { slot, write: false }]);
            self.plan.push_back(Op::Unlock { slot, legacy });
        }
    }
}

impl Job {
    /// The content of a surface at the end of the job so far.
    fn holds(&self, client: &Client, slot: usize) -> Content {
        let left = self.leaves.iter().rev().find(|(known, _)| *known == slot).map(|(_, content)| *content);
        left.unwrap_or(client.surface(slot).content)
    }
}
