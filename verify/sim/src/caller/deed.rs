//! The deeds of a caller: each is one call, or none where its object is not there.

use softgpu_spec::private_data::Kind;

use super::COMMANDS_BYTES;

/// How work gets to an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A hardware queue that the kernel feeds.
    Queue,
    /// Packets that name memory by address.
    Addresses,
    /// Packets that name memory by lists.
    Lists,
}

/// The properties asked of an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    pub kind: Kind,
    pub bytes: u64,
    pub visible: bool,
    pub physical: bool,
    /// The driver wants to hear of its evictions (memory §2.2).
    pub notify: bool,
}

impl Wish {
    /// Memory for commands.
    pub(super) fn commands() -> Wish {
        Wish { kind: Kind::System, bytes: COMMANDS_BYTES, visible: true, physical: false, notify: false }
    }
}

/// The content of a submission.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// A command without an effect.
    Nop,
    /// Writes a surface, and checks it through each of its addresses.
    Write { slot: usize, seed: u64 },
    /// Writes all surfaces that a buffer brings with its list.
    WriteAll { seed: u64 },
    /// An address at which there is nothing.
    WildAddress,
    /// A word that is no command.
    WildWord,
}

/// One thing that a caller does.
#[derive(Clone, Debug)]
pub enum Deed {
    Open,
    Device,
    PagingQueue,
    Context {
        way: Way,
        node: u16,
    },
    /// The lane's queue, or the fence of its packets.
    Progress {
        lane: usize,
    },
    Create {
        slot: usize,
        wish: Wish,
    },
    Map {
        slot: usize,
    },
    Resident {
        slots: Vec<usize>,
    },
    AwaitPaging,
    Evict {
        slots: Vec<usize>,
        lazily: bool,
    },
    Destroy {
        slot: usize,
    },
    Lock {
        slot: usize,
    },
    Unlock {
        slot: usize,
    },
    /// A fence that the CPU alone signals.
    Gate {
        lane: usize,
    },
    /// The lane waits for the gate's next value.
    Close {
        lane: usize,
    },
    Submit {
        lane: usize,
        job: Job,
    },
    /// Behind a submission of packets: its value.
    Signal {
        lane: usize,
    },
    Await {
        lane: usize,
    },
    /// Addresses for tiles.
    Reserve,
    TileFence {
        lane: usize,
    },
    /// The first region shows a surface from now on.
    TileMap {
        lane: usize,
        slot: usize,
    },
    /// The second shows the same as the first.
    TileCopy {
        lane: usize,
    },
    AwaitTiles,
    /// So many allocations of a page each.
    CreateMany {
        count: usize,
    },
    ResidentMany,
    EvictMany,
    DestroyMany,
    /// It wants to be told of trims and budgets, and never listens.
    Register,
    QueryMemory,
    State,
    DestroyDevice,
}
