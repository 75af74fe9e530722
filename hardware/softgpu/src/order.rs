//! In which order the device's units see each other's stores: its barriers, all of them, and the words that they are about. No other file
//! of the device puts a fence of the processor (`cargo xtask tidy` looks), so that a barrier that is missing is missing in this device
//! and not in a copy of its protocols.
//!
//! A unit that stores a word for others and then asks for another one of theirs puts [`SoftGpu::barrier`] between. In silicon the store
//! lies in the unit's store buffer until then. Here the buffer is that of the processor which executes the device, and in virtual time,
//! where one thread executes everything, there is none to be seen: a missing barrier would look like one that is there. So a test bench
//! can give each unit a buffer of its own ([`device_port::Probe::buffers_stores`]): a store to an [`Ordered`] word stays there, seen by
//! its unit alone, until the unit's next barrier, or [`ARRIVES_NS`] of virtual time, or until the bench lets it overtake.
//!
//! Ordered are the words that two units race about: values of fences, MonitoredValue, logs, lanes to peers, the counts of parked queues
//! and of sealed and shared words, and a doorbell's second word. Bulk content is not, nor what a lock or a register access guards.
//!
//! Lock order: no unit takes another lock while it holds the buffers, and none holds them when it asks the bench.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};

use device_port::{Probe, Unit};
use shared_words::{Barrier, HardwareBarrier, RareBarrier, Word};

use crate::bus::Site;
use crate::device::SoftGpu;
use crate::lock;
use crate::mmu::Target;

/// Virtual time after which a buffered store is in memory without a barrier: far longer than whatever depends on it takes.
const ARRIVES_NS: u64 = 1_000_000;
/// Nothing is on its way.
const NEVER: u64 = u64::MAX;

/// The store buffers, if a bench wants such.
#[derive(Default)]
pub(crate) struct Order {
    bench: Option<Bench>,
}

struct Bench {
    probe: Arc<dyn Probe>,
    /// In the order in which they were stored.
    held: Mutex<Vec<BufferedStore>>,
    /// When the oldest is in memory by itself.
    due: AtomicU64,
}

/// A store that only its unit sees.
#[derive(Clone, Copy)]
struct BufferedStore {
    unit: Unit,
    place: Place,
    value: u64,
}

/// The word that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// One of memory.
    Memory(Site),
    /// One of the doorbells' window, by its offset.
    Bell(u64),
    /// How many queues are parked.
    Parked,
    /// How many words are sealed.
    Sealed,
    /// How many words are shared with peers.
    Shared,
}

/// A word as one unit sees it.
#[derive(Clone, Copy)]
pub(crate) struct Ordered<'a> {
    gpu: &'a SoftGpu,
    unit: Unit,
    place: Place,
    word: &'a AtomicU64,
}

impl Word for Ordered<'_> {
    #[inline(always)]
    fn load(&self) -> u64 {
        match &self.gpu.order.bench {
            None => Word::load(self.word),
            Some(bench) => bench.own(self.unit, self.place).unwrap_or_else(|| Word::load(self.word)),
        }
    }

    #[inline(always)]
    fn store(&self, value: u64) {
        match &self.gpu.order.bench {
            None => Word::store(self.word, value),
            Some(bench) => self.gpu.buffer(bench, BufferedStore { unit: self.unit, place: self.place, value }),
        }
    }
}

impl Order {
    pub(crate) fn new(probe: Option<&Arc<dyn Probe>>) -> Order {
        let probe = probe.filter(|probe| probe.buffers_stores()).cloned();
        Order { bench: probe.map(|probe| Bench { probe, held: Mutex::default(), due: AtomicU64::new(NEVER) }) }
    }

    /// Virtual time: when a buffered store is in memory by itself.
    pub(crate) fn due(&self) -> u64 {
        self.bench.as_ref().map_or(NEVER, |bench| bench.due.load(Ordering::Relaxed))
    }
}

impl Bench {
    /// The unit's own last store, if that is still in its buffer.
    fn own(&self, unit: Unit, place: Place) -> Option<u64> {
        let held = lock(&self.held);
        held.iter().rev().find(|held| (held.unit, held.place) == (unit, place)).map(|held| held.value)
    }

    /// Takes out of the buffers what is meant, in its order.
    fn take(&self, meant: impl Fn(&BufferedStore) -> bool) -> Vec<BufferedStore> {
        let mut all = lock(&self.held);
        let (taken, left) = all.drain(..).partition(meant);
        *all = left;
        if all.is_empty() {
            self.due.store(NEVER, Ordering::Relaxed);
        }
        taken
    }
}

impl SoftGpu {
    /// The full barrier of a unit: all units and the CPU see its stores before it loads anything more.
    // spec: sync §3.9
    #[inline(always)]
    pub(crate) fn barrier(&self, unit: Unit) {
        HardwareBarrier::full();
        if let Some(bench) = &self.order.bench {
            self.arrive(&bench.take(|held| held.unit == unit));
        }
    }

    /// The rare side's barrier against processes that ring doorbells: it is in every processor ([`RareBarrier`]), so in every unit.
    // spec: sync §3.17
    pub(crate) fn barrier_of_all(&self) {
        RareBarrier::full();
        self.stores_arrive();
    }

    /// Whether a bench gives each unit a buffer for its stores.
    #[inline(always)]
    pub(crate) fn buffers_stores(&self) -> bool {
        self.order.bench.is_some()
    }

    /// Every buffered store is in memory.
    pub(crate) fn stores_arrive(&self) {
        if let Some(bench) = &self.order.bench {
            self.arrive(&bench.take(|_| true));
        }
    }

    /// A word of memory that is found, as a unit sees it.
    #[inline(always)]
    pub(crate) fn ordered<'a>(&'a self, unit: Unit, target: Target<'a>) -> Ordered<'a> {
        Ordered { gpu: self, unit, place: Place::Memory(target.site), word: target.word }
    }

    /// A word of the device's own, as a unit sees it.
    #[inline(always)]
    pub(crate) fn ordered_at(&self, unit: Unit, place: Place) -> Ordered<'_> {
        Ordered { gpu: self, unit, place, word: self.word_at(place) }
    }

    #[inline(always)]
    fn word_at(&self, place: Place) -> &AtomicU64 {
        match place {
            Place::Memory(site) => self.bus.write_word(site),
            Place::Bell(offset) => self.bells.window.word(offset),
            Place::Parked => &self.cmp.parked,
            Place::Sealed => &self.cmp.sealed,
            Place::Shared => &self.peers.count,
        }
    }

    /// A store goes into its unit's buffer, and on if the bench says so.
    #[cold]
    fn buffer(&self, bench: &Bench, stored: BufferedStore) {
        lock(&bench.held).push(stored);
        bench.due.fetch_min(self.now().saturating_add(ARRIVES_NS), Ordering::Relaxed);
        let bus = if let Place::Memory(site) = stored.place { Some(site.bus()) } else { None };
        if bench.probe.stored(stored.unit, bus, stored.value) {
            self.arrive(&bench.take(|held| (held.unit, held.place) == (stored.unit, stored.place)));
        }
    }

    #[cold]
    fn arrive(&self, stores: &[BufferedStore]) {
        stores.iter().for_each(|held| Word::store(self.word_at(held.place), held.value));
    }
}

/// The full barrier between a thread that plays an engine and one that wakes it. It belongs to the threads and not to the device: silicon
/// does not sleep so.
#[inline]
pub(crate) fn between_threads() {
    fence(Ordering::SeqCst);
}
