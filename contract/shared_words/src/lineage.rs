//! Whether this process is still the one that something was made in, and no child that `fork` has made of it: a child has copies of
//! the descriptors and of the addresses, and none of the threads that keep them right. Asked by the links to a kernel and by the C library.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often `fork` has made this process out of another since that registered.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The process that this value was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lineage(u64);

impl Lineage {
    /// This process.
    pub fn here() -> Lineage {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            // SAFETY: the handler only counts, which is allowed in a child of a process with threads. Without room for it a child is not
            // told from its parent.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        Lineage(FORKS.load(Ordering::Relaxed))
    }

    /// Whether the caller runs in that process.
    pub fn is_here(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_itself_and_a_child_is_not() {
        let here = Lineage::here();
        assert!(here.is_here());
        // The child's first call.
        in_child();
        assert!(!here.is_here() && Lineage::here().is_here());
    }
}
