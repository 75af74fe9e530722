//! The driver's answers to private questions, and its refusals, which touch nothing.

use ddi::{DriverStatus, Escape, EscapeFlags, Miniport};
use softgpu_spec::private_call::{BYTES, Hardware, Question, Usage};
use softgpu_spec::register;

use crate::driver::SoftGpuKmd;
use crate::fake_port::started;

fn escape(kmd: &mut SoftGpuKmd, flags: EscapeFlags, private_data: &mut [u8]) -> Result<(), DriverStatus> {
    kmd.escape(&mut Escape { process: None, device: None, context: None, flags, private_data })
}

#[test]
fn the_hardwares_question_is_answered_by_registers_and_needs_access_to_it() {
    let (mut kmd, port, _) = started();
    port.set(register::TIMESTAMP, 77);
    port.set(register::RANGES, 3);
    let asked = Question::Hardware.encode();
    let mut bytes = asked;
    let refused = escape(&mut kmd, EscapeFlags::empty(), &mut bytes);
    assert!(matches!(refused, Err(DriverStatus::InvalidParameter(_))), "{refused:?}");
    assert_eq!(bytes, asked, "nothing is answered");
    assert_eq!(escape(&mut kmd, EscapeFlags::HARDWARE_ACCESS, &mut bytes), Ok(()));
    let answer = Hardware::read(&bytes);
    assert_eq!((answer.id, answer.timestamp_ns, answer.ranges), (register::ID_VALUE, 77, 3));
    assert_eq!(bytes[..8], asked[..8]);
    port.set(register::TIMESTAMP, register::ABSENT);
    let mut bytes = asked;
    let gone = escape(&mut kmd, EscapeFlags::HARDWARE_ACCESS, &mut bytes);
    assert!(matches!(gone, Err(DriverStatus::Unsuccessful(_))), "{gone:?}");
    assert_eq!(bytes, asked, "not a part of an answer");
}

#[test]
fn the_drivers_own_question_needs_no_hardware() {
    let (mut kmd, _, _) = started();
    let mut bytes = Question::Usage.encode();
    assert_eq!(escape(&mut kmd, EscapeFlags::empty(), &mut bytes), Ok(()));
    let answer = Usage::read(&bytes);
    assert_eq!((answer.queues, answer.contexts, answer.connections), (softgpu_spec::QUEUE_COUNT, 0, 0));
    // An answer is no question.
    let refused = escape(&mut kmd, EscapeFlags::empty(), &mut bytes);
    assert!(matches!(refused, Err(DriverStatus::InvalidParameter(_))), "{refused:?}");
}

#[test]
fn what_is_no_question_is_refused() {
    let (mut kmd, _, _) = started();
    for length in [0, 1, BYTES - 1, BYTES + 1, 1 << 16] {
        let mut bytes = vec![0xff; length];
        let refused = escape(&mut kmd, EscapeFlags::HARDWARE_ACCESS, &mut bytes);
        assert!(matches!(refused, Err(DriverStatus::InvalidParameter(_))), "{length}: {refused:?}");
        assert!(bytes.iter().all(|byte| *byte == 0xff));
    }
}
