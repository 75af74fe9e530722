//! Fences and their driver: calls for several fences together, failures of the driver, and the effect of its capabilities.

use std::collections::BTreeSet;
use std::sync::Arc;

use d3dkmt::{FenceFlags, FencePrivateData, NativeFenceRequest, OpenSyncObjectRequest, SyncObjectAccess};
use ddi::{OpenNativeFence, OsLocalFence};
use dxgk_host::ProcessLink;
use kmt_calls::{Call, Reply, SyncCall, WaitFlags};
use kmt_link::Link;
use wddm_types::{GpuVa, NtStatus, RawHandle};

use super::{by, host_of, listened, lives, shared, signal, status};
use crate::stubborn::{FenceStep, Shared, Whims, wrapped};
use stack::world::{VIRTUAL, client, gpu_on, host_of_several};

/// All objects of one call, and all that one value releases, go to the driver together.
#[test]
fn a_call_about_several_fences_is_one_call_of_the_driver() {
    // spec: sync §2.6, sync §3.5
    // seed: N62, N26
    let (host, heard) = listened();
    let a = client(&host);
    let device = a.gpu.device();
    let fences: Vec<_> = (0..3).map(|_| device.create_native_fence(NativeFenceRequest::default()).unwrap()).collect();
    let points = |value: u64| fences.iter().map(|fence| (fence.handle(), value)).collect::<Vec<_>>();
    heard.lock().unwrap().clear();
    let heard_now = || std::mem::take(&mut *heard.lock().unwrap());
    let wait = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
        device: device.handle(),
        points: points(5),
        async_event: RawHandle::NONE,
        flags: WaitFlags::empty(),
    });
    let waiting = host.begin_call(a.link.process(), wait).expect_err("not there");
    let steps = heard_now();
    assert!(matches!(&steps[..], [FenceStep::Monitored(list)] if list.len() == 3), "{steps:?}");
    let call = signal(device.handle(), points(5));
    a.link.call(call).unwrap();
    let steps = heard_now();
    let [FenceStep::Current(values, flags), FenceStep::Monitored(monitored)] = &steps[..] else { panic!("{steps:?}") };
    assert!(values.len() == 3 && flags.is_empty() && values.iter().all(|(_, value)| *value == 5));
    assert!(monitored.len() == 3 && monitored.iter().all(|(_, value)| *value == u64::MAX));
    assert_eq!(host.take_answer(waiting), Some(Ok(Reply::Done)));
    // The kernel does not tell the driver of an unchanged value; it refuses a call with a lower value as a whole.
    let mut mixed = points(5);
    mixed[2].1 = 4;
    let call = signal(device.handle(), points(5));
    a.link.call(call).unwrap();
    assert_eq!(heard_now(), []);
    let mut rising = points(9);
    rising.push((fences[0].handle(), 8));
    let call = |points| signal(device.handle(), points);
    for refused in [mixed, rising] {
        assert_eq!(status(a.link.call(call(refused))), NtStatus::INVALID_PARAMETER);
        assert_eq!(heard_now(), [], "nothing was signalled");
    }
    assert_eq!(fences[0].current(), 5);
}

#[test]
fn a_driver_whose_update_fails_is_a_bug_check() {
    // spec: sync §3.6, sync §3.9, sync §5
    for (monitored, parameter) in [(true, "0x12"), (false, "0x13")] {
        let armed = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let now = Arc::clone(&armed);
        let fails = move |step: &FenceStep| {
            now.load(std::sync::atomic::Ordering::Relaxed) && matches!(step, FenceStep::Monitored(_)) == monitored
        };
        let host = host_of(Whims { fail_fence_update: Box::new(fails), ..Whims::default() });
        let (a, b) = (client(&host), client(&host));
        let fence = a.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
        while host.step() {}
        armed.store(true, std::sync::atomic::Ordering::Relaxed);
        let call = if monitored {
            let device = a.gpu.device().handle();
            let points = vec![(fence.handle(), 5)];
            Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
                device,
                points,
                async_event: RawHandle::NONE,
                flags: WaitFlags::empty(),
            })
        } else {
            let device = a.gpu.device().handle();
            signal(device, vec![(fence.handle(), 5)])
        };
        let _ = host.begin_call(a.link.process(), call);
        let reason = host.stopped().expect("the adapter has stopped");
        assert!(reason.contains("0x119") && reason.contains(parameter), "{reason}");
        assert_eq!(status(b.gpu.device().create_native_fence(Default::default())), NtStatus::DEVICE_REMOVED);
    }
}

/// The kernel tells the driver a fence's type, the addresses of its words, and 64 bytes of private data, which the driver may change.
#[test]
fn a_fence_is_told_to_the_driver_as_user_mode_sees_it() {
    // spec: sync §2.1, sync §2.6
    // seed: N52
    type Opened = (GpuVa, GpuVa, u8);
    let opened = crate::stubborn::Shared::<Opened>::default();
    let into = Arc::clone(&opened);
    let open = move |open: &mut ddi::OpenNativeFence<'_>| {
        into.lock().unwrap().push((open.current_va, open.monitored_va, open.private_data[63]));
        open.private_data[0] = open.private_data[63] + 1;
        false
    };
    let host = host_of(Whims { refuse_fence_open: Box::new(open), ..Whims::default() });
    let (a, b) = (client(&host), client(&host));
    opened.lock().unwrap().clear();
    let private_data = |last: u8| {
        let mut bytes = [0; 64];
        bytes[63] = last;
        FencePrivateData(bytes)
    };
    let request = NativeFenceRequest {
        fence_type: 0,
        initial_value: 41,
        flags: super::SHARED,
        private_data: private_data(7),
        ..NativeFenceRequest::default()
    };
    let mine = a.gpu.device().create_native_fence(request).expect("a fence");
    let name = mine.share(SyncObjectAccess::ALL_ACCESS).expect("a name");
    let request = OpenSyncObjectRequest { private_data: private_data(20), ..super::by(&name) };
    let theirs = b.gpu.device().open_native_fence(request).expect("it opens");
    let told = std::mem::take(&mut *opened.lock().unwrap());
    let seen = |fence: &d3dkmt::Fence, last| (fence.current_va(), fence.monitored_va(), last);
    assert_eq!(told, [seen(&mine, 7), seen(&theirs, 20)]);
    assert_eq!([mine.private_data()[0], theirs.private_data()[0]], [8, 21], "the driver's bytes come back");
    assert_eq!([mine.current(), theirs.current()], [41; 2]);
}

/// The driver says where fences are mapped, and how MonitoredValues are packed.
#[test]
fn the_drivers_caps_decide_where_words_lie() {
    // spec: sync §1.5, sync §2.6, sync §6 A3
    // seed: N20
    let (least, most) = (GpuVa(0x90_0000_0000), GpuVa(0x91_0000_0000));
    for (stride, per_page) in [(0, 512), (8, 512), (64, 64), (4096, 1)] {
        let caps = move |caps: &mut ddi::NativeFenceCaps| {
            caps.monitored_value_stride = stride;
            (caps.minimum_address, caps.maximum_address) = (least, most);
        };
        let host = host_of(Whims { fence_caps: Box::new(caps), ..Whims::default() });
        let mut a = client(&host);
        let device = a.gpu.device();
        let packed: Vec<_> = (0..70).map(|_| device.create_native_fence(Default::default()).unwrap()).collect();
        let own = shared(device, FenceFlags::empty());
        for fence in packed.iter().chain([&own]) {
            for va in [fence.current_va(), fence.monitored_va()] {
                assert!(va >= least && va.0 + 8 <= most.0, "{va:?}");
            }
        }
        let pages: std::collections::BTreeSet<_> = packed.iter().map(|fence| fence.monitored_va().0 / 4096).collect();
        // The kernel's progress and paging fences of this process are packed with them.
        let most_pages = 70usize.div_ceil(per_page) + 1;
        assert!(pages.len() <= most_pages && pages.len() * per_page >= 70, "{} pages at {stride}", pages.len());
        let natural = u64::from(stride.max(8));
        assert!(packed.iter().all(|fence| (fence.monitored_va().0 % 4096).is_multiple_of(natural)));
        // They work: each engine signal finds its own words.
        a.run(|commands| {
            for fence in packed.iter().chain([&own]) {
                commands.signal(fence, 3);
            }
        });
        assert!(packed.iter().chain([&own]).all(|fence| fence.current() == 3));
    }
}

/// Two adapters, two devices of one process on each, a fence of each device, and one of the second process.
#[test]
fn a_create_goes_to_its_own_adapter_and_yields_handles_of_its_own() {
    // spec: sync §3.2, sync §3.3
    // seed: N45
    let heard = [0; 2].map(|_| Shared::<FenceStep>::default());
    let told = [0; 2].map(|_| Shared::<OsLocalFence>::default());
    let host = host_of_several(VIRTUAL, &["discrete-4k", "discrete-4k"], |at, setup| {
        let (into, names) = (Arc::clone(&heard[at]), Arc::clone(&told[at]));
        let refuse_fence_open = Box::new(move |open: &mut OpenNativeFence<'_>| {
            names.lock().unwrap().push(open.local);
            false
        });
        let hear_fence = Box::new(move |step| into.lock().unwrap().push(step));
        let whims = Whims { hear_fence, refuse_fence_open, ..Whims::default() };
        setup.wrap_miniport = Some(wrapped(whims));
    });
    let link = ProcessLink::new(Arc::clone(&host));
    let gpus = [0, 1].map(|adapter| [0; 2].map(|_| gpu_on(&host, &link, adapter)));
    for (at, devices) in gpus.iter().enumerate() {
        heard.iter().for_each(|heard| drop(lives(heard)));
        told[at].lock().unwrap().clear();
        let fences = devices.each_ref().map(|gpu| shared(gpu.device(), FenceFlags::empty()));
        let steps = lives(&heard[at]);
        let [
            FenceStep::Create(first),
            FenceStep::Open(first_opened, first_local, first_device),
            FenceStep::Create(second),
            FenceStep::Open(second_opened, second_local, second_device),
        ] = steps[..]
        else {
            panic!("adapter {at}: {steps:?}")
        };
        assert_eq!((first_opened, second_opened), (first, second), "the open follows its create");
        assert!(first != second && first_local != second_local && first_device != second_device, "{steps:?}");
        assert_ne!(fences[0].handle(), fences[1].handle());
        // Opened by the other device the fence is that device's, too.
        let name = fences[0].share(SyncObjectAccess::ALL_ACCESS).unwrap();
        let again = devices[1].device().open_native_fence(by(&name)).unwrap();
        let steps = lives(&heard[at]);
        let [FenceStep::Open(opened, local, device)] = steps[..] else { panic!("adapter {at}: {steps:?}") };
        assert_eq!((opened, device), (first, second_device));
        assert!(![first_local, second_local].contains(&local), "{steps:?}");
        let names = std::mem::take(&mut *told[at].lock().unwrap());
        let different: BTreeSet<u64> = names.iter().map(|name| name.0).collect();
        assert_eq!((names.len(), different.len()), (3, 3), "each open has a name of its own in the kernel: {names:?}");
        let [one, other] = fences;
        drop(other);
        drop(one);
        drop((again, name));
        let expected = [
            FenceStep::Close(second_local),
            FenceStep::Destroy(second),
            FenceStep::Close(first_local),
            FenceStep::Close(local),
            FenceStep::Destroy(first),
        ];
        assert_eq!(lives(&heard[at]), expected);
        assert_eq!(lives(&heard[1 - at]), [], "the other adapter's driver hears of none");
    }
    host.check_invariants().unwrap();
}
