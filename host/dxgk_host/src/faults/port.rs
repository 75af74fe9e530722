//! A device that misbehaves, as its driver reaches it: an engine hangs, the device is gone, records of fences are lost. Called by `faults`,
//! which says when.
//!
//! A hung engine has no clock (`ENGINE_GATE`): it stops before its next command. Its queues do not leave it when the driver suspends or
//! preempts them. It runs again after a reset: of the engine, of all engines, or of a queue that the driver had asked to leave and now
//! disables. A device that is gone reads as ones, and its engines have stopped.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use device_port::DevicePort;
use shared_words::Memory;
use softgpu_spec::register::{self, queue_control};

use super::Faults;
use crate::host::lock;

/// The port between a driver and a device with faults.
pub(super) struct FaultyPort {
    device: Arc<dyn DevicePort>,
    faults: Weak<Faults>,
    gone: AtomicBool,
    /// A bit for each engine that hangs.
    hung: AtomicU64,
    /// The gates as the driver has set them.
    gates: AtomicU64,
    selected: AtomicU64,
    /// Queues that were asked to leave a hung engine.
    asked: Mutex<BTreeSet<u64>>,
}

impl FaultyPort {
    pub(super) fn new(device: Arc<dyn DevicePort>, faults: Weak<Faults>) -> FaultyPort {
        FaultyPort {
            device,
            faults,
            gone: AtomicBool::new(false),
            hung: AtomicU64::new(0),
            gates: AtomicU64::new(0),
            selected: AtomicU64::new(0),
            asked: Mutex::default(),
        }
    }

    /// An engine hangs from now on.
    pub(super) fn hang(&self, engine: u32) {
        self.hung.fetch_or(1 << engine, Ordering::SeqCst);
        self.set_gates();
    }

    /// The device is pulled out.
    pub(super) fn remove(&self) {
        self.device.write_register(register::ENGINE_ENABLE, 0);
        self.gone.store(true, Ordering::SeqCst);
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Engines were reset: they hang no longer.
    fn revive(&self, engines: u64) {
        if self.hung.fetch_and(!engines, Ordering::SeqCst) & engines != 0 {
            lock(&self.asked).clear();
            self.set_gates();
        }
    }

    fn set_gates(&self) {
        let gates = self.gates.load(Ordering::SeqCst) | self.hung.load(Ordering::SeqCst);
        self.device.write_register(register::ENGINE_GATE, gates);
    }

    /// Whether the selected queue is on a hung engine that keeps it against this write.
    fn keeps_queue(&self, value: u64) -> bool {
        let (hung, selected) = (self.hung.load(Ordering::SeqCst), self.selected.load(Ordering::SeqCst));
        if hung == 0 {
            return false;
        }
        let engine = self.device.read_register(register::QUEUE_ENGINE);
        if engine >= u64::from(u64::BITS) || hung >> engine & 1 == 0 {
            return false;
        }
        match value {
            queue_control::SUSPEND | queue_control::PREEMPT => {
                lock(&self.asked).insert(selected);
                true
            }
            queue_control::DISABLE if lock(&self.asked).contains(&selected) => {
                self.revive(1 << engine);
                false
            }
            _ => false,
        }
    }
}

impl DevicePort for FaultyPort {
    fn read_register(&self, offset: u32) -> u64 {
        if self.is_gone() {
            return register::ABSENT;
        }
        if offset == register::ENGINE_GATE {
            return self.gates.load(Ordering::SeqCst);
        }
        let value = self.device.read_register(offset);
        if offset != register::INTERRUPT_POP {
            return value;
        }
        let Some(faults) = self.faults.upgrade() else { return value };
        if faults.has_timed() {
            faults.happen(self.device.read_register(register::TIMESTAMP));
        }
        let is_fence = [register::record::FENCE, register::record::MONITORED].contains(&value);
        if is_fence && faults.drops_record() { self.read_register(offset) } else { value }
    }

    fn write_register(&self, offset: u32, value: u64) {
        if self.is_gone() {
            return;
        }
        match offset {
            register::ENGINE_GATE => {
                self.gates.store(value, Ordering::SeqCst);
                return self.set_gates();
            }
            register::QUEUE_SELECT => self.selected.store(value, Ordering::SeqCst),
            register::QUEUE_CONTROL if self.keeps_queue(value) => return,
            register::ENGINE_RESET => {
                self.device.write_register(offset, value);
                let group = self.device.read_register(register::RESET_GROUP);
                return self.revive(if group & value != 0 { group | value } else { value });
            }
            register::ENGINE_ENABLE if value == 0 => {
                self.device.write_register(offset, value);
                return self.revive(u64::MAX);
            }
            _ => {}
        }
        self.device.write_register(offset, value);
    }

    fn local_memory(&self) -> &Arc<Memory> {
        self.device.local_memory()
    }

    fn doorbell_page(&self) -> &Arc<Memory> {
        self.device.doorbell_page()
    }

    fn doorbell_rung(&self, index: u32) {
        if !self.is_gone() {
            self.device.doorbell_rung(index);
        }
    }
}
