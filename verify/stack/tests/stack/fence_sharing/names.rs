//! Names of shared fences: the objects that they keep, the access that they give, and refusals.

use super::*;
use kmt_calls::ShareCall;

#[test]
fn a_name_keeps_the_value_while_no_process_has_the_fence_open() {
    // spec: sync §3.3, sync §3.4
    let (host, heard) = listened();
    let (a, b) = (gpu(&host), gpu(&host));
    let mine = shared(a.device(), FenceFlags::empty());
    let name = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    a.device().signal(&mine, 7).unwrap();
    lives(&heard);
    drop(mine);
    assert!(matches!(lives(&heard)[..], [FenceStep::Close(_), FenceStep::Destroy(_)]), "the driver has nothing of it");
    let theirs = b.device().open_native_fence(by(&name)).unwrap();
    assert!(matches!(lives(&heard)[..], [FenceStep::Create(_), FenceStep::Open(..)]), "and then has it anew");
    assert_eq!(theirs.current(), 7);
    b.device().signal(&theirs, 8).unwrap();
    let again = a.device().open_native_fence(by(&name)).unwrap();
    a.device().wait(&[(&again, 8)]).unwrap();
    let token = name.token();
    drop((name, theirs, again));
    let request = OpenSyncObjectRequest { handle: token, ..OpenSyncObjectRequest::default() };
    assert_eq!(status(a.device().open_native_fence(request)), NtStatus::INVALID_HANDLE);
    host.check_invariants().unwrap();
}

#[test]
fn a_name_gives_what_it_was_made_with_and_a_device_what_it_asked_for() {
    // spec: sync §2.2, sync §2.3, sync §5
    let host = host(VIRTUAL, 8 * MIB);
    let (a, b) = (client(&host), gpu(&host));
    let mine = shared(a.gpu.device(), FenceFlags::empty());
    let (read, wait, signal) =
        (SyncObjectAccess::STANDARD_RIGHTS_READ, SyncObjectAccess::WAIT, SyncObjectAccess::SIGNAL);
    let denied = NtStatus::ACCESS_DENIED;
    let nothing = mine.share(wait | signal).unwrap();
    assert_eq!(status(b.device().open_native_fence(by(&nothing))), denied, "without STANDARD_RIGHTS_READ");
    for (access, flags, may_wait, may_signal) in [
        (read | wait | signal, FenceFlags::empty(), true, true),
        (read | wait, FenceFlags::empty(), true, false),
        (read | signal, FenceFlags::empty(), false, true),
        (read, FenceFlags::empty(), false, false),
        (SyncObjectAccess::ALL_ACCESS, FenceFlags::NO_SIGNAL, true, false),
        (SyncObjectAccess::ALL_ACCESS, FenceFlags::NO_WAIT, false, true),
    ] {
        let name = mine.share(access).unwrap();
        let theirs = b.device().open_native_fence(OpenSyncObjectRequest { flags, ..by(&name) }).unwrap();
        let value = mine.current() + 1;
        let signalled = b.device().signal(&theirs, value);
        assert_eq!(
            signalled.as_ref().err().map(|refusal| refusal.status),
            (!may_signal).then_some(denied),
            "{access:?}"
        );
        let waited = b.device().wait(&[(&theirs, 0)]);
        assert_eq!(waited.as_ref().err().map(|refusal| refusal.status), (!may_wait).then_some(denied), "{access:?}");
        // A process cannot share more access than it has.
        assert_eq!(theirs.share(SyncObjectAccess::ALL_ACCESS).is_ok(), access == SyncObjectAccess::ALL_ACCESS);
        assert!(theirs.share(access).is_ok());
        // The creator's own is as it was.
        a.gpu.device().signal(&mine, value + 1).unwrap();
        a.gpu.device().wait(&[(&mine, value)]).unwrap();
    }
}

#[test]
fn wrong_input_is_refused_and_changes_nothing() {
    // spec: sync §3.2, sync §3.3, sync §2.2, sync §5, memory §9.3
    let host = host(VIRTUAL, 8 * MIB);
    let (a, b) = (client(&host), client(&host));
    let mine = shared(a.gpu.device(), FenceFlags::empty());
    let plain = a.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap();
    let name = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    let (handle, device, all) = (name.token(), b.gpu.device().handle(), SyncObjectAccess::ALL_ACCESS);
    let (invalid, not_a_handle) = (NtStatus::INVALID_PARAMETER, NtStatus::INVALID_HANDLE);
    let open = |request| Call::Sync(SyncCall::OpenNativeFenceFromNtHandle { device, request });
    let of = |flags| OpenSyncObjectRequest { handle, flags, ..Default::default() };
    let private_data = FencePrivateData([1; 64]);
    let share = |objects, access| Call::Share(ShareCall::ShareObjects { objects, access, name: None });
    let foreign = mine.handle();
    while host.step() {}
    let cases = [
        (open(OpenSyncObjectRequest { handle: 0, ..of(FenceFlags::empty()) }), not_a_handle),
        (open(OpenSyncObjectRequest { handle: handle ^ 1, ..of(FenceFlags::empty()) }), not_a_handle),
        (open(OpenSyncObjectRequest { handle: u64::from(foreign.0), ..of(FenceFlags::empty()) }), not_a_handle),
        (open(OpenSyncObjectRequest { engine_affinity: 2, ..of(FenceFlags::empty()) }), invalid),
        (open(of(FenceFlags::NO_SIGNAL | FenceFlags::NO_WAIT)), invalid),
        (open(of(FenceFlags::SHARED)), invalid),
        (open(of(SHARED)), invalid),
        (open(of(FenceFlags::CROSS_ADAPTER)), invalid),
        (open(of(FenceFlags::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY)), invalid),
        (open(of(FenceFlags::from_bits_retain(1 << 31))), invalid),
        (
            Call::Sync(SyncCall::OpenSyncObjectFromNtHandle2 {
                device,
                request: OpenSyncObjectRequest { private_data, ..of(FenceFlags::empty()) },
            }),
            invalid,
        ),
        (Call::Share(ShareCall::CloseNtHandle { handle }), not_a_handle),
        (share(vec![foreign], all), invalid),
        (share(vec![], all), invalid),
        (share(vec![device; 4], all), invalid),
        (share(vec![device; 2], all), invalid),
        (share(vec![device; 3], all), invalid),
    ];
    for (call, expected) in cases {
        let before = host.state_digest();
        let refused = b.link.call(call.clone()).expect_err("wrong input");
        assert_eq!(refused.status, expected, "{call:?}: {refused}");
        assert_eq!(before.differences(&host.state_digest()), Vec::<String>::new(), "{call:?}");
    }
    let share = |fence: &Fence, access| status(fence.share(access));
    assert_eq!(share(&plain, all), invalid, "created without NtSecuritySharing");
    assert_eq!(share(&mine, SyncObjectAccess::from_bits_retain(1 << 3)), invalid, "no such access");
    let affinity = NativeFenceRequest { engine_affinity: 2, ..NativeFenceRequest::default() };
    assert_eq!(status(a.gpu.device().create_native_fence(affinity)), invalid);
    let paging = a.gpu.paging().fence();
    assert_eq!(share(paging, all), invalid, "a fence of a queue");
    host.check_invariants().unwrap();
}

#[test]
fn the_older_call_opens_it_too_and_tells_no_monitored_value() {
    // spec: sync §6 A11, sync §2.2
    let host = host(VIRTUAL, 8 * MIB);
    let (mut a, b) = (client(&host), gpu(&host));
    let mine = shared(a.gpu.device(), FenceFlags::empty());
    let name = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    let theirs = b.device().open_sync_object(by(&name)).unwrap();
    assert!(theirs.monitored_va().is_null() && !theirs.current_va().is_null());
    a.run(|commands| {
        commands.signal(&mine, 3);
    });
    b.device().wait(&[(&theirs, 3)]).unwrap();
}
