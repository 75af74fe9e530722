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
//! `vidmm` is the manager, and draws its owners; its rooms `placement`, `life`, `address`, `view`, `share` carry calls out by asking two owners
//! at once. Owners: `segment` frames and the order of victims (`rank`), `allocation` the book, `space` with `page_table` addresses and
//! their tables, `device` lists and turns, `budget` processes, `system_pages`, `paging` the works and their numbers, `host_aperture` and
//! `swizzle` what the CPU sees, `foreseen` what the planner is told, `clock`, `pressure`. Values: `operation`, `policy`, `slab`. Arithmetic: `pool`, `extent`, `unique`. `coherency`
//! stands alone: which pages' CPU caches are old.

mod allocation;
mod budget;
mod clock;
mod coherency;
mod device;
mod extent;
mod foreseen;
mod host_aperture;
mod operation;
mod page_table;
mod paging;
mod policy;
mod pool;
mod pressure;
mod rank;
mod segment;
mod seldom;
mod slab;
mod space;
mod swizzle;
mod system_pages;
mod unique;
mod vidmm;

pub use allocation::{AllocationError, OfferPriority, Origin, cut as cut_pages};
pub use budget::{BudgetChange, ProcessPriority, ReservationError, SegmentGroup, VideoMemoryInfo};
pub use coherency::{CoherencyTracker, Maintenance};
pub use device::{EvictFlags, NextResume, WithheldPlace};
pub use foresight::{Report as PlanReport, StreamReport as PlanStream};
pub use operation::{Direction, Form, HeldRange, Operation, Part, RangeWish, WindowMap, WindowPages};
pub use page_table::OutOfTables;
pub use paging::{
    Cause, Conversion, ConversionCause, Departure, Move, MoveKind, Rotation, TableMove, Unqueued, UsedContent, Work,
};
pub use policy::{Eviction, Policy};
pub use pool::{FramePool, Movable, Relocation};
pub use segment::{BankTable, MemoryLayout, MemoryTotals, Segment, SegmentDescription, SegmentError};
pub use seldom::{Blank, Seldom};
pub use slab::{AllocationId, DeviceId, SpaceId};
pub use space::{Protection, Reserved, ScratchSlot, SpaceKind};
pub use vidmm::{
    Apart, ApertureFull, BrokenInvariant, Cut, DisplayError, DriverRange, EvictError, LegacyLock, Location, LockError,
    LockPlan, MakeResidentError, MakeResidentFlags, MapError, MapRequest, NeverFits, OfferError, OfferFlags, PinError,
    Portion, PortionError, PowerUp, PriorityError, Promotion, PropertyError, PropertyUpdate, ReclaimError,
    ReclaimResult, Reclaimed, Reference, ReferenceError, ReserveRequest, Residence, SegmentTally, Sleep, SpaceTally,
    StateDigest, Tally, Target, TrimFlags, TrimRequest, Update, UpdateError, UpdateOperation, Use, VidMm,
};
