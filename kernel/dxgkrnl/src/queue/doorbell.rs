//! Doorbells of hardware queues that their process submits to by itself: created, connected, taken away, destroyed (sync §2.9, §3.17).
//! `connection` has their life. Connected, the process rings the physical doorbell; else it rings at a page that leads nowhere, and its status
//! says so.
//!
//! [`Doorbells`] owns where each doorbell is in that life, its status word, the page that its process rings at, and which allocations are
//! rings (`ring`). It is not where words and rings come from, nor what has to happen to engines, logs and queues before a doorbell may be
//! connected: that is `adapter/doorbell.rs`. It may ask the driver, and counts. Between calls:
//! - `Connected` means that the driver has assigned a physical doorbell, that the page shows it, and that the status word says so.
//! - A doorbell stands in `rings` under its process, its device and its ring as long as it lives, and nothing else does.

mod connection;
mod lent;
mod ring;

use std::collections::{BTreeMap, BTreeSet};

use ddi::{ConnectedDoorbell, CreateDoorbell, DoorbellHost, DriverStatus, KmdDoorbell, KmdQueue, OsDoorbell, OsQueue};
use events::{DoorbellTaken, Event};
use kmt_calls::{DoorbellAddress, Refusal};
use shared_words::{Memory, Word};
use vidmm::{AllocationId, StateDigest};
use vidsch::Powered;
use wddm_types::{AdapterIndex, GpuVa, ProcessId, WordAddress};

use self::connection::{Change, Connection};
use self::lent::LentDoorbells;
use crate::breach::Breach;
use crate::driver::EntryPoints;
use crate::effect::Cx;
use crate::number::{DeviceNumber, DoorbellNumber, QueueNumber};
use crate::platform::Shown;
use crate::refusal::{from_driver, not_supported, removed};
use crate::store::{ObjectNumber, Store};
use crate::tally::Tally;

/// Bits of a doorbell's address below its adapter's index.
const NUMBER_BITS: u32 = 40;

/// `D3DDDI_DOORBELLSTATUS` (sync §2.9).
pub mod doorbell_status {
    pub const CONNECTED: u64 = 0;
    pub const CONNECTED_NOTIFY_KMD: u64 = 1;
    pub const DISCONNECTED_RETRY: u64 = 2;
    pub const DISCONNECTED_ABORT: u64 = 3;
}

/// The doorbells of an adapter.
#[derive(Default)]
pub struct Doorbells {
    doorbells: Store<DoorbellNumber, Doorbell>,
    /// The allocations of each device that are rings, with the doorbells that they are rings of.
    rings: BTreeMap<(ProcessId, DeviceNumber), BTreeMap<AllocationId, BTreeSet<DoorbellNumber>>>,
}

/// A doorbell.
#[derive(Clone, Copy, Debug)]
struct Doorbell {
    of: DoorbellUse,
    kmd: KmdDoorbell,
    words: DoorbellWords,
    connection: Connection,
}

/// The queue that a doorbell is for, and where its ring is.
#[derive(Clone, Copy, Debug)]
pub struct DoorbellUse {
    pub queue: QueueNumber,
    pub process: ProcessId,
    pub device: DeviceNumber,
    /// Where the engine fetches commands, and how many bytes the ring has.
    pub place: (GpuVa, u64),
}

/// The places at which a process finds its doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoorbellWords {
    /// Where it rings.
    pub address: DoorbellAddress,
    /// Written by the process before each ring (sync §3.11).
    pub last_queued: WordAddress,
    /// Written by the kernel only.
    pub status: WordAddress,
}

/// The leaves and the turn of one call.
pub struct Lent<'a, 'b> {
    /// The adapter, as events name it.
    pub adapter: AdapterIndex,
    pub driver: EntryPoints<'a>,
    pub shown: Shown<'a>,
    pub tally: &'a mut Tally,
    pub cx: &'a mut Cx<'b>,
}

impl Lent<'_, '_> {
    fn driver(&mut self) -> &mut dyn ddi::Doorbells {
        self.driver.again().doorbells().expect("it made this doorbell")
    }

    fn set_status(&self, word: WordAddress, status: u64) {
        Word::store(self.shown.memory.word(word.0), status);
    }

    fn tell_taken(&mut self, queue: QueueNumber, why: DoorbellTaken) {
        self.cx.emit(self.adapter, Event::DoorbellDisconnected { queue: queue.raw(), why });
    }
}

impl Doorbells {
    /// A doorbell of a process, disconnected, with words that are its own: first that of the last queued value, then that of its status.
    /// The private data are the driver's now.
    ///
    /// # Errors
    /// The driver has none, or refuses.
    // spec: sync §2.9, sync §3.17
    pub fn create(
        &mut self,
        lent: &mut Lent<'_, '_>,
        kmd_queue: KmdQueue,
        (of, ring): (DoorbellUse, AllocationId),
        (last_queued, status): (WordAddress, WordAddress),
        private_data: &mut [u8],
    ) -> Result<(DoorbellNumber, DoorbellWords), Refusal> {
        let number = self.doorbells.next_number();
        let Some(driver) = lent.driver.again().doorbells() else {
            return Err(not_supported("the driver has no doorbells"));
        };
        let create = CreateDoorbell {
            queue: kmd_queue,
            os_queue: OsQueue(of.queue.raw()),
            doorbell: OsDoorbell(number.raw()),
            ring: of.place.0,
            ring_bytes: of.place.1,
            private_data,
        };
        let kmd = driver.create_doorbell(create).map_err(from_driver)?;
        let words = DoorbellWords { address: address(lent.adapter, number), last_queued, status };
        let doorbell = Doorbell { of, kmd, words, connection: Connection::Disconnected };
        assert_eq!(self.doorbells.insert(doorbell), number);
        let fresh = self.rings.entry((of.process, of.device)).or_default().entry(ring).or_default().insert(number);
        debug_assert!(fresh, "a doorbell has one ring: {number:?}");
        if let Some(pages) = lent.shown.pages {
            pages.made(words.address, of.process);
        }
        let driver_data = first_word(private_data);
        lent.cx.emit(lent.adapter, Event::DoorbellCreated { queue: of.queue.raw(), driver_data });
        Ok((number, words))
    }

    /// The driver connects a doorbell, and its page shows the physical one. Its process learns of that with
    /// [`Doorbells::tell_connected`]. A doorbell that the driver does not connect is lost.
    ///
    /// # Errors
    /// There is no doorbell where the driver says that it is.
    // spec: sync §3.17
    pub fn connect(
        &mut self,
        lent: &mut Lent<'_, '_>,
        number: DoorbellNumber,
        powered: Powered,
    ) -> Result<Result<ConnectedDoorbell, Refusal>, Breach> {
        let Doorbell { kmd, words, .. } = self.doorbells[number];
        let (connected, taken) = self.connect_in_driver(lent, kmd, powered);
        for queue in taken {
            lent.tally.doorbell_passed_on();
            lent.tell_taken(queue, DoorbellTaken::Driver);
        }
        let connected = match connected {
            Ok(connected) => connected,
            Err(error) => {
                self.abort(lent, number);
                return Ok(Err(removed(error.to_string())));
            }
        };
        self.change_connection(number, Change::Connect);
        if lent.shown.pages.is_some_and(|pages| !pages.show(words.address, Some(connected.offset))) {
            return Err(Breach(format!("a doorbell was connected at {:#x}, where there is none", connected.offset)));
        }
        Ok(Ok(connected))
    }

    /// With the queues whose doorbells the driver takes away for that.
    fn connect_in_driver(
        &mut self,
        lent: &mut Lent<'_, '_>,
        kmd: KmdDoorbell,
        _powered: Powered,
    ) -> (Result<ConnectedDoorbell, DriverStatus>, Vec<QueueNumber>) {
        let mut others = LentDoorbells { doorbells: &mut self.doorbells, shown: lent.shown, taken: Vec::new() };
        let host: &mut dyn DoorbellHost = &mut others;
        (lent.driver().connect_doorbell(host, kmd), others.taken)
    }

    /// The process of a connected doorbell may ring it, and finds that in its status.
    pub fn tell_connected(&self, lent: &mut Lent<'_, '_>, number: DoorbellNumber, connected: ConnectedDoorbell) {
        let Doorbell { of, words, .. } = self.doorbells[number];
        let notify = connected.notify;
        let word = if notify { doorbell_status::CONNECTED_NOTIFY_KMD } else { doorbell_status::CONNECTED };
        lent.set_status(words.status, word);
        lent.tally.doorbell_connected();
        lent.cx.emit(lent.adapter, Event::DoorbellConnected { queue: of.queue.raw(), offset: connected.offset });
    }

    /// The kernel takes a connected doorbell away: its process finds out when it has rung, and connects it again.
    // spec: sync §3.17
    pub fn disconnect(&mut self, lent: &mut Lent<'_, '_>, number: DoorbellNumber, why: DoorbellTaken) {
        let Doorbell { of, kmd, words, connection } = self.doorbells[number];
        if connection != Connection::Connected {
            return;
        }
        let change = if why == DoorbellTaken::Lost { Change::Lose } else { Change::Take };
        let word = self.change_connection(number, change).status().expect("one that was taken away rings nowhere");
        let shown = lent.shown;
        let driver = lent.driver();
        shown.take_away(words.address, words.status, word, || driver.disconnect_doorbell(kmd));
        lent.tell_taken(of.queue, why);
    }

    /// Something happens to a doorbell. Answers with where it is then.
    fn change_connection(&mut self, number: DoorbellNumber, change: Change) -> Connection {
        let doorbell = &mut self.doorbells[number];
        doorbell.connection = doorbell.connection.after(change);
        doorbell.connection
    }

    /// The device of a doorbell is lost: its process has to destroy the doorbell with its queue, and connects it no more.
    // spec: sync §3.17
    pub fn abort(&mut self, lent: &mut Lent<'_, '_>, number: DoorbellNumber) {
        self.disconnect(lent, number, DoorbellTaken::Lost);
        self.change_connection(number, Change::Lose);
        lent.set_status(self.doorbells[number].words.status, doorbell_status::DISCONNECTED_ABORT);
    }

    /// The adapter stops: so it is with every doorbell. The driver has broken the contract and is told as they are destroyed.
    // spec: sync §3.17
    pub fn abort_all(&self, shown: Shown<'_>) {
        for (_, Doorbell { words, .. }) in self.doorbells.iter() {
            shown.take_away(words.address, words.status, doorbell_status::DISCONNECTED_ABORT, || {});
        }
    }

    /// A doorbell goes. Its queue and its device, and its words, which nothing writes any more.
    pub fn destroy(&mut self, lent: &mut Lent<'_, '_>, number: DoorbellNumber) -> (DoorbellUse, DoorbellWords) {
        let Doorbell { of, kmd, words, connection } =
            self.doorbells.remove(number).expect("a doorbell is destroyed once");
        // Later stores there reach no doorbell.
        if let Some(pages) = lent.shown.pages {
            pages.gone(words.address);
        }
        let driver = lent.driver();
        if connection == Connection::Connected {
            driver.disconnect_doorbell(kmd);
        }
        driver.destroy_doorbell(kmd);
        self.forget_ring(of, number);
        (of, words)
    }

    /// The queue of a doorbell that there is.
    pub fn queue_of(&self, number: DoorbellNumber) -> Option<QueueNumber> {
        Some(self.doorbells.get(number)?.of.queue)
    }

    /// Whether a doorbell is lost: its process can only destroy it.
    pub fn is_lost(&self, number: DoorbellNumber) -> bool {
        self.doorbells[number].connection == Connection::Aborted
    }

    /// The last value of the progress fence for which a process says that it has queued work; `None`: there is no doorbell.
    // spec: sync §3.11
    pub fn queued(&self, memory: &Memory, number: Option<DoorbellNumber>) -> Option<u64> {
        let doorbell = self.doorbells.get(number?)?;
        Some(Word::load(memory.word(doorbell.words.last_queued.0)))
    }

    /// All of them.
    pub fn numbers(&self) -> impl Iterator<Item = DoorbellNumber> {
        self.doorbells.iter().map(|(number, _)| number)
    }

    /// Some doorbell that is connected.
    pub fn connected(&self) -> Option<DoorbellNumber> {
        let connected = |(_, doorbell): &(DoorbellNumber, &Doorbell)| doorbell.connection == Connection::Connected;
        self.doorbells.iter().find(connected).map(|(number, _)| number)
    }

    /// For the digest of the adapter's state.
    pub fn add_to(&self, digest: &mut StateDigest) {
        self.doorbells.iter().for_each(|(number, doorbell)| digest.add("doorbell", &number, doorbell));
        self.rings.iter().for_each(|(device, rings)| digest.add("rings of device", device, rings));
    }
}

/// Where processes ring an adapter's doorbell.
fn address(adapter: AdapterIndex, number: DoorbellNumber) -> DoorbellAddress {
    debug_assert_eq!(number.raw() >> NUMBER_BITS, 0, "a doorbell's number has no bits of the adapter's index");
    DoorbellAddress(u64::from(adapter.0) << NUMBER_BITS | number.raw())
}

/// How private data begin, as tools of the driver read them.
fn first_word(private_data: &[u8]) -> u64 {
    private_data.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
