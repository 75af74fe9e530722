//! Each row of the table, and random histories against a model that looks through all waits each time.

use proptest::prelude::*;

use super::*;

fn pending<W: std::fmt::Debug>(wait: LegacyWait<W>) -> LegacyWaitId {
    match wait {
        LegacyWait::Pending(id) => id,
        LegacyWait::Satisfied(what) => panic!("{what:?} did not have to wait"),
    }
}

#[test]
// spec: sync §1.1, sync §2.2
fn a_mutex_lets_one_wait_through_for_each_signal() {
    let mut objects = LegacyObjects::new();
    let mutex = objects.create(LegacyKind::MutexObject { owned: false }).expect("a mutex");
    assert_eq!(objects.wait(&[mutex], 0, 'a'), LegacyWait::Satisfied('a'));
    pending(objects.wait(&[mutex], 0, 'b'));
    pending(objects.wait(&[mutex], 0, 'c'));
    assert_eq!(objects.signal(mutex, 0, false), ['b'], "the elder first");
    assert_eq!(objects.signal(mutex, 0, false), ['c']);
    assert_eq!(objects.signal(mutex, 0, false), []);
    assert_eq!(objects.signal(mutex, 0, false), [], "nothing to give up: no effect");
    assert_eq!(objects.wait(&[mutex], 0, 'd'), LegacyWait::Satisfied('d'));
    pending(objects.wait(&[mutex], 0, 'e'));
}

#[test]
fn a_mutex_can_be_owned_from_the_start() {
    let mut objects = LegacyObjects::new();
    let mutex = objects.create(LegacyKind::MutexObject { owned: true }).expect("a mutex");
    pending(objects.wait(&[mutex], 0, 'a'));
    assert_eq!(objects.signal(mutex, 0, false), ['a']);
}

#[test]
// spec: sync §3.4
fn a_mutex_knows_whose_it_is_until_it_is_given_up() {
    let mut objects = LegacyObjects::new();
    let [a, b] = [false, true].map(|owned| objects.create(LegacyKind::MutexObject { owned }).expect("a mutex"));
    assert_eq!((objects.is_its_creators(a), objects.is_its_creators(b)), (false, true));
    assert_eq!(objects.wait(&[a], 0, 'x'), LegacyWait::Satisfied('x'));
    pending(objects.wait(&[a, b], 0, 'y'));
    assert_eq!((objects.taken_by('x'), objects.taken_by('y')), (vec![a], vec![]), "who waits has nothing");
    assert_eq!(objects.signal(a, 0, false), []);
    assert_eq!(objects.signal(b, 0, false), ['y']);
    assert!(!objects.is_its_creators(b));
    assert_eq!((objects.taken_by('x'), objects.taken_by('y')), (vec![], vec![a, b]));
    assert_eq!(objects.destroy(a), []);
    assert_eq!(objects.taken_by('y'), [b], "a destroyed mutex has no owner");
}

#[test]
// spec: sync §1.1, sync §2.2
fn a_semaphore_counts_to_its_maximum() {
    let mut objects = LegacyObjects::new();
    let semaphore = objects.create(LegacyKind::Semaphore { max: 2, initial: 1 }).expect("a semaphore");
    assert_eq!(objects.signal(semaphore, 0, false), []);
    assert_eq!(objects.signal(semaphore, 0, false), [], "above the maximum: no effect");
    assert_eq!(objects.wait(&[semaphore, semaphore], 0, 'a'), LegacyWait::Satisfied('a'), "named twice, taken twice");
    pending(objects.wait(&[semaphore, semaphore], 0, 'b'));
    pending(objects.wait(&[semaphore], 0, 'c'));
    assert_eq!(objects.signal(semaphore, 0, false), ['c'], "one is not enough for the elder, which has kept none");
    assert_eq!(objects.signal(semaphore, 0, false), []);
    assert_eq!(objects.signal(semaphore, 0, false), ['b']);
}

#[test]
fn what_cannot_be_is_not_created() {
    let mut objects = LegacyObjects::<()>::new();
    assert_eq!(objects.create(LegacyKind::Semaphore { max: 1, initial: 2 }), Err(LegacyError::InitialAboveMax));
    assert!(objects.create(LegacyKind::Semaphore { max: 0, initial: 0 }).is_ok(), "its count stays 0");
}

#[test]
// spec: sync §1.1, sync §1.6
fn a_fence_of_packets_goes_back_only_when_asked() {
    let mut objects = LegacyObjects::new();
    let fence = objects.create(LegacyKind::Fence { value: 3 }).expect("a fence");
    assert_eq!(objects.wait(&[fence], 3, 'a'), LegacyWait::Satisfied('a'));
    pending(objects.wait(&[fence], 5, 'b'));
    pending(objects.wait(&[fence], 4, 'c'));
    assert_eq!(objects.signal(fence, 2, false), []);
    assert_eq!(objects.fence_value(fence), Some(3));
    assert_eq!(objects.signal(fence, 9, false), ['b', 'c'], "in the order in which they came");
    assert_eq!(objects.signal(fence, 1, true), []);
    pending(objects.wait(&[fence], 2, 'd'));
}

#[test]
fn a_wait_takes_all_or_nothing() {
    let mut objects = LegacyObjects::new();
    let a = objects.create(LegacyKind::MutexObject { owned: false }).expect("a mutex");
    let b = objects.create(LegacyKind::MutexObject { owned: true }).expect("a mutex");
    pending(objects.wait(&[a, b], 0, 'x'));
    assert_eq!(objects.wait(&[a], 0, 'y'), LegacyWait::Satisfied('y'), "who cannot have both holds neither");
    assert_eq!(objects.signal(b, 0, false), []);
    assert_eq!(objects.signal(a, 0, false), ['x']);
}

#[test]
// spec: sync §6 B8
fn destruction_and_withdrawal_end_waits_that_have_taken_nothing() {
    let mut objects = LegacyObjects::new();
    let a = objects.create(LegacyKind::MutexObject { owned: true }).expect("a mutex");
    let b = objects.create(LegacyKind::MutexObject { owned: false }).expect("a mutex");
    pending(objects.wait(&[a, b], 0, 'x'));
    let withdrawn = pending(objects.wait(&[a], 0, 'y'));
    assert_eq!((objects.cancel(withdrawn), objects.cancel(withdrawn)), (Some('y'), None));
    assert_eq!(objects.destroy(a), ['x']);
    assert_eq!(objects.waits(), 0);
    assert_eq!(objects.wait(&[b], 0, 'z'), LegacyWait::Satisfied('z'));
}

#[derive(Clone, Debug)]
enum Op {
    Wait(Vec<usize>, u64),
    Signal(usize, u64, bool),
    Cancel(usize),
    Destroy(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (prop::collection::vec(any::<usize>(), 1..4), 0..5u64).prop_map(|(which, value)| Op::Wait(which, value)),
        8 => (any::<usize>(), 0..5u64, prop::bool::weighted(0.1)).prop_map(|(which, value, rewind)| Op::Signal(which, value, rewind)),
        1 => any::<usize>().prop_map(Op::Cancel),
        1 => any::<usize>().prop_map(Op::Destroy),
    ]
}

/// The model of an object: how many waits it can still satisfy, and its value.
#[derive(Clone)]
struct Naive {
    kind: LegacyKind,
    left: u64,
    value: u64,
    taker: Option<usize>,
}

fn naive(kind: LegacyKind) -> Naive {
    let left = match kind {
        LegacyKind::MutexObject { owned } => u64::from(!owned),
        LegacyKind::Semaphore { initial, .. } => u64::from(initial),
        LegacyKind::Fence { .. } => u64::MAX,
    };
    let value = if let LegacyKind::Fence { value } = kind { value } else { u64::MAX };
    Naive { kind, left, value, taker: None }
}

fn takes(world: &mut BTreeMap<LegacyId, Naive>, wanted: &[LegacyId], value: u64, taker: usize) -> bool {
    let mut after = world.clone();
    for id in wanted {
        let object = after.get_mut(id).expect("it lives");
        if object.left == 0 || object.value < value && matches!(object.kind, LegacyKind::Fence { .. }) {
            return false;
        }
        object.left -= u64::from(!matches!(object.kind, LegacyKind::Fence { .. }));
        object.taker = matches!(object.kind, LegacyKind::MutexObject { .. }).then_some(taker);
    }
    *world = after;
    true
}

proptest! {
    #[test]
    fn random_histories_agree_with_the_model(ops in prop::collection::vec(op(), 1..60)) {
        let kinds = [
            LegacyKind::MutexObject { owned: false },
            LegacyKind::MutexObject { owned: true },
            LegacyKind::Semaphore { max: 3, initial: 1 },
            LegacyKind::Fence { value: 1 },
        ];
        let mut objects = LegacyObjects::new();
        let mut world = BTreeMap::new();
        for kind in kinds {
            world.insert(objects.create(kind).expect("it can be"), naive(kind));
        }
        let mut waiting: Vec<(LegacyWaitId, Vec<LegacyId>, u64, usize)> = Vec::new();
        for (number, op) in ops.into_iter().enumerate() {
            let alive: Vec<LegacyId> = world.keys().copied().collect();
            let pick = |which: usize| alive[which % alive.len()];
            match op {
                Op::Wait(which, value) => {
                    let wanted: Vec<LegacyId> = which.into_iter().map(pick).collect();
                    let expected = takes(&mut world, &wanted, value, number);
                    match objects.wait(&wanted, value, number) {
                        LegacyWait::Satisfied(what) => prop_assert!(expected && what == number),
                        LegacyWait::Pending(id) => {
                            prop_assert!(!expected);
                            waiting.push((id, wanted, value, number));
                        }
                    }
                }
                Op::Signal(which, value, rewind) => {
                    let id = pick(which);
                    let object = world.get_mut(&id).expect("it lives");
                    match object.kind {
                        LegacyKind::MutexObject { .. } => (object.left, object.taker) = (1, None),
                        LegacyKind::Semaphore { max, .. } => object.left = (object.left + 1).min(u64::from(max)),
                        LegacyKind::Fence { .. } => object.value = if rewind { value } else { object.value.max(value) },
                    }
                    let mut expected = Vec::new();
                    waiting.retain(|(_, wanted, value, number)| {
                        let over = wanted.contains(&id) && takes(&mut world, wanted, *value, *number);
                        expected.extend(over.then_some(*number));
                        !over
                    });
                    prop_assert_eq!(objects.signal(id, value, rewind), expected);
                }
                Op::Cancel(which) if !waiting.is_empty() => {
                    let (id, _, _, number) = waiting.remove(which % waiting.len());
                    prop_assert_eq!(objects.cancel(id), Some(number));
                }
                Op::Destroy(which) if alive.len() > 1 => {
                    let id = pick(which);
                    world.remove(&id);
                    let (over, left): (Vec<_>, Vec<_>) =
                        waiting.into_iter().partition(|(_, wanted, ..)| wanted.contains(&id));
                    waiting = left;
                    let expected: Vec<usize> = over.into_iter().map(|(.., number)| number).collect();
                    prop_assert_eq!(objects.destroy(id), expected);
                }
                Op::Cancel(_) | Op::Destroy(_) => {}
            }
            prop_assert_eq!(objects.waits(), waiting.len());
            for taker in 0..=number {
                let taken = world.iter().filter(|(_, object)| object.taker == Some(taker)).map(|(id, _)| *id);
                prop_assert_eq!(objects.taken_by(taker), taken.collect::<Vec<_>>());
            }
        }
    }
}
