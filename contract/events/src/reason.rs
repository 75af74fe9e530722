//! Why something happened, where a kind of event has several reasons.

use serde::{Deserialize, Serialize};

/// Why a leaf table of 64-KB entries got 4-KB ones (memory §4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Conversion {
    /// Pages of system memory appeared in it.
    SystemMemory,
    /// Part of a 64-KB page did, or left it.
    PartOfPage,
    /// 4-KB pages of a memory segment appeared in it.
    SmallPages,
}

impl Conversion {
    /// Some words for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Conversion::SystemMemory => "system memory appeared",
            Conversion::PartOfPage => "part of a 64-KB page",
            Conversion::SmallPages => "4-KB segment pages appeared",
        }
    }
}

/// Why the kernel quiesces the contexts of a process while its page tables change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Stillness {
    /// A leaf table is converted (memory §4.5).
    Conversion,
    /// The root becomes longer or shorter (memory §4.6).
    Root,
    /// The hardware wants it for every change (memory §4.2, bit 5).
    Hardware,
}

impl Stillness {
    /// Some words for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Stillness::Conversion => "a leaf table is converted",
            Stillness::Root => "the root changes its length",
            Stillness::Hardware => "the hardware wants an idle space",
        }
    }
}

/// The work for which a node gives back what was handed over (sync §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PreemptedFor {
    /// Paging, which goes before every context.
    Paging,
    /// A context that ranks higher.
    Rank,
    /// For no other work: the device that has the node must quiesce.
    Standstill,
    /// For no other work: the node makes no progress with what it has in front.
    Timeout,
    /// For no other work: the node is reset with another one.
    Reset,
}

impl PreemptedFor {
    /// Some words for tables.
    pub const fn name(self) -> &'static str {
        match self {
            PreemptedFor::Paging => "paging",
            PreemptedFor::Rank => "a context that ranks higher",
            PreemptedFor::Standstill => "a device that must stand still",
            PreemptedFor::Timeout => "paging that does not get on",
            PreemptedFor::Reset => "an engine that is reset with it",
        }
    }
}

/// The party that has taken a doorbell away from its process (sync §3.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DoorbellTaken {
    /// The driver, for another queue.
    Driver,
    /// The kernel: its engine or its device is to have less power.
    Power,
    /// The kernel: its queue has other logs.
    Logs,
    /// The kernel, for good: its device is lost.
    Lost,
}

impl DoorbellTaken {
    /// Some words for tables.
    pub const fn name(self) -> &'static str {
        match self {
            DoorbellTaken::Driver => "the driver gave it to another queue",
            DoorbellTaken::Power => "less power",
            DoorbellTaken::Logs => "other logs",
            DoorbellTaken::Lost => "the device is lost",
        }
    }
}

/// How hardware that schedules by itself treats a context (sync §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ContextSchedule {
    /// It has nothing to run.
    Idle,
    /// The engine runs it.
    Running,
    /// It could run, and does not.
    Ready,
    /// It is on the engine beside the one that runs.
    Standby,
}
