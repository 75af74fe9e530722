//! A software GPU on the bench: powered on, its page tables written by hand, its queues enabled through registers. No
//! kernel, no driver: what is timed is the device. Called by [`crate::hop`], [`crate::signals`] and [`crate::copies`].
//!
//! Virtual addresses 0 to 8 MiB are local memory at the same offset:
//!
//! | offset | what |
//! |---|---|
//! | 0 | page tables |
//! | 64 KiB | fence words and timestamps, each on lines of its own |
//! | 128 KiB + 64 KiB × queue | log of a queue: its position word, then entries from byte 64 on |
//! | 1 MiB + 1 MiB × queue | ring of a queue |

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use device_port::{DevicePort, InterruptPin};
use shared_words::{Barrier, FrequentBarrier, Memory, Word, doorbell, fence};
use softgpu::{Config, DataMode, Running, SoftGpu, Timing};
use softgpu_spec::page_table::{COHERENT, Shape, VALID};
use softgpu_spec::register::{self, queue_control, queue_flags, queue_state};
use softgpu_spec::{Command, LogSlot};

use crate::machine::pin_named;
use crate::report::BenchError;

const WINDOW_BYTES: u64 = 8 << 20;
const ROOT: u64 = 0x1000;
const WORDS: u64 = 64 << 10;
const LOGS: u64 = 128 << 10;
const LOG_BYTES: u64 = 64 << 10;
const LOG_ENTRY_BYTES: u64 = 48;
const LOG_ENTRIES: u64 = 64;
const RINGS: u64 = 1 << 20;
/// Bytes of a ring.
pub(crate) const RING_BYTES: u64 = 1 << 20;
/// Local memory from here on is the measure's own.
pub(crate) const FREE_LOCAL: u64 = WINDOW_BYTES;
/// How long a batch may take before the device is called stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);

const SHAPE: Shape = Shape::FOUR_LEVELS;
const TABLE_BYTES: u64 = SHAPE.table_bytes(0);

/// Virtual address of the `index`th word: a cache line and its neighbour for itself.
pub(crate) const fn word_va(index: u64) -> u64 {
    WORDS + index * 128
}

/// An interrupt pin that counts.
#[derive(Default)]
struct Pin(AtomicU64);

impl InterruptPin for Pin {
    fn assert(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The device under measure.
pub(crate) struct Rig {
    device: Arc<SoftGpu>,
    system: Arc<Memory>,
    pin: Arc<Pin>,
    /// Write pointers of the queues, as last rung.
    pointers: [u64; 4],
    /// The words being pushed.
    words: Vec<u64>,
    _running: Running,
}

impl Rig {
    /// Powers on, with `free` bytes of local and of system memory for the measure. The compute engine's thread is pinned to
    /// the first processor, the copy engine's to the second.
    pub(crate) fn start(free: u64, poll_spins: u32, pair: [usize; 2]) -> Result<Rig, BenchError> {
        let system = Memory::reserve(free)?;
        let pin = Arc::new(Pin::default());
        let config = Config {
            local_bytes: FREE_LOCAL + free,
            aperture_bytes: 0,
            shape: SHAPE,
            data: DataMode::Stored,
            timing: Timing::default(),
            poll_spins,
            reset_group: 0,
            doorbells: 2,
            displays: softgpu::DisplayConfig::NONE,
            signal_bits: 64,
        };
        let device = SoftGpu::new(config, Arc::clone(&system), Arc::clone(&pin) as Arc<dyn InterruptPin>, None)?;
        map_window(device.local_memory());
        let running = device.run_threads();
        pin_named(&[("gpu compute", pair[0]), ("gpu copy", pair[1])]);
        device.write_register(register::ENGINE_ENABLE, 1);
        Ok(Rig { device, system, pin, pointers: [0; 4], words: Vec::new(), _running: running })
    }

    /// Enables a queue on an engine.
    pub(crate) fn enable(&self, queue: u32, engine: u32) {
        for (offset, value) in [
            (register::QUEUE_SELECT, u64::from(queue)),
            (register::QUEUE_ENGINE, u64::from(engine)),
            (register::QUEUE_ROOT, ROOT),
            (register::QUEUE_RING, ring_va(queue)),
            (register::QUEUE_RING_BYTES, RING_BYTES),
            (register::QUEUE_FLAGS, queue_flags::PRIVILEGED),
            (register::QUEUE_CONTROL, queue_control::ENABLE),
        ] {
            self.device.write_register(offset, value);
        }
    }

    /// Fills the whole ring of a queue: the commands, then nothing. A turn of the ring executes them once.
    ///
    /// # Panics
    /// When they do not fit.
    pub(crate) fn fill(&self, queue: u32, commands: &[Command<'_>]) {
        let mut words = Vec::with_capacity((RING_BYTES / 8) as usize);
        commands.iter().for_each(|command| command.encode(&mut words));
        assert!(words.len() as u64 <= RING_BYTES / 8, "the ring is too small for the batch");
        while words.len() as u64 != RING_BYTES / 8 {
            Command::Nop.encode(&mut words);
        }
        for (word, at) in words.into_iter().zip((ring_va(queue)..).step_by(8)) {
            Word::store(self.device.local_memory().word(at), word);
        }
    }

    /// Lets the queue execute its ring once.
    pub(crate) fn turn(&mut self, queue: u32) {
        self.pointers[queue as usize] += RING_BYTES;
        self.ring(queue);
    }

    fn ring(&self, queue: u32) {
        let pointer = self.pointers[queue as usize];
        let page = self.device.doorbell_page();
        let base = u64::from(queue) * doorbell::DOORBELL_BYTES;
        let (value, asleep) = (page.word(base + doorbell::VALUE_OFFSET), page.word(base + doorbell::ASLEEP_OFFSET));
        if doorbell::ring(FrequentBarrier::full, value, asleep, pointer) {
            self.device.doorbell_rung(queue);
        }
    }

    /// Says how a queue ranks; others of its group wait for so long.
    pub(crate) fn rank(&self, queue: u32, rank: u64, quantum_ns: u64) {
        for (offset, value) in [
            (register::QUEUE_SELECT, u64::from(queue)),
            (register::QUEUE_RANK, rank),
            (register::QUEUE_QUANTUM, quantum_ns),
            (register::QUEUE_CONTROL, queue_control::RANK),
        ] {
            self.device.write_register(offset, value);
        }
    }

    /// Appends commands to the ring of a queue, which has room, and rings.
    pub(crate) fn push(&mut self, queue: u32, commands: &[Command<'_>]) {
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        commands.iter().for_each(|command| command.encode(&mut words));
        let pointer = &mut self.pointers[queue as usize];
        for word in &words {
            Word::store(self.device.local_memory().word(ring_va(queue) + *pointer % RING_BYTES), *word);
            *pointer += 8;
        }
        self.words = words;
        self.ring(queue);
    }

    /// Whether a queue has executed everything.
    pub(crate) fn is_done(&self, queue: u32) -> bool {
        self.device.write_register(register::QUEUE_SELECT, u64::from(queue));
        self.device.read_register(register::QUEUE_READ_POINTER) == self.pointers[queue as usize]
    }

    /// Sleeps until the queue has executed everything **and** its engine has stopped looking at it, so that the processors
    /// are free for the peer's turn.
    ///
    /// # Errors
    /// When the queue faults or gets stuck.
    pub(crate) fn wait_idle(&self, queue: u32) -> Result<(), BenchError> {
        let started = Instant::now();
        let asleep = u64::from(queue) * doorbell::DOORBELL_BYTES + doorbell::ASLEEP_OFFSET;
        loop {
            std::thread::sleep(Duration::from_micros(200));
            self.device.write_register(register::QUEUE_SELECT, u64::from(queue));
            if self.device.read_register(register::QUEUE_CONTROL) == queue_state::FAULTED {
                return Err(BenchError::Device(format!("queue {queue} faulted")));
            }
            let done = self.device.read_register(register::QUEUE_READ_POINTER) == self.pointers[queue as usize];
            if done && Word::load(self.device.doorbell_page().word(asleep)) != 0 {
                return Ok(());
            }
            if started.elapsed() > STUCK_AFTER {
                return Err(BenchError::Device(format!("queue {queue} is stuck")));
            }
        }
    }

    /// The word at a virtual address of the window.
    pub(crate) fn word(&self, va: u64) -> &AtomicU64 {
        self.device.local_memory().word(va)
    }

    /// Makes the pair of words at `va` (CurrentValue) and `va + 128` (MonitoredValue) a fence without waiters.
    pub(crate) fn clear_fence(&self, va: u64) {
        Word::store(self.word(va), 0);
        Word::store(self.word(va + 128), fence::MONITORED_NONE);
    }

    /// The value of a performance counter of the device.
    pub(crate) fn counter(&self, offset: u32) -> u64 {
        self.device.read_register(offset)
    }

    /// How often the pin has gone up.
    pub(crate) fn interrupts(&self) -> u64 {
        self.pin.0.load(Ordering::Relaxed)
    }

    /// Local memory.
    pub(crate) fn local(&self) -> &Memory {
        self.device.local_memory()
    }

    /// System memory.
    pub(crate) fn system(&self) -> &Memory {
        &self.system
    }
}

/// Where a queue's `index`th log entry goes.
pub(crate) fn log_slot(queue: u32, index: u64) -> LogSlot {
    let log = LOGS + u64::from(queue) * LOG_BYTES;
    let entry_va = log + 64 + index % LOG_ENTRIES * LOG_ENTRY_BYTES;
    LogSlot { entry_va, header_va: log, handle: 1 }
}

fn ring_va(queue: u32) -> u64 {
    RINGS + u64::from(queue) * RING_BYTES
}

/// Writes page tables that map the window one to one: root, one table of each level below, a leaf table every 2 MiB.
fn map_window(local: &Memory) {
    let entry = |table: u64, index: u64, to: u64| Word::store(local.word(table + index * 8), to | VALID | COHERENT);
    let (upper, middle) = (ROOT + TABLE_BYTES, ROOT + 2 * TABLE_BYTES);
    entry(ROOT, 0, upper);
    entry(upper, 0, middle);
    let coverage = |level| SHAPE.coverage(level);
    for leaf in 0..WINDOW_BYTES / coverage(1) {
        let table = ROOT + (3 + leaf) * TABLE_BYTES;
        entry(middle, leaf, table);
        (0..coverage(1) / coverage(0)).for_each(|page| entry(table, page, leaf * coverage(1) + page * coverage(0)));
    }
}
