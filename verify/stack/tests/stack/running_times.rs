//! The engine time of each process, as the hardware counts it: above all for user-mode queues, whose work causes no call and no interrupt.

use std::sync::Arc;

use d3dkmt::{AdapterStatistics, NodeWork, query_statistics};
use dxgk_host::{Host, Mode, ProcessLink};
use kmt_link::Link;
use softgpu_spec::register::counter;
use softgpu_umd::{Gpu, Lane, Stage, Surface, SurfaceKind};
use wddm_types::{NodeId, ProcessId};

use stack::heard::heard_on;
use stack::world::{MIB, VIRTUAL, host};

/// A kernel over 1 MiB in video memory: the command, the launch, the bytes.
const TOUCH_NS: u64 = 50 + 2_000 + 1_049;

struct Worker {
    lane: Lane,
    gpu: Gpu,
    surface: Surface,
    link: Arc<ProcessLink>,
}

impl Worker {
    fn new(host: &Arc<Host>, stage: Stage) -> Worker {
        let link = ProcessLink::new(Arc::clone(host));
        let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).expect("the adapter opens");
        let surface = gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
        gpu.pin(&surface).expect("room");
        Worker { lane: Lane::create_at(&gpu, NodeId(0), stage).expect("a lane"), gpu, surface, link }
    }

    /// Hands so many kernels over, in one submission.
    fn submit(&mut self, times: u64) -> u64 {
        (0..times).for_each(|_| self.lane.touch(&self.surface, true));
        self.lane.submit(&self.gpu, None).expect("a submission")
    }

    fn work(&mut self, times: u64) {
        let value = self.submit(times);
        self.lane.wait(&self.gpu, value).expect("it completes");
    }

    fn process(&self) -> ProcessId {
        self.link.process()
    }
}

fn figures(host: &Arc<Host>) -> AdapterStatistics {
    seen_by(&ProcessLink::new(Arc::clone(host)), host)
}

fn seen_by(watcher: &ProcessLink, host: &Host) -> AdapterStatistics {
    query_statistics(watcher, host.luid()).expect("the adapter is there")
}

/// A process's share of node 0.
fn of(figures: &AdapterStatistics, process: ProcessId) -> NodeWork {
    figures.processes.iter().find(|known| known.process == process).expect("it has a device").nodes[0]
}

fn busy(host: &Host) -> u64 {
    host.device_register(counter::ENGINE_BUSY_NS)
}

#[test]
fn a_queue_that_its_process_feeds_has_the_time_of_its_commands_to_the_nanosecond() {
    // spec: sync §3.17, sync §4.1
    let run = || {
        let host = host(VIRTUAL, 8 * MIB);
        let mut workers = [Worker::new(&host, Stage::User), Worker::new(&host, Stage::User)];
        workers.iter_mut().for_each(|worker| worker.work(1));
        let (before, busy_before) = (figures(&host), busy(&host));
        workers[0].work(50);
        workers[1].work(20);
        workers[0].work(3);
        let (after, busy_after) = (figures(&host), busy(&host));
        let ran = workers.each_ref().map(|worker| {
            let (was, is) = (of(&before, worker.process()), of(&after, worker.process()));
            assert_eq!((is.submitted, is.completed), (0, 0), "the kernel counts no buffer of user-mode submission");
            is.running_ns - was.running_ns
        });
        let all = after.nodes[0].work.running_ns - before.nodes[0].work.running_ns;
        assert_eq!((all, busy_after - busy_before), (ran.iter().sum(), all), "the engine has done nothing else");
        assert!(all < after.now_ns - before.now_ns);
        let idle = figures(&host);
        assert_eq!(idle.nodes[0].work, after.nodes[0].work, "a process without work gets no time");
        ran
    };
    // Around the kernels of a submission are a branch to them and a signal behind them.
    let around = 50 + 150;
    assert_eq!(run(), [53 * TOUCH_NS + 2 * around, 20 * TOUCH_NS + around]);
    assert_eq!(run(), run(), "and so it is each time");
}

#[test]
fn the_same_work_has_the_same_time_by_every_way_to_submit_it() {
    // spec: sync §3.11, sync §3.17
    let [user, hardware] = [Stage::User, Stage::Hardware].map(|stage| {
        let host = host(VIRTUAL, 8 * MIB);
        let mut worker = Worker::new(&host, stage);
        worker.work(1);
        let before = of(&figures(&host), worker.process());
        worker.work(50);
        of(&figures(&host), worker.process()).running_ns - before.running_ns
    });
    assert_eq!(hardware - user, 50, "a buffer for the kernel has a command that does nothing at its end");
}

#[test]
fn looking_has_no_effect_and_tells_of_what_is_under_way() {
    // spec: sync §3.17, sync §4.1
    let run = |looks: bool| {
        let (host, heard) = heard_on("discrete-4k", VIRTUAL, 8 * MIB, |_| true);
        let mut worker = Worker::new(&host, Stage::User);
        worker.work(1);
        let (watcher, process) = (ProcessLink::new(Arc::clone(&host)), worker.process());
        let running_ns = || of(&seen_by(&watcher, &host), process).running_ns;
        let before = running_ns();
        heard.take_timed();
        let value = worker.submit(50);
        let mut ran = Vec::new();
        while host.step() {
            if looks {
                ran.push(running_ns() - before);
            }
        }
        worker.lane.wait(&worker.gpu, value).expect("it completes");
        // The last step ends the signal and says that nothing is left.
        ran.push(running_ns() - before);
        (heard.take_timed(), host.counters(), busy(&host), ran)
    };
    let (unseen, seen) = (run(false), run(true));
    assert_eq!((unseen.1.interrupts, unseen.2), (seen.1.interrupts, seen.2));
    let told =
        |events: &[(u64, events::Event)]| events.iter().map(|(_, event)| format!("{event:?}")).collect::<Vec<_>>();
    assert_eq!(told(&unseen.0), told(&seen.0), "the same has happened");
    assert!(seen.3.is_sorted() && seen.3.len() > 50, "{:?}", seen.3);
    assert_eq!(seen.3.last(), Some(&(50 * TOUCH_NS + 200)));
}

#[test]
fn a_queue_that_goes_leaves_its_time_behind_and_takes_none_along() {
    // spec: sync §2.5
    let host = host(VIRTUAL, 8 * MIB);
    let mut stays = Worker::new(&host, Stage::User);
    stays.work(1);
    let mut goes = Worker::new(&host, Stage::User);
    let (before, process) = (figures(&host), goes.process());
    goes.work(50);
    let Worker { lane, gpu, surface, link } = goes;
    drop(lane);
    let after = figures(&host);
    assert_eq!(of(&after, process).running_ns - of(&before, process).running_ns, 50 * TOUCH_NS + 200);
    drop((surface, gpu, link));
    while host.step() {}
    let left = figures(&host);
    assert_eq!(left.nodes[0].work.running_ns, after.nodes[0].work.running_ns, "the node's own stays");
    // Another queue has the same place in the hardware now.
    let mut comes = Worker::new(&host, Stage::User);
    assert_eq!(of(&figures(&host), comes.process()).running_ns, 0);
    comes.work(2);
    assert_eq!(of(&figures(&host), comes.process()).running_ns, 2 * TOUCH_NS + 200);
}

#[test]
fn paging_is_the_kernel_s_as_long_as_the_engine_says() {
    // spec: memory §1.11
    let host = host(VIRTUAL, 8 * MIB);
    let worker = Worker::new(&host, Stage::User);
    let surfaces: Vec<_> =
        (0..4).map(|_| worker.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface")).collect();
    surfaces.iter().for_each(|surface| worker.gpu.pin(surface).expect("room"));
    while host.step() {}
    let seen = figures(&host);
    let copied = seen.nodes[1].work.running_ns;
    assert!(copied > 0 && seen.processes[0].process == ProcessId::SYSTEM);
    assert_eq!(seen.processes[0].nodes[1].running_ns, copied);
    assert_eq!(host.device_register(counter::ENGINE_BUSY_NS + 8), copied, "since the adapter started");
}

#[test]
fn in_real_time_it_is_the_engine_s_own_time() {
    // spec: sync §3.17
    let host = host(Mode::Real, 8 * MIB);
    let mut worker = Worker::new(&host, Stage::User);
    worker.work(1);
    let (before, busy_before) = (figures(&host), busy(&host));
    worker.work(50);
    let (after, busy_after) = (figures(&host), busy(&host));
    let ran = of(&after, worker.process()).running_ns - of(&before, worker.process()).running_ns;
    assert!(ran > 0 && ran <= after.now_ns - before.now_ns, "{ran} ns");
    assert_eq!(ran, busy_after - busy_before);
}

#[test]
fn who_sleeps_is_not_asked_and_goes_on_with_its_count() {
    // spec: memory §8.4, sync §3.17
    let host = host(VIRTUAL, 8 * MIB);
    let mut worker = Worker::new(&host, Stage::User);
    worker.work(50);
    let before = of(&figures(&host), worker.process()).running_ns;
    host.power_transition(ddi::PowerState::Standby).expect("it sleeps");
    let asleep = figures(&host);
    assert_eq!((asleep.awake, of(&asleep, worker.process()).running_ns), (false, before));
    worker.work(50);
    assert_eq!(of(&figures(&host), worker.process()).running_ns - before, 50 * TOUCH_NS + 200, "its doorbell wakes it");
}
