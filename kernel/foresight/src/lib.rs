//! The eviction planner: it foresees which content a memory segment needs next, and says which content is to go. VidMm, its only caller in
//! the kernel, tells it what happens and carries its answers out.
//!
//! # What a policy may see
//! A policy sees the events of one memory segment in the order in which the kernel decides, and nothing else: which allocations a list
//! names, which of them were said to be unwritten, sizes in pages, creation, destruction, offers, suspensions, whose
//! turn it is, how many pages are resident and dirty, and the segment's size. It sees no content, no name, no private data, no address,
//! no time of day, no recording, and nothing of what has not happened; of other segments it sees that an operation has named nothing here.
//! [`Event::Order`] has room for an order of several turns with their durations; VidMm tells the process that has its turn, with no duration,
//! and no choice of which bytes move depends on a duration. The same events give the same answers.
//!
//! # The border, as callers have to keep it
//! One [`Foresight`] stands beside one memory segment. All counts are pages of 4 KiB, as VidMm counts.
//!
//! | VidMm does | and tells, in this order |
//! |---|---|
//! | the segment starts, or what other things than subjects hold in it changes | [`Event::Room`] |
//! | MakeResident (its whole list of this segment, resident or not) | [`Event::Used`], *before* it makes room |
//! | it takes a victim, places content, or loses it | [`Event::Moved`] with the state that the allocation has *now*, and what was copied for it |
//! | Evict | [`Event::Ended`], *before* it ranks what has become a victim |
//! | work of a list uses content where it lies, outside, or has written it there | [`Event::InPlace`], each time |
//! | an owner destroys | [`Event::Died`], at the call; what becomes of its pages is not told any more |
//! | content becomes void (a discard, a taken offer, a reset) | [`Event::Dropped`] |
//! | an allocation is pinned, offered, or leaves this segment for another; or VidMm ranks one that is locked | [`Event::Elsewhere`]: no subject until it is used again |
//! | a process has its turn | [`Event::Order`]: the running one first |
//! | a process has ended, and what it had has died | [`Event::Gone`] |
//!
//! VidMm asks:
//! - [`Foresight::place_of`] for the time part of a victim's rank. The least place goes first. The answer for an allocation changes only
//!   with an `Ended` that names it, and when [`Foresight::changed`] hands it out (`standing`): VidMm ranks anew at these two.
//!   While nothing is known, and until something has first not fitted or has lost pages, a place is the time that VidMm gives, so the order is
//!   LRU's to the page.
//! - [`Foresight::changed`] until it says `None`, after each `Used`, each `Order` and each `Gone`. The first `Room` that is too small and the
//!   first `Moved` that loses pages change places too (`recall::pressure`). VidMm does not ask after these two: it tells `Room` right before a
//!   `Used`, and `Moved` while it ranks or takes victims. The places wait for the asking after the next `Used`. That is harmless: until then
//!   each place and each rank are those that VidMm was told last, which is LRU's order but for what an `Ended` names meanwhile, and the
//!   account bounds what any order costs.
//! - [`Foresight::victim`] before each victim out of a tier of the lazily evicted: how many of its pages may go, or which other allocation
//!   loses instead, because the account of losses forbids to deviate further from LRU. VidMm says with
//!   [`Foresight::victim_among`] which others may go, because they stand in the first one's tier and priority; if none may, the first one goes.
//! - [`Foresight::in_place`] behind the `changed` of a list that lacks room, where work can read what lies outside (`read_in_place` of VidMm's policy). VidMm may
//!   do so with fewer of the answer, and with none. What is used in place stays a subject that has no page.
//! - [`Foresight::wanted`] behind each MakeResident that it has carried out, and at turns of the machine while no list waits, until it says `None` or
//!   the answer cannot be carried out. No [`Wanted::WriteBack`] and no `instead_of` is answered so far. Each answer is a work of its own behind the list's: it may wait, as a list's own work does, for the last use
//!   of what it takes, because it takes nothing that one of the last two operations has used. Room is free frames and what the
//!   destroyed still hold. `order` is the order of the lazily evicted, the first of it first, without what has died; the foresight
//!   takes no more of it than it looks at. An answer stands until the next event; VidMm may refuse it by not carrying it out, and the
//!   allocation is left alone until its next use when the same answer had no effect twice.
//!
//! A [`Key`] is never used again for another allocation, and its slot is dense: tables are indexed by it. Events of a key that no `Used` has
//! named yet, or that has died, are heard and change nothing. A process's lists are one stream, in program order, from the first one that names something here.
//!
//! # What it never does
//! It drops no content: a forecast ranks, and whether content is copied out is VidMm's rule alone. It has no clock, no floating point, no hash
//! map with a random state. It allocates memory where a table grows, where an offset is adopted, and where a repetition is planned. All
//! streams of a segment together keep what one alone may (2^20 operations and uses, about 100 MiB; one of many at least 2^12), and a stream
//! plans at most eight uses for each operation and each use that it names.
//!
//! # Modules
//! `event` and `report` are the border's words; `foresight` is the door. `subject` holds what is true of each allocation now, `trail` where it
//! stands in its stream. `recall` joins streams (`stream`): `symbol` and `history` say what was, `follow` which part of it happens again, `twin` which
//! use repeats which, `round` and `plan` what had better be out when (`flow`, `slack`), and `place` what a forecast is worth in the order of victims; `standing` is what VidMm was told of that. `ghost` is the LRU that `account` measures deviations
//! against, within a `loan`. `experts` choose the order of what nothing is foreseen of, by `frequency` where a `sample` of it shows that this pays.
//! `front` moves copies to where the link has time: `ahead` reads off what operations will use, `demand` how much room they will need.

mod account;
mod ahead;
mod demand;
mod event;
mod experts;
mod flow;
mod follow;
mod foresight;
mod frequency;
mod front;
mod ghost;
mod history;
mod loan;
mod place;
mod plan;
mod recall;
mod report;
mod ring;
mod round;
mod sample;
mod slack;
mod standing;
mod stream;
mod subject;
mod symbol;
mod trail;
mod twin;

pub use event::{Broken, Ended, Event, Item, Key, Moved, Place, Turn, Victim, Wanted};
pub use foresight::Foresight;
pub use report::{Flow, Loss, Report, StreamReport};
