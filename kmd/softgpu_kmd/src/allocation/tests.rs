//! Placement, and private data that no honest user-mode driver writes.

use ddi::{
    AllocationFlags, AllocationInfo, CreateAllocation, CreateAllocationFlags, DestroyAllocation,
    DestroyAllocationFlags, DriverStatus, KmdAllocation, KmdDevice, KmdOpenAllocation, KmdResource, Miniport,
    NewAllocation, OpenAllocation, OpenAllocationFlags, OpenAllocationInfo, OpenPrivateData, PRIORITY_NORMAL,
    UpdateAllocationProperty, UpdateAllocationPropertyMask,
};
use softgpu_spec::private_data::{AllocationRequest, Details, Kind};
use wddm_types::{SegmentId, SegmentSet};

use super::Rows;
use crate::config::{KmdConfig, Layout};
use crate::driver::SoftGpuKmd;
use crate::fake_port::{FakeHost, started, stopped};
use crate::segments::{APERTURE, LOCAL};

/// The memory segment that aligns pitches, where there is one.
const PITCHED: SegmentId = SegmentId(3);
/// Eight rows.
const ROWS_BYTES: u64 = 8 * 1024;

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

/// A driver whose second memory segment aligns pitches.
fn pitched() -> SoftGpuKmd {
    let layout = Layout::TwoMemories { second_bytes: 1 << 20, hidden_bytes: 0 };
    let (mut kmd, _) =
        stopped(KmdConfig { layout, pitch_aligned: true, segment_page_bytes: 4096, ..KmdConfig::default() });
    kmd.start_device(&mut FakeHost::default()).expect("it starts");
    kmd
}

fn detailed(kmd: &mut SoftGpuKmd, kind: Kind, details: Details) -> Result<AllocationInfo, DriverStatus> {
    let (cpu_visible, cached, accessed_physically) = (false, false, true);
    let request = AllocationRequest { kind, cpu_visible, cached, accessed_physically, size_bytes: ROWS_BYTES };
    create(kmd, &request.encode_with(&details))
}

#[test]
fn details_that_say_nothing_change_nothing() {
    let (mut kmd, _, _) = started();
    let (cpu_visible, cached, accessed_physically) = (false, false, true);
    let request =
        AllocationRequest { kind: Kind::Local, cpu_visible, cached, accessed_physically, size_bytes: ROWS_BYTES };
    let plain = create(&mut kmd, &request.encode()).unwrap();
    let said = detailed(&mut kmd, Kind::Local, Details::default()).unwrap();
    assert_eq!(AllocationInfo { allocation: said.allocation, ..plain }, said);
    assert_eq!((said.read_segments, said.supported_segments), (SegmentSet::only(LOCAL), SegmentSet::only(LOCAL)));
    // A display's surface stays contiguous where the driver does not map what is shown.
    let shown = Details { display_width: 16, display_height: 8, ..Details::default() };
    let shown = detailed(&mut kmd, Kind::Local, shown).unwrap();
    assert_eq!(shown.flags, AllocationFlags::ACCESSED_PHYSICALLY);
}

#[test]
fn rows_are_whole_and_no_longer_apart_than_the_aligned_size_says() {
    // spec: memory §2.6
    let of = |row_bytes, size_bytes, pitch_aligned_size_bytes, tile_pitch| {
        let details = Details { row_bytes, pitch_aligned_size_bytes, tile_pitch, ..Details::default() };
        Rows::of(&details, size_bytes, 4096).ok()
    };
    let apart = |pitch_bytes| Some(Rows { row_bytes: 1024, pitch_bytes, room_bytes: 8 * pitch_bytes });
    assert_eq!(of(1024, ROWS_BYTES, 8 * 1280, 0), apart(1280));
    assert_eq!(of(1024, ROWS_BYTES, 8 * 1024, 0), apart(1024), "nothing between them");
    for (what, row_bytes, size_bytes, room_bytes, tile_pitch) in [
        ("no rows", 0, ROWS_BYTES, 8 * 1280, 0),
        ("rows of no words", 1028, 257 * 4096, 1024 * 1032, 0),
        ("a part of a row", 1536, ROWS_BYTES, 8 * 1536, 0),
        ("a part of a page", 1024, ROWS_BYTES + 1024, 9 * 1280, 0),
        ("nothing", 1024, 0, 0, 0),
        ("tiles", 1024, ROWS_BYTES, 8 * 1280, 16),
        ("a part of a pitch", 1024, ROWS_BYTES, 8 * 1280 + 4, 0),
        ("a pitch of no words", 1024, ROWS_BYTES, 8 * 1284, 0),
        ("rows over each other", 1024, ROWS_BYTES, 8 * 1016, 0),
    ] {
        assert_eq!(of(row_bytes, size_bytes, room_bytes, tile_pitch), None, "{what}");
    }
}

#[test]
fn content_has_rows_only_where_its_segments_and_its_size_say_so() {
    // spec: memory §2.6
    let mut kmd = pitched();
    let only = |id: SegmentId| SegmentSet::only(id).0;
    for (supported_segments, pitch_aligned_size_bytes, rows) in
        [(only(PITCHED), 8 * 1280, true), (only(PITCHED), 0, false), (only(LOCAL), 8 * 1280, false)]
    {
        let details = Details { supported_segments, pitch_aligned_size_bytes, row_bytes: 1024, ..Details::default() };
        let info = detailed(&mut kmd, Kind::Local, details).expect("sound");
        let known = kmd.allocations.get(info.allocation.0).expect("it is kept");
        assert_eq!(known.rows().is_some(), rows, "{details:?}");
        assert_eq!(
            (info.read_segments, info.pitch_aligned_size_bytes),
            (info.supported_segments, pitch_aligned_size_bytes)
        );
    }
}

#[test]
fn a_set_that_the_device_cannot_serve_is_refused_when_it_changes() {
    // spec: memory §2.8
    let mut kmd = pitched();
    let may = |kmd: &mut SoftGpuKmd, allocation, set: &[SegmentId], mask| {
        let supported_segments = set.iter().fold(SegmentSet::NONE, |set, id| set.with(SegmentSet::only(*id)));
        let update = UpdateAllocationProperty { allocation, supported_segments, mask, ..Default::default() };
        kmd.validate_update_allocation_property(update).is_ok()
    };
    let (set, other) = (UpdateAllocationPropertyMask::SUPPORTED_SEGMENT_SET, UpdateAllocationPropertyMask::empty());
    let local = detailed(&mut kmd, Kind::Local, Details::default()).unwrap().allocation;
    assert!(may(&mut kmd, local, &[LOCAL], set) && may(&mut kmd, local, &[LOCAL, APERTURE], set));
    assert!(!may(&mut kmd, local, &[LOCAL, SegmentId(4)], set), "there is no such segment");
    assert!(may(&mut kmd, local, &[SegmentId(4), PITCHED], other), "the set does not change");
    assert!(!may(&mut kmd, local, &[PITCHED], set), "it has no rows");
    let supported_segments = SegmentSet::only(PITCHED).0;
    let rows =
        Details { supported_segments, pitch_aligned_size_bytes: 8 * 1280, row_bytes: 1024, ..Details::default() };
    let rows = detailed(&mut kmd, Kind::Local, rows).unwrap().allocation;
    assert!(!may(&mut kmd, rows, &[LOCAL], set), "its rows are laid out for another segment");
    assert!(may(&mut kmd, rows, &[LOCAL], other));
    // Local memory has pages of 64 KB, and the alignment was chosen for system memory.
    let (mut kmd, _, _) = started();
    let small = Details { alignment_bytes: 4096, ..Details::default() };
    let small = detailed(&mut kmd, Kind::System, small).unwrap().allocation;
    assert!(!may(&mut kmd, small, &[LOCAL], set) && !may(&mut kmd, small, &[LOCAL, APERTURE], set));
    assert!(may(&mut kmd, small, &[APERTURE], set) && may(&mut kmd, small, &[LOCAL], other));
}

#[test]
fn allocations_opens_and_resources_end_when_the_kernel_says_so() {
    // spec: memory §2.7
    let (mut kmd, _, _) = started();
    let counts =
        |kmd: &SoftGpuKmd| (kmd.allocations.iter().count(), kmd.opened.iter().count(), kmd.resources.iter().count());
    let (cpu_visible, cached, accessed_physically) = (false, false, false);
    let request = AllocationRequest { kind: Kind::Local, cpu_visible, cached, accessed_physically, size_bytes: 1 };
    let private_data = request.encode();
    let made = |kmd: &mut SoftGpuKmd, resource, flags| {
        let mut allocations = [NewAllocation::new(&private_data)];
        let mut create = CreateAllocation { private_data: &[], allocations: &mut allocations, resource, flags };
        kmd.create_allocation(&mut create).expect("sound");
        let resource = create.resource;
        (allocations[0].info.allocation, resource)
    };
    let (alone, none) = made(&mut kmd, KmdResource::default(), CreateAllocationFlags::empty());
    assert_eq!((none, counts(&kmd)), (KmdResource::default(), (1, 0, 0)));
    let (first, resource) = made(&mut kmd, KmdResource::default(), CreateAllocationFlags::RESOURCE);
    let (second, same) = made(&mut kmd, resource, CreateAllocationFlags::RESOURCE);
    assert_eq!((same, counts(&kmd)), (resource, (3, 0, 1)), "it is one resource");

    let mut opened = [OpenAllocationInfo {
        allocation: first,
        private_data: OpenPrivateData::ReadOnly(&[]),
        open: KmdOpenAllocation::default(),
    }];
    let device = KmdDevice(7);
    kmd.open_allocation(&mut OpenAllocation {
        device,
        allocations: &mut opened,
        private_data: &[],
        flags: OpenAllocationFlags::empty(),
        subresource_index: 0,
        subresource_offset: 0,
        pitch: 0,
    })
    .expect("it is there");
    assert_eq!(counts(&kmd).1, 1);
    kmd.close_allocation(device, &[opened[0].open]);
    assert_eq!(counts(&kmd), (3, 0, 1));

    let end = |kmd: &mut SoftGpuKmd, allocations: &[KmdAllocation], resource, flags| {
        kmd.destroy_allocation(&mut DestroyAllocation { allocations, resource, flags });
    };
    end(&mut kmd, &[second], resource, DestroyAllocationFlags::empty());
    assert_eq!(counts(&kmd), (2, 0, 1), "the resource lives on");
    end(&mut kmd, &[first], resource, DestroyAllocationFlags::DESTROY_RESOURCE);
    assert_eq!(counts(&kmd), (1, 0, 0));
    end(&mut kmd, &[alone], KmdResource::default(), DestroyAllocationFlags::DESTROY_RESOURCE);
    assert_eq!(counts(&kmd), (0, 0, 0));
}
