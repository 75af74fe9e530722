//! A kernel-mode driver of one's own: the software GPU's with functions written anew. This one has room for a few allocations only, and counts
//! what the kernel asks it. `cargo run` in its folder starts it.
//!
//! `Filter` has one function for each of the driver contract (`ddi::Miniport` and its facets); each passes the call on until it is written
//! anew. A driver for hardware that is no software GPU implements `ddi::Miniport` itself; `kmd/softgpu_kmd` is the example of that.

use std::error::Error;
use std::sync::Arc;

use ddi::{CreateAllocation, DriverStatus, Miniport};
use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink};
use miniport_filter::{Counter, Filter, Filtered, Function, passes_on};
use softgpu_umd::{Gpu, SurfaceKind};

/// A driver whose hardware has a table of so many entries, one for each allocation.
struct FewAllocations {
    left: usize,
}

passes_on!(FewAllocations);

impl Filter for FewAllocations {
    fn create_allocation(
        &mut self,
        next: &mut dyn Miniport,
        create: &mut CreateAllocation<'_, '_>,
    ) -> Result<(), DriverStatus> {
        // A driver refuses before it has changed anything: the kernel then undoes its own half of the creation.
        self.left = self.left.checked_sub(1).ok_or(DriverStatus::NoMemory("the table of allocations is full"))?;
        next.create_allocation(create)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let counter = Counter::default();
    let counted = counter.clone();
    let mut config = HostConfig { vram_bytes: 64 << 20, ..HostConfig::new(&PROFILES[0], Mode::Real) };
    config.wrap_miniport = Some(Box::new(move |driver| {
        let mine = Filtered::new(driver, FewAllocations { left: 8 });
        Box::new(Filtered::new(Box::new(mine), counted))
    }));
    let host = Host::start(config)?;
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)))?;

    let mut surfaces = Vec::new();
    let refused = loop {
        match gpu.create_surface(SurfaceKind::Local, 1 << 20) {
            Ok(surface) => surfaces.push(surface),
            Err(refused) => break refused,
        }
    };
    println!("{} surfaces, then: {refused}", surfaces.len());
    for function in [Function::CreateAllocation, Function::BuildPagingBuffer, Function::InterruptRoutine] {
        println!("{}: {} calls", function.name(), counter.count(function));
    }
    host.check_invariants()?;
    Ok(())
}
