//! What becomes of others when a thread falls: by a defect of the kernel, which has ended it for all before anybody hears of it; or by one of
//! its own, which ends nobody else.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use dxgk_host::{AccountId, Admission, Elsewhere, FilePiece, Host, HostConfig, Mode, Profile, Quota};
use events::{Event, Tracer};
use kmt_calls::{Call, DoorbellAddress, MappingId, Notification, Reply};
use shared_words::LentFile;
use wddm_types::{NtStatus, ProcessId};

use crate::world::MIB;

/// Whoever is not answered within this is not answered at all.
const WITHIN: Duration = Duration::from_secs(60);

/// A process elsewhere that asks, when it is given up, whether the kernel has failed.
#[derive(Default)]
struct Asks {
    host: OnceLock<Weak<Host>>,
    found: Mutex<Vec<(String, bool)>>,
}

impl Elsewhere for Asks {
    fn shows(&self, _: MappingId, _: u64, _: Vec<FilePiece>) {}
    fn protected(&self, _: MappingId) {}
    fn gone(&self, _: MappingId) {}
    fn doorbell(&self, _: DoorbellAddress, _: Arc<LentFile>) {}
    fn doorbell_gone(&self, _: DoorbellAddress) {}
    fn notify(&self, _: Notification) {}

    fn lost(&self, reason: &str) {
        let failed = self.host.get().and_then(Weak::upgrade).expect("a host").has_failed();
        self.found.lock().unwrap().push((reason.to_owned(), failed));
    }
}

/// Falls over the first device, when it is told to.
struct Falls {
    comes: Sender<()>,
    told: Receiver<()>,
}

impl Tracer for Falls {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        if matches!(event, Event::DeviceCreated { .. }) {
            self.comes.send(()).expect("the test waits for it");
            self.told.recv().expect("the test tells it");
            panic!("a defect");
        }
    }
}

/// A host that falls when it is told to, having said that it would, with a process elsewhere.
fn start() -> (Arc<Host>, Arc<Asks>, Receiver<()>, Sender<()>) {
    let ((comes, falls), (tells, told)) = (channel(), channel());
    let config = HostConfig {
        vram_bytes: MIB,
        page_table_bytes: 4 * MIB,
        system_bytes: 4 * MIB,
        isolates_processes: true,
        tracer: Box::new(Falls { comes, told }),
        ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real)
    };
    let host = Host::start(config).expect("the host starts");
    let asks = Arc::<Asks>::default();
    asks.host.set(Arc::downgrade(&host)).expect("the first");
    let admission = Admission { account: AccountId(1), process: Quota::NONE, together: Quota::NONE };
    host.process_elsewhere(Arc::clone(&asks) as Arc<dyn Elsewhere>, admission);
    (host, asks, falls, tells)
}

#[test]
fn a_kernel_has_failed_before_anybody_hears_of_it_and_answers_nobody_who_waited_for_its_lock() {
    let (host, asks, falls, tells) = start();
    let [process, other] = [(); 2].map(|()| host.process_created());
    let opened = host.call(process, Call::OpenAdapterFromLuid { luid: host.luid() });
    let Ok(Reply::Handle(adapter)) = opened else { panic!("{opened:?}") };
    let holds = {
        let host = Arc::clone(&host);
        std::thread::spawn(move || _ = host.call(process, Call::CreateDevice { adapter }))
    };
    falls.recv_timeout(WITHIN).expect("it falls");
    let waits = {
        let ((says, hears), host) = (channel(), Arc::clone(&host));
        std::thread::spawn(move || _ = says.send(host.call(other, Call::EnumAdapters)));
        hears
    };
    // Whether it waits by now is its own affair: it is to be refused in either case.
    std::thread::sleep(Duration::from_millis(20));
    tells.send(()).expect("it waits for this");
    let refusal = waits.recv_timeout(WITHIN).expect("an answer").expect_err("the kernel has failed");
    assert_eq!(refusal.status, NtStatus::DEVICE_REMOVED);
    holds.join().expect_err("whose call it was");
    assert_eq!(*asks.found.lock().unwrap(), [("the kernel has failed".to_owned(), true)]);
}

/// Asks the kernel when it is taken down.
struct TakesDown(Arc<Host>, ProcessId);

impl Drop for TakesDown {
    fn drop(&mut self) {
        self.0.call(self.1, Call::EnumAdapters).expect("the kernel answers");
        self.0.process_died(self.1);
    }
}

#[test]
fn who_falls_by_a_defect_of_its_own_ends_nobody_else() {
    let (host, asks, ..) = start();
    let falls = {
        let takes_down = TakesDown(Arc::clone(&host), host.process_created());
        std::thread::spawn(move || {
            let _takes_down = takes_down;
            panic!("a defect of a client");
        })
    };
    falls.join().expect_err("it falls");
    assert_eq!(*asks.found.lock().unwrap(), []);
    assert!(!host.has_failed());
}
