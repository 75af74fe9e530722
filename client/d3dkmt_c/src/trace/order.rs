//! The order of the kernel's calls in a trace. Calls of several threads overlap in the program, where no clock tells which of them the kernel
//! made first; the kernel does. The link of a traced program asks for the place of each call, and the line of the function carries it. The same link
//! shows each call to the recorder of memory, where the trace wants one.

use std::cell::Cell;
use std::sync::Arc;

use kmt_calls::Call;
use kmt_link::{CallOrder, Link, Routed};

use super::memory::Memory;

thread_local! {
    /// The place of the function that this thread is in. It has no destructor: a thread that ends may call still.
    static PLACE: Cell<Option<CallOrder>> = const { Cell::new(None) };
}

/// A link that notes the place of each call, and with `memory` what the call needs in memory.
pub fn noted(link: Arc<dyn Link>, memory: Option<Memory>) -> Arc<dyn Link> {
    Arc::new(Routed::new(link, move |link: &(dyn Link + 'static), call: Call| {
        let make = |call| {
            let (answer, order) = link.call_in_order(call, &|| {});
            PLACE.set(with(PLACE.get(), order));
            answer
        };
        match &memory {
            Some(memory) => memory.call(link, call, make),
            None => make(call),
        }
    }))
}

/// A function begins on this thread.
pub fn begins() {
    PLACE.set(None);
}

/// The place of the function that ends on this thread; `None`: it has made no call of the kernel.
pub fn place() -> Option<CallOrder> {
    PLACE.get()
}

/// The place of a function that has made one call more. A function of several calls stands where its last one does, from the first that waited
/// on: earlier ones, such as a look at what kind of handle it has got, change nothing for other threads.
fn with(before: Option<CallOrder>, next: Option<CallOrder>) -> Option<CallOrder> {
    match (before, next) {
        (Some(before), Some(next)) if before.waited() => Some(CallOrder { taken: before.taken, ..next }),
        (before, next) => next.or(before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_several_calls_stands_from_the_first_that_waited_to_its_last() {
        let at = |taken, answered| Some(CallOrder { taken, answered });
        let place = |calls: &[_]| calls.iter().copied().fold(None, with);
        assert_eq!(place(&[]), None);
        assert_eq!(place(&[at(3, 3), at(7, 7)]), at(7, 7));
        assert_eq!(place(&[at(3, 3), at(4, 6), at(9, 9)]), at(4, 9));
        assert_eq!(place(&[at(3, 3), None]), at(3, 3), "the kernel has not taken the last one");
    }
}
