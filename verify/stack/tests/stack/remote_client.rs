//! A process elsewhere, without a socket: it is shown files, answers for them on a thread of its own, and keeps every file that it was ever
//! shown.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Duration;

use dxgk_host::{AccountId, Admission, FilePiece, Host, Quota, RemoteProcess};
use kmt_calls::{Call, DoorbellAddress, MappingId, Notification, QueuedFence, Refusal, Reply};
use kmt_link::{CpuMapping, DoorbellPage, Link, OwnCommands, Piece, WritableWord};
use shared_words::{LentFile, Memory, ReadOnlyMemory, ReadOnlyWord};
use softgpu_umd::Gpu;
use wddm_types::{ProcessId, RawHandle, WordAddress};

/// A message of the kernel about a mapping.
enum Said {
    Shows(MappingId, u64, Vec<FilePiece>),
    Protected(MappingId),
    Gone(MappingId),
}

/// A process elsewhere that keeps every file that it was ever shown.
pub struct RemoteClient {
    host: Arc<Host>,
    process: ProcessId,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    views: Mutex<BTreeMap<MappingId, Arc<CpuMapping>>>,
    more: Condvar,
    kept: Mutex<BTreeMap<usize, Kept>>,
    doorbells: Mutex<BTreeMap<DoorbellAddress, Arc<DoorbellPage>>>,
    lost: Mutex<Vec<(String, bool)>>,
    told: Mutex<Vec<Told>>,
    /// Messages of this kind are held back.
    deaf_to: Mutex<Option<Told>>,
    hears: Condvar,
}

/// The kinds of messages about a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Shows,
    Protected,
    Gone,
}

/// A file, kept so that no other file gets its address, and its content.
type Kept = (Arc<LentFile>, Arc<Memory>);

struct Speaker {
    host: Weak<Host>,
    says: Sender<Said>,
    rings: Sender<DoorbellAddress>,
    seen: Arc<Seen>,
}

impl RemoteProcess for Speaker {
    fn shows(&self, mapping: MappingId, size_bytes: u64, pieces: Vec<FilePiece>) {
        let _ = self.says.send(Said::Shows(mapping, size_bytes, pieces));
    }

    fn protected(&self, mapping: MappingId) {
        let _ = self.says.send(Said::Protected(mapping));
    }

    fn gone(&self, mapping: MappingId) {
        let _ = self.says.send(Said::Gone(mapping));
    }

    fn doorbell(&self, address: DoorbellAddress, page: Arc<LentFile>) {
        let rings = self.rings.clone();
        let wake = Box::new(move |_| _ = rings.send(address));
        let received = page.as_fd().try_clone_to_owned().expect("a descriptor");
        let page = Memory::from_file(received, page.bytes()).expect("it maps what it was handed");
        let page = Arc::new(DoorbellPage::received(page, false, wake));
        self.seen.doorbells.lock().unwrap().insert(address, page);
    }

    fn doorbell_gone(&self, address: DoorbellAddress) {
        self.seen.doorbells.lock().unwrap().remove(&address);
    }

    fn notify(&self, _: Notification) {}

    fn traces(&self, _: bool) {}

    fn lost(&self, reason: &str) {
        let failed = self.host.upgrade().is_some_and(|host| host.has_failed());
        self.seen.lost.lock().unwrap().push((reason.to_owned(), failed));
    }
}

impl Seen {
    fn memory(&self, file: &Arc<LentFile>) -> Arc<Memory> {
        let mut kept = self.kept.lock().unwrap();
        let received = || {
            let descriptor = file.as_fd().try_clone_to_owned().expect("a descriptor");
            (Arc::clone(file), Memory::from_file(descriptor, file.bytes()).expect("it maps what it was handed"))
        };
        Arc::clone(&kept.entry(Arc::as_ptr(file) as usize).or_insert_with(received).1)
    }

    fn hear(&self, said: Said) -> Option<MappingId> {
        let told = match said {
            Said::Shows(..) => Told::Shows,
            Said::Protected(_) => Told::Protected,
            Said::Gone(_) => Told::Gone,
        };
        // The lock covers both: a test that sees a message and then makes the process deaf affects later messages only.
        let deaf_to = self.deaf_to.lock().unwrap();
        self.told.lock().unwrap().push(told);
        drop(self.hears.wait_while(deaf_to, |deaf_to| *deaf_to == Some(told)).unwrap());
        match said {
            Said::Shows(mapping, size_bytes, pieces) => {
                let piece = |piece: &FilePiece| {
                    let memory = self.memory(&piece.file);
                    Piece { memory, offset: piece.offset, bytes: piece.bytes }
                };
                let pieces: Vec<Piece> = pieces.iter().map(piece).collect();
                let known = self.views.lock().unwrap().get(&mapping).cloned();
                let Some(view) = known else {
                    let view = Arc::new(CpuMapping::new(size_bytes, pieces, None, kmt_link::NoAddresses::NoFiles));
                    self.views.lock().unwrap().insert(mapping, view);
                    self.more.notify_all();
                    return None;
                };
                view.show(pieces);
                Some(mapping)
            }
            Said::Protected(mapping) => {
                self.views.lock().unwrap()[&mapping].protect();
                Some(mapping)
            }
            Said::Gone(mapping) => {
                if let Some(view) = self.views.lock().unwrap().remove(&mapping) {
                    view.end();
                }
                None
            }
        }
    }
}

impl RemoteClient {
    /// A process of this host.
    pub fn new(host: &Arc<Host>) -> Arc<RemoteClient> {
        let ((says, heard), (rings, rung), seen) = (channel(), channel(), Arc::<Seen>::default());
        let speaker = Arc::new(Speaker { host: Arc::downgrade(host), says, rings, seen: Arc::clone(&seen) });
        let admission = Admission { account: AccountId(1), process: Quota::NONE, together: Quota::NONE };
        let process = host.process_elsewhere(speaker, admission);
        let (theirs, to): (Arc<Seen>, Weak<Host>) = (Arc::clone(&seen), Arc::downgrade(host));
        std::thread::spawn(move || {
            while let Ok(said) = heard.recv() {
                if let (Some(mapping), Some(host)) = (theirs.hear(said), to.upgrade()) {
                    host.mapping_holds(process, mapping);
                }
            }
        });
        let to = Arc::downgrade(host);
        std::thread::spawn(move || {
            while let (Ok(address), Some(host)) = (rung.recv(), to.upgrade()) {
                host.doorbell_rung(process, address);
            }
        });
        Arc::new(RemoteClient { host: Arc::clone(host), process, seen })
    }

    pub fn gpu(self: &Arc<Self>) -> Gpu {
        Gpu::open(Arc::clone(self) as Arc<dyn Link>).expect("the adapter opens")
    }

    /// Why the host has given it up, if it has, and whether its kernel had failed when it heard of it.
    pub fn lost(&self) -> Vec<(String, bool)> {
        self.seen.lost.lock().unwrap().clone()
    }

    /// All that it was told of mappings.
    pub fn told(&self) -> Vec<Told> {
        self.seen.told.lock().unwrap().clone()
    }

    /// From now on it holds back messages of this kind, and all behind them, until the next call says otherwise.
    pub fn is_deaf_to(&self, told: Option<Told>) {
        *self.seen.deaf_to.lock().unwrap() = told;
        self.seen.hears.notify_all();
    }

    /// It dies, whatever it has.
    pub fn dies(&self) {
        self.host.process_died(self.process);
    }

    /// Stores this all over every file that it was ever shown.
    pub fn scribbles(&self, value: u32) {
        for (file, memory) in self.seen.kept.lock().unwrap().values() {
            memory.fill(0, file.bytes(), value);
        }
    }

    /// Whether one of these words is in any file that it was ever shown, but pages of zeros.
    pub fn finds(&self, foreign: impl Fn(u64) -> bool) -> Option<(u64, u64)> {
        self.seen.kept.lock().unwrap().values().find_map(|(file, memory)| {
            let mut found = None;
            memory.scan_words(0, file.bytes() / 8, |at, word| {
                found = foreign(word).then_some((at, word));
                found.is_none()
            });
            found
        })
    }
}

impl Drop for RemoteClient {
    fn drop(&mut self) {
        self.is_deaf_to(None);
        self.host.process_died(self.process);
    }
}

impl Link for RemoteClient {
    fn call(&self, call: Call) -> Result<Reply, Refusal> {
        self.host.call(self.process, call)
    }

    fn system_memory(&self) -> Option<&Arc<Memory>> {
        None
    }

    fn read_only(&self, address: WordAddress) -> ReadOnlyWord {
        let lent = self.host.lent_word(address).expect("a word that the kernel names is lent");
        let received = lent.file.as_fd().try_clone_to_owned().expect("a descriptor");
        let memory = ReadOnlyMemory::from_file(received, lent.file.bytes()).expect("it maps what it was handed");
        memory.word(lent.file_offset + (address.0 - lent.offset))
    }

    fn writable(&self, address: WordAddress) -> WritableWord {
        let lent = self.host.lent_word(address).expect("a word that the kernel names is lent");
        let received = lent.file.as_fd().try_clone_to_owned().expect("a descriptor");
        let memory = Memory::from_file(received, lent.file.bytes()).expect("it maps what it was handed");
        WritableWord::new(memory, lent.file_offset + (address.0 - lent.offset))
    }

    fn mapping(&self, mapping: MappingId) -> Option<Arc<CpuMapping>> {
        let views = self.seen.views.lock().unwrap();
        let unseen = |views: &mut BTreeMap<MappingId, Arc<CpuMapping>>| !views.contains_key(&mapping);
        let (views, _) = self.seen.more.wait_timeout_while(views, Duration::from_secs(60), unseen).unwrap();
        views.get(&mapping).cloned()
    }

    fn doorbell(&self, address: DoorbellAddress) -> Option<Arc<DoorbellPage>> {
        self.seen.doorbells.lock().unwrap().get(&address).cloned()
    }

    fn take_notification(&self) -> Option<Notification> {
        None
    }

    fn wait_notification(&self) -> Option<Notification> {
        None
    }

    fn descriptor(&self, handle: u64) -> Result<OwnedFd, Refusal> {
        self.host.nt_descriptor(self.process, handle)
    }

    fn described(&self, descriptor: BorrowedFd<'_>) -> Result<u64, Refusal> {
        self.host.nt_handle_of(descriptor)
    }

    fn section_over(
        &self,
        adapter: RawHandle,
        file: BorrowedFd<'_>,
        offset_bytes: u64,
        size_bytes: u64,
    ) -> Result<Reply, Refusal> {
        let file = file.try_clone_to_owned().expect("a descriptor");
        self.host.section_over(self.process, adapter, file, offset_bytes, size_bytes)
    }

    fn own_commands(&self) -> Result<OwnCommands, Refusal> {
        Ok(self.host.own_commands(self.process))
    }

    fn now_ns(&self) -> u64 {
        self.host.now_ns()
    }

    fn traces_fences(&self) -> bool {
        false
    }

    fn fences_queued(&self, _: RawHandle, _: &[QueuedFence]) {}
}
