//! A host fails when its lending thread dies, and the lending thread and the holder of the lock never wait for each other. In the crate,
//! because nothing outside can make the thread die. And devices are watched only as long as a client asks.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use dxgkrnl::{AccountId, Admission, Quota};
use kmt_calls::{AdapterCall, Call, EventCall, Notification, Refusal, Reply};
use shared_words::{LentFile, Memory};
use wddm_types::{NtStatus, PAGE_BYTES, RawHandle};

use super::*;
use crate::remote_process::FilePiece;
use crate::{HostConfig, Mode, Profile};

/// A call without an answer within this never gets one.
const WITHIN: Duration = Duration::from_secs(60);

/// A process elsewhere that records only why it was ended.
#[derive(Default)]
struct Speaker(Mutex<Vec<String>>);

impl RemoteProcess for Speaker {
    fn shows(&self, _: MappingId, _: u64, _: Vec<FilePiece>) {}
    fn protected(&self, _: MappingId) {}
    fn gone(&self, _: MappingId) {}
    fn doorbell(&self, _: DoorbellAddress, _: Arc<LentFile>) {}
    fn doorbell_gone(&self, _: DoorbellAddress) {}
    fn notify(&self, _: Notification) {}
    fn traces(&self, _: bool) {}
    fn lost(&self, reason: &str) {
        self.0.lock().unwrap().push(reason.to_owned());
    }
}

fn start() -> Arc<Host> {
    let config = HostConfig {
        vram_bytes: 1 << 20,
        page_table_bytes: 4 << 20,
        system_bytes: 4 << 20,
        isolates_processes: true,
        ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real)
    };
    Host::start(config).expect("the host starts")
}

/// A process elsewhere with a call that waits for an event, and the answer when it comes.
fn waits(host: &Arc<Host>, speaks: Arc<Speaker>) -> (ProcessId, Receiver<Result<Reply, Refusal>>) {
    let admission = Admission { account: AccountId(1), process: Quota::NONE, together: Quota::NONE };
    let process = host.process_elsewhere(speaks, admission);
    let created = host.call(process, Call::Event(EventCall::Create { manual_reset: false }));
    let Ok(Reply::Handle(event)) = created else { panic!("no event: {created:?}") };
    let ((says, hears), host) = (channel(), Arc::clone(host));
    std::thread::spawn(move || _ = says.send(host.call(process, wait(event))));
    // The call may or may not sleep by now: the kernel must answer it in either case.
    std::thread::sleep(Duration::from_millis(20));
    (process, hears)
}

fn wait(event: RawHandle) -> Call {
    Call::Event(EventCall::Wait { event, block: true })
}

/// Memory that is no file lends no content: the lending thread panics when it takes some back.
fn unlendable() -> Arc<Memory> {
    Memory::reserve(PAGE_BYTES).expect("a page")
}

#[test]
fn a_lending_thread_that_dies_of_a_defect_leaves_no_thread_waiting_for_ever() {
    let (host, speaks) = (start(), Arc::<Speaker>::default());
    let (process, answer) = waits(&host, Arc::clone(&speaks));
    // A call of a process elsewhere waits, and a thread of this program waits for a notification.
    let here = host.process_created();
    let listens = {
        let ((says, hears), host) = (channel(), Arc::clone(&host));
        std::thread::spawn(move || _ = says.send(host.wait_notification(here)));
        hears
    };
    let holds = {
        let ((says, hears), host) = (channel::<()>(), Arc::clone(&host));
        std::thread::spawn(move || {
            // A thread that ends a mapping holds the lock until all earlier orders are carried out.
            let mut state = host.hold();
            state.views.order_to_take_back(&unlendable());
            while !state.views.orders_are_begun() {
                std::thread::yield_now();
            }
            state.views.wait_for_orders();
            _ = says.send(());
        });
        hears
    };
    // The thread that waits panics as well: the pages are still lent, and belong to another process next.
    assert_eq!(holds.recv_timeout(WITHIN), Err(RecvTimeoutError::Disconnected));
    let refusal =
        answer.recv_timeout(WITHIN).expect("the call that waits is answered").expect_err("the kernel is gone");
    assert_eq!(refusal.status, NtStatus::DEVICE_REMOVED);
    assert_eq!(listens.recv_timeout(WITHIN).expect("the thread that listens hears of the end"), None);
    assert!(host.has_failed());
    let began = Instant::now();
    while speaks.0.lock().unwrap().is_empty() {
        assert!(began.elapsed() < WITHIN, "the process elsewhere is never ended");
        std::thread::yield_now();
    }
    for call in [Call::Adapter(AdapterCall::EnumAdapters), wait(RawHandle(0))] {
        assert_eq!(
            host.call(process, call).expect_err("a failed kernel takes no call").status,
            NtStatus::DEVICE_REMOVED
        );
    }
    // Answers and deaths of processes elsewhere return as well.
    host.mapping_holds(process, MappingId(0));
    host.process_died(process);
}

/// No thread holds the lock, and no thread has a reason to take it.
#[test]
fn who_lends_dies_while_everybody_waits() {
    let (host, speaks) = (start(), Arc::<Speaker>::default());
    let (_, answer) = waits(&host, Arc::clone(&speaks));
    host.hold().views.order_to_take_back(&unlendable());
    let refusal =
        answer.recv_timeout(WITHIN).expect("the call that waits is answered").expect_err("the kernel is gone");
    assert_eq!(refusal.status, NtStatus::DEVICE_REMOVED);
    assert_eq!(*speaks.0.lock().unwrap(), ["the kernel has failed"]);
}

#[test]
fn the_lending_thread_does_not_wait_for_the_thread_that_waits_for_it() {
    let (host, lendable) = (start(), Memory::reserve_file(PAGE_BYTES).expect("a page"));
    let waits = {
        let ((says, hears), host) = (channel(), Arc::clone(&host));
        std::thread::spawn(move || {
            let mut state = host.hold();
            // At the second order, the lending thread still waits for the lock, to report the first.
            for _ in 0..2 {
                state.views.order_to_take_back(&lendable);
                state.views.wait_for_orders();
            }
            _ = says.send(());
        });
        hears
    };
    assert_eq!(waits.recv_timeout(WITHIN), Ok(()), "both are carried out while the lock is held");
    assert!(!host.has_failed());
}

/// Another process's call may wait for an answer of a process elsewhere; every other turn may complete a call, too.
#[test]
fn a_turn_that_answers_a_call_wakes_the_waiting_thread() {
    let host = start();
    let process = host.process_created();
    let created = host.call(process, Call::Event(EventCall::Create { manual_reset: false }));
    let Ok(Reply::Handle(event)) = created else { panic!("no event: {created:?}") };
    let answer = {
        let ((says, hears), host) = (channel(), Arc::clone(&host));
        std::thread::spawn(move || _ = says.send(host.call(process, wait(event))));
        hears
    };
    while host.hold().waiting.is_empty() {
        std::thread::yield_now();
    }
    // It sleeps, or is about to.
    std::thread::sleep(Duration::from_millis(20));
    let set = Call::Event(EventCall::Set { event });
    let answered = host.hold().turn(|machine, cx| machine.call(cx, process, set));
    assert!(matches!(answered, dxgkrnl::Answer::Done(Ok(_))), "it is set");
    answer.recv_timeout(WITHIN).expect("the call that waits is answered").expect("the event is set");
}

/// The probe looks as long as a process asks, and one of the configuration's own always.
#[test]
fn the_devices_run_unwatched_as_long_as_no_process_asks() {
    let host = Host::start(HostConfig::new(&crate::PROFILES[0], Mode::Virtual { stored: false })).expect("a kernel");
    let looks = || host.devices.iter().map(|device| device.is_probed()).collect::<Vec<_>>();
    assert_eq!(looks(), [false]);
    let (one, other) = (host.process_created(), host.process_created());
    host.own_commands(one);
    host.own_commands(other);
    assert_eq!(looks(), [true]);
    host.process_died(one);
    assert_eq!(looks(), [true]);
    host.process_died(other);
    assert_eq!(looks(), [false]);
}
