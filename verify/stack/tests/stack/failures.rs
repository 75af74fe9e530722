//! A thread panics: by a defect of the kernel, which has failed for all processes before any of them hears of it; or by a defect of its own,
//! which ends no other process.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use dxgk_host::{Host, HostConfig, Mode, Profile};
use events::{Event, Tracer};
use kmt_calls::{AdapterCall, Call, DeviceCall, Reply};
use wddm_types::{NtStatus, ProcessId};

use crate::remote_client::RemoteClient;
use stack::world::MIB;

/// A call without an answer within this never gets one.
const WITHIN: Duration = Duration::from_secs(60);

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

/// A host with a process elsewhere. It falls over the first device: it says that it will, and does when it is told to.
fn start() -> (Arc<Host>, Arc<RemoteClient>, Receiver<()>, Sender<()>) {
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
    let there = RemoteClient::new(&host);
    (host, there, falls, tells)
}

#[test]
fn a_kernel_has_failed_before_any_thread_hears_of_it_and_refuses_calls_that_waited_for_its_lock() {
    let (host, there, falls, tells) = start();
    let [process, other] = [(); 2].map(|()| host.process_created());
    let opened = host.call(process, Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: host.luid() }));
    let Ok(Reply::Handle(adapter)) = opened else { panic!("{opened:?}") };
    let holds = {
        let host = Arc::clone(&host);
        std::thread::spawn(move || _ = host.call(process, Call::Device(DeviceCall::CreateDevice { adapter })))
    };
    falls.recv_timeout(WITHIN).expect("it falls");
    let waits = {
        let ((says, hears), host) = (channel(), Arc::clone(&host));
        std::thread::spawn(move || _ = says.send(host.call(other, Call::Adapter(AdapterCall::EnumAdapters))));
        hears
    };
    // The call may or may not wait by now: the kernel must refuse it in either case.
    std::thread::sleep(Duration::from_millis(20));
    tells.send(()).expect("it waits for this");
    let refusal = waits.recv_timeout(WITHIN).expect("an answer").expect_err("the kernel has failed");
    assert_eq!(refusal.status, NtStatus::DEVICE_REMOVED);
    holds.join().expect_err("the thread whose call failed panics");
    assert_eq!(there.lost(), [("the kernel has failed".to_owned(), true)]);
}

/// Asks the kernel when it is taken down.
struct TakesDown(Arc<Host>, ProcessId);

impl Drop for TakesDown {
    fn drop(&mut self) {
        self.0.call(self.1, Call::Adapter(AdapterCall::EnumAdapters)).expect("the kernel answers");
        self.0.process_died(self.1);
    }
}

#[test]
fn a_thread_that_panics_by_a_defect_of_its_own_ends_no_process() {
    let (host, there, ..) = start();
    let falls = {
        let takes_down = TakesDown(Arc::clone(&host), host.process_created());
        std::thread::spawn(move || {
            let _takes_down = takes_down;
            panic!("a defect of a client");
        })
    };
    falls.join().expect_err("it falls");
    assert_eq!(there.lost(), []);
    assert!(!host.has_failed());
}
