//! A client has locked memory which the kernel moves, and never says that its stores are held. All paging of the adapter waits for that
//! answer; so the client has as long as its limits say, and the daemon ends it then. A client that lets the daemon hold its stores, and says
//! where they are, is not asked to hold them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use d3dkmt::{Allocation, EvictFlags, Residency};
use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits, ProcessLimits};
use kmt_calls::wire::{decode, encode};
use kmt_calls::{Call, DoorbellAddress, LockCall, MappingId, Notification, QueuedFence, Refusal, Reply};
use kmt_link::socket::{
    Asked, FILES_MAX, FileOf, Hello, MESSAGE_MAX, PacketError, Packets, PieceOf, Placed, Push, Pushed, Request,
    Response, Said, SocketLink, Told,
};
use kmt_link::{CpuMapping, DoorbellPage, Link, OwnCommands, WritableWord};
use shared_words::{AddressRange, Memory, ReadOnlyWord, StoresElsewhere};
use softgpu_spec::private_data::{AllocationRequest, Details, Kind};
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, Surface, SurfaceKind};
use wddm_types::{NodeId, RawHandle, WordAddress};

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

/// A process's link to the kernel that reads the daemon's messages and answers none. It reads words directly in the kernel's memory.
struct Deaf {
    lane: Mutex<Packets>,
    stream: Packets,
    host: Arc<Host>,
    /// The places of mappings that its next request names.
    placed: Mutex<Vec<Placed>>,
    came: Mutex<Came>,
}

/// Messages of the daemon that have come, on the stream or with a response.
#[derive(Default)]
struct Came {
    /// How many the test has heard.
    next: u64,
    /// Those that it has not.
    early: BTreeMap<u64, (Push, Vec<OwnedFd>)>,
}

impl Deaf {
    fn connect(served: &Served) -> Arc<Deaf> {
        Deaf::with(served, None)
    }

    /// A client that brings the descriptor by which the daemon holds its stores.
    fn with(served: &Served, stores: Option<BorrowedFd<'_>>) -> Arc<Deaf> {
        let kind = (rustix::net::AddressFamily::UNIX, rustix::net::SocketType::SEQPACKET);
        let socket = rustix::net::socket(kind.0, kind.1, None).expect("a socket");
        let address = rustix::net::SocketAddrUnix::new(&served.path).expect("a path");
        rustix::net::connect(&socket, &address).expect("a kernel");
        let (stream, theirs) = Packets::pair().expect("two descriptors");
        let lane = Packets::new(socket);
        let files: Vec<_> = [Some(theirs.as_fd()), stores].into_iter().flatten().collect();
        lane.send(&encode(&Hello::OURS, Vec::new()), &files).expect("it listens");
        lane.receive(MESSAGE_MAX, 0).expect("it is a client");
        let (lane, host) = (Mutex::new(lane), Arc::clone(&served.host));
        Arc::new(Deaf { lane, stream, host, placed: Mutex::default(), came: Mutex::default() })
    }

    /// The next message of the daemon; `None`: the daemon has ended the client.
    fn hear(&self) -> Option<Push> {
        self.hear_with_files().map(|(push, _)| push)
    }

    fn hear_with_files(&self) -> Option<(Push, Vec<OwnedFd>)> {
        loop {
            {
                let mut came = self.came.lock().expect("no panic");
                let next = came.next;
                if let Some(message) = came.early.remove(&next) {
                    came.next += 1;
                    return Some(message);
                }
            }
            let patience = Duration::from_millis(5);
            match self.stream.receive_patiently(patience, MESSAGE_MAX, FILES_MAX) {
                Ok((bytes, files)) => {
                    let Pushed { before, push } = decode(&bytes).expect("a message of the daemon");
                    self.came.lock().expect("no panic").early.insert(before, (push, files));
                }
                Err(PacketError::System(rustix::io::Errno::AGAIN)) => {}
                Err(_) => return None,
            }
        }
    }
}

fn gone() -> Refusal {
    let (status, blame) = (wddm_types::NtStatus::DEVICE_REMOVED, wddm_types::Blame::Driver);
    Refusal { status, blame, reason: "it was ended".into(), bytes_to_trim: 0 }
}

impl Link for Deaf {
    fn call(&self, call: Call) -> Result<Reply, Refusal> {
        let lane = self.lane.lock().expect("no panic");
        let placed = std::mem::take(&mut *self.placed.lock().expect("no panic"));
        let asked = Asked { placed, ..Asked::only(Request::Call(call)) };
        lane.send(&encode(&asked, Vec::new()), &[]).map_err(|_| gone())?;
        let (bytes, _) = lane.receive(MESSAGE_MAX, 0).map_err(|_| gone())?;
        let Told { pushed, pushes, response } = decode(&bytes).expect("a response");
        let first = pushed - pushes.len() as u64;
        let numbered = (first..).zip(pushes).map(|(before, push)| (before, (push, Vec::new())));
        self.came.lock().expect("no panic").early.extend(numbered);
        match response {
            Response::Answer(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn system_memory(&self) -> Option<&Arc<Memory>> {
        None
    }

    fn read_only(&self, address: WordAddress) -> ReadOnlyWord {
        ReadOnlyWord::new(Arc::clone(self.host.system_memory()), address.0)
    }

    fn writable(&self, address: WordAddress) -> WritableWord {
        WritableWord::new(Arc::clone(self.host.system_memory()), address.0)
    }

    fn mapping(&self, _mapping: MappingId) -> Option<Arc<CpuMapping>> {
        None
    }

    fn doorbell(&self, _address: DoorbellAddress) -> Option<Arc<DoorbellPage>> {
        None
    }

    fn take_notification(&self) -> Option<Notification> {
        None
    }

    fn wait_notification(&self) -> Option<Notification> {
        None
    }

    fn descriptor(&self, _handle: u64) -> Result<OwnedFd, Refusal> {
        Err(gone())
    }

    fn described(&self, _descriptor: BorrowedFd<'_>) -> Result<u64, Refusal> {
        Err(gone())
    }

    fn section_over(
        &self,
        adapter: RawHandle,
        file: BorrowedFd<'_>,
        offset_bytes: u64,
        size_bytes: u64,
    ) -> Result<Reply, Refusal> {
        let _ = (adapter, file, offset_bytes, size_bytes);
        Err(gone())
    }

    fn own_commands(&self) -> Result<OwnCommands, Refusal> {
        Err(gone())
    }

    fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    fn traces_fences(&self) -> bool {
        false
    }

    fn fences_queued(&self, _queue: RawHandle, _queued: &[QueuedFence]) {}
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
        let Residency::Pending { paging_fence_value } = resident else { return Ok(()) };
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
    let deaf = Deaf::connect(&served);
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
    let deaf = Deaf::with(&served, Some(stores));
    let gpu = Gpu::open(Arc::clone(&deaf) as Arc<dyn Link>).expect("the adapter opens");
    let made = with_a_copy(&gpu);
    let (device, allocation) = (gpu.device().handle(), made.handle());
    let arrives = || {
        let resident = gpu.paging().make_resident(vec![allocation], Default::default()).expect("room for it");
        let Residency::Pending { paging_fence_value } = resident else { return };
        gpu.device().wait(&[(gpu.paging().fence(), paging_fence_value)]).expect("it comes");
    };
    let range = AddressRange::reserve(BYTES).expect("stores are held here");
    // Carries out the daemon's messages about the mapping. None asks to hold stores.
    let arenas: RefCell<Vec<Option<Arc<Memory>>>> = RefCell::default();
    let until = |what: &dyn Fn(&Push) -> bool| {
        loop {
            let (push, files) = deaf.hear_with_files().expect("it is not ended");
            assert!(!matches!(push, Push::Protected(_)), "it was asked");
            if let Push::Arena { file_bytes, writable } = push {
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
