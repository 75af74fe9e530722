//! A device whose units have store buffers, and two engines that signal, wait and log: a test says which store overtakes a missing barrier, and
//! what happens while an engine asks the CMP.

use std::sync::Weak;

use device_port::{Observation, Unit};
use shared_words::log;
use softgpu_spec::LogSlot;

use crate::*;

/// Bytes of system memory behind virtual address `SYSTEM`: CurrentValue, MonitoredValue, another pair, and a log.
pub(super) const CURRENT: u64 = 0x1_0000;
pub(super) const MONITORED: u64 = CURRENT + 64;
pub(super) const ANSWER: u64 = CURRENT + 128;
pub(super) const UNWAITED: u64 = CURRENT + 192;
pub(super) const LOG: u64 = CURRENT + 512;
pub(super) const ENTRY: u64 = LOG + log::entry_offset(0);
/// The ring of queue 1, which runs on the other engine.
pub(super) const OTHER_RING: u64 = 0x8000;

/// A store: the unit, the bus address, the value.
pub(super) type Stored = (Unit, Option<u64>, u64);
pub(super) type Met = Box<dyn FnMut(&SoftGpu) + Send>;
pub(super) type Overtakes = Box<dyn FnMut(&SoftGpu, Unit, Option<u64>, u64) -> bool + Send>;

/// Buffers, which stores overtake, and what happens when an engine asks the CMP.
#[derive(Default)]
pub(super) struct Bench {
    pub(super) gpu: Mutex<Weak<SoftGpu>>,
    pub(super) overtakes: Mutex<Option<Overtakes>>,
    pub(super) asked: Mutex<Option<Met>>,
}

impl Probe for Bench {
    fn observe(&self, _at_ns: u64, what: Observation) {
        if matches!(what, Observation::Asked { .. })
            && let Some(mut met) = self.asked.lock().unwrap().take()
        {
            met(&self.gpu.lock().unwrap().upgrade().expect("it observes"));
        }
    }

    fn buffers_stores(&self) -> bool {
        true
    }

    fn stored(&self, unit: Unit, bus: Option<u64>, value: u64) -> bool {
        let Some(mut overtakes) = self.overtakes.lock().unwrap().take() else { return false };
        let gpu = self.gpu.lock().unwrap().upgrade().expect("it stores");
        let passes = overtakes(&gpu, unit, bus, value);
        if !passes {
            *self.overtakes.lock().unwrap() = Some(overtakes);
        }
        passes
    }
}

pub(super) fn va(offset: u64) -> u64 {
    SYSTEM + offset - CURRENT
}

/// A rig with buffers: queue 0 on the compute engine, queue 1 on the copy engine.
pub(super) fn buffered() -> (Rig, Arc<Bench>) {
    let bench = Arc::new(Bench::default());
    let probe = Arc::clone(&bench) as Arc<dyn Probe>;
    let rig = Rig::probed(CONFIG, Memory::reserve(1 << 20).unwrap(), Arc::new(Pin::default()), false, Some(probe));
    *bench.gpu.lock().unwrap() = Arc::downgrade(&rig.gpu);
    rig.map_pages();
    rig.enable(1, engine_of(true), OTHER_RING, false);
    rig.gpu.write_register(CMP_ROOT, ROOT);
    for monitored in [MONITORED, UNWAITED] {
        Word::store(rig.system.word(monitored), u64::MAX);
    }
    Word::store(rig.system.word(LOG + log::ENTRIES_OFFSET), log::LOG_ENTRIES);
    run_due(&rig.gpu);
    (rig, bench)
}

/// Lets the engines do all that they have to do, in less time than a buffered store takes to arrive by itself.
pub(super) fn run_due(gpu: &SoftGpu) {
    run_for(gpu, 100_000);
}

pub(super) fn run_for(gpu: &SoftGpu, ns: u64) {
    let end = gpu.now() + ns;
    while let Some(next) = gpu.next_event().filter(|next| *next < end) {
        gpu.tick(next);
    }
}

impl Rig {
    /// The same, and the engine is busy with something else behind them: one that falls asleep puts a barrier.
    pub(super) fn give(&mut self, queue: u32, commands: &[Command<'_>]) {
        let long = Command::Copy { source_va: LOCAL, target_va: LOCAL + PAGE, bytes: PAGE };
        self.put(queue, &[commands, &[long; 16]].concat());
        run_for(&self.gpu, 900);
    }

    /// Commands into the ring of queue 0, or of queue 1, which is given some once.
    pub(super) fn put(&mut self, queue: u32, commands: &[Command<'_>]) {
        if queue == 0 {
            self.push(commands);
        } else {
            let mut words = Vec::new();
            commands.iter().for_each(|command| command.encode(&mut words));
            for (at, word) in (OTHER_RING..).step_by(8).zip(&words) {
                Word::store(self.system.word(at), *word);
            }
            let at = softgpu_spec::doorbell::offset(queue);
            Word::store(self.gpu.doorbell_page().word(at), words.len() as u64 * 8);
            self.gpu.doorbell_rung(queue);
        }
    }

    pub(super) fn publish(&self, monitored: u64) {
        publish(&self.gpu, monitored);
    }
}

pub(super) fn publish(gpu: &SoftGpu, monitored: u64) {
    let arguments = [(CMP_ARGUMENT_0, va(CURRENT)), (CMP_ARGUMENT_1, va(MONITORED)), (CMP_ARGUMENT_2, monitored)];
    for (register, value) in arguments.into_iter().chain([(CMP_COMMAND, cmp::PUBLISH_MONITORED)]) {
        gpu.write_register(register, value);
    }
}

pub(super) fn signal(value: u64) -> Command<'static> {
    Command::Signal { current_va: va(CURRENT), monitored_va: va(MONITORED), value, log: None }
}

pub(super) fn slot() -> LogSlot {
    LogSlot { entry_va: va(ENTRY), header_va: va(LOG), handle: 9 }
}

/// Waits for 5 and then says so.
pub(super) fn waits() -> [Command<'static>; 2] {
    let answer = Command::Signal { current_va: va(ANSWER), monitored_va: va(UNWAITED), value: 1, log: None };
    [Command::Wait { va: va(CURRENT), value: 5, log: None }, answer]
}
