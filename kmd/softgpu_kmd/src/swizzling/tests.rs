//! Tiled surfaces as the kernel uses them: ranges, and transfers that change their form.

use ddi::{
    AcquireSwizzlingRange, AllocationFlags, BuildPagingBuffer, CreateAllocation, CreateAllocationFlags, DriverModel,
    DriverStatus, KmdAllocation, KmdResource, Mdl, Miniport, NewAllocation, PagingOp, ReleaseSwizzlingRange,
    SwizzlingError, TransferEnd, TransferFlags,
};
use device_port::DevicePort;
use shared_words::Word;
use softgpu_spec::bus::{CPU_BAR_BASE, CPU_WINDOW_BASE};
use softgpu_spec::private_data::{AllocationRequest, Details, Kind};
use softgpu_spec::register::{RANGE_BYTES, RANGE_PITCH, RANGE_SELECT, RANGE_START, RANGE_SURFACE, RANGES};
use wddm_types::{GpuVa, PageRun, Pages};

use crate::config::KmdConfig;
use crate::driver::SoftGpuKmd;
use crate::fake_port::{FakeHost, FakePort, stopped};
use crate::segments::LOCAL;
use std::sync::Arc;

const PITCH: u32 = 1024;
const BYTES: u64 = 2 * 8 * PITCH as u64;

fn first_generation() -> (SoftGpuKmd, Arc<FakePort>) {
    let config = KmdConfig { driver_model: DriverModel::Wddm1, segment_page_bytes: 4096, ..KmdConfig::default() };
    let (mut kmd, port) = stopped(config);
    port.set(RANGES, 2);
    kmd.start_device(&mut FakeHost::default()).expect("it starts");
    port.writes();
    (kmd, port)
}

fn create(
    kmd: &mut SoftGpuKmd,
    size_bytes: u64,
    pitch: u32,
    flags: AllocationFlags,
) -> Result<KmdAllocation, DriverStatus> {
    let request = AllocationRequest {
        kind: Kind::LocalThenSystem,
        cpu_visible: flags.contains(AllocationFlags::CPU_VISIBLE),
        cached: false,
        accessed_physically: flags.contains(AllocationFlags::ACCESSED_PHYSICALLY),
        size_bytes,
    };
    let details = Details { tile_pitch: pitch, flags: flags.bits(), ..Details::default() };
    let private_data = request.encode_with(&details);
    let mut allocations = [NewAllocation::new(&private_data)];
    let mut create = CreateAllocation {
        private_data: &[],
        allocations: &mut allocations,
        resource: KmdResource::default(),
        flags: CreateAllocationFlags::empty(),
    };
    kmd.create_allocation(&mut create)?;
    Ok(allocations[0].info.allocation)
}

const VISIBLE: AllocationFlags = AllocationFlags::CPU_VISIBLE.union(AllocationFlags::ACCESSED_PHYSICALLY);

fn wish(allocation: KmdAllocation, range: u32) -> AcquireSwizzlingRange {
    AcquireSwizzlingRange {
        allocation,
        private_driver_data: 0,
        range,
        segment: LOCAL,
        range_bytes: BYTES,
        cpu_translated_address: CPU_BAR_BASE + 0x8000,
    }
}

#[test]
fn a_range_keeps_window_offset_and_footprint() {
    // spec: memory §6.5
    // seed: M33, M34
    let (mut kmd, port) = first_generation();
    let surface = create(&mut kmd, BYTES, PITCH, VISIBLE).expect("sound");
    let facet = kmd.swizzling().expect("the device has ranges");
    assert_eq!(facet.swizzling_ranges(), 2);
    let mut acquire = wish(surface, 1);
    facet.acquire_swizzling_range(&mut acquire).expect("free");
    assert_eq!(acquire, wish(surface, 1), "neither moved nor resized");
    let programmed = [
        (RANGE_SELECT, 1),
        (RANGE_START, CPU_BAR_BASE + 0x8000),
        (RANGE_SURFACE, 0x8000),
        (RANGE_BYTES, BYTES),
        (RANGE_PITCH, u64::from(PITCH)),
    ];
    assert_eq!(port.writes(), programmed);
    assert_eq!(facet.acquire_swizzling_range(&mut wish(surface, 1)), Err(SwizzlingError::Unavailable));
    assert_eq!(facet.acquire_swizzling_range(&mut wish(surface, 2)), Err(SwizzlingError::Unsupported));
    let level = AcquireSwizzlingRange { private_driver_data: 1, ..wish(surface, 0) };
    assert_eq!(facet.acquire_swizzling_range(&mut level.clone()), Err(SwizzlingError::Unsupported), "no such level");
    assert!(port.writes().is_empty(), "what is refused programs nothing");
    facet.release_swizzling_range(ReleaseSwizzlingRange { allocation: surface, private_driver_data: 0, range: 1 });
    assert_eq!(port.writes().last(), Some(&(RANGE_PITCH, 0)));
    facet.acquire_swizzling_range(&mut wish(surface, 1)).expect("it was released");
}

#[test]
fn an_alternate_address_is_the_drivers_choice() {
    // spec: memory §6.5
    let (mut kmd, _) = first_generation();
    let surface = create(&mut kmd, BYTES, PITCH, VISIBLE | AllocationFlags::USE_ALTERNATE_VA).expect("sound");
    let mut acquire = wish(surface, 1);
    kmd.swizzling().expect("ranges").acquire_swizzling_range(&mut acquire).expect("free");
    assert!((CPU_WINDOW_BASE + 1..CPU_BAR_BASE).contains(&acquire.cpu_translated_address));
    assert_eq!(acquire.range_bytes, BYTES);
}

#[test]
fn ranges_and_tiles_are_of_the_first_generation() {
    // spec: memory §6.5
    // seed: U11
    let (mut kmd, port) = stopped(KmdConfig::default());
    port.set(RANGES, 2);
    kmd.start_device(&mut FakeHost::default()).expect("it starts");
    assert!(kmd.swizzling().is_none());
    assert!(matches!(create(&mut kmd, 65536, 1024, VISIBLE), Err(DriverStatus::InvalidParameter(_))));
}

#[test]
fn what_is_no_surface_is_refused() {
    let (mut kmd, _) = first_generation();
    for (size, pitch, flags) in [
        (BYTES, 100, VISIBLE),
        (BYTES, u32::MAX, VISIBLE),
        (BYTES + 4096, PITCH, VISIBLE),
        (BYTES, PITCH, AllocationFlags::CPU_VISIBLE),
    ] {
        assert!(
            matches!(create(&mut kmd, size, pitch, flags), Err(DriverStatus::InvalidParameter(_))),
            "{size} {pitch}"
        );
    }
}

const RUNS: [PageRun; 2] = [PageRun { first: 100, count: Pages(1) }, PageRun { first: 200, count: Pages(3) }];

/// Carries a transfer of the whole surface at 0x8000 out by the CPU.
fn move_it(kmd: &mut SoftGpuKmd, allocation: KmdAllocation, inwards: bool, flags: TransferFlags, special: bool) {
    let there = TransferEnd::Segment { segment: LOCAL, address: 0x8000 };
    let here = TransferEnd::Mdl(Mdl { runs: &RUNS });
    let (source, destination) = if inwards { (here, there) } else { (there, here) };
    // In two parts, cut in the middle of a band.
    for (page, pages) in [(0, 1), (1, 3)] {
        let (transfer_offset, size_bytes, mdl_offset) = (page * 4096, pages * 4096, page);
        let operation = if special {
            let (swizzling_range, swizzling_range_data) = (0, 0);
            PagingOp::SpecialLockTransfer {
                allocation,
                transfer_offset,
                size_bytes,
                source,
                destination,
                flags,
                mdl_offset,
                swizzling_range,
                swizzling_range_data,
            }
        } else {
            let allocation = Some(allocation);
            PagingOp::Transfer { allocation, transfer_offset, size_bytes, source, destination, flags, mdl_offset }
        };
        kmd.build_paging_buffer(&mut BuildPagingBuffer {
            buffer: &mut [],
            written: 0,
            private_data: &mut [],
            private_written: 0,
            operation,
            multipass_offset: 0,
            buffer_va: GpuVa::NULL,
            immediate: true,
            system_context: ddi::KmdContext(0),
            write_offset: 0,
        })
        .expect("a sound transfer");
    }
}

#[test]
fn transfers_change_the_form_when_they_are_to() {
    // spec: memory §6.5, memory §3.4
    // seed: M37, M40, M41
    let none = TransferFlags::empty();
    let swizzled = AllocationFlags::SWIZZLED;
    // flags of the allocation, of the transfer in, whether local memory then holds tiles
    let cases = [
        (VISIBLE, none, true, false),
        (AllocationFlags::ACCESSED_PHYSICALLY, none, false, false),
        (VISIBLE | swizzled, none, false, false),
        (VISIBLE | swizzled, TransferFlags::SWIZZLE, true, false),
        (VISIBLE | AllocationFlags::USE_ALTERNATE_VA, none, true, true),
    ];
    for (flags, transfer, tiled, special) in cases {
        let (mut kmd, port) = first_generation();
        let allocation = create(&mut kmd, BYTES, PITCH, flags).expect("sound");
        let system = Arc::clone(&kmd.system);
        let page = |index: u64| if index < 512 { 100 * 4096 + index * 8 } else { 200 * 4096 + (index - 512) * 8 };
        (0..BYTES / 8).for_each(|index| Word::store(system.word(page(index)), index + 1));
        move_it(&mut kmd, allocation, true, transfer, special);
        let second = Word::load(port.local_memory().word(0x8000 + 512));
        assert_eq!(second == 1024 / 8 + 1, tiled, "{flags:?}: behind half a row lies the next row, or its rest");
        (0..BYTES / 8).for_each(|index| Word::store(system.word(page(index)), 0));
        let back = if transfer.is_empty() { none } else { TransferFlags::UNSWIZZLE };
        move_it(&mut kmd, allocation, false, back, special);
        assert!((0..BYTES / 8).all(|index| Word::load(system.word(page(index))) == index + 1), "{flags:?}");
    }
}
