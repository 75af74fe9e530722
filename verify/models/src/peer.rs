//! A signal that another GPU waits for (sync §3.18): [`shared_words::peer::post`] and [`shared_words::peer::drain`] between the store of
//! CurrentValue and the look at the peer's parked queues. A ringer lets the peer drain on the ringer's processor, so a signaller does both.
//!
//! A queue is lost when it sleeps, its value is there, and no processor that drained got its fence, or saw it parked.

use loom::sync::{Arc, Mutex};
use loom::thread;
use shared_words::fence::{MONITORED_NONE, may_park, signal};
use shared_words::peer::{Lane, Posted, drain, post};
use shared_words::{Barrier, Word};

use crate::explore::{Ending, Explored, explore};
use crate::word::ModelWord;

/// A lane with room for one record: the second of two has none while the first is not drained.
struct ModelLane {
    written: ModelWord,
    read: ModelWord,
    overflow: ModelWord,
    record: [ModelWord; 2],
}

impl<'a> Lane for &'a ModelLane {
    type Word = &'a ModelWord;

    fn written(&self) -> &'a ModelWord {
        &self.written
    }

    fn read(&self) -> &'a ModelWord {
        &self.read
    }

    fn overflow(&self) -> &'a ModelWord {
        &self.overflow
    }

    fn record(&self, _index: u64) -> [&'a ModelWord; 2] {
        [&self.record[0], &self.record[1]]
    }

    fn records(&self) -> u64 {
        1
    }
}

/// Two fences, the word for queues parked on the peer, and the lane to it.
struct World {
    current: [ModelWord; 2],
    monitored: ModelWord,
    parked: ModelWord,
    lane: ModelLane,
    /// A lane has one writer at a time, and one reader, which knows how many overflows it has seen.
    writing: Mutex<()>,
    reading: Mutex<u64>,
}

impl World {
    fn new() -> Arc<World> {
        let zero = || ModelWord::new(0);
        let lane = ModelLane { written: zero(), read: zero(), overflow: zero(), record: [zero(), zero()] };
        Arc::new(World {
            current: [zero(), zero()],
            monitored: ModelWord::new(MONITORED_NONE),
            parked: zero(),
            lane,
            writing: Mutex::new(()),
            reading: Mutex::new(0),
        })
    }

    /// Signals 1, writes it down and rings. Returns for each fence whether its parked queue was looked at.
    fn signal<S: Barrier>(&self, fence: usize) -> [bool; 2] {
        let _without_cpu_waiter = signal(S::full, &self.current[fence], &self.monitored, 1, || ());
        {
            let _guard = self.writing.lock().unwrap();
            post(S::full, &&self.lane, fence as u64, 1);
        }
        let mut overflows = self.reading.lock().unwrap();
        let mut looked_at = [false; 2];
        drain(S::full, &&self.lane, &mut overflows, |posted| {
            let seen = self.parked.load() != 0;
            match posted {
                Posted::Fence { fence, .. } => looked_at[fence as usize] |= seen,
                Posted::Any => looked_at = looked_at.map(|before| before | seen),
            }
        });
        looked_at
    }
}

/// Signals of 1 by `S` engines, each of a fence of its own, against a queue of the peer that parks for 1 on the last of these fences.
pub fn rings_against_park<S: Barrier + 'static, P: Barrier + 'static>(engines: usize) -> Explored {
    explore(move || {
        let world = World::new();
        let waited = engines - 1;
        let signallers: Vec<_> = (0..engines)
            .map(|fence| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.signal::<S>(fence))
            })
            .collect();
        let sleeps = may_park(P::full, &world.current[waited], &world.parked, 1, 1);
        let told = signallers.into_iter().map(|engine| engine.join().unwrap()[waited]).fold(false, |a, b| a | b);
        Ending { lost: sleeps && !told, twice: !sleeps && told }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Full, Removed};

    #[test]
    fn no_queue_of_a_peer_is_lost() {
        // spec: sync §3.18, sync §3.8
        // seed: N86
        let explored = rings_against_park::<Full, Full>(1);
        assert_eq!(explored.lost, 0, "{explored:?}");
        assert!(explored.twice > 0, "{explored:?}");
    }

    #[test]
    fn either_sides_barriers_removed_lose_it() {
        // spec: sync §3.18, sync §3.8
        let signaller = rings_against_park::<Removed, Full>(1);
        assert!(signaller.lost > 0, "the signaller's: {signaller:?}");
        let queue = rings_against_park::<Full, Removed>(1);
        assert!(queue.lost > 0, "the queue's: {queue:?}");
    }

    #[test]
    fn two_engines_that_write_one_lane_with_room_for_one_lose_no_queue() {
        // spec: sync §3.18
        let explored = rings_against_park::<Full, Full>(2);
        assert_eq!(explored.lost, 0, "{explored:?}");
    }
}
