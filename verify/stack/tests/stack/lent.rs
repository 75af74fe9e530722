//! Processes that reach only the memory that the host lends them: words and allocations, in files that hold nothing of other processes.

mod first_use;
mod handed_on;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use d3dkmt::{EvictFlags, FenceFlags, NativeFenceRequest, OfferFlags, OpenSyncObjectRequest, SyncObjectAccess};
use dxgk_host::{AdapterSetup, Host, HostConfig, HostError, Mode, ProcessLink, Profile};
use kmt_calls::{Call, DoorbellAddress, MappingId, Notification, QueuedFence, Refusal, Reply};
use kmt_link::{CpuMapping, DoorbellPage, Link, OwnCommands, Piece, WritableWord};
use shared_words::{ClientAccess, LentFile, LentPages, Memory, ReadOnlyMemory, ReadOnlyWord};
use softgpu_umd::{Gpu, Stream, StreamConfig, SurfaceKind, pattern};
use wddm_types::{CpuPlace, CpuRun, NodeId, PAGE_BYTES, RawHandle, WordAddress};

use stack::world::{Client, MIB, VIRTUAL};

/// A process that reaches a word through the file that was lent it, as if it were another program.
struct Apart {
    inner: Arc<ProcessLink>,
    host: Arc<Host>,
    files: Mutex<Vec<LentPages>>,
    /// The pages that its locks show.
    shown: Mutex<BTreeMap<MappingId, Vec<CpuRun>>>,
}

impl Apart {
    fn new(host: &Arc<Host>) -> Arc<Apart> {
        let inner = ProcessLink::new(Arc::clone(host));
        Arc::new(Apart { inner, host: Arc::clone(host), files: Mutex::default(), shown: Mutex::default() })
    }

    fn file(&self, address: WordAddress, access: ClientAccess) -> LentPages {
        let lent = self.host.lent_word(address).expect("a word that the kernel names is lent");
        assert_eq!(lent.file.access(), access, "of {address:?}");
        assert_eq!((lent.bytes, lent.file.bytes()), (PAGE_BYTES, PAGE_BYTES), "one page and no other");
        self.files.lock().unwrap().push(lent.clone());
        lent
    }

    /// The files that it was given.
    fn seen(&self) -> BTreeSet<*const ()> {
        self.files.lock().unwrap().iter().map(|lent| Arc::as_ptr(&lent.file).cast()).collect()
    }
}

impl Link for Apart {
    fn call(&self, call: Call) -> Result<Reply, Refusal> {
        let reply = self.inner.call(call)?;
        if let Reply::Mapped(mapped) = &reply {
            self.shown.lock().unwrap().insert(mapped.mapping, mapped.runs.clone());
        }
        Ok(reply)
    }

    fn system_memory(&self) -> Option<&Arc<Memory>> {
        None
    }

    fn read_only(&self, address: WordAddress) -> ReadOnlyWord {
        let lent = self.file(address, ClientAccess::Read);
        let received = lent.file.as_fd().try_clone_to_owned().expect("a descriptor");
        let memory = ReadOnlyMemory::from_file(received, lent.file.bytes()).expect("it maps what it was handed");
        memory.word(lent.file_offset + (address.0 - lent.offset))
    }

    fn writable(&self, address: WordAddress) -> WritableWord {
        let lent = self.file(address, ClientAccess::ReadWrite);
        let received = lent.file.as_fd().try_clone_to_owned().expect("a descriptor");
        let memory = Memory::from_file(received, lent.file.bytes()).expect("it maps what it was handed");
        WritableWord::new(memory, lent.file_offset + (address.0 - lent.offset))
    }

    fn mapping(&self, mapping: MappingId) -> Option<Arc<CpuMapping>> {
        let runs = self.shown.lock().unwrap().get(&mapping)?.clone();
        // Video memory is lent to processes elsewhere only (`lent_local`): one of this program sees it as it is.
        if runs.iter().any(|run| run.place != CpuPlace::System) {
            return self.inner.mapping(mapping);
        }
        let lent = runs.iter().flat_map(|run| {
            let lent = self.host.system_memory().lent(run.run.first * PAGE_BYTES, run.run.count.bytes());
            lent.expect("the host lends locked content")
        });
        let lent: Vec<LentPages> = lent.collect();
        let bytes = lent.iter().map(|part| part.bytes).sum();
        let pieces = lent.iter().map(|part| {
            assert_eq!(part.file.access(), ClientAccess::ReadWrite);
            let received = part.file.as_fd().try_clone_to_owned().expect("a descriptor");
            let memory = Memory::from_file(received, part.file.bytes()).expect("it maps what it was handed");
            Piece { memory, offset: part.file_offset, bytes: part.bytes }
        });
        let view = CpuMapping::new(bytes, pieces.collect(), None, kmt_link::NoAddresses::NoFiles);
        self.files.lock().unwrap().extend(lent);
        Some(Arc::new(view))
    }

    fn doorbell(&self, address: DoorbellAddress) -> Option<Arc<DoorbellPage>> {
        self.inner.doorbell(address)
    }

    fn take_notification(&self) -> Option<Notification> {
        self.inner.take_notification()
    }

    fn wait_notification(&self) -> Option<Notification> {
        self.inner.wait_notification()
    }

    fn descriptor(&self, handle: u64) -> Result<OwnedFd, Refusal> {
        self.inner.descriptor(handle)
    }

    fn described(&self, descriptor: BorrowedFd<'_>) -> Result<u64, Refusal> {
        self.inner.described(descriptor)
    }

    fn section_over(
        &self,
        adapter: RawHandle,
        file: BorrowedFd<'_>,
        offset_bytes: u64,
        size_bytes: u64,
    ) -> Result<Reply, Refusal> {
        self.inner.section_over(adapter, file, offset_bytes, size_bytes)
    }

    fn own_commands(&self) -> Result<OwnCommands, Refusal> {
        self.inner.own_commands()
    }

    fn now_ns(&self) -> u64 {
        self.inner.now_ns()
    }

    fn traces_fences(&self) -> bool {
        self.inner.traces_fences()
    }

    fn fences_queued(&self, queue: RawHandle, queued: &[QueuedFence]) {
        self.inner.fences_queued(queue, queued);
    }
}

fn isolating(profile: &str, mode: Mode) -> HostConfig {
    let profile = Profile::named(profile).expect("a built-in profile");
    let (vram_bytes, page_table_bytes, system_bytes) = (8 * MIB, 16 * MIB, 64 * MIB);
    HostConfig {
        vram_bytes,
        page_table_bytes,
        system_bytes,
        isolates_processes: true,
        ..HostConfig::new(profile, mode)
    }
}

fn host(profile: &str, mode: Mode) -> Arc<Host> {
    Host::start(isolating(profile, mode)).expect("the host starts")
}

fn gpu(link: &Arc<Apart>) -> Gpu {
    Gpu::open(Arc::clone(link) as Arc<dyn Link>).expect("the adapter opens")
}

fn client(link: &Arc<Apart>) -> Client {
    let gpu = gpu(link);
    let stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    Client { stream, gpu, link: Arc::clone(&link.inner) }
}

/// The file that an allocation which is locked lies in.
fn file_of(link: &Apart) -> Arc<LentFile> {
    Arc::clone(&link.files.lock().unwrap().last().expect("it was handed one").file)
}

/// Work that waits for itself by every word that a process has: progress, last-queued value, doorbell status, fences.
fn work(gpu: &Gpu) {
    let surface = gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
    gpu.pin(&surface).expect("room for it");
    let mut stream = Stream::create(gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    let fence = gpu.device().create_native_fence(NativeFenceRequest::default()).expect("a fence");
    for value in 1..20 {
        let mut commands = softgpu_umd::Commands::new();
        commands.fill(surface.va(), MIB, value);
        let done = stream.submit(gpu, &[], &commands).expect("a submission");
        stream.wait(gpu, done).expect("it completes");
        gpu.device().signal(&fence, u64::from(value)).expect("a signal");
        assert_eq!(fence.word().load(), u64::from(value));
    }
}

#[test]
fn a_process_works_by_nothing_but_the_words_that_it_is_lent() {
    // spec: sync §1.4, sync §1.5
    for mode in [VIRTUAL, Mode::Real] {
        let host = host("discrete-4k", mode);
        let (a, b) = (Apart::new(&host), Apart::new(&host));
        let gpus = [&a, &b].map(gpu);
        gpus.iter().for_each(work);
        let [of_a, of_b] = [&a, &b].map(|link| link.seen());
        assert!(of_a.len() >= 3 && of_b.len() >= 3, "current values, last-queued words, statuses");
        assert!(of_a.is_disjoint(&of_b), "what one process sees no other does");
        host.check_invariants().expect("in order");
    }
}

#[test]
fn values_that_are_waited_for_are_in_no_file() {
    // spec: sync §1.4 (User CPU VA to MV: none)
    let host = host("discrete-4k", VIRTUAL);
    let link = Apart::new(&host);
    let gpu = gpu(&link);
    let shareable = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let make = |flags| gpu.device().create_native_fence(NativeFenceRequest { flags, ..Default::default() }).unwrap();
    let fences = [FenceFlags::empty(), shareable, FenceFlags::empty()].map(make);
    // A MonitoredValue without a waiter is the largest value; no other word here is.
    let (mut monitored, mut lent) = (0, 0);
    for page in (0..dxgk_host::KERNEL_BYTES).step_by(4096).map(WordAddress) {
        let words = host.system_memory().words(page.0, 512);
        let largest = words.iter().filter(|word| word.load(Ordering::Relaxed) == u64::MAX).count();
        let is_lent = host.lent_word(page).is_some();
        assert!(largest == 0 || !is_lent, "{page:?} is told");
        (monitored, lent) = (monitored + largest, lent + u32::from(is_lent));
    }
    assert!(monitored >= 3, "{monitored}: each fence has one");
    assert!(lent > 0);
    drop(fences);
}

#[test]
fn who_opens_a_shared_fence_sees_its_word_and_no_other() {
    // spec: sync §1.5: pages shared with no other fence
    let host = host("discrete-4k", VIRTUAL);
    let (a, b) = (Apart::new(&host), Apart::new(&host));
    let gpus = [&a, &b].map(gpu);
    gpus.iter().for_each(work);
    let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let mine = gpus[0].device().create_native_fence(NativeFenceRequest { flags, ..Default::default() }).unwrap();
    let name = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
    let request = OpenSyncObjectRequest { handle: name.token(), ..Default::default() };
    let theirs = gpus[1].device().open_native_fence(request).expect("it opens");
    gpus[0].device().signal(&mine, 7).unwrap();
    assert_eq!((mine.word().load(), theirs.word().load()), (7, 7));
    assert_eq!(a.seen().intersection(&b.seen()).count(), 1, "the fence's own page");
}

#[test]
fn pages_of_a_process_that_has_gone_are_no_client_s() {
    let host = host("discrete-4k", VIRTUAL);
    let first = Apart::new(&host);
    {
        let gpu = gpu(&first);
        work(&gpu);
    }
    let files = std::mem::take(&mut *first.files.lock().unwrap());
    host.process_died(first.inner.process());
    while host.step() {}
    for lent in &files {
        let still = host.lent_word(WordAddress(lent.offset));
        assert!(still.is_none(), "{lent:?} is still lent");
    }
    // The next process gets the same pages, but none of the first one's files.
    let second = Apart::new(&host);
    let gpu = gpu(&second);
    work(&gpu);
    let again = second.files.lock().unwrap().clone();
    assert!(again.iter().any(|lent| files.iter().any(|old| old.offset == lent.offset)), "the pages are used again");
    for old in &files {
        assert!(again.iter().all(|lent| !Arc::ptr_eq(&lent.file, &old.file)));
    }
}

#[test]
fn cross_adapter_fences_have_a_word_that_all_may_see() {
    // spec: sync §3.12: one CurrentValue, in system memory
    for profiles in [["discrete-4k", "discrete-4k"], ["peer-linear", "peer-linear"]] {
        let (vram_bytes, page_table_bytes, system_bytes) = (8 * MIB, 16 * MIB, 64 * MIB);
        let second = Profile::named(profiles[1]).unwrap();
        let other = AdapterSetup { vram_bytes, page_table_bytes, system_bytes, ..AdapterSetup::new(second, VIRTUAL) };
        let config = HostConfig { others: vec![other], ..isolating(profiles[0], VIRTUAL) };
        let host = Host::start(config).expect("the host starts");
        let link = Apart::new(&host);
        let on = |adapter: usize| {
            let link = Arc::clone(&link) as Arc<dyn Link>;
            Gpu::on(d3dkmt::Adapter::open(link, host.adapter(adapter).luid()).unwrap()).unwrap()
        };
        let gpus = [0, 1].map(on);
        let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING | FenceFlags::CROSS_ADAPTER;
        let mine = gpus[0].device().create_native_fence(NativeFenceRequest { flags, ..Default::default() }).unwrap();
        let name = mine.share(SyncObjectAccess::ALL_ACCESS).unwrap();
        let request = OpenSyncObjectRequest { handle: name.token(), ..Default::default() };
        let theirs = gpus[1].device().open_native_fence(request).expect("it opens on the other adapter");
        gpus[1].device().signal(&theirs, 5).unwrap();
        assert_eq!((mine.word().load(), theirs.word().load()), (5, 5));
    }
}

const BYTES: u64 = 64 << 10;

#[test]
fn locked_content_is_what_the_gpu_wrote_and_the_gpu_finds_what_was_stored() {
    // spec: memory §6.3
    for mode in [VIRTUAL, Mode::Real] {
        let host = host("discrete-4k", mode);
        let link = Apart::new(&host);
        let mut client = client(&link);
        let report = client.pinned(SurfaceKind::System, 4096);
        for (kind, cached) in
            [(SurfaceKind::LocalThenSystem, false), (SurfaceKind::LocalThenSystem, true), (SurfaceKind::System, false)]
        {
            let surface = client.gpu.create_lockable_surface(kind, BYTES, cached).expect("a surface");
            client.gpu.pin(&surface).expect("room for it");
            for round in 0..8u64 {
                client.run(|commands| _ = commands.pattern(surface.va(), BYTES, round));
                let lock = surface.lock().expect("always");
                for at in (0..BYTES).step_by(8) {
                    assert_eq!(lock.read_word(at), pattern::word(round, at), "{kind:?} at {at:#x}");
                }
                lock.fill_words(0, BYTES / 8, |index| pattern::word(round + 100, index * 8));
                drop(lock);
                let list = vec![surface.allocation().handle()];
                client.gpu.device().evict(list, EvictFlags::empty()).expect("it was resident");
                client.gpu.pin(&surface).expect("room for it");
                client.run(|commands| _ = commands.check(surface.va(), BYTES, round + 100, report.va(), round + 1));
                let mismatch = report.lock().expect("system memory").read_word(pattern::report::TAG * 8);
                assert_eq!(mismatch, 0, "{kind:?}, {mode:?}: the GPU sees what the CPU wrote");
            }
        }
        host.check_invariants().expect("in order");
    }
}

#[test]
fn a_host_that_does_not_isolate_lends_nothing_and_one_with_caches_cannot() {
    let plain = HostConfig { isolates_processes: false, ..isolating("discrete-4k", VIRTUAL) };
    let host = Host::start(plain).expect("the host starts");
    assert!((0..MIB).step_by(4096).all(|page| host.lent_word(WordAddress(page)).is_none()));
    let refused = Host::start(HostConfig { io_coherent: false, ..isolating("discrete-4k", VIRTUAL) });
    assert!(matches!(refused, Err(HostError::Caches)));
}
