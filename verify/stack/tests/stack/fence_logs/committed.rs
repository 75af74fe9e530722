//! UpdateNativeFenceLogs through client, kernel, driver and device, whose engines have store buffers here ([`Probe::buffers_stores`]): it
//! commits what a queue's engine has written while that engine is about its command. Threads play engine and kernel, for both have to be
//! in the middle of something; each waits for the other at named points, so every run takes the same course.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use ddi::{Interrupt, KmdQueue, Notify};
use device_port::{Observation, Probe, Unit};
use dxgk_host::{Host, HostConfig, Mode, Profile};
use shared_words::{Memory, Word, log};
use softgpu_spec::bus::SYSTEM_BASE;
use softgpu_umd::{Commands, Stream, StreamConfig};
use wddm_types::NodeId;

use super::read::{logs_in, new_fence};
use crate::fence_interrupts::begin_wait;
use crate::stubborn::{LogStep, Whims, wrapped};
use stack::world::{Client, MIB, client};

/// How often a thread looks whether another has come to a point before it says that the other never will.
const LOOKS: u64 = 50_000_000;

fn until(what: &str, mut there: impl FnMut() -> bool) {
    let came = (0..LOOKS).any(|_| {
        std::thread::yield_now();
        there()
    });
    assert!(came, "waited for {what}, which has not come");
}

/// How often a waiter is tried to be lost. An engine that falls asleep commits what all have written; the copy engine, which has mapped
/// what the test uses, may fall asleep during the first rounds, and in later ones it sleeps.
const ROUNDS: u64 = 10;

/// The header of one signal log, whose second advance in a round overtakes the entry that it announces.
#[derive(Default)]
struct Overtaking {
    header: OnceLock<(Arc<Memory>, u64)>,
    /// What the header announces when a round begins; `IDLE`: no round.
    before: AtomicU64,
    told: AtomicU64,
    overtaken: AtomicBool,
    goes_on: AtomicBool,
    /// The queues that the driver has heard of.
    made: Mutex<Vec<KmdQueue>>,
    /// A queue that interrupts of the node name, too, before the one that has signalled.
    named_first: OnceLock<KmdQueue>,
}

const IDLE: u64 = u64::MAX;
/// The node whose queue writes the log.
const COMPUTE: NodeId = NodeId(0);

impl Overtaking {
    /// How many entries the header announces to the processor.
    fn announced(&self) -> u64 {
        let (memory, at) = self.header.get().expect("the log is known");
        log::total(Word::load(memory.word(*at)), log::LOG_ENTRIES)
    }

    fn begin_round(&self) {
        self.told.store(0, Ordering::Relaxed);
        self.overtaken.store(false, Ordering::Relaxed);
        self.goes_on.store(false, Ordering::Relaxed);
        self.before.store(self.announced(), Ordering::Release);
    }

    fn before(&self) -> Option<u64> {
        Some(self.before.load(Ordering::Acquire)).filter(|before| *before != IDLE)
    }

    /// Whether the engine rests in the middle of its second command. An interrupt that comes again meanwhile tells the kernel nothing new, and
    /// waits for nothing: the kernel must not be held by it when the test's thread asks for it.
    fn rests(&self) -> bool {
        self.overtaken.load(Ordering::Acquire) && !self.goes_on.load(Ordering::Acquire)
    }

    /// The kernel is told of a signal: of a round's first when two entries are announced, of each later one when three are.
    fn told(&self) {
        if let Some(before) = self.before() {
            let announced = before + if self.told.fetch_add(1, Ordering::AcqRel) == 0 { 2 } else { 3 };
            until("the engine, which writes the log", || self.announced() >= announced || self.rests());
        }
    }
}

impl Probe for Overtaking {
    fn observe(&self, _at_ns: u64, _what: Observation) {}

    fn buffers_stores(&self) -> bool {
        true
    }

    /// The header with two more entries leaves the engine's buffer before them, and the engine rests there.
    fn stored(&self, _unit: Unit, bus: Option<u64>, value: u64) -> bool {
        let Some(before) = self.before() else { return false };
        let (memory, at) = self.header.get().expect("the log is known");
        if bus != Some(SYSTEM_BASE + at) || log::total(value, log::LOG_ENTRIES) != before + 2 {
            return false;
        }
        Word::store(memory.word(*at), value);
        self.overtaken.store(true, Ordering::Release);
        until("the kernel, which reads the log", || self.goes_on.load(Ordering::Acquire));
        true
    }
}

fn host(overtaking: &Arc<Overtaking>) -> Arc<Host> {
    let (hears, makes) = (Arc::clone(overtaking), Arc::clone(overtaking));
    let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| match interrupt {
        // The node that pages may still tell of the work that has made the test's objects resident.
        Interrupt::NativeFenceSignaled { node: COMPUTE, engine, fences, queues, flags } => {
            hears.told();
            let queues: Vec<KmdQueue> = hears.named_first.get().into_iter().chain(queues).copied().collect();
            notify.interrupt(Interrupt::NativeFenceSignaled { node: COMPUTE, engine, fences, queues: &queues, flags });
        }
        other => notify.interrupt(other),
    };
    let hear_log = move |step| {
        if let LogStep::Set(queue, ..) = step {
            makes.made.lock().unwrap().push(queue);
        }
        Ok(())
    };
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        probe: Some(Arc::clone(overtaking) as Arc<dyn Probe>),
        wrap_miniport: Some(wrapped(Whims { say: Box::new(say), hear_log: Box::new(hear_log), ..Whims::default() })),
        ..HostConfig::new(Profile::named("optimized-fences").expect("a built-in profile"), Mode::Real)
    };
    Host::start(config).expect("the host starts")
}

/// A host, and a process with one queue, whose log of signals is the one that is overtaken.
fn world() -> (Arc<Overtaking>, Arc<Host>, Client) {
    let overtaking = Arc::new(Overtaking { before: AtomicU64::new(IDLE), ..Overtaking::default() });
    let host = host(&overtaking);
    let before = logs_in(host.system_memory());
    let client = client(&host);
    let logs: Vec<u64> = logs_in(host.system_memory()).into_iter().filter(|at| !before.contains(at)).collect();
    let &[log] = &logs[..] else { panic!("one queue, one log of signals: {logs:?}") };
    overtaking.header.set((Arc::clone(host.system_memory()), log + log::POSITION_OFFSET)).expect("set once");
    (overtaking, host, client)
}

/// An engine signals two fences that waiters need, and its progress, which no waiter needs. The kernel hears of the first while the second's
/// entry is announced and not committed, and of a second interrupt, if there is one, when all three are announced: then the queue has
/// spoken, and its fences are not looked at. What the kernel took for the second entry must have been the second entry.
#[test]
fn a_waiter_is_found_in_an_entry_that_only_the_driver_commits() {
    // spec: sync §2.7, sync §3.14, sync §3.15
    // seed: N109, N111
    let (overtaking, host, mut client) = world();
    let [first, second] = [new_fence(&client), new_fence(&client)];
    for round in 1..=ROUNDS {
        let waits = [begin_wait(&host, &client, &first, round), begin_wait(&host, &client, &second, round)];
        overtaking.begin_round();
        let mut commands = Commands::new();
        commands.signal(&first, round).signal(&second, round);
        let done = client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
        until("the first interrupt", || overtaking.told.load(Ordering::Acquire) > 0);
        // The dispatcher holds the kernel until it has read the log.
        host.now_ns();
        assert!(overtaking.overtaken.load(Ordering::Acquire), "it read while the engine was about its command");
        overtaking.goes_on.store(true, Ordering::Release);
        until("the last signal", || client.stream.progress().current() >= done);
        // A waiter whose entry was read before it was committed sleeps on: nothing looks for it again.
        let mut found = [false; 2];
        until("both waiters", || {
            for (found, wait) in found.iter_mut().zip(waits) {
                *found |= host.take_answer(wait).is_some();
            }
            found == [true; 2]
        });
        overtaking.before.store(IDLE, Ordering::Release);
    }
    assert_eq!(host.stopped(), None);
}

/// More signals than a log holds.
const OVERRUN: u64 = 200;

/// Two logs have run over. An interrupt names both queues while the engine of the second is about a signal: its value, like the entry, is in
/// the engine's buffer. The kernel looks at all fences, and finds that value, before the engine goes on; no later interrupt helps.
#[test]
fn behind_an_overrun_each_named_queue_is_committed_before_values_are_read() {
    // spec: sync §3.14 (overrun), sync §3.15
    // seed: N130 (two)
    let (overtaking, host, mut client) = world();
    let mut other = Stream::create(&client.gpu, NodeId(1), StreamConfig::default()).expect("a stream");
    let named_first = *overtaking.made.lock().unwrap().last().expect("the other queue");
    overtaking.named_first.set(named_first).expect("set once");
    let [bell, buffered, noise, other_noise] = [0; 4].map(|_| new_fence(&client));
    for round in 1..=ROUNDS {
        let waits = [&bell, &buffered].map(|fence| begin_wait(&host, &client, fence, round));
        for (stream, noise) in [(&mut other, &other_noise), (&mut client.stream, &noise)] {
            let mut commands = Commands::new();
            for value in 1..=OVERRUN {
                commands.signal(noise, round * OVERRUN + value);
            }
            let done = stream.submit(&client.gpu, &[], &commands).expect("a submission");
            until("signals without a waiter", || stream.progress().current() >= done);
        }
        overtaking.begin_round();
        let mut commands = Commands::new();
        commands.signal(&bell, round).signal(&buffered, round);
        let done = client.stream.submit(&client.gpu, &[], &commands).expect("a submission");
        until("the bell's interrupt", || overtaking.told.load(Ordering::Acquire) > 0);
        // The dispatcher holds the kernel until it has read the logs and the fences.
        host.now_ns();
        let (rests, found) = (overtaking.rests(), waits.map(|wait| host.take_answer(wait).is_some()));
        overtaking.goes_on.store(true, Ordering::Release);
        assert!(rests, "the kernel read while the engine was about its command");
        assert_eq!(found, [true; 2], "round {round}: the values of the bell, and of the signal in the buffer");
        until("the last signal", || client.stream.progress().current() >= done);
        overtaking.before.store(IDLE, Ordering::Release);
    }
    assert_eq!(host.stopped(), None);
}
