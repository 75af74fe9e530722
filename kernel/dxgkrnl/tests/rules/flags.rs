//! `DXGK_SEGMENTFLAGS` bit by bit: the effect of each on adapter start, on a memory segment and on an aperture, in each generation.

use ddi::*;

use super::{expect_error, first_generation};
use crate::start;
use crate::stub::Answers;

/// The effect of a flag on one kind of segment.
#[derive(Clone, Copy, Debug)]
enum Verdict {
    /// The adapter starts.
    Starts,
    /// It fails with these words.
    Fails(&'static str),
}

use Verdict::{Fails, Starts};

/// A driver that sets one flag more on a segment.
fn with(mut answers: Answers, index: usize, flag: SegmentFlags) -> Answers {
    answers.segments[index].flags |= flag;
    answers.segments3[index].flags |= flag;
    answers.segments1[index].flags |= flag;
    answers
}

const OTHER: &str = "reserved flags are set";
const POWER: &str = "this combination of power flags is not recognised";
const LATER: &str = "a flag of a later version";

/// Bit, on a memory segment and on an aperture of WDDM 2, the same in the first generation.
const ROWS: [(u32, [Verdict; 4]); 32] = [
    // The memory of the first generation has banks, which an aperture has not.
    (0, [Fails("2 aperture segments"), Starts, Fails("only memory segments have banks"), Starts]),
    (
        1,
        [
            Fails("does not exist in WDDM 2"),
            Fails("does not exist in WDDM 2"),
            Fails("beside Agp"),
            Fails("beside Agp"),
        ],
    ),
    (2, [Starts; 4]),
    (
        3,
        [
            Fails("carries no bank table"),
            Fails("carries no bank table"),
            Starts,
            Fails("only memory segments have banks"),
        ],
    ),
    (4, [Starts; 4]),
    (5, [Starts; 4]),
    (6, [Starts; 4]),
    (7, [Starts; 4]),
    (8, [Fails(POWER); 4]),
    (9, [Fails(POWER); 4]),
    (10, [Starts; 4]),
    (11, [Starts; 4]),
    (12, [Fails(OTHER); 4]),
    (13, [Fails("exclude each other"), Starts, Fails("exclude each other"), Starts]),
    (14, [Fails("without a CPU host aperture"), Starts, Fails("without a CPU host aperture"), Starts]),
    (15, [Starts; 4]),
    (16, [Starts, Starts, Fails(LATER), Starts]),
    (17, [Fails("VprSupported says that there is none"), Starts, Fails(LATER), Starts]),
    (18, [Fails("EncryptedPagingSupported: no content is protected here"), Starts, Fails(LATER), Starts]),
    (19, [Starts; 4]),
    (20, [Starts; 4]),
    (21, [Starts, Starts, Fails(LATER), Fails(LATER)]),
    (22, [Fails(OTHER); 4]),
    (23, [Fails(OTHER); 4]),
    (24, [Fails(OTHER); 4]),
    (25, [Fails(OTHER); 4]),
    (26, [Fails(OTHER); 4]),
    (27, [Fails(OTHER); 4]),
    (28, [Fails(OTHER); 4]),
    (29, [Fails(OTHER); 4]),
    (30, [Fails(OTHER); 4]),
    (31, [Fails(OTHER); 4]),
];

#[test]
fn every_segment_flag_has_its_answer_at_adapter_start() {
    // spec: memory §1.3, memory §1.5, memory §1.10, memory §1.13
    // seed: M08, M09, M10, M13, M17, M23, M26
    for (bit, verdicts) in ROWS {
        let flag = SegmentFlags::from_bits_retain(1 << bit);
        let mut first = first_generation(DdiVersion::WDDM_1_3);
        // The paging buffers stay where they are whatever the aperture becomes.
        first.paging_buffer.segment = wddm_types::SegmentId(0);
        let mut second = Answers::default();
        second.paging_buffer.segment = wddm_types::SegmentId(0);
        second.segments[0].flags |= SegmentFlags::CPU_VISIBLE;
        second.segments3 = vec![Default::default(); 2];
        second.segments1 = vec![Default::default(); 2];
        first.segments = vec![Default::default(); 2];
        let drivers = [(&second, 0), (&second, 1), (&first, 0), (&first, 1)];
        for ((driver, index), verdict) in drivers.into_iter().zip(verdicts) {
            let answers = with(driver.clone(), index, flag);
            match verdict {
                Fails(words) => expect_error(answers, words),
                Starts => {
                    // Of the first generation memory is all that is looked at here: its engines are another matter.
                    let error = start(answers, vec![]).0.err().map(|error| error.to_string()).unwrap_or_default();
                    let memory = error.contains("segment") || driver.has_gpu_va && !error.is_empty();
                    assert!(!memory, "bit {bit} on segment {index}, {:?}: {error}", driver.caps.driver_model);
                }
            }
        }
    }
}

#[test]
fn what_is_promised_of_a_protected_region_is_not_believed() {
    // spec: memory §1.5 bits 16 to 18, memory §1.13
    let region = SegmentFlags::VPR_SUPPORTED;
    let driver = |flags| {
        let mut answers = Answers::default();
        answers.segments[0].flags |= flags;
        answers
    };
    start(driver(region), vec![]).0.expect("the kernel puts no content into it, and that is all");
    let promised = region | SegmentFlags::VPR_PRESERVED_DURING_STANDBY;
    expect_error(driver(promised), "VprPreservedDuringStandby: no content is kept");
}

#[test]
fn a_flag_of_firmware_belongs_to_its_version() {
    // spec: memory §1.5, memory §1.13
    let version = |ddi_version| {
        let flag = SegmentFlags::POPULATED_BY_RESERVED_DDR_BY_FIRMWARE;
        let mut answers =
            Answers { caps: AdapterCaps { ddi_version, ..Default::default() }, ..Answers::packets_only() };
        answers.segments[0].flags |= flag;
        answers
    };
    expect_error(version(DdiVersion::WDDM_2_6), LATER);
    start(version(DdiVersion::WDDM_2_9), vec![]).0.expect("its version has it");
}
