//! The seam between a driver and its device: registers, memory behind the bus, doorbells, interrupt pins; and between the
//! device and its platform: the IOMMU.
//!
//! # Law of this boundary
//! - The device trusts nothing that comes over it: any register may be written with any value at any time, any memory may
//!   hold any bytes. It answers with a fault record, never with a panic.
//! - A register access is complete when it returns. Accesses may come from any thread; a driver that selects and then
//!   writes (queue registers) serialises itself.
//! - An interrupt pin is asserted from the device's own thread, or from within a register access. The receiver may not call back into the
//!   device from there: it notes the fact and returns.
//! - Nothing here knows of allocations, processes or fences: those are words of the driver model, above.

use std::sync::Arc;

use shared_words::Memory;

/// A device as its driver reaches it over the bus.
pub trait DevicePort: Send + Sync {
    /// Reads a 64-bit register. Unknown offsets read 0.
    fn read_register(&self, offset: u32) -> u64;

    /// Writes a 64-bit register. Unknown and read-only offsets ignore it.
    fn write_register(&self, offset: u32, value: u64);

    /// The device's local memory, whole, as a resized BAR shows it.
    fn local_memory(&self) -> &Arc<Memory>;

    /// The doorbell window: where which doorbell is, the data sheet says; each is as [`shared_words::doorbell`] has it.
    fn doorbell_page(&self) -> &Arc<Memory>;

    /// A producer rang the doorbell of this number and found the engine asleep. A device in silicon sees the store itself; the producer
    /// that read the sleeping flag tells one in software.
    fn doorbell_rung(&self, index: u32);
}

/// Another device's way to a device: the doorbell that its peers ring, without a processor between (sync §3.18). Rung from any thread of
/// the peer, which may own an engine then: the device that is rung makes no call back.
pub trait PeerBell: Send + Sync {
    /// The device with this number has written into its lane ([`shared_words::peer`]), at this time of its own.
    fn rung(&self, source: u32, at_ns: u64);
}

/// The platform's IOMMU as the devices behind it see it: where an address of a process leads. A process is named by the number that the
/// platform gave it (PASID), and the platform decides what its addresses mean. Any thread of a device may ask, and may own an engine
/// then: the IOMMU answers at once and makes no call back.
pub trait Iommu: Send + Sync {
    /// The longest run of consecutive system pages from a page of the process's addresses on, at most `pages_max` of them
    /// (not 0) and all with the same rights. `None`: nothing is mapped there.
    fn translate(&self, pasid: u32, page: u64, pages_max: u64) -> Option<IommuRun>;
}

/// Consecutive pages of a process that are consecutive in system memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IommuRun {
    /// The first system page.
    pub system_page: u64,
    /// How many, 1 at least.
    pub pages: u64,
    /// A device may write them.
    pub writable: bool,
}

/// The CPU's caches as a device on a coherent platform finds them: an access that snoops meets what they hold, any other meets memory.
/// Asked from any thread of a device: they answer at once and call no other part.
pub trait CpuCaches: Send + Sync {
    /// Whether they hold a page of system memory.
    fn holds(&self, system_page: u64) -> bool;

    /// The bytes that they hold, by system physical address; only of pages that they hold.
    fn lines(&self) -> &Arc<Memory>;
}

/// A device's cache of the IOMMU's answers.
pub trait TranslationCache: Send + Sync {
    /// Forgets what it knows of a process's addresses from `first` to `last`, both inclusive; both 0: of all. When this
    /// returns no access uses an older answer. The caller holds nothing that [`Iommu::translate`] needs.
    fn invalidate(&self, pasid: u32, first: u64, last: u64);
}

/// Where a device's interrupt pin ends. Level-triggered: asserted while the device holds a record.
pub trait InterruptPin: Send + Sync {
    /// The pin has gone up. May be called again while it is up.
    fn assert(&self);
}

/// The monitor on a device's displays. The device's own thread calls it, and holds no lock then.
pub trait Monitor: Send + Sync {
    /// A frame was scanned out, from its first row to its last.
    fn frame(&self, frame: &Frame<'_>);
}

/// A frame as a monitor got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The display that the frame is of.
    pub display: u32,
    /// The number of the blank before it.
    pub number: u64,
    /// Device time of that blank.
    pub at_ns: u64,
    /// Texels of a row.
    pub width: u32,
    /// Rows of the frame.
    pub height: u32,
    /// 32 bits each, row by row: blue in the low byte, green, red. None where no content exists.
    pub texels: &'a [u32],
    /// Its rows belong to more than one picture: an engine or the CPU wrote into the shown surface, or a flip replaced it behind the
    /// blank.
    pub torn: bool,
}

/// A device that runs by being told the time instead of by itself: the same device, in virtual time.
pub trait Clocked: Send + Sync {
    /// When the device will next do something by itself, in nanoseconds; `None` when it has nothing to do.
    fn next_event(&self) -> Option<u64>;

    /// Whether that is of the kind that comes again and again whatever happens, such as the vertical blanks of a display.
    fn next_event_recurs(&self) -> bool {
        false
    }

    /// Lets the device do everything that it does up to and including `now`.
    fn tick(&self, now: u64);
}

/// A logic analyser that is clipped to the device. For traces; the device works the same without.
pub trait Probe: Send + Sync {
    /// At device time `at_ns` this happened.
    fn observe(&self, at_ns: u64, what: Observation);

    /// Whether it looks from power-on, or when it is asked to. Asked once.
    fn looks_at_once(&self) -> bool {
        true
    }

    /// Whether the analyser is a test bench that gives each unit of the device a store buffer: a word that others wait for is stored there
    /// first, and is in memory when the unit puts its next barrier, or long after. Asked once. Without it the order of stores is the
    /// computer's, which in virtual time, on one thread, shows no barrier that is missing.
    fn buffers_stores(&self) -> bool {
        false
    }

    /// A unit has stored a value into its buffer, for a bus address (`None`: a word of the device's own). Whether it overtakes what lies
    /// there already, and is in memory at once.
    fn stored(&self, unit: Unit, bus: Option<u64>, value: u64) -> bool {
        let _ = (unit, bus, value);
        false
    }
}

/// A part of a device that stores words for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// An engine, by its number.
    Engine(u32),
    /// The context management processor, which does what registers ask, too.
    Cmp,
}

/// One thing seen at the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// An engine began a command that takes time (not waits, signals, branches).
    Begin {
        /// Engine number.
        engine: u32,
        /// Queue number.
        queue: u32,
        /// The command's kind.
        kind: &'static str,
        /// Bytes it moves or touches.
        bytes: u64,
    },
    /// The engine finished it.
    End {
        /// Engine number.
        engine: u32,
        /// Queue number.
        queue: u32,
    },
    /// A signal command stored a value.
    Signal {
        /// Queue number.
        queue: u32,
        /// Bus address of the word.
        bus: u64,
        /// The value.
        value: u64,
        /// Whether it interrupted.
        interrupt: bool,
    },
    /// An engine's look at MonitoredValue, behind its barrier, said that a CPU waiter needs the value: it asks the context management
    /// processor whether to interrupt.
    Asked {
        /// Queue number.
        queue: u32,
        /// Bus address of CurrentValue.
        bus: u64,
        /// The value.
        value: u64,
    },
    /// A wait command did not find its value.
    WaitBegin {
        /// Queue number.
        queue: u32,
        /// Bus address of the word.
        bus: u64,
        /// The value wanted.
        value: u64,
    },
    /// A wait goes on: at once, or after [`Observation::WaitBegin`].
    WaitEnd {
        /// Queue number.
        queue: u32,
        /// Bus address of the word.
        bus: u64,
        /// The value wanted.
        value: u64,
    },
    /// A queue faulted.
    Fault {
        /// Queue number.
        queue: u32,
        /// Virtual address.
        va: u64,
        /// Why, in words.
        cause: &'static str,
    },
    /// An engine has a queue from now on, under the name that the driver has for its owner; 0: none.
    Attached {
        /// Queue number.
        queue: u32,
        /// The owner's name.
        owner: u64,
    },
    /// A queue began a buffer whose end the device reports by this value: until the next one its commands are this buffer's.
    Buffer {
        /// Engine number.
        engine: u32,
        /// Queue number.
        queue: u32,
        /// The value.
        value: u64,
    },
}
