//! How allocations begin, change and end: the book of allocations with the devices that own and list them. `lifetime` the beginning and the
//! end, `sharing` several devices, `property` what may change, `context` and `storage` allocations of the driver's and the kernel's own,
//! `displayed` primaries, `residence` and `list` where they are, for events and for command buffers.

pub(super) mod context;
pub(super) mod displayed;
pub(super) mod lifetime;
pub(super) mod list;
pub(super) mod property;
pub(super) mod residence;
pub(super) mod sharing;
pub(super) mod storage;
