//! Why a replay ends early.

use d3dkmt::Refusal;
use softgpu_umd::UmdError;

/// Why a replay ends early.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// An operation's storages do not fit video memory together.
    #[error(
        "operation {op_index} of step {step} ({op}) needs {needed_bytes} bytes at once; {missing_bytes} bytes too many for the video memory"
    )]
    DoesNotFit {
        /// The operation's name.
        op: String,
        /// The step, from 0.
        step: u32,
        /// The operation's number in the step, from 0.
        op_index: u32,
        /// Bytes that it needs resident together.
        needed_bytes: u64,
        /// Bytes by which they exceed the video memory.
        missing_bytes: u64,
    },
    /// The driver or the kernel below it refused.
    #[error("the kernel refused: {0}")]
    Driver(#[from] UmdError),
    /// The kernel refused.
    #[error("the kernel refused: {0}")]
    Refused(#[from] Refusal),
}
