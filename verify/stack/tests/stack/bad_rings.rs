//! A process fills its ring with nonsense, or never rings: its own device alone faults, or nothing happens. A process that shares the engine
//! goes on.

use std::sync::Arc;

use d3dkmt::DeviceState;
use dxgk_host::Host;
use kmt_calls::{Call, QueueCall};
use kmt_link::{DoorbellPage, Link};
use shared_words::Word;
use softgpu_spec::Command;
use softgpu_umd::{Commands, Surface, SurfaceKind};
use wddm_types::{GpuVa, NodeId, WordAddress};

use crate::doorbells::made_by_hand;
use stack::world::{Client, MIB, VIRTUAL, client, host};

const RING_BYTES: u64 = 4096;

/// A process that feeds a queue by hand.
struct Fed {
    client: Client,
    ring: Surface,
    doorbell: Arc<DoorbellPage>,
    last_queued: WordAddress,
    host: Arc<Host>,
}

impl Fed {
    fn new(host: &Arc<Host>) -> Fed {
        let client = client(host);
        let surface = client.pinned(SurfaceKind::System, RING_BYTES);
        let made = made_by_hand(&client, &surface);
        let connect = QueueCall::ConnectDoorbell { doorbell: made.doorbell };
        client.link.call(Call::Queue(connect)).expect("it connects");
        let doorbell = client.link.doorbell(made.address).expect("its own");
        let fed = Fed { ring: surface, doorbell, last_queued: made.last_queued, client, host: Arc::clone(host) };
        fed.drain();
        fed
    }

    fn drain(&self) {
        while self.host.step() {}
    }

    /// Writes these words to the beginning of the ring and rings with this write pointer.
    fn rings(&self, words: &[u64], pointer: u64) {
        self.ring.lock().expect("a lock").write_words(0, words);
        self.doorbell.ring(pointer);
        self.drain();
    }

    fn state(&self) -> DeviceState {
        self.client.gpu.device().state().expect("a state")
    }
}

/// Another process's work completes on the same engine.
fn goes_on(of: &mut Client) {
    let surface = of.pinned(SurfaceKind::System, 4096);
    of.run(|commands| {
        commands.fill(surface.va(), 4096, 7);
    });
    assert_eq!(of.gpu.device().state().expect("a state"), DeviceState::Active);
}

fn words(command: Command<'_>) -> Vec<u64> {
    let mut words = Vec::new();
    command.encode(&mut words);
    words
}

#[test]
fn a_ring_of_nonsense_faults_its_own_device() {
    // spec: sync §3.17, memory §5.8
    let host = host(VIRTUAL, 4 * MIB);
    let mut other = client(&host);
    let nop = words(Command::Nop);
    let fill = words(Command::Fill { va: 0, bytes: 8, pattern: 0 });
    let cases: [(&str, &[u64], u64); 6] = [
        ("a write pointer beyond the ring", &[], RING_BYTES + 8),
        ("a write pointer between two words", &nop, 4),
        ("a write pointer that went backwards", &[], 0u64.wrapping_sub(8)),
        ("a write pointer out of this world", &[], 1 << 40),
        ("words that are no command", &[0x7f | 1 << 8], 8),
        ("a command that the write pointer cuts short", &fill[..1], 8),
    ];
    for (what, words, pointer) in cases {
        let fed = Fed::new(&host);
        fed.rings(words, pointer);
        assert_eq!(fed.state(), DeviceState::ErrorDmaPageFault, "{what}");
        goes_on(&mut other);
        assert_eq!(host.stopped(), None, "{what}");
        host.check_invariants().unwrap();
    }
}

/// A buffer that ends in the middle of a command, in the ring's branch and in the kernel's hands.
#[test]
fn a_buffer_that_is_cut_short_faults_its_own_device() {
    // spec: memory §5.8
    let host = host(VIRTUAL, 4 * MIB);
    let mut other = client(&host);
    let fed = Fed::new(&host);
    let buffer = fed.client.pinned(SurfaceKind::System, 4096);
    let fill = words(Command::Fill { va: buffer.va().0, bytes: 8, pattern: 0 });
    buffer.lock().expect("a lock").write_words(0, &fill);
    // CAST: a few words.
    let cut = fill.len() as u32 - 1;
    let branch = words(Command::Branch { va: buffer.va().0, words: cut });
    fed.rings(&branch, branch.len() as u64 * 8);
    assert_eq!(fed.state(), DeviceState::ErrorDmaPageFault);
    goes_on(&mut other);

    let kernel_fed = client(&host);
    let device = kernel_fed.gpu.device();
    let context = device.create_context(NodeId(0)).expect("a context");
    let queue = context.create_kernel_queue().expect("a queue");
    let buffer = kernel_fed.pinned(SurfaceKind::System, 4096);
    buffer.lock().expect("a lock").write_words(0, &fill);
    queue.submit(buffer.va(), cut * 8, 1).expect("the kernel does not read the buffer");
    while host.step() {}
    assert_eq!(device.state().expect("a state"), DeviceState::ErrorDmaPageFault);
    goes_on(&mut other);
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}

/// It queues and says so, and never rings; and one that rings all the time and has nothing.
#[test]
fn a_process_that_never_rings_and_one_that_always_does_disturb_no_other() {
    // spec: sync §3.17, sync §6 D5
    let host = host(VIRTUAL, 4 * MIB);
    let mut other = client(&host);
    let (silent, loud) = (Fed::new(&host), Fed::new(&host));
    silent.ring.lock().expect("a lock").write_words(0, &words(Command::Nop));
    Word::store(silent.client.link.system_memory().word(silent.last_queued.0), 1);
    for _ in 0..1_000 {
        loud.rings(&[], 0);
    }
    goes_on(&mut other);
    // Any last-queued value is harmless.
    Word::store(silent.client.link.system_memory().word(silent.last_queued.0), u64::MAX);
    goes_on(&mut other);
    assert_eq!((silent.state(), loud.state()), (DeviceState::Active, DeviceState::Active));
    // The end of a process does not wait for its last-queued value.
    drop((silent, loud));
    goes_on(&mut other);
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}

/// Pages that a process may only read, written by its own engine.
#[test]
fn who_writes_what_it_may_only_read_faults_alone() {
    // spec: sync §1.4, sync §3.19 item 4, memory §5.8
    let host = host(VIRTUAL, 4 * MIB);
    let mut other = client(&host);
    let written = |of: &mut Client, va: GpuVa| {
        let mut commands = Commands::new();
        commands.fill(va, 8, 0);
        let value = of.stream.submit(&of.gpu, &[], &commands).expect("a submission");
        let ended = of.stream.wait(&of.gpu, value);
        (ended.is_err(), of.gpu.device().state().expect("a state"))
    };
    let mut of = client(&host);
    let fence = of.gpu.device().create_native_fence(Default::default()).expect("a fence");
    let monitored = fence.monitored_va();
    assert_eq!(written(&mut of, monitored), (true, DeviceState::ErrorDmaPageFault), "MonitoredValue");
    goes_on(&mut other);
    assert_eq!(host.stopped(), None);
    host.check_invariants().unwrap();
}
