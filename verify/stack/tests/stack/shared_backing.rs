//! Backing stores that the driver sees too (memory §2.2): it is shown the pages while the allocation is created, and finds
//! there what user mode writes.

use std::sync::Arc;

use d3dkmt::{AllocationRequest, CreateAllocationFlags, DestroyFlags, Refusal, Resource, ResourceRequest};
use ddi::{AllocationFlags2, DriverStatus, FeatureId, FeatureSupport, KmdAllocation};
use dxgk_host::{Host, ProcessLink};
use kmt_link::Link;
use softgpu_spec::private_data::{self, Details, Kind};
use softgpu_umd::Gpu;
use wddm_types::{NtStatus, PAGE_BYTES, PageRun, Pages};

use crate::stubborn::{Shared, Step, Whims, host_with};
use stack::world::MIB;

const SHARED: CreateAllocationFlags =
    CreateAllocationFlags::CREATE_RESOURCE.union(CreateAllocationFlags::CREATE_SHARED);
const BYTES: u64 = 2 * PAGE_BYTES;

type Shown = Shared<(KmdAllocation, Vec<PageRun>)>;

/// A driver that has the feature or not, and answers so when it is shown a backing store.
fn start(feature: bool, answer: Result<(), DriverStatus>) -> (Arc<Host>, Gpu, Shown, Shared<Step>) {
    let (shown, heard) = (Shown::default(), Shared::<Step>::default());
    let (pages, steps) = (Arc::clone(&shown), Arc::clone(&heard));
    let has =
        FeatureSupport { min_version: 1, max_version: 1, supported_by_driver: true, supported_on_current_config: true };
    let whims = Whims {
        feature: Box::new(move |id, _| (feature && id == FeatureId::SHARE_BACKING_STORE_WITH_KMD).then_some(has)),
        backing: Box::new(move |allocation, backing| {
            pages.lock().unwrap().push((allocation, backing.to_vec()));
            answer
        }),
        hear: Box::new(move |step| steps.lock().unwrap().push(step)),
        ..Whims::default()
    };
    let host = host_with(4 * MIB, whims);
    let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).expect("the adapter opens");
    (host, gpu, shown, heard)
}

fn create(gpu: &Gpu, kind: Kind, flags: CreateAllocationFlags) -> Result<Resource, Refusal> {
    let wanted = private_data::AllocationRequest {
        kind,
        cpu_visible: kind == Kind::System,
        cached: false,
        accessed_physically: false,
        size_bytes: BYTES,
    };
    let details = Details { flags2: AllocationFlags2::SHARE_BACKING_STORE_WITH_KMD.bits(), ..Details::default() };
    let private_data = wanted.encode_with(&details).to_vec();
    let request = AllocationRequest { private_data, ..AllocationRequest::default() };
    Resource::create(gpu.device(), vec![request], ResourceRequest { flags, ..ResourceRequest::default() })
}

#[test]
fn the_driver_sees_the_pages_between_creation_and_open() {
    // spec: memory §2.2
    let (host, gpu, shown, heard) = start(true, Ok(()));
    heard.lock().unwrap().clear();
    let made = create(&gpu, Kind::System, SHARED).expect("the feature is on");
    let (allocation, backing) = match &shown.lock().unwrap()[..] {
        [(allocation, backing)] => (*allocation, backing.clone()),
        other => panic!("shown once: {other:?}"),
    };
    assert!(
        matches!(&heard.lock().unwrap()[..], [Step::Create(created, _), Step::Open(..)] if created[..] == [allocation])
    );
    assert_eq!(backing.iter().map(|run| run.count).sum::<Pages>(), Pages(BYTES / PAGE_BYTES));
    let lock = made.allocations()[0].lock().expect("system memory");
    lock.write(PAGE_BYTES, &77u64.to_le_bytes());
    drop(lock);
    let pages: Vec<u64> = backing.iter().flat_map(|run| run.first..run.end()).collect();
    let mut bytes = [0; 8];
    host.system_memory().read(pages[1] * PAGE_BYTES, &mut bytes);
    assert_eq!(u64::from_le_bytes(bytes), 77, "what user mode writes is there");
    made.destroy(DestroyFlags::SYNCHRONOUS_DESTROY).expect("it goes");
    assert_eq!(host.check_invariants(), Ok(()));
}

#[test]
fn who_may_not_share_is_refused_and_keeps_nothing() {
    // spec: memory §2.2, memory §9.2
    let whim = Err(DriverStatus::Unsuccessful("a whim"));
    let alone = CreateAllocationFlags::CREATE_RESOURCE;
    let rows = [
        ("without the feature", false, Ok(()), Kind::System, SHARED, NtStatus::INVALID_PARAMETER),
        ("not shared", true, Ok(()), Kind::System, alone, NtStatus::INVALID_PARAMETER),
        ("video memory", true, Ok(()), Kind::Local, SHARED, NtStatus::INVALID_PARAMETER),
        ("either", true, Ok(()), Kind::LocalThenSystem, SHARED, NtStatus::INVALID_PARAMETER),
        ("the driver refuses", true, whim, Kind::System, SHARED, NtStatus::UNSUCCESSFUL),
    ];
    for (name, feature, answer, kind, flags, status) in rows {
        let (host, gpu, shown, heard) = start(feature, answer);
        heard.lock().unwrap().clear();
        let before = host.state_digest();
        assert_eq!(create(&gpu, kind, flags).map(drop).unwrap_err().status, status, "{name}");
        assert!(matches!(&heard.lock().unwrap()[..], [Step::Create(..), Step::Destroy(..)]), "{name}: undone");
        assert_eq!(shown.lock().unwrap().len(), usize::from(answer.is_err()), "{name}");
        assert!(host.state_digest() == before, "{name}: nothing has changed");
        assert_eq!(host.check_invariants(), Ok(()), "{name}");
    }
}
