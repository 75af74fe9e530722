//! Shared monitored fences: one word, seen in each process that has it open.

use d3dkmt::{FenceFlags as F, NtHandle, OpenSyncObjectRequest, SyncObjectAccess as A};
use kmt_calls::{Call, SyncCall, SyncObjectKind, SyncObjectRequest};

use super::*;

const SHARED: F = F::SHARED.union(F::NT_SECURITY_SHARING);

fn shared(device: &Device, flags: F, initial: u64) -> Fence {
    device.create_monitored_fence(SHARED | flags, initial).expect("a shareable fence")
}

fn by(name: &NtHandle) -> OpenSyncObjectRequest {
    OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() }
}

#[test]
fn a_name_brings_the_same_word_into_another_process() {
    // spec: sync §2.2, sync §1.5, sync §3.3
    for profile in ADAPTERS {
        for flags in [F::empty(), F::NO_GPU_ACCESS] {
            let (host, gpu) = world(profile, VIRTUAL);
            let (other, _link) = open(&host);
            let mine = shared(gpu.device(), flags, 3);
            let name = mine.share(A::ALL_ACCESS).expect("a name");
            let theirs = other.device().open_sync_object(by(&name)).expect("it opens");
            assert_eq!(
                (theirs.current(), theirs.bits(), theirs.caching()),
                (3, mine.bits(), mine.caching()),
                "{profile}"
            );
            assert_eq!(theirs.address(), mine.address(), "{profile}: one word");
            let reached = flags.is_empty() && profile != "wddm1-banks";
            assert_eq!([&mine, &theirs].map(|fence| fence.current_va() != GpuVa::NULL), [reached; 2], "{profile}");
            // It shares its page with nothing of either process.
            for unrelated in [monitored(gpu.device()), shared(gpu.device(), flags, 0), monitored(other.device())] {
                assert_ne!(unrelated.address().0 / 4096, mine.address().0 / 4096, "{profile}");
            }
            let (here, there) = (event(&gpu), event(&other));
            gpu.device().wait_async(&[(&mine, 7)], &here, WaitFlags::empty()).unwrap();
            other.device().wait_async(&[(&theirs, 5)], &there, WaitFlags::empty()).unwrap();
            gpu.device().signal(&mine, 5).unwrap();
            assert!(there.take().unwrap() && !here.take().unwrap(), "{profile}: 5 is not 7");
            other.device().signal(&theirs, 7).unwrap();
            assert!(here.take().unwrap(), "{profile}");
            assert_eq!((mine.current(), theirs.current()), (7, 7), "{profile}");
            host.check_invariants().unwrap();
        }
    }
}

/// The affinity says which linked adapters map the word: where no GPU accesses it, the kernel judges it neither of the creator nor of an open.
#[test]
fn a_fence_without_gpu_access_takes_any_affinity() {
    // spec: sync §2.1, sync §2.2
    let (host, gpu) = world("discrete-4k", VIRTUAL);
    let (other, link) = open(&host);
    let kind = SyncObjectKind::MonitoredFence { initial_value: 4, engine_affinity: 0xffff_fffe };
    let request = SyncObjectRequest { kind, flags: SHARED | F::NO_GPU_ACCESS };
    let create = Call::Sync(SyncCall::CreateSynchronizationObject2 { device: other.device().handle(), request });
    link.call(create).expect("it is accepted");
    for (flags, accepted) in [(F::NO_GPU_ACCESS, true), (F::empty(), false)] {
        let name = shared(gpu.device(), flags, 4).share(A::ALL_ACCESS).expect("a name");
        let opened = other.device().open_sync_object(OpenSyncObjectRequest { engine_affinity: 2, ..by(&name) });
        let answer = opened.map(|fence| fence.current()).map_err(|refusal| refusal.status);
        assert_eq!(answer, if accepted { Ok(4) } else { Err(NtStatus::INVALID_PARAMETER) }, "{flags:?}");
    }
}

#[test]
fn an_engine_of_one_process_lets_a_context_of_another_go_on() {
    // spec: sync §3.7, sync §3.8, sync §1.2
    for profile in ADDRESSED {
        let (host, gpu) = world(profile, VIRTUAL);
        let (other, _link) = open(&host);
        let mine = shared(gpu.device(), F::empty(), 0);
        let name = mine.share(A::ALL_ACCESS).expect("a name");
        let theirs = other.device().open_sync_object(by(&name)).expect("it opens");
        let waits = VirtualContext::create(other.device(), NODE, Vec::new()).unwrap();
        let done = monitored(other.device());
        waits.wait(&theirs, 4).unwrap();
        waits.signal(&done, 1).unwrap();
        drain(&host);
        assert_eq!(done.current(), 0, "{profile}");
        let signals = VirtualContext::create(gpu.device(), NODE, Vec::new()).unwrap();
        let mut commands = Commands::new();
        if profile == "basic-engines" {
            commands.store(mine.current_va(), 4);
        } else {
            commands.signal_monitored(mine.current_va(), 4);
        }
        Buffer::new(&gpu, &commands).run(&signals);
        other.device().wait(&[(&done, 1)]).unwrap();
        assert_eq!(theirs.current(), 4, "{profile}");
    }
}

#[test]
fn who_opens_it_may_what_the_name_and_his_flags_allow() {
    // spec: sync §2.2, sync §2.3, sync §3.3, sync §5
    let (host, gpu) = world("wddm2-packets", VIRTUAL);
    let (other, _link) = open(&host);
    let mine = shared(gpu.device(), F::empty(), 0);
    let refused = |result: Result<Fence, d3dkmt::Refusal>| result.err().expect("a refusal").status;
    let name = mine.share(A::ALL_ACCESS).expect("a name");
    let open = |flags| other.device().open_sync_object(OpenSyncObjectRequest { flags, ..by(&name) });
    assert_eq!(refused(open(F::NO_SIGNAL | F::NO_WAIT)), NtStatus::INVALID_PARAMETER);
    assert_eq!(refused(open(F::NO_GPU_ACCESS)), NtStatus::INVALID_PARAMETER, "that is the object's");
    let only_waits = open(F::NO_SIGNAL).expect("it opens");
    assert_eq!(other.device().signal(&only_waits, 1).unwrap_err().status, NtStatus::ACCESS_DENIED);
    let only_signals = open(F::NO_WAIT).expect("beside the other");
    assert_eq!(other.device().wait(&[(&only_signals, 1)]).unwrap_err().status, NtStatus::ACCESS_DENIED);
    assert_eq!(only_waits.current_va(), only_signals.current_va(), "a process sees it at one address");
    other.device().signal(&only_signals, 1).unwrap();
    assert_eq!(mine.current(), 1);
    let without_signal = mine.share(A::WAIT | A::STANDARD_RIGHTS_READ).expect("a lesser name");
    let lesser = other.device().open_sync_object(by(&without_signal)).expect("it opens");
    assert_eq!(other.device().signal(&lesser, 2).unwrap_err().status, NtStatus::ACCESS_DENIED);
    let unreadable = mine.share(A::WAIT).expect("a name of little use");
    assert_eq!(refused(other.device().open_sync_object(by(&unreadable))), NtStatus::ACCESS_DENIED);
    let unshared = monitored(gpu.device()).share(A::ALL_ACCESS).err().expect("it has no NtSecuritySharing");
    assert_eq!(unshared.status, NtStatus::INVALID_PARAMETER);
    // The newer call is for native fences.
    let (native_too, _) = traced("discrete-4k", VIRTUAL);
    let (gpu, _link) = super::open(&native_too);
    let name = shared(gpu.device(), F::empty(), 0).share(A::ALL_ACCESS).expect("a name");
    let before = native_too.state_digest();
    assert_eq!(refused(gpu.device().open_native_fence(by(&name))), NtStatus::INVALID_PARAMETER);
    let differences = before.differences(&native_too.state_digest());
    // Pages that the creator no longer sees are on their way back.
    let told = |line: &&String| ["fence", "handles", "device"].iter().any(|object| line.contains(object));
    assert_eq!(differences.iter().filter(told).count(), 0, "{differences:?}");
    host.check_invariants().unwrap();
}

#[test]
fn it_lives_as_long_as_anybody_has_it_or_a_name_of_it() {
    // spec: sync §3.4, sync §2.3 bit 10, sync §6 B8
    for only_on_destroy in [false, true] {
        let (host, gpu) = world("wddm2-packets", VIRTUAL);
        let (other, _link) = open(&host);
        let flags = if only_on_destroy { F::UNWAIT_CPU_WAITERS_ONLY_ON_DESTROY } else { F::empty() };
        let mine = shared(gpu.device(), flags, 2);
        let name = mine.share(A::ALL_ACCESS).expect("a name");
        let theirs = other.device().open_sync_object(by(&name)).expect("it opens");
        let waits = event(&other);
        other.device().wait_async(&[(&theirs, 9)], &waits, WaitFlags::empty()).unwrap();
        drop(mine);
        assert_eq!(waits.take().unwrap(), !only_on_destroy, "by default a waiter goes on with any of its opens");
        other.device().signal(&theirs, 4).unwrap();
        drop(theirs);
        assert!(only_on_destroy == waits.take().unwrap(), "no wait outlives the last open");
        host.check_invariants().unwrap();
        let again = other.device().open_sync_object(by(&name)).expect("the name has kept it");
        assert_eq!(again.current(), 4, "with its value");
        drop(name);
        other.device().signal(&again, 6).unwrap();
        assert_eq!(again.current(), 6);
        drop(again);
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_fence_of_32_bits_is_one_for_all() {
    // spec: sync §1.6
    let (host, gpu) = world("atomics-32", VIRTUAL);
    let (other, _link) = open(&host);
    let mine = shared(gpu.device(), F::empty(), 0xffff_fff0);
    let theirs = other.device().open_sync_object(by(&mine.share(A::ALL_ACCESS).unwrap())).expect("it opens");
    let event = event(&gpu);
    gpu.device().wait_async(&[(&mine, 0x1_0000_0008)], &event, WaitFlags::empty()).unwrap();
    let context = VirtualContext::create(other.device(), NODE, Vec::new()).unwrap();
    let mut commands = Commands::new();
    commands.signal_monitored(theirs.current_va(), 0x1_0000_0008);
    Buffer::new(&other, &commands).run(&context);
    drain(&host);
    assert!(event.take().unwrap(), "past the wrap");
    assert_eq!(mine.current(), 8, "the word's 32 bits");
    let back = gpu.device().signal(&mine, 0xffff_ffff).unwrap_err();
    assert_eq!(back.status, NtStatus::INVALID_PARAMETER, "it is lower than the full value");
}
