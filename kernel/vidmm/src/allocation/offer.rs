//! An offer of an allocation's content (memory §5.9), as its record has it.

use crate::seldom::Blank;

/// `D3DKMT_OFFER_PRIORITY`, without NONE (allocation lists only).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OfferPriority {
    /// 1: worthless, discarded first.
    Low,
    /// 2: discarded after LOW.
    Normal,
    /// 3: discarded last.
    High,
    /// 4: from the allocation's eviction priority.
    Auto,
}

/// The offers of one allocation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Offers {
    /// One that counts: the content may go.
    pub counts: Option<Offer>,
    /// One that counts when the device that made it has had its turn: what it queued before needs the content.
    pub due: Option<Offer>,
}

impl Blank for Offers {
    const BLANK: &'static Self = &Offers { counts: None, due: None };
}

/// An offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Never AUTO.
    pub priority: OfferPriority,
    pub time: u64,
    pub allow_decommit: bool,
    /// The content is gone (S7).
    pub discarded: bool,
}

impl Offer {
    /// Its tier in the order of victims.
    pub fn tier(&self) -> usize {
        match self.priority {
            OfferPriority::Low => 1,
            OfferPriority::Normal | OfferPriority::Auto => 2,
            OfferPriority::High => 3,
        }
    }
}

impl OfferPriority {
    /// The priority that counts: AUTO takes it from the allocation's eviction priority.
    pub(crate) fn for_content(self, eviction_priority: u32) -> OfferPriority {
        match (self, eviction_priority) {
            (OfferPriority::Auto, 0..ddi::PRIORITY_NORMAL) => OfferPriority::Low,
            (OfferPriority::Auto, ddi::PRIORITY_NORMAL) => OfferPriority::Normal,
            (OfferPriority::Auto, _) => OfferPriority::High,
            (named, _) => named,
        }
    }
}
