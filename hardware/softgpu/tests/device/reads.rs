//! What kernels use in system memory costs the bus, where engines share it.

use super::*;

const BYTES: u64 = 2 * PAGE;
/// At 25 GB/s.
const READ_NS: u64 = 328;

fn rig(timing: Timing, privileged: bool) -> Rig {
    let (system, pin) = (Memory::reserve(1 << 20).unwrap(), Arc::new(Pin::default()));
    let rig = Rig::of(Config { data: DataMode::Modelled, timing, ..CONFIG }, system, pin, privileged);
    rig.map_pages();
    rig
}

/// When work of so many nanoseconds is over that uses these ranges.
fn work(timing: Timing, ns: u64, ranges: &[u64]) -> u64 {
    let mut rig = rig(timing, false);
    let touch = |va: &u64| Command::Touch { va: *va, bytes: BYTES, write: false, within: true };
    let commands: Vec<_> = std::iter::once(Command::Work { ns }).chain(ranges.iter().map(touch)).collect();
    rig.run(&commands);
    rig.gpu.now()
}

#[test]
fn work_takes_as_long_as_what_it_reads_in_place_takes_the_bus() {
    let shared = Timing::MIDDLE.with_shared_bus();
    assert_eq!(work(shared, 1_000, &[SYSTEM]), 1_000, "the bus is done before the work is");
    assert_eq!(work(shared, 100, &[SYSTEM]), READ_NS, "the work waits for the bus");
    assert_eq!(
        work(shared, 400, &[SYSTEM, LOCAL, SYSTEM]),
        2 * READ_NS,
        "one read behind the other, local memory aside"
    );
    assert_eq!(work(Timing::MIDDLE, 100, &[SYSTEM]), 100, "on a bus of its own work says itself how long it takes");
}

/// Queue 1 on the copy engine brings 64 pages while queue 0 works on the compute engine.
fn beside_a_copy(timing: Timing) -> u64 {
    const OTHER_RING: u64 = 0x4_0000;
    let mut rig = rig(timing, false);
    rig.enable(1, engine_of(true), OTHER_RING, true);
    let copy = Command::CopyPhysical { source_bus: SYSTEM_BASE + 0x8_0000, target_bus: 0x20_0000, bytes: 0x4_0000 };
    let mut words = Vec::new();
    copy.encode(&mut words);
    for (word, at) in words.iter().zip((OTHER_RING..).step_by(8)) {
        Word::store(rig.system.word(at), *word);
    }
    Word::store(rig.gpu.doorbell_page().word(softgpu_spec::doorbell::offset(1)), words.len() as u64 * 8);
    rig.gpu.doorbell_rung(1);
    rig.gpu.tick(10);
    rig.run(&[Command::Work { ns: 100 }, Command::Touch { va: SYSTEM, bytes: BYTES, write: false, within: true }]);
    rig.gpu.write_register(QUEUE_SELECT, 0);
    rig.gpu.read_register(QUEUE_BUSY_NS)
}

#[test]
fn a_read_in_place_goes_behind_what_a_copy_brings() {
    // The command, its way to memory, 256 KiB; queue 0 began at 10.
    const COPY_NS: u64 = 50 + 1_000 + 10_486;
    let shared = Timing::MIDDLE.with_shared_bus();
    assert_eq!(beside_a_copy(shared), COPY_NS + READ_NS - 10);
    assert_eq!(beside_a_copy(shared.with_link(25_000)), COPY_NS + READ_NS - 10, "both ways at once");
    assert_eq!(beside_a_copy(Timing::MIDDLE), 100);
}
