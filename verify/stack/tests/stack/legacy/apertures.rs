//! Primaries in an aperture that the CPU reaches: a lock without an alternate address sees them through it.

use std::sync::Arc;

use d3dkmt::{
    Allocation, AllocationInfoFlags, AllocationRequest as Requested, CreateAllocationFlags, EvictFlags, Resource,
    ResourceRequest,
};
use dxgk_host::{Host, HostConfig, Mode, Profile};
use kmt_calls::{Call, LockCall, Reply};
use kmt_link::Link;
use softgpu_spec::bus::CPU_APERTURE_BASE;
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::SurfaceKind;
use wddm_types::{CpuPlace, CpuRun, PAGE_BYTES};

use super::{BYTES, ENTIRE, Old, config, old};
use stack::world::VIRTUAL;

fn in_aperture(client: &Old, flags: AllocationInfoFlags) -> Arc<Allocation> {
    let request = AllocationRequest {
        kind: SurfaceKind::System,
        cpu_visible: true,
        cached: false,
        accessed_physically: true,
        size_bytes: BYTES,
    };
    let request = Requested { private_data: request.encode().to_vec(), flags, ..Requested::default() };
    let call = ResourceRequest { flags: CreateAllocationFlags::CREATE_RESOURCE, ..ResourceRequest::default() };
    let resource = Resource::create(client.gpu.device(), vec![request], call).expect("a resource");
    let allocation = Arc::clone(&resource.allocations()[0]);
    // It goes with its device.
    std::mem::forget(resource);
    client.list(&allocation);
    client.run(|commands| _ = commands.fill((&allocation, 0), BYTES, 4));
    allocation
}

fn runs(client: &Old, allocation: &Arc<Allocation>) -> Vec<CpuRun> {
    let (device, handle) = (client.gpu.device().handle(), allocation.handle());
    let call = Call::Lock(LockCall::Lock {
        device,
        allocation: handle,
        private_driver_data: 0,
        pages: Vec::new(),
        flags: ENTIRE,
    });
    let Reply::Locked { mapped, .. } = client.link.call(call).expect("a lock") else {
        panic!("it answers with memory")
    };
    client.link.call(Call::Lock(LockCall::Unlock { device, allocations: vec![handle] })).expect("it is locked");
    mapped.runs
}

#[test]
fn a_locked_primary_is_seen_through_the_aperture_that_shows_it() {
    // spec: memory §1.5, memory §1.7
    // seed: M57
    for (name, seen) in [("aperture-bar", true), ("wddm1-banks", false)] {
        for (mode, memory_files) in [(VIRTUAL, false), (Mode::Real, false), (Mode::Real, true)] {
            let profile = Profile::named(name).expect("a built-in profile");
            let config = HostConfig { profile: *profile, memory_files, ..config(mode) };
            let config = HostConfig { vram_bytes: 4 << 20, ..config };
            let host = Host::start(config).expect("the host starts");
            let client = old(&host);
            let primary = in_aperture(&client, AllocationInfoFlags::PRIMARY);
            let plain = in_aperture(&client, AllocationInfoFlags::empty());
            let through = runs(&client, &primary);
            let first = through[0].run.first * PAGE_BYTES;
            assert_eq!((through.len() == 1 && through[0].place == CpuPlace::Bar), seen, "{name}: {through:?}");
            assert_eq!(first >= CPU_APERTURE_BASE, seen, "{name}: CpuTranslatedAddress and the place in the aperture");
            let system = |runs: Vec<CpuRun>| runs.iter().all(|run| run.place == CpuPlace::System);
            assert!(system(runs(&client, &plain)), "{name}: whatever is no primary is seen in its own pages");
            // The CPU and the GPU see the same bytes, both ways, and the lock outlives the aperture's mapping.
            let lock = primary.lock_legacy(Vec::new(), ENTIRE).expect("a lock");
            assert_eq!([0, BYTES - 8].map(|at| lock.read_word(at)), [4 << 32 | 4; 2], "{name} {mode:?}");
            lock.fill_words(0, BYTES / 8, |index| 70 + index);
            client.run(|commands| _ = commands.copy((&primary, 0), (&plain, 0), BYTES));
            let copied = client.read(&plain, ENTIRE);
            assert_eq!(copied, (0..BYTES / 8).map(|index| 70 + index).collect::<Vec<_>>(), "{name} {mode:?}");
            client.run(|commands| _ = commands.fill((&primary, 0), BYTES, 9));
            assert_eq!(lock.read_word(4096), 9 << 32 | 9, "{name} {mode:?}");
            client.unlist(&primary, EvictFlags::empty());
            assert_eq!(lock.read_word(4096), 9 << 32 | 9, "{name} {mode:?}: the mapping has gone, the address stays");
            lock.fill_words(0, 1, |_| 5);
            drop(lock);
            assert_eq!(client.read(&primary, ENTIRE)[0], 5, "{name} {mode:?}");
            host.check_invariants().expect("in order");
        }
    }
}
