//! How often an adapter was reset lately, and its engines under whom, and when that is too often (sync §4.4). A reset itself is work of
//! several parts: `adapter::recovery`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wddm_types::ProcessId;

use super::Life;

/// `TdrLevel` where the kernel looks: its answer to hung work. Level 2 (VGA) was never built.
// spec: sync §4.4
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTimeout {
    /// 1: bug check 0x116, which is the end of the adapter, and of no other.
    Stop,
    /// 3: its engine is reset, else the adapter.
    #[default]
    Recover,
}

/// The policy for work that does not end, and for how often an adapter is reset before it is given up. The defaults are those
/// of the documents.
// spec: sync §4.4
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveryPolicy {
    /// `TdrLimitCount`: so many resets within the time are survived, one more is not. 0: none is. A process survives one
    /// less of its engines' resets.
    pub limit_count: u32,
    /// `TdrLimitTime`, in nanoseconds.
    pub limit_time_ns: u64,
    /// `TdrDelay`, in nanoseconds: so long work may make no progress, and so long it may take to leave the engine (`timeout`). `None`:
    /// the kernel does not look (`TdrLevel` 0).
    pub delay_ns: Option<u64>,
    /// `TdrDdiDelay`, in nanoseconds: so long a call of the driver may take. One that takes longer is told of, and if it is part of a
    /// reset it is the end of the adapter.
    pub ddi_delay_ns: u64,
    /// `TdrLevel` otherwise.
    pub on_timeout: OnTimeout,
}

impl Default for RecoveryPolicy {
    fn default() -> RecoveryPolicy {
        RecoveryPolicy {
            limit_count: 5,
            limit_time_ns: 60_000_000_000,
            delay_ns: Some(2_000_000_000),
            ddi_delay_ns: 5_000_000_000,
            on_timeout: OnTimeout::default(),
        }
    }
}

/// An adapter's history of resets.
#[derive(Debug, Default)]
pub(super) struct Resets {
    /// When it was reset lately, oldest first.
    lately: VecDeque<u64>,
    count: u64,
    /// When engines were reset lately under a process, oldest first.
    engines: BTreeMap<ProcessId, VecDeque<u64>>,
    /// Processes that have had that too often.
    blocked: BTreeSet<ProcessId>,
    /// Why it is to be reset at the end of the turn.
    due: Option<String>,
}

/// How often it was reset, and whether a reset is to come.
impl Life {
    /// The hardware has failed in the middle of something: the reset falls due when that is over.
    pub fn reset_falls_due(&mut self, reason: String) {
        self.resets.due.get_or_insert(reason);
    }

    /// Whether a reset is about to come: the hardware is given nothing more.
    pub fn is_reset_due(&self) -> bool {
        self.resets.due.is_some()
    }

    /// The reset that has fallen due, with its reason.
    pub fn take_due_reset(&mut self) -> Option<String> {
        self.resets.due.take()
    }

    /// How often the adapter was reset: reports of the driver from before a reset mean nothing after it.
    pub fn reset_count(&self) -> u64 {
        self.resets.count
    }

    /// Whether one more reset is survived.
    ///
    /// # Errors
    /// It was reset too often lately.
    // spec: sync §4.4
    pub fn may_reset(&mut self, now_ns: u64, policy: RecoveryPolicy) -> Result<(), String> {
        keep_late(&mut self.resets.lately, now_ns, policy.limit_time_ns);
        let times = self.resets.lately.len();
        if times < policy.limit_count as usize {
            return Ok(());
        }
        Err(format!("it was reset {times} times within {} seconds", policy.limit_time_ns / 1_000_000_000))
    }

    /// The driver has reset its device.
    pub fn was_reset(&mut self, now_ns: u64) {
        self.resets.lately.push_back(now_ns);
        self.resets.count += 1;
    }

    /// An engine was reset under a process. True: that was once too often, and the process is kept away from now on.
    // spec: sync §4.4
    pub fn engine_was_reset(&mut self, now_ns: u64, process: ProcessId, policy: RecoveryPolicy) -> bool {
        let times = self.resets.engines.entry(process).or_default();
        keep_late(times, now_ns, policy.limit_time_ns);
        times.push_back(now_ns);
        times.len() > policy.limit_count.saturating_sub(1) as usize && self.resets.blocked.insert(process)
    }

    /// Whether a process may not use the adapter any more.
    pub fn is_blocked(&self, process: ProcessId) -> bool {
        self.resets.blocked.contains(&process)
    }

    /// A process has gone.
    pub fn forget(&mut self, process: ProcessId) {
        self.resets.engines.remove(&process);
        self.resets.blocked.remove(&process);
    }
}

/// Forgets what is longer ago than the time in which resets are counted.
fn keep_late(times: &mut VecDeque<u64>, now_ns: u64, limit_time_ns: u64) {
    times.retain(|at| now_ns.saturating_sub(*at) < limit_time_ns);
}
