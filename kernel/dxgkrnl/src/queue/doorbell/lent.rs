//! The other doorbells, lent to a driver while it connects one, so that it can take one away from
//! its process (`DxgkCbDisconnectDoorbell`).

use ddi::{Disconnected, DoorbellHost, DriverStatus, OsDoorbell, OsQueue};
use shared_words::Word;

use super::Doorbell;
use super::connection::{Change, Connection};
use crate::number::{DoorbellNumber, QueueNumber};
use crate::platform::Shown;
use crate::store::{ObjectNumber, Store};

/// The doorbells of an adapter in its driver's hands.
pub(super) struct LentDoorbells<'a> {
    pub doorbells: &'a mut Store<DoorbellNumber, Doorbell>,
    pub shown: Shown<'a>,
    /// Of these queues one was taken away.
    pub taken: Vec<QueueNumber>,
}

impl DoorbellHost for LentDoorbells<'_> {
    // spec: sync §3.17, sync §5
    fn disconnect_doorbell(
        &mut self,
        queue: OsQueue,
        doorbell: OsDoorbell,
        reason: Disconnected,
    ) -> Result<(), DriverStatus> {
        let (queue, doorbell) = (QueueNumber::from_raw(queue.0), DoorbellNumber::from_raw(doorbell.0));
        let doorbell = self.doorbells.get_mut(doorbell).filter(|doorbell| doorbell.of.queue == queue);
        let doorbell = doorbell.ok_or(DriverStatus::InvalidParameter("the queue has no such doorbell"))?;
        let change = match reason {
            Disconnected::Retry => Change::Take,
            Disconnected::Abort => Change::Lose,
        };
        let before = doorbell.connection;
        let left = before.after(change);
        let word = left.status().expect("one that was taken away rings nowhere");
        doorbell.connection = left;
        if before == Connection::Connected {
            self.shown.take_away(doorbell.words.address, doorbell.words.status, word, || {});
            self.taken.push(queue);
        } else if before != left {
            Word::store(self.shown.memory.word(doorbell.words.status.0), word);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use ddi::KmdDoorbell;
    use kmt_calls::DoorbellAddress;
    use shared_words::Memory;
    use wddm_types::{GpuVa, ProcessId, WordAddress};

    use super::super::{DoorbellUse, DoorbellWords, doorbell_status};
    use super::*;
    use crate::number::DeviceNumber;
    use crate::platform::DoorbellPages;

    const STATUS: [u64; 3] = [0, 8, 16];
    const CONNECTED: u64 = doorbell_status::CONNECTED;
    const RETRY: u64 = doorbell_status::DISCONNECTED_RETRY;
    const ABORT: u64 = doorbell_status::DISCONNECTED_ABORT;

    /// The calls to the pages, with the status of that doorbell then.
    #[derive(Debug)]
    struct Pages<'a>(&'a Memory, Mutex<Vec<(&'static str, u64, u64)>>);

    impl Pages<'_> {
        fn note(&self, what: &'static str, doorbell: DoorbellAddress) {
            let status = Word::load(self.0.word(STATUS[doorbell.0 as usize]));
            self.1.lock().unwrap().push((what, doorbell.0, status));
        }
    }

    impl DoorbellPages for Pages<'_> {
        fn made(&self, doorbell: DoorbellAddress, _process: ProcessId) {
            self.note("made", doorbell);
        }
        fn hold(&self, doorbell: DoorbellAddress) {
            self.note("hold", doorbell);
        }
        fn settle(&self, doorbell: DoorbellAddress) {
            self.note("settle", doorbell);
        }
        fn show(&self, doorbell: DoorbellAddress, offset: Option<u64>) -> bool {
            self.note(if offset.is_none() { "nothing" } else { "doorbell" }, doorbell);
            true
        }
        fn gone(&self, doorbell: DoorbellAddress) {
            self.note("gone", doorbell);
        }
    }

    /// `DxgkCbDisconnectDoorbell` refuses what is no doorbell of the queue, and nothing else.
    #[test]
    fn a_driver_takes_a_doorbell_away_and_its_process_is_told() {
        // spec: sync §2.9, sync §3.17, sync §5
        let memory = Memory::reserve(4096).expect("a page");
        let pages = Pages(&memory, Mutex::default());
        let mut doorbells = Store::default();
        let numbers = [0u64, 1, 2].map(|index| {
            doorbells.insert(Doorbell {
                of: DoorbellUse {
                    queue: QueueNumber::from_raw(10 + index),
                    process: ProcessId(1),
                    device: DeviceNumber::from_raw(1),
                    place: (GpuVa::NULL, 0),
                },
                kmd: KmdDoorbell(index),
                words: DoorbellWords {
                    address: DoorbellAddress(index),
                    last_queued: WordAddress(64),
                    status: WordAddress(STATUS[index as usize]),
                },
                connection: if index < 2 { Connection::Connected } else { Connection::Disconnected },
            })
        });
        Word::store(memory.word(STATUS[2]), RETRY);
        let statuses = || STATUS.map(|at| Word::load(memory.word(at)));
        let shown = Shown { memory: &memory, pages: Some(&pages) };
        let mut lent = LentDoorbells { doorbells: &mut doorbells, shown, taken: Vec::new() };
        let mut take = |queue: u64, number: DoorbellNumber, reason| {
            let refused = lent.disconnect_doorbell(OsQueue(queue), OsDoorbell(number.raw()), reason);
            let taken: Vec<u64> = std::mem::take(&mut lent.taken).into_iter().map(ObjectNumber::raw).collect();
            (refused.is_ok(), taken)
        };
        for (queue, number) in [(11, numbers[0]), (10, DoorbellNumber::from_raw(99))] {
            assert_eq!(take(queue, number, Disconnected::Retry), (false, vec![]));
        }
        assert_eq!((statuses(), pages.1.lock().unwrap().len()), ([CONNECTED, CONNECTED, RETRY], 0), "nothing changed");
        // No store comes to its end between the old status and the new one.
        assert_eq!(take(10, numbers[0], Disconnected::Retry), (true, vec![10]));
        assert_eq!(
            std::mem::take(&mut *pages.1.lock().unwrap()),
            [("hold", 0, CONNECTED), ("settle", 0, RETRY), ("nothing", 0, RETRY)]
        );
        assert_eq!(take(10, numbers[0], Disconnected::Retry), (true, vec![]), "it is disconnected already");
        assert_eq!(take(11, numbers[1], Disconnected::Abort), (true, vec![11]));
        assert_eq!(take(11, numbers[1], Disconnected::Retry), (true, vec![]), "what is lost stays lost");
        assert_eq!(take(12, numbers[2], Disconnected::Abort), (true, vec![]));
        assert_eq!(statuses(), [RETRY, ABORT, ABORT]);
        assert_eq!(doorbells[numbers[2]].connection, Connection::Aborted);
    }
}
