//! Calls that are refused after some of their allocations have been given an address.

use std::sync::atomic::{AtomicBool, Ordering};

use d3dkmt::Section;
use ddi::DriverStatus;

use super::*;

fn requested(bytes: u64) -> Requested {
    let data = AllocationRequest {
        kind: Kind::System,
        cpu_visible: true,
        cached: false,
        accessed_physically: false,
        size_bytes: bytes,
    };
    Requested { private_data: data.encode().to_vec(), ..Requested::default() }
}

fn create(client: &Client, requests: Vec<Requested>, flags: CreateAllocationFlags) -> Result<Resource, Refusal> {
    let flags = CreateAllocationFlags::CREATE_RESOURCE | flags;
    Resource::create(client.gpu.device(), requests, ResourceRequest { flags, ..ResourceRequest::default() })
}

/// A driver that refuses every "open" while the answer says so.
fn refusing() -> (Arc<Host>, Arc<AtomicBool>) {
    let refuses = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&refuses);
    let refuse = move |what| match what == "open" && asked.load(Ordering::SeqCst) {
        true => Err(DriverStatus::NoMemory("a whim")),
        false => Ok(()),
    };
    let mut config = config("iommu", VIRTUAL);
    config.wrap_miniport = Some(wrapped(Whims { refuse: Box::new(refuse), ..Whims::default() }));
    (Host::start(config).expect("the host starts"), refuses)
}

#[test]
fn an_open_that_the_driver_refuses_takes_back_the_addresses_that_it_gave_and_no_others() {
    // spec: memory §4.1, memory §2.7
    let (host, refuses) = refusing();
    let (ours, mut theirs) = (client(&host), client(&host));
    let made = create(&ours, vec![requested(65536)], CreateAllocationFlags::CREATE_SHARED).unwrap();
    make_resident(&ours, made.allocations()[0].handle());
    let lowest = |client: &Client| client.gpu.create_surface(SurfaceKind::System, 65536).expect("a surface").va();
    let at = lowest(&theirs);
    refuses.store(true, Ordering::SeqCst);
    let open = |client: &Client| Resource::open(client.gpu.device(), made.global_share());
    assert!(open(&theirs).is_err());
    refuses.store(false, Ordering::SeqCst);
    assert_eq!(lowest(&theirs), at, "nothing stands at the address that it would have had");
    host.check_invariants().expect("all rules hold");
    // The process keeps its earlier allocations.
    let opened = open(&theirs).unwrap();
    let there = opened.allocations()[0].address().for_gpu();
    assert_eq!(there, at);
    make_resident(&theirs, opened.allocations()[0].handle());
    refuses.store(true, Ordering::SeqCst);
    assert!(open(&theirs).is_err());
    theirs.run(|commands| {
        commands.fill(there, 65536, 1);
    });
    refuses.store(false, Ordering::SeqCst);
    assert_eq!(open(&theirs).unwrap().allocations()[0].address().for_gpu(), there);
    drop((opened, made));
    let state = lost(&mut theirs, |commands| {
        commands.fill(there, 8, 1);
    });
    assert_eq!(state, DeviceState::ErrorDmaPageFault, "with the last of them it has gone");
    host.check_invariants().expect("all rules hold");
}

/// So many of them that a process's 47 bits of addresses are too few for one more, all over the same memory.
const LARGE: u64 = 1 << 42;
const LARGE_MAX: usize = (1 << (47 - 42)) - 1;

#[test]
fn a_call_whose_last_allocation_finds_no_address_leaves_the_first_without_one() {
    // spec: memory §4.1
    let config = HostConfig { system_bytes: 3 * LARGE + 64 * MIB, ..config("iommu", Mode::Virtual { stored: false }) };
    let host = Host::start(config).expect("nothing of it is touched");
    let (ours, theirs) = (client(&host), client(&host));
    let shared = CreateAllocationFlags::CREATE_SHARED;
    let both = || vec![requested(65536), requested(LARGE)];
    let made = create(&ours, both(), shared).expect("ours are free");
    let section = Section::create(theirs.gpu.adapter(), LARGE).unwrap();
    let standard = shared
        | CreateAllocationFlags::CROSS_ADAPTER
        | CreateAllocationFlags::STANDARD_ALLOCATION
        | CreateAllocationFlags::EXISTING_SECTION;
    let over = || Requested { existing: Some(section.range(0, LARGE)), ..Requested::default() };
    let filled: Vec<Resource> =
        (0..LARGE_MAX).map(|_| create(&theirs, vec![over()], standard).expect("an address")).collect();
    while host.step() {}
    let before = host.state_digest();
    let refused = |result: Result<Resource, Refusal>| {
        let refusal = result.err().expect("no address is left");
        assert_eq!(refusal.status, NtStatus::NO_MEMORY, "{refusal}");
        while host.step() {}
        assert_eq!(host.state_digest().differences(&before), Vec::<String>::new());
        host.check_invariants().expect("all rules hold");
    };
    refused(Resource::open(theirs.gpu.device(), made.global_share()));
    refused(create(&theirs, both(), CreateAllocationFlags::empty()));
    drop(filled);
    Resource::open(theirs.gpu.device(), made.global_share()).expect("there is room again");
}
