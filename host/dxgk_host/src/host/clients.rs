//! Processes elsewhere: their beginning, and their answers about their memory.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};

use dxgkrnl::{Admission, Heard, MappingChangeNumber, ObjectNumber, Quota};
use kmt_calls::{DoorbellAddress, MappingId, ProcessIdentity};
use kmt_link::{OwnCommands, OwnEvents};
use shared_words::own_threads;
use wddm_types::ProcessId;

use super::Host;
use crate::cpu_barrier::CpuBarrier;
use crate::cpu_mapping::Moved;
use crate::remote_process::RemoteProcess;

/// Starts the thread that carries out the orders to lend video memory to processes elsewhere, one after the other, until the host goes, and
/// reports each to the kernel.
pub(super) fn spawn_lender(host: &Arc<Host>) {
    let orders = host.hold().views.lend_by_thread();
    spawn("dxgk lender", host, move |host| {
        // The host is going when it cannot be upgraded.
        while let (Some(moved), Some(host)) = (orders.next(), host.upgrade()) {
            host.moved(moved);
        }
    });
}

/// A thread of the kernel's. If it dies of a defect, the host does not know any more which memory is lent: the kernel has failed, as by a
/// defect of its own.
fn spawn(name: &str, host: &Arc<Host>, run: impl FnOnce(&Weak<Host>) + Send + 'static) {
    let host = Arc::downgrade(host);
    let run = move || {
        // This drops the thread's end of the orders: a thread that waits for the rest of them goes on, and panics.
        let Err(defect) = std::panic::catch_unwind(AssertUnwindSafe(|| run(&host))) else { return };
        let Some(host) = host.upgrade() else { return };
        let mut state = host.hold();
        state.fail();
        let _poisoned = state;
        std::panic::resume_unwind(defect);
    };
    // PANIC: a host that has no thread has no engines either.
    own_threads::spawn(name, run).expect("the system gives a thread");
}

impl Host {
    /// A process came that may not have more than this, and whose account may not.
    pub fn process_admitted(&self, admission: Admission) -> ProcessId {
        self.hold().turn(|machine, cx| machine.process_admitted(cx, admission))
    }

    /// A process came that is not in this program; the other speaks for it, and makes its calls here.
    pub fn process_elsewhere(&self, speaks: Arc<dyn RemoteProcess>, admission: Admission) -> ProcessId {
        let mut state = self.hold();
        let process = state.turn(|machine, cx| machine.process_admitted(cx, admission));
        self.doorbells.process_elsewhere(process, Arc::clone(&speaks));
        if self.traces_fences() {
            speaks.traces(true);
        }
        self.arenas().process_comes(process, Arc::clone(&speaks), self.system_memory());
        let arenas = self.arenas().of(process).expect("it has just come");
        state.views.process_elsewhere(process, speaks, arenas);
        process
    }

    /// What the operating system says of a process, for figures.
    pub fn identify_process(&self, process: ProcessId, identity: ProcessIdentity) {
        self.hold().turn(|machine, _| machine.identify_process(process, identity));
    }

    /// A process that was admitted, and its account, may have more from now on, or less.
    pub fn readmit(&self, process: ProcessId, own: Quota, together: Quota) {
        let Ok(mut state) = self.hold_sound() else { return };
        state.turn(|machine, _| machine.readmit(process, own, together));
    }

    /// The kernel's events about a process since it looked last; the first look begins to keep them.
    pub fn own_events(&self, process: ProcessId) -> OwnEvents {
        self.own_events.take(process)
    }

    /// The commands that engines have begun for a process since it asked first.
    pub fn own_commands(&self, process: ProcessId) -> OwnCommands {
        self.own_commands.of(process, &self.devices)
    }

    /// Whether a process elsewhere that was registered before ([`shared_words::across`]) may ring without a barrier of its own: this program
    /// runs on every processor once, which may take a while.
    // spec: sync §3.9
    pub fn run_everywhere(&self) -> bool {
        self.cpu_barrier.as_ref().is_some_and(CpuBarrier::pass)
    }

    /// A process elsewhere has rung this doorbell of its own and found the engine asleep. The host ignores other processes' doorbells.
    // spec: sync §3.17
    pub fn doorbell_rung(&self, process: ProcessId, address: DoorbellAddress) {
        self.doorbells.rung_there(process, address);
    }

    /// Pages were lent, or taken back.
    fn moved(&self, moved: Moved) {
        let Ok(mut state) = self.hold_sound() else { return };
        let mapping = moved.mapping;
        if let Some((number, heard)) = state.views.moved(moved) {
            state
                .turn(|machine, cx| machine.mapping_changed(cx, mapping, MappingChangeNumber::from_raw(number), heard));
        }
    }

    /// A process elsewhere has carried out the oldest pending change of a mapping.
    pub fn mapping_holds(&self, process: ProcessId, mapping: MappingId) {
        let Ok(mut state) = self.hold_sound() else { return };
        if let Some(number) = state.views.hear(process, mapping) {
            state.turn(|machine, cx| {
                machine.mapping_changed(cx, mapping, MappingChangeNumber::from_raw(number), Heard::Seen)
            });
        }
    }
}

#[cfg(test)]
mod tests;
