//! A driver's answers when it describes, opens or refuses allocations.

use std::sync::Mutex;

use d3dkmt::{Context, Section};
use ddi::{DriverStatus, KmdOpenAllocation, Miniport, StandardAllocationDriverData};
use wddm_types::NodeId;

use super::*;

/// The driver wants to find this in the resource's private data.
const BLOB: &[u8] = b"of the resource";

/// A driver with private data for the resource of an allocation that the kernel describes.
fn standard(driver: &mut dyn Miniport, query: &mut StandardAllocationDriverData<'_>) -> Result<(), DriverStatus> {
    let StandardAllocationDriverData { wanted, .. } = *query;
    let (allocation, told) = match &mut query.buffers {
        None => (None, true),
        Some((allocation, resource)) => {
            resource.copy_from_slice(BLOB);
            (Some(&mut **allocation), false)
        }
    };
    let buffers = allocation.map(|allocation| (allocation, &mut [][..]));
    let mut inner =
        StandardAllocationDriverData { wanted, allocation_bytes: 0, resource_bytes: 0, pitch_bytes: 0, buffers };
    driver.standard_allocation_driver_data(&mut inner)?;
    if told {
        (query.allocation_bytes, query.resource_bytes) = (inner.allocation_bytes, BLOB.len() as u32);
    }
    Ok(())
}

#[test]
fn the_resource_of_a_standard_allocation_has_the_private_data_that_the_driver_wrote() {
    // spec: memory §2.7
    let heard: Shared<(&'static str, Vec<u8>)> = Arc::default();
    let hears = Arc::clone(&heard);
    let hear_blob = Box::new(move |what, blob: &[u8]| hears.lock().expect("a test").push((what, blob.to_vec())));
    let host = host_with(8 * MIB, Whims { standard: Box::new(standard), hear_blob, ..Whims::default() });
    let (creator, other) = (gpu(&host), gpu(&host));
    let section = Section::create(creator.adapter(), 4 * PAGE_BYTES).unwrap();
    let flags = SHARED
        | CreateAllocationFlags::CROSS_ADAPTER
        | CreateAllocationFlags::STANDARD_ALLOCATION
        | CreateAllocationFlags::EXISTING_SECTION;
    let create = |private_data: Vec<u8>| {
        let existing = Some(section.range(0, 4 * PAGE_BYTES));
        let request = AllocationRequest { existing, ..AllocationRequest::default() };
        Resource::create(creator.device(), vec![request], ResourceRequest { private_data, ..resource(flags) })
    };
    heard.lock().unwrap().clear();
    assert_eq!(status(create(vec![1])), NtStatus::INVALID_PARAMETER, "the caller has none: it describes nothing");
    assert!(heard.lock().unwrap().is_empty(), "the kernel asks no driver");
    let made = create(Vec::new()).unwrap();
    Resource::open(other.device(), made.global_share())
        .expect("another device opens it, and its driver gets the data too");
    let heard = heard.lock().unwrap();
    let expected = ["create", "open", "open"].map(|what| (what, BLOB.to_vec()));
    assert_eq!(*heard, expected);
}

#[test]
fn a_user_mode_driver_of_another_version_is_refused() {
    // spec: memory §2.7, memory §9.1, memory §9.2
    let armed: Arc<Mutex<Option<&'static str>>> = Arc::default();
    let at = Arc::clone(&armed);
    let refuse = Box::new(move |what| match at.lock().expect("a test").take_if(|at| *at == what) {
        Some(_) => Err(DriverStatus::DriverMismatch("as the test wants")),
        None => Ok(()),
    });
    let steps: Shared<Step> = Arc::default();
    let heard = Arc::clone(&steps);
    let hear = Box::new(move |step| heard.lock().expect("a test").push(step));
    let host = host_with(8 * MIB, Whims { refuse, hear, packets: true, ..Whims::default() });
    let gpu = gpu(&host);
    let good = data(Kind::Local, 4096).encode();
    let create = || gpu.device().create_allocation(good.to_vec());
    // The real driver's own answer: private data of this device, in a version that it does not know.
    let mut newer = good;
    newer[4] = 9;
    let mismatch = NtStatus::GRAPHICS_DRIVER_MISMATCH;
    assert!(mismatch.is_success(), "its severity says nothing: it counts as a failure all the same");
    assert_eq!(status(gpu.device().create_allocation(newer.to_vec())), mismatch);
    let usage = || gpu.adapter().video_memory_info(true).unwrap().current_usage_bytes;
    let before = usage();
    steps.lock().unwrap().clear();
    *armed.lock().unwrap() = Some("create");
    assert_eq!(status(create()), mismatch);
    assert!(steps.lock().unwrap().is_empty(), "nothing was created");
    *armed.lock().unwrap() = Some("open");
    assert_eq!(status(create()), mismatch);
    let taken: Vec<Step> = std::mem::take(&mut steps.lock().unwrap());
    assert!(matches!(&taken[..], [Step::Create(made, _), Step::Destroy(gone, _)] if made == gone), "{taken:?}");
    *armed.lock().unwrap() = Some("context");
    assert_eq!(status(Context::create(gpu.device(), NodeId(0), Vec::new())), mismatch);
    assert_eq!(usage(), before);
    create().expect("the next may");
    Context::create(gpu.device(), NodeId(0), Vec::new()).expect("and the next context");
    assert_eq!(host.check_invariants(), Ok(()));
}

#[test]
fn an_open_without_a_handle_is_none() {
    // spec: memory §2.7
    let armed: Arc<Mutex<bool>> = Arc::default();
    let at = Arc::clone(&armed);
    let opens = Box::new(move |open: &mut ddi::OpenAllocation<'_, '_>| {
        if *at.lock().expect("a test") {
            open.allocations.last_mut().expect("it opens something").open = KmdOpenAllocation(0);
        }
    });
    let steps: Shared<Step> = Arc::default();
    let heard = Arc::clone(&steps);
    let hear = Box::new(move |step| heard.lock().expect("a test").push(step));
    let host = host_with(8 * MIB, Whims { opens, hear, ..Whims::default() });
    let (creator, other) = (gpu(&host), gpu(&host));
    let create = || {
        let requests = vec![request(Kind::Local, 4096), request(Kind::Local, 4096)];
        Resource::create(creator.device(), requests, resource(SHARED))
    };
    let made = create().unwrap();
    let open = || Resource::open(other.device(), made.global_share());
    *armed.lock().unwrap() = true;
    steps.lock().unwrap().clear();
    assert_eq!(status(create()), NtStatus::INVALID_PARAMETER);
    let taken: Vec<Step> = std::mem::take(&mut steps.lock().unwrap());
    let [Step::Create(created, _), Step::Open(_, opened, _), Step::Close(_, closed), Step::Destroy(gone, _)] =
        &taken[..]
    else {
        panic!("{taken:?}")
    };
    assert_eq!((&opened[..1], gone), (&closed[..], created), "allocations with a handle are closed, all are destroyed");
    assert_eq!(status(open()), NtStatus::INVALID_PARAMETER);
    let taken: Vec<Step> = std::mem::take(&mut steps.lock().unwrap());
    assert!(matches!(&taken[..], [Step::Open(..), Step::Close(..)]), "{taken:?}");
    *armed.lock().unwrap() = false;
    open().expect("nothing is left of it");
    assert_eq!(host.check_invariants(), Ok(()));
}

#[test]
fn nothing_crosses_adapters_whose_driver_cannot() {
    // spec: memory §1.14, memory §2.7, memory §9.2
    for able in [false, true] {
        let caps = Box::new(move |caps: &mut ddi::AdapterCaps| {
            caps.memory.set(ddi::VidMmCaps::CROSS_ADAPTER_RESOURCE, able);
        });
        let host = host_with(8 * MIB, Whims { caps, ..Whims::default() });
        let gpu = gpu(&host);
        let made = |flags| Resource::create(gpu.device(), vec![request(Kind::System, 4096)], resource(flags)).map(drop);
        let across = made(SHARED | CreateAllocationFlags::CROSS_ADAPTER);
        assert_eq!(across.map_err(|refusal| refusal.status).err(), (!able).then_some(NtStatus::INVALID_PARAMETER));
        made(SHARED).expect("a resource that is shared on one adapter");
    }
}
