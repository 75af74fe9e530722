//! Priorities of contexts with hardware queues, down to the engine: the waits of each context for others, in virtual time. The processes use
//! user-mode submission, so the kernel does not see which work runs when.

use softgpu_umd::{Commands, SurfaceKind};

use stack::world::{Client, MIB, VIRTUAL, client, host};

/// A command that changes a mebibyte over the bus.
const COMMAND_NS: u64 = 50 + 2_000 + 41_944;
const MS: u64 = 1_000_000;

/// A client with a mebibyte to change.
struct Worker {
    client: Client,
    surface: softgpu_umd::Surface,
}

impl Worker {
    fn new(host: &std::sync::Arc<dxgk_host::Host>, class: u32) -> Worker {
        let client = client(host);
        host.set_process_priority(client.link.process(), class);
        let surface = client.pinned(SurfaceKind::System, MIB);
        Worker { client, surface }
    }

    /// Queues so many changes; answers with the value that they complete.
    fn begin(&mut self, times: u32) -> u64 {
        let mut commands = Commands::new();
        for _ in 0..times {
            commands.touch(self.surface.va(), MIB, true);
        }
        self.client.stream.submit(&self.client.gpu, &[], &commands).expect("a submission")
    }

    fn end(&mut self, value: u64) {
        self.client.stream.wait(&self.client.gpu, value).expect("it completes");
    }
}

/// How long one command of a process of one class takes, from its doorbell, that comes to an engine on which a process of another
/// class has been executing 200 for so long.
fn waits_ns(busy_class: u32, class: u32, begun_ns: u64) -> u64 {
    let host = host(VIRTUAL, 8 * MIB);
    let (mut busy, mut comes) = (Worker::new(&host, busy_class), Worker::new(&host, class));
    for worker in [&mut busy, &mut comes] {
        let value = worker.begin(1);
        worker.end(value);
    }
    let start_ns = host.now_ns();
    let all = busy.begin(200);
    while host.now_ns() < start_ns + begun_ns && host.step() {}
    let at_ns = host.now_ns();
    let one = comes.begin(1);
    comes.end(one);
    let taken_ns = host.now_ns() - at_ns;
    busy.end(all);
    assert_eq!(busy.surface.lock().unwrap().read_word(0), 201, "nothing is lost, and nothing runs twice");
    taken_ns
}

#[test]
fn an_engine_is_shared_out_by_the_classes_of_processes() {
    // spec: sync §2.5, sync §4.2
    // A context of higher rank waits for the command under way.
    for (busy, class) in [(2, 4), (0, 2), (4, 5)] {
        let taken_ns = waits_ns(busy, class, MS);
        assert!((COMMAND_NS..3 * COMMAND_NS).contains(&taken_ns), "{class} beside {busy}: {taken_ns}");
    }
    // An equal waits for the quantum to end, and for the grace period.
    let taken_ns = waits_ns(2, 2, MS);
    let due_ns = MS + MS / 10;
    assert!((due_ns..due_ns + 3 * COMMAND_NS).contains(&taken_ns), "{taken_ns}");
    // A process whose quantum is long over is preempted after the grace period.
    let taken_ns = waits_ns(2, 2, 5 * MS);
    assert!((MS / 10..MS / 10 + 3 * COMMAND_NS).contains(&taken_ns), "{taken_ns}");
    // Beside REALTIME no lower class has a share: the command waits for the end. Below NORMAL there is a share, but the work is over sooner.
    for (busy, class) in [(5, 4), (2, 0)] {
        let taken_ns = waits_ns(busy, class, MS);
        assert!(taken_ns > 199 * COMMAND_NS - MS, "{class} beside {busy}: {taken_ns}");
    }
}

/// Three processes of the classes around NORMAL, with more to do than there is time: each one's share of the engine after so many rounds of
/// turns.
#[test]
fn classes_around_normal_share_an_engine_that_hardware_schedules_by_their_weights() {
    // spec: sync §4.2
    let host = host(VIRTUAL, 8 * MIB);
    let mut workers = [1, 2, 3].map(|class| Worker::new(&host, class));
    let values = workers.each_mut().map(|worker| worker.begin(1));
    workers.iter_mut().zip(values).for_each(|(worker, value)| worker.end(value));
    let start_ns = host.now_ns();
    // More work than any of them completes: they die in the middle of it.
    for worker in &mut workers {
        worker.begin(1_000);
    }
    let spent_ns = 63 * MS;
    while host.now_ns() < start_ns + spent_ns && host.step() {}
    let done = workers.each_ref().map(|worker| u64::from(worker.surface.lock().unwrap().read_word(0) as u32) - 1);
    assert!(done.iter().sum::<u64>() * COMMAND_NS > spent_ns - MS, "the engine had no rest: {done:?}");
    // A seventh, two, four: each within one turn of a process, which ends with the command under way.
    for (done, sevenths) in done.into_iter().zip([1, 2, 4]) {
        let (had_ns, due_ns) = (done * COMMAND_NS, spent_ns * sevenths / 7);
        assert!(had_ns.abs_diff(due_ns) < 2 * MS + MS / 10 + COMMAND_NS, "{sevenths}/7: {had_ns} of {due_ns}");
    }
    drop(workers);
    host.check_invariants().unwrap();
}

#[test]
fn a_context_that_ranks_otherwise_does_so_on_the_engine() {
    // spec: sync §4.2
    let host = host(VIRTUAL, 8 * MIB);
    let (mut busy, mut comes) = (Worker::new(&host, 4), Worker::new(&host, 2));
    let values = [busy.begin(1), comes.begin(1)];
    busy.end(values[0]);
    comes.end(values[1]);
    let (start_ns, all, one) = (host.now_ns(), busy.begin(200), comes.begin(1));
    while host.now_ns() < start_ns + MS && host.step() {}
    assert_eq!(comes.client.stream.progress().current(), values[1], "it waits");
    // The busy process loses rank: the waiting one runs at once.
    host.set_process_priority(busy.client.link.process(), 1);
    host.set_process_priority(comes.client.link.process(), 4);
    comes.end(one);
    assert!(host.now_ns() - start_ns < MS + 4 * COMMAND_NS);
    busy.end(all);
}

/// Three contexts of a process with kernel-mode queues. One of high priority waits for a signal of one of low priority, and one between them
/// has the engine.
#[test]
fn a_high_context_lends_its_rank_to_the_context_that_it_waits_for() {
    // spec: sync §4.2
    for waits in [true, false] {
        let host = host(VIRTUAL, 8 * MIB);
        let client = client(&host);
        let surface = client.pinned(SurfaceKind::System, MIB);
        let mut commands = Commands::new();
        for _ in 0..200 {
            commands.touch(surface.va(), MIB, true);
        }
        let buffer = client.pinned(SurfaceKind::System, MIB);
        buffer.lock().unwrap().write_words(0, commands.words());
        let command_bytes = commands.words().len() as u32 * 8 / 200;
        let contexts = [-7, 0, 7].map(|priority| {
            let context = client.gpu.device().create_context(wddm_types::NodeId(0)).unwrap();
            context.set_in_process_priority(priority).unwrap();
            context
        });
        let [low, between, high] = contexts.each_ref().map(|context| context.create_kernel_queue().unwrap());
        let device = client.gpu.device();
        let fence = device.create_native_fence(Default::default()).unwrap();
        let start_ns = host.now_ns();
        between.submit(buffer.va(), 200 * command_bytes, 1).unwrap();
        low.submit(buffer.va(), 5 * command_bytes, 1).unwrap();
        low.submit_signal(&fence, 1).unwrap();
        low.submit(buffer.va(), 100 * command_bytes, 2).unwrap();
        while host.now_ns() < start_ns + MS && host.step() {}
        assert_eq!(low.progress().current(), 0, "it is not its turn");
        if waits {
            high.submit_wait(&fence, 1).unwrap();
            high.submit(buffer.va(), command_bytes, 1).unwrap();
        }
        device.wait(&[(&fence, 1)]).unwrap();
        let taken_ns = host.now_ns() - start_ns - MS;
        if waits {
            assert!(taken_ns < 8 * COMMAND_NS, "one command of another, five of its own: {taken_ns}");
            device.wait(&[(high.progress(), 1)]).unwrap();
            // After its signal the low context has lost the lent rank.
            device.wait(&[(between.progress(), 1)]).unwrap();
            assert!(low.progress().current() < 2, "the rest of the low one comes last");
        } else {
            assert!(
                taken_ns > 199 * COMMAND_NS - MS,
                "no high context waits for it: it waits for the others, {taken_ns}"
            );
            device.wait(&[(between.progress(), 1)]).unwrap();
        }
        device.wait(&[(low.progress(), 2)]).unwrap();
        host.check_invariants().unwrap();
    }
}
