//! The entry points of a started driver: its `Miniport`, and the facets that it had when it started. The kernel asked then, once: a facet
//! that turns up later is not there, and one that has gone refuses every call (`gone`), as a driver may that has failed. Everything else
//! goes straight to the driver, and `watch` measures how long it takes.

use std::ops::{Deref, DerefMut};

use ddi::{
    Display, Doorbells, DriverStatus, FlipQueue, GpuClock, GpuVirtualAddressing, HardwareQueues, HostAperture,
    Miniport, NativeFenceCaps, NativeFenceLogs, NativeFences, PacketScheduling, PeerDoorbellCaps, PeerDoorbells,
    Swizzling,
};

use wddm_types::NodeId;

use super::gone::Gone;
use super::watch::{LateCall, Watch};
use crate::platform::DriverClock;

/// A driver whose facets are those that it started with.
pub struct StartedMiniport {
    miniport: Box<dyn Miniport>,
    facets: Facets,
    gone: Gone,
    watch: Watch,
}

/// Which facets a driver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facets {
    pub gpu_va: bool,
    pub hardware_queues: bool,
    /// With what it says of native fences.
    pub native_fences: Option<NativeFenceCaps>,
    pub native_fence_logs: bool,
    /// With what it says of doorbells from GPU to GPU.
    pub peer_doorbells: Option<PeerDoorbellCaps>,
    pub packet_scheduling: bool,
    pub doorbells: bool,
    pub cpu_host_aperture: bool,
    pub swizzling: bool,
    pub display: bool,
    pub flip_queue: bool,
}

/// The entry points of a driver, lent for one use together with the clock that measures its calls.
pub struct EntryPoints<'a> {
    started: &'a mut StartedMiniport,
    clock: Option<&'a dyn DriverClock>,
}

impl StartedMiniport {
    /// A driver whose device has started.
    pub fn new(mut miniport: Box<dyn Miniport>, watch: Watch) -> StartedMiniport {
        let facets = Facets {
            gpu_va: miniport.gpu_va().is_some(),
            hardware_queues: miniport.hardware_queues().is_some(),
            native_fences: miniport.native_fences().map(|fences| fences.caps()),
            native_fence_logs: miniport.native_fence_logs().is_some(),
            peer_doorbells: miniport.peer_doorbells().map(|peers| peers.peer_doorbell_caps()),
            packet_scheduling: miniport.packet_scheduling().is_some(),
            doorbells: miniport.doorbells().is_some(),
            cpu_host_aperture: miniport.cpu_host_aperture().is_some(),
            swizzling: miniport.swizzling().is_some(),
            display: miniport.display().is_some(),
            flip_queue: miniport.flip_queue().is_some(),
        };
        StartedMiniport { miniport, facets, gone: Gone, watch }
    }

    /// Native fences are not agreed upon: whatever entry points it has for them, none of them is called.
    // spec: sync §3.1 (called only while the feature is on and the cap is set)
    pub fn forgo_native_fences(&mut self) {
        (self.facets.native_fences, self.facets.native_fence_logs) = (None, false);
    }

    /// Its entry points, by the clock that the host lends.
    pub fn lend<'a>(&'a mut self, clock: Option<&'a dyn DriverClock>) -> EntryPoints<'a> {
        EntryPoints { started: self, clock }
    }

    /// It has answered what it was asked in this turn. A call that took too long, if one did.
    pub fn leaves(&mut self, clock: Option<&dyn DriverClock>) -> Option<LateCall> {
        self.watch.leaves(clock)
    }

    /// Its facets.
    pub fn facets(&self) -> Facets {
        self.facets
    }

    /// [`Miniport::calibrate_gpu_clock`].
    pub fn calibrate_gpu_clock(&self, node: NodeId) -> Result<GpuClock, DriverStatus> {
        self.miniport.calibrate_gpu_clock(node)
    }
}

impl<'a> EntryPoints<'a> {
    /// The same for a use in between.
    pub fn again(&mut self) -> EntryPoints<'_> {
        EntryPoints { started: self.started, clock: self.clock }
    }

    /// Its facets.
    pub fn facets(&self) -> Facets {
        self.started.facets
    }

    /// [`Miniport::gpu_va`].
    pub fn gpu_va(self) -> Option<&'a mut dyn GpuVirtualAddressing> {
        let started = self.enters("gpu_va");
        let (there, shown) = (started.facets.gpu_va, started.miniport.gpu_va());
        there.then(|| shown.unwrap_or(&mut started.gone))
    }

    /// [`Miniport::hardware_queues`].
    pub fn hardware_queues(self) -> Option<&'a mut dyn HardwareQueues> {
        let started = self.enters("hardware_queues");
        let (there, shown) = (started.facets.hardware_queues, started.miniport.hardware_queues());
        there.then(|| shown.unwrap_or(&mut started.gone))
    }

    /// [`Miniport::native_fences`].
    pub fn native_fences(self) -> Option<&'a mut dyn NativeFences> {
        let started = self.enters("native_fences");
        let (there, shown) = (started.facets.native_fences.is_some(), started.miniport.native_fences());
        there.then(|| shown.unwrap_or(&mut started.gone))
    }

    /// [`Miniport::native_fence_logs`].
    pub fn native_fence_logs(self) -> Option<&'a mut dyn NativeFenceLogs> {
        let started = self.enters("native_fence_logs");
        let (there, shown) = (started.facets.native_fence_logs, started.miniport.native_fence_logs());
        there.then(|| shown.unwrap_or(&mut started.gone))
    }

    /// [`Miniport::peer_doorbells`].
    pub fn peer_doorbells(self) -> Option<&'a mut dyn PeerDoorbells> {
        let started = self.enters("peer_doorbells");
        let (there, shown) = (started.facets.peer_doorbells.is_some(), started.miniport.peer_doorbells());
        there.then(|| shown.unwrap_or(&mut started.gone))
    }

    /// [`Miniport::packet_scheduling`].
    pub fn packet_scheduling(self) -> Option<&'a mut dyn PacketScheduling> {
        let started = self.enters("packet_scheduling");
        let (there, shown) = (started.facets.packet_scheduling, started.miniport.packet_scheduling());
        there.then(|| shown.unwrap_or(&mut started.gone))
    }

    /// [`Miniport::doorbells`].
    pub fn doorbells(self) -> Option<&'a mut dyn Doorbells> {
        let started = self.enters("doorbells");
        let (there, shown) = (started.facets.doorbells, started.miniport.doorbells());
        there.then(|| shown.unwrap_or(&mut started.gone))
    }

    /// [`Miniport::cpu_host_aperture`].
    pub fn cpu_host_aperture(self) -> Option<&'a mut dyn HostAperture> {
        let started = self.enters("cpu_host_aperture");
        let (there, shown) = (started.facets.cpu_host_aperture, started.miniport.cpu_host_aperture());
        there.then(|| shown.unwrap_or(&mut started.gone))
    }

    /// [`Miniport::swizzling`].
    pub fn swizzling(self) -> Option<&'a mut dyn Swizzling> {
        let started = self.enters("swizzling");
        let (there, shown) = (started.facets.swizzling, started.miniport.swizzling());
        there.then(|| shown.unwrap_or(&mut started.gone))
    }

    /// [`Miniport::display`].
    pub fn display(self) -> Option<&'a mut dyn Display> {
        let started = self.enters("display");
        let (there, shown) = (started.facets.display, started.miniport.display());
        there.then(|| shown.unwrap_or(&mut started.gone))
    }

    /// [`Miniport::flip_queue`].
    pub fn flip_queue(self) -> Option<&'a mut dyn FlipQueue> {
        let started = self.enters("flip_queue");
        let (there, shown) = (started.facets.flip_queue, started.miniport.flip_queue());
        there.then(|| shown.unwrap_or(&mut started.gone))
    }

    fn enters(self, call: &'static str) -> &'a mut StartedMiniport {
        self.started.watch.enters(self.clock, call);
        self.started
    }
}

impl Deref for EntryPoints<'_> {
    type Target = dyn Miniport;

    fn deref(&self) -> &Self::Target {
        self.started.miniport.as_ref()
    }
}

impl DerefMut for EntryPoints<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.started.watch.enters(self.clock, "Miniport");
        self.started.miniport.as_mut()
    }
}
