//! Runs of words by virtual address: stored, and copied.

use softgpu::DataMode;
use softgpu_spec::Command;
use softgpu_spec::register::{fault, record};

use crate::{PAGE, SYSTEM, mapped};

#[test]
fn a_run_of_words_is_stored_across_pages_whether_content_is_or_not() {
    for data in [DataMode::Stored, DataMode::Modelled] {
        let mut rig = mapped(data, false);
        rig.run(&[Command::StoreRun { va: SYSTEM + PAGE - 16, count: 4, first: 5, step: 1 << 40 }]);
        let words: Vec<u64> = (0..5).map(|index| rig.word(0x1_1000 - 16 + index * 8)).collect();
        assert_eq!(words, [5, 5 + (1 << 40), 5 + (2 << 40), 5 + (3 << 40), 0], "{data:?}");
        rig.run(&[Command::StoreRun { va: SYSTEM + 2 * PAGE - 8, count: 2, first: 9, step: 0 }]);
        assert_eq!(rig.pop(), (record::FAULT, [0, SYSTEM + 2 * PAGE, fault::NOT_PRESENT]), "{data:?}");
    }
}

#[test]
fn a_run_of_words_is_copied_across_pages_whether_content_is_or_not() {
    for data in [DataMode::Stored, DataMode::Modelled] {
        let mut rig = mapped(data, false);
        rig.run(&[
            Command::StoreRun { va: SYSTEM, count: 4, first: 5, step: 1 << 40 },
            Command::CopyRun { source_va: SYSTEM, target_va: SYSTEM + PAGE - 16, count: 4 },
        ]);
        let words: Vec<u64> = (0..5).map(|index| rig.word(0x1_1000 - 16 + index * 8)).collect();
        assert_eq!(words, [5, 5 + (1 << 40), 5 + (2 << 40), 5 + (3 << 40), 0], "{data:?}");
        rig.run(&[Command::CopyRun { source_va: SYSTEM, target_va: SYSTEM + 2 * PAGE - 8, count: 2 }]);
        assert_eq!(rig.pop(), (record::FAULT, [0, SYSTEM + 2 * PAGE, fault::NOT_PRESENT]), "{data:?}");
    }
}
