//! The `D3DKMT_*` and `D3DDDI_*` structures of the C interface: original names, original layout, no logic.
//!
//! # The law of this boundary
//! Every structure states its size and the offset of each field, in bytes on a 64-bit machine, as the fact sheets do (`docs/spec`) or,
//! where those are silent, the published declarations; the compiler refuses a structure that is laid out otherwise. A structure that the
//! library reads comes from a C caller: each field is an allegation, pointers most of all.
//!
//! Flag words are one field `Value` with the bits as constants; in C the same word has its bits by name. Unions without a name
//! in C are fields `Anonymous…` here. Each structure is described a second time as data ([`ITEMS`]), from which the C header is
//! written, so that there is one list. Behind each field stand its direction and its meaning in this library, which the header repeats.
//!
//! Two flavours: Windows, and with the feature `wsl` the Linux subsystem, where a wide character has 4 bytes.

// The names are those of the C declarations, and what a field means stands behind it.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, missing_docs)]

mod adapter;
mod allocation;
mod arm;
mod context;
mod description;
mod device;
mod display;
mod escape;
mod fence;
mod format;
mod gpu_va;
mod keyed_mutex;
mod layout;
mod lock;
mod named;
mod number;
mod present;
mod priority;
mod published;
mod queue;
mod residency;
mod resource;
mod statistics;
mod sync_object;
mod system;

pub use adapter::*;
pub use allocation::*;
pub use arm::{ARMS, Arm};
pub use context::*;
pub use description::{Enumerator, Field, Flag, Item, NumberKind, Shape};
pub use device::*;
pub use display::*;
pub use escape::*;
pub use fence::*;
pub use format::*;
pub use gpu_va::*;
pub use keyed_mutex::*;
pub use lock::*;
pub use named::*;
pub use number::*;
pub use present::*;
pub use priority::*;
pub use published::{RIGHTS, STATUSES};
pub use queue::*;
pub use residency::*;
pub use resource::*;
pub use statistics::*;
pub use sync_object::*;
pub use system::*;

/// Everything that is declared here, file by file; a declaration may stand before those that it needs.
pub const ITEMS: &[&[Item]] = &[
    number::ITEMS,
    adapter::ITEMS,
    device::ITEMS,
    display::ITEMS,
    format::ITEMS,
    escape::ITEMS,
    allocation::ITEMS,
    resource::ITEMS,
    residency::ITEMS,
    lock::ITEMS,
    gpu_va::ITEMS,
    context::ITEMS,
    sync_object::ITEMS,
    fence::ITEMS,
    queue::ITEMS,
    keyed_mutex::ITEMS,
    priority::ITEMS,
    present::ITEMS,
    named::ITEMS,
    statistics::ITEMS,
    statistics::ADAPTER_ITEMS,
    system::ITEMS,
];
