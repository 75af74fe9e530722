//! The contexts that engines run, as hardware that schedules by itself logs them, through the whole stack: in virtual time to the nanosecond, in
//! real time whatever holds under every interleaving.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ddi::{Interrupt, Notify, PowerState};
use dxgk_host::{Host, HostConfig, Mode, Profile, RecoveryPolicy};
use events::{ContextSchedule, Event};
use softgpu_umd::{Commands, SurfaceKind};
use wddm_types::{EngineId, NodeId};

use crate::stubborn::{Whims, wrapped};
use stack::heard::{Heard, heard_on};
use stack::world::{Client, MIB, VIRTUAL, client};

/// A command that changes a mebibyte over the bus.
const COMMAND_NS: u64 = 50 + 2_000 + 41_944;
const MS: u64 = 1_000_000;
const COMPUTE: u16 = 0;
const COPY: u16 = 1;

use ContextSchedule::{Idle, Ready, Running};

fn of_logs(event: &Event) -> bool {
    matches!(
        event,
        Event::ContextScheduled { .. }
            | Event::SchedulingLogOverrun { .. }
            | Event::SchedulingLogEntryIgnored { .. }
            | Event::GpuClockCalibrated { .. }
    )
}

/// The entries of a node's log: process, queue, state, time by the host's clock.
fn told(events: &[(u64, Event)], of: u16) -> Vec<(u32, u64, ContextSchedule, u64)> {
    let set = events.iter().find_map(|(at, event)| match event {
        Event::GpuClockCalibrated { node, counter, .. } if *node == of => Some((*at, *counter)),
        _ => None,
    });
    let (set_ns, counter) = set.expect("the clocks are set when tracing begins");
    let entry = |(_, event): &(u64, Event)| match event {
        Event::ContextScheduled { node, process, queue, state, at, .. } if *node == of => {
            Some((*process, *queue, *state, at + set_ns - counter))
        }
        _ => None,
    };
    events.iter().filter_map(entry).collect()
}

/// Checks that in the log one context runs at a time, states change, and times do not go back. Returns how long each process ran.
fn checked(entries: &[(u32, u64, ContextSchedule, u64)]) -> BTreeMap<u32, u64> {
    let mut states = BTreeMap::new();
    let mut ran: BTreeMap<u32, u64> = BTreeMap::new();
    let mut before = 0;
    for (process, queue, state, at) in entries {
        assert!(*at >= before, "times go back: {entries:?}");
        before = *at;
        if *state == Running {
            assert!(!states.values().any(|(state, _)| *state == Running), "two run: {entries:?}");
        }
        if let Some((Running, since)) = states.insert((*process, *queue), (*state, *at)) {
            *ran.entry(*process).or_default() += at - since;
        }
    }
    ran
}

/// The source of the engine's work.
enum Feed {
    /// The process.
    Own,
    /// The kernel.
    Kernel(Box<KernelFed>),
}

/// A queue that the kernel feeds; its commands lie in the buffer.
struct KernelFed {
    queue: d3dkmt::KernelQueue,
    _context: d3dkmt::HwContext,
    buffer: softgpu_umd::Surface,
}

struct Worker {
    client: Client,
    surface: softgpu_umd::Surface,
    feed: Feed,
}

impl Worker {
    fn new(host: &Arc<Host>, own: bool, times: u32) -> Worker {
        let client = client(host);
        let surface = client.pinned(SurfaceKind::System, MIB);
        let feed = if own {
            Feed::Own
        } else {
            let buffer = client.pinned(SurfaceKind::System, MIB);
            buffer.lock().unwrap().write_words(0, changes(&surface, times).words());
            let context = client.gpu.device().create_context(NodeId(COMPUTE)).unwrap();
            let queue = context.create_kernel_queue().unwrap();
            Feed::Kernel(Box::new(KernelFed { queue, _context: context, buffer }))
        };
        Worker { client, surface, feed }
    }

    fn begin(&mut self, times: u32) {
        let commands = changes(&self.surface, times);
        match &self.feed {
            Feed::Own => drop(self.client.stream.submit(&self.client.gpu, &[], &commands).unwrap()),
            Feed::Kernel(fed) => {
                let KernelFed { queue, buffer, .. } = fed.as_ref();
                queue.submit(buffer.va(), commands.words().len() as u32 * 8, 1).unwrap();
            }
        }
    }

    fn end(&mut self) {
        match &self.feed {
            Feed::Own => self.client.stream.wait(&self.client.gpu, 1).unwrap(),
            Feed::Kernel(fed) => self.client.gpu.device().wait(&[(fed.queue.progress(), 1)]).unwrap(),
        }
    }

    fn process(&self) -> u32 {
        self.client.link.process().0
    }
}

fn changes(surface: &softgpu_umd::Surface, times: u32) -> Commands {
    let mut commands = Commands::new();
    for _ in 0..times {
        commands.touch(surface.va(), MIB, true);
    }
    commands
}

#[test]
fn the_log_tells_to_the_nanosecond_who_had_the_engine_and_who_waited() {
    // spec: sync §4.2
    for own in [true, false] {
        let (host, heard) = heard_on("discrete-4k", VIRTUAL, 8 * MIB, of_logs);
        host.trace_scheduling(true);
        let times = 200;
        let mut workers = [0, 1].map(|_| Worker::new(&host, own, times));
        while host.step() {}
        let begun_ns = host.now_ns();
        workers.iter_mut().for_each(|worker| worker.begin(times));
        workers.iter_mut().for_each(Worker::end);
        while host.step() {}
        host.trace_scheduling(false);
        let events = heard.take_timed();
        let entries: Vec<_> = told(&events, COMPUTE).into_iter().filter(|(.., at)| *at >= begun_ns).collect();
        let ran = checked(&entries);
        // Each had the engine as long as its commands take, and little more.
        let [first, second] = workers.each_ref().map(Worker::process);
        for process in [first, second] {
            let over = ran[&process] - u64::from(times) * COMMAND_NS;
            assert!(over < 10_000, "{over} ns beyond its commands, own {own}");
        }
        // They take turns: a quantum of 2 ms, and 0.1 ms of grace, then the command under way ends.
        let turns: Vec<_> = entries.iter().filter(|(.., state, _)| *state == Running).collect();
        assert!(turns.len() > 6 && turns.windows(2).all(|pair| pair[0].0 != pair[1].0), "{turns:?}");
        for pair in turns.windows(2).take(turns.len() - 3) {
            let turn_ns = pair[1].3 - pair[0].3;
            assert!((2 * MS + MS / 10..3 * MS).contains(&turn_ns), "{turn_ns}");
        }
        // A context that does not have the engine is ready, and the engine changes contexts in no time.
        for pair in entries.windows(2) {
            if let [(one, _, Ready, left), (other, _, Running, taken)] = pair
                && one != other
                && *left != begun_ns
            {
                assert_eq!(left, taken);
            }
        }
        assert_eq!(entries.iter().filter(|(.., state, _)| *state == Idle).count(), 2, "{entries:?}");
        // Page tables were written by the kernel's own context, on the other engine.
        let paging = told(&events, COPY);
        assert!(!paging.is_empty() && paging.iter().all(|(process, queue, ..)| (*process, *queue) == (0, 0)));
        assert!(checked(&paging)[&0] > 0);
        let wrong = |(_, event): &&(u64, Event)| {
            matches!(event, Event::SchedulingLogOverrun { .. } | Event::SchedulingLogEntryIgnored { .. })
        };
        assert_eq!(events.iter().find(wrong), None);
        host.check_invariants().unwrap();
    }
}

#[test]
fn in_real_time_the_log_says_nothing_that_cannot_be() {
    // spec: sync §4.2
    for own in [true, false] {
        let (host, heard) = heard_on("discrete-4k", Mode::Real, 8 * MIB, of_logs);
        let mut workers = [0, 1].map(|_| Worker::new(&host, own, 50));
        host.trace_scheduling(true);
        workers.iter_mut().for_each(|worker| worker.begin(50));
        workers.iter_mut().for_each(Worker::end);
        host.trace_scheduling(false);
        let events = heard.take_timed();
        let entries = told(&events, COMPUTE);
        checked(&entries);
        for worker in &workers {
            let runs = |entry: &&(u32, u64, ContextSchedule, u64)| (entry.0, entry.2) == (worker.process(), Running);
            assert!(entries.iter().any(|entry| runs(&entry)), "its work was done while a tool traced: {entries:?}");
        }
        let ignored = |(_, event): &&(u64, Event)| matches!(event, Event::SchedulingLogEntryIgnored { .. });
        assert_eq!(events.iter().find(ignored), None);
    }
}

#[test]
fn a_context_that_has_gone_was_read_before_and_without_a_tool_nothing_is_written() {
    // spec: sync §4.2
    let (host, heard) = heard_on("discrete-4k", VIRTUAL, 8 * MIB, of_logs);
    let mut one = Worker::new(&host, true, 3);
    one.begin(3);
    one.end();
    assert_eq!(heard.take(), [], "no tool has asked for them");
    host.trace_scheduling(true);
    let mut other = Worker::new(&host, true, 3);
    let process = other.process();
    other.begin(3);
    other.end();
    let begun = heard.take_timed();
    drop(other);
    while host.step() {}
    let events: Vec<_> = begun.into_iter().chain(heard.take_timed()).collect();
    let entries: Vec<_> = told(&events, COMPUTE).into_iter().filter(|(of, ..)| *of == process).collect();
    assert_eq!(entries.iter().map(|(_, _, state, _)| *state).collect::<Vec<_>>(), [Running, Idle]);
    assert!(entries.iter().all(|(_, queue, ..)| *queue != 0), "the queue has its name: {entries:?}");
    // Its pages are free again, and come again.
    for _ in 0..200 {
        host.trace_scheduling(false);
        host.trace_scheduling(true);
        one.client.run(|_| ());
    }
    host.trace_scheduling(false);
    heard.take();
    one.client.run(|_| ());
    assert_eq!(heard.take(), []);
    host.check_invariants().unwrap();
}

#[test]
fn logs_that_fill_are_read_and_nothing_is_lost() {
    // spec: sync §4.2
    // Nothing but the engine's word that its log is half full makes the kernel look: one submission with many waits, each of which
    // another engine's signal ends.
    let (host, heard) = heard_on("discrete-4k", VIRTUAL, 8 * MIB, of_logs);
    let mut client = client(&host);
    let mut copies =
        softgpu_umd::Stream::create(&client.gpu, NodeId(COPY), softgpu_umd::StreamConfig::default()).unwrap();
    let device = client.gpu.device();
    let fence = device.create_native_fence(Default::default()).unwrap();
    while host.step() {}
    host.trace_scheduling(true);
    let rounds = 3_000;
    let (mut waits, mut signals) = (Commands::new(), Commands::new());
    let surface = client.pinned(SurfaceKind::System, MIB);
    for round in 1..=rounds {
        waits.wait(&fence, round);
        signals.touch(surface.va(), 65_536, true).signal(&fence, round);
    }
    let waiting = client.stream.submit(&client.gpu, &[], &waits).unwrap();
    copies.submit(&client.gpu, &[], &signals).unwrap();
    let interrupts = host.adapter(0).counters().interrupts;
    client.stream.wait(&client.gpu, waiting).unwrap();
    let told_by_engine = host.adapter(0).counters().interrupts - interrupts;
    while host.step() {}
    host.trace_scheduling(false);
    let events = heard.take_timed();
    let entries = told(&events, COMPUTE);
    checked(&entries);
    let runs = entries.iter().filter(|(.., state, _)| *state == Running).count() as u64;
    assert_eq!(runs, rounds + 1, "once to find the first wait, and once behind each");
    assert!(told_by_engine >= runs * 2 / 1_024, "{told_by_engine} interrupts for {runs} runs");
    assert!(!events.iter().any(|(_, event)| matches!(event, Event::SchedulingLogOverrun { .. })));
}

#[test]
fn a_log_goes_on_behind_a_sleep_and_behind_a_reset() {
    // spec: sync §4.2, sync §4.4, memory §8.4
    let (host, heard) = heard_on("discrete-4k", VIRTUAL, 8 * MIB, of_logs);
    host.trace_scheduling(true);
    let mut one = client(&host);
    one.run(|_| ());
    let runs = |heard: &Heard| {
        let all = heard.take();
        assert!(!all.iter().any(|event| matches!(event, Event::SchedulingLogEntryIgnored { .. })), "{all:?}");
        let runs = |event: &&Event| matches!(event, Event::ContextScheduled { node: COMPUTE, state: Running, .. });
        all.iter().filter(runs).count()
    };
    for state in [PowerState::Standby, PowerState::Hibernate] {
        host.power_transition(state).unwrap();
        assert_eq!(runs(&heard), 1, "the kernel reports entries from before the sleep with it");
        host.power_transition(PowerState::On).unwrap();
        one.run(|_| ());
    }
    host.trace_scheduling(false);
    assert_eq!(runs(&heard), 1);
    // Begun while it sleeps it is there when it wakes.
    host.power_transition(PowerState::Standby).unwrap();
    host.trace_scheduling(true);
    host.power_transition(PowerState::On).unwrap();
    one.run(|_| ());
    host.trace_scheduling(false);
    assert_eq!(runs(&heard), 1);
    host.check_invariants().unwrap();
}

#[test]
fn an_interrupt_about_no_log_is_nothing_and_one_about_no_node_stops_the_adapter() {
    // spec: sync §2.8, sync §4.2
    for (node, reason) in [(COMPUTE, None), (9, Some("node 9 of 2"))] {
        let said = Arc::new(Mutex::new(None));
        let more = Arc::clone(&said);
        let say = move |interrupt: Interrupt<'_>, notify: &mut dyn Notify| {
            notify.interrupt(interrupt);
            if let Some(more) = more.lock().unwrap().take() {
                notify.interrupt(more);
            }
        };
        let profile = Profile::named("discrete-4k").expect("a built-in profile");
        let config = HostConfig {
            vram_bytes: 8 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            recovery: RecoveryPolicy { delay_ns: None, ..RecoveryPolicy::default() },
            wrap_miniport: Some(wrapped(Whims { say: Box::new(say), ..Whims::default() })),
            ..HostConfig::new(profile, VIRTUAL)
        };
        let host = Host::start(config).expect("the host starts");
        let mut client = client(&host);
        let word = Interrupt::SchedulingLogInterrupt { node: NodeId(node), engine: EngineId(0) };
        *said.lock().unwrap() = Some(word);
        let value = client.stream.submit(&client.gpu, &[], &Commands::new()).unwrap();
        let _ = client.stream.wait(&client.gpu, value);
        while host.step() {}
        assert!(said.lock().unwrap().is_none(), "it was said");
        let stopped = host.stopped();
        assert_eq!(stopped.is_some(), reason.is_some(), "{stopped:?}");
        assert!(stopped.is_none_or(|stopped| stopped.contains(reason.unwrap())));
    }
}
