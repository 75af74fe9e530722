//! The border's words: what VidMm tells, and what it is answered. No logic.

/// An allocation, as VidMm names it: a dense slot and the generation of its present tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    slot: u32,
    generation: u32,
}

impl Key {
    /// The least of all.
    pub(crate) const FIRST: Key = Key::new(0, 0);

    /// The allocation that is the `generation`-th tenant of a slot.
    #[must_use]
    pub const fn new(slot: u32, generation: u32) -> Key {
        Key { slot, generation }
    }

    /// Its slot: tables are as long as the highest one.
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// Which tenant of the slot it is.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

/// One allocation of a MakeResident list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The allocation.
    pub key: Key,
    /// Its size; not 0.
    pub pages: u64,
    /// What tells equal sizes apart, and stays: supported segments, flags. Only equality counts.
    pub kind: u16,
    /// Whether pages of it that are not resident have content outside, so that bringing them copies. False until something has been
    /// written into it: then its pages are filled in place.
    pub has_content: bool,
}

/// One allocation of an Evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The allocation.
    pub key: Key,
    /// False if the caller says that the work has not written it.
    pub written: bool,
}

/// What an allocation has in the segment now, and what was copied to get there. Told once for each change of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The allocation.
    pub key: Key,
    /// Pages in the segment now, counted from its begin.
    pub resident: u64,
    /// How many of these the segment alone has.
    pub dirty: u64,
    /// Pages copied in since the last one told.
    pub paged_in: u64,
    /// Pages copied out since the last one told.
    pub paged_out: u64,
}

/// A process's turn. No forecast depends on its times so far, and VidMm tells 0 for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The process.
    pub process: u32,
    /// Nanoseconds from now until it begins; 0: it has it.
    pub from_ns: u64,
    /// How many nanoseconds it is expected to last.
    pub for_ns: u64,
}

/// What has happened. The head of the crate says when each is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The pages of the segment that subjects may hold, all together.
    Room {
        /// The segment's size less what is no subject: pinned, in use by the kernel, elsewhere.
        pages: u64,
    },
    /// A MakeResident: one operation's set. Empty lists count as operations.
    Used {
        /// Whose stream of operations it belongs to; an empty list begins no stream.
        process: u32,
        /// The device that it names.
        device: u32,
        /// Each allocation once, in the caller's order.
        list: &'a [Item],
    },
    /// An Evict: the operation's use of these is queued.
    Ended {
        /// Whose stream.
        process: u32,
        /// Each allocation once.
        list: &'a [Ended],
    },
    /// An allocation's pages have changed.
    Moved(Moved),
    /// Work uses it where it lies, outside of the segment, of which it has no page.
    InPlace {
        /// The allocation.
        key: Key,
        /// Pages that the work reads there.
        read: u64,
        /// Pages that it has written there.
        written: u64,
    },
    /// Its owner has destroyed it.
    Died {
        /// The allocation.
        key: Key,
    },
    /// Its content is void.
    Dropped {
        /// The allocation.
        key: Key,
    },
    /// It is no subject until it is used again; its pages count in no `Room` then.
    Elsewhere {
        /// The allocation.
        key: Key,
    },
    /// A process has ended: its stream, its turn and its footprint are forgotten, and its number may be another one's from now on. What it
    /// shared and others still have stays a subject of which nothing is foreseen. Told behind the deaths of what it had, and
    /// [`Foresight::changed`](crate::Foresight::changed) is asked behind it.
    Gone {
        /// The process.
        process: u32,
    },
    /// Whose turn it is, and who is next as far as that is known: VidMm tells the process that has its turn alone.
    Order {
        /// In the order of their turns; each process once.
        next: &'a [Turn],
    },
}

/// A place in the order of victims within a tier and a priority: the least goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u64);

/// Whose pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The first of the order loses so many pages from its end: at least one, at most as many as were asked for.
    Planned {
        /// How many.
        pages: u64,
    },
    /// Another one loses them.
    Follow {
        /// The allocation.
        key: Key,
        /// How many: at least one, at most as many as were asked for.
        pages: u64,
    },
}

/// Work ahead of need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Bring the missing pages next to the resident ones.
    Fetch {
        /// The allocation.
        key: Key,
        /// How many.
        pages: u64,
        /// Who loses as many if no room is free; `None` in all answers so far.
        instead_of: Option<Key>,
    },
    /// Copy dirty pages from the end out; they stay, and are clean. Not answered so far.
    WriteBack {
        /// The allocation.
        key: Key,
        /// How many.
        pages: u64,
    },
    /// Take pages from the end, so that room is free when it is needed.
    Clear {
        /// The allocation.
        key: Key,
        /// How many.
        pages: u64,
    },
}

/// An invariant that does not hold: a defect of this crate, or of what it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}
