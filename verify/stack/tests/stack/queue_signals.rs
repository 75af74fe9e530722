//! Signals of kernel-mode hardware queues: the queues that take part, and how far they must have come.

use std::sync::Arc;

use d3dkmt::{Fence, FenceFlags, HwContext};
use dxgk_host::Host;
use kmt_calls::{Call, QueueCall, QueueFlags, Refusal, Reply, SignalFlags};
use kmt_link::Link;
use softgpu_umd::{Commands, Surface, SurfaceKind};
use wddm_types::{NodeId, NtStatus, RawHandle};

use stack::world::{Client, MIB, VIRTUAL, client, host};

/// Queues of one context, with these flags; each runs a buffer that waits on the GPU until its gate is opened.
struct Queues {
    queues: Vec<RawHandle>,
    gates: Vec<Fence>,
    client: Client,
    host: Arc<Host>,
    _context: HwContext,
    _buffers: Vec<Surface>,
}

impl Queues {
    fn new(flags: &[QueueFlags]) -> Queues {
        let host = host(VIRTUAL, 4 * MIB);
        let client = client(&host);
        let context = client.gpu.device().create_context(NodeId(0)).expect("a context");
        let mut made =
            Queues { queues: Vec::new(), gates: Vec::new(), client, host, _context: context, _buffers: Vec::new() };
        flags.iter().for_each(|flags| made.add(*flags));
        made.drain();
        made
    }

    fn add(&mut self, flags: QueueFlags) {
        let context = self._context.handle();
        let created =
            self.client.link.call(Call::Queue(QueueCall::CreateHwQueue { context, flags, private_data: Vec::new() }));
        let Ok(Reply::HwQueue(created)) = created else { panic!("no queue: {created:?}") };
        let gate = self.client.gpu.device().create_native_fence(Default::default()).expect("a fence");
        let buffer = self.client.pinned(SurfaceKind::System, 4096);
        let mut commands = Commands::new();
        commands.wait(&gate, 1);
        buffer.lock().expect("a lock").write_words(0, commands.words());
        // CAST: a few words.
        let buffer_bytes = commands.words().len() as u32 * 8;
        let (queue, buffer_va, written_primaries) = (created.queue, buffer.va(), Vec::new());
        let submit = QueueCall::SubmitCommandToHwQueue {
            queue,
            progress_value: 1,
            buffer: buffer_va,
            buffer_bytes,
            written_primaries,
            private_data: Vec::new(),
        };
        self.client.link.call(Call::Queue(submit)).expect("a submission");
        self.queues.push(queue);
        self.gates.push(gate);
        self._buffers.push(buffer);
    }

    fn drain(&self) {
        while self.host.step() {}
    }

    fn signal(&self, queues: &[usize], points: &[(&Fence, u64)], flags: SignalFlags) -> Result<Reply, Refusal> {
        let queues = queues.iter().map(|at| self.queues[*at]).collect();
        let points = points.iter().map(|(fence, value)| (fence.handle(), *value)).collect();
        let call = QueueCall::SubmitSignalSyncObjectsToHwQueue { queues, points, flags };
        let answer = self.client.link.call(Call::Queue(call));
        self.drain();
        answer
    }

    fn open(&self, gate: usize) {
        self.client.gpu.device().signal(&self.gates[gate], 1).expect("a signal");
        self.drain();
    }
}

#[test]
fn a_queue_that_takes_no_part_in_broadcasts_holds_none_up() {
    // spec: sync §2.5
    let (part, none) = (QueueFlags::empty(), QueueFlags::NO_BROADCAST_SIGNAL);
    let queues = Queues::new(&[part, part, none, none | QueueFlags::NO_BROADCAST_WAIT]);
    let fence = || queues.client.gpu.device().create_native_fence(Default::default()).expect("a fence");
    let (of_two, without, alone) = (fence(), fence(), fence());
    queues.signal(&[0, 1], &[(&of_two, 1)], SignalFlags::empty()).expect("a signal");
    queues.signal(&[0, 2, 3], &[(&without, 1)], SignalFlags::empty()).expect("a signal");
    // One queue alone is no broadcast.
    queues.signal(&[2], &[(&alone, 1)], SignalFlags::empty()).expect("a signal");
    let reached = || [of_two.current(), without.current(), alone.current()];
    assert_eq!(reached(), [0, 0, 0]);
    queues.open(0);
    assert_eq!(reached(), [0, 1, 0]);
    queues.open(1);
    assert_eq!(reached(), [1, 1, 0]);
    queues.open(2);
    assert_eq!(reached(), [1, 1, 1]);
    let refused = queues.signal(&[2, 3], &[(&alone, 2)], SignalFlags::empty()).expect_err("no queue takes part");
    assert_eq!((refused.status, alone.current()), (NtStatus::INVALID_PARAMETER, 1));
    queues.host.check_invariants().unwrap();
}

/// The earlier work of the queues is on the engine, and is not done.
#[test]
fn a_fence_at_the_top_of_the_pipeline_waits_for_no_completion() {
    // spec: sync §2.3, sync §2.4
    let queues = Queues::new(&[QueueFlags::empty(); 2]);
    let create = |flags| queues.client.gpu.device().create_monitored_fence(flags, 0).expect("a fence");
    let (top, done) = (create(FenceFlags::TOP_OF_PIPELINE), create(FenceFlags::empty()));
    let points = [(&top, 4), (&done, 5)];
    queues.signal(&[0, 1], &points, SignalFlags::empty()).expect("a signal");
    assert_eq!((top.current(), done.current()), (4, 0));
    queues.open(0);
    assert_eq!(done.current(), 0);
    queues.open(1);
    assert_eq!((top.current(), done.current()), (4, 5));
    queues.host.check_invariants().unwrap();
}
