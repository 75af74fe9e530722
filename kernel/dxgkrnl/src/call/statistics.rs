//! Calls for figures. They change nothing, and adapters that were stopped or sleep answer them, too.

use kmt_calls::{ProcessAccess, Refusal, Reply, StatisticsCall};
use wddm_types::{Luid, NodeId};

use crate::adapter::Adapter;
use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::nt_handle::Shared;
use crate::number::NtHandleNumber;
use crate::refusal::{access_denied, invalid};
use crate::store::ObjectNumber;

impl Turn<'_> {
    pub(super) fn on_statistics(&mut self, cx: &mut Cx<'_>, call: &StatisticsCall) -> Result<Answer, Refusal> {
        match *call {
            StatisticsCall::EnumProcesses { adapter } => {
                done(Reply::Processes(self.adapter_by_luid(adapter)?.process_ids()))
            }
            StatisticsCall::QueryStatistics { adapter } => {
                let mut statistics = self.adapter_by_luid(adapter)?.statistics(cx);
                for theirs in &mut statistics.processes {
                    theirs.identity = self.identities.get(&theirs.process).cloned();
                }
                done(Reply::Statistics(Box::new(statistics)))
            }
            StatisticsCall::OpenProcess { process, access } => {
                let known = process == self.from || self.adapters.iter().any(|adapter| adapter.knows(process));
                if !known {
                    return Err(invalid(format!("no adapter knows process {}", process.0)));
                }
                // A process changes no other one's reservation: the embedding program alone gives such a handle.
                let given = match process == self.from {
                    true => ProcessAccess::QUERY_INFORMATION | ProcessAccess::SET_INFORMATION,
                    false => ProcessAccess::QUERY_INFORMATION,
                };
                if !given.contains(access) {
                    let refused = access.difference(given);
                    return Err(access_denied(format!(
                        "access {:#x} to process {}; this call gives {given:?} at most",
                        refused.bits(),
                        process.0
                    )));
                }
                let handle = self.nt_handles.share(self.from, Shared::Process { process, access }, None)?;
                done(Reply::NtHandle(handle.raw()))
            }
            StatisticsCall::GetProcessId { process } => {
                let named = self.nt_handles.process(
                    self.from,
                    NtHandleNumber::from_raw(process),
                    ProcessAccess::QUERY_INFORMATION,
                )?;
                done(Reply::Processes(vec![named]))
            }
            StatisticsCall::QueryProcessIdentity { process } => {
                let handle = NtHandleNumber::from_raw(process);
                let named = self.nt_handles.process(self.from, handle, ProcessAccess::QUERY_INFORMATION)?;
                done(Reply::ProcessIdentity(self.identities.get(&named).cloned()))
            }
            StatisticsCall::QueryProcessOfferInfo { process } => {
                let handle = NtHandleNumber::from_raw(process);
                let named = self.nt_handles.process(self.from, handle, ProcessAccess::QUERY_INFORMATION)?;
                let theirs = self.adapters.iter().map(|adapter| adapter.decommittable_bytes(named));
                done(Reply::DecommittableBytes(theirs.sum()))
            }
            StatisticsCall::QueryClockCalibration { adapter, node, physical_adapter } => {
                let index = self.adapter(adapter)?;
                if physical_adapter != 0 {
                    return Err(invalid(format!("no physical adapter has the number {physical_adapter}")));
                }
                // No adapter has so many nodes.
                let node = NodeId(u16::try_from(node).unwrap_or(u16::MAX));
                done(Reply::ClockCalibration(self.adapters[index].calibration(cx.now_ns, node)?))
            }
        }
    }

    fn adapter_by_luid(&mut self, luid: Luid) -> Result<&mut Adapter, Refusal> {
        let found = self.adapters.untouched().iter_mut().find(|adapter| adapter.luid() == luid);
        found.ok_or_else(|| invalid(format!("no adapter has LUID {:#x}", luid.0)))
    }
}
