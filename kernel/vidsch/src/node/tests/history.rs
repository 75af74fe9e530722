//! Random histories of one node under a driver that keeps the contract: every packet ends once, in order, or comes back; one context at a
//! time has the node; a node that owes an answer is handed nothing.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Paging buffers and packets start as far as they may; so many of each wait at most.
    Start { paging: bool },
    /// The driver is done with so many.
    Done(usize),
    /// The driver answers, done with so many more.
    Answer(usize),
    /// The context that has the node is lost.
    Drop,
    /// The node is reset: so many are done, so many lost.
    Reset(usize, usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => any::<bool>().prop_map(|paging| Op::Start { paging }),
        4 => (1..3usize).prop_map(Op::Done),
        4 => (0..3usize).prop_map(Op::Answer),
        1 => Just(Op::Drop),
        1 => (0..2usize, 0..3usize).prop_map(|(done, lost)| Op::Reset(done, lost)),
    ]
}

/// The packets of a context, or the paging buffers: numbers from the first that is not done on.
#[derive(Default)]
struct Queue {
    done: u64,
    waiting: VecDeque<(u64, Option<PacketFenceId>)>,
    made: u64,
}

impl Queue {
    fn next(&mut self) -> (u64, Option<PacketFenceId>) {
        self.waiting.pop_front().unwrap_or_else(|| {
            self.made += 1;
            (self.made, None)
        })
    }

    fn ends(&mut self, packet: u64) {
        assert_eq!(packet, self.done + 1, "packets end in their order, each once");
        self.done = packet;
    }
}

struct World {
    nodes: Nodes<u64, u64>,
    paging: Queue,
    contexts: BTreeMap<u64, Queue>,
    /// The driver's own list.
    driver: VecDeque<PacketFenceId>,
    last_done: PacketFenceId,
    asked: Option<PreemptionNumber>,
    contexts_made: u64,
}

impl World {
    fn start(&mut self, paging: bool) {
        if paging {
            let kept = self.paging.waiting.front().and_then(|(_, kept)| *kept);
            match self.nodes.next_paging(N0, kept) {
                PagingStep::Start(id) => {
                    assert_eq!(self.asked, None);
                    let (packet, _) = self.paging.next();
                    self.hand_over(id, PacketOf::Paging, packet);
                }
                PagingStep::Preempt(number) => assert_eq!(self.asked.replace(number), None),
                PagingStep::Wait => {}
            }
            return;
        }
        let ready: Vec<_> = self.contexts.keys().map(|context| above(*context, 1)).collect();
        let holder = self.nodes.holder(N0).map(|context| above(context, 1));
        // Paging that came back and keeps its id goes before what comes after it.
        let kept = !self.paging.waiting.is_empty();
        match self.nodes.next(0, N0, &ready, Seen { holder, must_quiesce: false, kept }) {
            NodeStep::Start(context, id) => {
                assert_eq!(self.asked, None);
                assert!(holder.is_none_or(|holder| holder.context == context), "one context at a time");
                let (packet, _) = self.contexts.get_mut(&context).unwrap().next();
                self.hand_over(id, PacketOf::Context(running(context, packet)), packet);
            }
            NodeStep::Preempt(number, _) => assert_eq!(self.asked.replace(number), None),
            NodeStep::Wait => {}
        }
    }

    fn hand_over(&mut self, id: PacketFenceId, of: PacketOf<u64>, packet: u64) {
        assert!(self.driver.iter().all(|other| id.is_later_than(*other)), "ids rise");
        self.driver.push_back(id);
        self.nodes.handed_over(N0, id, of, packet);
    }

    /// The driver carries out so many; the last of which it knows.
    fn run(&mut self, packets: usize) -> PacketFenceId {
        for id in self.driver.drain(..packets.min(self.driver.len())) {
            self.last_done = id;
        }
        self.last_done
    }

    fn ended(&mut self, done: TakenOut<u64, u64>) {
        for packet in done.into_packets() {
            self.queue(packet.of).ends(packet.packet);
        }
    }

    fn queue(&mut self, of: PacketOf<u64>) -> &mut Queue {
        match of.context() {
            None => &mut self.paging,
            Some(context) => self.contexts.get_mut(&context).expect("nothing of a dropped context comes"),
        }
    }

    fn come_back(&mut self) {
        for packet in self.nodes.give_back(N0).into_packets() {
            let kept = (packet.of == PacketOf::Paging).then_some(packet.id);
            self.queue(packet.of).waiting.push_front((packet.packet, kept));
        }
        self.driver.clear();
        self.nodes.goes_on(N0);
        self.asked = None;
    }

    fn drop_holder(&mut self) {
        let Some(context) = self.nodes.holder(N0) else { return };
        self.nodes.drop_of(N0, context);
        self.contexts.remove(&context);
        self.contexts_made += 1;
        self.contexts.insert(self.contexts_made, Queue::default());
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Start { paging } => self.start(paging),
            Op::Done(packets) => {
                let before = self.last_done;
                let last = self.run(packets);
                if last != before {
                    let done = self.nodes.completed(N0, last).unwrap();
                    self.ended(done);
                }
            }
            Op::Answer(packets) => {
                let Some(number) = self.asked else { return };
                let last = self.run(packets);
                let done = self.nodes.preempted(N0, number, last).unwrap();
                self.ended(done);
                self.come_back();
            }
            Op::Drop => self.drop_holder(),
            Op::Reset(done, lost) => {
                self.nodes.reset_begins(N0);
                let before = self.last_done;
                let last = self.run(done);
                if last != before {
                    let done = self.nodes.completed(N0, last).unwrap();
                    self.ended(done);
                }
                let last = self.run(lost);
                let aborted = self.nodes.aborted(N0, last).unwrap();
                if aborted.then == AfterReset::PagingLost {
                    self.hardware_lost();
                } else {
                    assert!(aborted.contexts.iter().all(|context| self.nodes.holder(N0) == Some(*context)));
                    aborted.contexts.iter().for_each(|_| self.drop_holder());
                    self.come_back();
                }
            }
        }
        let there = self.nodes.node(N0).in_flight.iter();
        assert!(there.map(|packet| packet.id).all(|id| self.driver.contains(&id)), "the driver has what the node has");
        assert!(self.driver.len() <= 3 + self.nodes.node(N0).dropped.len());
    }

    fn hardware_lost(&mut self) {
        let contexts = self.contexts.keys().copied().collect::<Vec<_>>();
        contexts.into_iter().for_each(|context| self.nodes.drop_of(N0, context));
        self.nodes.lost();
        self.driver.clear();
        self.last_done = self.nodes.node(N0).completed_last;
        self.asked = None;
        self.paging = Queue::default();
        self.contexts.values_mut().for_each(|queue| *queue = Queue::default());
    }
}

proptest! {
    #[test]
    fn every_packet_ends_once_in_order_or_comes_back(ops in prop::collection::vec(op(), 1..200)) {
        // spec: memory §7.4, sync §4.1, sync §4.3, sync §4.4
        let contexts = BTreeMap::from([(1, Queue::default()), (2, Queue::default())]);
        let mut world = World {
            nodes: nodes(true),
            paging: Queue::default(),
            contexts,
            driver: VecDeque::new(),
            last_done: PacketFenceId::default(),
            asked: None,
            contexts_made: 2,
        };
        for op in ops {
            world.apply(op);
        }
    }
}
