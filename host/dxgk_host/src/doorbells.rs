//! The pages at the addresses of processes' doorbells (sync §3.17). The kernel has them made, held and shown, at once. A process of this
//! program has an address at which the host shows pages; a process elsewhere has a page of its own ([`remote_page`]). This module decides nothing.
//! The kernel calls it under the machine's lock, links look doorbells up in it, and the daemon reports rings of processes elsewhere.

mod remote_page;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use device_port::DevicePort;
use dxgkrnl::DoorbellPages;
use kmt_calls::DoorbellAddress;
use kmt_link::{DoorbellPage, WakeEngine};
use softgpu_spec::doorbell;
use wddm_types::ProcessId;

use self::remote_page::RemotePage;
use crate::host::lock;
use crate::remote_process::RemoteProcess;

/// The doorbells of all processes.
#[derive(Default)]
pub(crate) struct Doorbells {
    pages: Mutex<BTreeMap<DoorbellAddress, (ProcessId, Page)>>,
    /// The speaker of each process that is not in this program.
    elsewhere: Mutex<BTreeMap<ProcessId, Arc<dyn RemoteProcess>>>,
}

/// The page of one doorbell.
#[derive(Clone)]
enum Page {
    Here(Arc<DoorbellPage>),
    Remote(Arc<RemotePage>),
    /// The host could make no page for a process elsewhere, which is being ended for that.
    Nowhere,
}

impl Doorbells {
    /// A doorbell of a process of this program.
    pub fn of(&self, process: ProcessId, address: DoorbellAddress) -> Option<Arc<DoorbellPage>> {
        match self.page(process, address)? {
            Page::Here(page) => Some(page),
            Page::Remote(_) | Page::Nowhere => None,
        }
    }

    /// A process elsewhere says that it has rung one while its engine slept.
    pub fn rung_there(&self, process: ProcessId, address: DoorbellAddress) {
        if let Some(Page::Remote(page)) = self.page(process, address) {
            page.wake();
        }
    }

    fn page(&self, process: ProcessId, address: DoorbellAddress) -> Option<Page> {
        let pages = lock(&self.pages);
        pages.get(&address).filter(|(owner, _)| *owner == process).map(|(_, page)| page.clone())
    }

    /// A process is not in this program.
    pub fn process_elsewhere(&self, process: ProcessId, speaks: Arc<dyn RemoteProcess>) {
        lock(&self.elsewhere).insert(process, speaks);
    }

    /// A process has gone: forgets its speaker.
    pub fn process_gone(&self, process: ProcessId) {
        lock(&self.elsewhere).remove(&process);
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
    fn page(&self, address: DoorbellAddress) -> Page {
        // PANIC: the kernel names a doorbell that it has made.
        lock(&self.all.pages)[&address].1.clone()
    }

    fn make_here(&self) -> Page {
        let device = Arc::clone(&self.device);
        let wake: WakeEngine = Box::new(move |place| {
            if let Some(number) = doorbell::of_page(place) {
                device.doorbell_rung(number);
            }
        });
        Page::Here(Arc::new(DoorbellPage::new(Arc::clone(self.device.doorbell_page()), wake)))
    }

    fn make_remote_page(&self, address: DoorbellAddress, speaks: &Arc<dyn RemoteProcess>) -> Page {
        match RemotePage::new(Arc::clone(&self.device), Arc::clone(speaks)) {
            Ok(page) => {
                speaks.doorbell(address, Arc::clone(page.file()));
                Page::Remote(Arc::new(page))
            }
            Err(error) => {
                speaks.lost(&format!("there was no page for its doorbell: {error}"));
                Page::Nowhere
            }
        }
    }
}

impl DoorbellPages for AdapterDoorbells {
    fn made(&self, address: DoorbellAddress, process: ProcessId) {
        let speaks = lock(&self.all.elsewhere).get(&process).cloned();
        let page = match speaks {
            None => self.make_here(),
            Some(speaks) => self.make_remote_page(address, &speaks),
        };
        lock(&self.all.pages).insert(address, (process, page));
    }

    fn hold(&self, address: DoorbellAddress) {
        match self.page(address) {
            Page::Here(page) => page.hold(),
            Page::Remote(page) => page.cut(),
            Page::Nowhere => {}
        }
    }

    fn settle(&self, address: DoorbellAddress) {
        if let Page::Remote(page) = self.page(address) {
            page.settle();
        }
    }

    // spec: sync §3.17: the host does not believe the driver: a process reaches its own doorbells and no others
    fn show(&self, address: DoorbellAddress, offset: Option<u64>) -> bool {
        offset.is_none_or(|offset| doorbell::of_page(offset).is_some())
            && match self.page(address) {
                Page::Here(page) => page.show(offset),
                Page::Remote(page) => page.show(offset),
                Page::Nowhere => true,
            }
    }

    fn gone(&self, address: DoorbellAddress) {
        let Some((process, page)) = lock(&self.all.pages).remove(&address) else { return };
        match page {
            Page::Here(page) => {
                page.hold();
                page.show(None);
            }
            Page::Remote(page) => {
                page.cut();
                let speaks = lock(&self.all.elsewhere).get(&process).cloned();
                if let Some(speaks) = speaks {
                    speaks.doorbell_gone(address);
                }
            }
            Page::Nowhere => {}
        }
    }
}
