//! The figures of processes add up to those of segments, also where processes share, and where a name alone keeps content.

use d3dkmt::{CreateAllocationFlags, DestroyFlags, MakeResidentFlags, Residency, Resource, ResourceRequest};
use softgpu_spec::private_data::{self, Kind};
use stack::world::{Client, MIB, VIRTUAL, client, host};

use super::figures;

const SHARED: CreateAllocationFlags = CreateAllocationFlags::CREATE_RESOURCE
    .union(CreateAllocationFlags::CREATE_SHARED)
    .union(CreateAllocationFlags::NT_SECURITY_SHARING);

fn make_resident(client: &Client, resource: &Resource) {
    let paging = client.gpu.paging();
    let list = vec![resource.allocations()[0].handle()];
    if let Residency::Pending { paging_fence_value, .. } =
        paging.make_resident(list, MakeResidentFlags::empty()).unwrap()
    {
        client.gpu.device().wait(&[(paging.fence(), paging_fence_value)]).unwrap();
    }
}

#[test]
fn processes_that_share_are_each_charged_and_the_segment_says_how_often() {
    // spec: memory §5.5, memory §2.7
    let host = host(VIRTUAL, 16 * MIB);
    let (ours, theirs) = (client(&host), client(&host));
    // Processes' committed and resident bytes in video memory, and the segment.
    let sums = || {
        let told = figures(&host, &ours.link);
        assert_eq!(told.contradiction(), None);
        host.check_invariants().unwrap();
        let segment = told.segments[0];
        let of = |of: fn(&d3dkmt::ProcessSegment) -> u64| -> u64 {
            told.processes.iter().map(|process| of(&process.memory.segments[0])).sum()
        };
        (of(|here| here.committed_bytes), of(|here| here.resident_bytes), segment)
    };
    let before = sums();
    assert_eq!((before.2.local, before.2.unowned_bytes, before.2.repeated_bytes), (true, 0, 0));
    let size_bytes = 2 * MIB;
    let data = private_data::AllocationRequest {
        kind: Kind::Local,
        cpu_visible: false,
        cached: false,
        accessed_physically: false,
        size_bytes,
    };
    let request = d3dkmt::AllocationRequest { private_data: data.encode().to_vec(), ..Default::default() };
    let flags = ResourceRequest { flags: SHARED, ..ResourceRequest::default() };
    let made = Resource::create(ours.gpu.device(), vec![request], flags).unwrap();
    let name = made.share().unwrap();
    make_resident(&ours, &made);
    let usage = |client: &Client| client.gpu.adapter().video_memory_info(true).unwrap().current_usage_bytes;
    let used = (usage(&ours), usage(&theirs));
    let alone = sums();
    assert_eq!((alone.0 - before.0, alone.1 - before.1), (size_bytes, size_bytes));

    let opened = Resource::open(theirs.gpu.device(), name).unwrap();
    make_resident(&theirs, &opened);
    let both = sums();
    assert_eq!((both.0 - before.0, both.1 - before.1), (size_bytes, 2 * size_bytes), "one owns, both require");
    assert_eq!((both.2.repeated_bytes, both.2.resident_bytes), (size_bytes, alone.2.resident_bytes));
    assert_eq!((usage(&ours), usage(&theirs)), (used.0, used.1 + size_bytes), "budgets say the same");

    opened.destroy(DestroyFlags::SYNCHRONOUS_DESTROY).unwrap();
    made.destroy(DestroyFlags::SYNCHRONOUS_DESTROY).unwrap();
    while host.step() {}
    let named = sums();
    assert_eq!((named.0, named.1), (before.0, before.1), "no process has it any more");
    assert_eq!(named.2.committed_bytes, before.2.committed_bytes + named.2.unowned_bytes);
    assert_eq!(named.2.unowned_bytes, size_bytes, "the NT handle keeps it where it lay");
}
