//! Hardware queues as the device has them: enabled, suspended, disabled, and the rings of kernel-mode queues (sync §2.5).

use ddi::{DriverStatus, Host, KmdContext, KmdQueue};
use shared_words::doorbell::{ASLEEP_OFFSET, DOORBELL_BYTES, VALUE_OFFSET};
use shared_words::{Barrier, FrequentBarrier, Word, doorbell};
use softgpu_spec::bus;
use softgpu_spec::register::{self, queue_control, queue_flags, queue_state};

use crate::driver::SoftGpuKmd;
use crate::queues::{NO_QUEUE, Queue, QueueStage, QueueTable, Ring};

impl QueueTable {
    /// The queues of a context that are enabled: handle and the device's number.
    pub(crate) fn enabled_of(&self, context: KmdContext) -> Vec<(u64, u32)> {
        let enabled = |queue: &Queue| queue.context == context && queue.state == QueueStage::Enabled;
        self.handles.iter().filter(|(_, queue)| enabled(queue)).map(|(number, queue)| (number, queue.index)).collect()
    }
}

impl SoftGpuKmd {
    /// A context's root. It may move while no queue of the context is enabled, or while the context is suspended: its
    /// queues go on under the new one.
    pub(crate) fn set_root(&mut self, handle: KmdContext, root: u64) {
        let context = self.contexts.get_mut(handle.0).expect("the kernel names a context that there is");
        if context.root == Some(root) {
            return;
        }
        let of_context = |queue: &Queue| queue.context == handle;
        let enabled =
            self.queues.handles.iter().any(|(_, queue)| of_context(queue) && queue.state == QueueStage::Enabled);
        assert!(!enabled || context.suspended.is_some(), "a root page table moved under a queue that runs");
        context.root = Some(root);
        if context.system {
            self.port.write_register(register::CMP_ROOT, root);
        }
        let waiting = |queue: &Queue| {
            of_context(queue) && queue.state == QueueStage::Prepared && matches!(queue.ring, Ring::Kernel { .. })
        };
        let waiting: Vec<_> = self
            .queues
            .handles
            .iter()
            .filter(|(_, queue)| waiting(queue))
            .map(|(handle, _)| KmdQueue(handle))
            .collect();
        for queue in waiting {
            // If the device refuses, the queue stays prepared, and the first submission returns the error.
            let _ = self.enable(queue);
        }
    }

    /// Hands a queue to the device. Its ring and its root are known, or it is an error.
    pub(crate) fn enable(&mut self, handle: KmdQueue) -> Result<(), DriverStatus> {
        let queue = self.queues.handles.get(handle.0).ok_or(NO_QUEUE)?;
        let context = self.contexts.get(queue.context.0).expect("a context outlives its queues");
        let context_rank = self.rank_of(queue.context);
        let root = context.root.ok_or(DriverStatus::Unsuccessful("the queue's context has no page table"))?;
        let (ring, bytes, mut flags) = match queue.ring {
            Ring::Kernel { run, .. } => {
                (bus::SYSTEM_BASE + run.first * bus::PAGE_BYTES, self.config.ring_bytes, queue_flags::RING_PHYSICAL)
            }
            Ring::User(Some(ring)) => (ring.va.0, ring.bytes, 0),
            Ring::User(None) => return Err(DriverStatus::InvalidParameter("a user-mode queue without a doorbell")),
        };
        if context.system {
            flags |= queue_flags::PRIVILEGED;
        }
        // The device starts at read pointer 0, so the driver clears a write pointer that a former owner of the doorbell left.
        Word::store(self.port.doorbell_page().word(u64::from(queue.index) * DOORBELL_BYTES + VALUE_OFFSET), 0);
        self.port.write_register(register::QUEUE_SELECT, u64::from(queue.index));
        self.port.write_register(register::QUEUE_ENGINE, u64::from(queue.node.0));
        self.port.write_register(register::QUEUE_ROOT, root);
        self.port.write_register(register::QUEUE_RING, ring);
        self.port.write_register(register::QUEUE_RING_BYTES, bytes);
        self.port.write_register(register::QUEUE_FLAGS, flags);
        self.write_rank(context_rank);
        self.write_owner(queue.context);
        self.port.write_register(register::QUEUE_CONTROL, queue_control::ENABLE);
        if matches!(self.port.read_register(register::QUEUE_CONTROL), queue_state::DISABLED | register::ABSENT) {
            return Err(DriverStatus::Unsuccessful("the device did not take the queue"));
        }
        self.queues.handles.get_mut(handle.0).expect("looked up above").state = QueueStage::Enabled;
        let queue = self.queues.handles.get(handle.0).expect("looked up above");
        // The driver suspends a queue that joins a suspended context; its ring is still empty.
        if self.contexts.get(queue.context.0).is_some_and(|context| context.suspended.is_some()) {
            self.suspend_index(queue.index);
        }
        Ok(())
    }

    pub(super) fn suspend_index(&self, index: u32) {
        self.port.write_register(register::QUEUE_SELECT, u64::from(index));
        self.port.write_register(register::QUEUE_CONTROL, queue_control::SUSPEND);
    }

    /// The device executes nothing for a queue any more; when that holds for all queues of its context, the driver reports the suspension.
    // spec: sync §4.1
    pub(crate) fn acknowledged(&mut self, handle: KmdQueue) {
        let Some(queue) = self.queues.handles.get_mut(handle.0) else { return };
        if !std::mem::replace(&mut queue.suspending, false) {
            return;
        }
        let owner = queue.context;
        if self.queues.handles.iter().any(|(_, queue)| queue.context == owner && queue.suspending) {
            return;
        }
        let context = self.contexts.get_mut(owner.0).expect("a context outlives its queues");
        if let Some(Some(suspend_fence)) = context.suspended {
            context.suspended = Some(None);
            let os = context.os;
            self.gathered.suspended(os, suspend_fence);
        }
    }

    /// The device forgets a queue; when this returns it executes nothing for it.
    pub(crate) fn disable_index(&self, index: u32) {
        self.port.write_register(register::QUEUE_SELECT, u64::from(index));
        self.port.write_register(register::QUEUE_CONTROL, queue_control::DISABLE);
    }

    pub(super) fn kernel_ring(&self, host: &mut dyn Host) -> Result<Ring, DriverStatus> {
        let pages = self.config.ring_bytes / bus::PAGE_BYTES;
        let run = host.allocate_contiguous(pages).ok_or(DriverStatus::NoMemory("a ring"))?;
        assert!(
            run.count.0 >= pages && self.system.contains(run.first * bus::PAGE_BYTES, self.config.ring_bytes),
            "contiguous memory lies in system memory"
        );
        Ok(Ring::Kernel { run, written: 0, read: 0 })
    }

    /// Appends words to a kernel-mode ring and rings.
    pub(super) fn append(&mut self, handle: KmdQueue, words: &[u64]) -> Result<(), DriverStatus> {
        let ring_bytes = self.config.ring_bytes;
        let queue = self.queues.handles.get_mut(handle.0).expect("checked by the caller");
        let index = queue.index;
        let Ring::Kernel { run, written, read } = &mut queue.ring else { unreachable!("checked by the caller") };
        let end = *written + words.len() as u64 * 8;
        if end - *read > ring_bytes {
            self.port.write_register(register::QUEUE_SELECT, u64::from(index));
            let pointer = self.port.read_register(register::QUEUE_READ_POINTER);
            if pointer == register::ABSENT {
                return Err(DriverStatus::Unsuccessful("the device is gone"));
            }
            *read = pointer;
            assert!(end - *read <= ring_bytes, "the kernel keeps to MaxInFlightHwQueueBuffers, so the ring has room");
        }
        let base = run.first * bus::PAGE_BYTES;
        for (offset, word) in (*written..).step_by(8).zip(words) {
            Word::store(self.system.word(base + offset % ring_bytes), *word);
        }
        *written = end;
        let page = self.port.doorbell_page();
        let at = u64::from(index) * DOORBELL_BYTES;
        // spec: sync §3.17
        if doorbell::ring(FrequentBarrier::full, page.word(at + VALUE_OFFSET), page.word(at + ASLEEP_OFFSET), end) {
            self.port.doorbell_rung(index);
        }
        Ok(())
    }
}
