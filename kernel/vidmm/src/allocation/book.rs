//! All allocations of one adapter, and the lists of those that something is due for. Called by everything that knows an allocation by its id.
//!
//! It owns the records and the lists that follow from them. What holds at every call (`check`, and assertions):
//! - content whose backing store may go (`decommittable`) is exactly what is offered so, in the order of its offers;
//! - an allocation's offer counts, or waits for its device's turn, or neither: never both;
//! - the evictions that stand aside are exactly those that the records say (`aside`);
//! - every allocation of a list lives; only primaries that a display shows no more may be gone before they are looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};

use super::aside::Asides;
use super::{Allocation, Offer, OfferPriority, Placement};
use crate::slab::{AllocationId, Slab};

/// The allocations of one adapter.
#[derive(Debug)]
pub(crate) struct Allocations<F> {
    pub(super) known: Slab<AllocationId, Allocation<F>>,
    /// Offered content whose backing store may go, by priority and time.
    decommittable: BTreeSet<(OfferPriority, u64, AllocationId)>,
    /// Content that may lie in a less preferred place, and since when only running devices keep it there.
    demoted: BTreeMap<AllocationId, Option<u64>>,
    /// Primaries that an aperture may still map although no display shows them.
    undisplayed: Vec<AllocationId>,
    /// Evictions that wait for the use of their content.
    pub(super) asides: Asides,
}

impl<F> Allocations<F> {
    /// None yet.
    pub fn new() -> Self {
        let (known, decommittable) = (Slab::new(), BTreeSet::new());
        let (demoted, asides) = (BTreeMap::new(), Asides::new());
        Allocations { known, decommittable, demoted, undisplayed: Vec::new(), asides }
    }

    /// A new one.
    pub fn begin(&mut self, allocation: Allocation<F>) -> AllocationId {
        let id = self.known.insert(allocation);
        debug_assert!(!self.demoted.contains_key(&id), "{id:?} is new, and is to be promoted");
        id
    }

    /// One ends. What was due for it is void.
    pub fn end(&mut self, id: AllocationId) -> Allocation<F> {
        self.forget_aside(id);
        let gone = self.known.remove(id);
        assert!(gone.offers.due.is_none(), "what was postponed for an allocation is forgotten before its end");
        self.demoted.remove(&id);
        if let Some(offer) = gone.offers.counts {
            let known = self.decommittable.remove(&(offer.priority, offer.time, id));
            debug_assert_eq!(known, offer.allow_decommit, "{id:?} ends with {offer:?}");
        }
        gone
    }

    /// One, unless its id is stale.
    pub fn get(&self, id: AllocationId) -> Option<&Allocation<F>> {
        self.known.get(id)
    }

    /// The last move of an allocation needed no work. Nothing waits for a work beyond `returned`. An id that is stale names nothing.
    pub fn no_work_behind(&mut self, id: AllocationId, returned: u64) {
        if let Some(allocation) = self.known.get_mut(id) {
            allocation.last_work = allocation.last_work.min(returned);
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (AllocationId, &Allocation<F>)> {
        self.known.iter()
    }

    /// An offer is made: for its process it is, for all others when it counts.
    pub fn let_offer_wait(&mut self, id: AllocationId, offer: Offer) {
        let allocation = &mut self.known[id];
        assert!(!allocation.is_offered(), "an allocation is offered once");
        debug_assert!(
            offer.priority != OfferPriority::Auto,
            "{id:?} is offered as {offer:?}, by no priority that counts"
        );
        debug_assert!(!offer.discarded, "{id:?} is offered as {offer:?}, and its content is gone");
        allocation.offers.due = Some(offer);
    }

    /// From now on the offer counts.
    pub fn let_offer_count(&mut self, id: AllocationId) {
        let allocation = &mut self.known[id];
        let offer = allocation.offers.due.take().expect("a due offer is pending: taking it back removes its step");
        debug_assert!(allocation.offers.counts.is_none(), "{id:?} is offered twice: {offer:?}");
        allocation.offers.counts = Some(offer);
        if offer.allow_decommit {
            let new = self.decommittable.insert((offer.priority, offer.time, id));
            debug_assert!(new, "{id:?} may be given up twice: {offer:?}");
        }
    }

    /// An offer that does not count yet is void. Answers whether there was one.
    pub fn forget_waiting_offer(&mut self, id: AllocationId) -> bool {
        let waits = self.known[id].offers.due.is_some();
        if waits {
            self.known[id].offers.clear();
        }
        waits
    }

    /// An offer that counts is taken back.
    pub fn take_offer_back(&mut self, id: AllocationId) {
        let offer = self.known[id].offers.counts.expect("only what is offered is reclaimed");
        debug_assert!(self.known[id].offers.due.is_none(), "{id:?} is taken back, and its offer waits");
        self.known[id].offers.clear();
        let known = self.decommittable.remove(&(offer.priority, offer.time, id));
        debug_assert_eq!(known, offer.allow_decommit, "{id:?} is taken back, and was offered as {offer:?}");
    }

    /// Keeps offered content that a work is to discard, if the offer of this time still stands. Answers whether it does.
    #[must_use = "the content of another offer stays lost"]
    pub fn keep_offered(&mut self, id: AllocationId, offered_at: u64) -> bool {
        let Some(allocation) = self.known.get_mut(id) else { return false };
        let stands = allocation.offer().is_some_and(|offer| offer.discarded && offer.time == offered_at);
        if stands {
            debug_assert!(matches!(allocation.placement, Placement::None), "{id:?} is discarded, and lies somewhere");
            allocation.offers.counts.iter_mut().for_each(|offer| offer.discarded = false);
        }
        stands
    }

    /// Offered content whose backing store may go, what goes first first.
    pub fn decommittable(&self) -> impl Iterator<Item = AllocationId> + '_ {
        self.decommittable.iter().map(|&(_, _, id)| id)
    }

    /// Content has got a place: whether it would rather lie elsewhere.
    pub fn note_place(&mut self, id: AllocationId, elsewhere: bool) {
        if elsewhere {
            debug_assert!(self.get(id).is_some(), "{id:?} would rather lie elsewhere, and is gone");
            self.demoted.entry(id).or_insert(None);
        } else {
            self.demoted.remove(&id);
        }
    }

    /// Content that would rather lie elsewhere, as far as it is known.
    pub fn demoted(&self) -> impl Iterator<Item = AllocationId> + '_ {
        self.demoted.keys().copied()
    }

    /// Whether content would rather lie elsewhere.
    pub fn is_demoted(&self, id: AllocationId) -> bool {
        self.demoted.contains_key(&id)
    }

    /// Demoted content waits for room: patience counts only the wait for devices, and begins anew when there is room.
    pub fn waits_for_room(&mut self, id: AllocationId) {
        debug_assert!(self.get(id).is_some(), "{id:?} waits for room, and is gone");
        self.demoted.insert(id, None);
    }

    /// Only running devices keep demoted content from its room: since when.
    pub fn waits_for_devices(&mut self, id: AllocationId, now_ns: u64) -> u64 {
        debug_assert!(self.get(id).is_some(), "{id:?} waits for devices, and is gone");
        let since_ns = *self.demoted.entry(id).or_insert(None).get_or_insert(now_ns);
        debug_assert!(since_ns <= now_ns, "{id:?} waits since {since_ns} ns, and it is {now_ns} ns");
        since_ns
    }

    /// No display shows a primary any more that an aperture shows.
    pub fn note_undisplayed(&mut self, id: AllocationId) {
        self.undisplayed.push(id);
    }

    /// Whether there are such primaries: asked after every call, so it costs nothing.
    pub fn any_undisplayed(&self) -> bool {
        !self.undisplayed.is_empty()
    }

    /// Takes them; some may be gone.
    pub fn take_undisplayed(&mut self) -> Vec<AllocationId> {
        std::mem::take(&mut self.undisplayed)
    }

    /// Finds a fault in the lists.
    // spec: memory §5.9
    pub fn check(&self) -> Result<(), String> {
        let offers = self.iter().filter_map(|(id, allocation)| Some((id, allocation.offers.counts?)));
        let offers = offers.filter(|(_, offer)| offer.allow_decommit);
        let expected: BTreeSet<_> = offers.map(|(id, offer)| (offer.priority, offer.time, id)).collect();
        if expected != self.decommittable {
            return Err(format!("{:?} may be given up, and should {expected:?}", self.decommittable));
        }
        if let Some((id, _)) =
            self.iter().find(|(_, known)| known.offers.counts.is_some() && known.offers.due.is_some())
        {
            return Err(format!("{id:?} is offered twice"));
        }
        self.check_asides()?;
        match self.demoted.keys().find(|id| self.get(**id).is_none()) {
            Some(id) => Err(format!("{id:?} is to be promoted, and is gone")),
            None => Ok(()),
        }
    }

    /// The order of what may be given up, which a refused call must leave as it was.
    pub fn state(&self) -> impl std::fmt::Debug + '_ {
        &self.decommittable
    }

    /// Forgets what may be given up, for those who test the check.
    #[cfg(test)]
    pub fn forget_decommittable(&mut self) {
        self.decommittable.clear();
    }
}

impl<F> Index<AllocationId> for Allocations<F> {
    type Output = Allocation<F>;
    fn index(&self, id: AllocationId) -> &Allocation<F> {
        &self.known[id]
    }
}

impl<F> IndexMut<AllocationId> for Allocations<F> {
    fn index_mut(&mut self, id: AllocationId) -> &mut Allocation<F> {
        &mut self.known[id]
    }
}
