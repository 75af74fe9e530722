//! Tiled surfaces straight through the device's registers: copies that change the form, ranges of the CPU.

use device_port::DevicePort;
use shared_words::Word;
use softgpu::DataMode;
use softgpu_spec::Command;
use softgpu_spec::bus::{CPU_BAR_BASE, SYSTEM_BASE};
use softgpu_spec::register::*;
use softgpu_spec::tile::Tiling;

use crate::mapped;

/// Rows of a surface become tiles and rows again, in parts that begin and end anywhere; the CPU sees them in order through a
/// range while they lie in tiles.
// seed: M33
#[test]
fn tiles_are_rows_in_another_order_and_a_range_shows_rows() {
    let mut rig = mapped(DataMode::Stored, true);
    let tiling = Tiling::of_pitch(1024).unwrap();
    let (linear, back, surface, bytes) = (SYSTEM_BASE + 0x2_0000, SYSTEM_BASE + 0x3_0000, 0x20_0000, 2 * 8192);
    (0..bytes / 8).for_each(|index| Word::store(rig.system.word(0x2_0000 + index * 8), index));
    let copy = |linear_bus, offset, bytes, swizzle| Command::CopyTiled {
        linear_bus,
        surface_bus: surface,
        offset,
        bytes,
        tiling,
        swizzle,
    };
    rig.run(&[copy(linear, 0, 8, true), copy(linear + 8, 8, bytes - 8, true)]);
    rig.run(&[copy(back, 0, 4104, false), copy(back + 4104, 4104, bytes - 4104, false)]);
    let local = |at: u64| Word::load(rig.gpu.local_memory().word(surface + at));
    assert_eq!([0, 512, 4096].map(local), [0, 1024 / 8, 512 / 8], "row 1 follows row 0's first half");
    assert!((0..bytes / 8).all(|index| rig.word(0x3_0000 + index * 8) == index));
    // The CPU has local memory elsewhere than engines have it.
    let seen = CPU_BAR_BASE + surface;
    for (register, value) in
        [(RANGE_SELECT, 3), (RANGE_START, seen), (RANGE_SURFACE, surface), (RANGE_BYTES, bytes), (RANGE_PITCH, 1024)]
    {
        rig.gpu.write_register(register, value);
    }
    assert_eq!(rig.gpu.read_register(RANGES), 4);
    for index in 0..bytes / 8 {
        let (at, room) = rig.gpu.cpu_window(seen + index * 8).unwrap();
        assert!(room >= 8);
        assert_eq!(Word::load(rig.gpu.local_memory().word(at)), index, "through the range");
    }
    assert_eq!(rig.gpu.cpu_window(seen - 8), Some((surface - 8, 8)), "memory before it is seen as it lies");
    assert_eq!(rig.gpu.cpu_window(surface), None, "what engines call it leads the CPU nowhere");
    let mut rig = mapped(DataMode::Stored, true);
    rig.run(&[copy(linear, 3 << 20, 8, false)]);
    assert_eq!((rig.state(0), rig.pop().1[2] & 0xff), (queue_state::FAULTED, fault::BAD_ADDRESS));
    let mut rig = mapped(DataMode::Stored, false);
    rig.run(&[copy(linear, 0, 8, false)]);
    assert_eq!((rig.state(0), rig.pop().1[2] & 0xff), (queue_state::FAULTED, fault::PRIVILEGE));
}
