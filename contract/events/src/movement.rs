//! How memory moved, and why.

use serde::{Deserialize, Serialize};

/// Why memory moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// MakeResident brought it in.
    MakeResident,
    /// It was evicted for `for_allocation`.
    Pressure {
        /// The allocation that needed the room.
        for_allocation: u64,
    },
    /// Evict without EvictOnlyIfNecessary.
    Evict,
    /// A CPU lock needed it in system memory.
    Lock,
    /// A CPU lock shows its permanent system copy, which was brought up to date, or back afterwards. The content stays where
    /// it is.
    SystemCopy,
    /// It was destroyed.
    Destroy,
    /// Its device has its turn again after a suspension.
    Resume,
    /// An offer of it was taken back.
    Reclaim,
    /// Nothing needed it yet: the copy engine had nothing else to do.
    Ahead,
    /// The planner foresees its use, and it came before that; or it foresees none soon, and it left before its room was needed.
    Foreseen,
    /// The adapter was reset: the content is lost.
    Reset,
    /// The adapter loses power, and its segment's content with it.
    Power,
    /// `for_allocation` needed a hole where it lay.
    Compaction {
        /// The allocation that needed the hole.
        for_allocation: u64,
    },
    /// There is room where it would rather be, and nothing else to do.
    Promote,
    /// Its properties have changed, and do not let it stay.
    Property,
}

impl Cause {
    /// One word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::MakeResident => "make resident",
            Cause::Pressure { .. } => "pressure",
            Cause::Evict => "evict",
            Cause::Lock => "lock",
            Cause::SystemCopy => "system copy",
            Cause::Destroy => "destroy",
            Cause::Resume => "resume",
            Cause::Reclaim => "reclaim",
            Cause::Ahead => "ahead",
            Cause::Foreseen => "foreseen",
            Cause::Reset => "reset",
            Cause::Power => "power",
            Cause::Compaction { .. } => "compaction",
            Cause::Promote => "promotion",
            Cause::Property => "property",
        }
    }

    /// Causes for which content is copied and stays where it was.
    pub const STAYING: [Cause; 2] = [Cause::Ahead, Cause::SystemCopy];

    /// Content was copied and stays where it was: nothing entered or left a segment.
    pub fn stays(self) -> bool {
        Cause::STAYING.contains(&self)
    }
}

/// How memory moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Move {
    /// Copied from system memory into a segment.
    PageIn,
    /// Copied from a segment to system memory.
    PageOut,
    /// Left a segment without a copy: the copy in system memory is still good, or there never was content.
    Discard,
    /// Filled with zeros: the first commit.
    Fill,
    /// Copied to another place of its segment.
    Relocate,
    /// Within the GPU's reach where it lies, in system memory; nothing is copied.
    Map,
    /// In system memory, and not within the GPU's reach any more; nothing is copied.
    Unmap,
}

impl Move {
    /// How many ways there are.
    pub const COUNT: usize = Move::Unmap as usize + 1;

    /// One word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Move::PageIn => "page in",
            Move::PageOut => "page out",
            Move::Discard => "discard",
            Move::Fill => "fill",
            Move::Relocate => "relocate",
            Move::Map => "map",
            Move::Unmap => "unmap",
        }
    }
}
