//! Where a call stands among all calls of its kernel. Calls of two threads overlap in the program, and the kernel makes them one after the
//! other: a recording of calls carries this order, and a replay follows it. The kernel's host counts, the socket link carries the numbers.

use kmt_calls::{Refusal, Reply};
use serde::{Deserialize, Serialize};

/// Two numbers of one count, which rises with each call that the kernel takes and with each answer that comes later than its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallOrder {
    /// When the kernel took the call.
    pub taken: u64,
    /// When the kernel answered: the same number, unless the call waited.
    pub answered: u64,
}

impl CallOrder {
    /// Whether the kernel answered later than in the turn in which it took the call.
    pub fn waited(self) -> bool {
        self.taken != self.answered
    }
}

/// An answer, and the place of its call; `None`: the kernel has not taken the call, or the link does not tell.
pub type OrderedAnswer = (Result<Reply, Refusal>, Option<CallOrder>);
