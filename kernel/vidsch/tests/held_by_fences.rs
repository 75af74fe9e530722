//! Queues of the scheduler and the fences together, as `dxgkrnl` joins them: work that waits is held on the CPU until the fence says so.

use gpu_fence::{FenceId, FenceKind, Fences, WaitMode, WaitOutcome};
use vidsch::{Limits, Packet, QueueId, QueueKind, Queues, Step};
use wddm_types::{FencePoint, NodeId};

struct Kernel {
    fences: Fences<QueueId>,
    queues: Queues<&'static str, FenceId>,
    current: Vec<(FenceId, u64)>,
    started: Vec<&'static str>,
}

impl Kernel {
    fn new() -> Self {
        Kernel {
            fences: Fences::new(),
            queues: Queues::new(Limits::default()),
            current: Vec::new(),
            started: Vec::new(),
        }
    }

    fn fence(&mut self, kind: FenceKind) -> FenceId {
        let fence = self.fences.create(kind);
        self.current.push((fence, 0));
        fence
    }

    fn queue(&mut self, packets: Vec<Packet<&'static str, FenceId>>) -> QueueId {
        let queue = self.queues.create_queue(NodeId(0), QueueKind::Kernel, 0);
        for packet in packets {
            self.queues.submit(queue, packet).expect("room for a few packets");
        }
        self.pump(queue);
        queue
    }

    fn pump(&mut self, queue: QueueId) {
        while let Some(step) = self.queues.next(queue) {
            match step {
                Step::Start(work) => self.started.push(work),
                Step::Software(_) => unreachable!("none was submitted"),
                Step::Signal(points) => points.iter().for_each(|point| self.signal(point.fence, point.value)),
                Step::Wait(points) => {
                    let current = &self.current;
                    let mut sample = |id| current.iter().find(|(fence, _)| *fence == id).expect("a known fence").1;
                    if let WaitOutcome::Satisfied(queue) = self.fences.wait(&points, WaitMode::All, &mut sample, queue)
                    {
                        self.queues.waited(queue);
                    }
                }
            }
        }
    }

    fn signal(&mut self, fence: FenceId, value: u64) {
        self.current.iter_mut().filter(|(id, _)| *id == fence).for_each(|(_, current)| *current = value);
        for queue in self.fences.sample(fence, value).released {
            self.queues.waited(queue);
            self.pump(queue);
        }
    }

    fn completed(&mut self, queue: QueueId, works: u32) {
        self.queues.completed(queue, works);
        self.pump(queue);
    }
}

fn at(fence: FenceId, value: u64) -> Vec<FencePoint<FenceId>> {
    vec![FencePoint { fence, value }]
}

#[test]
fn held_work_is_released_by_the_signal_and_not_before() {
    // spec: sync §3.8
    // seed: N05
    for kind in [FenceKind::Monitored, FenceKind::Native, FenceKind::NativeCrossAdapter] {
        let mut kernel = Kernel::new();
        let fence = kernel.fence(kind);
        kernel.queue(vec![Packet::Work("before"), Packet::Wait(at(fence, 10)), Packet::Work("behind")]);
        kernel.signal(fence, 9);
        assert_eq!(kernel.started, ["before"]);
        kernel.signal(fence, 10);
        assert_eq!(kernel.started, ["before", "behind"]);
    }
}

#[test]
fn a_wait_that_the_kernel_holds_counts_in_monitored_value() {
    // spec: sync §1.3, §6 B5
    let mut kernel = Kernel::new();
    let fence = kernel.fence(FenceKind::Native);
    kernel.queue(vec![Packet::Wait(at(fence, 10))]);
    assert_eq!(kernel.fences.monitored_value(fence), 9);
}

#[test]
fn a_signal_packet_passes_work_from_one_queue_to_another_once_the_first_has_finished() {
    // spec: sync §3.7, §3.8
    let mut kernel = Kernel::new();
    let fence = kernel.fence(FenceKind::Monitored);
    let producer = kernel.queue(vec![Packet::Work("produce"), Packet::Signal(at(fence, 1))]);
    kernel.queue(vec![Packet::Wait(at(fence, 1)), Packet::Work("consume")]);
    assert_eq!(kernel.started, ["produce"]);
    kernel.completed(producer, 1);
    assert_eq!(kernel.started, ["produce", "consume"]);
}
