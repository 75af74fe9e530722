//! Interrupt records: a queue of what happened, and the pin that says that there is something in it. Pushed by engines and
//! the CMP, popped through registers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use device_port::InterruptPin;
use softgpu_spec::register::{RECORD_COUNT, record};

use crate::lock;

/// Kind and fields, as the registers show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: u64,
    pub(crate) fields: [u64; 3],
}

pub(crate) struct Interrupts {
    pin: Arc<dyn InterruptPin>,
    held: Mutex<RecordQueue>,
}

struct RecordQueue {
    records: VecDeque<Record>,
    /// The fields of the record taken last.
    taken: [u64; 3],
}

impl Interrupts {
    pub(crate) fn new(pin: Arc<dyn InterruptPin>) -> Interrupts {
        let held = RecordQueue { records: VecDeque::with_capacity(RECORD_COUNT + 1), taken: [0; 3] };
        Interrupts { pin, held: Mutex::new(held) }
    }

    /// Adds a record, or folds it into the overflow record behind the last that fits, and asserts the pin.
    pub(crate) fn raise(&self, record: Record) {
        {
            let records = &mut lock(&self.held).records;
            if records.len() < RECORD_COUNT {
                records.push_back(record);
            } else if records.len() == RECORD_COUNT {
                records.push_back(Record { kind: record::OVERFLOW, fields: [0; 3] });
            }
        }
        // Outside of the lock: the receiver may be slow, and another engine may want to raise.
        self.pin.assert();
    }

    /// Takes the oldest record's kind; its fields stay readable until the next one is taken.
    pub(crate) fn pop(&self) -> u64 {
        let mut held = lock(&self.held);
        let record = held.records.pop_front().unwrap_or_default();
        held.taken = record.fields;
        record.kind
    }

    /// A field of the record taken last.
    pub(crate) fn field(&self, index: usize) -> u64 {
        lock(&self.held).taken[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Pin(AtomicU64);

    impl InterruptPin for Pin {
        fn assert(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn too_many_records_end_in_one_that_says_so() {
        let pin = Arc::new(Pin::default());
        let interrupts = Interrupts::new(pin.clone());
        for value in 0..RECORD_COUNT as u64 + 10 {
            interrupts.raise(Record { kind: record::FENCE, fields: [1, 2, value] });
        }
        assert_eq!(pin.0.load(Ordering::Relaxed), RECORD_COUNT as u64 + 10);
        for value in 0..RECORD_COUNT as u64 {
            assert_eq!((interrupts.pop(), interrupts.field(2)), (record::FENCE, value));
        }
        assert_eq!(interrupts.pop(), record::OVERFLOW);
        assert_eq!(interrupts.pop(), record::NONE);
        interrupts.raise(Record { kind: record::FAULT, fields: [0; 3] });
        assert_eq!(interrupts.pop(), record::FAULT, "it goes on after an overflow");
    }
}
