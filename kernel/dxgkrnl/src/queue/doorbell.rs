//! Doorbells of hardware queues that their process submits to by itself: created, connected, destroyed (sync §2.9, §3.17).

use ddi::{ConnectedDoorbell, CreateDoorbell, OsDoorbell};
use events::Event;
use kmt_calls::Refusal;
use shared_words::Word;
use wddm_types::GpuVa;

use crate::adapter::Adapter;
use crate::machine::Cx;
use crate::object::Doorbell;
use crate::refusal::{from_driver, invalid, no_memory, not_supported, removed};

/// `D3DDDI_DOORBELLSTATUS` (sync §2.9).
mod doorbell_status {
    pub const CONNECTED: u64 = 0;
    pub const CONNECTED_NOTIFY_KMD: u64 = 1;
    pub const DISCONNECTED_RETRY: u64 = 2;
    pub const DISCONNECTED_ABORT: u64 = 3;
}

impl Adapter {
    /// `D3DKMTCreateDoorbell`: the ring is an allocation of the queue's device.
    // spec: sync §2.9, sync §3.17
    pub fn create_doorbell(&mut self, queue: u64, ring: u64, ring_va: GpuVa) -> Result<u64, Refusal> {
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
        let ring_bytes = self.vidmm.allocation_bytes(self.allocations[ring].vidmm);
        let process = self.devices[device].process;
        let number = self.doorbells.next_number();
        let create = CreateDoorbell { queue: kmd_queue, doorbell: OsDoorbell(number), ring: ring_va, ring_bytes };
        let on_adapter = self.processes.get_mut(&process).expect("a device's process is on the adapter");
        let out_of_pages = || no_memory("the kernel's pages for doorbell words are used up");
        let last_queued = on_adapter.user_words.take(&self.memory, &mut self.pages, 0).ok_or_else(out_of_pages)?;
        let status = on_adapter.status_words.take(&self.memory, &mut self.pages, doorbell_status::DISCONNECTED_RETRY);
        let Some(status) = status else {
            on_adapter.user_words.give_back(last_queued);
            return Err(out_of_pages());
        };
        let Some(doorbells) = self.miniport.doorbells() else {
            return Err(not_supported("the driver has no doorbells"));
        };
        match doorbells.create_doorbell(create) {
            Ok(kmd) => {
                assert_eq!(
                    self.doorbells.insert(Doorbell { queue, kmd, last_queued, status, connected: false }),
                    number
                );
                self.queues[queue].doorbell = Some(number);
                Ok(number)
            }
            Err(error) => {
                on_adapter.user_words.give_back(last_queued);
                on_adapter.status_words.give_back(status);
                Err(from_driver(error))
            }
        }
    }

    /// `D3DKMTConnectDoorbell`.
    // spec: sync §3.17
    pub fn connect_doorbell(&mut self, cx: &mut Cx<'_>, number: u64) -> Result<ConnectedDoorbell, Refusal> {
        let (kmd, queue, status) =
            (self.doorbells[number].kmd, self.doorbells[number].queue, self.doorbells[number].status);
        self.raise_engine(cx, self.contexts[self.queues[queue].context].node);
        let doorbells = self.miniport.doorbells().expect("it made this doorbell");
        let connected = match doorbells.connect_doorbell(kmd) {
            Ok(connected) => connected,
            Err(error) => {
                Word::store(self.memory.word(status.0), doorbell_status::DISCONNECTED_ABORT);
                return Err(removed(error.to_string()));
            }
        };
        self.doorbells[number].connected = true;
        self.logs_known(queue);
        let word = if connected.notify { doorbell_status::CONNECTED_NOTIFY_KMD } else { doorbell_status::CONNECTED };
        Word::store(self.memory.word(status.0), word);
        cx.emit(self.index, Event::DoorbellConnected { queue, offset: connected.offset });
        Ok(connected)
    }

    /// The kernel takes a connected doorbell away: its process finds out when it has rung, and connects it again.
    // spec: sync §3.17
    pub fn disconnect_doorbell(&mut self, number: u64) {
        let (kmd, status) = (self.doorbells[number].kmd, self.doorbells[number].status);
        if std::mem::replace(&mut self.doorbells[number].connected, false) {
            self.miniport.doorbells().expect("it made this doorbell").disconnect_doorbell(kmd);
            Word::store(self.memory.word(status.0), doorbell_status::DISCONNECTED_RETRY);
        }
    }

    /// The device of a doorbell is lost: its process has to destroy the doorbell with its queue, and connects it no more.
    // spec: sync §3.17
    pub fn abort_doorbell(&mut self, number: u64) {
        self.disconnect_doorbell(number);
        Word::store(self.memory.word(self.doorbells[number].status.0), doorbell_status::DISCONNECTED_ABORT);
    }

    /// The adapter stops: so it is with every doorbell. The driver has broken the contract and is told as they are destroyed.
    // spec: sync §3.17
    pub fn abort_all_doorbells(&self) {
        for (_, doorbell) in self.doorbells.iter() {
            Word::store(self.memory.word(doorbell.status.0), doorbell_status::DISCONNECTED_ABORT);
        }
    }

    /// `D3DKMTDestroyDoorbell`.
    pub fn destroy_doorbell(&mut self, number: u64) {
        let doorbell = self.doorbells.remove(number).expect("a doorbell is destroyed once");
        let doorbells = self.miniport.doorbells().expect("it made this doorbell");
        if doorbell.connected {
            doorbells.disconnect_doorbell(doorbell.kmd);
        }
        doorbells.destroy_doorbell(doorbell.kmd);
        let queue = &mut self.queues[doorbell.queue];
        queue.doorbell = None;
        // What was queued through it counts on: memory must still wait for it.
        queue.last_submitted = Word::load(self.memory.word(doorbell.last_queued.0));
        let process = self.devices[queue.device].process;
        let on_adapter = self.processes.get_mut(&process).expect("a device's process is on the adapter");
        on_adapter.user_words.give_back(doorbell.last_queued);
        on_adapter.status_words.give_back(doorbell.status);
    }

    /// `D3DKMTNotifyWorkSubmission`.
    pub fn notify_work_submission(&mut self, cx: &mut Cx<'_>, number: u64) {
        let queue = &self.queues[self.doorbells[number].queue];
        let (context, queue) = (queue.context, queue.kmd);
        self.raise_engine(cx, self.contexts[context].node);
        self.miniport.doorbells().expect("it made this doorbell").notify_work_submission(queue);
    }
}
