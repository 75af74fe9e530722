//! Hardware queues and their contexts (sync §2.5, §3.11): which there are and what each was made as (`hardware`), the work that the
//! kernel has fed them (`feed`), and their doorbells (`doorbell`); each is an owner of its own. Which packets a queue holds is the scheduler's (`vidsch`);
//! `adapter::queue` creates and destroys queues in the driver, feeds them, and has them wait and signal.

mod doorbell;
mod feed;
mod hardware;

pub use doorbell::{DoorbellUse, DoorbellWords, Doorbells, Lent as LentToDoorbells, doorbell_status};
pub use feed::Feed;
pub use hardware::{Context, HardwareQueues, Queue};

use ddi::FeatureId;
use kmt_calls::{QueueFlags, Refusal};
use vidsch::SubmitError;
use wddm_types::{GpuVa, NodeId};

use crate::driver::Driver;
use crate::refusal::{invalid, no_memory, not_supported, removed};

/// A command buffer of a queue that the kernel feeds.
#[derive(Clone, Debug)]
pub struct Command {
    pub progress_value: u64,
    pub buffer: GpuVa,
    pub buffer_bytes: u32,
    /// The user-mode driver's private data.
    pub private_data: Vec<u8>,
}

impl Command {
    /// Whether a command buffer may lie where its process says.
    ///
    /// # Errors
    /// It may not.
    pub fn check_place(&self) -> Result<(), Refusal> {
        let aligned = self.buffer.0.is_multiple_of(8) && self.buffer_bytes.is_multiple_of(8);
        match aligned && !self.buffer.is_null() && self.buffer_bytes > 0 {
            true => Ok(()),
            false => {
                Err(invalid("a command buffer lies at a nonzero multiple of 8 and has a nonzero multiple of 8 bytes"))
            }
        }
    }
}

/// Why a queue takes no more.
pub fn refused(error: SubmitError) -> Refusal {
    match error {
        SubmitError::UserQueue => invalid("kernel-mode submission on a queue with user-mode submission"),
        SubmitError::TooMany => no_memory("the queue holds as many packets as it may"),
        SubmitError::Stopped => removed("the queue has stopped"),
    }
}

/// Whether the process itself feeds a queue with these flags, by its doorbell.
pub fn is_fed_in_user_mode(driver: &Driver, node: NodeId, flags: QueueFlags) -> Result<bool, Refusal> {
    let broadcasts = QueueFlags::NO_BROADCAST_SIGNAL | QueueFlags::NO_BROADCAST_WAIT;
    let known = QueueFlags::DISABLE_GPU_TIMEOUT | QueueFlags::USER_MODE_SUBMISSION | broadcasts;
    if !known.contains(flags) {
        return Err(invalid(format!(
            "queue flags {:#x} are reserved or set by the kernel",
            flags.difference(known).bits()
        )));
    }
    let user_mode = flags.contains(QueueFlags::USER_MODE_SUBMISSION);
    let offered = driver.node(node).user_mode_submission;
    if user_mode && !(offered && driver.has_feature(FeatureId::USER_MODE_SUBMISSION)) {
        return Err(not_supported("user-mode submission is not enabled on this node"));
    }
    Ok(user_mode)
}
