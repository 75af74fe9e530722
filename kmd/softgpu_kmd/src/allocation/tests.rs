//! Placement, and private data that no honest user-mode driver writes.

use ddi::{
    AllocationFlags, AllocationInfo, CreateAllocation, CreateAllocationFlags, DestroyAllocation,
    DestroyAllocationFlags, DriverStatus, KmdAllocation, KmdResource, Miniport, NewAllocation, PRIORITY_NORMAL,
};
use softgpu_spec::private_data::{AllocationRequest, Kind};
use wddm_types::SegmentSet;

use crate::driver::SoftGpuKmd;
use crate::fake_port::started;
use crate::segments::{APERTURE, LOCAL};

fn create(kmd: &mut SoftGpuKmd, private_data: &[u8]) -> Result<AllocationInfo, DriverStatus> {
    let mut allocations = [NewAllocation::new(private_data)];
    let mut create = CreateAllocation {
        private_data: &[],
        allocations: &mut allocations,
        resource: KmdResource::default(),
        flags: CreateAllocationFlags::empty(),
    };
    kmd.create_allocation(&mut create)?;
    Ok(allocations[0].info)
}

fn destroy(kmd: &mut SoftGpuKmd, allocation: KmdAllocation) {
    kmd.destroy_allocation(&mut DestroyAllocation {
        allocations: &[allocation],
        resource: KmdResource::default(),
        flags: DestroyAllocationFlags::empty(),
    });
}

#[test]
fn the_kind_decides_the_segments() {
    // spec: memory §2.1, memory §1.6
    let (mut kmd, _, _) = started();
    let (local, aperture) = (SegmentSet::only(LOCAL), SegmentSet::only(APERTURE));
    for (kind, set, first, alignment) in [
        (Kind::Local, local, LOCAL, 65536),
        (Kind::System, aperture, APERTURE, 0),
        (Kind::LocalThenSystem, local.with(aperture), LOCAL, 65536),
    ] {
        let request =
            AllocationRequest { kind, cpu_visible: true, cached: true, accessed_physically: false, size_bytes: 12345 };
        let info = create(&mut kmd, &request.encode()).unwrap();
        assert_eq!(
            (info.supported_segments, info.preferred_segment.first().unwrap().segment, info.alignment_bytes),
            (set, first, alignment)
        );
        assert!(info.preferred_segment.segments().all(|id| set.contains(id)));
        assert_eq!((info.size_bytes, info.priority), (12345, PRIORITY_NORMAL));
        assert_eq!(info.flags, AllocationFlags::CPU_VISIBLE | AllocationFlags::CACHED);
        assert!(info.eviction_segments.is_empty());
        destroy(&mut kmd, info.allocation);
    }
}

#[test]
fn hostile_private_data_are_refused_and_leave_nothing() {
    let (mut kmd, _, _) = started();
    let good = AllocationRequest {
        kind: Kind::Local,
        cpu_visible: false,
        cached: false,
        accessed_physically: true,
        size_bytes: 1,
    }
    .encode();
    let first = create(&mut kmd, &good).unwrap().allocation;
    for length in 0..good.len() {
        assert!(matches!(create(&mut kmd, &good[..length]), Err(DriverStatus::InvalidParameter(_))));
    }
    for at in 0..good.len() {
        for value in [0, 1, 4, 0x7f, 0xff] {
            let mut bytes = good;
            bytes[at] = value;
            // Whatever it answers, it does not panic, and it never answers a size of 0.
            if let Ok(info) = create(&mut kmd, &bytes) {
                assert_ne!(info.size_bytes, 0);
                destroy(&mut kmd, info.allocation);
            }
        }
    }
    let before = kmd.allocations.iter().count();
    assert!(create(&mut kmd, &[0xff; 4096]).is_err());
    assert_eq!(kmd.allocations.iter().count(), before);
    destroy(&mut kmd, first);
}
