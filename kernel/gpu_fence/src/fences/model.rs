//! Random histories against a model that keeps every condition in one list and searches it. After each step both agree
//! on the released waiters and their order, MonitoredValue is `min(W) − 1`, and a mirror that knows only the updates
//! holds the same values.

use proptest::prelude::*;

use super::*;

/// One step; a fence or wait is picked by its number among those alive.
#[derive(Clone, Debug)]
enum Op {
    Create(FenceKind),
    Destroy(usize),
    Wait {
        points: Vec<(usize, u64)>,
        mode: WaitMode,
    },
    /// CurrentValue changes, up or down; the test takes no sample.
    Store(usize, u64),
    Sample(usize),
    AlwaysSignaled(usize),
    Cancel(usize),
}

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![12 => 0..10u64, 1 => Just(u64::MAX - 1), 1 => Just(u64::MAX)]
}

fn op() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![
        1 => Just(FenceKind::Monitored),
        4 => Just(FenceKind::Native),
        1 => Just(FenceKind::NativeCrossAdapter)
    ];
    let mode = prop_oneof![Just(WaitMode::All), Just(WaitMode::Any)];
    prop_oneof![
        3 => kind.prop_map(Op::Create),
        1 => any::<usize>().prop_map(Op::Destroy),
        8 => (prop::collection::vec((any::<usize>(), value()), 0..5), mode)
            .prop_map(|(points, mode)| Op::Wait { points, mode }),
        4 => (any::<usize>(), value()).prop_map(|(fence, value)| Op::Store(fence, value)),
        6 => any::<usize>().prop_map(Op::Sample),
        1 => any::<usize>().prop_map(Op::AlwaysSignaled),
        2 => any::<usize>().prop_map(Op::Cancel),
    ]
}

#[derive(Clone)]
struct NaiveFence {
    id: FenceId,
    kind: FenceKind,
    current: u64,
    always_signaled: bool,
    /// The MonitoredValue that the replay of all updates yields.
    mirror: u64,
}

struct NaiveWait {
    what: u64,
    id: WaitId,
    mode: WaitMode,
    /// Points that are not reached.
    open: Vec<FencePoint<FenceId>>,
}

#[derive(Default)]
struct Naive {
    fences: Vec<NaiveFence>,
    waits: Vec<NaiveWait>,
    registered: u64,
}

impl Naive {
    /// Reaches all points of `fence` up to `value`; returns the released waits.
    fn reach(&mut self, fence: FenceId, value: u64) -> Vec<u64> {
        let mut released = Vec::new();
        for wait in &mut self.waits {
            let (hit, open): (Vec<_>, Vec<_>) =
                wait.open.iter().copied().partition(|point| point.fence == fence && point.value <= value);
            if hit.is_empty() {
                continue;
            }
            wait.open = open;
            let values = hit.iter().map(|point| point.value);
            match wait.mode {
                WaitMode::Any => released.push((values.min(), wait.what)),
                WaitMode::All if wait.open.is_empty() => released.push((values.max(), wait.what)),
                WaitMode::All => {}
            }
        }
        self.end(released)
    }

    fn destroy(&mut self, fence: FenceId) -> Vec<u64> {
        self.fences.retain(|entry| entry.id != fence);
        let mine = |wait: &NaiveWait| wait.open.iter().filter(|p| p.fence == fence).map(|p| p.value).min();
        let released = self.waits.iter().filter_map(|wait| mine(wait).map(|value| (Some(value), wait.what))).collect();
        self.end(released)
    }

    fn end(&mut self, mut released: Vec<(Option<u64>, u64)>) -> Vec<u64> {
        released.sort_unstable();
        let released: Vec<u64> = released.into_iter().map(|(_, what)| what).collect();
        self.waits.retain(|wait| !released.contains(&wait.what));
        released
    }

    fn conditions(&self, fence: FenceId) -> Vec<u64> {
        let points = self.waits.iter().flat_map(|wait| &wait.open);
        points.filter(|point| point.fence == fence).map(|point| point.value).collect()
    }

    fn monitored_value(&self, fence: &NaiveFence) -> u64 {
        match fence.kind {
            FenceKind::Native => self.conditions(fence.id).into_iter().min().map_or(u64::MAX, |value| value - 1),
            FenceKind::Monitored | FenceKind::NativeCrossAdapter => 0,
        }
    }

    fn replay(&mut self, updates: &[MonitoredUpdate]) {
        let mut seen: Vec<FenceId> = Vec::new();
        for update in updates {
            assert!(!seen.contains(&update.fence), "two updates of one fence in one turn");
            seen.push(update.fence);
            let fence =
                self.fences.iter_mut().find(|fence| fence.id == update.fence).expect("an update of a live fence");
            assert_eq!(fence.kind, FenceKind::Native);
            assert_ne!(fence.mirror, update.value, "an update that changes nothing");
            fence.mirror = update.value;
        }
    }

    fn compare(&self, fences: &Fences<u64>) {
        let mut with_waiters = Vec::new();
        for fence in &self.fences {
            let conditions = self.conditions(fence.id);
            assert_eq!(fences.kind(fence.id), fence.kind);
            assert_eq!(fences.waiters(fence.id), conditions.len());
            assert_eq!(fences.monitored_value(fence.id), self.monitored_value(fence));
            assert_eq!(fence.mirror, self.monitored_value(fence), "the mirror");
            assert!(!fence.always_signaled || conditions.is_empty(), "a sleeper on a fence that is always signaled");
            if !conditions.is_empty() {
                with_waiters.push(fence.id);
            }
        }
        with_waiters.sort_unstable();
        assert_eq!(fences.with_waiters().collect::<Vec<_>>(), with_waiters);
    }
}

struct Run {
    fences: Fences<u64>,
    naive: Naive,
}

impl Run {
    fn new() -> Self {
        Run { fences: Fences::new(), naive: Naive::default() }
    }

    fn pick(&self, number: usize) -> Option<NaiveFence> {
        let alive = &self.naive.fences;
        if alive.is_empty() { None } else { Some(alive[number % alive.len()].clone()) }
    }

    fn turn(&mut self, turn: Sampled<u64>, expected: Vec<u64>) {
        assert_eq!(turn.released, expected);
        self.naive.replay(&turn.updates);
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Create(kind) => {
                let id = self.fences.create(kind);
                let mirror = self.fences.monitored_value(id);
                assert!(self.naive.fences.iter().all(|fence| fence.id != id));
                self.naive.fences.push(NaiveFence { id, kind, current: 0, always_signaled: false, mirror });
            }
            Op::Destroy(number) => {
                let Some(fence) = self.pick(number) else { return };
                let expected = self.naive.destroy(fence.id);
                let turn = self.fences.destroy(fence.id);
                self.turn(turn, expected);
            }
            Op::Wait { points, mode } => self.wait(&points, mode),
            Op::Store(number, value) => {
                let Some(fence) = self.pick(number) else { return };
                self.naive
                    .fences
                    .iter_mut()
                    .filter(|entry| entry.id == fence.id)
                    .for_each(|entry| entry.current = value);
            }
            Op::Sample(number) => {
                let Some(fence) = self.pick(number) else { return };
                let expected = self.naive.reach(fence.id, fence.current);
                let turn = self.fences.sample(fence.id, fence.current);
                self.turn(turn, expected);
                // A sample leaves no wait that it satisfies.
                assert!(self.naive.conditions(fence.id).into_iter().all(|value| value > fence.current));
            }
            Op::AlwaysSignaled(number) => {
                let Some(fence) = self.pick(number) else { return };
                let expected = self.naive.reach(fence.id, u64::MAX);
                self.naive.fences.iter_mut().filter(|entry| entry.id == fence.id).for_each(|entry| {
                    entry.always_signaled = true;
                });
                let turn = self.fences.always_signaled(fence.id);
                self.turn(turn, expected);
            }
            Op::Cancel(number) => {
                if self.naive.waits.is_empty() {
                    return;
                }
                let wait = self.naive.waits.remove(number % self.naive.waits.len());
                let (what, updates) = self.fences.cancel(wait.id).expect("it sleeps");
                assert_eq!(what, wait.what);
                self.naive.replay(&updates);
                assert!(self.fences.cancel(wait.id).is_none());
            }
        }
    }

    fn wait(&mut self, points: &[(usize, u64)], mode: WaitMode) {
        let picked: Vec<(NaiveFence, u64)> =
            points.iter().filter_map(|(number, value)| Some((self.pick(*number)?, *value))).collect();
        let points: Vec<_> =
            picked.iter().map(|(fence, value)| FencePoint { fence: fence.id, value: *value }).collect();
        let open: Vec<_> = picked
            .iter()
            .filter(|(fence, value)| !fence.always_signaled && fence.current < *value)
            .map(|(fence, value)| FencePoint { fence: fence.id, value: *value })
            .collect();
        let holds = open.is_empty() || (mode == WaitMode::Any && open.len() < points.len());
        let what = self.naive.registered;
        self.naive.registered += 1;
        let current = |id| picked.iter().find(|(fence, _)| fence.id == id).expect("a fence of the wait").0.current;
        match self.fences.wait(&points, mode, &mut { current }, what) {
            WaitOutcome::Satisfied(back) => assert!(holds && back == what, "let through too early"),
            WaitOutcome::Pending { wait, updates } => {
                assert!(!holds, "a wait that holds sleeps");
                self.naive.waits.push(NaiveWait { what, id: wait, mode, open });
                self.naive.replay(&updates);
            }
        }
    }
}

proptest! {
    #[test]
    fn every_history_agrees_with_the_model(ops in prop::collection::vec(op(), 1..80)) {
        // spec: sync §1.3, §3.19, §6 B8, §6 B10, §6 B11, §6 B13
        // seed: N12, N14, N15
        let mut run = Run::new();
        for op in ops {
            run.step(op);
            run.naive.compare(&run.fences);
        }
    }
}
