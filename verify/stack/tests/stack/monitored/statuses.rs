//! The refusals of these calls, and their statuses (sync §5). No refused call changes anything.

use std::sync::Arc;

use dxgk_host::{Host, ProcessLink};
use kmt_calls::{
    AdapterCall, Call, ContextFlags, DeviceCall, EventCall, FenceFlags, PacketCall, Reply, SignalFlags, SyncCall,
    SyncObjectKind, SyncObjectRequest, WaitFlags,
};
use kmt_link::Link;
use wddm_types::{NodeId, NtStatus, RawHandle};

use super::{ADAPTERS, traced};
use stack::world::VIRTUAL;

const INVALID: NtStatus = NtStatus::INVALID_PARAMETER;
const NONE: RawHandle = RawHandle::NONE;

/// A process that makes calls by hand.
struct Raw {
    link: Arc<ProcessLink>,
    device: RawHandle,
}

impl Raw {
    fn new(host: &Arc<Host>) -> Raw {
        let link = ProcessLink::new(Arc::clone(host));
        let adapter = handle(&link, Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: host.luid() }));
        let device = handle(&link, Call::Device(DeviceCall::CreateDevice { adapter }));
        Raw { link, device }
    }

    fn status(&self, call: Call) -> NtStatus {
        self.link.call(call).map_or_else(|refusal| refusal.status, |_| NtStatus::SUCCESS)
    }

    fn create(&self, kind: SyncObjectKind, flags: FenceFlags) -> Call {
        Call::Sync(SyncCall::CreateSynchronizationObject2 {
            device: self.device,
            request: SyncObjectRequest { kind, flags },
        })
    }

    fn fence(&self, flags: FenceFlags) -> RawHandle {
        handle(&self.link, self.create(monitored(0), flags))
    }

    /// A handle of a closed fence, which names no object.
    fn closed_fence(&self) -> RawHandle {
        let fence = self.fence(FenceFlags::empty());
        self.link.call(Call::Sync(SyncCall::DestroySynchronizationObject { fence })).expect("it is closed");
        fence
    }

    fn context(&self) -> RawHandle {
        let (node, flags) = (NodeId(0), ContextFlags::empty());
        let call = Call::Packet(PacketCall::CreateContext {
            device: self.device,
            node,
            engine_affinity: 1,
            flags,
            private_data: Vec::new(),
        });
        handle(&self.link, call)
    }
}

fn handle(link: &ProcessLink, call: Call) -> RawHandle {
    match link.call(call) {
        Ok(Reply::Handle(handle)) => handle,
        Ok(Reply::MonitoredFence(created)) => created.fence,
        Ok(Reply::SyncObject(created)) => created.object,
        Ok(Reply::Context(created)) => created.context,
        other => panic!("{other:?}"),
    }
}

fn monitored(engine_affinity: u32) -> SyncObjectKind {
    SyncObjectKind::MonitoredFence { initial_value: 0, engine_affinity }
}

/// Makes each call and looks that it is refused so, and that nothing is different afterwards.
fn refused(host: &Arc<Host>, raw: &Raw, rows: Vec<(&str, Call, NtStatus)>) {
    for (what, call, status) in rows {
        let before = host.state_digest();
        assert_eq!(raw.status(call.clone()), status, "{what}: {call:?}");
        let changed = before.differences(&host.state_digest());
        assert!(changed.is_empty(), "{what}: {changed:?}");
    }
    host.check_invariants().unwrap();
}

#[test]
fn what_is_not_created() {
    // spec: sync §5, sync §1.1, sync §2.2, sync §2.3, sync §6 A10
    // seed: C02, C03
    use FenceFlags as F;
    for profile in ADAPTERS {
        let (host, _) = traced(profile, VIRTUAL);
        let raw = Raw::new(&host);
        let none = F::empty();
        let shared = F::SHARED | F::NT_SECURITY_SHARING;
        let periodic = SyncObjectKind::PeriodicMonitoredFence { target: 9, time_100ns: 1, engine_affinity: 0 };
        let shows = dxgk_host::Profile::named(profile).unwrap().displays.count > 0;
        let mutex = SyncObjectKind::MutexObject { owned: false };
        let semaphore = |max_count, initial_count| SyncObjectKind::Semaphore { max_count, initial_count };
        let rows = vec![
            ("type 0", raw.create(SyncObjectKind::Other(0), none), INVALID),
            ("a native fence", raw.create(SyncObjectKind::Other(7), none), INVALID),
            ("the limit", raw.create(SyncObjectKind::Other(8), none), INVALID),
            ("no type at all", raw.create(SyncObjectKind::Other(u32::MAX), none), INVALID),
            ("no VidPn target", raw.create(periodic, none), if shows { INVALID } else { NtStatus::NOT_SUPPORTED }),
            ("NoSignal and NoWait", raw.create(monitored(0), F::NO_SIGNAL | F::NO_WAIT), INVALID),
            ("Shared by name", raw.create(monitored(0), F::SHARED), INVALID),
            ("NtSecuritySharing alone", raw.create(monitored(0), F::NT_SECURITY_SHARING), INVALID),
            ("SignalByKmd of a fence", raw.create(monitored(0), F::SIGNAL_BY_KMD), INVALID),
            ("bit 9", raw.create(monitored(0), F::from_bits_retain(1 << 9)), INVALID),
            ("bit 31", raw.create(monitored(0), F::from_bits_retain(1 << 31)), INVALID),
            ("an adapter that is not linked", raw.create(monitored(2), none), INVALID),
            ("an adapter that is not linked, shared", raw.create(monitored(u32::MAX), shared), INVALID),
            ("NoWait of a mutex", raw.create(mutex, F::NO_WAIT), INVALID),
            ("a mutex of several adapters", raw.create(mutex, shared | F::CROSS_ADAPTER), INVALID),
            ("a semaphore that begins above", raw.create(semaphore(1, 2), none), INVALID),
            (
                "an event that is none",
                raw.create(SyncObjectKind::CpuNotification { event: raw.device }, none),
                NtStatus::INVALID_HANDLE,
            ),
        ];
        refused(&host, &raw, rows);
    }
}

#[test]
fn what_the_cpu_may_not() {
    // spec: sync §5, sync §2.3, sync §2.4, sync §3.5, sync §3.6
    for profile in ADAPTERS {
        let (host, _) = traced(profile, VIRTUAL);
        let (raw, other) = (Raw::new(&host), Raw::new(&host));
        let fence = raw.fence(FenceFlags::empty());
        // Its number names nothing here.
        let foreign = (0..20).map(|_| other.fence(FenceFlags::empty())).fold(RawHandle::NONE, |_, last| last);
        let closed = raw.closed_fence();
        let (mute, deaf) = (raw.fence(FenceFlags::NO_SIGNAL), raw.fence(FenceFlags::NO_WAIT));
        let mutex = handle(&raw.link, raw.create(SyncObjectKind::MutexObject { owned: false }, FenceFlags::empty()));
        let event = handle(&raw.link, Call::Event(EventCall::Create { manual_reset: false }));
        let device = raw.device;
        let wait = |points: &[(RawHandle, u64)], async_event, bits| {
            Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
                device,
                points: points.to_vec(),
                async_event,
                flags: WaitFlags::from_bits_retain(bits),
            })
        };
        let signal = |points: &[(RawHandle, u64)], bits| {
            Call::Sync(SyncCall::SignalSynchronizationObjectFromCpu {
                device,
                points: points.to_vec(),
                flags: SignalFlags::from_bits_retain(bits),
            })
        };
        let rows = vec![
            ("no object", wait(&[], event, 0), INVALID),
            ("4,096 objects", wait(&[(fence, 0); 4_096], event, 0), INVALID),
            ("a flag that is none", wait(&[(fence, 1)], event, 2), INVALID),
            ("another process's fence", wait(&[(foreign, 1)], event, 0), INVALID),
            ("a fence that was closed", wait(&[(closed, 1)], event, 0), INVALID),
            ("a closed one among others", wait(&[(fence, 0), (closed, 0)], event, 1), INVALID),
            ("a device as a fence", wait(&[(device, 1)], event, 0), INVALID),
            ("a mutex", wait(&[(mutex, 0)], event, 0), INVALID),
            ("a fence as an event", wait(&[(fence, 1)], fence, 0), NtStatus::INVALID_HANDLE),
            ("an event that names nothing", wait(&[(fence, 1)], RawHandle(77), 0), NtStatus::INVALID_HANDLE),
            // With an event it is set, and that alone.
            ("NoWait", wait(&[(deaf, 1)], NONE, 0), NtStatus::ACCESS_DENIED),
            ("NoWait among others", wait(&[(fence, 0), (deaf, 0)], NONE, 1), NtStatus::ACCESS_DENIED),
            ("no object", signal(&[], 0), INVALID),
            ("SignalAtSubmission from the CPU", signal(&[(fence, 1)], 1), INVALID),
            ("EnqueueCpuEvent from the CPU", signal(&[(fence, 1)], 2), INVALID),
            ("a flag that is none", signal(&[(fence, 1)], 1 << 31), INVALID),
            ("a mutex", signal(&[(mutex, 0)], 0), INVALID),
            ("another process's fence", signal(&[(foreign, 1)], 0), INVALID),
            ("a fence that was closed", signal(&[(closed, 1)], 0), INVALID),
            ("a device as a fence", signal(&[(device, 1)], 0), INVALID),
            ("NoSignal", signal(&[(mute, 1)], 0), NtStatus::ACCESS_DENIED),
            ("one of two", signal(&[(fence, 1), (mute, 1)], 0), NtStatus::ACCESS_DENIED),
            (
                "an event to wait for",
                Call::Event(EventCall::Wait { event: fence, block: true }),
                NtStatus::INVALID_HANDLE,
            ),
            ("an event to set", Call::Event(EventCall::Set { event: NONE }), NtStatus::INVALID_HANDLE),
            ("an event to reset", Call::Event(EventCall::Reset { event: NONE }), NtStatus::INVALID_HANDLE),
            (
                "an event to close",
                Call::Event(EventCall::Close { event: RawHandle(3 << 20) }),
                NtStatus::INVALID_HANDLE,
            ),
            ("an event that is not set", Call::Event(EventCall::Wait { event, block: false }), NtStatus::TIMEOUT),
            ("an event as an object", Call::Sync(SyncCall::DestroySynchronizationObject { fence: event }), INVALID),
        ];
        refused(&host, &raw, rows);
        assert_eq!(raw.status(signal(&[(fence, 5)], 0)), NtStatus::SUCCESS);
        let back = vec![("backwards", signal(&[(fence, 4)], 0), INVALID)];
        refused(&host, &raw, back);
    }
}

#[test]
fn what_contexts_may_not() {
    // spec: sync §5, sync §2.4, sync §0
    for profile in ADAPTERS {
        let (host, _) = traced(profile, VIRTUAL);
        let (raw, other) = (Raw::new(&host), Raw::new(&host));
        let (context, foreign) =
            (raw.context(), (0..20).map(|_| other.context()).fold(RawHandle::NONE, |_, last| last));
        let fence = raw.fence(FenceFlags::empty());
        let theirs = (0..20).map(|_| other.fence(FenceFlags::empty())).fold(RawHandle::NONE, |_, last| last);
        let closed = raw.closed_fence();
        let (mute, deaf) = (raw.fence(FenceFlags::NO_SIGNAL), raw.fence(FenceFlags::NO_WAIT));
        let made = |kind| handle(&raw.link, raw.create(kind, FenceFlags::empty()));
        let (mutex, packet) =
            (made(SyncObjectKind::MutexObject { owned: false }), made(SyncObjectKind::Fence { value: 0 }));
        let event = handle(&raw.link, Call::Event(EventCall::Create { manual_reset: false }));
        let wait = |points: &[(RawHandle, u64)]| {
            Call::Sync(SyncCall::WaitForSynchronizationObjectFromGpu { context, points: points.to_vec() })
        };
        let signal = |contexts: &[RawHandle], points: &[(RawHandle, u64)], event, bits| {
            Call::Sync(SyncCall::SignalSynchronizationObjectFromGpu2 {
                contexts: contexts.to_vec(),
                points: points.to_vec(),
                event,
                flags: SignalFlags::from_bits_retain(bits),
            })
        };
        let legacy = |objects: &[RawHandle], broadcast: &[RawHandle]| {
            Call::Sync(SyncCall::SignalSynchronizationObject2 {
                context,
                objects: objects.to_vec(),
                broadcast: broadcast.to_vec(),
                fence_value: 0,
                event: NONE,
                flags: SignalFlags::empty(),
            })
        };
        let wait2 = |objects: &[RawHandle]| {
            Call::Sync(SyncCall::WaitForSynchronizationObject2 { context, objects: objects.to_vec(), fence_value: 0 })
        };
        let one = &[(fence, 1)][..];
        let rows = vec![
            ("no object", wait(&[]), INVALID),
            ("4,096 objects", wait(&[(fence, 0); 4_096]), INVALID),
            ("NoWait", wait(&[(deaf, 1)]), NtStatus::ACCESS_DENIED),
            ("another process's fence", wait(&[(theirs, 1)]), INVALID),
            ("a fence that was closed", wait(&[(closed, 1)]), INVALID),
            ("another process's fence", signal(&[context], &[(theirs, 1)], NONE, 0), INVALID),
            ("a fence that was closed", signal(&[context], &[(closed, 1)], NONE, 0), INVALID),
            ("a context as an object", signal(&[context], &[(context, 1)], NONE, 0), INVALID),
            ("two values for packet fences", wait(&[(packet, 1), (mutex, 2)]), INVALID),
            ("a context as an object", wait(&[(context, 1)]), INVALID),
            ("no context", signal(&[], one, NONE, 0), INVALID),
            ("65 contexts", signal(&[context; 65], one, NONE, 0), INVALID),
            ("a context twice", signal(&[context, context], one, NONE, 0), INVALID),
            ("another process's context", signal(&[context, foreign], one, NONE, 0), INVALID),
            ("no object", signal(&[context], &[], NONE, 0), INVALID),
            ("NoSignal", signal(&[context], &[(mute, 1)], NONE, 0), NtStatus::ACCESS_DENIED),
            ("reserved flags", signal(&[context], one, NONE, 8), INVALID),
            ("the internal flag", signal(&[context], one, NONE, 1 << 31), INVALID),
            ("an event and objects", signal(&[context], one, event, 2), INVALID),
            ("an event without its flag", signal(&[context], one, event, 0), INVALID),
            ("no event", signal(&[context], &[], NONE, 2), NtStatus::INVALID_HANDLE),
            ("no event but a fence", signal(&[context], &[], fence, 2), NtStatus::INVALID_HANDLE),
            ("a monitored fence by one value", legacy(&[fence], &[]), INVALID),
            ("no object", legacy(&[], &[]), INVALID),
            ("a context twice", legacy(&[mutex], &[context]), INVALID),
            ("a monitored fence by one value", wait2(&[fence]), INVALID),
            ("no object", wait2(&[]), INVALID),
            ("4,096 objects", wait2(&[mutex; 4_096]), INVALID),
        ];
        refused(&host, &raw, rows);
    }
}
