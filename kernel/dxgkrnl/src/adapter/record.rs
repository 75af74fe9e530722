//! What devices have in parts that have no record of their own yet.

use std::collections::BTreeSet;

use crate::context_allocation::ContextAllocation;
use crate::number::{AllocationNumber, ResourceNumber};

/// The objects of a device, and its state in the parts that have no record of their own yet; its facts are in `owners`.
#[derive(Debug)]
pub struct Device {
    pub allocations: BTreeSet<AllocationNumber>,
    pub resources: BTreeSet<ResourceNumber>,
    /// The driver's allocations for all its contexts.
    pub context_allocations: Vec<ContextAllocation>,
}
