//! Registers: the effects of reading and writing them. Any number may be written at any time; a senseless one is a fault of the queue
//! that it was written for, or is ignored.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use device_port::{DevicePort, Observation, Unit};
use shared_words::{Memory, Word, doorbell};
use softgpu_spec::register::{self, counter, queue_control, queue_flags, queue_state, record};
use softgpu_spec::{QUEUE_COUNT, display, engine};

use crate::counters::Counters;
use crate::device::SoftGpu;
use crate::interrupt::Record;
use crate::lock;
use crate::queue::QueueSetup;
use crate::sharing::contender;
use crate::wires::Wires;

/// The queue registers: which queue they address, and what was written for each.
pub(crate) struct Selected {
    queue: u32,
    setups: Vec<QueueSetup>,
}

impl Default for Selected {
    fn default() -> Self {
        Selected { queue: 0, setups: vec![QueueSetup::default(); QUEUE_COUNT as usize] }
    }
}

impl DevicePort for SoftGpu {
    fn read_register(&self, offset: u32) -> u64 {
        match offset {
            register::ID => register::ID_VALUE,
            register::LOCAL_BYTES => self.bus.local.bytes(),
            register::APERTURE_BYTES => self.bus.aperture_bytes(),
            register::TIMESTAMP => self.now(),
            register::MMU_LEVELS => self.bus.shape.to_register(),
            register::SIGNAL_BITS => u64::from(self.config.signal_bits),
            register::PASID_BITS => u64::from(self.bus.pasid_bits()),
            register::APERTURE_TABLE => self.bus.aperture_table(),
            register::CPU_WINDOW_PAGE => self.bus.window.selected(),
            register::CPU_WINDOW_ENTRY => self.bus.window.entry(),
            register::RANGES..=register::RANGE_PITCH => self.bus.ranges.read(offset),
            register::ENGINE_ENABLE => u64::from(self.engines[0].ask(|state| state.enabled)),
            register::QUEUE_SELECT..=register::QUEUE_BUSY_NS => self.read_queue(offset),
            register::BAND_SELECT..=register::NORMAL_PERCENT => lock(&self.bands).read(offset),
            register::ENGINE_GATE => {
                (0..).zip(&self.engines).map(|(bit, face)| u64::from(face.ask(|state| state.gated)) << bit).sum()
            }
            register::ENGINE_IDLE_NS => self.idle_ns(),
            register::DOORBELLS => self.bells.pages(),
            register::RESET_GROUP => self.config.reset_group,
            register::CMP_ROOT => self.cmp.root.load(Ordering::Relaxed),
            register::CMP_RESULT => self.cmp.result.load(Ordering::Acquire),
            register::SCHEDULING_LOG_ENGINE..=register::SCHEDULING_LOG_CONTROL => self.read_scheduling_log(offset),
            register::INTERRUPT_POP => self.interrupts.pop(),
            register::RECORD_0 => self.interrupts.field(0),
            register::RECORD_1 => self.interrupts.field(1),
            register::RECORD_2 => self.interrupts.field(2),
            display::DISPLAYS..=display::DISPLAY_SHOWN_ID => self.displays.read(offset),
            _ => self.read_counter(offset),
        }
    }

    fn write_register(&self, offset: u32, value: u64) {
        match offset {
            register::APERTURE_TABLE => self.bus.set_aperture_table(value),
            register::CPU_WINDOW_PAGE => self.bus.window.select(value),
            register::CPU_WINDOW_ENTRY => self.bus.window.program(value, self.bus.local.bytes()),
            register::RANGE_SELECT..=register::RANGE_PITCH => {
                self.bus.ranges.write(offset, value, self.bus.local.bytes());
            }
            register::ENGINE_ENABLE => self.enable_engines(value != 0),
            register::ENGINE_GATE => self.gate_engines(value),
            register::ENGINE_IDLE_NS => {
                self.idle_ns.store(value, Ordering::Relaxed);
                // An engine that sleeps already sleeps by the new rule.
                self.engines.iter().for_each(|face| face.rouse());
                self.engines.iter().for_each(|face| self.due_after(face, 0));
            }
            register::ENGINE_RESET => self.reset_engines(value),
            register::QUEUE_SELECT..=register::QUEUE_FLAGS => self.write_queue(offset, value),
            register::QUEUE_CONTROL => self.control_queue(value),
            register::QUEUE_RANK..=register::QUEUE_GRACE_LOWER => self.write_queue(offset, value),
            register::QUEUE_DOORBELL => {
                let selected = lock(&self.selected);
                self.listen(selected.queue, value);
            }
            register::QUEUE_OWNER => self.write_queue(offset, value),
            register::BAND_SELECT..=register::NORMAL_PERCENT => self.write_band(offset, value),
            register::SCHEDULING_LOG_ENGINE..=register::SCHEDULING_LOG_CONTROL => {
                self.write_scheduling_log(offset, value)
            }
            register::CMP_ARGUMENT_0 => self.cmp.arguments[0].store(value, Ordering::Relaxed),
            register::CMP_ARGUMENT_1 => self.cmp.arguments[1].store(value, Ordering::Relaxed),
            register::CMP_ARGUMENT_2 => self.cmp.arguments[2].store(value, Ordering::Relaxed),
            register::CMP_ROOT => self.cmp.root.store(value, Ordering::Relaxed),
            register::CMP_COMMAND => self.cmp_command(value),
            register::PEER_SELF..=register::PEER_ADDRESS => self.peers.write(offset, value),
            display::DISPLAYS..=display::DISPLAY_SHOWN_ID => self.displays.write(self, offset, value),
            _ => {}
        }
    }

    fn local_memory(&self) -> &Arc<Memory> {
        &self.bus.local
    }

    fn doorbell_page(&self) -> &Arc<Memory> {
        &self.bells.window
    }

    fn doorbell_rung(&self, index: u32) {
        if let Some(queue) = self.bells.listener(index) {
            let number = self.queues[queue as usize].engine.load(Ordering::Acquire) as usize;
            self.engines[number].wake(queue);
            self.due_after(&self.engines[number], 0);
        }
    }
}

impl SoftGpu {
    fn enable_engines(&self, enabled: bool) {
        for face in &self.engines {
            face.ask(|state| state.enabled = enabled);
            face.rouse();
            self.due_after(face, 0);
        }
    }

    fn gate_engines(&self, gates: u64) {
        for (bit, face) in self.engines.iter().enumerate() {
            face.ask(|state| state.gate(gates >> bit & 1 == 1));
            face.rouse();
            self.due_after(face, 0);
        }
    }

    fn read_queue(&self, offset: u32) -> u64 {
        let selected = lock(&self.selected);
        let setup = &selected.setups[selected.queue as usize];
        let face = &self.queues[selected.queue as usize];
        match offset {
            register::QUEUE_SELECT => u64::from(selected.queue),
            register::QUEUE_ENGINE => setup.engine,
            register::QUEUE_ROOT => setup.root,
            register::QUEUE_RING => setup.ring,
            register::QUEUE_RING_BYTES => setup.ring_bytes,
            register::QUEUE_FLAGS => setup.flags,
            register::QUEUE_RANK => setup.rank,
            register::QUEUE_QUANTUM => setup.quantum_ns,
            register::QUEUE_GRACE_SAME => setup.grace_same_ns,
            register::QUEUE_GRACE_LOWER => setup.grace_lower_ns,
            register::QUEUE_OWNER => setup.owner,
            register::QUEUE_CONTROL => face.state(),
            register::QUEUE_READ_POINTER => face.read_pointer.load(Ordering::Acquire),
            register::QUEUE_DOORBELL => u64::from(face.doorbell.load(Ordering::Acquire)),
            register::QUEUE_NESTED_WORDS => face.nested_words.load(Ordering::Acquire),
            register::QUEUE_BUSY_NS => self.queue_busy_ns(selected.queue),
            _ => 0,
        }
    }

    fn write_queue(&self, offset: u32, value: u64) {
        let mut selected = lock(&self.selected);
        if offset == register::QUEUE_SELECT {
            // A queue that there is not cannot be selected: the selection stays.
            if let Ok(queue) = u32::try_from(value)
                && queue < QUEUE_COUNT
            {
                selected.queue = queue;
            }
            return;
        }
        let queue = selected.queue as usize;
        let setup = &mut selected.setups[queue];
        match offset {
            register::QUEUE_ENGINE => setup.engine = value,
            register::QUEUE_ROOT => setup.root = value,
            register::QUEUE_RING => setup.ring = value,
            register::QUEUE_RING_BYTES => setup.ring_bytes = value,
            register::QUEUE_FLAGS => setup.flags = value,
            register::QUEUE_RANK => setup.rank = value,
            register::QUEUE_QUANTUM => setup.quantum_ns = value,
            register::QUEUE_GRACE_SAME => setup.grace_same_ns = value,
            register::QUEUE_GRACE_LOWER => setup.grace_lower_ns = value,
            register::QUEUE_OWNER => setup.owner = value,
            _ => {}
        }
    }

    fn control_queue(&self, control: u64) {
        let selected = lock(&self.selected);
        let (queue, setup) = (selected.queue, selected.setups[selected.queue as usize]);
        match control {
            queue_control::ENABLE => {
                self.disable(queue, self.is_virtual());
                self.enable(queue, setup);
            }
            queue_control::DISABLE => self.disable(queue, self.is_virtual()),
            queue_control::SUSPEND => self.suspend(queue),
            queue_control::RESUME => self.resume(queue, setup.root),
            queue_control::PREEMPT => self.preempt(queue),
            queue_control::RANK => self.rank(queue, &setup),
            // The engine's stores for the queue have left its store buffer. It executes on meanwhile: its state is not part of the
            // commit.
            // spec: sync §2.7, sync §3.14
            queue_control::COMMIT => {
                self.barrier(Unit::Engine(self.queues[queue as usize].engine.load(Ordering::Acquire)))
            }
            _ => {}
        }
    }

    /// A queue ranks otherwise from its engine's next command on.
    fn rank(&self, queue: u32, setup: &QueueSetup) {
        let number = self.queues[queue as usize].engine.load(Ordering::Acquire) as usize;
        self.engines[number].ask(|state| state.rank(queue, contender(queue, setup)));
    }

    fn write_band(&self, offset: u32, value: u64) {
        let changed = lock(&self.bands).write(offset, value);
        for face in changed.iter().flat_map(|_| &self.engines) {
            face.ask(|state| state.sharing.set_policy(changed.expect("it has changed")));
        }
    }

    /// Lets a queue run from the start of its ring. In real time its engine does not look at it before it is rung: an engine that looked at
    /// each new queue for as long as it looks at one that has worked would look at all those that a client makes one after the other.
    fn enable(&self, queue: u32, setup: QueueSetup) {
        let face = &self.queues[queue as usize];
        let sound = setup.engine < u64::from(engine::COUNT)
            && setup.ring_bytes.is_power_of_two()
            && setup.ring_bytes >= 4096
            && setup.ring.is_multiple_of(8)
            && queue_flags::sound(setup.flags);
        if !sound {
            face.state.store(queue_state::FAULTED, Ordering::Release);
            let fields = [u64::from(queue), setup.ring, register::fault::BAD_ADDRESS];
            self.interrupts.raise(Record { kind: record::FAULT, fields });
            return;
        }
        let offset = softgpu_spec::doorbell::offset(queue);
        let bell = [doorbell::VALUE_OFFSET, doorbell::ASLEEP_OFFSET].map(|of| self.bells.window.word(offset + of));
        bell.iter().for_each(|word| Word::store(word, 0));
        face.read_pointer.store(0, Ordering::Release);
        face.nested_words.store(0, Ordering::Release);
        self.trace(|| Observation::Attached { queue, owner: setup.owner });
        // CAST: below the engine count.
        face.engine.store(setup.engine as u32, Ordering::Release);
        self.engines[setup.engine as usize].ask(|state| {
            state.attach(queue, setup, !self.is_virtual());
            face.state.store(queue_state::READY, Ordering::Release);
        });
        let [value, asleep] = bell;
        if self.is_virtual() || !doorbell::may_sleep(|| self.barrier_of_all(), value, asleep, 0) {
            self.engines[setup.engine as usize].wake(queue);
        }
        self.due_after(&self.engines[setup.engine as usize], 0);
    }

    /// Engines begin anew, with those that only do so together with one of them.
    fn reset_engines(&self, engines: u64) {
        let group = self.config.reset_group;
        let engines = if engines & group != 0 { engines | group } else { engines };
        for queue in 0..QUEUE_COUNT {
            let face = &self.queues[queue as usize];
            let here = engines >> face.engine.load(Ordering::Acquire) & 1 == 1;
            if here && matches!(face.state(), queue_state::READY | queue_state::PARKED) {
                self.disable(queue, true);
            }
        }
        for (number, face) in self.engines.iter().enumerate() {
            if engines >> number & 1 == 1 {
                face.ask(|state| state.wires = Wires::default());
            }
        }
    }

    /// Forgets a queue; when this returns no engine executes for it. `abandon`: a command under way is not finished first.
    fn disable(&self, queue: u32, abandon: bool) {
        let face = &self.queues[queue as usize];
        if face.state() == queue_state::DISABLED {
            return;
        }
        let number = face.engine.load(Ordering::Acquire) as usize;
        let flush = self.engines[number].ask(|state| {
            let flush = state.detach(self, number, queue, abandon);
            face.state.store(queue_state::DISABLED, Ordering::Release);
            flush
        });
        self.bells.release(face.doorbell.swap(queue, Ordering::AcqRel));
        if let Some(flush) = flush {
            self.flush(flush);
        }
        self.due_after(&self.engines[number], 0);
    }

    /// Sets a queue aside; when this returns no engine executes for it. One that does not run needs no setting aside.
    fn suspend(&self, queue: u32) {
        let face = &self.queues[queue as usize];
        let number = face.engine.load(Ordering::Acquire) as usize;
        let flush = self.engines[number].ask(|state| {
            let runs = matches!(face.state(), queue_state::READY | queue_state::PARKED);
            let flush = if runs { state.shelve(self, number, queue, self.is_virtual()) } else { None };
            // A command that was finished first may have faulted.
            if runs && face.state() != queue_state::FAULTED {
                face.state.store(queue_state::SUSPENDED, Ordering::Release);
            }
            flush
        });
        if let Some(flush) = flush {
            self.flush(flush);
        }
        self.due_after(&self.engines[number], 0);
        self.interrupts.raise(Record { kind: record::SUSPENDED, fields: [u64::from(queue), 0, 0] });
    }

    /// Goes on with a queue that was set aside.
    fn resume(&self, queue: u32, root: u64) {
        let face = &self.queues[queue as usize];
        if face.state() != queue_state::SUSPENDED {
            return;
        }
        let number = face.engine.load(Ordering::Acquire) as usize;
        self.engines[number].ask(|state| {
            state.unshelve(queue, root);
            face.state.store(queue_state::READY, Ordering::Release);
        });
        self.engines[number].wake(queue);
        self.due_after(&self.engines[number], 0);
    }

    /// Asks a queue to stop before its next command.
    fn preempt(&self, queue: u32) {
        let face = &self.queues[queue as usize];
        let number = face.engine.load(Ordering::Acquire) as usize;
        self.engines[number].ask(|state| {
            if matches!(face.state(), queue_state::READY | queue_state::PARKED) {
                state.preempt(self, number, queue);
            }
        });
        self.due_after(&self.engines[number], 0);
    }

    fn read_counter(&self, offset: u32) -> u64 {
        let sum = |pick: fn(&Counters) -> u64| self.engines.iter().map(|face| pick(&face.counters)).sum();
        match offset {
            counter::SIGNALS => sum(|counters| counters.signals.get()),
            counter::INTERRUPTS_RAISED => sum(|counters| counters.interrupts_raised.get()),
            counter::INTERRUPTS_SUPPRESSED => sum(|counters| counters.signals.get() - counters.interrupts_raised.get()),
            counter::WAITS => sum(|counters| counters.waits.get()),
            counter::WAITS_UNSATISFIED => sum(|counters| counters.waits_unsatisfied.get()),
            counter::WAITS_PARKED => sum(|counters| counters.waits_parked.get()),
            counter::COPY_BYTES => sum(|counters| counters.copy_bytes.get()),
            counter::PUBLISH_RAISED => self.cmp.publish_raised.load(Ordering::Relaxed),
            counter::PEERS_RUNG => self.peers.rung.load(Ordering::Relaxed),
            counter::ENTRIES_WRITTEN => sum(|counters| counters.entries_written.get()),
            _ => self.read_engine_time(offset),
        }
    }

    fn read_engine_time(&self, offset: u32) -> u64 {
        let nth =
            |base: u32| offset.checked_sub(base).filter(|past| past.is_multiple_of(8)).map(|past| (past / 8) as usize);
        let busy = nth(counter::ENGINE_BUSY_NS).and_then(|engine| self.engines.get(engine));
        let wait = nth(counter::ENGINE_WAIT_NS).and_then(|engine| self.engines.get(engine));
        match (busy, wait) {
            (Some(face), _) => face.counters.busy_ns.get(),
            (_, Some(face)) => face.counters.wait_ns.get(),
            _ => 0,
        }
    }
}
