//! The fences that an interrupt names: a destroyed one, one that no process has open any more, several at once, or none because too many
//! signals came to be reported one by one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use d3dkmt::{Fence, FenceFlags, NativeFenceRequest, NtHandle, OpenSyncObjectRequest, SyncObjectAccess};
use ddi::OsGlobalFence;
use dxgk_host::Host;
use events::Event;
use softgpu_spec::register::RECORD_COUNT;
use softgpu_umd::Commands;

use crate::fence_interrupts::begin_wait;
use crate::fence_logs::read::logging_host;
use crate::stubborn::{Shared, Whims};
use stack::heard::Heard;
use stack::world::{Client, client};

/// A host whose driver names the fence `beside`, too, once the test sets it; `named` are the fences that it has named.
struct Naming {
    host: Arc<Host>,
    client: Client,
    beside: Arc<Mutex<Option<OsGlobalFence>>>,
    named: Shared<OsGlobalFence>,
}

impl Naming {
    fn new() -> Naming {
        let (beside, named) = (Arc::new(Mutex::new(None)), Shared::<OsGlobalFence>::default());
        let (adds, hears) = (Arc::clone(&beside), Arc::clone(&named));
        let name_fences = move |known: Option<Vec<OsGlobalFence>>| {
            let mut known = known?;
            hears.lock().unwrap().extend(&known);
            known.extend(*adds.lock().unwrap());
            Some(known)
        };
        let (host, _) = logging_host("discrete-4k", Whims { name_fences: Box::new(name_fences), ..Whims::default() });
        let client = client(&host);
        Naming { host, client, beside, named }
    }

    fn fence(&self) -> Fence {
        self.client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence")
    }

    /// An engine signals a fence that is waited for. Whether the wait is over; the name by which the driver called the fence last.
    fn signal(&mut self, fence: &Fence, value: u64) -> (bool, OsGlobalFence) {
        let wait = begin_wait(&self.host, &self.client, fence, value);
        let mut commands = Commands::new();
        commands.signal(fence, value);
        while self.host.step() {}
        self.named.lock().unwrap().clear();
        self.client.stream.submit(&self.client.gpu, &[], &commands).expect("a submission");
        while self.host.step() {}
        let over = self.host.take_answer(wait).is_some();
        (over, self.named.lock().unwrap()[0])
    }
}

/// Its number has been a fence's and is none's again, whatever was created behind it.
#[test]
fn a_destroyed_fence_in_a_list_is_a_bug_check() {
    // spec: sync §3.10, sync §6 B18, sync §3.19 item 5
    // seed: N56
    let mut world = Naming::new();
    let (doomed, other) = (world.fence(), world.fence());
    let (over, name) = world.signal(&doomed, 1);
    assert!(over);
    *world.beside.lock().unwrap() = Some(name);
    assert!(world.signal(&other, 1).0, "it is named while it is there: that is harmless");
    assert_eq!(world.host.stopped(), None);
    drop(doomed);
    let behind = world.fence();
    while world.host.step() {}
    assert!(world.signal(&behind, 1).0, "its waits end, as on a lost device");
    let reason = world.host.stopped().expect("the adapter has stopped");
    assert!(reason.contains("destroyed") && reason.contains(&name.0.to_string()), "{reason}");
}

/// A name keeps the object, but not the driver's object, which the kernel destroys with the last open.
#[test]
fn a_fence_that_only_a_name_keeps_is_destroyed_for_its_driver() {
    // spec: sync §3.4, sync §3.10, sync §6 B18
    // seed: N56
    for others_have_it in [true, false] {
        let mut world = Naming::new();
        let elsewhere = client(&world.host);
        let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
        let request = NativeFenceRequest { flags, ..NativeFenceRequest::default() };
        let mine = world.client.gpu.device().create_native_fence(request).unwrap();
        let name: NtHandle = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
        let by = || OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
        let theirs = others_have_it.then(|| elsewhere.gpu.device().open_native_fence(by()).unwrap());
        let (over, known_as) = world.signal(&mine, 1);
        assert!(over);
        *world.beside.lock().unwrap() = Some(known_as);
        drop(mine);
        let other = world.fence();
        assert!(world.signal(&other, 1).0);
        match world.host.stopped() {
            None => assert!(others_have_it, "no process has it open any more"),
            Some(reason) => assert!(!others_have_it && reason.contains("destroyed"), "{reason}"),
        }
        if let Some(theirs) = theirs {
            assert_eq!(theirs.current(), 1, "closing one open changes nothing for the others");
        }
    }
}

/// A host whose driver ignores interrupt records while `now` is set.
fn deaf(name_fences: impl Fn(Option<Vec<OsGlobalFence>>) -> Option<Vec<OsGlobalFence>> + Send + 'static) -> Deaf {
    let now: Arc<AtomicBool> = Arc::default();
    let whims = Whims { deaf: Arc::clone(&now), name_fences: Box::new(name_fences), ..Whims::default() };
    let (host, heard) = logging_host("discrete-4k", whims);
    Deaf { client: client(&host), host, heard, now }
}

struct Deaf {
    client: Client,
    host: Arc<Host>,
    heard: Heard,
    now: Arc<AtomicBool>,
}

impl Deaf {
    /// Submits while the kernel hears no interrupt.
    fn submit(&mut self, commands: &Commands) {
        self.now.store(true, Ordering::SeqCst);
        self.client.stream.submit(&self.client.gpu, &[], commands).expect("a submission");
        while self.host.step() {}
        self.now.store(false, Ordering::SeqCst);
    }

    /// The next interrupt, for a fence of its own. Of each that the kernel has dispatched: how many fences it named, how many were looked
    /// at, how many waits that ended.
    fn listen(&mut self) -> Vec<[u32; 3]> {
        let bell = self.client.gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
        let wait = begin_wait(&self.host, &self.client, &bell, 1);
        self.heard.take();
        let mut commands = Commands::new();
        commands.signal(&bell, 1);
        self.client.stream.submit(&self.client.gpu, &[], &commands).expect("a submission");
        while self.host.step() {}
        assert!(self.host.take_answer(wait).is_some(), "the bell's own waiter");
        let dispatched = |event: &Event| match *event {
            Event::FenceInterrupt { named, looked_at, released, .. } => Some([named, looked_at, released]),
            _ => None,
        };
        self.heard.take().iter().filter_map(dispatched).collect()
    }
}

/// Two fences were signalled before the kernel listened, and a third rings: one interrupt for all three, with their names or without.
#[test]
fn several_signals_are_folded_into_one_interrupt() {
    // spec: sync §3.10, sync §6 B16, sync §6 B17
    // seed: N55, N57, N58
    for named in [true, false] {
        let mut world = deaf(move |known| known.filter(|_| named));
        let fences: Vec<Fence> =
            (0..3).map(|_| world.client.gpu.device().create_native_fence(Default::default()).unwrap()).collect();
        let waits = [0, 1, 2].map(|nth| begin_wait(&world.host, &world.client, &fences[nth], 5));
        while world.host.step() {}
        let mut commands = Commands::new();
        commands.signal(&fences[0], 5).signal(&fences[1], 6);
        world.submit(&commands);
        assert_eq!(waits.map(|wait| world.host.take_answer(wait).is_some()), [false; 3], "the kernel has not listened");
        let dispatched = world.listen();
        assert_eq!(waits.map(|wait| world.host.take_answer(wait).is_some()), [true, true, false]);
        // The third fence is waited for and was not signalled: a kernel that is told no names looks at it, too.
        assert_eq!(dispatched, if named { [[3, 3, 3]] } else { [[0, 4, 3]] }, "named: {named}");
        assert_eq!(world.host.stopped(), None);
    }
}

/// More records than the device keeps: the last one says that some were lost, and the driver that any fence may have been signalled.
#[test]
fn a_queue_of_records_that_overflows_loses_no_waiter() {
    // spec: sync §3.10, sync §2.8
    // seed: N58
    let mut world = deaf(|known| known);
    let [noise, late, untouched] =
        [(); 3].map(|()| world.client.gpu.device().create_native_fence(NativeFenceRequest::default()).unwrap());
    // MonitoredValue of the noise stays 0 as long as the kernel hears of none: each of its signals is a record.
    let waits = [(&noise, 1), (&late, 1), (&untouched, 1)]
        .map(|(fence, value)| begin_wait(&world.host, &world.client, fence, value));
    while world.host.step() {}
    let mut commands = Commands::new();
    for value in 1..=RECORD_COUNT as u64 {
        commands.signal(&noise, value);
    }
    commands.signal(&late, 1);
    world.submit(&commands);
    assert_eq!(waits.map(|wait| world.host.take_answer(wait).is_some()), [false; 3], "the kernel has not listened");
    let dispatched = world.listen();
    assert_eq!(waits.map(|wait| world.host.take_answer(wait).is_some()), [true, true, false]);
    // The bell's record was lost, too.
    assert_eq!(dispatched, [[0, 4, 3]], "no names: every fence that is waited for is looked at");
    assert_eq!(world.host.stopped(), None);
}
