//! Lifecycles of fence handles, and the updates.

use std::sync::atomic::AtomicU64;

use ddi::{
    CreateNativeFence, CurrentUpdate, DriverStatus, FenceResidency, FenceType, KmdDevice, KmdGlobalFence,
    KmdLocalFence, Miniport, MonitoredUpdate, OpenNativeFence, OsGlobalFence, OsLocalFence, PagingStatus, PowerState,
    UpdateCurrentFlags,
};
use shared_words::Word;
use softgpu_spec::register::{self, cmp, cmp_result};
use wddm_types::{GpuVa, PhysicalAddress, SegmentId, WordAddress};

use super::FenceTable;
use crate::driver::SoftGpuKmd;
use crate::fake_port::{FakeHost, context, started, stopped};

impl FenceTable {
    /// How many fences there are; so many that the next number is new.
    pub(crate) fn globals_created(&self) -> u64 {
        self.globals.iter().map(|(handle, _)| handle).last().unwrap_or(0) + 100
    }
}

fn try_fence(
    kmd: &mut SoftGpuKmd,
    number: u64,
    fence_type: FenceType,
    current: u64,
) -> Result<KmdGlobalFence, DriverStatus> {
    kmd.native_fences().unwrap().create(&mut CreateNativeFence {
        fence: OsGlobalFence(number),
        fence_type,
        current_system_va: GpuVa(current),
        monitored_system_va: GpuVa(current + 8),
        private_data: &mut [0; 64],
    })
}

/// A fence whose words the CMP sees at `number` × 4096 and 8 bytes on.
pub(crate) fn fence(kmd: &mut SoftGpuKmd, number: u64) -> KmdGlobalFence {
    try_fence(kmd, number, FenceType::Default, number * 4096).unwrap()
}

pub(crate) fn open(
    kmd: &mut SoftGpuKmd,
    global: KmdGlobalFence,
    device: KmdDevice,
    va: u64,
) -> Result<KmdLocalFence, DriverStatus> {
    kmd.native_fences().unwrap().open(&mut OpenNativeFence {
        global,
        local: OsLocalFence(1),
        device,
        current_va: GpuVa(va),
        monitored_va: GpuVa(va + 8),
        private_data: &mut [0; 64],
    })
}

#[test]
fn opens_and_closes_of_two_processes() {
    // spec: sync §3.4
    let (mut kmd, _, _) = started();
    let (process_a, device_a, _) = context(&mut kmd, 0, false);
    let (process_b, device_b, _) = context(&mut kmd, 0, false);
    let global = fence(&mut kmd, 5);
    let a = open(&mut kmd, global, device_a, 0x7000).unwrap();
    let a_again = open(&mut kmd, global, device_a, 0x7000).unwrap();
    let b = open(&mut kmd, global, device_b, 0x8000).unwrap();
    assert!(kmd.fences.in_process(process_a, 0x7000).is_some() && kmd.fences.in_process(process_b, 0x7000).is_none());
    kmd.native_fences().unwrap().close(a);
    assert_eq!(kmd.fences.in_process(process_a, 0x7000), Some(OsGlobalFence(5)), "the second open of the same address");
    kmd.native_fences().unwrap().close(a_again);
    assert_eq!(kmd.fences.in_process(process_a, 0x7000), None);
    assert_eq!(kmd.fences.in_process(process_b, 0x8000), Some(OsGlobalFence(5)), "the other process keeps it");
    kmd.native_fences().unwrap().close(b);
    kmd.native_fences().unwrap().destroy(global);
    assert!(
        matches!(open(&mut kmd, global, device_a, 0x7000), Err(DriverStatus::InvalidParameter(_))),
        "a stale handle"
    );
    let next = fence(&mut kmd, 5);
    assert_ne!(next, global, "handles are never given twice");
    assert!(open(&mut kmd, next, KmdDevice(999), 0x7000).is_err());
}

#[test]
#[should_panic(expected = "after its last close")]
fn a_fence_with_opens_is_not_destroyed() {
    let (mut kmd, _, _) = started();
    let (_, device, _) = context(&mut kmd, 0, false);
    let global = fence(&mut kmd, 5);
    open(&mut kmd, global, device, 0x7000).unwrap();
    kmd.native_fences().unwrap().destroy(global);
}

#[test]
fn what_the_caps_do_not_offer_is_refused() {
    let (mut kmd, _, _) = started();
    assert!(try_fence(&mut kmd, 1, FenceType::IntraGpu, 0x1000).is_err(), "the kernel did not announce it");
    assert!(try_fence(&mut kmd, 1, FenceType::Default, 0).is_err(), "no address in the paging process");
    fence(&mut kmd, 1);
    assert!(try_fence(&mut kmd, 2, FenceType::Default, 0x1000).is_err(), "two fences in one word");
    let (mut kmd, _) = stopped(crate::KmdConfig::default());
    kmd.start_device(&mut FakeHost { enabled: false, ..FakeHost::default() }).unwrap();
    assert!(matches!(try_fence(&mut kmd, 1, FenceType::Default, 0x1000), Err(DriverStatus::NotSupported(_))));
}

#[test]
fn the_cmp_publishes_monitored_values() {
    // spec: sync §3.9
    let (mut kmd, port, _) = started();
    let global = fence(&mut kmd, 5);
    let word = AtomicU64::new(7);
    let update = [MonitoredUpdate { fence: global, value: 42, monitored: &word }];
    kmd.native_fences().unwrap().update_monitored_values(&update).unwrap();
    let arguments =
        [(register::CMP_ARGUMENT_0, 0x5000), (register::CMP_ARGUMENT_1, 0x5008), (register::CMP_ARGUMENT_2, 42)];
    assert_eq!(port.writes(), [&arguments[..], &[(register::CMP_COMMAND, cmp::PUBLISH_MONITORED)]].concat());
    assert_eq!(Word::load(&word), 7, "only the CMP stores it, in its order");
    port.set(register::CMP_RESULT, cmp_result::FAULT);
    let failed = kmd.native_fences().unwrap().update_monitored_values(&update);
    assert!(matches!(failed, Err(DriverStatus::Unsuccessful(_))));
}

#[test]
fn current_values_are_stored_then_kicked() {
    // spec: sync §3.6, sync §3.16
    // seed: N69
    let (mut kmd, port, _) = started();
    let global = fence(&mut kmd, 5);
    let word = AtomicU64::new(7);
    let update = [CurrentUpdate { fence: global, value: 42, current: Some(&word) }];
    for (flags, value) in [(UpdateCurrentFlags::NOTIFICATION_ONLY, 7), (UpdateCurrentFlags::empty(), 42)] {
        kmd.native_fences().unwrap().update_current_values(&update, flags).unwrap();
        assert_eq!(Word::load(&word), value);
        let writes = port.writes();
        assert!(
            writes.contains(&(register::CMP_ARGUMENT_0, 0x5000))
                && writes.last() == Some(&(register::CMP_COMMAND, cmp::RESCAN))
        );
    }
    port.set(register::CMP_RESULT, cmp_result::FAULT);
    kmd.native_fences().unwrap().update_current_values(&update, UpdateCurrentFlags::empty()).unwrap();
    let first: Vec<_> = port.writes().into_iter().filter(|write| write.0 == register::CMP_ARGUMENT_0).collect();
    assert_eq!(first, [(register::CMP_ARGUMENT_0, 0x5000), (register::CMP_ARGUMENT_0, 0)], "then every parked wait");
}

#[test]
fn a_fence_that_is_always_signalled_is_sealed_until_it_is_destroyed() {
    // spec: sync §3.16, sync §6 B13
    let (mut kmd, port, _) = started();
    let global = fence(&mut kmd, 5);
    let word = AtomicU64::new(7);
    let update = [CurrentUpdate { fence: global, value: 0xFFFF_FFFF, current: Some(&word) }];
    kmd.native_fences().unwrap().update_current_values(&update, UpdateCurrentFlags::ALWAYS_SIGNALED).unwrap();
    let command = |writes: &[(u32, u64)]| {
        (writes.contains(&(register::CMP_ARGUMENT_0, 0x5000)), writes.last().copied().map(|write| write.1))
    };
    assert_eq!(command(&port.writes()), (true, Some(cmp::SEAL)), "the CMP stores it, the number is ignored");
    kmd.native_fences().unwrap().destroy(global);
    assert_eq!(command(&port.writes()), (true, Some(cmp::UNSEAL)));
    let plain = fence(&mut kmd, 6);
    kmd.native_fences().unwrap().destroy(plain);
    assert!(port.writes().iter().all(|write| *write != (register::CMP_COMMAND, cmp::UNSEAL)), "never sealed");
}

#[test]
fn seals_go_with_the_power_of_the_device() {
    // spec: sync §6 B13, memory §1.10
    let (mut kmd, port, _) = started();
    let global = fence(&mut kmd, 5);
    let word = AtomicU64::new(7);
    let update = [CurrentUpdate { fence: global, value: 0xFFFF_FFFF, current: Some(&word) }];
    kmd.native_fences().unwrap().update_current_values(&update, UpdateCurrentFlags::ALWAYS_SIGNALED).unwrap();
    port.writes();
    kmd.set_power_state(&mut FakeHost::default(), PowerState::Standby).unwrap();
    let unseals = |writes: &[(u32, u64)]| writes.contains(&(register::CMP_COMMAND, cmp::UNSEAL));
    assert!(unseals(&port.writes()), "all of them");
    kmd.native_fences().unwrap().destroy(global);
    assert!(!unseals(&port.writes()), "it is not sealed any more, and its words are not to be found");
}

#[test]
fn a_seal_is_lifted_when_the_words_move_and_only_then() {
    // spec: memory §3.4 operation 18, sync §3.16
    let (mut kmd, port, _) = started();
    let (sealed, plain) = (fence(&mut kmd, 5), fence(&mut kmd, 6));
    let seal = [CurrentUpdate { fence: sealed, value: 0xFFFF_FFFF, current: None }];
    kmd.native_fences().unwrap().update_current_values(&seal, UpdateCurrentFlags::ALWAYS_SIGNALED).unwrap();
    port.writes();
    let moved = |number| FenceResidency {
        fence: OsGlobalFence(number),
        current: PhysicalAddress { segment: SegmentId(1), offset: 0 },
        monitored: PhysicalAddress { segment: SegmentId(1), offset: 4096 },
        current_word: WordAddress(u64::MAX),
        monitored_word: WordAddress(u64::MAX),
    };
    kmd.words_move(&[moved(6)]).unwrap();
    assert_eq!(port.writes(), [], "the CMP has nothing of it");
    kmd.words_move(&[moved(6), moved(5)]).unwrap();
    let writes = port.writes();
    assert_eq!(writes.iter().filter(|write| **write == (register::CMP_COMMAND, cmp::UNSEAL)).count(), 1);
    assert!(writes.contains(&(register::CMP_ARGUMENT_0, 0x5000)), "at the old place");
    kmd.words_move(&[moved(5)]).unwrap();
    assert_eq!(port.writes(), [], "it is a word like any other");
    assert!(matches!(kmd.words_move(&[moved(7)]), Err(PagingStatus::Fatal(_))), "no such fence");
    for fence in [sealed, plain] {
        kmd.native_fences().unwrap().destroy(fence);
    }
}
