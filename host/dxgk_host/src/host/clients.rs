//! Processes elsewhere: how they come, and what they say of their memory.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use dxgkrnl::Admission;
use kmt_calls::{DoorbellAddress, MappingId};
use wddm_types::ProcessId;

use super::{Host, lock};
use crate::elsewhere::Elsewhere;

/// Lends processes elsewhere what they see of video memory, one after the other, until the host goes.
pub(super) fn spawn_lender(host: &Arc<Host>) {
    let (orders, host) = (lock(&host.state).views.lend_by_thread(), Arc::downgrade(host));
    let run = move || {
        loop {
            let next = std::panic::catch_unwind(AssertUnwindSafe(|| orders.next()));
            let moved = match next {
                Ok(Some(moved)) => moved,
                Ok(None) => return,
                Err(defect) => {
                    // What is lent is not known any more: the kernel has failed, as by a defect of its own.
                    let Some(host) = host.upgrade() else { return };
                    let failed = lock(&host.state);
                    host.answered.notify_all();
                    let _poisoned = failed;
                    std::panic::resume_unwind(defect);
                }
            };
            let Some(host) = host.upgrade() else { return };
            let mut state = lock(&host.state);
            let mapping = moved.mapping;
            if state.views.moved(moved) {
                state.turn(|machine, cx| machine.mapping_changed(cx, mapping));
            }
            drop(state);
            host.answered.notify_all();
        }
    };
    // PANIC: a host that has no thread has no engines either.
    std::thread::Builder::new().name("dxgk lender".into()).spawn(run).expect("the system gives a thread");
}

impl Host {
    /// A process came that may not have more than this, and whose account may not.
    pub fn process_admitted(&self, admission: Admission) -> ProcessId {
        lock(&self.state).turn(|machine, cx| machine.process_admitted(cx, admission))
    }

    /// A process came that is not in this program; the other speaks for it, and makes its calls here.
    pub fn process_elsewhere(&self, speaks: Arc<dyn Elsewhere>, admission: Admission) -> ProcessId {
        let mut state = lock(&self.state);
        let process = state.turn(|machine, cx| machine.process_admitted(cx, admission));
        self.doorbells.process_elsewhere(process, Arc::clone(&speaks));
        state.views.process_elsewhere(process, speaks);
        process
    }

    /// A process elsewhere has rung this doorbell of its own and found the engine asleep. Of any other it says nothing.
    // spec: sync §3.17
    pub fn doorbell_rung(&self, process: ProcessId, address: DoorbellAddress) {
        self.doorbells.rung_there(process, address);
    }

    /// What the kernel has said of a mapping of a process elsewhere holds there.
    pub fn mapping_holds(&self, process: ProcessId, mapping: MappingId) {
        let mut state = lock(&self.state);
        if state.views.hear(process, mapping) {
            state.turn(|machine, cx| machine.mapping_changed(cx, mapping));
        }
    }
}
