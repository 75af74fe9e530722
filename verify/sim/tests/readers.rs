//! Worlds of readers come to their end with every checker content, and read in place.

use sim::run_readers;

#[test]
fn what_operations_read_in_place_is_what_was_written_last() {
    // spec: memory §1.6, memory §8.1, memory §8.3
    let (mut worlds, mut pages) = (0, 0);
    for seed in 1..=40 {
        let report = run_readers(seed).unwrap_or_else(|violation| panic!("{violation}"));
        let in_place = report.seen["page read in place"];
        (worlds, pages) = (worlds + u64::from(in_place > 0), pages + in_place);
    }
    assert!(worlds >= 6 && pages >= 1000, "{pages} pages were read in place in {worlds} worlds");
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in [2, 3] {
        assert_eq!(run_readers(seed).unwrap(), run_readers(seed).unwrap());
    }
}
