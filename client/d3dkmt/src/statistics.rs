//! Figures of adapters, for tools that watch how a machine is used. Most of them do not need the adapter open.

use kmt_calls::{AdapterStatistics, Call, ClockCalibration, ProcessIdentity, Refusal, Reply, StatisticsCall};
use kmt_link::Link;
use wddm_types::{Luid, NodeId, ProcessId};

use crate::{Adapter, expect_reply};

/// `D3DKMTQueryStatistics`, all of its types in one answer: what the adapter has done, what it has now, and for which processes.
///
/// # Errors
/// `INVALID_PARAMETER`: no adapter has this LUID.
pub fn query_statistics(link: &dyn Link, adapter: Luid) -> Result<AdapterStatistics, Refusal> {
    let call = Call::Statistics(StatisticsCall::QueryStatistics { adapter });
    Ok(*expect_reply!(link.call(call)?, Reply::Statistics(statistics) => statistics))
}

/// `D3DKMTEnumProcesses`: the processes with a device on the adapter, in the order of their ids.
///
/// # Errors
/// `INVALID_PARAMETER`: no adapter has this LUID.
pub fn enum_processes(link: &dyn Link, adapter: Luid) -> Result<Vec<ProcessId>, Refusal> {
    let call = Call::Statistics(StatisticsCall::EnumProcesses { adapter });
    Ok(expect_reply!(link.call(call)?, Reply::Processes(processes) => processes))
}

/// The number and the name of the calling process in the operating system, as figures show them; `None`: the program that embeds the kernel
/// has not said them.
///
/// # Errors
/// When the connection is lost.
pub fn own_identity(link: &dyn Link) -> Result<Option<ProcessIdentity>, Refusal> {
    let call = Call::Statistics(StatisticsCall::QueryProcessIdentity { process: 0 });
    Ok(expect_reply!(link.call(call)?, Reply::ProcessIdentity(identity) => identity))
}

impl Adapter {
    /// `D3DKMTQueryClockCalibration`: the clock of a node, which fence logs and timestamps are in, beside the kernel's.
    ///
    /// # Errors
    /// `INVALID_PARAMETER`: there is no such node; `NOT_SUPPORTED`: its driver tells no clock; `RETRY`: the adapter sleeps.
    pub fn query_clock_calibration(&self, node: NodeId) -> Result<ClockCalibration, Refusal> {
        let (adapter, node) = (self.handle(), u32::from(node.0));
        let call = Call::Statistics(StatisticsCall::QueryClockCalibration { adapter, node, physical_adapter: 0 });
        Ok(expect_reply!(self.link().call(call)?, Reply::ClockCalibration(clocks) => clocks))
    }
}
