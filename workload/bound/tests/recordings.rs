//! The bound on the recordings that travel with the sources, against figures that another program computed.
//!
//! The figures are those of the same linear program, unreduced, solved by HiGHS' interior-point method (SciPy 1.17.1, `linprog` with
//! `highs-ipm`), in and out and page-ins alone, rounded to whole bytes; before rounding they were within 0.001 byte of them.

use std::path::Path;

use bound::fewest_bytes;
use replay::{Workload, lru_bytes};

/// Steps, capacity, bytes in and out, bytes in.
type Figure = (u32, u64, u64, u64);

const GPT: &str = "../../examples/gpt.cpu.rrs.json.gz";
const RES: &str = "../replay/tests/data/res.cpu.rrs.json.gz";
const INFERENCE: &str = "../replay/tests/data/gpt2xl-infer.meta.rrs.json.gz";
const LARGE: &str = "../replay/tests/data/gpt2m.meta.rrs.json.gz";

/// At 90, 80, 70, 60 and 50 % of the peak, two steps and three.
const GPT_FIGURES: &[Figure] = &[
    (2, 223_492_892, 132_085_100, 107_268_940),
    (2, 198_660_348, 181_750_188, 132_101_484),
    (2, 173_827_805, 250_960_661, 176_479_406),
    (2, 148_995_261, 342_343_864, 226_144_494),
    (2, 124_162_718, 441_674_036, 275_809_580),
    (3, 223_492_892, 181_733_796, 132_101_476),
    (3, 198_660_348, 281_063_972, 181_766_564),
    (3, 173_827_805, 399_939_531, 250_977_029),
    (3, 148_995_261, 540_987_822, 325_474_661),
    (3, 124_162_718, 689_983_080, 399_972_290),
];

/// At 90, 80, 70, 60 and 50 % of the peak, two steps and three.
const RES_FIGURES: &[Figure] = &[
    (2, 263_114_870, 198_713_508, 172_662_778),
    (2, 233_879_884, 257_183_480, 201_897_764),
    (2, 204_644_899, 315_653_450, 231_132_749),
    (2, 175_409_913, 397_547_021, 283_791_326),
    (2, 146_174_928, 533_252_880, 342_261_296),
    (3, 263_114_870, 253_999_216, 201_897_756),
    (3, 233_879_884, 370_939_160, 260_367_728),
    (3, 204_644_899, 487_879_100, 318_837_698),
    (3, 175_409_913, 628_242_643, 400_731_261),
    (3, 146_174_928, 822_418_472, 488_436_216),
];

/// At 90, 80, 70, 60 and 50 % of the peak, two steps and three.
const INFERENCE_FIGURES: &[Figure] = &[
    (2, 5_922_077_644, 7_210_700_852, 7_209_881_652),
    (2, 5_264_069_017, 7_868_709_479, 7_867_890_279),
    (2, 4_606_060_390, 8_526_718_106, 8_525_898_906),
    (2, 3_948_051_763, 9_184_726_733, 9_183_907_533),
    (2, 3_290_043_136, 9_842_735_360, 9_841_916_160),
    (3, 5_922_077_644, 7_868_709_480, 7_867_071_080),
    (3, 5_264_069_017, 9_184_726_734, 9_183_088_334),
    (3, 4_606_060_390, 10_500_743_988, 10_499_105_588),
    (3, 3_948_051_763, 11_816_761_242, 11_815_122_842),
    (3, 3_290_043_136, 13_132_778_496, 13_131_140_096),
];

/// At 90, 80, 70, 60 and 50 % of the peak, two steps and three.
const LARGE_FIGURES: &[Figure] = &[
    (2, 32_118_394_068, 12_331_596_180, 8_763_016_792),
    (2, 28_549_683_616, 25_298_426_256, 15_900_437_696),
    (2, 24_980_973_164, 39_573_268_064, 23_037_858_600),
    (2, 21_412_262_712, 53_848_109_872, 30_175_279_504),
    (2, 17_843_552_260, 68_122_951_680, 37_312_700_408),
    (3, 32_118_394_068, 19_468_886_004, 12_331_727_236),
    (3, 28_549_683_616, 39_573_136_984, 23_037_858_592),
    (3, 24_980_973_164, 60_985_399_696, 33_743_989_948),
    (3, 21_412_262_712, 82_397_662_408, 44_450_121_304),
    (3, 17_843_552_260, 103_809_925_120, 55_156_252_660),
];

fn open(file: &str) -> Workload {
    Workload::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

fn compare(file: &str, figures: &[Figure]) {
    let workload = open(file);
    for (steps, capacity, moved, paged_in) in figures {
        let found = fewest_bytes(&workload, *steps, *capacity, &mut || f64::INFINITY).unwrap();
        assert_eq!((found.moved_bytes, found.paged_in_bytes), (*moved, *paged_in), "{file}, {steps} steps, {capacity}");
    }
}

#[test]
fn a_training_step_moves_what_the_unreduced_program_says() {
    compare(GPT, GPT_FIGURES);
}

#[test]
fn a_step_with_many_peaks_moves_what_the_unreduced_program_says() {
    compare(RES, RES_FIGURES);
}

#[test]
fn inference_moves_what_the_unreduced_program_says() {
    compare(INFERENCE, INFERENCE_FIGURES);
}

#[test]
fn a_large_training_step_moves_what_the_unreduced_program_says() {
    compare(LARGE, LARGE_FIGURES);
}

#[test]
fn no_recording_moves_less_under_lru_and_more_memory_never_moves_more() {
    for file in [GPT, RES, INFERENCE, LARGE] {
        let workload = open(file);
        let peak = workload.peak_bytes(2);
        let mut before = u64::MAX;
        for tenths in [5, 6, 7, 8, 9, 10] {
            let capacity = peak / 10 * tenths + peak % 10;
            let found = fewest_bytes(&workload, 2, capacity, &mut || f64::INFINITY).unwrap();
            let lru = lru_bytes(&workload, 2, capacity, 1).unwrap();
            assert!(found.moved_bytes <= lru.paged_in + lru.paged_out, "{file} {tenths}");
            assert!(found.paged_in_bytes <= lru.paged_in, "{file} {tenths}");
            assert!(found.moved_bytes <= before, "{file} {tenths}");
            before = found.moved_bytes;
        }
        assert_eq!(before, workload.persistent_bytes(), "{file}: where all fits, what was there before comes in once");
    }
}
