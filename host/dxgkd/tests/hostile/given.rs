//! Files that clients hand over: the daemon refuses files that could end it, and a client's later changes to a good file do not end it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use d3dkmt::{AllocationRequest, CreateAllocationFlags, Residency, Resource, ResourceRequest, Section};
use dxgkd::Limits;
use kmt_calls::wire::encode;
use kmt_calls::{AdapterCall, Call};
use kmt_link::Link;
use kmt_link::socket::{Asked, Packets, Request, Response};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create};
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig};
use wddm_types::{NodeId, NtStatus, PAGE_BYTES};

use crate::{Raw, Served, handle, step};

/// A memory file of eight pages.
fn memory_file(flags: MemfdFlags, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("a client's", flags | MemfdFlags::CLOEXEC).expect("a file");
    ftruncate(&file, 8 * PAGE_BYTES).expect("its size");
    if !seals.is_empty() {
        fcntl_add_seals(&file, seals).expect("it takes seals");
    }
    file
}

// spec: memory §2.7
#[test]
fn files_that_could_end_the_daemon_are_refused() {
    let served = Served::start(Limits::default());
    let others = served.connect();
    let client = served.raw();
    assert_eq!(client.hear(), Some(Response::Done));
    let adapter = handle(client.ask(step(&client, 0, &[]).expect("a call")));
    let over = |client: &Raw, files: &[BorrowedFd<'_>], offset_bytes: u64, size_bytes: u64| {
        let asked = Asked::only(Request::SectionOver { adapter, offset_bytes, size_bytes });
        let _ = client.lane.send(&encode(&asked, Vec::new()), files);
        client.hear()
    };
    let refused = |what: &str, file: OwnedFd, offset, bytes| match over(&client, &[file.as_fd()], offset, bytes) {
        Some(Response::Answer(Err(refusal))) => (refusal.status, refusal.reason.into_owned()),
        other => panic!("{what}: {other:?}"),
    };
    let (sealable, sealed) = (MemfdFlags::ALLOW_SEALING, || memory_file(MemfdFlags::ALLOW_SEALING, SealFlags::SHRINK));
    let ordinary = || std::fs::File::open("/proc/self/exe").expect("a file").into();
    for (what, file, needle) in [
        ("one that may shrink", memory_file(sealable, SealFlags::GROW), "F_SEAL_SHRINK"),
        ("one of a file system", ordinary(), "memfd_create"),
        ("a socket", Packets::pair().expect("two ends").1, "memfd_create"),
    ] {
        let (status, reason) = refused(what, file, 0, PAGE_BYTES);
        assert_eq!(status, NtStatus::NOT_SUPPORTED, "{what}: {reason}");
        assert!(reason.contains(needle), "{what}: {reason}");
    }
    let no_stores = memory_file(sealable, SealFlags::SHRINK | SealFlags::FUTURE_WRITE);
    assert_eq!(refused("one for looking at", no_stores, 0, PAGE_BYTES).0, NtStatus::INVALID_PARAMETER);
    for (offset, bytes) in [(0, 9), (8, 1), (7, 2), (0, 1 << 40), (u64::MAX / PAGE_BYTES, 1)] {
        let (offset, bytes) = (offset * PAGE_BYTES, bytes * PAGE_BYTES);
        assert_eq!(refused("beyond its end", sealed(), offset, bytes).0, NtStatus::INVALID_PARAMETER);
    }
    assert_eq!(refused("within a page", sealed(), 8, PAGE_BYTES).0, NtStatus::INVALID_PARAMETER);
    // A number that a client guesses names no file.
    for given in 0..40 {
        let call = kmt_calls::SectionCall::CreateOver { adapter, size_bytes: PAGE_BYTES, given };
        assert_eq!(client.ask(Call::Section(call)), None);
    }
    let file = sealed();
    for files in [&[][..], &[file.as_fd(); 2][..]] {
        let other = served.raw();
        assert_eq!(other.hear(), Some(Response::Done));
        assert_eq!(over(&other, files, 0, PAGE_BYTES), None, "{} files", files.len());
    }
    assert!(
        others.call(Call::Adapter(AdapterCall::EnumAdapters)).is_ok()
            && client.ask(Call::Adapter(AdapterCall::EnumAdapters)).is_some(),
        "others go on"
    );
    drop((client, others, file));
    served.until_as_before("refused files");
}

// spec: memory §2.7
#[test]
fn what_becomes_of_a_file_that_was_handed_over_ends_nothing() {
    let mut served = Served::start(Limits::default());
    let gpu = Gpu::open(served.connect() as Arc<dyn Link>).expect("the adapter opens");
    let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    let file = memory_file(MemfdFlags::ALLOW_SEALING, SealFlags::SHRINK);
    let bytes = 8 * PAGE_BYTES;
    let section = Section::over_file(gpu.adapter(), file.as_fd(), 0, bytes).expect("a good file");
    let flags = CreateAllocationFlags::CREATE_RESOURCE
        | CreateAllocationFlags::CREATE_SHARED
        | CreateAllocationFlags::CROSS_ADAPTER
        | CreateAllocationFlags::STANDARD_ALLOCATION
        | CreateAllocationFlags::EXISTING_SECTION;
    let request = AllocationRequest { existing: Some(section.range(0, bytes)), ..AllocationRequest::default() };
    let resource = ResourceRequest { flags, ..ResourceRequest::default() };
    let made = Resource::create(gpu.device(), vec![request], resource).expect("an allocation");
    let allocation = &made.allocations()[0];
    let (va, mapped) = gpu.paging().map(allocation, 8, true).expect("addresses");
    let resident = gpu.paging().make_resident(vec![allocation.handle()], Default::default()).expect("room");
    let value = match resident {
        Residency::Resident => mapped,
        Residency::Pending { paging_fence_value, .. } => paging_fence_value.max(mapped),
    };
    gpu.device().wait(&[(gpu.paging().fence(), value)]).expect("it is there");
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for round in 1..=50_u32 {
        let mut commands = Commands::new();
        commands.fill(va, bytes, round);
        let value = stream.submit(&gpu, &[], &commands).expect("a submission");
        fallocate(&file, hole, 0, bytes).expect("its pages go while the GPU stores there");
        assert!(ftruncate(&file, PAGE_BYTES).is_err(), "it does not shrink");
        stream.wait(&gpu, value).expect("it completes");
    }
    let mut commands = Commands::new();
    commands.fill(va, bytes, 7);
    let value = stream.submit(&gpu, &[], &commands).expect("a submission");
    stream.wait(&gpu, value).expect("it completes");
    let mut word = [0; 4];
    rustix::io::pread(&file, &mut word, bytes - 4).expect("a word");
    assert_eq!(u32::from_le_bytes(word), 7, "the file has what the GPU stores");
    drop((made, section, stream, gpu));
    // This test has the file, too.
    let descriptors = &mut served.before.0.descriptors;
    descriptors.push("/memfd:a client's (deleted)".into());
    descriptors.sort_unstable();
    served.until_left("a client with a file", &["fence ", "open of a fence ", "packed words of process 0"]);
    rustix::io::pread(&file, &mut word, 0).expect("a word");
    assert_eq!(u32::from_le_bytes(word), 7, "and keeps it");
}
