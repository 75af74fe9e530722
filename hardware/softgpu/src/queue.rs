//! A hardware queue: the part that every unit sees ([`QueueFace`]), and the part that only its engine holds while it runs ([`QueueRun`]).
//! The engine decides which queue runs next; [`crate::ring`] reads its commands.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use device_port::Unit;
use engine_time::Contender;
use shared_words::{Memory, Word, doorbell};
use softgpu_spec::doorbell as spec_doorbell;
use softgpu_spec::register::{queue_flags, queue_state};

use crate::counters::Counter;
use crate::device::SoftGpu;
use crate::mmu::Space;
use crate::order::Place;
use crate::ring::{Nested, Window};
use crate::sharing::contender;

/// The side of a queue that registers, the CMP and doorbells reach. Each on lines of its own: an engine stores the read pointer
/// after every command, and queues of two engines that shared a line would take it from each other before each signal.
#[repr(align(128))]
pub(crate) struct QueueFace {
    /// One of [`queue_state`]. DISABLED and back: registers, under the engine's lock. PARKED and back: under the CMP's
    /// lock. FAULTED: the engine.
    pub(crate) state: AtomicU64,
    /// Bytes of the ring consumed; owned by the engine.
    pub(crate) read_pointer: AtomicU64,
    /// Words done of the nested buffer at the read pointer when the queue last stopped.
    pub(crate) nested_words: AtomicU64,
    /// The engine that the queue was enabled on.
    pub(crate) engine: AtomicU32,
    /// The doorbell that it listens to.
    pub(crate) doorbell: AtomicU32,
    /// Time spent in its commands, but for the one under way; owned by the owner of the engine's state.
    pub(crate) busy_ns: Counter,
}

impl QueueFace {
    pub(crate) fn new(number: u32) -> QueueFace {
        QueueFace {
            state: AtomicU64::new(queue_state::DISABLED),
            read_pointer: AtomicU64::new(0),
            nested_words: AtomicU64::new(0),
            engine: AtomicU32::new(0),
            doorbell: AtomicU32::new(number),
            busy_ns: Counter::default(),
        }
    }

    pub(crate) fn state(&self) -> u64 {
        self.state.load(Ordering::Acquire)
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.state() != queue_state::DISABLED
    }
}

/// The queue registers' values when the queue is enabled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueSetup {
    pub(crate) engine: u64,
    pub(crate) root: u64,
    pub(crate) ring: u64,
    pub(crate) ring_bytes: u64,
    pub(crate) flags: u64,
    pub(crate) rank: u64,
    pub(crate) quantum_ns: u64,
    pub(crate) grace_same_ns: u64,
    pub(crate) grace_lower_ns: u64,
    pub(crate) owner: u64,
}

/// The side of a queue that its engine owns.
pub(crate) struct QueueRun {
    pub(crate) number: u32,
    pub(crate) root: u64,
    pub(crate) ring: u64,
    pub(crate) ring_bytes: u64,
    pub(crate) privileged: bool,
    /// Its commands hold bus addresses.
    untranslated: bool,
    /// The ring's address is a bus address.
    pub(crate) ring_physical: bool,
    /// Where its doorbell is in the window.
    doorbell: u64,
    /// Bytes of the ring consumed.
    pub(crate) read: u64,
    /// The doorbell when last looked at.
    pub(crate) write: u64,
    /// The nested buffer that is being executed.
    pub(crate) nested: Option<Nested>,
    pub(crate) ring_window: Window,
    pub(crate) nested_window: Window,
    /// The doorbell says that the engine does not look at it.
    asleep: bool,
    /// How often in a row there was nothing to do.
    drained: u32,
    /// The wait at the head was parked. When the queue is READY again the wait is over.
    pub(crate) parked: bool,
    /// When the wait at the head was first found unsatisfied, if its log is to tell.
    pub(crate) observed: Option<u64>,
    /// It stops before its next command.
    pub(crate) preempt: bool,
    /// How it ranks.
    pub(crate) contender: Contender<usize>,
    /// Its owner's name in the scheduling log; 0: none.
    pub(crate) owner: u64,
}

impl QueueRun {
    pub(crate) fn new(number: u32, setup: QueueSetup, asleep: bool) -> QueueRun {
        QueueRun {
            number,
            root: setup.root,
            ring: setup.ring,
            ring_bytes: setup.ring_bytes,
            privileged: setup.flags & queue_flags::PRIVILEGED != 0,
            untranslated: setup.flags & queue_flags::UNTRANSLATED != 0,
            ring_physical: setup.flags & queue_flags::RING_PHYSICAL != 0,
            doorbell: spec_doorbell::offset(number),
            read: 0,
            write: 0,
            nested: None,
            ring_window: Window::CLOSED,
            nested_window: Window::CLOSED,
            asleep,
            drained: 0,
            parked: false,
            observed: None,
            preempt: false,
            contender: contender(number, &setup),
            owner: setup.owner,
        }
    }

    /// The space of the addresses in its commands.
    #[inline]
    pub(crate) fn space(&self) -> Space {
        if self.untranslated { Space::Bus } else { Space::Virtual(self.root) }
    }

    /// The queue is set aside at the command that it has reached. A wait there is asked again when it goes on, and what
    /// its ring's addresses mean may have changed by then.
    pub(crate) fn set_aside(&mut self) {
        self.ring_window = Window::CLOSED;
        self.nested_window = Window::CLOSED;
        self.parked = false;
        self.observed = None;
    }

    /// Whether there is a command; changes nothing.
    pub(crate) fn wants(&self, doorbells: &Memory) -> bool {
        self.nested.is_some() || Word::load(self.value_word(doorbells)) > self.read
    }

    /// Whether there is a command to execute. A write pointer that is behind says nothing: the page at the doorbell may just have been
    /// replaced by one of before the last ring.
    #[inline]
    pub(crate) fn has_work(&mut self, doorbells: &Memory) -> bool {
        if self.nested.is_none() && self.write <= self.read {
            self.write = Word::load(self.value_word(doorbells));
            if self.write <= self.read {
                return false;
            }
        }
        self.drained = 0;
        if self.asleep {
            doorbell::awake(self.asleep_word(doorbells));
            self.asleep = false;
        }
        true
    }

    /// There was nothing to do. After more than `patience` times in a row the queue marks its doorbell asleep, and the answer is true,
    /// unless it was rung meanwhile.
    // spec: sync §3.17
    pub(crate) fn may_sleep(&mut self, gpu: &SoftGpu, unit: Unit, patience: u32) -> bool {
        self.drained = self.drained.saturating_add(1);
        if self.drained <= patience {
            return false;
        }
        let asleep = gpu.ordered_at(unit, Place::Bell(self.doorbell + doorbell::ASLEEP_OFFSET));
        self.asleep =
            doorbell::may_sleep(|| gpu.barrier_of_all(), self.value_word(&gpu.bells.window), &asleep, self.read);
        self.asleep
    }

    /// It listens elsewhere from now on, and goes on from what was rung so far. Whether there is something of that to do.
    #[must_use = "the producer may not have seen that the engine sleeps"]
    pub(crate) fn listen(&mut self, doorbells: &Memory, number: u32) -> bool {
        let rung = Word::load(self.value_word(doorbells));
        doorbell::awake(self.asleep_word(doorbells));
        self.doorbell = spec_doorbell::offset(number);
        Word::store(self.value_word(doorbells), rung);
        Word::store(self.asleep_word(doorbells), u64::from(self.asleep));
        rung > self.read
    }

    fn value_word<'a>(&self, doorbells: &'a Memory) -> &'a AtomicU64 {
        doorbells.word(self.doorbell + doorbell::VALUE_OFFSET)
    }

    fn asleep_word<'a>(&self, doorbells: &'a Memory) -> &'a AtomicU64 {
        doorbells.word(self.doorbell + doorbell::ASLEEP_OFFSET)
    }
}
