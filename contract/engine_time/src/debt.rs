//! A share for contexts that rank below. The debt grows while they wait and a context above has the engine, and shrinks while they have
//! it; so over any long time they get exactly their share of both together, in slices.

/// A debt, in thousandths of nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt {
    amount: u64,
    /// A slice has come together and is not paid off.
    pub(crate) owed: bool,
}

/// The terms of a debt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Thousandths of the time; 0: none.
    pub(crate) permille: u64,
    /// How long the creditor has the engine once it is owed.
    pub(crate) slice_ns: u64,
}

impl Share {
    /// The debt at which it is owed: paying it off takes the slice.
    fn limit(self) -> u64 {
        self.slice_ns.saturating_mul(1000u64.saturating_sub(self.permille)).max(1)
    }
}

impl Debt {
    /// The creditor waited for so long, and a context above had the engine.
    pub(crate) fn grow(&mut self, ns: u64, share: Share) {
        // It grows no further: a creditor that cannot be given the engine does not collect for ever.
        self.amount = self.amount.saturating_add(ns.saturating_mul(share.permille)).min(share.limit());
        self.owed |= share.permille > 0 && self.amount >= share.limit();
    }

    /// The creditor had the engine for so long.
    pub(crate) fn pay(&mut self, ns: u64, share: Share) {
        self.amount = self.amount.saturating_sub(ns.saturating_mul(1000u64.saturating_sub(share.permille)));
        self.owed &= self.amount > 0;
    }

    /// When it becomes owed, if they wait on; `None`: it is already, or never.
    pub(crate) fn owed_in(self, share: Share) -> Option<u64> {
        (share.permille > 0 && !self.owed)
            .then(|| (share.limit() - self.amount.min(share.limit())).div_ceil(share.permille))
    }

    /// When it is paid off, if they keep the engine.
    pub(crate) fn paid_in(self, share: Share) -> u64 {
        self.amount.div_ceil(1000u64.saturating_sub(share.permille).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_says_when_it_will_be_owed_and_when_paid_off() {
        let share = Share { permille: 100, slice_ns: 9 };
        let mut debt = Debt::default();
        assert_eq!(debt.owed_in(share), Some(81), "a ninth of what the others have: 9 of 90");
        debt.grow(30, share);
        assert_eq!((debt.owed, debt.owed_in(share)), (false, Some(51)));
        debt.grow(51, share);
        assert_eq!((debt.owed, debt.owed_in(share), debt.paid_in(share)), (true, None, 9));
        debt.grow(1_000, share);
        assert_eq!(debt.paid_in(share), 9, "it grows no further");
        debt.pay(4, share);
        assert_eq!((debt.owed, debt.paid_in(share)), (true, 5));
        debt.pay(5, share);
        assert_eq!((debt.owed, debt.owed_in(share)), (false, Some(81)));
    }

    #[test]
    fn a_share_of_nothing_is_never_owed() {
        let share = Share { permille: 0, slice_ns: 9 };
        let mut debt = Debt::default();
        debt.grow(u64::MAX, share);
        assert_eq!((debt.owed, debt.owed_in(share)), (false, None));
    }
}
