//! VidMm: the video memory manager of one adapter, as a pure machine (memory §1 to §8).
//!
//! It is asked for memory, residency and addresses, and answers with *paging work*: what to move, after which fence
//! points. It touches no memory, calls no driver, owns no queue. It is called by the kernel crate that knows drivers and
//! queues, which turns each [`Operation`] into a BuildPagingBuffer call.
//!
//! # The law of this boundary
//! - **The logical state runs ahead of the hardware.** A call decides at once; the work that it returns says what the
//!   hardware still has to do. Hence what moves is a function of the sequence of calls only, not of their timing.
//! - **All work enters one paging ring per adapter, in the order in which it was returned**, and the ring keeps order.
//!   So frames and page tables that an earlier work gives up are handed out again at once: every later use stands
//!   behind it in the ring. A work waits for its `after` points before its first operation, and everything behind it
//!   waits with it; therefore a fence point is waited for once. Work must not be dropped.
//! - **System pages are different**, because the CPU uses them at once: those of a dead allocation return to the pool
//!   only when the ring is past the last work that touched them. Say so with [`VidMm::completed`], or they are lost.
//!   VidMm lists each returned page ([`VidMm::take_returned`]), and stores nothing in any: so the kernel revokes a page's mappings before its
//!   next owner uses it, though that owner may have come in the same call.
//! - **Ids are resolved by the caller**; a stale id stops the program. Sizes, flags, addresses and lists come from
//!   outside and are refused with an error that changes nothing.
//! - The paging process's tables are written by the CPU at once ([`Work::immediate`]) and have frames of their own.
//!
//! # Modules
//! `vidmm` the state and the life of its objects; `segment`, `allocation` what drivers describe, checked; `residency`,
//! `plan`, `rank`, `victim`, `commit` content in and out, `compaction` from place to place; `budget`, `trim`, `suspend` how much each
//! process may keep, and which devices wait; `split` lists that are residency; `offer` and `pin`, `displayed` what may go and what must
//! stay; `idle`, `promote` work done ahead; `lock`, `host_aperture` the CPU's view; `mapping`, `reserve`, `update`, `unique`, `entry`,
//! `io_mmu`, `space`, `page_table`, `tables`, `table_room`, `table_form`, `table_window` addresses; `system` the kernel's own pages;
//! `pool`, `extent`, `slab` arithmetic; `paging` the work, `operation` what it does, `scratch` the addresses it uses; `usage`, `tally`
//! numbers; `invariant` what always holds; `policy` every free choice.

mod allocation;
mod aperture;
mod budget;
mod charge;
mod clock;
mod coherency;
mod commit;
mod compaction;
mod context;
mod device;
mod displayed;
mod extent;
mod form;
mod host_aperture;
mod idle;
mod invariant;
mod io_mmu;
mod lifetime;
mod list;
mod lock;
mod mapping;
mod never;
mod offer;
mod operation;
mod page_table;
mod paging;
mod physical;
mod pin;
mod plan;
mod policy;
mod pool;
mod power;
mod pressure;
mod promote;
mod property;
mod rank;
mod reserve;
mod reset;
mod residence;
mod residency;
mod scratch;
mod segment;
mod sharing;
mod slab;
mod space;
mod space_life;
mod split;
mod storage;
mod suspend;
mod swizzle;
mod synchronous;
mod system;
mod system_pages;
mod table_form;
mod table_room;
mod tally;
#[cfg(test)]
mod tests;
mod trim;
mod unique;
mod update;
mod victim;
mod vidmm;

pub use allocation::{AllocationError, OfferPriority, Origin, cut as cut_pages};
pub use aperture::ApertureFull;
pub use budget::{BudgetChange, ProcessPriority, ReservationError, SegmentGroup, VideoMemoryInfo};
pub use coherency::{CoherencyTracker, Maintenance};
pub use device::{EvictFlags, NextResume};
pub use displayed::DisplayError;
pub use invariant::{BrokenInvariant, StateDigest};
pub use list::{Reference, ReferenceError};
pub use lock::{LegacyLock, LockError, LockPlan};
pub use mapping::{MapError, MapRequest, Target};
pub use never::NeverFits;
pub use offer::{OfferError, OfferFlags, ReclaimError, ReclaimResult, Reclaimed};
pub use operation::{Direction, Form, HeldRange, Operation, Part, RangeWish, WindowMap, WindowPages};
pub use page_table::OutOfTables;
pub use paging::{Cause, Conversion, ConversionCause, Move, MoveKind, Rotation, TableMove, Work};
pub use pin::{PinError, PriorityError};
pub use policy::Policy;
pub use pool::{FramePool, Movable, Relocation};
pub use power::{PowerUp, Sleep};
pub use promote::Promotion;
pub use property::{Location, PropertyError, PropertyUpdate};
pub use reserve::{DriverRange, ReserveRequest};
pub use residence::Residence;
pub use residency::{EvictError, MakeResidentError, MakeResidentFlags};
pub use segment::{BankTable, MemoryLayout, MemoryTotals, Segment, SegmentDescription, SegmentError};
pub use slab::{AllocationId, DeviceId, SpaceId};
pub use space::{Protection, Reserved, ScratchSlot, SpaceKind};
pub use split::{Cut, Portion, PortionError, Use};
pub use tally::{SegmentTally, SpaceTally, Tally};
pub use trim::{TrimFlags, TrimRequest};
pub use update::{Update, UpdateError, UpdateOperation};
pub use vidmm::VidMm;
