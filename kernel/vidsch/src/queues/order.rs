//! Random histories of two queues: the order of a queue is never changed, nothing starts past a wait that is not over,
//! a signal never overtakes work, nothing is lost and nothing comes out twice.

use std::collections::VecDeque;

use proptest::prelude::*;
use wddm_types::FencePoint;

use super::*;
use crate::packet::SoftwareTurn;

#[derive(Clone, Copy, Debug)]
enum What {
    Wait,
    Signal,
    Work,
    Software(SoftwareTurn),
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Submit(What),
    Next,
    Waited,
    Completed(u32),
    /// The engine gives back so many, of those that were started last.
    Preempted(u32),
    Suspend,
    Resume,
    Fail,
}

fn op() -> impl Strategy<Value = Op> {
    let what = prop_oneof![
        2 => Just(What::Wait),
        2 => Just(What::Signal),
        5 => Just(What::Work),
        1 => Just(What::Software(SoftwareTurn::Completed)),
        1 => Just(What::Software(SoftwareTurn::Submitted)),
        1 => Just(What::Software(SoftwareTurn::Holds)),
    ];
    prop_oneof![
        40 => what.prop_map(Op::Submit),
        60 => Just(Op::Next),
        20 => Just(Op::Waited),
        30 => (1..4u32).prop_map(Op::Completed),
        10 => (1..4u32).prop_map(Op::Preempted),
        4 => Just(Op::Suspend),
        8 => Just(Op::Resume),
        1 => Just(Op::Fail),
    ]
}

/// The test's model of one queue, from its outside alone. Packets bear consecutive numbers.
struct Watched {
    queue: QueueId,
    in_flight_max: u32,
    submitted: Vec<What>,
    /// How many came out; because the order is kept, also the number of the next.
    out: usize,
    in_flight: u32,
    /// Works in flight, oldest first, and those that came back.
    started: VecDeque<usize>,
    back: VecDeque<usize>,
    waiting: bool,
    suspended: bool,
    failed: bool,
}

impl Watched {
    fn new(queues: &mut Queues<usize, ()>, in_flight_max: u32) -> Self {
        Watched {
            queue: queues.create_queue(NodeId(0), QueueKind::Kernel, in_flight_max),
            in_flight_max,
            submitted: Vec::new(),
            out: 0,
            in_flight: 0,
            started: VecDeque::new(),
            back: VecDeque::new(),
            waiting: false,
            suspended: false,
            failed: false,
        }
    }

    fn apply(&mut self, queues: &mut Queues<usize, ()>, op: Op) {
        let queue = self.queue;
        match op {
            Op::Submit(what) => {
                let result = queues.submit(queue, packet(what, self.submitted.len()));
                assert_eq!(result, if self.failed { Err(SubmitError::Stopped) } else { Ok(()) });
                if !self.failed {
                    self.submitted.push(what);
                }
            }
            Op::Next => {
                let step = queues.next(queue);
                self.came_out(step);
            }
            Op::Waited if self.waiting => {
                queues.waited(queue);
                self.waiting = false;
            }
            Op::Waited => {}
            Op::Completed(works) => {
                let works = works.min(self.in_flight);
                queues.completed(queue, works);
                self.in_flight -= works;
                self.started.drain(..works as usize);
            }
            Op::Preempted(works) if !self.failed => {
                for _ in 0..works.min(self.in_flight) {
                    let work = self.started.pop_back().unwrap();
                    queues.preempted(queue, work);
                    self.back.push_front(work);
                    self.in_flight -= 1;
                }
            }
            Op::Preempted(_) => {}
            Op::Suspend => {
                queues.suspend(queue);
                self.suspended = true;
            }
            Op::Resume => {
                queues.resume(queue);
                self.suspended = false;
            }
            Op::Fail => {
                let held = queues.fail(queue).into_packets();
                self.given_back(&held);
                self.failed = true;
            }
        }
        assert_eq!(queues.in_flight(queue), self.in_flight);
        assert_eq!(queues.held(queue), self.submitted.len() - self.out + self.back.len());
    }

    fn came_out(&mut self, step: Option<Step<usize, ()>>) {
        if let Some(first) = self.back.front().copied() {
            // Work that the engine gave back comes first, and a wait handed out after it does not hold it.
            let room = self.in_flight_max == 0 || self.in_flight < self.in_flight_max;
            let due = !self.suspended && !self.failed && room;
            assert_eq!(step, due.then_some(Step::Start(first)));
            if due {
                self.started.push_back(first);
                self.back.pop_front();
                self.in_flight += 1;
            }
            return;
        }
        let stopped = self.waiting || self.suspended || self.failed;
        let Some(step) = step else {
            let due = match self.submitted.get(self.out) {
                None => false,
                Some(What::Wait | What::Software(SoftwareTurn::Submitted | SoftwareTurn::Holds)) => true,
                Some(What::Signal | What::Software(SoftwareTurn::Completed)) => self.in_flight == 0,
                Some(What::Work) => self.in_flight_max == 0 || self.in_flight < self.in_flight_max,
            };
            return assert!(stopped || !due, "packet {} is due and does not come out", self.out);
        };
        assert!(!stopped, "{step:?} came out of a queue that waits, is suspended or has failed");
        assert_eq!(step, expected_step(self.submitted[self.out], self.out));
        let what = self.submitted[self.out];
        self.out += 1;
        match step {
            Step::Software(_) => {
                self.waiting = matches!(what, What::Software(SoftwareTurn::Holds));
                let early = matches!(what, What::Software(SoftwareTurn::Completed)) && self.in_flight > 0;
                assert!(!early, "a software packet overtook work");
            }
            Step::Wait(_) => self.waiting = true,
            Step::Signal(_) => assert_eq!(self.in_flight, 0, "a signal overtook work"),
            Step::Start(_) => {
                self.in_flight += 1;
                self.started.push_back(self.out - 1);
                assert!(self.in_flight_max == 0 || self.in_flight <= self.in_flight_max);
            }
        }
    }

    /// The queue gives back exactly the submitted packets that never came out, in order.
    fn given_back(&mut self, held: &[Packet<usize, ()>]) {
        let rest = self.submitted.iter().zip(0..).skip(self.out).map(|(what, number)| packet(*what, number));
        let back = self.back.drain(..).map(Packet::Work);
        assert_eq!(held, back.chain(rest).collect::<Vec<_>>());
        self.out = self.submitted.len();
    }

    /// Lets everything end: then everything comes out.
    fn drain(mut self, queues: &mut Queues<usize, ()>) {
        self.apply(queues, Op::Resume);
        while self.out < self.submitted.len() || !self.back.is_empty() {
            let before = self.out - self.back.len().min(self.out);
            for op in [Op::Waited, Op::Completed(u32::MAX), Op::Next] {
                self.apply(queues, op);
            }
            assert_eq!(self.out - self.back.len(), before + 1, "the queue is stuck");
        }
        for op in [Op::Waited, Op::Completed(u32::MAX)] {
            self.apply(queues, op);
        }
        assert!(queues.is_idle(self.queue));
    }
}

fn points(number: usize) -> Vec<FencePoint<()>> {
    vec![FencePoint { fence: (), value: number as u64 }]
}

fn packet(what: What, number: usize) -> Packet<usize, ()> {
    match what {
        What::Wait => Packet::Wait(points(number)),
        What::Signal => Packet::Signal(points(number)),
        What::Work => Packet::Work(number),
        What::Software(turn) => Packet::Software(number, turn),
    }
}

fn expected_step(what: What, number: usize) -> Step<usize, ()> {
    match what {
        What::Wait => Step::Wait(points(number)),
        What::Signal => Step::Signal(points(number)),
        What::Work => Step::Start(number),
        What::Software(_) => Step::Software(number),
    }
}

proptest! {
    #[test]
    fn every_history_keeps_the_order_and_loses_nothing(
        in_flight_max in 0..4u32,
        ops in prop::collection::vec((any::<bool>(), op()), 1..200),
        destroyed in any::<bool>(),
    ) {
        // spec: sync §3.7, §3.8, §4.1
        let mut queues = Queues::new(Limits::default());
        let mut first = Watched::new(&mut queues, in_flight_max);
        let mut second = Watched::new(&mut queues, 0);
        for (which, op) in ops {
            if which { &mut first } else { &mut second }.apply(&mut queues, op);
        }
        second.drain(&mut queues);
        if destroyed {
            let held = queues.destroy_queue(first.queue).into_packets();
            first.given_back(&held);
        } else {
            first.drain(&mut queues);
        }
    }
}
