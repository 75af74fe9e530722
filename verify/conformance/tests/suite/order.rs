//! Each call has a place in its kernel's order: calls of several threads overlap in the program, and the kernel makes them one after the other.

use std::sync::mpsc::channel;

use conformance::{World, over_every_link};
use kmt_calls::{Call, EventCall, Reply};
use kmt_link::{CallOrder, Link};
use wddm_types::{NtStatus, RawHandle};

over_every_link!(calls_of_several_threads_have_the_kernels_order);

fn event(link: &dyn Link) -> RawHandle {
    let Ok(Reply::Handle(event)) = link.call(Call::Event(EventCall::Create { manual_reset: false })) else {
        panic!("no event")
    };
    event
}

/// The place of a call that does not wait, and its status.
fn at_once(link: &dyn Link, call: EventCall) -> (u64, Result<Reply, NtStatus>) {
    let (answer, order) = link.call_in_order(Call::Event(call), &|| panic!("it does not wait"));
    let order = order.expect("the kernel has taken it");
    assert!(!order.waited(), "{order:?}");
    (order.taken, answer.map_err(|refusal| refusal.status))
}

fn calls_of_several_threads_have_the_kernels_order(world: &World) {
    let client = world.client();
    let link = &*client.link;
    let event = event(link);
    let (before, reset) = at_once(link, EventCall::Reset { event });
    assert_eq!(reset, Ok(Reply::Done));
    let (set, waited) = std::thread::scope(|scope| {
        let (says, taken) = channel();
        let waits = scope.spawn(move || {
            let wait = Call::Event(EventCall::Wait { event, block: true });
            link.call_in_order(wait, &|| says.send(()).expect("it is heard"))
        });
        // The kernel has taken the wait, which is told before it is over.
        taken.recv().expect("it waits");
        let (between, reset) = at_once(link, EventCall::Reset { event });
        assert_eq!(reset, Ok(Reply::Done));
        let (set, done) = at_once(link, EventCall::Set { event });
        assert!(done == Ok(Reply::Done) && between < set);
        let (answer, order) = waits.join().expect("no panic");
        assert_eq!(answer, Ok(Reply::Done));
        let order = order.expect("the kernel has taken it");
        assert!(before < order.taken && order.taken < between, "{before} {order:?} {between}");
        (set, order)
    });
    // The turn in which the event is set answers the wait: before every later call.
    let (after, refused) = at_once(link, EventCall::Set { event: RawHandle(3) });
    assert_eq!(refused, Err(NtStatus::INVALID_HANDLE), "a refused call has a place, too");
    let CallOrder { answered, .. } = waited;
    assert!(set < answered && answered < after, "{set} {waited:?} {after}");
}
