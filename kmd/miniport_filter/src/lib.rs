//! Filter drivers: a miniport in front of another one. The kernel calls the filter, and the filter passes each call on, changed or not.
//!
//! Authors of miniports put one between the kernel and their driver: [`Recorder`] keeps each call with its arguments and its
//! answer, [`Counter`] counts them, [`Refusals`] refuses chosen ones, so that the kernel's way back out of half a creation is tried.
//! A filter of one's own implements [`Filter`], of which every function passes its call on until it is written anew, and
//! [`Filtered`] makes a [`ddi::Miniport`] of filter and driver. Filters stack: a `Filtered` is a driver that the next one may stand in front of.
//!
//! A host puts them before its driver by `dxgk_host::HostConfig::wrap_miniport`:
//! ```text
//! let recorder = Recorder::default();
//! let records = recorder.clone();
//! config.wrap_miniport = Some(Box::new(|driver| Box::new(Filtered::new(driver, recorder))));
//! // ... and when the test has run:
//! for record in records.take() {
//!     println!("{record}"); // DxgkDdiCreateAllocation(create: CreateAllocation { ... }) refused: NoMemory("...")
//! }
//! ```
//!
//! A filter is not a fake: it has no device, and what it does not change the real driver answers.
//!
//! ```
//! use ddi::{DriverStatus, Host, Miniport};
//! use miniport_filter::{Counter, Filter, Filtered, Function};
//!
//! /// Says that it works without a node.
//! struct NoNodes;
//! miniport_filter::passes_on!(NoNodes);
//! impl Filter for NoNodes {
//!     fn node_metadata(&self, _next: &dyn Miniport, _node: wddm_types::NodeId) -> Option<ddi::NodeMetadata> {
//!         None
//!     }
//! }
//!
//! fn wrapped(driver: Box<dyn Miniport>) -> (Box<dyn Miniport>, Counter) {
//!     let counter = Counter::default();
//!     let counted = Filtered::new(driver, counter.clone());
//!     (Box::new(Filtered::new(Box::new(counted), NoNodes)), counter)
//! }
//!
//! fn started(driver: &mut dyn Miniport, counter: &Counter, host: &mut dyn Host) -> Result<(), DriverStatus> {
//!     driver.start_device(host)?;
//!     assert_eq!(counter.count(Function::StartDevice), 1);
//!     assert_eq!(driver.node_metadata(wddm_types::NodeId(0)), None);
//!     Ok(())
//! }
//! ```

mod answer;
mod counter;
mod filter;
mod filtered;
mod function;
mod functions;
mod recorder;
mod refusals;

pub use counter::Counter;
pub use filter::{
    DisplayFilter, DoorbellsFilter, Facet, Filter, FlipQueueFilter, GpuVirtualAddressingFilter, HardwareQueuesFilter,
    HostApertureFilter, NativeFenceLogsFilter, NativeFencesFilter, PacketSchedulingFilter, PeerDoorbellsFilter,
    SwizzlingFilter,
};
pub use filtered::Filtered;
pub use function::Function;
pub use recorder::{Record, Recorder};
pub use refusals::{MustSucceed, Refusal, Refusals};
