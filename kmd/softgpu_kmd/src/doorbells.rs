//! User-mode submission (sync §2.9, §3.17): a process's own ring and the doorbell for it.
//!
//! The device has doorbells with pages of their own ([`softgpu_spec::doorbell`]), perhaps fewer than queues. Connecting assigns one: the
//! first that is free, or one that is taken from another queue ([`VictimPolicy`]), whose process finds out when it rings next. A queue
//! without one listens to its own doorbell, which no process sees, and goes on from the value that was rung.
//!
//! The first connect enables the queue; a disconnect leaves it enabled: the kernel revokes the process's mapping, and work rung
//! before runs to its end, for which the kernel waits (sync §3.17, normal exit). Only destroying the doorbell, after which the ring may be
//! gone, makes the device forget it.

#[cfg(test)]
mod tests;

use ddi::{
    ConnectedDoorbell, CreateDoorbell, Disconnected, DoorbellHost, Doorbells, DriverStatus, KmdDoorbell, KmdQueue,
    OsDoorbell, OsQueue,
};
use shared_words::Word;
use shared_words::doorbell::VALUE_OFFSET;
use softgpu_spec::bus::PAGE_BYTES;
use softgpu_spec::{QUEUE_COUNT, doorbell, register};

use crate::driver::SoftGpuKmd;
use crate::handles::Handles;
use crate::queues::{QueueStage, Ring, UserRing};

/// Which queue loses its doorbell when another one needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VictimPolicy {
    /// A queue that has completed all rung work, if there is any; among equals the one that was connected first.
    #[default]
    Idle,
    /// The one that was connected first.
    Oldest,
}

/// A doorbell.
#[derive(Debug)]
pub(crate) struct Doorbell {
    /// The queue that it belongs to.
    queue: KmdQueue,
    /// The kernel's handles of the queue and of the doorbell.
    os_queue: OsQueue,
    os: OsDoorbell,
    /// The physical doorbell that it has while it is connected, and since when in the order of all connections.
    physical: Option<(u32, u64)>,
}

/// The doorbells, by handle.
#[derive(Debug, Default)]
pub(crate) struct DoorbellTable {
    handles: Handles<Doorbell>,
    /// Connections so far.
    connections: u64,
}

impl DoorbellTable {
    /// The device was started anew: drops all doorbells.
    pub(crate) fn clear(&mut self) {
        self.handles.clear();
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> u64 {
        self.connections
    }

    /// A physical doorbell, of `pages` ones, that no queue is connected to.
    fn free(&self, pages: u32) -> Option<u32> {
        let taken = |number: u32| {
            let has = |doorbell: &Doorbell| doorbell.physical.is_some_and(|(physical, _)| physical == number);
            self.handles.iter().any(|(_, doorbell)| has(doorbell))
        };
        (QUEUE_COUNT..QUEUE_COUNT + pages).find(|number| !taken(*number))
    }
}

impl Doorbells for SoftGpuKmd {
    fn create_doorbell(&mut self, create: CreateDoorbell<'_>) -> Result<KmdDoorbell, DriverStatus> {
        if !create.ring_bytes.is_power_of_two() || create.ring_bytes < PAGE_BYTES {
            return Err(DriverStatus::InvalidParameter("a ring is a power of two from 4096 bytes"));
        }
        if create.ring.is_null() || !create.ring.0.is_multiple_of(PAGE_BYTES) {
            return Err(DriverStatus::InvalidParameter("a ring begins at a page"));
        }
        let queue = self
            .queues
            .handles
            .get_mut(create.queue.0)
            .ok_or(DriverStatus::InvalidParameter("no such hardware queue"))?;
        match &mut queue.ring {
            Ring::User(ring @ None) => {
                let made =
                    Doorbell { queue: create.queue, os_queue: create.os_queue, os: create.doorbell, physical: None };
                let doorbell = KmdDoorbell(self.doorbells.handles.insert(made));
                *ring = Some(UserRing { doorbell, va: create.ring, bytes: create.ring_bytes });
                // The queue's number on the device, for tools that trace the hardware.
                if let Some(number) = create.private_data.first_chunk_mut() {
                    *number = u64::from(queue.index).to_le_bytes();
                }
                Ok(doorbell)
            }
            Ring::User(Some(_)) => Err(DriverStatus::InvalidParameter("the queue has a doorbell")),
            Ring::Kernel { .. } => {
                Err(DriverStatus::InvalidParameter("a kernel-mode queue has no doorbell of a process"))
            }
        }
    }

    // spec: sync §3.17
    fn connect_doorbell(
        &mut self,
        host: &mut dyn DoorbellHost,
        handle: KmdDoorbell,
    ) -> Result<ConnectedDoorbell, DriverStatus> {
        let known = self.doorbells.handles.get(handle.0).ok_or(DriverStatus::InvalidParameter("no such doorbell"))?;
        let (owner, physical) = (known.queue, known.physical);
        match self.queues.handles.get(owner.0).expect("a queue outlives its doorbell").state {
            QueueStage::Prepared => self.enable(owner)?,
            QueueStage::Enabled => {}
            QueueStage::Stopped => return Err(DriverStatus::Unsuccessful("the queue is stopped")),
        }
        let number = match physical {
            Some((number, _)) => number,
            None => self.assign(host, handle, owner)?,
        };
        Ok(ConnectedDoorbell { offset: doorbell::offset(number), notify: self.config.notify_after_ring })
    }

    fn disconnect_doorbell(&mut self, doorbell: KmdDoorbell) {
        assert!(self.doorbells.handles.get(doorbell.0).is_some(), "the kernel disconnects a doorbell that there is");
        self.free_physical(doorbell);
    }

    fn destroy_doorbell(&mut self, doorbell: KmdDoorbell) {
        let handle = self.doorbells.handles.remove(doorbell.0, "doorbell").queue;
        let queue = self.queues.handles.get_mut(handle.0).expect("a queue outlives its doorbell");
        assert!(matches!(queue.ring, Ring::User(Some(ring)) if ring.doorbell == doorbell), "a queue has one doorbell");
        queue.ring = Ring::User(None);
        if queue.state == QueueStage::Enabled {
            queue.state = QueueStage::Prepared;
        }
        let index = queue.index;
        self.disable_index(index);
    }

    /// A process has rung and found the engine asleep.
    fn notify_work_submission(&mut self, queue: KmdQueue) {
        let index = self.queues.handles.get(queue.0).expect("the kernel names a queue that there is").index;
        let listens = |doorbell: &Doorbell| doorbell.physical.filter(|_| doorbell.queue == queue);
        let physical = self.doorbells.handles.iter().find_map(|(_, doorbell)| listens(doorbell));
        self.port.doorbell_rung(physical.map_or(index, |(number, _)| number));
    }
}

impl SoftGpuKmd {
    /// Gives a doorbell a physical one; its queue listens there from now on.
    fn assign(
        &mut self,
        host: &mut dyn DoorbellHost,
        handle: KmdDoorbell,
        owner: KmdQueue,
    ) -> Result<u32, DriverStatus> {
        // CAST: below the most.
        let pages = self.port.read_register(register::DOORBELLS).min(u64::from(doorbell::PAGES_MAX)) as u32;
        let number = match self.doorbells.free(pages) {
            Some(number) => number,
            None => self.take_from_victim(host)?,
        };
        self.doorbells.connections += 1;
        let since = self.doorbells.connections;
        self.doorbells.handles.get_mut(handle.0).expect("looked up by the caller").physical = Some((number, since));
        self.listen(owner, Some(number));
        Ok(number)
    }

    /// Takes a physical doorbell from a queue. The kernel revokes the process's mapping first; work that was rung goes on.
    // spec: sync §3.17
    fn take_from_victim(&mut self, host: &mut dyn DoorbellHost) -> Result<u32, DriverStatus> {
        let connected = self.doorbells.handles.iter().filter_map(|(handle, doorbell)| {
            let (number, since) = doorbell.physical?;
            let busy = self.config.victims == VictimPolicy::Idle && self.is_busy(doorbell.queue, number);
            Some((busy, since, number, handle))
        });
        let victim = connected.min().ok_or(DriverStatus::Unsuccessful("the device has no doorbells for processes"))?;
        let (_, _, number, handle) = victim;
        let doorbell = self.doorbells.handles.get(handle).expect("just seen");
        host.disconnect_doorbell(doorbell.os_queue, doorbell.os, Disconnected::Retry)?;
        self.free_physical(KmdDoorbell(handle));
        Ok(number)
    }

    /// Whether a queue has rung work that it has not completed.
    fn is_busy(&self, queue: KmdQueue, number: u32) -> bool {
        let index = self.queues.handles.get(queue.0).expect("a queue outlives its doorbell").index;
        let rung = Word::load(self.port.doorbell_page().word(doorbell::offset(number) + VALUE_OFFSET));
        self.port.write_register(register::QUEUE_SELECT, u64::from(index));
        self.port.read_register(register::QUEUE_READ_POINTER) != rung
    }

    /// Takes the physical doorbell from a doorbell, if it has one; its queue listens to its own from now on.
    fn free_physical(&mut self, handle: KmdDoorbell) {
        let doorbell = self.doorbells.handles.get_mut(handle.0).expect("looked up by the caller");
        if doorbell.physical.take().is_some() {
            let owner = doorbell.queue;
            self.listen(owner, None);
        }
    }

    /// Has a queue listen to a physical doorbell, or to its own.
    fn listen(&self, queue: KmdQueue, number: Option<u32>) {
        let index = self.queues.handles.get(queue.0).expect("a queue outlives its doorbell").index;
        self.port.write_register(register::QUEUE_SELECT, u64::from(index));
        self.port.write_register(register::QUEUE_DOORBELL, u64::from(number.unwrap_or(index)));
    }
}
