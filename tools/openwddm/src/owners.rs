//! The owning process of each allocation, read off the kernel's events, for the modules that report moves.

use std::collections::BTreeMap;

use events::Event;

/// Owners of devices and allocations, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    device_process: BTreeMap<u64, u32>,
    allocation_device: BTreeMap<u64, u64>,
}

impl Owners {
    /// Takes an event; only two kinds are about owners.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::DeviceCreated { process, device } => {
                self.device_process.insert(*device, *process);
            }
            Event::AllocationCreated { device, allocation, .. } => {
                self.allocation_device.insert(*allocation, *device);
            }
            _ => {}
        }
    }

    /// The process that created an allocation.
    pub fn of_allocation(&self, allocation: u64) -> Option<u32> {
        self.of_device(*self.allocation_device.get(&allocation)?)
    }

    /// The process that created a device.
    pub fn of_device(&self, device: u64) -> Option<u32> {
        self.device_process.get(&device).copied()
    }
}
