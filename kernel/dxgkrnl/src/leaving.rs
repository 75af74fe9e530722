//! The contexts that leave the hardware for a suspension, by name. The scheduler counts them, the adapter acts for each, and a hold names the
//! one that it waits for.

use crate::number::{ContextNumber, PacketContextNumber};

/// What is to leave the hardware, and says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leaving {
    /// The paging ring.
    Ring,
    /// A hardware context.
    Hardware(ContextNumber),
    /// The packets of a context.
    Packets(PacketContextNumber),
}
