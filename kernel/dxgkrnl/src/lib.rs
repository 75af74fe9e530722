//! The graphics kernel as a pure machine: objects, handles, calls, driver dispatch.
//!
//! Inputs come in at one door ([`Machine::call`], [`Machine::interrupt_raised`], [`Machine::process_died`]), effects go out
//! at the other ([`Effect`]), and a driver is called in between through `ddi::Miniport`. It owns no thread, clock, lock,
//! file or random number, so the same crate runs inside a test, inside a program that embeds it, inside a daemon and
//! inside a simulator where one seed replays everything.
//!
//! This is the only crate that knows the memory manager (`vidmm`), the scheduler (`vidsch`) and the fences (`gpu_fence`)
//! together. It turns *paging work* of the first into *packets* of the second, and asks the fences which waits are over.
//!
//! # The law of this room
//! - What a caller says is an allegation: handles resolve only in the table of the process that calls; every size and
//!   flag is checked before anything changes. A refused call has changed nothing.
//! - Fence words, rings and doorbells are shared memory: each is read once per decision.
//! - A driver that breaks its contract stops its adapter, with the reason; other adapters go on.
//! - An assertion that fails here is our own fault, in release too.

mod adapter;
mod allocation;
mod allocations;
mod breach;
mod call;
mod coherency;
mod context_allocation;
mod cpu_view;
mod cross_adapter;
mod display;
mod driver;
mod due;
mod effect;
mod event;
mod evictions;
mod features;
mod fence_log;
mod global_handle;
mod gpu_va;
mod handle;
mod hold;
mod invariant;
mod io_mmu;
mod keyed_mutex;
mod leaving;
mod life;
mod lock;
mod machine;
mod memory;
mod memory_policy;
mod notification;
mod nt_handle;
mod number;
mod object;
mod owners;
mod packet;
mod paging;
mod paging_queue;
mod platform;
mod process;
mod property;
mod queue;
mod quota;
mod refusal;
mod residency;
mod scarcity;
mod scheduling;
mod scheduling_log;
mod section;
mod start;
mod store;
mod sync;
mod system_handle;
mod tally;
mod turns;
mod word_page;

pub use adapter::AdapterConfig;
pub use adapter::description::{AdapterDescription, SegmentReport};
pub use adapter::moves::Residence;
pub use call::CreatedSurface;
pub use cpu_view::adapter_of_mapping;
pub use driver::Reported;
pub use effect::{Answer, Cx, Effect, Heard, MappingChange, Token};
pub use engine_time::Policy as SchedulingPolicy;
pub use features::{FeatureOff, FeatureOverride, FeaturePolicy, FeatureReport};
pub use handle::HandleTable;
pub use kmt_calls::MonitoredFenceSignal;
pub use life::{OnTimeout, RecoveryPolicy};
pub use machine::Machine;
pub use memory_policy::{ChoiceError, MemoryPolicy};
pub use number::{FenceNumber, MappingChangeNumber, NtHandleNumber};
pub use object::Object;
pub use platform::{
    BusMemory, ClientMemory, CpuCache, DoorbellPages, DriverClock, GivenMemory, IoMmu, Platform, Viewers,
};
pub use quota::{AccountId, Admission, Quota};
pub use start::StartError;
pub use store::ObjectNumber;
pub use sync::UnreportedFence;
pub use tally::AdapterCounters;
pub use vidmm::{BrokenInvariant, Eviction, PlanReport, PlanStream, StateDigest};
