//! The objects that the host keeps for one adapter and lends the kernel with each turn (`dxgkrnl::Platform`). Not how they work: each is
//! in the file of its own trait.

use std::sync::Arc;

use dxgkrnl::{BusMemory, ClientMemory, CpuCache, DoorbellPages, DriverClock, GivenMemory, IoMmu, Platform};

/// The objects of one adapter, as it was mounted.
#[derive(Debug)]
pub(crate) struct Provided {
    pub cpu_cache: Option<Arc<dyn CpuCache>>,
    pub io_mmu: Option<Arc<dyn IoMmu>>,
    pub bus: Arc<dyn BusMemory>,
    pub doorbells: Arc<dyn DoorbellPages>,
    pub clients: Option<Arc<dyn ClientMemory>>,
    pub driver_clock: Option<Arc<dyn DriverClock>>,
    pub given: Option<Arc<dyn GivenMemory>>,
}

impl Platform for Provided {
    fn cpu_cache(&self) -> Option<&dyn CpuCache> {
        self.cpu_cache.as_deref()
    }

    fn io_mmu(&self) -> Option<&dyn IoMmu> {
        self.io_mmu.as_deref()
    }

    fn bus(&self) -> Option<&dyn BusMemory> {
        Some(&*self.bus)
    }

    fn doorbells(&self) -> Option<&dyn DoorbellPages> {
        Some(&*self.doorbells)
    }

    fn clients(&self) -> Option<&dyn ClientMemory> {
        self.clients.as_deref()
    }

    fn driver_clock(&self) -> Option<&dyn DriverClock> {
        self.driver_clock.as_deref()
    }

    fn given(&self) -> Option<&dyn GivenMemory> {
        self.given.as_deref()
    }
}
