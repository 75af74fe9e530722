//! Doorbells at work (`queue::doorbell`): their words and rings, and what engines, logs and queues have to do before one is connected, or
//! behind its end.

use ddi::{DOORBELL_PRIVATE_DATA_MAX, KmdQueue};
use kmt_calls::Refusal;
use shared_words::ClientAccess;
use vidmm::AllocationId;
use vidsch::Powered;
use wddm_types::{GpuVa, Pages, ProcessId, WordAddress};

use super::Adapter;
use crate::driver::EntryPoints;
use crate::effect::Cx;
use crate::number::{AllocationNumber, DeviceNumber, DoorbellNumber, QueueNumber};
use crate::platform::Shown;
use crate::queue::{DoorbellUse, DoorbellWords, Doorbells, LentToDoorbells, doorbell_status};
use crate::refusal::{invalid, no_memory, removed};

/// The arguments of `D3DKMTCreateDoorbell`.
pub struct NewDoorbell {
    pub queue: QueueNumber,
    pub ring: AllocationNumber,
    /// Null: where its process has all of it mapped.
    pub ring_va: GpuVa,
    pub private_data: Vec<u8>,
}

/// A doorbell that was created.
pub struct MadeDoorbell {
    pub number: DoorbellNumber,
    pub words: DoorbellWords,
    /// As the driver left them.
    pub private_data: Vec<u8>,
}

impl Adapter {
    /// Asks the doorbells for something.
    pub(super) fn lend_doorbells<T>(
        &mut self,
        cx: &mut Cx<'_>,
        ask: impl FnOnce(&mut Doorbells, &mut LentToDoorbells<'_, '_>) -> T,
    ) -> T {
        let mut lent = LentToDoorbells {
            adapter: self.index,
            driver: self.driver.call(cx),
            shown: Shown { memory: cx.memory, pages: cx.platform(self.index).doorbells() },
            tally: &mut self.tally,
            cx,
        };
        ask(&mut self.doorbells, &mut lent)
    }

    /// `D3DKMTCreateDoorbell`: the ring is an allocation of the queue's device. The private data are the driver's now.
    // spec: sync §2.9, sync §3.17
    pub fn create_doorbell(&mut self, cx: &mut Cx<'_>, new: NewDoorbell) -> Result<MadeDoorbell, Refusal> {
        let NewDoorbell { queue, ring, ring_va, mut private_data } = new;
        let known = &self.queues[queue];
        let (device, kmd_queue) = (known.device, known.kmd);
        if !known.user_mode {
            return Err(invalid("the queue was created without UserModeSubmission"));
        }
        if known.doorbell.is_some() {
            return Err(invalid("the queue has a doorbell already"));
        }
        if self.memory.allocations[ring].device != device {
            return Err(invalid("the ring buffer is another device's allocation"));
        }
        if private_data.len() > DOORBELL_PRIVATE_DATA_MAX {
            let bytes = private_data.len();
            return Err(invalid(format!("{bytes} bytes of private data: a doorbell has {DOORBELL_PRIVATE_DATA_MAX}")));
        }
        let process = self.owners.process_of(device);
        let ring = self.memory.allocations[ring].vidmm;
        let place = self.ring_place(process, ring, ring_va)?;
        let words = self.take_doorbell_words(cx, process)?;
        let of = DoorbellUse { queue, process, device, place };
        let made = self.lend_doorbells(cx, |doorbells, lent| {
            doorbells.create(lent, kmd_queue, (of, ring), words, &mut private_data)
        });
        match made {
            Ok((number, words)) => {
                self.queues.doorbell_comes(queue, number);
                Ok(MadeDoorbell { number, words, private_data })
            }
            Err(refusal) => {
                self.give_doorbell_words_back(process, words);
                Err(refusal)
            }
        }
    }

    /// Where an engine finds all of a ring: as its process says, or anywhere.
    fn ring_place(&self, process: ProcessId, ring: AllocationId, given: GpuVa) -> Result<(GpuVa, u64), Refusal> {
        let va = match given {
            GpuVa::NULL => self.vidmm.whole_mapping(self.owners.space_of(process), ring),
            given => Some(GpuVa(self.vidmm.plain(given))),
        };
        let va = va.ok_or_else(|| invalid("the ring buffer is nowhere mapped whole"))?;
        let bytes = self.vidmm.allocation_bytes(ring);
        self.check_updates_at(process, va, bytes)?;
        Ok((va, bytes))
    }

    /// The words of the last queued value and of the status.
    fn take_doorbell_words(&mut self, cx: &Cx<'_>, process: ProcessId) -> Result<(WordAddress, WordAddress), Refusal> {
        // A page for each of the two words, at most.
        self.make_kernel_room(cx, Pages(2));
        let out_of_pages = || no_memory("no system memory left for doorbell words");
        let written = (process, ClientAccess::ReadWrite);
        let last_queued = self.sync.take_cpu_word(cx, self.driver.pages(), written, 0).ok_or_else(out_of_pages)?;
        let (only_read, none_yet) = ((process, ClientAccess::Read), doorbell_status::DISCONNECTED_RETRY);
        let status = self.sync.take_cpu_word(cx, self.driver.pages(), only_read, none_yet);
        match status {
            Some(status) => Ok((last_queued, status)),
            None => {
                self.sync.give_back_cpu_word(process, ClientAccess::ReadWrite, last_queued);
                Err(out_of_pages())
            }
        }
    }

    fn give_doorbell_words_back(&mut self, process: ProcessId, (last_queued, status): (WordAddress, WordAddress)) {
        self.sync.give_back_cpu_word(process, ClientAccess::ReadWrite, last_queued);
        self.sync.give_back_cpu_word(process, ClientAccess::Read, status);
    }

    /// Connects a doorbell that can be, on an adapter that has power. Whether the process is to tell the kernel when it has rung.
    // spec: sync §3.17
    pub fn connect_doorbell(&mut self, cx: &mut Cx<'_>, number: DoorbellNumber) -> Result<bool, Refusal> {
        debug_assert!(!self.life.is_off(), "no process rings at a device that has no power: {number:?}");
        let queue = self.doorbells.queue_of(number).expect("its caller looked");
        let powered = self.raise_engine(cx, self.queues.node_of(queue));
        let told = self.lend_doorbells(cx, |doorbells, lent| doorbells.connect(lent, number, powered));
        let connected = self.heed(cx, told).ok_or_else(|| removed("the driver has no such doorbell"))??;
        self.logs_known(cx, queue);
        let notify = connected.notify;
        self.lend_doorbells(cx, |doorbells, lent| doorbells.tell_connected(lent, number, connected));
        Ok(notify)
    }

    /// `D3DKMTDestroyDoorbell`.
    pub fn destroy_doorbell(&mut self, cx: &mut Cx<'_>, number: DoorbellNumber) {
        let (of, words) = self.lend_doorbells(cx, |doorbells, lent| doorbells.destroy(lent, number));
        self.queues.doorbell_goes(of.queue, shared_words::Word::load(cx.memory.word(words.last_queued.0)));
        self.give_doorbell_words_back(of.process, (words.last_queued, words.status));
    }

    /// `D3DKMTNotifyWorkSubmission`.
    pub fn notify_work_submission(&mut self, cx: &mut Cx<'_>, queue: QueueNumber) {
        let kmd = self.queues[queue].kmd;
        let powered = self.raise_engine(cx, self.queues.node_of(queue));
        tell_rung(self.driver.call(cx), kmd, powered);
    }

    /// Whether these may go: none is the ring of a doorbell that lives.
    // spec: sync §3.17
    pub(super) fn check_rings(&self, device: DeviceNumber, list: &[AllocationId]) -> Result<(), Refusal> {
        self.check_rings_among(device, list, |_| true)
    }

    /// Whether these may leave the device's list, of which each takes one count.
    // spec: sync §3.17, memory §5.3
    pub(super) fn check_rings_leaving(&self, device: DeviceNumber, list: &[AllocationId]) -> Result<(), Refusal> {
        self.check_rings_among(device, list, |id| {
            let given_up = list.iter().filter(|other| **other == id).count() as u64;
            given_up == self.vidmm.count(self.owners.vidmm_of(device), id)
        })
    }

    fn check_rings_among(
        &self,
        device: DeviceNumber,
        list: &[AllocationId],
        goes: impl Fn(AllocationId) -> bool,
    ) -> Result<(), Refusal> {
        // No doorbell of a stopped adapter rings an engine.
        match self.life.has_stopped() {
            true => Ok(()),
            false => self.doorbells.check_rings_among((self.owners.process_of(device), device), list, goes),
        }
    }

    /// Whether a process may have this range of addresses show something else, or nothing.
    // spec: sync §3.17
    pub(super) fn check_rings_at(&self, device: DeviceNumber, base: GpuVa, size_bytes: u64) -> Result<(), Refusal> {
        let process = self.owners.process_of(device);
        match self.life.has_stopped() {
            true => Ok(()),
            false => self.doorbells.check_rings_at(process, self.vidmm.plain(base), size_bytes),
        }
    }
}

/// The driver hears that a queue was rung whose doorbell does not reach the device by itself.
fn tell_rung(driver: EntryPoints<'_>, queue: KmdQueue, _powered: Powered) {
    driver.doorbells().expect("it made this doorbell").notify_work_submission(queue);
}
