//! Where lent pages begin and end: runs that are no pages of the memory, and neighbours of those that are.

use super::*;

const PAGE: u64 = 4096;

#[test]
fn runs_that_are_not_whole_pages_of_the_memory_are_refused() {
    let memory = Memory::reserve_file(4 * PAGE).expect("a memory file");
    memory.fill(0, 4 * PAGE, 0x0101_0101);
    let wrong = [(8, PAGE), (0, PAGE + 8), (0, PAGE - 8), (PAGE, 0), (4 * PAGE, PAGE), (3 * PAGE, 2 * PAGE)];
    for run in wrong {
        let calls: [&dyn Fn(); 3] = [
            &|| drop(memory.lend(&[(0, PAGE), run], ClientAccess::ReadWrite)),
            &|| drop(memory.take_back(run.0, run.1)),
            &|| drop(memory.take_content_back(run.0, run.1)),
        ];
        for (number, call) in calls.into_iter().enumerate() {
            let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).expect_err("no pages");
            let said = refused.downcast_ref::<String>().map_or("", String::as_str);
            assert!(said.ends_with("are not pages of this memory"), "{run:x?}, call {number}: {said}");
        }
    }
    assert!((0..4).all(|page| memory.lent_at(page * PAGE).is_none()), "nothing was lent");
    assert_eq!(memory.scan_words(0, 4 * 512, |_, word| word == 0x0101_0101_0101_0101), None, "nothing has changed");
    memory.lend(&[(0, 4 * PAGE)], ClientAccess::ReadWrite).expect("all of it");
    memory.take_back(3 * PAGE, PAGE).expect("its last page");
}

#[test]
fn a_neighbour_of_lent_pages_is_none_of_them() {
    let memory = Memory::reserve_file(6 * PAGE).expect("a memory file");
    memory.fill(0, 6 * PAGE, 0x0101_0101);
    let first = memory.lend(&[(PAGE, PAGE)], ClientAccess::ReadWrite).expect("a file");
    let last = memory.lend(&[(3 * PAGE, PAGE)], ClientAccess::ReadWrite).expect("a file");
    memory.fill(PAGE, PAGE, 0x0202_0202);
    memory.fill(3 * PAGE, PAGE, 0x0202_0202);
    // From the end of the first to the beginning of the last.
    let detached = memory.detach(2 * PAGE, PAGE).expect("nothing to map");
    assert_eq!(detached.0.len(), 0);
    for (page, file) in [(1, &first), (3, &last)] {
        let lent = memory.lent_at(page * PAGE).expect("still lent");
        assert!(Arc::ptr_eq(&lent.file, file));
        assert_eq!((lent.offset, lent.bytes, lent.file_offset), (page * PAGE, PAGE, 0));
    }
    let page = |word: u64| if [1, 3].contains(&(word / 512)) { 0x0202_0202_0202_0202 } else { 0x0101_0101_0101_0101 };
    assert_eq!(memory.scan_words(0, 6 * 512, |word, found| found == page(word)), None);
}
