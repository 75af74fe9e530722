//! The slot that the device stands in: it can be pulled out at any time. Then its registers read as ones, what is written to
//! them is lost, and its engines do nothing any more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use device_port::DevicePort;
use dxgk_host::WrapPort;
use shared_words::Memory;
use softgpu_spec::register;

/// Where the device is.
#[derive(Default)]
pub struct Slot {
    device: Mutex<Option<Arc<dyn DevicePort>>>,
    empty: Arc<AtomicBool>,
}

impl Slot {
    /// Puts the slot between the driver and its device.
    pub fn wrap(self: &Arc<Slot>) -> WrapPort {
        let slot = Arc::clone(self);
        Box::new(move |device| {
            let port = Contacts { device: Arc::clone(&device), empty: Arc::clone(&slot.empty) };
            *slot.device.lock().expect("no thread panics while it holds this lock") = Some(device);
            Arc::new(port)
        })
    }

    /// Pulls the device out.
    pub fn pull(&self) {
        if let Some(device) = self.device.lock().expect("no thread panics while it holds this lock").as_ref() {
            device.write_register(register::ENGINE_ENABLE, 0);
        }
        self.empty.store(true, Ordering::Relaxed);
    }

    /// Whether the device was pulled out.
    pub fn is_empty(&self) -> bool {
        self.empty.load(Ordering::Relaxed)
    }
}

struct Contacts {
    device: Arc<dyn DevicePort>,
    empty: Arc<AtomicBool>,
}

impl Contacts {
    fn is_empty(&self) -> bool {
        self.empty.load(Ordering::Relaxed)
    }
}

impl DevicePort for Contacts {
    fn read_register(&self, offset: u32) -> u64 {
        if self.is_empty() { u64::MAX } else { self.device.read_register(offset) }
    }

    fn write_register(&self, offset: u32, value: u64) {
        if !self.is_empty() {
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
        if !self.is_empty() {
            self.device.doorbell_rung(index);
        }
    }
}
