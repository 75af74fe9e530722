//! Leaf tables of 64-KB entries through the whole stack, their conversion to 4-KB ones, and hardware that wants an idle
//! address space for every change: the requests to the driver, and the suspensions around them (memory §4.2, §4.5).

mod dual;
mod stillness;

use std::sync::{Arc, Mutex};

use d3dkmt::{DeviceState, GpuVaMapping, GpuVaProtection, GpuVaReservation, UpdateGpuVaFlags, UpdateGpuVaOperation};
use ddi::{PagingOp, PteFlags};
use dxgk_host::{Host, HostConfig, Mode, Profile};
use events::{Conversion, Event, Stillness, Tracer};
use softgpu_kmd::KmdConfig;
use softgpu_umd::{Surface, SurfaceKind, pattern};
use wddm_types::{GpuVa, NodeId, PAGE_BYTES};

use crate::stubborn::{Whims, wrapped};
use stack::world::{Client, MIB, VIRTUAL, client};

const CHUNK: u64 = 65536;
/// Far from the client's other mappings, so with leaf tables of its own.
const BASE: GpuVa = GpuVa(1 << 40);
/// A table of 512 pages.
const COVERAGE: u64 = 2 * MIB;

/// The kernel's steps, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Suspended,
    Resumed,
    /// Entries of a leaf table: how many, valid, of 64 KB.
    Leaf {
        va: u64,
        count: u32,
        valid: bool,
        coarse: bool,
    },
    /// The entry above a leaf table; `coarse`: the table has 64-KB entries.
    Link {
        va: u64,
        valid: bool,
        coarse: bool,
    },
    Flush {
        start: u64,
        end: u64,
    },
    /// Entries copied from table to table.
    Copied(u32),
    /// A conversion was decided on.
    Converted {
        va: u64,
        why: Conversion,
    },
    /// The kernel quiesces a process, for this.
    Still(Stillness),
    Done,
}

/// The page-table reason of a suspension.
const PAGE_TABLES: u32 = 1 << 1;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Step>>>);

impl Log {
    fn push(&self, step: Step) {
        self.0.lock().unwrap().push(step);
    }

    fn take(&self) -> Vec<Step> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Notes a request to the driver that concerns the addresses of processes.
    fn operation(&self, operation: &PagingOp<'_>, immediate: bool) {
        match *operation {
            _ if immediate => {}
            PagingOp::UpdatePageTable { level: 0, count, first, first_va, use_64kb_pages, .. } => {
                let valid = first.flags.contains(PteFlags::VALID);
                self.push(Step::Leaf { va: first_va.0, count, valid, coarse: use_64kb_pages });
            }
            PagingOp::UpdatePageTable { level: 1, first, first_va, .. } => {
                let valid = first.flags.contains(PteFlags::VALID);
                let coarse = first.flags.contains(PteFlags::LEAF_64KB);
                self.push(Step::Link { va: first_va.0, valid, coarse });
            }
            PagingOp::CopyPageTableEntries { ranges } => {
                // spec: memory §3.4, operation 14
                for range in ranges {
                    assert!([range.source_table, range.target_table].iter().all(|va| va.0.is_multiple_of(CHUNK)));
                    self.push(Step::Copied(range.count));
                }
            }
            PagingOp::FlushTlb { start, end, .. } => self.push(Step::Flush { start: start.0, end: end.0 }),
            _ => {}
        }
    }
}

impl Tracer for Log {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        match event {
            Event::DeviceSuspended { reasons, .. } if *reasons & PAGE_TABLES != 0 => self.push(Step::Suspended),
            Event::LeafTableConverted { va, size_bytes: COVERAGE, why, .. } => {
                self.push(Step::Converted { va: *va, why: *why });
            }
            Event::ProcessStandsStill { why, .. } => self.push(Step::Still(*why)),
            Event::DeviceResumed { .. } => self.push(Step::Resumed),
            Event::PagingCompleted { .. } => self.push(Step::Done),
            _ => {}
        }
    }
}

/// An adapter of 64-KB segment pages whose driver says this.
fn traced(mode: Mode, driver: impl FnOnce(KmdConfig) -> KmdConfig) -> (Arc<Host>, Log) {
    traced_profile("discrete-64k", mode, driver)
}

fn traced_profile(name: &str, mode: Mode, driver: impl FnOnce(KmdConfig) -> KmdConfig) -> (Arc<Host>, Log) {
    let mut profile = *Profile::named(name).expect("a built-in profile");
    profile.driver = driver(profile.driver);
    traced_on(&profile, mode)
}

fn traced_on(profile: &Profile, mode: Mode) -> (Arc<Host>, Log) {
    let log = Log::default();
    let seen = log.clone();
    let whims = Whims {
        build: Box::new(move |driver, build| {
            // A call that is repeated for want of room tells nothing new.
            if build.multipass_offset == 0 {
                seen.operation(&build.operation, build.immediate);
            }
            driver.build_paging_buffer(build)
        }),
        packets: true,
        ..Whims::default()
    };
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(log.clone()),
        wrap_miniport: Some(wrapped(whims)),
        ..HostConfig::new(profile, mode)
    };
    (Host::start(config).expect("the host starts"), log)
}

fn map(client: &Client, surface: Option<&Surface>, base: GpuVa, pages: u64, protection: GpuVaProtection) {
    let mapping = GpuVaMapping { base, size_in_pages: pages, protection, ..GpuVaMapping::default() };
    let allocation = surface.map(|surface| &**surface.allocation());
    let (_, value) = client.gpu.paging().map_gpu_va(allocation, mapping).expect("inside the reservation");
    client.gpu.device().wait(&[(client.gpu.paging().fence(), value)]).expect("mapped");
}

/// The first word at an address, as the GPU reads it.
fn word_at(client: &mut Client, out: &Surface, va: GpuVa) -> u64 {
    let out_va = out.va();
    client.run(|commands| {
        commands.copy(va, out_va, PAGE_BYTES);
    });
    out.lock().expect("system memory").read_word(0)
}

/// The steps that concern one leaf table of the reservation, flushes and suspensions included.
fn about(steps: &[Step]) -> Vec<Step> {
    let here = |va: u64| (BASE.0..BASE.0 + COVERAGE).contains(&va);
    let keep = |step: &&Step| match step {
        Step::Leaf { va, .. } | Step::Link { va, .. } => here(*va),
        Step::Flush { start, end } => *start < BASE.0 + COVERAGE && *end >= BASE.0,
        _ => true,
    };
    let mut kept: Vec<Step> = steps.iter().filter(keep).copied().collect();
    kept.dedup();
    kept
}

#[test]
fn a_4_kb_page_converts_a_table_of_64_kb_entries_while_its_contexts_are_quiesced() {
    // spec: memory §4.5, memory §8.6, memory §10.4 item 19
    let write = GpuVaProtection::WRITE;
    for mode in [VIRTUAL, Mode::Real] {
        let (host, log) = traced(mode, |driver| KmdConfig { leaf_64kb: true, large_pages: false, ..driver });
        let mut client = client(&host);
        let local = client.pinned(SurfaceKind::Local, 4 * CHUNK);
        let small = client.pinned(SurfaceKind::System, PAGE_BYTES);
        let out = client.pinned(SurfaceKind::System, PAGE_BYTES);
        let (local_va, small_va) = (local.va(), small.va());
        client.run(|commands| {
            commands.pattern(local_va, 4 * CHUNK, 5);
            commands.pattern(small_va, PAGE_BYTES, 9);
        });
        let reservation = GpuVaReservation { base: BASE, size_bytes: COVERAGE, ..GpuVaReservation::default() };
        client.gpu.device().reserve_gpu_va(reservation).expect("room");
        log.take();
        map(&client, Some(&local), BASE, 64, write);
        let made = about(&log.take());
        let entries = Step::Leaf { va: BASE.0, count: 64, valid: true, coarse: true };
        assert!(made.contains(&Step::Link { va: BASE.0, valid: true, coarse: true }), "{made:?}");
        assert!(made.contains(&entries) && !made.contains(&Step::Suspended), "{made:?}");
        let out_va = out.va();
        client.run(|commands| {
            commands.fill(out_va, PAGE_BYTES, 0);
            commands.check(BASE, 4 * CHUNK, 5, out_va, 77);
        });
        assert_eq!(out.lock().expect("system memory").read_word(0), 0, "all of it is seen through 64-KB entries");
        log.take();
        // One page of system memory behind them.
        map(&client, Some(&small), BASE.offset(4 * CHUNK), 1, write);
        let (start, end) = (BASE.0, BASE.0 + COVERAGE - 1);
        let page = Step::Leaf { va: BASE.0 + 4 * CHUNK, count: 1, valid: true, coarse: false };
        // These commands run after the contexts have resumed.
        for (va, word) in [(BASE, (5, 0)), (BASE.offset(3 * CHUNK), (5, 3 * CHUNK)), (BASE.offset(4 * CHUNK), (9, 0))] {
            assert_eq!(word_at(&mut client, &out, va), pattern::word(word.0, word.1));
        }
        let mut expected = vec![
            Step::Suspended,
            Step::Leaf { va: BASE.0, count: 512, valid: false, coarse: false },
            Step::Leaf { va: BASE.0, count: 64, valid: true, coarse: false },
            Step::Link { va: BASE.0, valid: true, coarse: false },
            Step::Flush { start, end },
            page,
            Step::Done,
            Step::Resumed,
        ];
        let mut converted = about(&log.take());
        // Works before this one may end at any time.
        let ends = converted.iter().rposition(|step| *step == Step::Resumed).expect("the contexts go on");
        let mut index = 0;
        converted.retain(|step| {
            index += 1;
            *step != Step::Done || index == ends
        });
        let why = Step::Converted { va: BASE.0, why: Conversion::SystemMemory };
        let still = Step::Still(Stillness::Conversion);
        assert!(converted.contains(&why) && converted.contains(&still), "{converted:?}");
        let from = converted.iter().position(|step| *step == Step::Suspended).expect("a suspension");
        assert_eq!(converted[from..], expected[..]);
        // The table never converts back, although only whole pages are left; and the kernel quiesces nothing for that.
        log.take();
        map(&client, None, BASE.offset(4 * CHUNK), 1, GpuVaProtection::NO_ACCESS);
        map(&client, Some(&local), BASE.offset(8 * CHUNK), 16, write);
        let later = about(&log.take());
        expected = vec![Step::Leaf { va: BASE.0 + 8 * CHUNK, count: 16, valid: true, coarse: false }];
        assert!(expected.iter().all(|step| later.contains(step)), "{later:?}");
        let wrong = |step: &Step| matches!(step, Step::Suspended | Step::Link { .. } | Step::Leaf { coarse: true, .. });
        assert!(!later.iter().any(wrong), "{later:?}");
        assert_eq!(word_at(&mut client, &out, BASE.offset(8 * CHUNK)), pattern::word(5, 0));
    }
}

#[test]
fn nothing_runs_in_a_space_that_must_be_idle_while_it_changes() {
    // spec: memory §4.2, bit 5
    for mode in [VIRTUAL, Mode::Real] {
        let (host, log) = traced(mode, |driver| KmdConfig { idle_spaces: true, leaf_64kb: true, ..driver });
        let mut client = client(&host);
        let out = client.pinned(SurfaceKind::System, PAGE_BYTES);
        // The process has resumed when these commands have run.
        let out_va = out.va();
        client.run(|commands| {
            commands.fill(out_va, PAGE_BYTES, 0);
        });
        log.take();
        for round in 0..3u64 {
            let local = client.pinned(SurfaceKind::Local, CHUNK);
            let va = local.va();
            client.run(|commands| {
                commands.pattern(va, CHUNK, round);
            });
            assert_eq!(word_at(&mut client, &out, va), pattern::word(round, 0));
        }
        let steps = log.take();
        let (mut still, mut changes) = (false, 0);
        for step in &steps {
            match step {
                Step::Suspended => still = true,
                Step::Resumed => still = false,
                Step::Done | Step::Converted { .. } => {}
                Step::Still(why) => assert_eq!(*why, Stillness::Hardware, "{steps:?}"),
                _ => {
                    changes += 1;
                    assert!(still, "{step:?} while the process runs: {steps:?}");
                }
            }
        }
        assert!(changes >= 5, "{steps:?}");
    }
}

#[test]
fn a_copy_of_tiles_copies_their_entries_by_the_gpu() {
    // spec: memory §3.4 operation 14, memory §4.8
    for mode in [VIRTUAL, Mode::Real] {
        let (host, log) = traced(mode, |driver| driver);
        let mut client = client(&host);
        let local = client.pinned(SurfaceKind::Local, 4 * CHUNK);
        let out = client.pinned(SurfaceKind::System, PAGE_BYTES);
        let local_va = local.va();
        client.run(|commands| {
            commands.pattern(local_va, 4 * CHUNK, 5);
        });
        let reservation = GpuVaReservation { base: BASE, size_bytes: 2 * COVERAGE, ..GpuVaReservation::default() };
        client.gpu.device().reserve_gpu_va(reservation).expect("room");
        map(&client, Some(&local), BASE, 64, GpuVaProtection::WRITE);
        let context = client.gpu.device().create_context(NodeId(0)).expect("a context");
        let fence = client.gpu.device().create_native_fence(Default::default()).expect("a fence");
        let copy = |value, from: u64, to: u64, size_bytes| {
            let operation =
                UpdateGpuVaOperation::Copy { source: BASE.offset(from), size_bytes, destination: BASE.offset(to) };
            let flags = UpdateGpuVaFlags::DO_NOT_WAIT;
            client.gpu.device().update_gpu_va(&context, (&fence, value), vec![operation], flags).expect("an update");
            client.gpu.device().wait(&[(&fence, value + 1)]).expect("it is applied");
        };
        // Over the end of a table: two ranges.
        let to = COVERAGE - CHUNK;
        log.take();
        copy(1, CHUNK, to, 3 * CHUNK);
        let steps = log.take();
        let copied: Vec<u32> =
            steps.iter().filter_map(|step| if let Step::Copied(count) = step { Some(*count) } else { None }).collect();
        assert_eq!(copied, [16, 32], "{steps:?}");
        let written = |step: &Step| matches!(step, Step::Leaf { va, valid: true, .. } if *va >= BASE.0);
        assert!(!steps.iter().any(written), "{steps:?}");
        // The ranges overlap: every entry must be read before any is written, so the kernel writes the entries that it knows.
        copy(3, 0, CHUNK, 2 * CHUNK);
        let steps = log.take();
        assert!(steps.iter().any(written) && !steps.iter().any(|step| matches!(step, Step::Copied(_))), "{steps:?}");
        for (at, chunk) in [(to, 1), (to + CHUNK, 2), (to + 2 * CHUNK, 3), (0, 0), (CHUNK, 0), (2 * CHUNK, 1)] {
            let word = word_at(&mut client, &out, BASE.offset(at));
            assert_eq!(word, pattern::word(5, chunk * CHUNK), "{mode:?} {at:#x}");
        }
    }
}

#[test]
fn copied_entries_lead_somewhere_where_no_bytes_are_stored() {
    // spec: memory §3.4 operation 14
    let (host, log) = traced(Mode::Virtual { stored: false }, |driver| driver);
    let mut client = client(&host);
    let local = client.pinned(SurfaceKind::Local, 4 * CHUNK);
    let reservation = GpuVaReservation { base: BASE, size_bytes: 2 * COVERAGE, ..GpuVaReservation::default() };
    client.gpu.device().reserve_gpu_va(reservation).expect("room");
    map(&client, Some(&local), BASE, 64, GpuVaProtection::WRITE);
    let context = client.gpu.device().create_context(NodeId(0)).expect("a context");
    let fence = client.gpu.device().create_native_fence(Default::default()).expect("a fence");
    let to = BASE.offset(COVERAGE - CHUNK);
    let copy = UpdateGpuVaOperation::Copy { source: BASE, size_bytes: 4 * CHUNK, destination: to };
    let flags = UpdateGpuVaFlags::DO_NOT_WAIT;
    log.take();
    client.gpu.device().update_gpu_va(&context, (&fence, 1), vec![copy], flags).expect("an update");
    client.gpu.device().wait(&[(&fence, 2)]).expect("it is applied");
    let steps = log.take();
    assert!(steps.iter().any(|step| matches!(step, Step::Copied(_))), "{steps:?}");
    client.run(|commands| {
        commands.touch(to, 4 * CHUNK, true);
    });
    assert_eq!(client.gpu.device().state().expect("a device"), DeviceState::Active);
}
