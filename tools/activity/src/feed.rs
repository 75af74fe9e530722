//! Asks the kernel for its figures over a link: every adapter, one after the other. It judges nothing.

use d3dkmt::{AdapterStatistics, Refusal, enum_adapters, query_statistics};
use kmt_link::Link;

/// The figures of all adapters.
///
/// # Errors
/// When the connection is lost. The result lacks an adapter that is removed between two questions.
pub fn read(link: &dyn Link) -> Result<Vec<AdapterStatistics>, Refusal> {
    let adapters = enum_adapters(link)?;
    let mut answers = Vec::with_capacity(adapters.len());
    for (luid, _) in adapters {
        match query_statistics(link, luid) {
            Ok(answer) => answers.push(answer),
            Err(refusal) if refusal.status == wddm_types::NtStatus::DEVICE_REMOVED => return Err(refusal),
            Err(_) => {}
        }
    }
    Ok(answers)
}
