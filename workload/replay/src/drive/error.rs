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
        /// Its name.
        op: String,
        /// Which step.
        step: u32,
        /// Which operation of the step.
        op_index: u32,
        /// What it needs.
        needed_bytes: u64,
        /// What is missing.
        missing_bytes: u64,
    },
    /// The driver or the kernel below it refused.
    #[error("the kernel refused: {0}")]
    Driver(#[from] UmdError),
    /// The kernel refused.
    #[error("the kernel refused: {0}")]
    Refused(#[from] Refusal),
}
