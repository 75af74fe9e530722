//! A queue without a page table: every address in its commands is a bus address, and only a privileged queue may be one.

use std::sync::Arc;

use device_port::{Clocked, DevicePort, InterruptPin};
use shared_words::{Memory, Word};
use softgpu::{Config, DataMode, SoftGpu, Timing};
use softgpu_spec::bus::SYSTEM_BASE;
use softgpu_spec::page_table::Shape;
use softgpu_spec::register::*;
use softgpu_spec::{Command, pattern};

/// System offsets.
const REPORT: u64 = 0x2_0000;
const RESULT: u64 = 0x3_0000;
/// Local memory.
const CONTENT: u64 = 0x1_0000;
const BYTES: u64 = 8192;

struct IgnoredPin;

impl InterruptPin for IgnoredPin {
    fn assert(&self) {}
}

fn run(flags: u64, commands: &[Command<'_>]) -> (Arc<SoftGpu>, Arc<Memory>, u64) {
    let system = Memory::reserve(1 << 20).unwrap();
    let config = Config {
        local_bytes: 4 << 20,
        aperture_bytes: 1 << 20,
        shape: Shape::FOUR_LEVELS,
        data: DataMode::Stored,
        timing: Timing::default(),
        poll_spins: 0,
        reset_group: 0,
        doorbells: 2,
        displays: softgpu::DisplayConfig::NONE,
        signal_bits: 64,
    };
    let gpu = SoftGpu::new(config, Arc::clone(&system), Arc::new(IgnoredPin), None).unwrap();
    gpu.write_register(ENGINE_ENABLE, 1);
    for (register, value) in [
        (QUEUE_SELECT, 0),
        (QUEUE_ENGINE, 0),
        (QUEUE_ROOT, u64::MAX),
        (QUEUE_RING, SYSTEM_BASE),
        (QUEUE_RING_BYTES, 4096),
        (QUEUE_FLAGS, queue_flags::RING_PHYSICAL | flags),
        (QUEUE_CONTROL, queue_control::ENABLE),
    ] {
        gpu.write_register(register, value);
    }
    let mut words = Vec::new();
    commands.iter().for_each(|command| command.encode(&mut words));
    for (offset, word) in (0..).step_by(8).zip(&words) {
        Word::store(system.word(offset), *word);
    }
    Word::store(gpu.doorbell_page().word(0), words.len() as u64 * 8);
    gpu.doorbell_rung(0);
    while let Some(next) = gpu.next_event() {
        gpu.tick(next);
    }
    let state = gpu.read_register(QUEUE_CONTROL);
    (gpu, system, state)
}

#[test]
fn kernels_run_on_bus_addresses() {
    let commands = [
        Command::Pattern { va: CONTENT, bytes: BYTES, seed: 5 },
        Command::Checksum { va: CONTENT, bytes: BYTES, result_va: SYSTEM_BASE + RESULT },
        Command::Touch { va: CONTENT + 16, bytes: 8, write: true, within: false },
        Command::Check { va: CONTENT, bytes: BYTES, seed: 5, report_va: SYSTEM_BASE + REPORT, tag: 8 },
    ];
    let (_, system, state) = run(queue_flags::UNTRANSLATED | queue_flags::PRIVILEGED, &commands);
    assert_eq!(state, queue_state::READY);
    let sum = (0..BYTES / 8).fold(0u64, |sum, index| sum.wrapping_add(pattern::word(5, index * 8)));
    assert_eq!(Word::load(system.word(RESULT)), sum);
    let report = |index: u64| Word::load(system.word(REPORT + index * 8));
    assert_eq!(report(pattern::report::TAG), 9, "the touch is found");
    assert_eq!(report(pattern::report::OFFSET), 16);
}

#[test]
fn memory_that_is_not_there_is_a_fault_of_the_queue() {
    let flags = queue_flags::UNTRANSLATED | queue_flags::PRIVILEGED;
    for va in [1 << 40, u64::MAX - 7, SYSTEM_BASE + (1 << 20)] {
        let (_, _, state) = run(flags, &[Command::Pattern { va, bytes: 8, seed: 1 }]);
        assert_eq!(state, queue_state::FAULTED, "{va:#x}");
    }
}

#[test]
fn a_queue_of_a_process_is_never_untranslated() {
    let (gpu, _, state) = run(queue_flags::UNTRANSLATED, &[Command::Pattern { va: CONTENT, bytes: 8, seed: 1 }]);
    assert_eq!(state, queue_state::FAULTED);
    assert_eq!(Word::load(gpu.local_memory().word(CONTENT)), 0);
}
