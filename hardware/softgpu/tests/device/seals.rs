//! Sealed words: reached for good.

use device_port::DevicePort;
use shared_words::Word;
use softgpu::DataMode;
use softgpu_spec::Command;
use softgpu_spec::register::{CMP_ARGUMENT_0, CMP_COMMAND, CMP_RESULT, CMP_ROOT, cmp, cmp_result, queue_state, record};

use crate::{PAGE, ROOT, SYSTEM, mapped};

#[test]
fn a_sealed_word_lets_everybody_pass_and_no_signal_touches_it() {
    // spec: sync §3.16, sync §3.19 item 10
    let mut rig = mapped(DataMode::Stored, false);
    rig.gpu.write_register(CMP_ROOT, ROOT);
    // MonitoredValue is 0: any signal would interrupt.
    Word::store(rig.system.word(0x1_0040), 0);
    Word::store(rig.system.word(0x1_00c0), u64::MAX);
    let signal = |value| Command::Signal { current_va: SYSTEM, monitored_va: SYSTEM + 64, value, log: None };
    let passed = |value| Command::Signal { current_va: SYSTEM + 128, monitored_va: SYSTEM + 192, value, log: None };
    rig.run(&[Command::Wait { va: SYSTEM, value: 5, log: None }, passed(1)]);
    assert_eq!(rig.state(0), queue_state::PARKED);
    rig.gpu.write_register(CMP_ARGUMENT_0, SYSTEM);
    rig.gpu.write_register(CMP_COMMAND, cmp::SEAL);
    assert_eq!(rig.gpu.read_register(CMP_RESULT), cmp_result::DONE);
    rig.drain();
    assert_eq!((rig.word(0x1_0000), rig.word(0x1_0080)), (u64::MAX, 1), "the parked one goes on");
    rig.run(&[signal(3), Command::Wait { va: SYSTEM, value: 9, log: None }, passed(2)]);
    assert_eq!((rig.word(0x1_0000), rig.word(0x1_0080)), (u64::MAX, 2), "nothing is stored, no queue parks");
    assert_eq!(rig.pop().0, record::NONE, "no interrupt is raised");
    rig.gpu.write_register(CMP_COMMAND, cmp::UNSEAL);
    rig.run(&[signal(4)]);
    assert_eq!((rig.word(0x1_0000), rig.pop().0), (4, record::FENCE), "a word like any other");
    rig.gpu.write_register(CMP_ARGUMENT_0, SYSTEM + 2 * PAGE);
    rig.gpu.write_register(CMP_COMMAND, cmp::SEAL);
    assert_eq!(rig.gpu.read_register(CMP_RESULT), cmp_result::FAULT, "there is nothing");
}
