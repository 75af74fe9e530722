//! An engine: which of its queues runs next, and one command of it, from fetch to retirement. The same code runs in both
//! kinds of time: a thread calls [`EngineState::step`] in a loop ([`crate::threads`]), a tick calls [`EngineState::begin`]
//! and, when the command's time is over, [`EngineState::perform`] ([`crate::ticking`]).
//!
//! The holder of its lock owns the state: the engine's thread for as long as no register access asks, else the one that has asked
//! ([`EngineFace::ask`]). So the path from command to command takes no lock.
//!
//! ```text
//! queue:  (woken) ──► active ──► empty for `patience` looks ──► asleep: the doorbell's second word says so
//!            ▲           │ wait unsatisfied: parked by the CMP ─┐ fault: out until enabled again
//!            └───────────┴────────── ring, unpark, enable ◄─────┘
//! ```

mod choice;
mod face;
mod idle;
mod preemption;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use device_port::Unit;
use engine_time::Policy;
use shared_words::Memory;
use softgpu_spec::register::{queue_state, record};
use softgpu_spec::{Command, QUEUE_COUNT};

use crate::active::Active;
use crate::bus::Fault;
use crate::device::SoftGpu;
use crate::execute::{Execution, Outcome};
use crate::interrupt::Record;
use crate::mmu::{Flush, Mmu};
use crate::queue::{QueueRun, QueueSetup};
use crate::reads::Reads;
use crate::ring::Scratch;
use crate::scheduling_log::SchedulingLog;
use crate::sharing::Sharing;
use crate::wires::Wires;

pub(crate) use face::EngineFace;

/// An engine as a unit with a store buffer.
pub(crate) const fn unit(engine: usize) -> Unit {
    // CAST: engines are counted in ones.
    Unit::Engine(engine as u32)
}

/// The command under way.
pub(crate) struct Flight {
    /// The queue that it belongs to.
    pub(crate) queue: usize,
    /// Its length.
    pub(crate) words: usize,
    /// Bytes or elements done.
    pub(crate) progress: u64,
    /// The sum of a checksum so far.
    pub(crate) sum: u64,
    /// Virtual time: when it began.
    pub(crate) begun: u64,
    /// Virtual time: when it ends.
    pub(crate) end: u64,
    /// A trace has been told of its begin.
    pub(crate) traced: bool,
}

/// The result of a step.
pub(crate) enum Step {
    /// A command, or part of one, or it looked for one.
    Went,
    /// Nothing, and every queue sleeps.
    Idle,
    /// A command that asks every engine to forget translations; not yet done.
    Flush(Flush),
}

/// The side of an engine that one party owns at a time.
pub(crate) struct EngineState {
    pub(crate) enabled: bool,
    pub(crate) mmu: Mmu,
    pub(crate) queues: Vec<Option<QueueRun>>,
    /// Suspended queues, by number.
    shelf: BTreeMap<u32, QueueRun>,
    pub(crate) flight: Option<Flight>,
    scratch: Box<Scratch>,
    active: Active,
    /// The queue that executed last.
    last: usize,
    /// The rule by which the engine chooses where several queues want to run.
    pub(crate) sharing: Sharing,
    /// Virtual time: the transfers that it has issued on a duplex bus.
    pub(crate) wires: Wires,
    /// Virtual time: what the work that it has begun last reads in place.
    pub(crate) reads: Reads,
    /// Virtual time: how many commands in a row took none by the cost model.
    pub(crate) timeless: u32,
    /// The log of the owners that it runs.
    pub(crate) log: SchedulingLog,
    /// How many queues have a parked wait at their head.
    pub(crate) waiting: u32,
    /// It has no clock.
    pub(crate) gated: bool,
    idle: idle::Idle,
    /// Since when nothing but waits was left, in device time.
    pub(crate) starved_since: Option<u64>,
}

impl EngineState {
    fn new() -> EngineState {
        EngineState {
            enabled: false,
            mmu: Mmu::new(),
            queues: (0..QUEUE_COUNT).map(|_| None).collect(),
            shelf: BTreeMap::new(),
            flight: None,
            scratch: Box::new([0; softgpu_spec::command::WORDS_MAX]),
            active: Active::default(),
            last: 0,
            sharing: Sharing::new(Policy::default()),
            wires: Wires::default(),
            reads: Reads::default(),
            timeless: 0,
            log: SchedulingLog::default(),
            waiting: 0,
            gated: false,
            idle: idle::Idle::default(),
            starved_since: None,
        }
    }

    /// Takes a queue over; one that sleeps is not looked at before it is rung.
    pub(crate) fn attach(&mut self, number: u32, setup: QueueSetup, sleeps: bool) {
        self.queues[number as usize] = Some(QueueRun::new(number, setup, sleeps));
        self.sharing.changed();
    }

    /// Lets a queue go. A command under way is finished first, or left where it is if `abandon`; a wait just ends.
    pub(crate) fn detach(&mut self, gpu: &SoftGpu, engine: usize, number: u32, abandon: bool) -> Option<Flush> {
        self.shelf.remove(&number);
        let (flush, _) = self.take_out(gpu, engine, number, abandon);
        flush
    }

    /// Sets a queue aside with its place in its ring.
    pub(crate) fn shelve(&mut self, gpu: &SoftGpu, engine: usize, number: u32, abandon: bool) -> Option<Flush> {
        let (flush, queue) = self.take_out(gpu, engine, number, abandon);
        if let Some(mut queue) = queue {
            queue.set_aside();
            self.shelf.insert(number, queue);
        }
        flush
    }

    /// Takes a queue from the shelf again.
    pub(crate) fn unshelve(&mut self, number: u32, root: u64) {
        if let Some(mut queue) = self.shelf.remove(&number) {
            queue.root = root;
            self.queues[number as usize] = Some(queue);
        }
    }

    /// A queue listens to another doorbell, set aside or not. Whether it has something to do.
    pub(crate) fn listen(&mut self, doorbells: &Memory, number: u32, doorbell: u32) -> bool {
        let attached = self.queues[number as usize].as_mut().or(self.shelf.get_mut(&number));
        attached.is_some_and(|queue| queue.listen(doorbells, doorbell))
    }

    fn take_out(
        &mut self,
        gpu: &SoftGpu,
        engine: usize,
        number: u32,
        abandon: bool,
    ) -> (Option<Flush>, Option<QueueRun>) {
        let mut flush = None;
        if self.flight.as_ref().is_some_and(|flight| flight.queue == number as usize) {
            let waits = matches!(Command::decode(&self.scratch[..]), Ok((Command::Wait { .. }, _)));
            while !abandon && !waits && self.flight.is_some() {
                if let Step::Flush(wanted) = self.perform(gpu, engine) {
                    flush = Some(wanted);
                }
            }
            // A command that is cut short has taken its time all the same.
            gpu.queues[number as usize].busy_ns.add(self.under_way_ns(gpu, number as usize));
            self.flight = None;
        }
        let queue = self.queues[number as usize].take();
        self.log_schedule(gpu, engine);
        self.waiting -= queue.as_ref().map_or(0, |queue| u32::from(queue.parked));
        self.active.remove(number as usize);
        gpu.forget_parked(number);
        if let Some(queue) = &queue {
            gpu.queues[number as usize].nested_words.store(queue.nested_words(), Ordering::Release);
        }
        (flush, queue)
    }

    /// One command of one queue, or a part of a long one.
    #[inline]
    pub(crate) fn step(&mut self, gpu: &SoftGpu, engine: usize) -> Step {
        if self.flight.is_none() && !self.begin(gpu, engine) {
            // Without a clock it looks at nothing until it is roused.
            if self.active.is_empty() || self.gated {
                return Step::Idle;
            }
            // Between two looks the store that is looked for gets its line without a fight.
            std::hint::spin_loop();
            return Step::Went;
        }
        self.perform(gpu, engine)
    }

    /// Chooses a queue and fetches its next command. False when there is none.
    #[inline(always)]
    pub(crate) fn begin(&mut self, gpu: &SoftGpu, engine: usize) -> bool {
        while let Some(at) = self.pick(gpu, engine) {
            self.end_starvation(gpu, engine);
            let queue = self.queues[at].as_mut().expect("an active queue is attached");
            match queue.fetch(&gpu.bus, &mut self.mmu, &mut self.scratch) {
                Ok(words) => {
                    self.flight =
                        Some(Flight { queue: at, words, progress: 0, sum: 0, begun: 0, end: 0, traced: false });
                    self.log_schedule(gpu, engine);
                    if gpu.is_virtual() || gpu.is_probed() {
                        self.announce(gpu, engine);
                    }
                    return true;
                }
                Err(fault) => self.fault(gpu, at, fault),
            }
        }
        self.begin_starvation(gpu);
        self.log_schedule(gpu, engine);
        false
    }

    /// The queues that are looked at.
    pub(crate) fn active_queues(&self) -> impl Iterator<Item = usize> + '_ {
        self.active.iter()
    }

    /// Executes the command under way, or a part of it, and retires it.
    #[inline(always)]
    pub(crate) fn perform(&mut self, gpu: &SoftGpu, engine: usize) -> Step {
        let flight = self.flight.as_mut().expect("a command under way");
        let at = flight.queue;
        let queue = self.queues[at].as_mut().expect("its queue is attached");
        let words = &self.scratch[..flight.words];
        let alone = self.active.is_only(at);
        let face = &gpu.engines[engine];
        let mut execution = Execution {
            gpu,
            face,
            unit: unit(engine),
            mmu: &mut self.mmu,
            queue,
            flight,
            alone,
            waiting: &mut self.waiting,
        };
        let outcome = execution.execute(words);
        match outcome {
            Ok(Outcome::Done) => {
                self.retire(gpu, engine);
                self.give_way(gpu, engine, at);
                Step::Went
            }
            Ok(Outcome::Flush(flush)) => {
                self.retire(gpu, engine);
                self.give_way(gpu, engine, at);
                Step::Flush(flush)
            }
            Ok(Outcome::Nested) => {
                self.flight = None;
                self.give_way(gpu, engine, at);
                Step::Went
            }
            Ok(Outcome::Again) => Step::Went,
            Ok(Outcome::Parked) => {
                self.flight = None;
                self.active.remove(at);
                Step::Went
            }
            Err(fault) => {
                gpu.trace_end(engine, at as u32, self.flight.take());
                self.fault(gpu, at, fault);
                Step::Went
            }
        }
    }

    /// The words of the command under way.
    pub(crate) fn command_words(&self) -> &[u64] {
        &self.scratch[..self.flight.as_ref().map_or(0, |flight| flight.words)]
    }

    #[inline(always)]
    fn retire(&mut self, gpu: &SoftGpu, engine: usize) {
        let flight = self.flight.take().expect("a command under way");
        let queue = self.queues[flight.queue].as_mut().expect("its queue is attached");
        if queue.retire(flight.words as u64) {
            gpu.queues[flight.queue].read_pointer.store(queue.read, Ordering::Release);
        }
        if flight.traced {
            gpu.trace_end(engine, flight.queue as u32, Some(flight));
        }
    }

    /// Stops a queue and reports why.
    fn fault(&mut self, gpu: &SoftGpu, at: usize, fault: Fault) {
        self.active.remove(at);
        if let Some(queue) = self.queues[at].as_mut() {
            // A driver that asked for preemption is told of the fault, and asks again where the queue goes on.
            queue.preempt = false;
            gpu.queues[at].nested_words.store(queue.nested_words(), Ordering::Release);
        }
        gpu.queues[at].state.store(queue_state::FAULTED, Ordering::Release);
        let cause = fault.cause | u64::from(fault.level) << 8;
        let fields = [at as u64, fault.address, cause];
        gpu.trace_fault(at as u32, fault);
        gpu.interrupts.raise(Record { kind: record::FAULT, fields });
    }

    fn begin_starvation(&mut self, gpu: &SoftGpu) {
        if self.waiting != 0 && self.starved_since.is_none() {
            self.starved_since = Some(gpu.now());
        }
    }

    #[inline]
    fn end_starvation(&mut self, gpu: &SoftGpu, engine: usize) {
        if let Some(since) = self.starved_since.take() {
            gpu.engines[engine].counters.wait_ns.add(gpu.now().saturating_sub(since));
        }
    }
}
