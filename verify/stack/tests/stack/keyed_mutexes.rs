//! Keyed mutexes: keys, times, owners that go, global handles, the runtime's data.

mod sets;

use std::sync::Arc;

use dxgk_host::{Host, Pending, ProcessLink};
use kmt_calls::{Call, KeyedMutexCall, KeyedMutexFlags, Refusal, Reply, SyncCall};
use kmt_link::Link;
use wddm_types::{NtStatus, RawHandle};

use stack::world::{MIB, VIRTUAL, host};

const INVALID: NtStatus = NtStatus::INVALID_PARAMETER;
const ABANDONED: NtStatus = NtStatus::ABANDONED;
const TIMEOUT: NtStatus = NtStatus::TIMEOUT;

/// A process that makes calls by hand.
struct Process {
    host: Arc<Host>,
    link: Arc<ProcessLink>,
}

type Acquired = Result<u64, NtStatus>;

impl Process {
    fn new(host: &Arc<Host>) -> Process {
        Process { host: Arc::clone(host), link: ProcessLink::new(Arc::clone(host)) }
    }

    fn call(&self, call: KeyedMutexCall) -> Result<Reply, NtStatus> {
        self.link.call(Call::KeyedMutex(call)).map_err(|refusal| refusal.status)
    }

    fn create_with(&self, flags: KeyedMutexFlags, data: &[u8]) -> (RawHandle, RawHandle) {
        match self.call(KeyedMutexCall::Create { initial_key: 3, flags, runtime_data: data.to_vec() }) {
            Ok(Reply::KeyedMutex(created)) => (created.mutex, created.global_share),
            other => panic!("{other:?}"),
        }
    }

    /// One that begins with key 3: its handle, and its global handle.
    fn create(&self) -> (RawHandle, RawHandle) {
        self.create_with(KeyedMutexFlags::empty(), &[])
    }

    fn open_with(&self, shared: RawHandle, runtime_data: &[u8]) -> Result<RawHandle, NtStatus> {
        match self.call(KeyedMutexCall::Open { shared, runtime_data: runtime_data.to_vec() })? {
            Reply::Handle(mutex) => Ok(mutex),
            other => panic!("{other:?}"),
        }
    }

    /// Acquires by this key, and tells the runtime's data, of which there are as many as `room` says, or 4.
    fn data(&self, mutex: RawHandle, key: u64) -> Vec<u8> {
        self.data_in(mutex, key, 4).expect("it is free")
    }

    fn data_in(&self, mutex: RawHandle, key: u64, runtime_data_bytes: u32) -> Result<Vec<u8>, NtStatus> {
        let acquire = KeyedMutexCall::Acquire { mutex, key, timeout_100ns: Some(0), runtime_data_bytes };
        match self.call(acquire)? {
            Reply::AcquiredKeyedMutex(acquired) => Ok(acquired.runtime_data),
            other => panic!("{other:?}"),
        }
    }

    fn open(&self, shared: RawHandle) -> RawHandle {
        self.open_with(shared, b"").expect("a process has it open")
    }

    fn destroy(&self, mutex: RawHandle) -> Result<Reply, NtStatus> {
        self.call(KeyedMutexCall::Destroy { mutex })
    }

    fn release(&self, mutex: RawHandle, key: u64, fence_value: u64) -> Result<Reply, NtStatus> {
        self.call(KeyedMutexCall::Release { mutex, key, fence_value, runtime_data: Vec::new() })
    }

    /// Acquires, if that is so at once.
    fn acquire(&self, mutex: RawHandle, key: u64) -> Acquired {
        acquired(self.link.call(wanted(mutex, key, Some(0))))
    }

    /// Begins to wait.
    fn wait(&self, mutex: RawHandle, key: u64, timeout_100ns: Option<u64>) -> Pending {
        let begun = self.host.begin_call(self.link.process(), wanted(mutex, key, timeout_100ns));
        begun.expect_err("it is not released with this key")
    }

    fn waited(&self, pending: Pending) -> Option<Acquired> {
        self.host.take_answer(pending).map(acquired)
    }
}

fn wanted(mutex: RawHandle, key: u64, timeout_100ns: Option<u64>) -> Call {
    Call::KeyedMutex(KeyedMutexCall::Acquire { mutex, key, timeout_100ns, runtime_data_bytes: 0 })
}

fn acquired(answer: Result<Reply, Refusal>) -> Acquired {
    match answer.map_err(|refusal| refusal.status)? {
        Reply::AcquiredKeyedMutex(acquired) => Ok(acquired.fence_value),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mutex_goes_from_key_to_key() {
    let host = host(VIRTUAL, MIB);
    let (ours, theirs) = (Process::new(&host), Process::new(&host));
    let (mine, global) = ours.create();
    let their = theirs.open(global);
    assert_eq!(theirs.acquire(their, 0), Err(TIMEOUT), "it begins with key 3");
    assert_eq!(ours.release(mine, 1, 1), Err(INVALID), "no process has it");
    assert_eq!(ours.acquire(mine, 3), Ok(0), "no fence value yet");
    assert_eq!(ours.acquire(mine, 3), Err(TIMEOUT), "its owner waits like every other process");
    assert_eq!(theirs.release(their, 1, 1), Err(INVALID), "it is another handle's");
    // The longest wait for the key ends; a wait for another key does not.
    let [first, second] = [theirs.wait(their, 5, None), theirs.wait(their, 5, None)];
    let other = theirs.wait(their, 6, None);
    ours.release(mine, 5, 41).unwrap();
    assert_eq!((theirs.waited(first), theirs.waited(second), theirs.waited(other)), (Some(Ok(41)), None, None));
    assert_eq!(ours.acquire(mine, 5), Err(TIMEOUT), "theirs");
    theirs.release(their, 6, 42).unwrap();
    assert_eq!((theirs.waited(other), theirs.waited(second)), (Some(Ok(42)), None));
    theirs.release(their, 5, 43).unwrap();
    assert_eq!(theirs.waited(second), Some(Ok(43)));
    // Any number is a key and a fence value; a key without a waiter waits for the next acquire.
    theirs.release(their, u64::MAX, u64::MAX).unwrap();
    host.check_invariants().unwrap();
    assert_eq!((ours.acquire(mine, 0), ours.acquire(mine, u64::MAX)), (Err(TIMEOUT), Ok(u64::MAX)));
    host.check_invariants().unwrap();
}

#[test]
fn a_wait_ends_at_its_time_and_takes_nothing() {
    let host = host(VIRTUAL, MIB);
    let ours = Process::new(&host);
    let (mine, _) = ours.create();
    ours.acquire(mine, 3).unwrap();
    let began = host.now_ns();
    let [later, sooner] = [ours.wait(mine, 9, Some(40_000)), ours.wait(mine, 9, Some(10_000))];
    let long = ours.wait(mine, 9, Some(u64::MAX));
    assert!(host.step(), "a time has come");
    let took = host.now_ns() - began;
    assert!((1_000_000..1_100_000).contains(&took), "{took} ns of 1 ms");
    assert_eq!((ours.waited(sooner), ours.waited(later)), (Some(Err(TIMEOUT)), None));
    assert!(host.step());
    assert_eq!(ours.waited(later), Some(Err(TIMEOUT)));
    let took = host.now_ns() - began;
    assert!((4_000_000..4_100_000).contains(&took), "{took} ns of 4 ms");
    // A wait that has timed out does not get the key that comes then.
    ours.release(mine, 9, 5).unwrap();
    assert_eq!(ours.waited(long), Some(Ok(5)));
    assert_eq!(ours.release(mine, 9, 6), Ok(Reply::Done));
    assert_eq!(ours.acquire(mine, 9), Ok(6));
    host.check_invariants().unwrap();
}

#[test]
fn a_blocking_acquire_waits_for_its_time_or_its_key() {
    let host = host(dxgk_host::Mode::Real, MIB);
    let (ours, theirs) = (Process::new(&host), Process::new(&host));
    let (mine, global) = ours.create();
    let their = theirs.open(global);
    ours.acquire(mine, 3).unwrap();
    let began = std::time::Instant::now();
    assert_eq!(acquired(theirs.link.call(wanted(their, 4, Some(200_000)))), Err(TIMEOUT));
    assert!(began.elapsed() >= std::time::Duration::from_millis(20), "{:?}", began.elapsed());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| acquired(theirs.link.call(wanted(their, 4, None))));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waits.is_finished());
        ours.release(mine, 4, 77).unwrap();
        assert_eq!(waits.join().expect("no panic"), Ok(77));
    });
}

#[test]
fn a_mutex_whose_owner_goes_is_abandoned() {
    let host = host(VIRTUAL, MIB);
    for dies in [false, true] {
        let (ours, theirs, third) = (Process::new(&host), Process::new(&host), Process::new(&host));
        let (mine, global) = ours.create();
        let [their, last] = [theirs.open(global), third.open(global)];
        theirs.acquire(their, 3).unwrap();
        let [waits, forever] = [ours.wait(mine, 8, Some(10_000_000)), third.wait(last, 9, None)];
        if dies {
            drop(theirs);
        } else {
            theirs.destroy(their).unwrap();
        }
        assert_eq!((ours.waited(waits), third.waited(forever)), (Some(Err(ABANDONED)), Some(Err(ABANDONED))));
        for key in [3, 8] {
            assert_eq!(ours.acquire(mine, key), Err(ABANDONED), "for ever");
        }
        assert_eq!(ours.release(mine, 3, 0), Err(ABANDONED));
        let again = third.open_with(global, b"").expect("it is there still");
        assert_eq!(third.acquire(again, 3), Err(ABANDONED));
        host.check_invariants().unwrap();
    }
}

#[test]
fn who_only_waits_or_has_released_abandons_nothing() {
    let host = host(VIRTUAL, MIB);
    let (ours, theirs) = (Process::new(&host), Process::new(&host));
    let (mine, global) = ours.create();
    let their = theirs.open(global);
    theirs.acquire(their, 3).unwrap();
    theirs.release(their, 4, 1).unwrap();
    let again = theirs.open(global);
    let ended = theirs.wait(their, 8, None);
    let with_time = theirs.wait(again, 8, Some(1_000_000));
    theirs.destroy(their).unwrap();
    assert_eq!(theirs.waited(ended), Some(Err(INVALID)), "its handle has gone");
    assert_eq!(theirs.waited(with_time), None);
    drop(theirs);
    host.check_invariants().unwrap();
    while host.step() {}
    assert_eq!(ours.acquire(mine, 4), Ok(1));
    assert_eq!(ours.release(mine, 8, 2), Ok(Reply::Done));
    assert_eq!(ours.acquire(mine, 8), Ok(2), "no wait for it is left");
    host.check_invariants().unwrap();
}

// spec: sync §2.2, memory §2.7
#[test]
fn a_global_handle_goes_with_the_last_open() {
    let host = host(VIRTUAL, MIB);
    let (ours, theirs) = (Process::new(&host), Process::new(&host));
    let (mine, global) = ours.create();
    assert_eq!((global.0 & 0x3f, mine.0 & 0x3f), (2, 0), "{global} {mine}");
    let their = theirs.open(global);
    for wrong in [mine, RawHandle::NONE, RawHandle(global.0 ^ 0x40), RawHandle(global.0 ^ 1 << 31)] {
        assert_eq!(theirs.open_with(wrong, b""), Err(INVALID), "{wrong}");
    }
    assert_eq!(theirs.destroy(global), Err(INVALID), "no process's local handle");
    let shared = Call::Sync(SyncCall::OpenSynchronizationObject { shared: global });
    assert_eq!(theirs.link.call(shared).unwrap_err().status, INVALID, "another kind of object");
    ours.destroy(mine).unwrap();
    assert_eq!(ours.destroy(mine), Err(INVALID), "once");
    let again = ours.open(global);
    theirs.destroy(their).unwrap();
    ours.destroy(again).unwrap();
    assert_eq!(theirs.open_with(global, b""), Err(INVALID), "the last has gone");
    let (_, by_nt_handle) = ours.create_with(KeyedMutexFlags::NT_SECURITY_SHARING, &[]);
    assert_eq!(by_nt_handle, RawHandle::NONE);
    host.check_invariants().unwrap();
}

#[test]
fn the_runtimes_data_keep_their_size() {
    let host = host(VIRTUAL, MIB);
    let ours = Process::new(&host);
    let (mine, global) = ours.create_with(KeyedMutexFlags::empty(), b"abcdef");
    // An opener may bring as many; they are not the mutex's, which has some.
    for brought in [&b"ghijkl"[..], b""] {
        ours.open_with(global, brought).unwrap();
        assert_eq!(ours.data_in(mine, 3, 6).unwrap(), b"abcdef");
        assert_eq!(ours.release(mine, 3, 0), Ok(Reply::Done));
    }
    for wrong in [1, 5, 7, 64, 65_537] {
        assert_eq!(ours.open_with(global, &vec![0; wrong as usize]), Err(INVALID), "{wrong} bytes");
        let acquire = KeyedMutexCall::Acquire { mutex: mine, key: 3, timeout_100ns: None, runtime_data_bytes: wrong };
        assert_eq!(ours.call(acquire), Err(INVALID), "{wrong} bytes");
    }
    let (bare, empty) = ours.create();
    assert_eq!(ours.data_in(bare, 3, 64).unwrap(), b"", "there are none");
    assert_eq!(ours.release(bare, 3, 0), Ok(Reply::Done));
    ours.open_with(empty, b"first").unwrap();
    ours.open_with(empty, b"other").unwrap();
    assert_eq!(ours.data_in(bare, 3, 5).unwrap(), b"first", "of the first open that brings some");
    // A release may bring others, as many as there were; the next is told them.
    let release = |runtime_data: &[u8], key| {
        let runtime_data = runtime_data.to_vec();
        ours.call(KeyedMutexCall::Release { mutex: mine, key, fence_value: 9, runtime_data })
    };
    ours.acquire(mine, 3).unwrap();
    assert_eq!((release(b"abcde", 3), release(b"abcdefg", 3)), (Err(INVALID), Err(INVALID)));
    assert_eq!(ours.acquire(mine, 3), Err(TIMEOUT), "it was not released");
    release(b"ghijkl", 3).unwrap();
    let acquire =
        || ours.call(KeyedMutexCall::Acquire { mutex: mine, key: 3, timeout_100ns: None, runtime_data_bytes: 6 });
    for _ in 0..2 {
        let Ok(Reply::AcquiredKeyedMutex(acquired)) = acquire() else { panic!("it is free") };
        assert_eq!((acquired.fence_value, &acquired.runtime_data[..]), (9, &b"ghijkl"[..]));
        release(b"", 3).unwrap();
    }
    let too_much =
        KeyedMutexCall::Create { initial_key: 0, flags: KeyedMutexFlags::empty(), runtime_data: vec![0; 65_537] };
    assert_eq!(ours.call(too_much), Err(INVALID));
    let flags = KeyedMutexFlags::from_bits_retain(2);
    assert_eq!(ours.call(KeyedMutexCall::Create { initial_key: 0, flags, runtime_data: Vec::new() }), Err(INVALID));
    host.check_invariants().unwrap();
}

/// A wait that has room for another number of bytes than the first data have cannot be answered with them.
// spec: sync §2.2
#[test]
fn who_waits_with_room_for_other_data_is_told() {
    let host = host(VIRTUAL, MIB);
    let ours = Process::new(&host);
    for brought_by_open in [false, true] {
        let (mine, global) = ours.create();
        ours.acquire(mine, 3).unwrap();
        let wait = |runtime_data_bytes| {
            let call = KeyedMutexCall::Acquire { mutex: mine, key: 4, timeout_100ns: None, runtime_data_bytes };
            host.begin_call(ours.link.process(), Call::KeyedMutex(call)).expect_err("it is owned")
        };
        let (wrong, right) = (wait(8), wait(5));
        if brought_by_open {
            ours.open_with(global, b"given").unwrap();
        }
        let runtime_data = if brought_by_open { Vec::new() } else { b"given".to_vec() };
        let release = KeyedMutexCall::Release { mutex: mine, key: 4, fence_value: 1, runtime_data };
        assert_eq!(ours.call(release), Ok(Reply::Done));
        let answer = |pending| host.take_answer(pending).expect("it has ended");
        assert_eq!(answer(wrong).map_err(|refusal| refusal.status), Err(INVALID));
        let Ok(Reply::AcquiredKeyedMutex(acquired)) = answer(right) else { panic!("it was released for it") };
        assert_eq!((acquired.fence_value, &acquired.runtime_data[..]), (1, &b"given"[..]));
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_refused_call_changes_nothing() {
    let host = host(VIRTUAL, MIB);
    let ours = Process::new(&host);
    let (mine, global) = ours.create_with(KeyedMutexFlags::empty(), b"abc");
    let before = host.state_digest();
    let refused = [
        KeyedMutexCall::Open { shared: global, runtime_data: vec![0; 2] },
        KeyedMutexCall::Release { mutex: mine, key: 1, fence_value: 2, runtime_data: b"def".to_vec() },
        KeyedMutexCall::Acquire { mutex: mine, key: 1, timeout_100ns: Some(0), runtime_data_bytes: 0 },
        KeyedMutexCall::Acquire { mutex: global, key: 3, timeout_100ns: None, runtime_data_bytes: 0 },
    ];
    for call in refused {
        assert!(ours.call(call.clone()).is_err(), "{call:?}");
        assert_eq!(before.differences(&host.state_digest()), Vec::<String>::new(), "{call:?}");
    }
}
