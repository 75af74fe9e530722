//! Synchronization of one adapter: its fences, the waits for them, the cross-adapter ones among them, the objects without a word in memory.
//!
//! | module | has |
//! |---|---|
//! | `fence` | which fences there are, and which device has which open |
//! | `cpu_words` | the words of each process that no GPU reaches |
//! | `packed` | the pages of words in system memory that a process's fences share |
//! | `local` | the pages of words in the local memory of devices |
//! | `flags` | what the flags of an object allow, and the terms on which a name is opened |
//! | `wait` | the waits for their values, and which a value ends |
//! | `cross` | which of them other adapters have too, and the news for these |
//! | `object` | mutexes, semaphores, packet fences, CPU notifications, with their opens |
//! | `peer` | the inbox in which the GPUs of other adapters ring |
//! | `tell` | what the driver is told of their values |
//! | `tracing` | what a tool wants logged |
//!
//! It takes and maps no memory for words, and makes and ends no fence in the driver: `adapter/fence` does, tells what became of it here, and
//! asks here whose waits end. It lets nothing go on itself, for a queue that goes on belongs to the scheduler: it answers with the waits
//! that ended, and with [`SyncNews`]; `adapter/sync.rs` carries them out. It asks the driver, and no other part; that and the memory whose
//! words it reads and writes each call lends it.
//!
//! What holds between its fields, which [`Synchronization::check_fences`] and [`Synchronization::check_objects`] check:
//! - a fence is known by its waits, and by nothing else; it is there as long as it is open or named;
//! - an open is of a fence that is there and knows it; the view of a process counts the opens of that process;
//! - the fences that a process sees are those that have a view of it;
//! - a device is listed for the opens that its process has asked for, and each of them is there and of it;
//! - a page of packed words is listed for its room exactly while it has a free word;
//! - the fences of 32 bits are those that are looked at without a waiter;
//! - each process of the adapter has words that no GPU reaches, and no other process has any words or sees a fence; no device that has gone
//!   has words or opens ([`Synchronization::check_owners`]);
//! - an object counts its opens, and is there as long as it is open or an NT handle names it;
//! - an open of an object is of one that is there, and stands in the index of its device, if it has one.

mod cpu_words;
mod cross;
mod fence;
mod flags;
mod local;
mod object;
mod packed;
mod peer;
mod tell;
mod tracing;
mod wait;

pub use cross::{CommonWord, News};
pub use fence::{Fence, FenceOpen, FenceSlot, FenceView, FenceWord, Home, LocalWord, Periodic};
pub use flags::{ObjectType, PER_DEVICE, PointUse, check_affinity, check_flags, check_open};
pub use local::{LocalKind, LocalPage, LocalPlace};
pub use packed::{MappedPage, TakenWord, Which};
pub use tracing::{Fed, LogShape};
pub use wait::{UnreportedFence, WaitsOf};

use std::collections::{BTreeMap, BTreeSet};

use gpu_fence::{FenceId, Fences};
use vidmm::StateDigest;
use wddm_types::{AdapterIndex, ProcessId, RawHandle};

use self::cpu_words::CpuWords;
use self::cross::CommonFences;
use self::local::LocalWords;
use self::object::Objects;
use self::packed::PackedWords;
use self::peer::Peers;
use self::tracing::FenceTracing;
use crate::due::Waiter;
use crate::number::{DeviceNumber, EventName, FenceNumber, FenceOpenNumber};
use crate::store::Store;

/// The objects that one wait or signal names (sync §0). The calls whose structures hold the objects themselves have room for
/// `D3DDDI_MAX_OBJECT_WAITED_ON`, which is 32.
pub const POINTS_MAX: usize = 4_095;

/// What has come of a change, for the adapter to carry out in this order.
#[must_use]
pub enum SyncNews {
    /// A wait is over.
    Ended(Waiter),
    /// An event is to be set.
    SetEvent(EventName),
    /// An object has gone that had this global handle.
    GlobalGone(RawHandle),
}

/// The synchronization of an adapter.
pub struct Synchronization {
    /// The adapter, as events name it.
    adapter: AdapterIndex,
    waits: Fences<Waiter>,
    /// The fences by their waits.
    numbers: BTreeMap<FenceId, FenceNumber>,
    fences: Store<FenceNumber, Fence>,
    opens: Store<FenceOpenNumber, FenceOpen>,
    /// Fences of 32 bits: the kernel looks at them with or without a waiter.
    half: BTreeSet<FenceNumber>,
    /// The shareable fences that each process sees.
    seen: BTreeMap<ProcessId, BTreeSet<FenceNumber>>,
    /// The opens that the process of each device has asked for, beside those that come with its queues.
    asked_for: BTreeMap<DeviceNumber, BTreeSet<FenceOpenNumber>>,
    cpu_words: BTreeMap<ProcessId, CpuWords>,
    packed: PackedWords,
    local: LocalWords,
    common: CommonFences,
    objects: Objects,
    peers: Peers,
    tracing: FenceTracing,
}

impl Synchronization {
    /// Of an adapter that starts.
    pub fn new(adapter: AdapterIndex) -> Synchronization {
        Synchronization {
            adapter,
            waits: Fences::default(),
            numbers: BTreeMap::new(),
            fences: Store::default(),
            opens: Store::default(),
            half: BTreeSet::new(),
            seen: BTreeMap::new(),
            asked_for: BTreeMap::new(),
            cpu_words: BTreeMap::new(),
            packed: PackedWords::default(),
            local: LocalWords::default(),
            common: CommonFences::default(),
            objects: Objects::default(),
            peers: Peers::default(),
            tracing: FenceTracing::default(),
        }
    }

    /// For the digest of the adapter's state.
    pub fn add_to(&self, digest: &mut StateDigest) {
        self.add_fences_to(digest);
        self.asked_for.iter().for_each(|(device, opens)| digest.add("opens asked for by", device, opens));
        self.add_cpu_words_to(digest);
        self.add_packed_words_to(digest);
        self.add_local_words_to(digest);
        self.add_objects_to(digest);
    }

    /// Finds a process that has no words, of those that are there, or has gone and has some or sees fences; and a device that has gone and
    /// has words or opens. `processes` are those of the adapter, in order.
    ///
    /// # Errors
    /// It.
    pub fn check_owners(
        &self,
        processes: impl Iterator<Item = ProcessId>,
        is_there: impl Fn(DeviceNumber) -> bool,
    ) -> Result<(), String> {
        if !self.cpu_words.keys().copied().eq(processes) {
            return Err(format!("not the processes of the adapter have words, but {:?}", self.cpu_words.keys()));
        }
        let mut with_words = self.packed.processes().chain(self.seen.keys().copied());
        if let Some(gone) = with_words.find(|process| !self.cpu_words.contains_key(process)) {
            return Err(format!("{gone:?} has gone, and has packed words or sees fences"));
        }
        match self.local.devices().chain(self.asked_for.keys().copied()).find(|device| !is_there(*device)) {
            Some(gone) => Err(format!("device {gone:?} has gone, and has words or opens")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
