//! What becomes of a host whose lender dies, and that it waits for nobody who waits for it. In the crate, because nothing outside can
//! have it die.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use dxgkrnl::{AccountId, Admission, Quota};
use kmt_calls::{Call, EventCall, Notification, Refusal, Reply};
use shared_words::{LentFile, Memory};
use wddm_types::{NtStatus, PAGE_BYTES, RawHandle};

use super::*;
use crate::elsewhere::FilePiece;
use crate::{HostConfig, Mode, Profile};

/// Whoever is not answered within this is not answered at all.
const WITHIN: Duration = Duration::from_secs(60);

/// A process elsewhere of which nothing is known but that it was given up.
#[derive(Default)]
struct Speaker(Mutex<Vec<String>>);

impl Elsewhere for Speaker {
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
    // Whether it sleeps by now is its own affair: it is to be answered in either case.
    std::thread::sleep(Duration::from_millis(20));
    (process, hears)
}

fn wait(event: RawHandle) -> Call {
    Call::Event(EventCall::Wait { event, block: true })
}

/// Memory that is no file lends no content: who is to take some back from it falls over that.
fn unlendable() -> Arc<Memory> {
    Memory::reserve(PAGE_BYTES).expect("a page")
}

#[test]
fn who_lends_dies_of_a_defect_and_nobody_waits_for_ever() {
    let (host, speaks) = (start(), Arc::<Speaker>::default());
    let (process, answer) = waits(&host, Arc::clone(&speaks));
    // A call of this program waits, too, and somebody listens.
    let here = host.process_created();
    let listens = {
        let ((says, hears), host) = (channel(), Arc::clone(&host));
        std::thread::spawn(move || _ = says.send(host.wait_notification(here)));
        hears
    };
    let holds = {
        let ((says, hears), host) = (channel::<()>(), Arc::clone(&host));
        std::thread::spawn(move || {
            // Whoever ends a mapping holds the lock until everything is carried out that was ordered before.
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
    // It falls as well: what is lent still was not taken back, and the pages are somebody else's next.
    assert_eq!(holds.recv_timeout(WITHIN), Err(RecvTimeoutError::Disconnected));
    let refusal =
        answer.recv_timeout(WITHIN).expect("the call that waits is answered").expect_err("the kernel is gone");
    assert_eq!(refusal.status, NtStatus::DEVICE_REMOVED);
    assert_eq!(listens.recv_timeout(WITHIN).expect("who listens is told"), None);
    assert!(host.has_failed());
    let began = Instant::now();
    while speaks.0.lock().unwrap().is_empty() {
        assert!(began.elapsed() < WITHIN, "the process elsewhere is never ended");
        std::thread::yield_now();
    }
    for call in [Call::EnumAdapters, wait(RawHandle(0))] {
        assert_eq!(host.call(process, call).expect_err("nothing is asked of it").status, NtStatus::DEVICE_REMOVED);
    }
    // Neither does who says anything of it now.
    host.mapping_holds(process, MappingId(0));
    host.process_died(process);
}

/// Nobody holds the lock, and nobody has a reason to look.
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
fn who_lends_does_not_wait_for_whoever_waits_for_it() {
    let (host, lendable) = (start(), Memory::reserve_file(PAGE_BYTES).expect("a page"));
    let waits = {
        let ((says, hears), host) = (channel(), Arc::clone(&host));
        std::thread::spawn(move || {
            let mut state = host.hold();
            // When the second is ordered, the kernel is yet to be told of the first, for which its lock is waited for.
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

/// What a process elsewhere says of its memory can be all that somebody else's call waits for; so it is with every other turn.
#[test]
fn whoever_has_the_kernel_answer_wakes_who_waits() {
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
