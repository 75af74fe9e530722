//! User-mode submission (sync §2.9, §3.17): a process's own ring and the doorbell for it.
//!
//! A doorbell's number is its queue's, so no two queues share one and connecting assigns nothing. The first connect enables
//! the queue; a disconnect leaves it enabled: the kernel takes the process's mapping away, and what was rung before runs to
//! its end, for which the kernel waits (sync §3.17, normal exit). Only destroying the doorbell, after which the ring may be
//! gone, makes the device forget it.

use ddi::{ConnectedDoorbell, CreateDoorbell, Doorbells, DriverStatus, KmdDoorbell, KmdQueue};
use shared_words::doorbell::DOORBELL_BYTES;
use softgpu_spec::bus::PAGE_BYTES;

use crate::driver::SoftGpuKmd;
use crate::queues::{Ring, State, UserRing};

/// A doorbell: which queue's.
#[derive(Debug)]
pub(crate) struct Doorbell {
    queue: KmdQueue,
}

impl Doorbells for SoftGpuKmd {
    fn create_doorbell(&mut self, create: CreateDoorbell) -> Result<KmdDoorbell, DriverStatus> {
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
                let doorbell = KmdDoorbell(self.doorbells.insert(Doorbell { queue: create.queue }));
                *ring = Some(UserRing { doorbell, va: create.ring, bytes: create.ring_bytes });
                Ok(doorbell)
            }
            Ring::User(Some(_)) => Err(DriverStatus::InvalidParameter("the queue has a doorbell")),
            Ring::Kernel { .. } => {
                Err(DriverStatus::InvalidParameter("a kernel-mode queue has no doorbell of a process"))
            }
        }
    }

    fn connect_doorbell(&mut self, doorbell: KmdDoorbell) -> Result<ConnectedDoorbell, DriverStatus> {
        let handle = self.doorbells.get(doorbell.0).ok_or(DriverStatus::InvalidParameter("no such doorbell"))?.queue;
        let queue = self.queues.handles.get(handle.0).expect("a queue outlives its doorbell");
        let offset = u64::from(queue.index) * DOORBELL_BYTES;
        match queue.state {
            State::Prepared => self.enable(handle)?,
            State::Enabled => {}
            State::Stopped => return Err(DriverStatus::Unsuccessful("the queue is stopped")),
        }
        Ok(ConnectedDoorbell { offset, notify: self.config.notify_after_ring })
    }

    fn disconnect_doorbell(&mut self, doorbell: KmdDoorbell) {
        assert!(self.doorbells.get(doorbell.0).is_some(), "the kernel disconnects a doorbell that there is");
    }

    fn destroy_doorbell(&mut self, doorbell: KmdDoorbell) {
        let handle = self.doorbells.remove(doorbell.0, "doorbell").queue;
        let queue = self.queues.handles.get_mut(handle.0).expect("a queue outlives its doorbell");
        assert!(matches!(queue.ring, Ring::User(Some(ring)) if ring.doorbell == doorbell), "a queue has one doorbell");
        queue.ring = Ring::User(None);
        if queue.state == State::Enabled {
            queue.state = State::Prepared;
        }
        let index = queue.index;
        self.disable_index(index);
    }

    /// A process has rung and found the engine asleep.
    fn notify_work_submission(&mut self, queue: KmdQueue) {
        let queue = self.queues.handles.get(queue.0).expect("the kernel names a queue that there is");
        self.port.doorbell_rung(queue.index);
    }
}
