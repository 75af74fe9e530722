//! Quotas: the limits of a process, and of all processes of one account together. The program that makes a process sets both
//! (`Machine::process_admitted`); a process without them has only the kernel's own.
//!
//! # The law of this boundary
//! The kernel asks a quota before it makes anything: a call over it gets `NO_MEMORY` with [`Blame::Quota`] and a reason that names what,
//! whose limit and how much of it is in use; nothing has changed, and no other process notices. The kernel counts what there is, so that
//! freeing gives back exactly what making took:
//!
//! | what | counted |
//! |---|---|
//! | handles | names in the process's tables, and NT handles that it has to close, or that are kept for it, also when it has died |
//! | sync objects | those of them that name fences, keyed mutexes and other synchronization objects, those of its queues too |
//! | committed bytes | allocations that it created, with instances that locks made, and sections; until the pages are free again, also when it has died and others have them open |
//! | memory files | what costs the host a descriptor each: sections, which lie in files of their own for the processes that share them. Allocations lie in a few files of their process, however many there are |
//! | locked bytes | allocations that it has locked and that may lie in video memory: where the process is elsewhere, the kernel lends it those pages, and their content is copied at the first lock and behind the last unlock. A lock of WDDM 1 that waits for the GPU is asked when the call comes |
//! | queued | packets that contexts and hardware queues hold or have with the device; a queue that a process feeds itself holds none |

use std::collections::BTreeMap;

use kmt_calls::Refusal;
use wddm_types::{Blame, NtStatus, ProcessId};

use crate::refusal::refuse;

/// Limits; [`u64::MAX`] is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Most handles, NT handles among them.
    pub handles: u64,
    /// Most fences and other synchronization objects.
    pub sync_objects: u64,
    /// Most bytes of allocations and sections.
    pub committed_bytes: u64,
    /// Most files that hold sections.
    pub memory_files: u64,
    /// Most packets that were submitted and are not done.
    pub queued: u64,
    /// Most bytes of locked allocations that may lie in video memory.
    pub locked_bytes: u64,
}

impl Quota {
    /// No limits.
    pub const NONE: Quota = Quota {
        handles: u64::MAX,
        sync_objects: u64::MAX,
        committed_bytes: u64::MAX,
        memory_files: u64::MAX,
        queued: u64::MAX,
        locked_bytes: u64::MAX,
    };

    /// The limit of one kind.
    pub(crate) fn of(&self, what: Kind) -> u64 {
        match what {
            Kind::Handles => self.handles,
            Kind::SyncObjects => self.sync_objects,
            Kind::CommittedBytes => self.committed_bytes,
            Kind::MemoryFiles => self.memory_files,
            Kind::Queued => self.queued,
            Kind::LockedBytes => self.locked_bytes,
        }
    }
}

/// Processes that are counted together: a user, as the program that makes processes numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountId(pub u32);

/// A process's own quota, and its account with the account's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Its account.
    pub account: AccountId,
    /// The process's own limits.
    pub process: Quota,
    /// The limits of all processes of the account together; those named last hold.
    pub together: Quota,
}

/// A limited resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Handles,
    SyncObjects,
    CommittedBytes,
    MemoryFiles,
    Queued,
    LockedBytes,
}

impl Kind {
    const ALL: [Kind; 6] =
        [Kind::Handles, Kind::SyncObjects, Kind::CommittedBytes, Kind::MemoryFiles, Kind::Queued, Kind::LockedBytes];

    fn name(self) -> &'static str {
        match self {
            Kind::Handles => "handles",
            Kind::SyncObjects => "sync objects",
            Kind::CommittedBytes => "committed bytes",
            Kind::MemoryFiles => "memory files",
            Kind::Queued => "queued packets",
            Kind::LockedBytes => "locked bytes of video memory",
        }
    }

    /// Its key in the configuration.
    fn key(self) -> &'static str {
        match self {
            Kind::Handles => "handles",
            Kind::SyncObjects => "sync_objects",
            Kind::CommittedBytes => "memory",
            Kind::MemoryFiles => "descriptors",
            Kind::Queued => "queued",
            Kind::LockedBytes => "locked_video",
        }
    }
}

/// How much of one thing may be had still.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub limit: u64,
    pub used: u64,
    /// It is the account's limit, not the process's.
    pub of_account: Option<AccountId>,
}

impl Left {
    /// How much.
    pub fn left(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// The quota that a process has left, at the begin of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QuotaLeft {
    /// The tighter of both limits for each kind that the call needs; none: there is no limit, or no need.
    left: [Option<Left>; Kind::ALL.len()],
}

impl QuotaLeft {
    /// So much may be had of a kind that the call needs; none: there is no limit.
    pub fn allow(&mut self, kind: Kind, left: Option<Left>) {
        self.left[kind as usize] = left;
    }

    /// How much of this there may be still.
    pub fn left(&self, kind: Kind) -> u64 {
        self.left[kind as usize].map_or(u64::MAX, |left| left.left())
    }

    /// Whether there may be so much more.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    // spec: memory §9.2, sync §5: the scarcity that these calls have a status for
    pub fn take(&self, kind: Kind, wanted: u64) -> Result<(), Refusal> {
        if self.left(kind) >= wanted { Ok(()) } else { self.refuse(kind, wanted).map_or(Ok(()), Err) }
    }

    /// Whether there may be so many more bytes, in so many more files of their own.
    ///
    /// # Errors
    /// The first of both that there may not be.
    pub fn may_commit(&self, bytes: u64, files: u64) -> Result<(), OverQuota> {
        for (kind, wanted) in [(Kind::CommittedBytes, bytes), (Kind::MemoryFiles, files)] {
            self.take(kind, wanted).map_err(|refusal| OverQuota { kind, wanted, refusal })?;
        }
        Ok(())
    }

    /// The refusal of so much more; `None`: there is no limit.
    pub fn refuse(&self, kind: Kind, wanted: u64) -> Option<Refusal> {
        let left = self.left[kind as usize]?;
        let Left { limit, used, .. } = left;
        let whose = match left.of_account {
            None => "the process has".to_owned(),
            Some(AccountId(account)) => format!("the processes of account {account} have"),
        };
        let section = if left.of_account.is_none() { "process" } else { "user" };
        let reason = format!(
            "limit of {}: {whose} {used} of {limit}, and {wanted} more are asked for; raise {section}.{} in the kernel's configuration",
            kind.name(),
            kind.key(),
        );
        Some(refuse(NtStatus::NO_MEMORY, Blame::Quota, reason))
    }
}

/// So much more of this is over a quota.
#[derive(Debug)]
pub(crate) struct OverQuota {
    pub kind: Kind,
    pub wanted: u64,
    /// The answer of a call that asks for it.
    pub refusal: Refusal,
}

/// Memory that processes have committed, on one adapter or in sections.
#[derive(Debug, Default)]
pub(crate) struct Commitments {
    of: BTreeMap<ProcessId, Committed>,
}

/// Of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Committed {
    pub bytes: u64,
    /// In so many pieces.
    pub pieces: u64,
}

impl Commitments {
    /// A process's commitments.
    pub fn of(&self, process: ProcessId) -> Committed {
        self.of.get(&process).copied().unwrap_or_default()
    }

    /// A process has another piece.
    pub fn charge(&mut self, process: ProcessId, bytes: u64) {
        let committed = self.of.entry(process).or_default();
        committed.bytes += bytes;
        committed.pieces += 1;
    }

    /// One that it had is free.
    pub fn release(&mut self, process: ProcessId, bytes: u64) {
        let committed = self.of.get_mut(&process).expect("only what was charged is released");
        committed.bytes = committed.bytes.checked_sub(bytes).expect("no more than was charged");
        debug_assert!(committed.pieces > 0, "a piece that is released was counted: {committed:?}");
        committed.pieces -= 1;
        if committed.pieces == 0 {
            debug_assert_eq!(committed.bytes, 0, "bytes go with their last piece");
            self.of.remove(&process);
        }
    }

    /// All, by process.
    pub fn iter(&self) -> impl Iterator<Item = (ProcessId, Committed)> {
        self.of.iter().map(|(process, committed)| (*process, *committed))
    }
}

/// Memory that processes have committed on an adapter, and how much more may be committed by the call that the adapter carries out. It asks
/// no other part. Without a call there is no limit: deferred work belongs to none.
#[derive(Default)]
pub(crate) struct Committing {
    committed: Commitments,
    left: QuotaLeft,
}

impl Committing {
    /// A call begins, whose process has this left.
    pub fn call_begins(&mut self, left: QuotaLeft) {
        self.left = left;
    }

    /// The call is over, and no quota limits what follows.
    pub fn call_ends(&mut self) {
        self.left = QuotaLeft::default();
    }

    /// Whether the call may commit so many more bytes of allocations.
    ///
    /// # Errors
    /// It may not.
    pub fn may_commit(&self, bytes: u64) -> Result<(), OverQuota> {
        self.left.may_commit(bytes, 0)
    }

    /// Whether the call may lock so many more bytes that may lie in video memory.
    ///
    /// # Errors
    /// `NO_MEMORY`.
    pub fn may_lock(&self, bytes: u64) -> Result<(), Refusal> {
        self.left.take(Kind::LockedBytes, bytes)
    }

    /// A process has another piece.
    pub fn charge(&mut self, process: ProcessId, bytes: u64) {
        self.committed.charge(process, bytes);
    }

    /// One that it had is free.
    pub fn release(&mut self, process: ProcessId, bytes: u64) {
        self.committed.release(process, bytes);
    }

    /// All that processes have committed.
    pub fn committed(&self) -> &Commitments {
        &self.committed
    }
}
