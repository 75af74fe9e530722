//! The entry points of a started driver: its `Miniport`, and the facets that it had when it started. The kernel asked then, once: a facet
//! that turns up later is not there, and one that has gone refuses every call (`gone`), as a driver may that has failed. Everything else
//! goes straight to the driver, and `watch` measures how long it takes.

use std::ops::{Deref, DerefMut};

use ddi::{
    Display, Doorbells, FlipQueue, GpuVirtualAddressing, HardwareQueues, HostAperture, Miniport, NativeFenceCaps,
    NativeFenceLogs, NativeFences, PacketScheduling, PeerDoorbellCaps, PeerDoorbells, Swizzling,
};

use super::gone::Gone;
use super::watch::{LateCall, Watch};

/// A driver whose facets are those that it started with.
pub struct EntryPoints {
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

impl EntryPoints {
    /// A driver whose device has started.
    pub fn started(mut miniport: Box<dyn Miniport>, watch: Watch) -> EntryPoints {
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
        EntryPoints { miniport, facets, gone: Gone, watch }
    }

    /// Native fences are not agreed upon: whatever entry points it has for them, none of them is called.
    // spec: sync §3.1 (called only while the feature is on and the cap is set)
    pub fn forgo_native_fences(&mut self) {
        (self.facets.native_fences, self.facets.native_fence_logs) = (None, false);
    }

    /// It has answered what it was asked in this turn. A call that took too long, if one did.
    pub fn leaves(&mut self) -> Option<LateCall> {
        self.watch.leaves()
    }

    /// Its facets.
    pub fn facets(&self) -> Facets {
        self.facets
    }

    /// [`Miniport::gpu_va`].
    pub fn gpu_va(&mut self) -> Option<&mut dyn GpuVirtualAddressing> {
        self.watch.enters("gpu_va");
        let (there, shown) = (self.facets.gpu_va, self.miniport.gpu_va());
        there.then(|| shown.unwrap_or(&mut self.gone))
    }

    /// [`Miniport::hardware_queues`].
    pub fn hardware_queues(&mut self) -> Option<&mut dyn HardwareQueues> {
        self.watch.enters("hardware_queues");
        let (there, shown) = (self.facets.hardware_queues, self.miniport.hardware_queues());
        there.then(|| shown.unwrap_or(&mut self.gone))
    }

    /// [`Miniport::native_fences`].
    pub fn native_fences(&mut self) -> Option<&mut dyn NativeFences> {
        self.watch.enters("native_fences");
        let (there, shown) = (self.facets.native_fences.is_some(), self.miniport.native_fences());
        there.then(|| shown.unwrap_or(&mut self.gone))
    }

    /// [`Miniport::native_fence_logs`].
    pub fn native_fence_logs(&mut self) -> Option<&mut dyn NativeFenceLogs> {
        self.watch.enters("native_fence_logs");
        let (there, shown) = (self.facets.native_fence_logs, self.miniport.native_fence_logs());
        there.then(|| shown.unwrap_or(&mut self.gone))
    }

    /// [`Miniport::peer_doorbells`].
    pub fn peer_doorbells(&mut self) -> Option<&mut dyn PeerDoorbells> {
        self.watch.enters("peer_doorbells");
        let (there, shown) = (self.facets.peer_doorbells.is_some(), self.miniport.peer_doorbells());
        there.then(|| shown.unwrap_or(&mut self.gone))
    }

    /// [`Miniport::packet_scheduling`].
    pub fn packet_scheduling(&mut self) -> Option<&mut dyn PacketScheduling> {
        self.watch.enters("packet_scheduling");
        let (there, shown) = (self.facets.packet_scheduling, self.miniport.packet_scheduling());
        there.then(|| shown.unwrap_or(&mut self.gone))
    }

    /// [`Miniport::doorbells`].
    pub fn doorbells(&mut self) -> Option<&mut dyn Doorbells> {
        self.watch.enters("doorbells");
        let (there, shown) = (self.facets.doorbells, self.miniport.doorbells());
        there.then(|| shown.unwrap_or(&mut self.gone))
    }

    /// [`Miniport::cpu_host_aperture`].
    pub fn cpu_host_aperture(&mut self) -> Option<&mut dyn HostAperture> {
        self.watch.enters("cpu_host_aperture");
        let (there, shown) = (self.facets.cpu_host_aperture, self.miniport.cpu_host_aperture());
        there.then(|| shown.unwrap_or(&mut self.gone))
    }

    /// [`Miniport::swizzling`].
    pub fn swizzling(&mut self) -> Option<&mut dyn Swizzling> {
        self.watch.enters("swizzling");
        let (there, shown) = (self.facets.swizzling, self.miniport.swizzling());
        there.then(|| shown.unwrap_or(&mut self.gone))
    }

    /// [`Miniport::display`].
    pub fn display(&mut self) -> Option<&mut dyn Display> {
        self.watch.enters("display");
        let (there, shown) = (self.facets.display, self.miniport.display());
        there.then(|| shown.unwrap_or(&mut self.gone))
    }

    /// [`Miniport::flip_queue`].
    pub fn flip_queue(&mut self) -> Option<&mut dyn FlipQueue> {
        self.watch.enters("flip_queue");
        let (there, shown) = (self.facets.flip_queue, self.miniport.flip_queue());
        there.then(|| shown.unwrap_or(&mut self.gone))
    }
}

impl Deref for EntryPoints {
    type Target = dyn Miniport;

    fn deref(&self) -> &Self::Target {
        self.miniport.as_ref()
    }
}

impl DerefMut for EntryPoints {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.watch.enters("Miniport");
        self.miniport.as_mut()
    }
}
