//! Doorbells of hardware queues that their process submits to by itself: created, connected, taken away, destroyed (sync §2.9, §3.17).
//! `connection` has their life. Connected, the process rings the physical doorbell; else it rings at a page that leads nowhere, and its status
//! says so.

mod connection;
mod lent;
mod ring;

use ddi::{CreateDoorbell, DOORBELL_PRIVATE_DATA_MAX, OsDoorbell, OsQueue};
use events::{DoorbellTaken, Event};
use kmt_calls::{DoorbellAddress, Refusal};
use shared_words::Word;
use wddm_types::{AdapterIndex, GpuVa, Pages, ProcessId, WordAddress};

use self::connection::Change;
pub use self::connection::Connection;
use self::lent::LentDoorbells;
use crate::adapter::Adapter;
use crate::allocations::AllocationNumber;
use crate::breach::Breach;
use crate::machine::Cx;
use crate::object::{Doorbell, DoorbellNumber, QueueNumber};
use crate::platform::Shown;
use crate::refusal::{from_driver, invalid, no_memory, not_supported, removed};
use crate::store::ObjectNumber;

/// Bits of a doorbell's address below its adapter's index.
const NUMBER_BITS: u32 = 40;

/// `D3DDDI_DOORBELLSTATUS` (sync §2.9).
mod doorbell_status {
    pub const CONNECTED: u64 = 0;
    pub const CONNECTED_NOTIFY_KMD: u64 = 1;
    pub const DISCONNECTED_RETRY: u64 = 2;
    pub const DISCONNECTED_ABORT: u64 = 3;
}

/// The arguments of `D3DKMTCreateDoorbell`.
pub struct NewDoorbell {
    pub queue: QueueNumber,
    pub ring: AllocationNumber,
    /// Null: where its process has all of it mapped.
    pub ring_va: GpuVa,
    pub private_data: Vec<u8>,
}

impl Adapter {
    /// `D3DKMTCreateDoorbell`: the ring is an allocation of the queue's device. The private data are the driver's now.
    // spec: sync §2.9, sync §3.17
    pub fn create_doorbell(&mut self, cx: &mut Cx<'_>, new: NewDoorbell) -> Result<(DoorbellNumber, Vec<u8>), Refusal> {
        let NewDoorbell { queue, ring, ring_va, mut private_data } = new;
        let (device, user_mode, kmd_queue) =
            (self.queues[queue].device, self.queues[queue].user_mode, self.queues[queue].kmd);
        if !user_mode {
            return Err(invalid("the queue was created without UserModeSubmission"));
        }
        if self.queues[queue].doorbell.is_some() {
            return Err(invalid("the queue has a doorbell already"));
        }
        if self.allocations[ring].device != device {
            return Err(invalid("the ring buffer is another device's allocation"));
        }
        if private_data.len() > DOORBELL_PRIVATE_DATA_MAX {
            let bytes = private_data.len();
            return Err(invalid(format!("{bytes} bytes of private data: a doorbell has {DOORBELL_PRIVATE_DATA_MAX}")));
        }
        let ring_bytes = self.vidmm.allocation_bytes(self.allocations[ring].vidmm);
        let process = self.owners.process_of(device);
        let ring_va = match ring_va {
            GpuVa::NULL => self.vidmm.whole_mapping(self.owners.space_of(process), self.allocations[ring].vidmm),
            given => Some(GpuVa(self.vidmm.plain(given))),
        };
        let ring_va = ring_va.ok_or_else(|| invalid("the ring buffer is nowhere mapped whole"))?;
        self.check_updates_at(process, ring_va, ring_bytes)?;
        let number = self.doorbells.next_number();
        let (last_queued, status) = self.take_doorbell_words(cx, process)?;
        let create = CreateDoorbell {
            queue: kmd_queue,
            os_queue: OsQueue(queue.raw()),
            doorbell: OsDoorbell(number.raw()),
            ring: ring_va,
            ring_bytes,
            private_data: &mut private_data,
        };
        let made = match self.driver.call(cx).doorbells() {
            Some(doorbells) => doorbells.create_doorbell(create).map_err(from_driver),
            None => Err(not_supported("the driver has no doorbells")),
        };
        match made {
            Ok(kmd) => {
                let address = doorbell_address(self.index, number);
                let connection = Connection::Disconnected;
                let place = (ring_va, ring_bytes);
                let doorbell = Doorbell { queue, kmd, ring: place, address, last_queued, status, connection };
                assert_eq!(self.doorbells.insert(doorbell), number);
                self.devices[device].rings.entry(self.allocations[ring].vidmm).or_default().insert(number);
                self.queues[queue].doorbell = Some(number);
                if let Some(pages) = cx.platform(self.index).doorbells() {
                    pages.made(address, process);
                }
                let driver_data = first_word(&private_data);
                cx.emit(self.index, Event::DoorbellCreated { queue: queue.raw(), driver_data });
                Ok((number, private_data))
            }
            Err(refusal) => {
                let on_adapter = self.processes.get_mut(&process).expect("a device's process is on the adapter");
                on_adapter.user_words.give_back(last_queued);
                on_adapter.status_words.give_back(status);
                Err(refusal)
            }
        }
    }

    /// The words of a doorbell: the work that its process queued last, and its status.
    fn take_doorbell_words(&mut self, cx: &Cx<'_>, process: ProcessId) -> Result<(WordAddress, WordAddress), Refusal> {
        // A page for each of the two, at most.
        self.make_kernel_room(cx, Pages(2));
        let on_adapter = self.processes.get_mut(&process).expect("a device's process is on the adapter");
        let out_of_pages = || no_memory("no system memory left for doorbell words");
        let pages = self.driver.pages();
        let last_queued = on_adapter.user_words.take(cx, self.index, pages, 0).ok_or_else(out_of_pages)?;
        let status = on_adapter.status_words.take(cx, self.index, pages, doorbell_status::DISCONNECTED_RETRY);
        let Some(status) = status else {
            on_adapter.user_words.give_back(last_queued);
            return Err(out_of_pages());
        };
        Ok((last_queued, status))
    }

    /// Connects a doorbell that can be, on an adapter that has power. Whether the process is to tell the kernel when it has rung.
    // spec: sync §3.17
    pub fn connect_doorbell(&mut self, cx: &mut Cx<'_>, number: DoorbellNumber) -> Result<bool, Refusal> {
        let Doorbell { queue, kmd, address, status, .. } = self.doorbells[number];
        self.raise_engine(cx, self.contexts[self.queues[queue].context].node);
        let shown = Shown { memory: cx.memory, pages: cx.platform(self.index).doorbells() };
        let mut lent = LentDoorbells { doorbells: &mut self.doorbells, shown, taken: Vec::new() };
        let connected =
            self.driver.call(cx).doorbells().expect("it made this doorbell").connect_doorbell(&mut lent, kmd);
        for queue in lent.taken {
            self.tally.doorbell_passed_on();
            cx.emit(self.index, Event::DoorbellDisconnected { queue: queue.raw(), why: DoorbellTaken::Driver });
        }
        let connected = match connected {
            Ok(connected) => connected,
            Err(error) => {
                self.abort_doorbell(cx, number);
                return Err(removed(error.to_string()));
            }
        };
        self.change_connection(number, Change::Connect);
        let shown = self.show_doorbell(cx, address, connected.offset);
        if self.heed(cx, shown).is_none() {
            return Err(removed("the driver has no such doorbell"));
        }
        self.logs_known(cx, queue);
        let word = if connected.notify { doorbell_status::CONNECTED_NOTIFY_KMD } else { doorbell_status::CONNECTED };
        Word::store(cx.memory.word(status.0), word);
        self.tally.doorbell_connected();
        cx.emit(self.index, Event::DoorbellConnected { queue: queue.raw(), offset: connected.offset });
        Ok(connected.notify)
    }

    /// Shows a process the doorbell at an offset that the driver has named.
    fn show_doorbell(&self, cx: &Cx<'_>, address: DoorbellAddress, offset: u64) -> Result<(), Breach> {
        match cx.platform(self.index).doorbells() {
            Some(pages) if !pages.show(address, Some(offset)) => {
                Err(Breach(format!("a doorbell was connected at {offset:#x}, where there is none")))
            }
            _ => Ok(()),
        }
    }

    /// The kernel takes a connected doorbell away: its process finds out when it has rung, and connects it again.
    // spec: sync §3.17
    pub fn disconnect_doorbell(&mut self, cx: &mut Cx<'_>, number: DoorbellNumber, why: DoorbellTaken) {
        let Doorbell { queue, kmd, address, status, connection, .. } = self.doorbells[number];
        if connection != Connection::Connected {
            return;
        }
        let change = if why == DoorbellTaken::Lost { Change::Lose } else { Change::Take };
        let word = self.change_connection(number, change).status().expect("one that was taken away rings nowhere");
        let doorbells = self.driver.call(cx).doorbells().expect("it made this doorbell");
        let shown = Shown { memory: cx.memory, pages: cx.platform(self.index).doorbells() };
        shown.take_away(address, status, word, || doorbells.disconnect_doorbell(kmd));
        cx.emit(self.index, Event::DoorbellDisconnected { queue: queue.raw(), why });
    }

    /// Something happens to a doorbell. Answers with where it is then.
    fn change_connection(&mut self, number: DoorbellNumber, change: Change) -> Connection {
        let doorbell = &mut self.doorbells[number];
        doorbell.connection = doorbell.connection.after(change);
        doorbell.connection
    }

    /// The device of a doorbell is lost: its process has to destroy the doorbell with its queue, and connects it no more.
    // spec: sync §3.17
    pub fn abort_doorbell(&mut self, cx: &mut Cx<'_>, number: DoorbellNumber) {
        self.disconnect_doorbell(cx, number, DoorbellTaken::Lost);
        self.change_connection(number, Change::Lose);
        Word::store(cx.memory.word(self.doorbells[number].status.0), doorbell_status::DISCONNECTED_ABORT);
    }

    /// The adapter stops: so it is with every doorbell. The driver has broken the contract and is told as they are destroyed.
    // spec: sync §3.17
    pub fn abort_all_doorbells(&self, cx: &Cx<'_>) {
        let shown = Shown { memory: cx.memory, pages: cx.platform(self.index).doorbells() };
        for (_, doorbell) in self.doorbells.iter() {
            shown.take_away(doorbell.address, doorbell.status, doorbell_status::DISCONNECTED_ABORT, || {});
        }
    }

    /// `D3DKMTDestroyDoorbell`.
    pub fn destroy_doorbell(&mut self, cx: &Cx<'_>, number: DoorbellNumber) {
        let doorbell = self.doorbells.remove(number).expect("a doorbell is destroyed once");
        // Later stores there reach no doorbell.
        if let Some(pages) = cx.platform(self.index).doorbells() {
            pages.gone(doorbell.address);
        }
        let doorbells = self.driver.call(cx).doorbells().expect("it made this doorbell");
        if doorbell.connection == Connection::Connected {
            doorbells.disconnect_doorbell(doorbell.kmd);
        }
        doorbells.destroy_doorbell(doorbell.kmd);
        let queue = &mut self.queues[doorbell.queue];
        self.devices[queue.device].rings.retain(|_, doorbells| {
            doorbells.remove(&number);
            !doorbells.is_empty()
        });
        queue.doorbell = None;
        // Work that was queued through it counts on: memory must still wait for it.
        queue.last_submitted = Word::load(cx.memory.word(doorbell.last_queued.0));
        let process = self.owners.process_of(queue.device);
        let on_adapter = self.processes.get_mut(&process).expect("a device's process is on the adapter");
        on_adapter.user_words.give_back(doorbell.last_queued);
        on_adapter.status_words.give_back(doorbell.status);
    }

    /// `D3DKMTNotifyWorkSubmission`.
    pub fn notify_work_submission(&mut self, cx: &mut Cx<'_>, number: DoorbellNumber) {
        let queue = &self.queues[self.doorbells[number].queue];
        let (context, queue) = (queue.context, queue.kmd);
        self.raise_engine(cx, self.contexts[context].node);
        self.driver.call(cx).doorbells().expect("it made this doorbell").notify_work_submission(queue);
    }
}

/// Where processes ring an adapter's doorbell.
fn doorbell_address(adapter: AdapterIndex, number: DoorbellNumber) -> DoorbellAddress {
    DoorbellAddress(u64::from(adapter.0) << NUMBER_BITS | number.raw())
}

/// How private data begin, as tools of the driver read them.
fn first_word(private_data: &[u8]) -> u64 {
    private_data.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
