//! The accounts of processes, and how much of its quota a process has left: the machine counts what its adapters, sections and tables
//! hold for it. `quota` has the law and the limits.

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::ProcessId;

use crate::machine::Machine;
use crate::quota::{AccountId, Admission, Committed, Kind, Left, Quota, QuotaLeft};

/// The accounts that processes have.
#[derive(Default)]
pub(crate) struct Accounts {
    accounts: BTreeMap<AccountId, Account>,
}

struct Account {
    quota: Quota,
    /// Its processes, and dead ones whose commitments others still have.
    processes: BTreeSet<ProcessId>,
}

impl Machine {
    /// A process enters its account.
    pub(crate) fn enter_account(&mut self, process: ProcessId, admission: Admission) {
        let mut accounts = std::mem::take(&mut self.accounts);
        // The account counts a dead process until what it committed is free.
        accounts.accounts.retain(|_, account| {
            account.processes.retain(|id| self.has_process(*id) || self.has_committed(*id));
            !account.processes.is_empty()
        });
        let Admission { account, together, .. } = admission;
        let known = accounts.accounts.entry(account);
        let known = known.or_insert_with(|| Account { quota: together, processes: BTreeSet::new() });
        known.quota = together;
        known.processes.insert(process);
        self.accounts = accounts;
    }

    /// The processes of an account may have this much together from now on.
    pub(crate) fn limit_account(&mut self, account: AccountId, together: Quota) {
        if let Some(known) = self.accounts.accounts.get_mut(&account) {
            known.quota = together;
        }
    }

    /// The quota that a process has left of what a call needs.
    pub(crate) fn room_of(&self, process: ProcessId, needs: &[Kind]) -> QuotaLeft {
        let mut room = QuotaLeft::default();
        let Some(admission) = self.processes.get(&process).and_then(|known| known.admission) else { return room };
        let account = self.accounts.accounts.get(&admission.account).expect("it has entered it");
        let left = |kind| {
            let (own, together) = (admission.process.of(kind), account.quota.of(kind));
            let left = |used: u64, limit, of_account| Left { limit, used, of_account };
            let of_process = (own < u64::MAX).then(|| left(self.used(process, kind), own, None));
            let of_account = (together < u64::MAX).then(|| {
                let used = account.processes.iter().map(|process| self.used(*process, kind)).sum();
                left(used, together, Some(admission.account))
            });
            of_process.into_iter().chain(of_account).min_by_key(Left::left)
        };
        for kind in needs {
            room.allow(*kind, left(*kind));
        }
        room
    }

    /// Whether there may be so much more for a process once what these processes are to give back is back.
    pub(crate) fn fits_behind(
        &self,
        process: ProcessId,
        kind: Kind,
        wanted: u64,
        ending: &BTreeMap<ProcessId, Committed>,
    ) -> bool {
        let Some(admission) = self.processes.get(&process).and_then(|known| known.admission) else { return true };
        let account = self.accounts.accounts.get(&admission.account).expect("it has entered it");
        let kept = |process: &ProcessId| {
            let ends = ending.get(process).map_or(0, |ending| match kind {
                Kind::CommittedBytes => ending.bytes,
                Kind::MemoryFiles => ending.pieces,
                Kind::Handles | Kind::SyncObjects | Kind::Queued | Kind::LockedBytes => 0,
            });
            self.used(*process, kind).saturating_sub(ends)
        };
        let fits = |kept: u64, limit: u64| kept.saturating_add(wanted) <= limit;
        fits(kept(&process), admission.process.of(kind))
            && fits(account.processes.iter().map(kept).sum(), account.quota.of(kind))
    }

    /// Whether memory or a descriptor is left that was made for a process.
    fn has_committed(&self, process: ProcessId) -> bool {
        [Kind::CommittedBytes, Kind::MemoryFiles].iter().any(|kind| self.used(process, *kind) > 0)
    }

    fn used(&self, process: ProcessId, kind: Kind) -> u64 {
        let known = self.processes.get(&process);
        let in_sections = self.sections.committed().of(process);
        match kind {
            Kind::Handles => {
                known.map_or(0, |known| (known.handles.len() + known.system_handles.len()) as u64)
                    + self.nt_handles.held_by(process)
                    + self.nt_handles.kept_for(process)
            }
            Kind::SyncObjects => known.map_or(0, |known| known.handles.counted() as u64),
            Kind::CommittedBytes => {
                let on_adapters: u64 = self.adapters.iter().map(|adapter| adapter.committed().of(process).bytes).sum();
                on_adapters + in_sections.bytes
            }
            Kind::MemoryFiles => in_sections.pieces,
            Kind::Queued => self.adapters.iter().map(|adapter| adapter.unfinished_of(process)).sum(),
            Kind::LockedBytes => self.adapters.iter().map(|adapter| adapter.locked_bytes_of(process)).sum(),
        }
    }
}
