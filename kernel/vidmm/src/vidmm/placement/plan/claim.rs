//! Which device claims room in a plan, and how far it may go for it.

use crate::slab::DeviceId;

/// The devices that a plan may suspend for its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// No device's: only content that no running device needs leaves.
    Victims,
    /// Those of lower protection only.
    Lower,
    /// Those of lower protection; among equals those of idle devices and of processes over their budgets.
    Ranked,
    /// Those of lower protection, and of equals that have run for a quantum.
    Turn,
    /// Those of lower or equal protection (MustSucceed).
    Any,
}

/// Which budget binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// The current one.
    Current,
    /// Only the cap (CantTrimFurther).
    Maximum,
    /// None: what is on the list is counted already.
    None,
}

/// The device that claims room, and how far it may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub device: DeviceId,
    pub takes: Takes,
    pub limit: Limit,
    /// The claim is for the devices that already list the content: none of them gives way.
    pub for_holders: bool,
    /// Content that stays may move within its segment for it.
    pub moves: bool,
}
