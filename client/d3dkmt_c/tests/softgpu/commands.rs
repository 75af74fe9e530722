//! Each command once by its encoder in C, with the same values in Rust.

use softgpu_spec::tile::Tiling;
use softgpu_spec::{Command, LogSlot};

const SLOT: LogSlot = LogSlot { entry_va: 0x1_0000_0030, header_va: 0x2000, handle: 0x4000_0009 };
const GIVEN: [u64; 3] = [0x1111_2222_3333_4444, 2, 3];

/// The encoder's name, its operands in C, and the command. `given` is an array of [`GIVEN`] in C.
#[rustfmt::skip]
pub fn each() -> Vec<(&'static str, &'static str, Command<'static>)> {
    let tiling = Tiling::of_pitch(1536).expect("three tiles");
    const VA: u64 = 0x7f12_3456_7000;
    vec![
        ("nop", "", Command::Nop),
        ("wait", "0x7f1234567000, 7", Command::Wait { va: VA, value: 7, log: None }),
        ("wait_logged", "0x7f1234567000, 7, 0x100000030, 0x2000, 0x40000009", Command::Wait { va: VA, value: 7, log: Some(SLOT) }),
        ("signal", "0x7f1234567000, 0x3000, 8", Command::Signal { current_va: VA, monitored_va: 0x3000, value: 8, log: None }),
        ("signal_logged", "0x7f1234567000, 0x3000, 8, 0x100000030, 0x2000, 0x40000009",
            Command::Signal { current_va: VA, monitored_va: 0x3000, value: 8, log: Some(SLOT) }),
        ("branch", "0x7f1234567000, 12", Command::Branch { va: VA, words: 12 }),
        ("timestamp", "0x7f1234567000", Command::Timestamp { va: VA }),
        ("signal_always", "0x7f1234567000, 0x1122334455667788", Command::SignalAlways { va: VA, value: 0x1122_3344_5566_7788 }),
        ("log", "5, 0x100000030, 0x2000, 0x40000009, 3", Command::Log { slot: SLOT, operation: 3, value: 5 }),
        ("copy", "0x7f1234567000, 0x5000, 0x10000000008", Command::Copy { source_va: VA, target_va: 0x5000, bytes: 0x100_0000_0008 }),
        ("fill", "0x7f1234567000, 64, 0xfedcba98", Command::Fill { va: VA, bytes: 64, pattern: 0xfedc_ba98 }),
        ("store", "0x7f1234567000, given, 3", Command::Store { va: VA, words: &GIVEN }),
        ("store_run", "0x7f1234567000, 512, 9, 4096", Command::StoreRun { va: VA, count: 512, first: 9, step: 4096 }),
        ("copy_run", "0x7f1234567000, 0x5000, 511", Command::CopyRun { source_va: VA, target_va: 0x5000, count: 511 }),
        ("touch", "0x7f1234567000, 64, SOFTGPU_TOUCH_WRITE", Command::Touch { va: VA, bytes: 64, write: true, within: false }),
        ("touch", "0x7f1234567000, 64, SOFTGPU_TOUCH_WITHIN", Command::Touch { va: VA, bytes: 64, write: false, within: true }),
        ("pattern", "0x7f1234567000, 64, 11", Command::Pattern { va: VA, bytes: 64, seed: 11 }),
        ("check", "0x7f1234567000, 64, 11, 0x6000, 12", Command::Check { va: VA, bytes: 64, seed: 11, report_va: 0x6000, tag: 12 }),
        ("checksum", "0x7f1234567000, 64, 0x6000", Command::Checksum { va: VA, bytes: 64, result_va: 0x6000 }),
        ("saxpy", "0x7f1234567000, 0x6000, 16, 0x3f800000", Command::Saxpy { x_va: VA, y_va: 0x6000, elements: 16, a_bits: 0x3f80_0000 }),
        ("work", "1000000", Command::Work { ns: 1_000_000 }),
        ("copy_physical", "0x1000, 0x2000, 8", Command::CopyPhysical { source_bus: 0x1000, target_bus: 0x2000, bytes: 8 }),
        ("fill_physical", "0x1000, 16, 0xfedcba98", Command::FillPhysical { target_bus: 0x1000, bytes: 16, pattern: 0xfedc_ba98 }),
        ("write_entries", "0x1000, 509, given, 3", Command::WriteEntries { table: 0x1000, first: 509, entries: &GIVEN }),
        ("write_entry_run", "0x1000, 5, 7, 0x3001, 4096", Command::WriteEntryRun { table: 0x1000, first: 5, count: 7, entry: 0x3001, step: 4096 }),
        ("map_aperture", "5, 7, 0x9000, 4096", Command::MapAperture { first: 5, count: 7, system_address: 0x9000, step: 4096 }),
        ("flush_tlb", "UINT64_MAX, 0x1000, 0x2fff", Command::FlushTlb { root: u64::MAX, first_va: 0x1000, last_va: 0x2fff }),
        ("touch_physical", "0x1000, 1", Command::TouchPhysical { bus: 0x1000, write: true }),
        ("copy_tiled", "0x1000, 0x2000, 8, 16, 1536, 1",
            Command::CopyTiled { linear_bus: 0x1000, surface_bus: 0x2000, offset: 8, bytes: 16, tiling, swizzle: true }),
        ("branch_physical", "0x1000, 12", Command::BranchPhysical { bus: 0x1000, words: 12 }),
        ("complete", "0x1122334455667788", Command::Complete { value: 0x1122_3344_5566_7788 }),
    ]
}

/// The array of the words that some commands are given, in C.
pub fn given() -> String {
    let words: Vec<String> = GIVEN.iter().map(|word| format!("{word:#x}")).collect();
    format!("static const uint64_t given[] = {{{}}};\n", words.join(", "))
}
