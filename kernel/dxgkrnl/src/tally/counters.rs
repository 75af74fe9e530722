//! How often things have happened on an adapter since its start, whichever process or node it was for.

use kmt_calls::AdapterCounts;

use super::Tally;

/// How often things have happened on an adapter since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdapterCounters {
    /// CPU waits that did not find their values at once.
    pub cpu_waits: u64,
    /// Signals from the CPU.
    pub cpu_signals: u64,
    /// Interrupts in which the driver found something, of whatever kind.
    pub interrupts: u64,
    /// Fence interrupts dispatched.
    pub interrupt_dispatches: u64,
    /// Of these, those that released a waiter.
    pub dispatches_releasing: u64,
    /// Doorbells connected.
    pub doorbells_connected: u64,
    /// Of these, those for which the driver took one from another queue.
    pub doorbells_passed_on: u64,
    /// Nodes that were reset under work that did not end.
    pub engine_resets: u64,
    /// Resets of the whole adapter.
    pub adapter_resets: u64,
    /// Devices that went into error.
    pub devices_lost: u64,
    /// Calls refused that had named the adapter.
    pub calls_refused: u64,
    /// Creations that lacked memory and waited for pending destructions to give it back.
    pub creations_waited: u64,
    /// Devices that were asked to trim.
    pub trims: u64,
}

impl Tally {
    /// A CPU wait did not find its values at once.
    pub fn cpu_wait_began(&mut self) {
        self.counters.cpu_waits += 1;
    }

    /// The driver found something in an interrupt.
    pub fn interrupt_found_something(&mut self) {
        self.counters.interrupts += 1;
    }

    /// An interrupt of fences was dispatched, and released so many waits.
    pub fn fence_interrupt(&mut self, released: u32) {
        self.counters.interrupt_dispatches += 1;
        self.counters.dispatches_releasing += u64::from(released > 0);
    }

    /// A doorbell was connected.
    pub fn doorbell_connected(&mut self) {
        self.counters.doorbells_connected += 1;
    }

    /// The driver took a queue's doorbell for another one that connects.
    pub fn doorbell_passed_on(&mut self) {
        self.counters.doorbells_passed_on += 1;
    }

    /// A node was reset under work that did not end.
    pub fn engine_reset(&mut self) {
        self.counters.engine_resets += 1;
    }

    /// The whole adapter was reset.
    pub fn adapter_reset(&mut self) {
        self.counters.adapter_resets += 1;
    }

    /// A device went into error.
    pub fn device_lost(&mut self) {
        self.counters.devices_lost += 1;
    }

    /// A call that had named the adapter was refused.
    pub fn call_refused(&mut self) {
        self.counters.calls_refused += 1;
    }

    /// A creation lacked memory and waits for pending destructions.
    pub fn creation_waits(&mut self) {
        self.counters.creations_waited += 1;
    }

    /// A device was asked to trim.
    pub fn trim_asked_for(&mut self) {
        self.counters.trims += 1;
    }

    /// All these counts.
    pub fn counters(&self) -> AdapterCounters {
        self.counters
    }

    /// Those of them that a call tells.
    pub fn counts(&self) -> AdapterCounts {
        let counted = self.counters;
        debug_assert!(counted.dispatches_releasing <= counted.interrupt_dispatches, "{counted:?}");
        AdapterCounts {
            interrupts: counted.interrupts,
            fence_interrupts: counted.interrupt_dispatches,
            fence_interrupts_in_vain: counted.interrupt_dispatches - counted.dispatches_releasing,
            cpu_waits: counted.cpu_waits,
            fences_signaled: counted.cpu_signals,
            engine_resets: counted.engine_resets,
            adapter_resets: counted.adapter_resets,
            devices_lost: counted.devices_lost,
            calls_refused: counted.calls_refused,
            trims: counted.trims,
        }
    }
}
