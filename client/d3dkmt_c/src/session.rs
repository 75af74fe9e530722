//! A program's connection to its kernel: the link, opened by its first call, and addresses that the program was given.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use kmt_calls::{Call, Refusal, Reply};
use kmt_link::Link;
use shared_words::{Lineage, ReadOnlyMemory, ReadOnlyWord};
use wddm_types::{NtStatus, RawHandle, WordAddress};

use crate::buffer::ContextBuffers;
use crate::doorbell::RungByHand;
use crate::event::handle::NtHandles;
use crate::notification::Notifications;
use crate::program_memory::ProgramMemory;
use crate::refusal::{refuse, unsuccessful};

/// How a program comes to its kernel.
pub type OpenLink = fn() -> Result<Arc<dyn Link>, Refusal>;

/// The one process that the program is. Its link is opened by the first call; if that fails, by the next one.
pub struct Session {
    open: OpenLink,
    process: OnceLock<Process>,
}

impl Session {
    /// Nothing is opened yet.
    pub const fn new(open: OpenLink) -> Session {
        Session { open, process: OnceLock::new() }
    }

    pub(crate) fn process(&self) -> Result<&Process, Refusal> {
        if let Some(process) = self.process.get() {
            return if process.lineage.is_here() { Ok(process) } else { Err(forked()) };
        }
        // Two first calls may open a link each; one of them is dropped, and with it a process that has done nothing.
        let link = crate::trace::noted((self.open)()?);
        let process = self.process.get_or_init(|| Process::new(link));
        crate::trace::came_to(&process.link);
        Ok(process)
    }
}

/// The refusal of calls of a forked child whose parent had come to its kernel.
fn forked() -> Refusal {
    let reason = "this process was forked from one that had made calls, and cannot use its connection; run another program (exec), or fork before the first call";
    refuse(NtStatus::NOT_SUPPORTED, reason)
}

/// The process as its kernel knows it. It keeps the places that C says by pointers, and kinds of objects that C does not name; all else
/// is the kernel's.
pub struct Process {
    link: Arc<dyn Link>,
    /// The process that opened the link: its forked children are others.
    lineage: Lineage,
    /// The words that the program may look at, once it has been given one.
    words: OnceLock<ReadOnlyMemory>,
    /// The same where its kernel is in another process: words that must stay where they are.
    received: Mutex<BTreeMap<u64, ReadOnlyWord>>,
    /// The buffers that the program writes for contexts that are patched.
    buffers: Mutex<BTreeMap<u32, ContextBuffers>>,
    /// Memory of the program that allocations lie over.
    program_memory: Mutex<ProgramMemory>,
    /// Doorbells: keep mapped the pages whose addresses the program was given.
    doorbells: Mutex<BTreeMap<RawHandle, RungByHand>>,
    /// Synchronization objects without a word in memory: some structures say their values otherwise.
    without_word: Mutex<BTreeSet<RawHandle>>,
    /// Devices whose work no timeout ends (`DisableGpuTimeout`), and their hardware contexts.
    timeless: Mutex<BTreeSet<u32>>,
    /// Its NT handles.
    pub nt_handles: NtHandles,
    /// The registered callbacks for trims.
    pub notifications: Arc<Notifications>,
}

impl Process {
    pub(crate) fn new(link: Arc<dyn Link>) -> Process {
        let notifications = Arc::new(Notifications::default());
        Process {
            link,
            lineage: Lineage::here(),
            words: OnceLock::new(),
            received: Mutex::default(),
            buffers: Mutex::default(),
            program_memory: Mutex::default(),
            doorbells: Mutex::default(),
            without_word: Mutex::default(),
            timeless: Mutex::default(),
            nt_handles: NtHandles::default(),
            notifications,
        }
    }

    /// Makes a call and waits for its answer.
    pub fn call(&self, call: Call) -> Result<Reply, Refusal> {
        self.link.call(call)
    }

    /// The way to the kernel.
    pub fn link(&self) -> &Arc<dyn Link> {
        &self.link
    }

    /// Where the program sees a word that it may only look at.
    // spec: sync §1.4 (user CPU VA: read-only)
    pub fn word(&self, address: WordAddress) -> Result<*mut c_void, Refusal> {
        let Some(memory) = self.link.system_memory() else {
            // Over a socket the process has pages that it can only look at. One that is given an address again knows that what stood
            // there has gone.
            let word = self.link.read_only(address);
            let place = word.address().as_ptr().cast();
            lock(&self.received).insert(address.0, word);
            return Ok(place);
        };
        if self.words.get().is_none() {
            let view = ReadOnlyMemory::of(memory).map_err(|error| unsuccessful(error.to_string()))?;
            // Two threads may each map the words first; one view is dropped before the program has an address of it.
            let _ = self.words.set(view);
        }
        Ok(self.words.get().expect("set above").address(address.0).as_ptr().cast())
    }

    /// The same of what was just made. If the program cannot be shown the word, `undo` takes it back: a refused call gives no handle.
    pub fn word_of_new(&self, address: WordAddress, undo: Call) -> Result<*mut c_void, Refusal> {
        self.word(address).inspect_err(|_| drop(self.call(undo)))
    }

    /// Buffers of contexts that are patched.
    pub fn buffers(&self) -> MutexGuard<'_, BTreeMap<u32, ContextBuffers>> {
        lock(&self.buffers)
    }

    /// Memory of the program that allocations lie over.
    pub fn program_memory(&self) -> MutexGuard<'_, ProgramMemory> {
        lock(&self.program_memory)
    }

    /// Doorbells, by handle.
    pub fn doorbells(&self) -> MutexGuard<'_, BTreeMap<RawHandle, RungByHand>> {
        lock(&self.doorbells)
    }

    /// A new handle is that of a synchronization object without a word in memory.
    pub fn has_no_word(&self, object: RawHandle) {
        lock(&self.without_word).insert(object);
    }

    /// A new handle is that of a fence with a word; an object that had the handle before is gone.
    pub fn has_word(&self, fence: RawHandle) {
        lock(&self.without_word).remove(&fence);
    }

    /// A new handle is that of a device, or a hardware context, whose work no timeout ends, or of one whose work one may end.
    pub fn note_timeless(&self, handle: u32, timeless: bool) {
        let mut known = lock(&self.timeless);
        if timeless {
            known.insert(handle)
        } else {
            known.remove(&handle)
        };
    }

    /// Whether no timeout ends the work of a device or a hardware context.
    pub fn is_timeless(&self, handle: u32) -> bool {
        lock(&self.timeless).contains(&handle)
    }

    /// Whether a synchronization object has no word in memory.
    pub fn is_without_word(&self, object: RawHandle) -> bool {
        lock(&self.without_word).contains(&object)
    }
}

/// Takes the lock after a panic, too: no change takes several steps, so that a panic leaves the value whole.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
