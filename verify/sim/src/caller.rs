//! A process that makes one call at a time on an adapter of any kind: the bystander is one, and the holders are. It works through a plan
//! of [`Deed`]s and keeps what the kernel answers; the plan is its owner's.

mod answer;
mod deed;
mod issue;

pub use deed::{Deed, Job, Way, Wish};

use std::collections::VecDeque;
use std::sync::Arc;

use dxgk_host::{Host, Pending, ProcessLink, Profile};
use kmt_calls::{Call, CreatedFence, LockCall, Refusal, SignalFlags, SyncCall};
use kmt_link::MappedBytes;
use shared_words::Word;
use softgpu_spec::pattern::report;
use wddm_types::{GpuVa, Luid, ProcessId, RawHandle, WordAddress};

/// Slot of the surface in which command buffers lie, and what checks report.
pub const COMMANDS: usize = 0;
/// Command buffers that lie beside each other there: so many submissions a device may make.
pub const BUFFERS_MAX: u64 = 256;
/// Bytes of one.
const BUFFER_BYTES: u64 = 256;
/// Where checks report, behind them.
const REPORT: u64 = BUFFERS_MAX * BUFFER_BYTES;
/// Bytes of the surface.
pub const COMMANDS_BYTES: u64 = REPORT + 4096;
/// Slots of a caller.
pub const SLOTS: usize = 6;

/// The ways of work to the engines of an adapter, and what its memory is like.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Each way with its node.
    pub ways: Vec<(Way, u16)>,
    /// Allocations get their addresses by calls.
    pub maps: bool,
    /// Engines name memory by lists, and no call makes it resident.
    pub first_generation: bool,
    /// The CPU sees memory segments without a window: what it may lock needs no aperture.
    pub visible: bool,
}

impl Ground {
    /// That of an adapter; `packets`: its driver shows that it takes them.
    pub fn of(profile: &Profile, packets: bool) -> Ground {
        let driver = &profile.driver;
        let (maps, cpu_addresses) = (driver.has_page_tables(), driver.uses_cpu_addresses());
        let mut ways = Vec::new();
        for node in 0..2 {
            if driver.translates() && driver.hardware_queues {
                ways.push((Way::Queue, node));
            }
            if packets && (maps || cpu_addresses) && (node == 0 || driver.copy_addresses) {
                ways.push((Way::Addresses, node));
            }
            if packets && !cpu_addresses {
                ways.push((Way::Lists, node));
            }
        }
        Ground { ways, maps, first_generation: !driver.translates(), visible: driver.cpu_visible }
    }
}

/// A queue or a packet context, and the fence that its work signals.
#[derive(Debug)]
struct Lane {
    way: Way,
    context: RawHandle,
    queue: RawHandle,
    progress: Option<(RawHandle, WordAddress)>,
    /// The value of its last submission.
    last: u64,
    /// A fence that the CPU alone signals, and the value that the lane waits for.
    gate: Option<(RawHandle, u64)>,
}

/// An allocation.
struct Surface {
    handle: RawHandle,
    bytes: u64,
    va: GpuVa,
    /// Lists may name it.
    physical: bool,
    listed: u32,
    lock: Option<MappedBytes>,
}

/// The addresses for tiles: two regions, of which the first may show a surface and the second the same.
struct Tiles {
    base: GpuVa,
    fence: Option<(RawHandle, u64)>,
    shown: [Option<usize>; 2],
}

/// What the kernel has given to a device.
#[derive(Default)]
struct Book {
    device: RawHandle,
    paging: Option<(RawHandle, CreatedFence)>,
    /// The paging-fence value from which everything asked for is there.
    due: u64,
    lanes: Vec<Lane>,
    slots: [Option<Surface>; SLOTS],
    /// A long list of allocations.
    many: Vec<RawHandle>,
    tiles: Option<Tiles>,
    written: u64,
    /// The GPU was given what it may not be given.
    guilty: bool,
}

/// A process.
pub struct Caller {
    /// Its number in the kernel.
    pub id: ProcessId,
    /// The calls that it has made.
    pub calls: u64,
    link: Option<Arc<ProcessLink>>,
    ground: Ground,
    luid: Luid,
    adapter: RawHandle,
    book: Book,
    plan: VecDeque<Deed>,
    pending: Option<(Pending, Deed)>,
}

/// What became of a deed.
pub enum Outcome {
    /// It is done, or its call is under way.
    Fine,
    /// The kernel refused it.
    Refused(Deed, Refusal),
}

impl Caller {
    /// A process on a host, without a device.
    pub fn new(host: &Arc<Host>, ground: Ground) -> Caller {
        let link = ProcessLink::new(Arc::clone(host));
        Caller {
            id: link.process(),
            calls: 0,
            link: Some(link),
            ground,
            luid: host.luid(),
            adapter: RawHandle::NONE,
            book: Book::default(),
            plan: VecDeque::new(),
            pending: None,
        }
    }

    /// The ways that work takes here.
    pub fn ground(&self) -> &Ground {
        &self.ground
    }

    /// Whether it has nothing planned, and no call under way.
    pub fn is_free(&self) -> bool {
        self.pending.is_none() && self.plan.is_empty()
    }

    /// The deed whose call waits for its answer.
    pub fn waits_in(&self) -> Option<&Deed> {
        self.pending.as_ref().map(|(_, deed)| deed)
    }

    /// Plans deeds behind those that are planned.
    pub fn plan(&mut self, deeds: impl IntoIterator<Item = Deed>) {
        self.plan.extend(deeds);
    }

    /// A device with lanes of these ways, and memory for their commands.
    pub fn plan_device(&mut self, lanes: &[(Way, u16)]) {
        if self.adapter == RawHandle::NONE {
            self.plan.push_back(Deed::Open);
        }
        self.plan.extend([Deed::Device, Deed::PagingQueue]);
        // Buffers of the first generation are handed over with the call.
        if !self.ground.first_generation {
            let (slot, wish) = (COMMANDS, Wish::commands());
            self.plan.extend([Deed::Create { slot, wish }, Deed::Map { slot }, Deed::Resident { slots: vec![slot] }]);
            self.plan.extend([Deed::AwaitPaging, Deed::Lock { slot }]);
        }
        for (lane, (way, node)) in lanes.iter().enumerate() {
            self.plan.extend([Deed::Context { way: *way, node: *node }, Deed::Progress { lane }]);
        }
    }

    /// Whether its device has all of that.
    pub fn is_set_up(&self) -> bool {
        let lanes = &self.book.lanes;
        let locked = self.surface(COMMANDS).is_some_and(|surface| surface.lock.is_some());
        (locked || self.ground.first_generation)
            && !lanes.is_empty()
            && lanes.iter().all(|lane| lane.progress.is_some())
    }

    /// Whether it has a device.
    pub fn has_device(&self) -> bool {
        self.book.device != RawHandle::NONE
    }

    /// Whether a lane of its device names memory by lists.
    pub fn has_lists(&self) -> bool {
        self.book.lanes.iter().any(|lane| lane.way == Way::Lists)
    }

    /// Lanes of its device.
    pub fn lanes(&self) -> usize {
        self.book.lanes.len()
    }

    /// Whether the GPU was given what it may not be given: the device will be lost, or is.
    pub fn is_guilty(&self) -> bool {
        self.book.guilty
    }

    /// Whether the device may submit more.
    pub fn has_buffers(&self) -> bool {
        self.book.written < BUFFERS_MAX
    }

    /// Whether it has addresses for tiles.
    pub fn has_tiles(&self) -> bool {
        self.book.tiles.is_some()
    }

    /// Slots with a surface of which this is true.
    pub fn slots(&self, wanted: impl Fn(u32, bool) -> bool) -> Vec<usize> {
        let found = |slot: &usize| self.surface(*slot).is_some_and(|of| wanted(of.listed, of.lock.is_some()));
        (COMMANDS + 1..SLOTS).filter(found).collect()
    }

    /// The slots without a surface.
    pub fn free_slots(&self) -> impl Iterator<Item = usize> + '_ {
        (COMMANDS + 1..SLOTS).filter(|slot| self.surface(*slot).is_none())
    }

    /// Does the next deed, unless a call is under way.
    ///
    /// # Errors
    /// An answer that no kernel gives.
    pub fn turn(&mut self, host: &Host) -> Result<Outcome, String> {
        if self.pending.is_some() {
            return Ok(Outcome::Fine);
        }
        while let Some(deed) = self.plan.pop_front() {
            let Some(call) = self.issue(&deed) else { continue };
            self.calls += 1;
            return match host.begin_call(self.id, call) {
                Ok(result) => self.answered(deed, result),
                Err(pending) => {
                    self.pending = Some((pending, deed));
                    Ok(Outcome::Fine)
                }
            };
        }
        Ok(Outcome::Fine)
    }

    /// Takes the answer, if it has come.
    ///
    /// # Errors
    /// As of [`Caller::turn`].
    pub fn take_answer(&mut self, host: &Host) -> Result<Outcome, String> {
        let Some((pending, _)) = &self.pending else { return Ok(Outcome::Fine) };
        let Some(result) = host.take_answer(*pending) else { return Ok(Outcome::Fine) };
        let (_, deed) = self.pending.take().expect("just seen");
        self.answered(deed, result)
    }

    /// The signals that end what its lanes wait for. Another of its threads makes the calls: they do not wait.
    pub fn opening(&self) -> Vec<Call> {
        let gates = self.book.lanes.iter().filter_map(|lane| lane.gate);
        let signal = |(fence, value)| SyncCall::SignalSynchronizationObjectFromCpu {
            device: self.book.device,
            points: vec![(fence, value)],
            flags: SignalFlags::empty(),
        };
        gates.map(|gate| Call::Sync(signal(gate))).collect()
    }

    /// Ends its locks. Another of its threads makes the calls, for this one may wait for work that the locks keep out (memory §10.1 row 23).
    pub fn unlocking(&mut self) -> Vec<Call> {
        let device = self.book.device;
        let surfaces = self.book.slots[COMMANDS + 1..].iter_mut().flatten();
        let locked = surfaces.filter_map(|surface| surface.lock.take().map(|_| surface.handle));
        locked.map(|allocation| Call::Lock(LockCall::Unlock2 { device, allocation })).collect()
    }

    /// The first lane whose work is not done, for people.
    pub fn undone(&self) -> Option<String> {
        self.book.lanes.iter().enumerate().find_map(|(nth, lane)| {
            let (_, word) = lane.progress?;
            let done = self.read(word);
            (done < lane.last).then(|| format!("lane {nth} of process {} is at {done} of {}", self.id.0, lane.last))
        })
    }

    /// What the GPU has found wrong.
    ///
    /// # Errors
    /// A word that is not what was written.
    pub fn look(&self) -> Result<(), String> {
        let Some(lock) = self.surface(COMMANDS).and_then(|surface| surface.lock.as_ref()) else { return Ok(()) };
        let word = |at: u64| lock.read_word(REPORT + at * 8);
        match word(report::TAG) {
            0 => Ok(()),
            tag => Err(format!(
                "process {}: surface {} at {:#x}: found {:#x}, expected {:#x}",
                self.id.0,
                tag - 1,
                word(report::OFFSET),
                word(report::FOUND),
                word(report::EXPECTED)
            )),
        }
    }

    /// It dies in the middle of everything.
    pub fn die(&mut self) {
        self.book = Book::default();
        self.plan.clear();
        self.pending = None;
        self.link = None;
    }

    fn surface(&self, slot: usize) -> Option<&Surface> {
        self.book.slots[slot].as_ref()
    }

    fn read(&self, word: WordAddress) -> u64 {
        Word::load(self.link().system_memory().word(word.0))
    }

    fn link(&self) -> &Arc<ProcessLink> {
        self.link.as_ref().expect("a process that acts is alive")
    }
}
