//! One adapter of a host: its counters and descriptions, its sleep and its stop. The host's own methods are those of its first adapter.

use std::sync::Arc;

use ddi::PowerState;
use device_port::{DevicePort, Monitor};
use dxgkrnl::{AdapterCounters, AdapterDescription, PlanReport};
use kmt_calls::Refusal;
use wddm_types::{AdapterIndex, Luid, SegmentId};

use super::{FIRST, Host, mount};

/// One adapter of a host.
#[derive(Clone, Copy)]
pub struct HostAdapter<'a> {
    pub(super) host: &'a Host,
    pub(super) index: AdapterIndex,
}

impl Host {
    /// The adapter of this number, in the order of enumeration.
    ///
    /// # Panics
    /// When the host has no such adapter.
    pub fn adapter(&self, index: usize) -> HostAdapter<'_> {
        assert!(index < self.devices.len(), "adapter {index} of {}", self.devices.len());
        // CAST: a host has at most 64 adapters.
        HostAdapter { host: self, index: AdapterIndex(index as u32) }
    }

    /// How many adapters it has.
    pub fn adapters(&self) -> usize {
        self.devices.len()
    }

    fn first(&self) -> HostAdapter<'_> {
        HostAdapter { host: self, index: FIRST }
    }

    /// Reads one of the first device's registers, such as a performance counter.
    pub fn device_register(&self, offset: u32) -> u64 {
        self.first().device_register(offset)
    }

    /// The kernel's counters of the first adapter.
    pub fn counters(&self) -> AdapterCounters {
        self.first().counters()
    }

    /// The first adapter as it started.
    pub fn describe(&self) -> AdapterDescription {
        self.first().describe()
    }

    /// The first adapter's LUID.
    pub fn luid(&self) -> Luid {
        self.first().luid()
    }

    /// Why the first adapter was stopped, if it was.
    pub fn stopped(&self) -> Option<String> {
        self.first().stopped()
    }

    /// The computer sleeps or wakes, as far as its first adapter goes: see [`HostAdapter::power_transition`].
    ///
    /// # Errors
    /// As there.
    pub fn power_transition(&self, state: PowerState) -> Result<(), Refusal> {
        self.first().power_transition(state)
    }

    /// PnP stops the first adapter: see [`HostAdapter::stop`].
    ///
    /// # Errors
    /// As there.
    pub fn stop_adapter(&self) -> Result<(), Refusal> {
        self.first().stop()
    }
}

impl HostAdapter<'_> {
    /// Reads one of its device's registers, such as a performance counter.
    pub fn device_register(&self, offset: u32) -> u64 {
        self.host.devices[self.index.0 as usize].read_register(offset)
    }

    /// Plugs a monitor into one of its displays: it gets every frame that is scanned out from now on.
    pub fn connect_monitor(&self, display: u32, monitor: Arc<dyn Monitor>) {
        self.host.devices[self.index.0 as usize].connect_monitor(display, monitor);
    }

    /// The kernel's counters of the adapter.
    pub fn counters(&self) -> AdapterCounters {
        self.host.hold().machine.counters(self.index).unwrap_or_default()
    }

    /// What the planner of evictions foresaw and what came of it, in each memory segment whose evictions are planned.
    pub fn plans(&self) -> Vec<(SegmentId, PlanReport)> {
        self.host.hold().machine.plans(self.index)
    }

    /// The adapter as it started.
    pub fn describe(&self) -> AdapterDescription {
        self.host.hold().turn(|machine, cx| machine.describe(cx, self.index)).expect("the adapter has started")
    }

    /// Its LUID.
    pub fn luid(&self) -> Luid {
        mount::luid(self.index.0 as usize)
    }

    /// Why it was stopped, if it was.
    pub fn stopped(&self) -> Option<String> {
        self.host.hold().machine.stopped(self.index)
    }
}
