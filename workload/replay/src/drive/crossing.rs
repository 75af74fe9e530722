//! How content gets from one adapter to another: through a few slots of memory that both reach, filled by one GPU and emptied by
//! the other, in parts. Two fences keep the order: part `k` is taken out when it has been put in, and put in when the part that lay
//! in its slot has been taken out. No processor touches the bytes.
//!
//! ```text
//! from:  wait emptied ≥ k + 1 − SLOTS │ copy storage → slot k mod SLOTS │ signal filled = k + 1
//! to:    wait filled  ≥ k + 1         │ copy slot k mod SLOTS → storage │ signal emptied = k + 1
//! ```

use softgpu_umd::{CrossFence, CrossMemory};

use crate::drive::error::DriveError;
use crate::drive::site::{At, Order, Site, Submission, Work};
use crate::steps::StorageId;

/// Parts that can be under way at once.
const SLOTS: u64 = 4;
/// Bytes of a part. Policy: large beside the cost of a submission, small beside what adapters have.
const SLOT_BYTES: u64 = 2 << 20;
/// The sides of memory and fences.
const FROM: usize = 0;
const TO: usize = 1;

/// The way from one adapter to another.
pub struct Crossing {
    memory: CrossMemory,
    filled: CrossFence,
    emptied: CrossFence,
    /// Parts sent until now.
    parts: u64,
}

impl Crossing {
    /// The way between two sites.
    pub fn create(from: &Site, to: &Site) -> Result<Crossing, DriveError> {
        let gpus = [&from.gpu, &to.gpu];
        Ok(Crossing {
            memory: CrossMemory::create(&gpus, SLOTS * SLOT_BYTES)?,
            filled: CrossFence::create(&gpus)?,
            emptied: CrossFence::create(&gpus)?,
            parts: 0,
        })
    }

    /// Sends a storage's content. It is there for whatever is submitted behind this.
    pub fn send(&mut self, from: &mut Site, to: &mut Site, id: StorageId, at: At<'_>) -> Result<(), DriveError> {
        let bytes = from.storages.bytes(id);
        let mut leaves_at = from.make_resident(at, &[id], &[])?;
        let mut arrives_at = to.make_resident(at, &[id], &[id])?;
        let submission = |work| Submission { step: at.step, work };
        for offset in (0..bytes).step_by(SLOT_BYTES as usize) {
            let part_bytes = (bytes - offset).min(SLOT_BYTES);
            let (slot, part) = (self.parts % SLOTS * SLOT_BYTES, self.parts + 1);
            let emptied = (self.emptied.on(FROM), part.saturating_sub(SLOTS));
            // The wait goes behind the commands that the lane has recorded so far.
            if emptied.1 > 0 {
                from.wait_on_gpu(emptied.0, emptied.1)?;
            }
            from.queues.lane_mut(from.compute).copy(
                from.storages.get(id),
                offset,
                self.memory.on(FROM),
                slot,
                part_bytes,
            );
            let order = Order { signals: &[(self.filled.on(FROM), part)] };
            from.submit(leaves_at.take(), order, submission(Work::Leaves(id.storage)))?;
            to.wait_on_gpu(self.filled.on(TO), part)?;
            to.queues.lane_mut(to.compute).copy(self.memory.on(TO), slot, to.storages.get(id), offset, part_bytes);
            let order = Order { signals: &[(self.emptied.on(TO), part)] };
            to.submit(arrives_at.take(), order, submission(Work::Arrives(id.storage)))?;
            self.parts = part;
        }
        to.count_arrived(bytes);
        from.evict(&[id], &[])?;
        to.evict(&[id], &[id])
    }
}
