//! How much the account lends to a forecast: nothing before it has proved itself, up to two rooms while it holds, and less after each loss.
//!
//! ```text
//! nothing lent --- enough operations in a row come as foreseen -------------> lent
//! lent --- an operation comes otherwise, and the account owes nothing ------> nothing lent
//! lent --- an operation comes otherwise, and the account owes something ----> lost: the next loan is half as large, and asks for twice
//!                                                                             as many operations
//! lost --- the account owes nothing any more -------------------------------> nothing lent
//! ```
//! A whole round of operations that come as foreseen takes one halving back. A stream that has ended, or has named nothing for a long time, has
//! no part in this (`recall`).

/// How many rooms the loan is at most, before it is halved.
pub(crate) const ROOMS_MAX: u64 = 2;
/// Operations in a row that prove a forecast.
const PROOF: u64 = 4;
/// The proof is doubled no more often.
const DOUBLINGS_MAX: u32 = 8;
/// The loan is halved no more often: then it is 0 in any room.
const HALVINGS_MAX: u32 = 63;

/// What may be owed beyond one part in a hundred.
#[derive(Debug, Default)]
pub(crate) struct Loan {
    granted: bool,
    /// The last one was lost, and is not paid.
    lost: bool,
    halvings: u32,
    /// Operations in a row as foreseen.
    clean: u64,
    /// Of these, since a halving was taken back.
    round: u64,
}

impl Loan {
    /// An operation came as foreseen in streams that repeat after so many. `owes`: more is at stake than the account allows without a loan.
    pub(crate) fn proved(&mut self, repeats_after: u64, owes: bool) {
        self.lost &= owes;
        self.clean += 1;
        self.round += 1;
        if self.round > repeats_after {
            self.round = 0;
            self.halvings = self.halvings.saturating_sub(1);
        }
        let proof = PROOF << self.halvings.min(DOUBLINGS_MAX);
        self.granted = !self.lost && (self.granted || self.clean >= proof);
    }

    /// A new forecast would have been right for so many operations in a row: they prove it as well, unless one was wrong before.
    pub(crate) fn agreed(&mut self, operations: u64) {
        if self.halvings == 0 && !self.lost {
            self.clean = self.clean.max(operations);
        }
    }

    /// Something came otherwise than foreseen, or nothing is foreseen.
    pub(crate) fn disproved(&mut self, owes: bool) {
        self.lost &= owes;
        (self.clean, self.round) = (0, 0);
        if std::mem::take(&mut self.granted) && owes {
            self.lost = true;
            self.halvings = HALVINGS_MAX.min(self.halvings + 1);
        }
    }

    /// What is lent in such a room, where LRU has copied so many pages: never more than these.
    pub(crate) fn lent(&self, room: u64, lru: u64) -> u64 {
        if !self.granted {
            return 0;
        }
        (ROOMS_MAX.saturating_mul(room) >> self.halvings).min(lru)
    }

    /// Whether a lost one is not paid yet.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// How often it was halved, less how often that was taken back.
    pub(crate) fn halvings(&self) -> u32 {
        self.halvings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forecast_proves_itself_before_it_is_lent_anything() {
        let mut loan = Loan::default();
        for _ in 0..3 {
            loan.proved(10, false);
            assert_eq!(loan.lent(100, 1000), 0);
        }
        loan.proved(10, false);
        assert_eq!((loan.lent(100, 1000), loan.lent(100, 30)), (200, 30), "two rooms, and no more than LRU has copied");
        loan.disproved(false);
        assert_eq!((loan.halvings(), loan.lent(100, 1000)), (0, 0), "nothing was owed: nothing is lost");
        (0..3).for_each(|_| loan.proved(10, false));
        assert_eq!(loan.lent(100, 1000), 0, "it begins anew");
        loan.proved(10, false);
        assert_eq!(loan.lent(100, 1000), 200);
    }

    #[test]
    fn a_lost_loan_is_paid_first_and_the_next_is_half_as_large_after_twice_the_proof() {
        let mut loan = Loan::default();
        (0..4).for_each(|_| loan.proved(20, false));
        loan.disproved(true);
        assert!(loan.is_lost());
        (0..20).for_each(|_| loan.proved(20, true));
        assert_eq!(loan.lent(100, 1000), 0, "it is not paid");
        loan.disproved(true);
        loan.proved(20, false);
        assert!(!loan.is_lost());
        (0..6).for_each(|_| loan.proved(20, false));
        assert_eq!(loan.lent(100, 1000), 0, "twice the proof");
        loan.proved(20, false);
        assert_eq!((loan.halvings(), loan.lent(100, 1000)), (1, 100));
        (0..13).for_each(|_| loan.proved(20, false));
        assert_eq!((loan.halvings(), loan.lent(100, 1000)), (0, 200), "a whole round");
    }
}
