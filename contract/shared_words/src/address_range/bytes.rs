//! Bytes and words of a range of addresses, which stores there are held, and what is left of it.

use super::*;
use crate::Word;
use crate::faults::tests::is_held;
use crate::memory::tests::mappings_of;

const PAGE: u64 = 4096;

#[test]
fn bytes_and_words_reach_the_memory_that_is_shown() {
    let memory = Memory::reserve_file(2 * PAGE).expect("a memory file");
    let range = AddressRange::reserve(2 * PAGE).expect("addresses");
    range.show([(&*memory, PAGE, PAGE), (&*memory, 0, PAGE)].into_iter()).expect("mappings");
    range.write(PAGE + 3, &[1, 2, 3]);
    range.store_words(16, 3, |word| 100 + word);
    let mut bytes = [0; 5];
    memory.read(2, &mut bytes);
    assert_eq!(bytes, [0, 1, 2, 3, 0]);
    assert_eq!(memory.words(PAGE + 8, 5).iter().map(Word::load).collect::<Vec<_>>(), [0, 100, 101, 102, 0]);
    memory.write(PAGE + 1, &[8, 9]);
    let mut bytes = [7; 4];
    range.read(0, &mut bytes);
    assert_eq!(bytes, [0, 8, 9, 0]);
    // To the last byte.
    range.read(2 * PAGE - 4, &mut bytes);
    range.write(2 * PAGE - 1, &[6]);
    range.store_words(2 * PAGE - 8, 1, |_| 5);
    assert_eq!((bytes, Word::load(range.word(2 * PAGE - 8))), ([0; 4], 5));
}

#[test]
fn bytes_outside_are_refused() {
    let range = AddressRange::reserve(PAGE).expect("addresses");
    let refused = |what: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(what)).is_err();
    let outside: [&dyn Fn(); 6] = [
        &|| _ = range.word(PAGE),
        &|| _ = range.word(4),
        &|| range.read(PAGE - 1, &mut [0; 2]),
        &|| range.write(PAGE - 1, &[0; 2]),
        &|| range.store_words(PAGE - 8, 2, |_| 0),
        &|| range.write(u64::MAX, &[0]),
    ];
    for (number, what) in outside.into_iter().enumerate() {
        assert!(refused(what), "access {number}");
    }
}

// spec: memory §6.3
#[test]
fn a_protected_range_is_held_until_it_is_released_or_shows_pages() {
    let memory = Memory::reserve_file(2 * PAGE).expect("a memory file");
    let range = AddressRange::reserve(2 * PAGE).expect("addresses");
    let show = || range.show([(&*memory, 0, 2 * PAGE)].into_iter()).expect("a mapping");
    show();
    let base = range.base().as_ptr() as u64;
    let held = || {
        // A page that is not there has no entry: a load brings it.
        let _ = [0, 1].map(|page| Word::load(range.word(page * PAGE)));
        [0, 1].map(|page| is_held(base + page * PAGE))
    };
    for lets_go in [&|| range.release(), &show, &|| range.end()] as [&dyn Fn(); 3] {
        assert_eq!(held(), [false; 2]);
        range.protect();
        assert_eq!(held(), [true; 2]);
        lets_go();
    }
    assert_eq!(held(), [false; 2]);
}

#[test]
fn a_range_that_is_dropped_leaves_no_mapping() {
    let memory = Memory::reserve_file(PAGE).expect("a memory file");
    let file = memory.file().expect("it is one");
    let range = AddressRange::reserve(PAGE).expect("addresses");
    range.show([(&*memory, 0, PAGE)].into_iter()).expect("a mapping");
    assert_eq!(format!("{range:?}"), format!("AddressRange(4096 bytes at {:p})", range.base()));
    assert_eq!(mappings_of(file), 2);
    drop(range);
    assert_eq!(mappings_of(file), 1);
}
