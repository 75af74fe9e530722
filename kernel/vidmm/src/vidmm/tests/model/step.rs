//! The steps that the model takes, and how often each.

use proptest::prelude::*;

use super::{DEVICES, PROCESSES};

/// One call, with the indices of what it is about; they are taken modulo what there is.
#[derive(Clone, Debug)]
pub enum Step {
    Create {
        pages: u64,
        kind: u8,
        device: usize,
    },
    Map {
        which: usize,
        offset: u64,
    },
    MakeResident {
        device: usize,
        list: Vec<usize>,
        force: u8,
    },
    Write {
        which: usize,
    },
    Evict {
        device: usize,
        list: Vec<usize>,
        lazily: bool,
        claim_clean: bool,
    },
    Lock {
        which: usize,
    },
    Unlock {
        which: usize,
    },
    Destroy {
        which: usize,
    },
    Complete {
        works: usize,
    },
    /// Destroyed while in use.
    Doom {
        which: usize,
    },
    Offer {
        device: usize,
        which: usize,
        priority: u8,
        decommit: bool,
    },
    Reclaim {
        device: usize,
        which: usize,
    },
    Pin {
        which: usize,
    },
    Unpin {
        which: usize,
    },
    Protect {
        process: usize,
        priority: u8,
    },
    Cap {
        process: usize,
        pages: u64,
    },
    Rank {
        which: usize,
        priority: u8,
    },
    Idle {
        device: usize,
        idle: bool,
    },
    /// Time passes, and the device whose turn it is comes back.
    Turn {
        quarters: u64,
    },
    Ahead {
        pages: u64,
    },
    /// The work that the devices of these bits have queued is over.
    UsesEnd {
        devices: u8,
    },
}

pub fn step() -> impl Strategy<Value = Step> {
    let list = || prop::collection::vec(0usize..32, 1..5);
    let which = || 0usize..32;
    prop_oneof![
        2 => (prop_oneof![1u64..4, 1u64..60], 0u8..8, 0..DEVICES).prop_map(|(pages, kind, device)| Step::Create { pages, kind, device }),
        1 => (0usize..32, 0u64..20).prop_map(|(which, offset)| Step::Map { which, offset }),
        6 => (0..DEVICES, list(), 0u8..3).prop_map(|(device, list, force)| Step::MakeResident { device, list, force }),
        4 => (0usize..32).prop_map(|which| Step::Write { which }),
        5 => (0..DEVICES, list(), prop::bool::weighted(0.8), any::<bool>())
            .prop_map(|(device, list, lazily, claim_clean)| Step::Evict { device, list, lazily, claim_clean }),
        1 => (0usize..32).prop_map(|which| Step::Lock { which }),
        1 => (0usize..32).prop_map(|which| Step::Unlock { which }),
        1 => (0usize..32).prop_map(|which| Step::Destroy { which }),
        2 => (0usize..4).prop_map(|works| Step::Complete { works }),
        1 => which().prop_map(|which| Step::Doom { which }),
        1 => (0..DEVICES, which(), 0u8..4, any::<bool>())
            .prop_map(|(device, which, priority, decommit)| Step::Offer { device, which, priority, decommit }),
        1 => (0..DEVICES, which()).prop_map(|(device, which)| Step::Reclaim { device, which }),
        1 => which().prop_map(|which| Step::Pin { which }),
        2 => which().prop_map(|which| Step::Unpin { which }),
        1 => (0..PROCESSES, 0u8..3).prop_map(|(process, priority)| Step::Protect { process, priority }),
        1 => (0..PROCESSES, 0u64..300).prop_map(|(process, pages)| Step::Cap { process, pages }),
        1 => (which(), 0u8..3).prop_map(|(which, priority)| Step::Rank { which, priority }),
        1 => (0..DEVICES, any::<bool>()).prop_map(|(device, idle)| Step::Idle { device, idle }),
        4 => (0u64..5).prop_map(|quarters| Step::Turn { quarters }),
        1 => (1u64..40).prop_map(|pages| Step::Ahead { pages }),
        2 => any::<u8>().prop_map(|devices| Step::UsesEnd { devices }),
    ]
}
