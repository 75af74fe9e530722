//! Processes of the host: their begin, their rank and budget, their death.

use std::time::{Duration, Instant};

use dxgkrnl::{Machine, NtHandleNumber, ObjectNumber};
use kmt_calls::{ProcessAccess, ProcessIdentity, Refusal};
use wddm_types::ProcessId;

use super::Host;

impl Host {
    /// Makes a new process known to the kernel.
    pub fn process_created(&self) -> ProcessId {
        self.hold().turn(Machine::process_created)
    }

    /// What the operating system says of this program: processes of it have this identity.
    pub fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// A process has died: the kernel reaps its objects and refuses its pending calls. Returns how long that has kept the kernel busy, which
    /// is the time that all other calls had to wait.
    pub fn process_died(&self, process: ProcessId) -> Duration {
        let Ok(mut state) = self.hold_sound() else { return Duration::ZERO };
        let began = Instant::now();
        self.arenas.process_leaves(process);
        state.turn(|machine, cx| machine.process_died(cx, process));
        state.notifications.remove(&process);
        state.views.process_gone(process);
        self.arenas.process_gone(process);
        self.doorbells.process_gone(process);
        self.own_events.process_gone(process);
        self.own_commands.process_gone(process, &self.devices);
        // This refuses its pending calls.
        state.waiting.wake_all();
        began.elapsed()
    }

    /// The processes elsewhere are about to go, all of them, and their programs may live on: what several of them map stays as it is, too.
    // spec: memory §6.3
    pub fn processes_leave(&self) {
        self.system_memory().leave_lent();
    }

    /// Gives a process a handle of another one, as the operating system's `OpenProcess` would. The caller decides whether it may.
    ///
    /// # Errors
    /// When there is no such process, or no such right.
    pub fn open_process(&self, from: ProcessId, of: ProcessId, access: ProcessAccess) -> Result<u64, Refusal> {
        self.hold_sound()?.turn(|machine, _| machine.open_process(from, of, access)).map(NtHandleNumber::raw)
    }

    /// Whether a process may ask for priorities above the ordinary ones itself (`SE_INC_BASE_PRIORITY_NAME`); it may not at first.
    pub fn allow_raised_priority(&self, process: ProcessId, allowed: bool) {
        self.hold().turn(|machine, _| machine.allow_raised_priority(process, allowed));
    }

    /// How much a process's memory is protected and in which band its contexts are: `D3DKMT_SCHEDULINGPRIORITYCLASS`, 0 IDLE to 5
    /// REALTIME.
    pub fn set_process_priority(&self, process: ProcessId, class: u32) {
        self.hold().turn(|machine, cx| machine.set_process_priority(cx, process, class));
    }

    /// The most video memory that a process's residency lists may hold; `None`: no limit of its own.
    pub fn set_process_budget(&self, process: ProcessId, bytes: Option<u64>) {
        self.hold().turn(|machine, cx| machine.set_process_budget(cx, process, bytes));
    }
}
