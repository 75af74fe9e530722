//! A port between driver and device that breaks the hardware: a queue does not leave its engine, records get lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use device_port::DevicePort;
use shared_words::Memory;
use softgpu_spec::register;
use softgpu_spec::register::queue_control::{DISABLE, ENABLE, SUSPEND};

/// The faults of the port between driver and device.
#[derive(Default)]
pub struct Fault {
    selected: AtomicU64,
    /// The queue that was enabled last.
    enabled: AtomicU64,
    /// The queues that stay on their engines, until they are enabled again.
    held: Mutex<Vec<(u64, Hold)>>,
    /// Fence records that get lost.
    pub swallows: AtomicU64,
    /// Runs when the driver disables a queue that stays on its engine.
    pub disabled: Mutex<Option<Box<dyn Fn() + Send>>>,
    /// Records of faults that get lost.
    pub swallows_faults: AtomicU64,
}

/// How a queue stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It is not suspended.
    Runs,
    /// Nor disabled, as long as the engines are on.
    Sticks,
    /// It is suspended when the driver has looked for interrupts so often.
    Late(u32),
}

impl Fault {
    pub fn hold(&self, how: Hold) {
        self.hold_queue(self.enabled.load(Ordering::SeqCst), how);
    }

    pub fn hold_queue(&self, queue: u64, how: Hold) {
        let mut held = self.held.lock().unwrap();
        held.retain(|(other, _)| *other != queue);
        held.push((queue, how));
    }
}

pub struct Port {
    pub device: Arc<dyn DevicePort>,
    pub fault: Arc<Fault>,
}

impl Port {
    /// A queue that was to be suspended some time ago is.
    fn looked(&self) {
        let mut held = self.fault.held.lock().unwrap();
        held.retain_mut(|(queue, how)| {
            let Hold::Late(looks) = how else { return true };
            *looks -= 1;
            if *looks == 0 {
                self.device.write_register(register::QUEUE_SELECT, *queue);
                self.device.write_register(register::QUEUE_CONTROL, SUSPEND);
                self.device.write_register(register::QUEUE_SELECT, self.fault.selected.load(Ordering::SeqCst));
            }
            *looks > 0
        });
    }
}

impl DevicePort for Port {
    fn read_register(&self, offset: u32) -> u64 {
        let value = self.device.read_register(offset);
        if offset != register::INTERRUPT_POP {
            return value;
        }
        if value == register::record::NONE {
            self.looked();
        }
        let fence = [register::record::FENCE, register::record::MONITORED].contains(&value);
        if fence && self.fault.swallows.load(Ordering::SeqCst) > 0 {
            self.fault.swallows.fetch_sub(1, Ordering::SeqCst);
            return self.read_register(offset);
        }
        if value == register::record::FAULT && self.fault.swallows_faults.load(Ordering::SeqCst) > 0 {
            self.fault.swallows_faults.fetch_sub(1, Ordering::SeqCst);
            return self.read_register(offset);
        }
        value
    }
    fn write_register(&self, offset: u32, value: u64) {
        let (fault, selected) = (&self.fault, self.fault.selected.load(Ordering::SeqCst));
        let mut held = fault.held.lock().unwrap();
        match offset {
            register::ENGINE_ENABLE if value == 0 => held.clear(),
            register::QUEUE_SELECT => fault.selected.store(value, Ordering::SeqCst),
            register::QUEUE_CONTROL if value == ENABLE => {
                held.retain(|(queue, _)| *queue != selected);
                fault.enabled.store(selected, Ordering::SeqCst);
            }
            _ => {}
        }
        let ignored = held.iter().any(|(queue, how)| {
            let stays = value == SUSPEND || value == DISABLE && *how == Hold::Sticks;
            stays && offset == register::QUEUE_CONTROL && *queue == selected
        });
        let is_held = held.iter().any(|(queue, _)| *queue == selected);
        if is_held && offset == register::QUEUE_CONTROL && value == DISABLE {
            fault.disabled.lock().unwrap().iter().for_each(|happens| happens());
        }
        if !ignored {
            self.device.write_register(offset, value);
        }
    }
    fn local_memory(&self) -> &Arc<Memory> {
        self.device.local_memory()
    }
    fn doorbell_page(&self) -> &Arc<Memory> {
        self.device.doorbell_page()
    }
    fn doorbell_rung(&self, index: u32) {
        self.device.doorbell_rung(index);
    }
}
