//! Two barriers that are a full one together, between threads of one process: the frequent side only keeps its program order, the rare
//! side has every running thread of the process pass a barrier (sync §3.9, asymmetric form). Where one side does millions of times what the
//! other does when it falls asleep, the first need not wait for its stores.
//!
//! ```text
//! frequent:  store A │ nothing, for the processor │ load B
//! rare:      store B │ a barrier in every thread  │ load A
//! ```
//! A thread that has stored A and is past its load of B before the rare side's barrier has, by it, made A visible. One that loads B
//! behind that barrier sees the store of B, which was made before it.
//!
//! The law: both sides are threads of one process, which the operating system has registered for it; between processes more is needed
//! ([`crate::across`]), and a side without that puts [`HardwareBarrier`], which always goes with [`RareBarrier`]. Where the operating
//! system has no such barrier, both are the processor's own.
//!
//! Within a process the operating system asks each processor what runs there. Its other form, for all registered processes, looks at notes that
//! may be old, and is no barrier where they are.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

use rustix::thread::{MembarrierCommand, membarrier};

use crate::across::for_all_registered;
use crate::word::{Barrier, HardwareBarrier};

/// The frequent side's: for the compiler alone.
pub struct FrequentBarrier;

/// The rare side's: for every thread of this process, and of those that it has in [`crate::across`].
pub struct RareBarrier;

impl Barrier for FrequentBarrier {
    #[inline]
    fn full() {
        if is_asymmetric() {
            compiler_fence(Ordering::SeqCst);
        } else {
            HardwareBarrier::full();
        }
    }
}

impl Barrier for RareBarrier {
    fn full() {
        if is_asymmetric() {
            // PANIC: the operating system refuses the barrier for the same reasons as the registration, which it did not refuse.
            membarrier(MembarrierCommand::PrivateExpedited).expect("an operating system with this barrier");
        } else {
            HardwareBarrier::full();
        }
        for_all_registered();
    }
}

/// Whether the operating system has the barrier, and this process is registered. It is asked once: the answer is the same for the
/// process's life.
#[inline]
fn is_asymmetric() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
}
