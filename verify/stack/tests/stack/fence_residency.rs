//! The kernel evicts words of INTRA_GPU fences and brings them back: the calls to the driver, and no waiter or engine finds the words gone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use d3dkmt::{Fence, FenceFlags, MakeResidentFlags, NativeFenceRequest};
use ddi::{KmdAllocation, PagingOp, PagingStatus, PteFlags};
use dxgk_host::{Host, HostConfig, Profile};
use kmt_link::Link;
use softgpu_spec::Command;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, Surface, SurfaceKind};
use wddm_types::{GpuVa, NodeId, PAGE_BYTES, SegmentId};

use crate::stubborn::{Whims, wrapped};
use stack::world::{Client, MIB, VIRTUAL, client, unnamed};

const LOCAL: SegmentId = SegmentId(1);

/// The kernel's calls to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// A fence's words: where CurrentValue is, where MonitoredValue.
    Moved { fence: u64, current: SegmentId, monitored: SegmentId },
    /// Entries that show words of native fences: whether in the paging process, whether valid, and the segment that they name.
    Entry { paging: bool, valid: bool, names: SegmentId },
}

type Log = Arc<Mutex<Vec<Told>>>;

fn start() -> (Arc<Host>, Log) {
    let log = Log::default();
    let seen = Arc::clone(&log);
    let paging = Mutex::new(None);
    let whims = Whims {
        build: Box::new(move |driver, build| {
            let mut seen = seen.lock().unwrap();
            match build.operation {
                PagingOp::NotifyFenceResidency { fences } => {
                    seen.extend(fences.iter().map(|moved| Told::Moved {
                        fence: moved.fence.0,
                        current: moved.current.segment,
                        monitored: moved.monitored.segment,
                    }));
                }
                PagingOp::UpdatePageTable { native_fence: true, level, first, process, count, .. } => {
                    assert_eq!((level, count), (0, 1), "words are a page");
                    // The paging process is the first.
                    let system = *paging.lock().unwrap().get_or_insert(process);
                    assert_eq!(build.immediate, process == system, "its tables are the CPU's");
                    let valid = first.flags.contains(PteFlags::VALID);
                    seen.push(Told::Entry { paging: process == system, valid, names: first.address.segment });
                }
                // The kernel's own has no handle of the driver's.
                PagingOp::Fill { allocation, .. } | PagingOp::Transfer { allocation, .. } => {
                    assert_ne!(allocation, Some(KmdAllocation::default()));
                }
                _ => {}
            }
            driver.build_paging_buffer(build)
        }),
        ..Whims::default()
    };
    let mut config = config();
    config.wrap_miniport = Some(wrapped(whims));
    (Host::start(config).expect("the host starts"), log)
}

fn config() -> HostConfig {
    HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        ..HostConfig::new(Profile::named("intra-gpu-fences").expect("a built-in profile"), VIRTUAL)
    }
}

fn take(log: &Log) -> Vec<Told> {
    std::mem::take(&mut log.lock().unwrap())
}

fn intra_gpu(of: &Client) -> Fence {
    let request = NativeFenceRequest {
        initial_value: 0,
        fence_type: 1,
        flags: FenceFlags::empty(),
        engine_affinity: 0,
        private_data: d3dkmt::FencePrivateData([0; 64]),
    };
    of.gpu.device().create_native_fence(request).expect("an INTRA_GPU fence")
}

/// The word at an address, as an engine reads it.
fn read_by_gpu(of: &mut Client, report: &Surface, va: GpuVa) -> u64 {
    of.run(|commands| {
        commands.checksum(va, 8, report.va());
    });
    report.lock().expect("a lock").read_word(0)
}

const SYSTEM: SegmentId = SegmentId::SYSTEM;

/// Another client that wants all of video memory, and gets it.
fn greedy(host: &Arc<Host>) -> (Client, Vec<Surface>) {
    let other = client(host);
    let all = demand_everything(&other);
    while host.step() {}
    (other, all)
}

/// All of video memory for one client; the work is queued.
fn demand_everything(other: &Client) -> Vec<Surface> {
    let all: Vec<_> = (0..8).map(|_| other.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface")).collect();
    let insists = MakeResidentFlags::CANT_TRIM_FURTHER | MakeResidentFlags::MUST_SUCCEED;
    for surface in &all {
        other.gpu.paging().make_resident(vec![surface.allocation().handle()], insists).expect("at the others' cost");
    }
    all
}

/// The kernel's calls to the driver when both pages of one fence's words go to a segment: entries of the process invalid, then the place
/// of each page, then entries of the paging process, which are valid all along, and of the process.
fn both_pages(fence: u64, from: SegmentId, to: SegmentId) -> Vec<Told> {
    let valid = |paging| Told::Entry { paging, valid: true, names: to };
    vec![
        Told::Entry { paging: false, valid: false, names: SYSTEM },
        Told::Entry { paging: false, valid: false, names: SYSTEM },
        Told::Moved { fence, current: to, monitored: from },
        Told::Moved { fence, current: to, monitored: to },
        valid(true),
        valid(false),
        valid(true),
        valid(false),
    ]
}

/// The same when they leave for system memory: one page is seen in its new place before anything takes its old one.
fn page_by_page(fence: u64) -> Vec<Told> {
    let valid = |paging| Told::Entry { paging, valid: true, names: SYSTEM };
    let page = |monitored| {
        let invalid = Told::Entry { paging: false, valid: false, names: SYSTEM };
        [invalid, Told::Moved { fence, current: SYSTEM, monitored }, valid(true), valid(false)]
    };
    [page(LOCAL), page(SYSTEM)].concat()
}

fn number(told: &[Told]) -> Option<u64> {
    told.iter().find_map(|told| match told {
        Told::Moved { fence, .. } => Some(*fence),
        Told::Entry { .. } => None,
    })
}

#[test]
fn words_make_room_and_come_back_and_the_driver_hears_of_each_move() {
    // spec: memory §3.4 operation 18, sync §1.4, sync §1.5
    // seed: N122
    let (host, log) = start();
    let mut one = client(&host);
    let report = one.pinned(SurfaceKind::System, PAGE_BYTES);
    take(&log);
    let fence = intra_gpu(&one);
    one.run(|commands| {
        commands.signal(&fence, 7);
    });
    let entry = |paging| Told::Entry { paging, valid: true, names: LOCAL };
    assert_eq!(take(&log), [true, true, false, false].map(entry), "where they are first is no move");
    let (other, all) = greedy(&host);
    let told: Vec<_> = take(&log);
    let fence_number = number(&told).expect("it was displaced");
    // The other process's own words are in system memory from the start.
    let its_own = [true, true, false, false].map(|paging| Told::Entry { paging, valid: true, names: SYSTEM });
    assert_eq!(told, [&its_own[..], &page_by_page(fence_number)].concat());
    assert_eq!(read_by_gpu(&mut one, &report, fence.current_va()), 7, "they are in reach there");
    assert_eq!(read_by_gpu(&mut one, &report, fence.monitored_va()), u64::MAX);
    one.run(|commands| {
        commands.signal(&fence, 8).wait(&fence, 8);
    });
    assert_eq!(take(&log), [], "nothing moves without need");
    drop((other, all));
    while host.step() {}
    assert_eq!(read_by_gpu(&mut one, &report, fence.current_va()), 8);
    // The other process has ended meanwhile: its words are shown no more.
    let stays = |told: &Told| !matches!(told, Told::Entry { valid: false, .. });
    let back: Vec<_> = take(&log).into_iter().filter(stays).collect();
    let expected: Vec<_> = both_pages(fence_number, SYSTEM, LOCAL).into_iter().filter(stays).collect();
    assert_eq!(back, expected, "and come back when there is room");
    drop(fence);
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}

#[test]
fn who_waits_by_the_words_of_another_device_of_its_process_waits_at_the_new_place() {
    // spec: sync §1.5, sync §3.8
    let (host, log) = start();
    let mut one = client(&host);
    let fence = intra_gpu(&one);
    let second = Gpu::open(Arc::clone(&one.link) as Arc<dyn Link>).expect("a device of the same process");
    let mut waiter = Stream::create(&second, NodeId(1), StreamConfig::default()).expect("a stream");
    let mut wait = Commands::new();
    wait.wait(&fence, 9);
    let waited = waiter.submit(&second, &[], &wait).expect("a submission");
    while host.step() {}
    take(&log);
    let everything = greedy(&host);
    assert_eq!(take(&log).iter().filter(|told| matches!(told, Told::Moved { .. })).count(), 2);
    assert!(waiter.progress().current() < waited, "it waits on");
    one.run(|commands| {
        commands.signal(&fence, 9);
    });
    waiter.wait(&second, waited).expect("it goes on");
    drop(everything);
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}

#[test]
fn words_that_are_satisfied_for_ever_are_so_at_the_new_place() {
    // spec: sync §3.16, memory §3.4 operation 18
    let (host, log) = start();
    let mut one = client(&host);
    let fence = intra_gpu(&one);
    let second = Gpu::open(Arc::clone(&one.link) as Arc<dyn Link>).expect("a device of the same process");
    let mut waiter = Stream::create(&second, NodeId(1), StreamConfig::default()).expect("a stream");
    let wild = GpuVa(0x7fff_0000_0000);
    let mut commands = Commands::new();
    commands.signal(unnamed(wild, wild.offset(8)), 1);
    one.stream.submit(&one.gpu, &[], &commands).expect("a submission");
    while host.step() {}
    take(&log);
    let everything = greedy(&host);
    assert_eq!(take(&log).iter().filter(|told| matches!(told, Told::Moved { .. })).count(), 2);
    let mut commands = Commands::new();
    // A signal leaves a word alone that is sealed.
    commands.signal(&fence, 1).wait(&fence, 1 << 40);
    let done = waiter.submit(&second, &[], &commands).expect("a submission");
    waiter.wait(&second, done).expect("every wait passes");
    drop(everything);
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}

/// The addresses at which the paging process is shown words of fences.
type ShownAt = Arc<Mutex<BTreeSet<u64>>>;

/// Notes where the paging process is shown words.
fn notes_addresses(shown: &ShownAt) -> Whims {
    let shown = Arc::clone(shown);
    Whims {
        build: Box::new(move |driver, build| {
            if let PagingOp::UpdatePageTable { native_fence: true, first, first_va, .. } = build.operation
                && build.immediate
            {
                match first.flags.contains(PteFlags::VALID) {
                    true => shown.lock().unwrap().insert(first_va.0),
                    false => shown.lock().unwrap().remove(&first_va.0),
                };
            }
            driver.build_paging_buffer(build)
        }),
        ..Whims::default()
    }
}

#[test]
fn words_that_go_while_a_move_of_theirs_is_queued_are_not_shown_by_it() {
    // spec: memory §3.4 (paging-process tables), sync §1.5
    let shown = ShownAt::default();
    let mut config = config();
    config.wrap_miniport = Some(wrapped(notes_addresses(&shown)));
    let host = Host::start(config).expect("the host starts");
    let (other, one) = (client(&host), client(&host));
    let before = shown.lock().unwrap().clone();
    let fence = intra_gpu(&one);
    while host.step() {}
    let words = &shown.lock().unwrap().clone() - &before;
    assert_eq!(words.len(), 2, "a page of CurrentValues, one of MonitoredValues");
    let all = demand_everything(&other);
    drop((fence, one));
    while host.step() {}
    let left = &*shown.lock().unwrap() & &words;
    assert_eq!(left, BTreeSet::new(), "their addresses are free");
    drop((all, other));
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}

/// The number of an operation that the driver is asked for by the ring, and its MultipassOffset.
type Asked = Arc<Mutex<Vec<(u32, u64)>>>;

#[test]
fn a_move_of_words_that_go_before_the_driver_has_said_all_leaves_the_next_operation_its_own_offset() {
    // spec: memory §3.2, memory §3.4 operation 18
    let asked = Asked::default();
    let seen = Arc::clone(&asked);
    let whims = Whims {
        build: Box::new(move |driver, build| {
            if build.immediate {
                return driver.build_paging_buffer(build);
            }
            seen.lock().unwrap().push((build.operation.number(), build.multipass_offset));
            if !matches!(build.operation, PagingOp::NotifyFenceResidency { .. }) {
                return driver.build_paging_buffer(build);
            }
            // There is always more to say in another buffer. The driver has no command for a notice, and notes how many words a buffer has.
            let mut words = Vec::new();
            Command::Nop.encode(&mut words);
            build.buffer[..words.len()].copy_from_slice(&words);
            let (said, at) = (std::mem::take(&mut build.multipass_offset), build.write_offset);
            build.write_offset += words.len() as u32 * 8;
            driver.build_paging_buffer(build)?;
            (build.write_offset, build.written, build.multipass_offset) = (at, words.len(), said + 1);
            Err(PagingStatus::InsufficientDmaBuffer)
        }),
        ..Whims::default()
    };
    let mut config = config();
    config.wrap_miniport = Some(wrapped(whims));
    let host = Host::start(config).expect("the host starts");
    let (other, one) = (client(&host), client(&host));
    let fence = intra_gpu(&one);
    while host.step() {}
    asked.lock().unwrap().clear();
    let all = demand_everything(&other);
    let moves = |asked: &Asked| asked.lock().unwrap().iter().filter(|(number, _)| *number == 18).count();
    while moves(&asked) < 2 {
        assert!(host.step(), "the words move: {:?}, {:?}", asked.lock().unwrap(), host.stopped());
    }
    drop(fence);
    while host.step() {}
    let all_asked = std::mem::take(&mut *asked.lock().unwrap());
    let last = all_asked.iter().rposition(|(number, _)| *number == 18).expect("just seen");
    assert!(all_asked[last].1 > 0, "the last of several buffers: {all_asked:?}");
    assert_eq!(all_asked.get(last + 1).map(|(_, offset)| *offset), Some(0), "the next one begins: {all_asked:?}");
    drop((all, other, one));
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}
