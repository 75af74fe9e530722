//! The promises of the handle table, in itself and against an ordered map.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use proptest::prelude::*;

use super::*;

#[test]
fn a_stale_handle_names_nothing() {
    // spec: memory §9.3
    let mut table = HandleTable::default();
    let first = table.insert('a').unwrap();
    assert_eq!(table.remove(first), Some('a'));
    let second = table.insert('b').unwrap();
    assert_ne!(first, second);
    assert_eq!((table.get(first), table.get(second)), (None, Some(&'b')));
    assert_eq!(table.remove(first), None);
    assert_eq!(table.get(RawHandle::NONE), None);
    assert_eq!(table.get(RawHandle(u32::MAX)), None);
}

#[test]
fn handles_look_as_those_of_windows_and_rise() {
    let mut table = HandleTable::default();
    let first = table.insert(0).unwrap();
    assert_eq!(first, RawHandle(0x4000_0000));
    for number in 1..100_u32 {
        let handle = table.insert(number).unwrap();
        assert_eq!(handle.0, first.0 + number * 0x40, "each is 0x40 higher, whatever went");
        if number % 3 != 0 {
            assert_eq!(table.remove(handle), Some(number));
        }
        for wrong in [handle.0 | 2, handle.0 ^ 1 << 31, handle.0 & !(3 << 30)] {
            assert_eq!(table.get(RawHandle(wrong)), None);
        }
    }
    assert_eq!(table.iter().count(), 34);
}

#[test]
fn a_name_comes_again_when_all_have_been_given_and_it_is_free() {
    let mut table = HandleTable::default();
    let kept = table.insert('a').unwrap();
    let gone = table.insert('b').unwrap();
    assert_eq!(table.remove(gone), Some('b'));
    table.next = CYCLE - 1;
    assert_eq!(table.insert('c'), Some(RawHandle(0xffff_ffc0)), "the last of the third round");
    assert_eq!(table.insert('d'), Some(gone), "the first is taken still");
    assert_eq!((table.get(kept), table.get(gone)), (Some(&'a'), Some(&'d')));
}

#[test]
fn no_name_is_accepted_that_names_no_object_and_none_comes_again() {
    // spec: memory §9.3
    const ROUNDS: u32 = 1_000_000;
    let (mut table, mut last) = (HandleTable::default(), 0);
    let kept = table.insert(u32::MAX).unwrap();
    let mut seed = 1_u32;
    for round in 0..ROUNDS {
        let handle = table.insert(round).unwrap();
        assert!(handle.0 > last, "names rise until the counter wraps");
        last = handle.0;
        assert_eq!(table.remove(handle), Some(round));
        // A forged one: any 32 bits; a stale one: any that was given.
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let forged = RawHandle(seed);
        let stale = RawHandle(kept.0 + (1 + seed % (round + 1)) * 0x40);
        for wrong in [forged, stale, handle] {
            assert!(wrong == kept || table.get(wrong).is_none(), "{wrong:?}");
        }
    }
    assert_eq!((table.get(kept), table.len()), (Some(&u32::MAX), 1));
    assert_eq!((table.names.len(), table.collided.len()), (SLOTS_MIN, 0), "what is empty is given back");
}

#[test]
fn the_objects_of_a_dead_device_go_together() {
    let mut table = HandleTable::default();
    let handles: Vec<_> = (0..20).map(|nth| table.insert(nth / 2).unwrap()).collect();
    for number in (0..10).step_by(2) {
        table.remove_object(number);
    }
    table.remove_object(99);
    for (nth, handle) in handles.iter().enumerate() {
        assert_eq!(table.get(*handle).is_some(), nth / 2 % 2 == 1, "both names of an object, and of no other");
    }
    assert_eq!((table.len(), table.of_object.len()), (10, 10));
}

#[test]
fn objects_that_all_want_one_slot_are_found_and_cost_no_more_memory() {
    const APART: u32 = 1 << 13;
    const KEPT: u32 = 256;
    let (mut table, mut kept) = (HandleTable::default(), Vec::new());
    for number in 0..KEPT * APART {
        let handle = table.insert(number).unwrap();
        if number % APART == 0 {
            kept.push((handle, number));
        } else {
            table.remove(handle);
        }
    }
    assert!(table.names.len() <= 2 * SLOTS_FOR_ONE * KEPT as usize, "{}", table.names.len());
    assert_eq!(table.collided.len(), KEPT as usize - 1, "all but the first");
    for (handle, number) in &kept {
        assert_eq!(table.get(*handle), Some(number));
        assert_eq!(table.get(RawHandle(handle.0 + 0x40)), None);
        assert_eq!(table.get(RawHandle(handle.0 ^ 1 << 31)), None);
    }
    let seen: Vec<_> = table.iter().map(|(handle, number)| (handle, *number)).collect();
    assert_eq!(seen, kept, "by name");
    // The object in the slot goes, and the table finds the others as before.
    assert_eq!(table.remove(kept[0].0), Some(0));
    for (handle, number) in kept.iter().skip(1).rev() {
        assert_eq!(table.remove(*handle), Some(*number));
        assert_eq!(table.get(*handle), None);
    }
    assert_eq!((table.names.len(), table.len()), (SLOTS_MIN, 0));
}

/// A process's action on its handles.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Names so many objects.
    Make(u32),
    /// Names so many objects and closes each before the next.
    Pass(u32),
    /// Closes the living one that is so far along, of 65536.
    Close(u16),
    /// Closes all that are equal modulo this, to another rest.
    CloseAllBut(u32),
    /// Looks for any 32 bits.
    Forge(u32),
    /// Closes all.
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (1..400_u32).prop_map(Step::Make),
        4 => (1..2000_u32).prop_map(Step::Pass),
        16 => any::<u16>().prop_map(Step::Close),
        2 => (2..64_u32).prop_map(Step::CloseAllBut),
        4 => any::<u32>().prop_map(Step::Forge),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 1..60)
}

/// The same process in an ordered map: the living by name, and what the next is called.
struct Model {
    living: BTreeMap<u32, u32>,
    next: u32,
}

impl Model {
    fn make(&mut self, object: u32) -> RawHandle {
        loop {
            let (round, number) = (self.next / (1 << 24), self.next % (1 << 24));
            self.next = (self.next + 1) % (3 << 24);
            let name = (round + 1) * (1 << 30) + number * 0x40;
            if let Entry::Vacant(free) = self.living.entry(name) {
                free.insert(object);
                return RawHandle(name);
            }
        }
    }
}

fn agree(table: &HandleTable<u32>, model: &Model) {
    assert_eq!((table.len(), table.is_empty()), (model.living.len(), model.living.is_empty()));
    assert_eq!(table.counted(), model.living.values().filter(|object| *object % 3 == 0).count());
    let named: Vec<_> = table.iter().map(|(name, object)| (name.0, *object)).collect();
    let living: Vec<_> = model.living.iter().map(|(name, object)| (*name, *object)).collect();
    assert_eq!(named, living);
    for (name, object) in &living {
        assert_eq!(table.get(RawHandle(*name)), Some(object));
    }
    let slots = table.names.len();
    assert!(slots <= SLOTS_MIN || slots <= SLOTS_FOR_ONE_MAX * table.len(), "{slots} slots for {}", table.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    // spec: memory §9.3
    #[test]
    fn a_table_does_as_an_ordered_map_does(steps in steps(), before_wrap in 1..6000_u32) {
        let mut table = HandleTable::counting(|object| object % 3 == 0);
        let mut model = Model { living: BTreeMap::new(), next: 0 };
        let mut object = 0;
        for (at, step) in steps.iter().enumerate() {
            // Some objects have the first names, so that the wrap meets them.
            if at == 1 {
                table.next = CYCLE - before_wrap;
                model.next = CYCLE - before_wrap;
            }
            match *step {
                Step::Make(count) | Step::Pass(count) => {
                    for _ in 0..count {
                        object += 1;
                        let name = table.insert(object).unwrap();
                        prop_assert_eq!(name, model.make(object));
                        if matches!(step, Step::Pass(_)) {
                            prop_assert_eq!(table.remove(name), model.living.remove(&name.0));
                            prop_assert_eq!(table.get(name), None, "it is stale");
                            prop_assert_eq!(table.remove(name), None, "it is stale");
                        }
                    }
                }
                Step::Close(along) => {
                    let nth = model.living.len() * usize::from(along) / 65536;
                    let Some(name) = model.living.keys().nth(nth).copied() else { continue };
                    prop_assert_eq!(table.remove(RawHandle(name)), model.living.remove(&name));
                }
                Step::CloseAllBut(modulus) => {
                    model.living.values().filter(|of| *of % modulus != 0).for_each(|of| table.remove_object(*of));
                    model.living.retain(|_, object| *object % modulus == 0);
                }
                Step::Forge(name) => {
                    prop_assert_eq!(table.get(RawHandle(name)), model.living.get(&name));
                    prop_assert_eq!(table.remove(RawHandle(name)), model.living.remove(&name));
                }
                Step::Reset => {
                    model.living.values().for_each(|object| table.remove_object(*object));
                    model.living.clear();
                }
            }
            agree(&table, &model);
        }
    }
}
