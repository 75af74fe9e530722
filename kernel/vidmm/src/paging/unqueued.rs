//! The debt of a decided work. VidMm's books have moved on with the work, so the hardware has to follow: a work that gets lost leaves an
//! allocation where no page of it is, and nothing says so. [`Unqueued`] panics when it is dropped with its work (decision 0040). The ways
//! out are [`Work::accept`] and [`Work::into_operations`], for a caller that carries the work out.

use super::Work;
use crate::operation::Operation;

/// Whether a work is still to be carried out. The default is no: a work that the kernel makes itself is in none of VidMm's books.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unqueued(bool);

impl Unqueued {
    /// Of a work that VidMm has decided. Its own tests look at works and throw them away.
    pub(crate) fn decided() -> Unqueued {
        Unqueued(!cfg!(test))
    }
}

impl Drop for Unqueued {
    fn drop(&mut self) {
        assert!(!self.0, "a decided work got lost: queue it, or carry it out");
    }
}

impl<F> Work<F> {
    /// The caller carries the work out from here on.
    pub fn accept(&mut self) {
        self.unqueued.0 = false;
    }

    /// The operations of a work that the caller carries out at once.
    pub fn into_operations(mut self) -> Vec<Operation> {
        self.accept();
        self.operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paging::Batch;

    /// A work as the kernel gets it.
    fn decided() -> Work<u8> {
        let mut batch = Batch::new(1);
        batch.unmap.push(crate::WindowPages { segment: wddm_types::SegmentId(1), pages: Vec::new() });
        Work { unqueued: Unqueued(true), ..batch.finish(false).expect("there is a page to unmap") }
    }

    #[test]
    fn a_decided_work_is_carried_out() {
        decided().accept();
        assert_eq!(decided().into_operations(), []);
        drop(Unqueued::default());
    }

    #[test]
    #[should_panic(expected = "a decided work got lost")]
    fn a_decided_work_that_gets_lost_is_a_bug_of_the_kernel() {
        drop(decided());
    }
}
