//! A driver's private calls: the driver gets a copy, the kernel returns the copy's content if the call succeeds, and a call that fails costs
//! its caller a status and has no other effect.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use d3dkmt::EscapeFlags;
use ddi::{DriverStatus, EscapeFlags as Told};
use wddm_types::{NtStatus, RawHandle};

use crate::stubborn::{Shared, Whims, host_with};
use stack::world::{MIB, VIRTUAL, client, host};

#[test]
fn a_driver_is_told_who_calls_and_answers_in_as_many_bytes() {
    type Heard = (bool, bool, bool, Told, Vec<u8>);
    let heard: Shared<Heard> = Shared::default();
    let hears = Arc::clone(&heard);
    let escape = move |_: &mut dyn ddi::Miniport, escape: &mut ddi::Escape<'_>| {
        let (process, device) = (escape.process.is_some(), escape.device.is_some());
        let told = (process, device, escape.context.is_some(), escape.flags, escape.private_data.to_vec());
        hears.lock().unwrap().push(told);
        escape.private_data.iter_mut().for_each(|byte| *byte = !*byte);
        Ok(())
    };
    let host = host_with(8 * MIB, Whims { escape: Box::new(escape), ..Whims::default() });
    let gpu = client(&host).gpu;
    let none = EscapeFlags::empty();
    let ask = |device, context, flags, bytes: &[u8]| gpu.adapter().escape(device, context, flags, bytes.to_vec());
    assert_eq!(ask(None, RawHandle::NONE, none, &[1, 2, 3]), Ok(vec![0xfe, 0xfd, 0xfc]));
    assert_eq!(ask(Some(gpu.device()), RawHandle::NONE, EscapeFlags::HARDWARE_ACCESS, &[]), Ok(vec![]));
    let context = gpu.device().create_context(wddm_types::NodeId(0)).unwrap();
    assert_eq!(ask(Some(gpu.device()), context.handle(), none, &[0; 9]), Ok(vec![0xff; 9]));
    let heard = heard.lock().unwrap();
    let expected: [Heard; 3] = [
        (true, false, false, Told::empty(), vec![1, 2, 3]),
        (true, true, false, Told::HARDWARE_ACCESS, vec![]),
        (true, true, true, Told::empty(), vec![0; 9]),
    ];
    assert_eq!(*heard, expected);
}

#[test]
fn a_driver_that_fails_costs_its_caller_a_status_and_nothing_else() {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let next = Mutex::new(
        vec![
            (DriverStatus::InvalidParameter("wrong"), NtStatus::INVALID_PARAMETER),
            (DriverStatus::NoMemory("full"), NtStatus::NO_MEMORY),
            (DriverStatus::NotSupported("none"), NtStatus::NOT_SUPPORTED),
            (DriverStatus::Unsuccessful("broken"), NtStatus::UNSUCCESSFUL),
        ]
        .into_iter(),
    );
    let expected = next.lock().unwrap().clone().map(|(_, status)| status);
    let escape = move |_: &mut dyn ddi::Miniport, escape: &mut ddi::Escape<'_>| {
        counted.fetch_add(1, Ordering::Relaxed);
        escape.private_data.fill(7);
        next.lock().unwrap().next().map_or(Ok(()), |(failure, _)| Err(failure))
    };
    let host = host_with(8 * MIB, Whims { escape: Box::new(escape), ..Whims::default() });
    let gpu = client(&host).gpu;
    let ask = || gpu.adapter().escape(Some(gpu.device()), RawHandle::NONE, EscapeFlags::empty(), vec![1; 16]);
    while host.step() {}
    // The first call also completes the work that the creation of the device has left.
    assert_eq!(ask().expect_err("the driver refuses").status, NtStatus::INVALID_PARAMETER);
    let before = host.state_digest();
    for wanted in expected.skip(1) {
        assert_eq!(ask().expect_err("the driver refuses").status, wanted);
    }
    assert_eq!(host.state_digest(), before, "nothing has changed");
    assert_eq!(ask(), Ok(vec![7; 16]), "the adapter goes on");
    assert_eq!(calls.load(Ordering::Relaxed), 5);
    host.check_invariants().unwrap();
}

#[test]
fn an_adapter_that_sleeps_is_asked_only_what_needs_no_hardware() {
    let host = host(VIRTUAL, 8 * MIB);
    let gpu = client(&host).gpu;
    gpu.hardware().unwrap();
    host.power_transition(ddi::PowerState::Standby).unwrap();
    let refused = gpu.hardware().unwrap_err();
    assert!(refused.to_string().contains("sleeps"), "{refused}");
    assert_eq!(gpu.usage().unwrap().contexts, 0);
    host.power_transition(ddi::PowerState::On).unwrap();
    gpu.hardware().unwrap();
}
