//! Names are of the process and of the kind that they were given for, and no name comes again.

use std::collections::BTreeSet;

use conformance::{World, over_every_link};
use kmt_calls::{AdapterCall, Call, DeviceCall, EventCall, Reply};
use kmt_link::Link;
use wddm_types::{NtStatus, RawHandle};

use super::status;

over_every_link!(
    a_handle_is_of_its_process,
    a_handle_is_of_its_kind,
    a_name_does_not_come_again,
    a_name_never_given_out_is_nothing
);

fn device_of(link: &dyn Link) -> (RawHandle, RawHandle) {
    let adapters = d3dkmt::enum_adapters(link).expect("a kernel");
    let Ok(Reply::Handle(adapter)) = link.call(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: adapters[0].0 }))
    else {
        panic!("no adapter")
    };
    let Ok(Reply::Handle(device)) = link.call(Call::Device(DeviceCall::CreateDevice { adapter })) else {
        panic!("no device")
    };
    (adapter, device)
}

fn event_of(link: &dyn Link) -> RawHandle {
    let Ok(Reply::Handle(event)) = link.call(Call::Event(EventCall::Create { manual_reset: false })) else {
        panic!("no event")
    };
    event
}

// spec: memory §9.3
fn a_handle_is_of_its_process(world: &World) {
    let (mine, theirs) = (world.connect(), world.connect());
    // One more than the other has, so that the name means nothing there.
    device_of(&*mine);
    let (_, device) = device_of(&*mine);
    device_of(&*theirs);
    assert_eq!(status(theirs.call(Call::Device(DeviceCall::DestroyDevice { device }))), NtStatus::INVALID_PARAMETER);
    assert_eq!(
        mine.call(Call::Device(DeviceCall::DestroyDevice { device })),
        Ok(Reply::Done),
        "the other's call did not touch it"
    );
    assert_eq!(
        status(mine.call(Call::Device(DeviceCall::DestroyDevice { device }))),
        NtStatus::INVALID_PARAMETER,
        "it is stale"
    );
}

fn a_handle_is_of_its_kind(world: &World) {
    let link = world.connect();
    let (adapter, device) = device_of(&*link);
    for wrong in [
        Call::Device(DeviceCall::DestroyDevice { device: adapter }),
        Call::Adapter(AdapterCall::CloseAdapter { adapter: device }),
        Call::Device(DeviceCall::CreateDevice { adapter: device }),
        Call::Device(DeviceCall::GetDeviceState { device: adapter }),
    ] {
        assert_eq!(status(link.call(wrong.clone())), NtStatus::INVALID_PARAMETER, "{wrong:?}");
    }
    assert_eq!(status(link.call(Call::Event(EventCall::Close { event: device }))), NtStatus::INVALID_HANDLE);
    assert!(link.call(Call::Device(DeviceCall::GetDeviceState { device })).is_ok());
}

fn a_name_does_not_come_again(world: &World) {
    let link = world.connect();
    let mut names = BTreeSet::new();
    for _ in 0..500 {
        let event = event_of(&*link);
        assert!(names.insert(event), "{event:?} came again");
        link.call(Call::Event(EventCall::Close { event })).expect("it was open");
    }
}

fn a_name_never_given_out_is_nothing(world: &World) {
    let link = world.connect();
    let (_, device) = device_of(&*link);
    for forged in [0, 1, 0x40, device.0 + 1, device.0 + 0x40, device.0 ^ 1 << 31, u32::MAX, u32::MAX << 6] {
        let device = RawHandle(forged);
        assert_eq!(
            status(link.call(Call::Device(DeviceCall::GetDeviceState { device }))),
            NtStatus::INVALID_PARAMETER,
            "{forged:#x}"
        );
    }
}
