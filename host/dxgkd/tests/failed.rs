//! A kernel that fails an assertion while it serves: its clients see a removed device, wherever they are, and no call hangs. The tracer fails
//! the assertion here, in place of the kernel's own code.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits};
use events::{Event, Tracer};
use kmt_calls::{AdapterCall, Call, DeviceCall, EventCall, Refusal, Reply};
use kmt_link::Link;
use kmt_link::socket::{ConnectError, SocketLink};
use wddm_types::{NtStatus, RawHandle};

/// A call without an answer within this never gets one.
const WITHIN: Duration = Duration::from_secs(60);

/// Falls over the first device.
struct Falls;

impl Tracer for Falls {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        assert!(!matches!(event, Event::DeviceCreated { .. }), "a defect");
    }
}

fn handle(answer: Result<Reply, Refusal>) -> RawHandle {
    match answer {
        Ok(Reply::Handle(handle)) => handle,
        other => panic!("{other:?}"),
    }
}

/// Makes a call on a thread of its own; the result waits for its status, for a limited time.
fn answer(link: &Arc<SocketLink>, call: Call) -> impl FnOnce() -> NtStatus {
    let ((says, hears), link) = (channel(), Arc::clone(link));
    std::thread::spawn(move || _ = says.send(link.call(call)));
    move || hears.recv_timeout(WITHIN).expect("an answer").expect_err("the kernel has failed").status
}

#[test]
fn when_the_kernel_fails_every_client_sees_a_removed_device() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("kernel");
    let mut config = HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real);
    (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (16 << 20, 4 << 20, 32 << 20);
    (config.isolates_processes, config.tracer) = (true, Box::new(Falls));
    let host = Host::start(config).expect("a kernel");
    let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, Limits::default()).expect("a socket");
    let [waits, asks, idles] = [(); 3].map(|()| SocketLink::connect(&path).expect("a kernel"));
    let event = handle(waits.call(Call::Event(EventCall::Create { manual_reset: false })));
    let waited = answer(&waits, Call::Event(EventCall::Wait { event, block: true }));
    let listens = {
        let ((says, hears), link) = (channel(), Arc::clone(&idles));
        std::thread::spawn(move || _ = says.send(link.wait_notification()));
        hears
    };
    let adapter = handle(asks.call(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: host.luid() })));
    let asked = answer(&asks, Call::Device(DeviceCall::CreateDevice { adapter }));
    assert_eq!(asked(), NtStatus::DEVICE_REMOVED, "the call in which the kernel failed");
    assert_eq!(waited(), NtStatus::DEVICE_REMOVED, "the call that waited");
    assert_eq!(listens.recv_timeout(WITHIN).expect("the waiting client hears of the end"), None);
    for link in [&waits, &asks, &idles] {
        assert_eq!(answer(link, Call::Adapter(AdapterCall::EnumAdapters))(), NtStatus::DEVICE_REMOVED, "afterwards");
    }
    let Err(ConnectError::Refused(reason)) = SocketLink::connect(&path) else { panic!("another client") };
    assert_eq!(reason, "the kernel has failed");
    let began = Instant::now();
    while daemon.clients() != 0 {
        assert!(began.elapsed() < WITHIN, "clients stay for ever");
        std::thread::sleep(Duration::from_millis(1));
    }
}
