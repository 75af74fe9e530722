//! What is kept for processes and devices: found when they have gone, and part of the digest.

use wddm_types::{GpuVa, PageRun, Pages};

use super::*;
use crate::store::ObjectNumber;

const ONE: ProcessId = ProcessId(1);
const TWO: ProcessId = ProcessId(2);

fn device(number: u64) -> DeviceNumber {
    DeviceNumber::from_raw(number)
}

fn with(processes: &[ProcessId]) -> Synchronization {
    let mut sync = Synchronization::new(AdapterIndex(0));
    processes.iter().for_each(|process| sync.process_comes(*process));
    sync
}

/// What is wrong when these processes and no device are there.
fn wrong(sync: &Synchronization, processes: &[ProcessId]) -> Option<String> {
    sync.check_owners(processes.iter().copied(), |_| false).err()
}

#[test]
fn words_of_a_process_that_has_gone_are_found() {
    let sync = with(&[ONE, TWO]);
    assert_eq!(wrong(&sync, &[ONE, TWO]), None);
    assert!(wrong(&sync, &[ONE]).is_some(), "the second has gone");
    assert!(wrong(&with(&[ONE]), &[ONE, TWO]).is_some(), "the second has no words");
}

#[test]
fn packed_words_and_views_of_a_process_that_has_gone_are_found() {
    let mut sync = with(&[ONE]);
    let mapped = MappedPage { run: PageRun { first: 9, count: Pages(1) }, va: GpuVa::NULL, system_va: GpuVa::NULL };
    let _ = sync.add_packed_page(ONE, Which::Current, 8, mapped);
    assert_eq!(wrong(&sync, &[ONE]), None);
    let _ = sync.add_packed_page(TWO, Which::Current, 8, mapped);
    assert!(wrong(&sync, &[ONE]).is_some_and(|wrong| wrong.contains("ProcessId(2)")));
    let _ = sync.release_packed_words(TWO);
    assert_eq!(wrong(&sync, &[ONE]), None);
    sync.seen.entry(TWO).or_default().insert(FenceNumber::from_raw(3));
    assert!(wrong(&sync, &[ONE]).is_some_and(|wrong| wrong.contains("ProcessId(2)")));
}

#[test]
fn opens_of_a_device_that_has_gone_are_found_and_digested() {
    let mut sync = with(&[ONE]);
    let digest = |sync: &Synchronization| {
        let mut digest = StateDigest::default();
        sync.add_to(&mut digest);
        digest
    };
    let before = digest(&sync);
    sync.asked_for.entry(device(7)).or_default().insert(FenceOpenNumber::from_raw(3));
    assert!(!before.differences(&digest(&sync)).is_empty(), "an open that a process has asked for is state");
    assert!(wrong(&sync, &[ONE]).is_some(), "the device has gone");
    assert_eq!(sync.check_owners([ONE].into_iter(), |there| there == device(7)), Ok(()));
}

/// Each free word of a page is as good as another: only which words are free is state.
#[test]
fn the_order_in_which_words_are_given_back_is_no_state() {
    let mut sync = with(&[ONE]);
    let digest = |sync: &Synchronization| {
        let mut digest = StateDigest::default();
        sync.add_to(&mut digest);
        digest
    };
    let mapped = MappedPage { run: PageRun { first: 9, count: Pages(1) }, va: GpuVa::NULL, system_va: GpuVa::NULL };
    let first = sync.add_packed_page(ONE, Which::Current, 8, mapped);
    let before = digest(&sync);
    let taken = [(); 2].map(|()| sync.take_packed_word(ONE, Which::Current, 8).expect("a free word"));
    assert!(!before.differences(&digest(&sync)).is_empty(), "words that fences have are state");
    // In the order in which they were taken: the first of them is the next to be taken only in the other order.
    for word in taken {
        sync.give_back_packed_word(ONE, Which::Current, word.home, word.word, 8);
    }
    assert_eq!(before.differences(&digest(&sync)), Vec::<String>::new());
    sync.give_back_packed_word(ONE, Which::Current, first.home, first.word, 8);
    assert!(!before.differences(&digest(&sync)).is_empty(), "which words are free is state");
}
