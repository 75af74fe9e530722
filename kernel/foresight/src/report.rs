//! Planned against actual, as users read it. Numbers only; the command line finds the words.

/// Pages copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Into the segment.
    pub paged_in: u64,
    /// Out of it.
    pub paged_out: u64,
}

impl Flow {
    /// In and out together.
    #[must_use]
    pub fn moved(self) -> u64 {
        self.paged_in + self.paged_out
    }
}

/// What is known of one process's stream of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamReport {
    /// The process.
    pub process: u32,
    /// Whether it has ended: its number may be another one's by now.
    pub ended: bool,
    /// Operations heard.
    pub operations: u64,
    /// How many operations ago the same happened, while it is known.
    pub repeats_after: Option<u64>,
    /// Operations that came as foreseen.
    pub followed: u64,
    /// Operations that came otherwise than foreseen.
    pub slips: u64,
    /// How often the repetition was lost.
    pub lost: u64,
}

/// The account of losses, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// What may yet have to be copied, and LRU would not copy.
    pub potential: u64,
    /// How far `actual` and `potential` together may now pass LRU's copies and one part in a hundred.
    pub lent: u64,
    /// What is owed of a lost loan.
    pub owed: u64,
    /// How often the loan was halved, less how often it has grown back.
    pub halvings: u32,
    /// Pages that LRU would have kept and that went by the forecast.
    pub deviated: u64,
    /// Pages that went as the account said, instead of the forecast.
    pub followed: u64,
}

/// Planned against actual.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Of the living by process, ascending; then of those that have ended last, the latest last.
    pub streams: Vec<StreamReport>,
    /// What was copied.
    pub actual: Flow,
    /// What work read and wrote where it lay, outside of the segment: the link carried it, and no room was made for it.
    pub in_place: Flow,
    /// What an LRU of the same room would have copied.
    pub lru: Flow,
    /// Pages that were copied out and whose allocation died before they came back: an offer before they left would have saved the copy.
    pub unread: u64,
    /// How the second is kept close to the first.
    pub loss: Loss,
    /// Whose order counts where nothing is foreseen: 0 recency, 1 and 2 frequency with half-lives of 16 and 256 rooms' worth of uses.
    pub expert: usize,
}
