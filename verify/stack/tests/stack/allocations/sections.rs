//! Allocations over memory that a process has already.

use d3dkmt::{AllocationRequest, CreateAllocationFlags, Resource, Section};
use softgpu_umd::SurfaceKind;
use wddm_types::{NtStatus, PAGE_BYTES};

use super::{SHARED, pin, resource, status};
use stack::world::{MIB, VIRTUAL, client, host};

#[test]
fn an_allocation_over_a_section_shows_its_bytes() {
    // spec: memory §2.2, memory §2.7
    let host = host(VIRTUAL, 8 * MIB);
    let mut client = client(&host);
    let section = Section::create(client.gpu.adapter(), 4 * PAGE_BYTES).unwrap();
    section.bytes().write(PAGE_BYTES, &77u64.to_le_bytes());
    let flags = SHARED
        | CreateAllocationFlags::CROSS_ADAPTER
        | CreateAllocationFlags::STANDARD_ALLOCATION
        | CreateAllocationFlags::EXISTING_SECTION;
    let over = |offset, bytes| {
        let request =
            AllocationRequest { existing: Some(section.range(offset, bytes)), ..AllocationRequest::default() };
        Resource::create(client.gpu.device(), vec![request], resource(flags))
    };
    for (offset, bytes) in
        [(0, 0), (1, 4096), (0, 4097), (4096, 4 * 4096), (u64::MAX - 4095, 4096), (0, u64::MAX - 4095)]
    {
        assert_eq!(status(over(offset, bytes)), NtStatus::INVALID_PARAMETER, "{bytes} bytes at {offset}");
    }
    let made = over(PAGE_BYTES, 2 * PAGE_BYTES).unwrap();
    let va = pin(&client, &made.allocations()[0], 2);
    let target = client.pinned(SurfaceKind::System, 4096);
    client.run(|commands| {
        commands.copy(va, target.va(), 8);
    });
    assert_eq!(target.lock().unwrap().read_word(0), 77, "the GPU reads the caller's memory");
    client.run(|commands| {
        commands.fill(va, 8, 5);
    });
    assert_eq!(section.bytes().read_word(PAGE_BYTES), 5 << 32 | 5, "and writes it");
    assert_eq!(status(Section::create(client.gpu.adapter(), 4095)), NtStatus::INVALID_PARAMETER);
}
