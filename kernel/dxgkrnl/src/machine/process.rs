//! Processes come to the machine and go, with their quotas, handles of each other, and terms that the embedding program sets.

use events::Event;
use kmt_calls::{ProcessAccess, ProcessIdentity, Refusal};
use wddm_types::ProcessId;

use super::{Cx, Machine};
use crate::nt_handle::Shared;
use crate::number::NtHandleNumber;
use crate::process::{CLASS_MAX, Process, Terms};
use crate::quota::{Admission, Quota};
use crate::refusal::invalid;

impl Machine {
    /// A process came; it has no handle yet.
    pub fn process_created(&mut self, cx: &mut Cx<'_>) -> ProcessId {
        self.add_process(cx, None)
    }

    /// A process came that may not have more than this, and whose account may not.
    pub fn process_admitted(&mut self, cx: &mut Cx<'_>, admission: Admission) -> ProcessId {
        self.add_process(cx, Some(admission))
    }

    /// A process that was admitted, and its account, may have more from now on, or less: what they have above it stays theirs, and calls that
    /// would take more are refused. Other processes are ignored.
    pub fn readmit(&mut self, id: ProcessId, process: Quota, together: Quota) {
        let admission = self.processes.get_mut(&id).and_then(|known| known.admission.as_mut());
        let Some(admission) = admission else { return };
        (admission.process, admission.together) = (process, together);
        let account = admission.account;
        self.limit_account(account, together);
    }

    fn add_process(&mut self, cx: &mut Cx<'_>, admission: Option<Admission>) -> ProcessId {
        let id = ProcessId(self.next_process);
        self.next_process += 1;
        self.processes.insert(id, Process::new(admission));
        if let Some(admission) = admission {
            self.enter_account(id, admission);
        }
        cx.emit_of_all(Event::ProcessCreated { process: id.0 });
        id
    }

    /// Whether a process is there.
    pub fn has_process(&self, id: ProcessId) -> bool {
        self.processes.contains_key(&id)
    }

    /// Gives a process a handle of another one, as the operating system's `OpenProcess` would: whether it may is the caller's to
    /// decide. It closes it like every NT handle.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` when there is no such process or no such right; `NO_MEMORY` when the machine has as many handles as it may.
    // spec: memory §5.5
    pub fn open_process(
        &mut self,
        from: ProcessId,
        of: ProcessId,
        access: ProcessAccess,
    ) -> Result<NtHandleNumber, Refusal> {
        if [from, of].iter().any(|process| !self.processes.contains_key(process)) {
            return Err(invalid("there is no such process"));
        }
        if !ProcessAccess::all().contains(access) {
            return Err(invalid(format!("rights {:#x} of a process mean nothing here", access.bits())));
        }
        self.nt_handles.share(from, Shared::Process { process: of, access }, None)
    }

    /// The embedding program has given a process something that keeps an NT handle of it, wherever it is passed: the handle is the
    /// machine's from now on, until [`Machine::close_kept_nt_handle`].
    ///
    /// # Errors
    /// `INVALID_HANDLE` when the process has no such NT handle; `INVALID_PARAMETER` when it is of a process.
    // spec: sync §2.2
    pub fn keep_nt_handle(&mut self, process: ProcessId, handle: NtHandleNumber) -> Result<(), Refusal> {
        self.nt_handles.keep(process, handle)
    }

    /// Nothing is left that keeps this NT handle. Other handles are ignored.
    pub fn close_kept_nt_handle(&mut self, cx: &mut Cx<'_>, handle: NtHandleNumber) {
        let Ok(object) = self.nt_handles.close(ProcessId::SYSTEM, handle) else { return };
        let named = (&mut self.adapters, &mut self.cross_fences, &mut self.keyed_mutexes);
        crate::call::unname(named, cx, object);
        self.clear_behind(cx);
    }

    /// A process went: everything that it had is destroyed, others go on. Unknown ids are ignored: a process can die
    /// only once.
    pub fn process_died(&mut self, cx: &mut Cx<'_>, id: ProcessId) {
        if self.processes.remove(&id).is_none() {
            return;
        }
        self.identities.remove(&id);
        for adapter in self.adapters.iter_mut() {
            adapter.process_died(cx, id);
            adapter.settle(cx);
        }
        self.close_sections_of(cx, id);
        for gone in self.keyed_mutexes.close_all_of(cx, id) {
            self.globals.forget(gone);
        }
        self.nt_handles.process_ended(id);
        for object in self.nt_handles.close_all_of(id) {
            let named = (&mut self.adapters, &mut self.cross_fences, &mut self.keyed_mutexes);
            crate::call::unname(named, cx, object);
        }
        debug_assert_eq!(self.nt_handles.held_by(id), 0, "NT handles go with their process: {id:?}");
        debug_assert!(self.sections.open_of(id).is_empty(), "the handles of sections go with their process: {id:?}");
        cx.emit_of_all(Event::ProcessDied { process: id.0 });
        self.blocked.retain(|(process, ..)| *process != id);
        self.lacking.forget(id);
        self.clear_behind(cx);
    }

    /// How much a process's memory is protected against others', and in which band its contexts are (`D3DKMT_SCHEDULINGPRIORITYCLASS`, 0 IDLE to 5 REALTIME;
    /// more counts as 5). Unknown processes are ignored.
    pub fn set_process_priority(&mut self, cx: &mut Cx<'_>, id: ProcessId, class: u32) {
        self.change_terms(cx, id, |terms| terms.class = class.min(CLASS_MAX));
    }

    /// The most local memory that a process's lists may hold, whatever else there is; `None`: no limit of its own.
    pub fn set_process_budget(&mut self, cx: &mut Cx<'_>, id: ProcessId, bytes: Option<u64>) {
        self.change_terms(cx, id, |terms| terms.budget_bytes = bytes);
    }

    /// Whether a process may ask for priorities above the ordinary ones (`SE_INC_BASE_PRIORITY_NAME`), from now on; it may not at first.
    /// Priorities that it has set stay. Unknown processes are ignored.
    // spec: sync §4.2
    pub fn allow_raised_priority(&mut self, id: ProcessId, allowed: bool) {
        if let Some(process) = self.processes.get_mut(&id) {
            process.may_raise_priority = allowed;
        }
    }

    /// What the operating system says of a process, for figures. Unknown processes are ignored.
    pub fn identify_process(&mut self, id: ProcessId, identity: ProcessIdentity) {
        if self.processes.contains_key(&id) {
            self.identities.insert(id, identity);
        }
    }

    fn change_terms(&mut self, cx: &mut Cx<'_>, id: ProcessId, change: impl FnOnce(&mut Terms)) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        change(&mut process.terms);
        let terms = process.terms;
        for adapter in self.adapters.iter_mut() {
            adapter.apply_terms(cx, id, terms);
        }
        self.after_turn(cx);
    }
}
