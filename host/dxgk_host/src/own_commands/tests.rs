//! Whose commands a device has begun: hardware queues and packets, told of before or behind; the asking process's alone.

use super::*;

const ONE: ProcessId = ProcessId(1);
const OTHER: u32 = 2;

fn counted() -> Arc<Commands> {
    let commands = Arc::new(Commands::default());
    drop(commands.before(0, None));
    commands
}

fn heard(commands: &Commands, events: &[Event]) {
    events.iter().for_each(|event| commands.hear(AdapterIndex(0), event));
}

fn seen(commands: &Commands, what: &[Observation]) {
    what.iter().for_each(|what| commands.see(0, 5, what));
}

/// Kind, done, failed, the number of the first.
fn counts(commands: &Commands, process: ProcessId) -> Vec<(&'static str, u64, u64, u64)> {
    let state = lock(&commands.state);
    let kinds = state.processes.get(&process.0).map(|counts| &counts.kinds);
    let row = |(kind, uses): (&&'static str, &Uses)| (*kind, uses.done, uses.failed, uses.first);
    kinds.map(|kinds| kinds.iter().map(row).collect()).unwrap_or_default()
}

fn fill(queue: u32) -> Observation {
    Observation::Begin { engine: 0, queue, kind: "fill", bytes: 8 }
}

fn signal(queue: u32) -> Observation {
    Observation::Signal { queue, bus: 0, value: 1, interrupt: false }
}

fn queue_of(process: u32, owner: u64) -> Event {
    Event::QueueCreated { queue: owner, node: 0, user_mode: true, process, fence: 1, owner }
}

fn packets_of(process: u32) -> [Event; 2] {
    let number = u64::from(process);
    [
        Event::DeviceCreated { process, device: number },
        Event::PacketContextCreated { context: number, device: number, node: 0, patched: false },
    ]
}

fn started(process: u32, fence_id: u32) -> Event {
    Event::PacketStarted { context: process.into(), packet: 1, node: 0, fence_id, patched: false }
}

fn begun(value: u64) -> Observation {
    Observation::Buffer { engine: 0, queue: 9, value }
}

#[test]
fn a_hardware_queue_is_its_processs_and_no_others() {
    let commands = counted();
    assert_eq!(commands.of(ONE, &[]), OwnCommands::default(), "the first question begins the counts");
    heard(&commands, &[queue_of(1, 7), queue_of(OTHER, 8)]);
    // The kernel's own queue has an owner that no process has.
    let attached = [(3, 7), (4, 8), (5, 6)].map(|(queue, owner)| Observation::Attached { queue, owner });
    seen(&commands, &attached);
    seen(&commands, &[signal(3), fill(3), fill(4), fill(5), fill(3), signal(4), fill(2)]);
    seen(&commands, &[Observation::WaitBegin { queue: 3, bus: 0, value: 1 }, signal(3)]);
    seen(&commands, &[Observation::Fault { queue: 3, va: 0x40, cause: "no entry" }]);
    assert_eq!(counts(&commands, ONE), [("fault", 0, 1, 5), ("fill", 2, 0, 2), ("signal", 2, 0, 1)]);
    assert_eq!(lock(&commands.state).processes[&1].kinds["fault"].why, "no entry: 0x40");
    // A name of the driver's that another process has from now on.
    heard(&commands, &[queue_of(OTHER, 7)]);
    seen(&commands, &[fill(3)]);
    assert_eq!(counts(&commands, ONE)[1], ("fill", 2, 0, 2));
}

// Engines run beside the kernel: either may be first to tell of a packet.
#[test]
fn a_packet_counts_for_the_process_that_the_kernel_names_before_or_behind() {
    let commands = counted();
    commands.begins(ONE);
    heard(&commands, &packets_of(1));
    heard(&commands, &packets_of(OTHER));
    heard(&commands, &[started(1, 1)]);
    seen(&commands, &[begun(1), fill(9)]);
    seen(&commands, &[begun(2), fill(9), signal(9), begun(3), fill(9), begun(4), fill(9)]);
    assert_eq!(counts(&commands, ONE), [("fill", 1, 0, 1)]);
    let paging = Event::PagingPacketStarted { progress_value: 1, node: 0, fence_id: 4, again: false };
    heard(&commands, &[started(1, 2), started(OTHER, 3), paging]);
    assert_eq!(counts(&commands, ONE), [("fill", 2, 0, 1), ("signal", 1, 0, 3)]);
    // It goes on, and another one is preempted and begun again under another number.
    seen(&commands, &[fill(9), begun(2), fill(9)]);
    heard(&commands, &[started(OTHER, 5), started(1, 6)]);
    seen(&commands, &[begun(5), fill(9), begun(6), fill(9), fill(9)]);
    let portion = Event::PortionStarted { context: 1, packet: 1, fence_id: 7, start_offset: 0, end_offset: 8 };
    heard(&commands, &[portion]);
    seen(&commands, &[begun(7), signal(9)]);
    assert_eq!(counts(&commands, ONE), [("fill", 5, 0, 1), ("signal", 2, 0, 3)]);
}

#[test]
fn nothing_is_counted_before_a_process_asks_and_behind_its_end() {
    let commands = counted();
    heard(&commands, &[queue_of(1, 7)]);
    seen(&commands, &[Observation::Attached { queue: 3, owner: 7 }, fill(3)]);
    assert!(lock(&commands.state).processes.is_empty());
    commands.begins(ONE);
    seen(&commands, &[fill(3)]);
    assert_eq!(counts(&commands, ONE), [], "the queue is older than the question");
    heard(&commands, &packets_of(1));
    heard(&commands, &[started(1, 1)]);
    seen(&commands, &[begun(1), fill(9)]);
    assert_eq!(counts(&commands, ONE), [("fill", 1, 0, 1)]);
    commands.process_gone(ONE, &[]);
    assert_eq!(commands.asking.load(Ordering::Acquire), 0);
    commands.begins(ProcessId(3));
    seen(&commands, &[fill(9), begun(1), fill(9)]);
    assert_eq!(counts(&commands, ProcessId(3)), []);
}
