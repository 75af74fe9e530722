//! The content of memory when the pin is asserted for a signal, and whether it is asserted at all (sync §3.7, §3.9, §3.14).

use shared_words::log::{self, entry};
use softgpu_spec::LogSlot;

use super::*;

/// Bytes of system memory behind virtual address `SYSTEM`: CurrentValue, MonitoredValue, a log's header and its entry.
const CURRENT: u64 = 0x1_0000;
const MONITORED: u64 = CURRENT + 64;
const LOG: u64 = CURRENT + 512;
const ENTRY: u64 = LOG + 64;

fn va(offset: u64) -> u64 {
    SYSTEM + offset - CURRENT
}

/// A signal that writes the first entry of the log.
fn signal(value: u64) -> Command<'static> {
    let log = LogSlot { entry_va: va(ENTRY), header_va: va(LOG), handle: 9 };
    Command::Signal { current_va: va(CURRENT), monitored_va: va(MONITORED), value, log: Some(log) }
}

/// Notes at each assertion of the pin CurrentValue, the log's position and the value in its entry.
pub fn looked_at(rig: &Rig, places: [u64; 3]) -> Arc<Mutex<Vec<[u64; 3]>>> {
    let seen: Arc<Mutex<Vec<[u64; 3]>>> = Arc::default();
    let (notes, system) = (Arc::clone(&seen), Arc::clone(&rig.system));
    let look = move || notes.lock().unwrap().push(places.map(|place| Word::load(system.word(place))));
    *rig.pin.1.lock().unwrap() = Some(Box::new(look));
    seen
}

#[test]
fn value_and_entry_stand_there_when_the_interrupt_comes() {
    // spec: sync §3.7, sync §3.14
    // seed: N103
    let mut rig = mapped(DataMode::Stored, false);
    Word::store(rig.system.word(LOG + log::ENTRIES_OFFSET), log::LOG_ENTRIES);
    let seen = looked_at(&rig, [CURRENT, LOG, ENTRY + entry::FENCE_VALUE]);
    for value in 1..=3 {
        rig.run(&[signal(value)]);
    }
    assert_eq!(*seen.lock().unwrap(), [[1; 3], [2; 3], [3; 3]]);
}

#[test]
fn a_value_interrupts_when_it_exceeds_what_is_monitored_and_not_when_it_equals_it() {
    // spec: sync §1.3, sync §3.7
    // seed: N17
    let mut rig = mapped(DataMode::Stored, false);
    Word::store(rig.system.word(MONITORED), 41);
    for (value, raised) in [(40, 0), (41, 0), (42, 1), (43, 2)] {
        rig.run(&[signal(value)]);
        assert_eq!(rig.pin.0.load(Ordering::Relaxed), raised, "{value} against 41");
    }
    for value in [42, 43] {
        assert_eq!(rig.pop(), (record::FENCE, [0, va(CURRENT), value]));
    }
    assert_eq!(rig.pop().0, record::NONE);
}

/// The update of MonitoredValue comes when the value has passed it already: no later signal would ever say so.
#[test]
fn an_update_that_finds_the_value_passed_interrupts_by_itself() {
    // spec: sync §3.9
    // seed: N30, N31
    let mut rig = mapped(DataMode::Stored, false);
    rig.gpu.write_register(CMP_ROOT, ROOT);
    Word::store(rig.system.word(MONITORED), u64::MAX);
    rig.run(&[signal(6)]);
    assert_eq!(rig.pin.0.load(Ordering::Relaxed), 0, "no waiter is there");
    for (monitored, raised) in [(7, 0), (6, 0), (5, 1), (0, 2)] {
        for (register, value) in
            [(CMP_ARGUMENT_0, va(CURRENT)), (CMP_ARGUMENT_1, va(MONITORED)), (CMP_ARGUMENT_2, monitored)]
        {
            rig.gpu.write_register(register, value);
        }
        rig.gpu.write_register(CMP_COMMAND, cmp::PUBLISH_MONITORED);
        assert_eq!(rig.word(MONITORED), monitored);
        assert_eq!(rig.pin.0.load(Ordering::Relaxed), raised, "6 against {monitored}");
        let record = if raised > 0 { (record::MONITORED, [va(CURRENT), 6]) } else { (record::NONE, [0; 2]) };
        let (kind, [fence, passed, _]) = rig.pop();
        assert_eq!(
            (kind, [fence, passed].map(|field| if raised > 0 { field } else { 0 })),
            record,
            "6 against {monitored}"
        );
    }
}
