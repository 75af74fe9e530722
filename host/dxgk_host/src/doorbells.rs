//! What the processes of this host see at the addresses of their doorbells (sync §3.17): made, held, shown as the kernel says, at once.
//! It decides nothing. Called by the kernel under the machine's lock, and by links that look a doorbell up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use device_port::DevicePort;
use dxgkrnl::DoorbellPages;
use kmt_calls::DoorbellAddress;
use kmt_link::{DoorbellPage, WakeEngine};
use softgpu_spec::doorbell;
use wddm_types::ProcessId;

use crate::host::lock;

/// The doorbells of all processes.
#[derive(Debug, Default)]
pub(crate) struct Doorbells {
    pages: Mutex<BTreeMap<DoorbellAddress, (ProcessId, Arc<DoorbellPage>)>>,
}

impl Doorbells {
    /// A doorbell of a process.
    pub fn of(&self, process: ProcessId, address: DoorbellAddress) -> Option<Arc<DoorbellPage>> {
        let pages = lock(&self.pages);
        pages.get(&address).filter(|(owner, _)| *owner == process).map(|(_, page)| Arc::clone(page))
    }
}

/// Those of one adapter.
pub(crate) struct AdapterDoorbells {
    pub all: Arc<Doorbells>,
    pub device: Arc<dyn DevicePort>,
}

impl std::fmt::Debug for AdapterDoorbells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdapterDoorbells")
    }
}

impl AdapterDoorbells {
    fn page(&self, address: DoorbellAddress) -> Arc<DoorbellPage> {
        // PANIC: the kernel names a doorbell that it has made.
        Arc::clone(&lock(&self.all.pages)[&address].1)
    }
}

impl DoorbellPages for AdapterDoorbells {
    fn made(&self, address: DoorbellAddress, process: ProcessId) {
        let device = Arc::clone(&self.device);
        let wake: WakeEngine = Box::new(move |place| {
            if let Some(number) = doorbell::of_page(place) {
                device.doorbell_rung(number);
            }
        });
        let page = DoorbellPage::new(Arc::clone(self.device.doorbell_page()), wake);
        lock(&self.all.pages).insert(address, (process, Arc::new(page)));
    }

    fn hold(&self, address: DoorbellAddress) {
        self.page(address).hold();
    }

    // spec: sync §3.17: what the driver says is not believed: its own doorbells are nobody else's
    fn show(&self, address: DoorbellAddress, offset: Option<u64>) -> bool {
        offset.is_none_or(|offset| doorbell::of_page(offset).is_some()) && self.page(address).show(offset)
    }

    fn gone(&self, address: DoorbellAddress) {
        let page = lock(&self.all.pages).remove(&address);
        if let Some((_, page)) = page {
            page.hold();
            page.show(None);
        }
    }
}
