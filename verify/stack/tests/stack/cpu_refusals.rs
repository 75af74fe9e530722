//! Refused calls about locks, and the remains of the lock of WDDM 1.

use d3dkmt::{
    AllocationRequest, CreateAllocationFlags, DestroyFlags, LockFlags, MakeResidentFlags, Resource, ResourceRequest,
};
use ddi::PowerState;
use kmt_calls::{Call, LockCall};
use kmt_link::Link;
use softgpu_spec::private_data::{self, Kind};
use softgpu_umd::SurfaceKind;
use wddm_types::NtStatus;

use crate::cpu_access::{BYTES, lockable};
use stack::world::{MIB, VIRTUAL, client, host};

// spec: memory §6.3
// seed: M45
// seed: U20
#[test]
fn lock2_takes_no_flags() {
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let surface = lockable(&client, SurfaceKind::LocalThenSystem, false);
    let (device, allocation) = (client.gpu.device().handle(), surface.allocation().handle());
    for bit in 0..32 {
        let call = Call::Lock(LockCall::Lock2 { device, allocation, flags: 1 << bit });
        assert_eq!(client.link.call(call).expect_err("reserved").status, NtStatus::INVALID_PARAMETER, "bit {bit}");
    }
    let unlock = client.link.call(Call::Lock(LockCall::Unlock2 { device, allocation }));
    assert_eq!(unlock.expect_err("nothing was locked").status, NtStatus::INVALID_PARAMETER);
}

// spec: memory §6.3, memory §9.3
// seed: U18
#[test]
fn without_a_way_out_a_lock_fails_and_changes_nothing() {
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let local = client.pinned(SurfaceKind::Local, BYTES);
    let (device, allocation) = (client.gpu.device().handle(), local.allocation().handle());
    let refused = client.link.call(Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 })).expect_err("row 9");
    assert_eq!(refused.status, NtStatus::GRAPHICS_CANT_LOCK_MEMORY);
    let unlocked =
        client.link.call(Call::Lock(LockCall::Unlock2 { device, allocation })).expect_err("it is not locked");
    assert_eq!(unlocked.status, NtStatus::INVALID_PARAMETER);
}

// spec: memory §8.6, memory §6.3
#[test]
fn a_lost_device_unlocks_and_does_not_lock() {
    let host = host(VIRTUAL, 4 * MIB);
    let mut client = client(&host);
    let surface = lockable(&client, SurfaceKind::LocalThenSystem, false);
    let (device, allocation) = (client.gpu.device().handle(), surface.allocation().handle());
    client.link.call(Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 })).expect("a lock");
    let mut wild = softgpu_umd::Commands::new();
    wild.fill(wddm_types::GpuVa(0x7fff_0000_0000), 4096, 1);
    let value = client.stream.submit(&client.gpu, &[], &wild).expect("a submission");
    assert!(client.stream.wait(&client.gpu, value).is_err(), "it faults");
    let refused = client.link.call(Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 })).expect_err("lost");
    assert_eq!(refused.status, NtStatus::DEVICE_REMOVED);
    client.link.call(Call::Lock(LockCall::Unlock2 { device, allocation })).expect("allowed");
    assert_eq!(
        client.link.call(Call::Lock(LockCall::Unlock2 { device, allocation })).expect_err("once").status,
        NtStatus::INVALID_PARAMETER
    );
}

// spec: memory §6.5
// seed: U08
// seed: U10
// seed: U11
#[test]
fn the_legacy_lock_of_a_wddm_2_driver() {
    use LockFlags as F;
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let surface = lockable(&client, SurfaceKind::LocalThenSystem, false);
    for flags in [F::READ_ONLY, F::WRITE_ONLY, F::DONOT_WAIT, F::IGNORE_SYNC, F::DONOT_EVICT, F::IGNORE_READ_SYNC] {
        let lock = surface.allocation().lock_legacy(Vec::new(), flags | F::LOCK_ENTIRE).expect("as Lock2");
        lock.write_words(0, &[3]);
        assert_eq!(surface.lock().expect("nested").read_word(0), 3);
    }
    surface.allocation().lock_legacy(vec![0, 3], F::empty()).expect("a page list");
    let gone = [F::DISCARD, F::NO_EXISTING_REFERENCE, F::ACQUIRE_APERTURE, F::USE_ALTERNATE_VA];
    let wrong = [F::from_bits_retain(1 << 11), F::from_bits_retain(1 << 31), F::READ_ONLY | F::WRITE_ONLY];
    for flags in gone.into_iter().chain(wrong) {
        let refused = surface.allocation().lock_legacy(Vec::new(), flags | F::LOCK_ENTIRE).err().expect("refused");
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{flags:?}");
    }
    for (pages, flags) in [(vec![], F::empty()), (vec![0], F::LOCK_ENTIRE), (vec![16], F::empty())] {
        let refused = surface.allocation().lock_legacy(pages, flags).err().expect("refused");
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER);
    }
    // A lock with DonotEvict is refused where the content would have to move.
    let cached = lockable(&client, SurfaceKind::LocalThenSystem, true);
    let refused = cached.allocation().lock_legacy(Vec::new(), F::LOCK_ENTIRE | F::DONOT_EVICT).err().expect("refused");
    assert_eq!(refused.status, NtStatus::GRAPHICS_CANT_LOCK_MEMORY);
    let (device, allocation) = (client.gpu.device().handle(), surface.allocation().handle());
    let call = Call::Lock(LockCall::Unlock { device, allocations: vec![allocation] });
    assert_eq!(client.link.call(call).expect_err("not locked").status, NtStatus::INVALID_PARAMETER);
}

// spec: memory §6.5, memory §9.3
#[test]
fn a_list_of_unlocks_is_refused_whole_when_two_handles_name_one_lock() {
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let data = private_data::AllocationRequest {
        kind: Kind::System,
        cpu_visible: true,
        cached: false,
        accessed_physically: false,
        size_bytes: 4096,
    };
    let request = AllocationRequest { private_data: data.encode().to_vec(), ..AllocationRequest::default() };
    let shared = CreateAllocationFlags::CREATE_RESOURCE | CreateAllocationFlags::CREATE_SHARED;
    let request_of = ResourceRequest { flags: shared, ..ResourceRequest::default() };
    let made = Resource::create(client.gpu.device(), vec![request], request_of).unwrap();
    let opened = Resource::open(client.gpu.device(), made.global_share()).unwrap();
    let device = client.gpu.device().handle();
    let (first, second) = (made.allocations()[0].handle(), opened.allocations()[0].handle());
    let lock = || client.link.call(Call::Lock(LockCall::Lock2 { device, allocation: first, flags: 0 }));
    let unlock = |allocations| client.link.call(Call::Lock(LockCall::Unlock { device, allocations }));
    lock().expect("its creator locks it");
    let refused = unlock(vec![first, second]).expect_err("it was locked once");
    assert_eq!(refused.status, NtStatus::INVALID_PARAMETER);
    unlock(vec![first]).expect("the refusal has ended nothing");
    lock().expect("once");
    lock().expect("twice");
    unlock(vec![first, second]).expect("two locks end");
    assert_eq!(unlock(vec![first]).expect_err("none is left").status, NtStatus::INVALID_PARAMETER);
}

// spec: memory §10.1 row 27, memory §2.7
#[test]
fn the_locks_of_a_process_that_destroys_what_others_still_have_are_over() {
    let host = host(VIRTUAL, 4 * MIB);
    let (ours, theirs) = (client(&host), client(&host));
    let data = private_data::AllocationRequest {
        kind: Kind::LocalThenSystem,
        cpu_visible: true,
        cached: false,
        accessed_physically: false,
        size_bytes: 4096,
    };
    let request = AllocationRequest { private_data: data.encode().to_vec(), ..AllocationRequest::default() };
    let shared = CreateAllocationFlags::CREATE_RESOURCE | CreateAllocationFlags::CREATE_SHARED;
    let request_of = ResourceRequest { flags: shared, ..ResourceRequest::default() };
    let made = Resource::create(ours.gpu.device(), vec![request], request_of).expect("a resource");
    let opened = Resource::open(theirs.gpu.device(), made.global_share()).expect("it is shared");
    let list = vec![opened.allocations()[0].handle()];
    theirs.gpu.paging().make_resident(list, MakeResidentFlags::empty()).expect("room");
    let (device, allocation) = (ours.gpu.device().handle(), made.allocations()[0].handle());
    ours.link.call(Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 })).expect("its creator locks it");
    made.destroy(DestroyFlags::empty()).expect("it is its own");
    // A kernel that counted the destroyed lock would want a mapping that is gone when it moves the content.
    host.power_transition(PowerState::Hibernate).expect("unlocked content moves");
    host.power_transition(PowerState::On).expect("it wakes");
    host.check_invariants().expect("in order");
}
