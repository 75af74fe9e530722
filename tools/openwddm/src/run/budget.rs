//! Budgets of processes against what their operations need, judged before anything is started: a process whose budget cannot hold
//! one of its operations would lose its device in the middle. Called by `setup` for budgets of the command line and by `connected`
//! for those that a daemon gives.

use std::path::Path;
use std::sync::Arc;

use d3dkmt::{Adapter, Device, Refusal, SegmentInfo, enum_adapters, query_statistics};
use ddi::SegmentFlags;
use dxgk_host::Profile;
use kmt_link::Link;
use kmt_link::socket::SocketLink;

use crate::connected::failed_there;
use crate::error::RunError;
use crate::run::Terms;
use crate::run::setup::{Planned, largest_op_pages};

/// Judges each workload's budget on each adapter.
///
/// # Errors
/// [`RunError::Argument`] with the least budget that does.
pub fn judge(workloads: &[(replay::Workload, Terms)], adapters: &[Planned], steps: u32) -> Result<(), RunError> {
    for (workload, terms) in workloads {
        let Some(budget) = terms.budget else { continue };
        let given = budget.bytes(workload.peak_bytes(steps));
        let least = |(number, planned): (usize, &Planned)| least_bytes(workload, number, &planned.profile);
        let least = adapters.iter().enumerate().map(least).max().unwrap_or(0);
        if given < least {
            return Err(RunError::Argument {
                argument: format!("budget={} of {}", budget.as_argument(), workload.name()),
                problem: format!("the largest operation needs {least} bytes at once"),
                remedy: format!(
                    "give at least {least} bytes (the peak of this workload is {})",
                    workload.peak_bytes(steps)
                ),
            });
        }
    }
    Ok(())
}

/// The least budget in video memory with which all operations of a workload run on an adapter, counted from 0. None is needed where nothing that
/// they use counts in it.
pub fn least_bytes(workload: &replay::Workload, adapter: usize, profile: &Profile) -> u64 {
    if !profile.has_memory_segments() {
        return 0;
    }
    match largest_op_pages(workload, adapter, profile.segment_page_bytes()) {
        0 => 0,
        largest => largest.saturating_add(profile.fence_bytes_local()),
    }
}

/// Judges a workload against the budget that a daemon has given its process, which has no memory yet.
///
/// # Errors
/// [`RunError::Argument`] with the least budget that suffices; the kernel's refusals.
pub fn judge_given(workload: &replay::Workload, link: &Arc<SocketLink>, socket: &Path) -> Result<(), RunError> {
    let link = Arc::clone(link) as Arc<dyn Link>;
    let given = given(&link).map_err(|refusal| failed_there(refusal.into(), socket))?;
    let Some(Given { budget_bytes, page_bytes }) = given else { return Ok(()) };
    let least = largest_op_pages(workload, 0, page_bytes);
    if budget_bytes >= least {
        return Ok(());
    }
    Err(RunError::Argument {
        argument: format!("--connect {}", socket.display()),
        problem: format!(
            "the daemon gives a process a budget of {budget_bytes} bytes, and the largest operation of {} needs {least} bytes at once",
            workload.name()
        ),
        remedy: format!("let its configuration say process.budget = {least}, or users.NUMBER.process.budget, or more"),
    })
}

/// A budget that a daemon has set.
struct Given {
    budget_bytes: u64,
    /// Pages of the memory that it counts in.
    page_bytes: u64,
}

/// The fixed budget of a process in the memory of the first adapter, which runs its operations; `None`: the share that others leave.
fn given(link: &Arc<dyn Link>) -> Result<Option<Given>, Refusal> {
    let Some(luid) = enum_adapters(&**link)?.first().map(|(luid, _)| *luid) else { return Ok(None) };
    let adapter = Adapter::open(Arc::clone(link), luid)?;
    // Processes without a device have no budget there.
    let _device = Device::create(&adapter)?;
    let segments = adapter.info()?.segments;
    let marked = |segment: &SegmentInfo| {
        SegmentFlags::from_bits_truncate(segment.flags).contains(SegmentFlags::APPLICATION_TARGET)
    };
    let any_marked = segments.iter().any(marked);
    let counted = segments.iter().filter(|segment| segment.local && (marked(segment) || !any_marked));
    let memory: Vec<_> = counted.filter(|segment| !segment.aperture).collect();
    let Some(page_bytes) = memory.iter().map(|segment| segment.page_bytes).max() else { return Ok(None) };
    let budget_bytes = adapter.video_memory_info(true)?.budget_bytes;
    let used = query_statistics(&**link, luid)?.processes;
    let used = used.iter().map(|process| process.memory.local.current_usage_bytes).fold(0, u64::saturating_add);
    // spec: memory §5.5
    // Without a set budget this process's share is at least the memory that others do not use, and grows when they need less. So a
    // budget below that was set.
    let left = memory.iter().map(|segment| segment.size_bytes).fold(0, u64::saturating_add).saturating_sub(used);
    let slack = page_bytes.saturating_mul(memory.len() as u64);
    Ok((budget_bytes.saturating_add(slack) < left).then_some(Given { budget_bytes, page_bytes }))
}
