//! A share for those who rank below. The debt grows while they wait and somebody above has the engine, and is paid while they
//! have it; so over any long time they get exactly their share of both together, in slices.

/// A debt, in thousandths of nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt {
    amount: u64,
    /// A slice has come together and is not paid off.
    pub(crate) owed: bool,
}

/// What a debt is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Thousandths of the time; 0: none.
    pub(crate) permille: u64,
    /// How long who is owed has the engine.
    pub(crate) slice_ns: u64,
}

impl Share {
    /// The debt at which it is owed: paying it off takes the slice.
    fn limit(self) -> u64 {
        self.slice_ns.saturating_mul(1000u64.saturating_sub(self.permille)).max(1)
    }
}

impl Debt {
    /// They waited for so long, and somebody above had the engine.
    pub(crate) fn grow(&mut self, ns: u64, share: Share) {
        // It grows no further: who cannot be given the engine does not collect for ever.
        self.amount = self.amount.saturating_add(ns.saturating_mul(share.permille)).min(share.limit());
        self.owed |= share.permille > 0 && self.amount >= share.limit();
    }

    /// They had the engine for so long.
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
