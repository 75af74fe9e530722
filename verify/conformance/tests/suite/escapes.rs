//! Private calls: what the driver answers comes back, and what is none of the driver's business never gets to it.

use conformance::{World, over_every_link};
use d3dkmt::{ESCAPE_BYTES_MAX, EscapeFlags};
use kmt_calls::{Call, ESCAPE_DRIVER_PRIVATE, EscapeCall, Refusal, Reply};
use softgpu_spec::private_call::{Question, Usage};
use softgpu_spec::{QUEUE_COUNT, register};
use softgpu_umd::{KernelFedStream, StreamConfig};
use wddm_types::{NodeId, NtStatus, RawHandle};

use crate::status;

over_every_link!(
    a_driver_answers_its_user_mode_driver,
    a_private_call_names_its_callers_own_objects,
    only_private_calls_are_made_and_with_what_a_driver_can_be_told,
    a_private_call_has_a_length
);

fn a_driver_answers_its_user_mode_driver(world: &World) {
    let client = world.client();
    let hardware = client.gpu.hardware().expect("an answer");
    assert_eq!((hardware.id, hardware.signal_bits), (register::ID_VALUE, 64));
    assert!(hardware.local_bytes >= conformance::VRAM_BYTES);
    assert!(client.gpu.hardware().expect("an answer").timestamp_ns > hardware.timestamp_ns, "it is asked each time");
    let before = client.gpu.usage().expect("an answer");
    let stream = KernelFedStream::hardware(&client.gpu, NodeId(0), StreamConfig::default()).expect("a queue");
    let after = client.gpu.usage().expect("an answer");
    assert_eq!((before.queues, after.queues), (QUEUE_COUNT, QUEUE_COUNT));
    assert_eq!((after.queues_taken, after.contexts), (before.queues_taken + 1, before.contexts + 1));
    let other = world.client().gpu.usage().expect("an answer");
    assert_eq!((other.queues_taken, other.contexts), (after.queues_taken, 0), "of the device that asks");
    drop(stream);
}

fn question(client: &conformance::Client) -> EscapeCall {
    EscapeCall {
        adapter: client.gpu.adapter().handle(),
        device: RawHandle::NONE,
        context: RawHandle::NONE,
        kind: ESCAPE_DRIVER_PRIVATE,
        flags: EscapeFlags::empty(),
        private_data: Question::Usage.encode().to_vec(),
    }
}

fn ask(client: &conformance::Client, call: EscapeCall) -> Result<Usage, Refusal> {
    match client.link.call(Call::Escape(call))? {
        Reply::Escaped(bytes) => Ok(Usage::read(&bytes.try_into().expect("as long as what was asked"))),
        other => panic!("{other:?}"),
    }
}

fn a_private_call_names_its_callers_own_objects(world: &World) {
    let (client, other) = (world.client(), world.client());
    let context = client.gpu.device().create_context(NodeId(0)).expect("a context");
    let (device, asked) = (client.gpu.device().handle(), question(&client));
    assert_eq!(ask(&client, asked.clone()).expect("about no device").contexts, 0);
    let whole = EscapeCall { device, context: context.handle(), ..asked.clone() };
    assert_eq!(ask(&client, whole).expect("about a context").contexts, 1);
    let theirs = other.gpu.device().create_context(NodeId(0)).expect("a context");
    let wrong = [
        EscapeCall { adapter: RawHandle::NONE, ..asked.clone() },
        EscapeCall { adapter: device, ..asked.clone() },
        EscapeCall { device: asked.adapter, ..asked.clone() },
        EscapeCall { device: context.handle(), ..asked.clone() },
        // A context is told with its device.
        EscapeCall { context: context.handle(), ..asked.clone() },
        EscapeCall { device, context: device, ..asked.clone() },
        EscapeCall { device, context: RawHandle(theirs.handle().0 + 0x4000), ..asked.clone() },
    ];
    for call in wrong {
        assert_eq!(status(ask(&client, call.clone())), NtStatus::INVALID_PARAMETER, "{call:?}");
    }
    let second = d3dkmt::Device::create(client.gpu.adapter()).expect("another device");
    let crossed = EscapeCall { device: second.handle(), context: context.handle(), ..asked };
    assert_eq!(status(ask(&client, crossed)), NtStatus::INVALID_PARAMETER);
}

fn only_private_calls_are_made_and_with_what_a_driver_can_be_told(world: &World) {
    let client = world.client();
    let asked = question(&client);
    for kind in (1..=39).chain([1024, 1038]) {
        assert_eq!(status(ask(&client, EscapeCall { kind, ..asked.clone() })), NtStatus::NOT_SUPPORTED, "{kind}");
    }
    for kind in [40, 1023, 1039, u32::MAX] {
        assert_eq!(status(ask(&client, EscapeCall { kind, ..asked.clone() })), NtStatus::INVALID_PARAMETER, "{kind}");
    }
    for bit in 1..32 {
        let flags = EscapeFlags::from_bits_retain(1 << bit);
        let known = EscapeFlags::all().contains(flags);
        let expected = if known { NtStatus::NOT_SUPPORTED } else { NtStatus::INVALID_PARAMETER };
        assert_eq!(status(ask(&client, EscapeCall { flags, ..asked.clone() })), expected, "bit {bit}");
    }
    let hardware = EscapeCall { private_data: Question::Hardware.encode().to_vec(), ..asked };
    assert_eq!(status(ask(&client, hardware)), NtStatus::INVALID_PARAMETER, "the driver's own refusal");
}

fn a_private_call_has_a_length(world: &World) {
    let client = world.client();
    let asked = question(&client);
    for length in [0, 1, 63, 65, ESCAPE_BYTES_MAX] {
        let call = EscapeCall { private_data: vec![1; length], ..asked.clone() };
        let refusal = client.link.call(Call::Escape(call)).expect_err("the driver knows no such question");
        assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER, "{length}");
        assert!(!refusal.reason.contains("at most"), "the driver was asked: {refusal}");
    }
    let call = EscapeCall { private_data: vec![1; ESCAPE_BYTES_MAX + 1], ..asked.clone() };
    let refusal = client.link.call(Call::Escape(call)).expect_err("it is too long");
    assert_eq!(refusal.status, NtStatus::INVALID_PARAMETER);
    assert!(refusal.reason.contains("at most 65536"), "{refusal}");
    assert!(ask(&client, asked).is_ok(), "and the next one is answered");
}
