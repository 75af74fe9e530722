//! A million random short histories of one fence: after every step MonitoredValue is one less than the smallest value of a registered wait.
//! `model` compares longer histories of several fences.

use std::collections::BTreeMap;

use wddm_types::FencePoint;

use super::*;

/// Steps of a history.
const STEPS: u64 = 6;
/// Values are below this.
const VALUES: u64 = 8;

/// Numbers by a fixed rule (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[test]
fn monitored_value_is_one_less_than_the_earliest_waiters_in_a_million_histories() {
    // spec: sync §1.3, sync §3.19
    // seed: N12, N14, N15
    let mut dice = Dice(1);
    for _ in 0..1_000_000 {
        let mut fences = Fences::<WaitNumber>::new();
        let fence = fences.create(FenceKind::Native);
        let (mut current, mut waiting) = (0, BTreeMap::new());
        for number in 0..STEPS {
            match dice.below(4) {
                0 | 1 => {
                    let value = dice.below(VALUES);
                    let point = [FencePoint { fence, value }];
                    match fences.wait(&point, WaitMode::All, &mut |_| current, number) {
                        WaitOutcome::Satisfied(_) => assert!(value <= current),
                        WaitOutcome::Pending { wait, .. } => drop(waiting.insert(number, (value, wait))),
                    }
                }
                2 => {
                    current = current.max(dice.below(VALUES));
                    for number in fences.sample(fence, current).released {
                        let (value, _) = waiting.remove(&number).expect("it waited");
                        assert!(value <= current);
                    }
                    assert!(waiting.values().all(|(value, _)| *value > current));
                }
                _ => {
                    if let Some((_, (_, wait))) = waiting.pop_last() {
                        assert!(fences.cancel(wait).is_some());
                    }
                }
            }
            let earliest = waiting.values().map(|(value, _)| *value).min();
            assert_eq!(fences.monitored_value(fence), earliest.map_or(u64::MAX, |value| value - 1));
        }
    }
}

/// Which step a wait was.
type WaitNumber = u64;
