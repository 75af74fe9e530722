//! A client has locked memory which the kernel moves, and never says that its stores are held. All paging of the adapter waits for that
//! answer; so the client has as long as its limits say, and the daemon ends it then. A client that lets the daemon hold its stores, and says
//! where they are, is not asked to hold them.

mod client;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Deaf;
use d3dkmt::{Allocation, EvictFlags, Residency};
use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits, ProcessLimits};
use kmt_calls::wire::{decode, encode};
use kmt_calls::{Call, LockCall, NativeFenceRequest, Refusal, SyncCall, WaitFlags};
use kmt_link::Link;
use kmt_link::socket::{
    Asked, FILES_MAX, FileOf, MESSAGE_MAX, PieceOf, Placed, Push, Pushed, Request, Said, SocketLink,
};
use shared_words::{AddressRange, Memory, StoresElsewhere};
use softgpu_spec::private_data::{AllocationRequest, Details, Kind};
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, Surface, SurfaceKind};
use wddm_types::{NodeId, RawHandle};

const BYTES: u64 = 64 << 10;
/// How long a client may keep the kernel waiting.
const ANSWER_MS: u64 = 200;
/// `D3DDDI_ALLOCATIONINFO`'s flag of the driver, in its private data.
const PERMANENT_SYS_MEM: u32 = 1 << 1;

struct Served {
    host: Arc<Host>,
    daemon: Daemon,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

fn serve(answer_ms: u64) -> Served {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel");
    let mut config = HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real);
    (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (8 << 20, 4 << 20, 32 << 20);
    config.isolates_processes = true;
    let host = Host::start(config).expect("a kernel");
    let process = ProcessLimits { answer_ms, ..ProcessLimits::default() };
    let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, Limits { process, ..Limits::default() });
    Served { host, daemon: daemon.expect("a socket"), path, _folder: folder }
}

/// An ordinary client: its memory moves, it locks the memory, and its writes stay.
struct Honest {
    stream: Stream,
    surface: Surface,
    gpu: Gpu,
}

fn evict(gpu: &Gpu, surface: &Surface) {
    gpu.device().evict(vec![surface.allocation().handle()], EvictFlags::empty()).expect("it was resident");
}

impl Honest {
    fn connect(served: &Served) -> Honest {
        let link = SocketLink::connect(&served.path).expect("a kernel");
        let gpu = Gpu::open(link as Arc<dyn Link>).expect("the adapter opens");
        let stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
        let surface = gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, BYTES, false).expect("a surface");
        gpu.pin(&surface).expect("room for it");
        Honest { stream, surface, gpu }
    }

    fn round(&mut self, number: u32) {
        let mut commands = Commands::new();
        commands.fill(self.surface.va(), BYTES, number);
        let value = self.stream.submit(&self.gpu, &[], &commands).expect("a submission");
        self.stream.wait(&self.gpu, value).expect("it completes");
        evict(&self.gpu, &self.surface);
        let lock = self.surface.lock().expect("always");
        assert_eq!(lock.read_word(BYTES - 8) & 0xffff_ffff, u64::from(number), "its own writes");
        drop(lock);
        self.gpu.pin(&self.surface).expect("room for it");
    }
}

/// An allocation whose system copy stays, and which a lock shows while the content is in the segment (memory §2.2): an eviction writes into
/// that copy, and the client must not write there meanwhile.
fn with_a_copy(gpu: &Gpu) -> Arc<Allocation> {
    let (kind, cpu_visible, cached, accessed_physically) = (Kind::LocalThenSystem, true, false, false);
    let request = AllocationRequest { kind, cpu_visible, cached, accessed_physically, size_bytes: BYTES };
    let details = Details { flags: PERMANENT_SYS_MEM, ..Details::default() };
    gpu.device().create_allocation(request.encode_with(&details).to_vec()).expect("room for it")
}

/// Has its content moved out from under a lock, again and again, until it is ended.
fn moves_what_is_locked(deaf: &Deaf, gpu: &Gpu) -> Result<(), Refusal> {
    let made = with_a_copy(gpu);
    let (device, allocation) = (gpu.device().handle(), made.handle());
    let arrives = || {
        let resident = gpu.paging().make_resident(vec![allocation], Default::default())?;
        let Residency::Pending { paging_fence_value, .. } = resident else { return Ok(()) };
        gpu.device().wait(&[(gpu.paging().fence(), paging_fence_value)])
    };
    loop {
        arrives()?;
        deaf.call(Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 }))?;
        gpu.device().evict(vec![allocation], EvictFlags::empty())?;
        // Waits behind the move out: until then the allocation stays locked.
        arrives()?;
        deaf.call(Call::Lock(LockCall::Unlock2 { device, allocation }))?;
        gpu.device().evict(vec![allocation], EvictFlags::empty())?;
    }
}

/// A client's answer to the nth request: after so long, or never.
type Manner = fn(u32) -> Option<Duration>;

/// Each with the least number of requests before the client is ended.
const MANNERS: [(&str, u32, Manner); 3] = [
    ("it never answers", 1, |_| None),
    ("it answers at once, and then not at all", 8, |nth| (nth < 7).then_some(Duration::ZERO)),
    // A single answer may take so long, all together may not; how many fit depends on the machine's speed.
    ("it answers each time when it nearly has to", 1, |_| Some(Duration::from_millis(ANSWER_MS * 3 / 5))),
];

/// The daemon ends a client of this manner, and another client beside it does not notice. Returns how many requests it got until then.
fn is_ended(what: &str, manner: Manner) -> u32 {
    let served = serve(ANSWER_MS);
    let mut honest = Honest::connect(&served);
    let deaf = Deaf::connect(&served.path, &served.host);
    let asked = std::thread::scope(|scope| {
        let hears = scope.spawn(|| {
            let (mut asked, mut shown) = (0, BTreeSet::new());
            while let Some(push) = deaf.hear() {
                let mapping = match push {
                    // The kernel does not wait for the first `Shows` of a mapping.
                    Push::Shows { mapping, .. } if shown.insert(mapping) => continue,
                    Push::Protected(mapping) | Push::Shows { mapping, .. } => mapping,
                    _ => continue,
                };
                asked += 1;
                if let Some(after) = manner(asked - 1) {
                    std::thread::sleep(after);
                    // The daemon may have ended the client meanwhile: then this send fails.
                    let _ = deaf.stream.send(&encode(&Said::Holds(mapping), Vec::new()), &[]);
                }
            }
            asked
        });
        let moves = scope.spawn(|| {
            let gpu = Gpu::open(Arc::clone(&deaf) as Arc<dyn Link>).expect("the adapter opens");
            moves_what_is_locked(&deaf, &gpu).expect_err("it is ended in the end")
        });
        let (began, mut number) = (Instant::now(), 0);
        while !moves.is_finished() || number < 10 {
            if began.elapsed() > Duration::from_secs(60) {
                deaf.stream.close();
                panic!("{what}: it is never ended");
            }
            number += 1;
            honest.round(number);
        }
        moves.join().expect("no panic");
        hears.join().expect("no panic")
    });
    let began = Instant::now();
    while served.daemon.clients() != 1 {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: it is still there");
        std::thread::sleep(Duration::from_millis(1));
    }
    (0..10).for_each(|number| honest.round(number));
    served.host.check_invariants().expect("the kernel's invariants hold");
    asked
}

// spec: memory §6.3, memory §2.2
#[test]
fn a_client_that_does_not_answer_for_what_it_has_locked_blocks_no_other_for_long() {
    for (what, least, manner) in MANNERS {
        // A slow machine may keep the client from answering: the daemon ends it in any case, and it may try again.
        let enough = (0..20).any(|_| is_ended(what, manner) >= least);
        assert!(enough, "{what}: it was never asked {least} times");
    }
}

/// How often memory moves out from under its lock.
const MOVES: u64 = 8;

// spec: memory §6.3
#[test]
fn who_says_where_it_has_its_mappings_is_not_asked_to_hold_its_stores() {
    let Some(stores) = StoresElsewhere::ours() else { return };
    let served = serve(60_000);
    let deaf = Deaf::with(&served.path, &served.host, Some(stores));
    let gpu = Gpu::open(Arc::clone(&deaf) as Arc<dyn Link>).expect("the adapter opens");
    let made = with_a_copy(&gpu);
    let (device, allocation) = (gpu.device().handle(), made.handle());
    let arrives = || {
        let resident = gpu.paging().make_resident(vec![allocation], Default::default()).expect("room for it");
        let Residency::Pending { paging_fence_value, .. } = resident else { return };
        gpu.device().wait(&[(gpu.paging().fence(), paging_fence_value)]).expect("it comes");
    };
    let range = AddressRange::reserve(BYTES).expect("stores are held here");
    // Carries out the daemon's messages about the mapping. None asks to hold stores.
    let arenas: RefCell<Vec<Option<Arc<Memory>>>> = RefCell::default();
    let until = |what: &dyn Fn(&Push) -> bool| {
        loop {
            let (push, files) = deaf.hear_with_files().expect("it is not ended");
            assert!(!matches!(push, Push::Protected(_)), "it was asked");
            if let Push::Arena { file_bytes, writable, .. } = push {
                let arena = files.into_iter().next().expect("it comes with its file");
                // Words that it only reads are no part of what it has locked.
                let mapped = writable.then(|| Memory::from_file(arena, file_bytes).expect("a file"));
                arenas.borrow_mut().push(mapped);
            } else if let Push::Shows { pieces, .. } = &push {
                assert!(files.is_empty(), "all that it has is in arenas");
                let arenas = arenas.borrow();
                let part = |piece: &PieceOf| {
                    let FileOf::Arena(number) = piece.file else { panic!("{piece:?}") };
                    (&**arenas[number as usize].as_ref().expect("one that it may write"), piece.offset, piece.bytes)
                };
                range.show(pieces.iter().map(part)).expect("a mapping");
            }
            if what(&push) {
                return push;
            }
        }
    };
    for turn in 1..=MOVES {
        arrives();
        deaf.call(Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 })).expect("always");
        let Push::Shows { mapping, .. } = until(&|push| matches!(push, Push::Shows { .. })) else { unreachable!() };
        deaf.placed.lock().expect("no panic").push(Placed { mapping, address: range.base().as_ptr() as u64 });
        gpu.device().evict(vec![allocation], EvictFlags::empty()).expect("it was resident");
        until(&|push| matches!(push, Push::Shows { .. }));
        // It was held until it was shown where it is now.
        range.store_words(0, 1, |_| turn);
        deaf.stream.send(&encode(&Said::Holds(mapping), Vec::new()), &[]).expect("it is heard");
        arrives();
        deaf.call(Call::Lock(LockCall::Unlock2 { device, allocation })).expect("it was locked");
        until(&|push| matches!(push, Push::Gone(_)));
        range.end();
        gpu.device().evict(vec![allocation], EvictFlags::empty()).expect("it was resident");
    }
    served.host.check_invariants().expect("the kernel's invariants hold");
}

/// A batch of calls has one response, which comes when the last of them is over.
#[test]
fn a_call_that_sleeps_lets_the_messages_before_it_go() {
    let served = serve(60_000);
    let deaf = Deaf::connect(&served.path, &served.host);
    let gpu = Gpu::open(Arc::clone(&deaf) as Arc<dyn Link>).expect("the adapter opens");
    let kind = Kind::System;
    let asked =
        AllocationRequest { kind, cpu_visible: true, cached: false, accessed_physically: false, size_bytes: BYTES };
    let made = gpu.device().create_allocation(asked.encode().to_vec()).expect("memory");
    let fence = gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    let (device, allocation) = (gpu.device().handle(), made.handle());
    let lock = || Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 });
    // The first lock brings the arena.
    deaf.call(lock()).expect("always");
    deaf.call(Call::Lock(LockCall::Unlock2 { device, allocation })).expect("it was locked");
    while !matches!(deaf.hear().expect("it is not ended"), Push::Gone(_)) {}

    let points = vec![(fence.handle(), 1)];
    let waits = SyncCall::WaitForSynchronizationObjectFromCpu {
        device,
        points,
        async_event: RawHandle::NONE,
        flags: WaitFlags::empty(),
    };
    let asked = Asked::only(Request::Calls(vec![lock(), Call::Sync(waits)]));
    deaf.lane.lock().expect("no panic").send(&encode(&asked, Vec::new()), &[]).expect("it listens");
    let heard = deaf.stream.receive_patiently(Duration::from_secs(120), MESSAGE_MAX, FILES_MAX);
    // What is to be dropped makes calls: the wait has the only lane until the client has ended.
    deaf.stream.close();
    let (bytes, _) = heard.expect("the lock is told of while the wait sleeps");
    assert!(matches!(decode(&bytes), Ok(Pushed { push: Push::Shows { .. }, .. })));
}
