//! Where content goes within an adapter: the zone of overlays, and several apertures of a driver of the first generation.

use std::sync::{Arc, Mutex};

use d3dkmt::{Allocation, Context, EvictFlags, FenceFlags, MakeResidentFlags, Residency};
use ddi::{AllocationFlags, PagingOp};
use dxgk_host::{Host, HostConfig, HostError, Mode, ProcessLink, Profile};
use events::{Event, Move, Tracer};
use kmt_link::Link;
use softgpu_kmd::{KmdConfig, Layout};
use softgpu_spec::private_data::{AllocationRequest, Details, Kind};
use softgpu_umd::{Gpu, ListedCommands, SurfaceKind, pattern};
use wddm_types::{NodeId, PAGE_BYTES, PageRun, SegmentId};

use crate::stubborn::{Whims, wrapped};
use stack::world::{Client, MIB, VIRTUAL, client};

/// Runs of pages that content came to, in order.
#[derive(Clone, Default)]
struct Came(Arc<Mutex<Vec<PageRun>>>);

impl Tracer for Came {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        if let Event::Moved { how: Move::Fill | Move::PageIn, runs, .. } = event {
            self.0.lock().unwrap().extend(runs);
        }
    }
}

fn private_data(kind: SurfaceKind, size_bytes: u64, physically: bool, details: &Details) -> Vec<u8> {
    let accessed_physically = physically;
    AllocationRequest { kind, cpu_visible: physically, cached: false, accessed_physically, size_bytes }
        .encode_with(details)
        .to_vec()
}

#[test]
fn overlays_lie_in_the_last_fifth_and_are_never_displaced() {
    // spec: memory §2.2 bits 8 and 9, memory §8.1, memory §8.2
    for (mode, flag) in [(VIRTUAL, AllocationFlags::OVERLAY), (Mode::Real, AllocationFlags::CAPTURE)] {
        let came = Came::default();
        let config = HostConfig {
            vram_bytes: 10 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            tracer: Box::new(came.clone()),
            ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), mode)
        };
        let host = Host::start(config).expect("the host starts");
        let mut client = client(&host);
        let segment = host.describe().segments[0].clone();
        // Behind it lie page tables.
        let pages = segment.capacity_bytes / PAGE_BYTES;
        let zone = pages - pages / 5..pages;
        let make = |client: &Client, flags: AllocationFlags, size_bytes| {
            let details = Details { flags: flags.bits(), ..Details::default() };
            let data = private_data(Kind::Local, size_bytes, false, &details);
            client.gpu.device().create_allocation(data).expect("an allocation")
        };
        let arrive = |client: &Client, allocation: &Allocation| {
            came.0.lock().unwrap().clear();
            let list = vec![allocation.handle()];
            let made = client.gpu.paging().make_resident(list, MakeResidentFlags::empty()).expect("room");
            if let Residency::Pending { paging_fence_value, .. } = made {
                client.gpu.device().wait(&[(client.gpu.paging().fence(), paging_fence_value)]).expect("it comes");
            }
            came.0.lock().unwrap().clone()
        };
        let inside = |runs: &[PageRun]| runs.iter().all(|run| zone.contains(&run.first) && run.end() <= zone.end);
        let plain = make(&client, AllocationFlags::empty(), MIB);
        assert!(!inside(&arrive(&client, &plain)), "{mode:?}: from the bottom");
        let overlay = make(&client, flag, MIB);
        let place = arrive(&client, &overlay);
        assert!(!place.is_empty() && inside(&place), "{mode:?}: {place:?}");
        let (va, value) = client.gpu.paging().map(&overlay, MIB / PAGE_BYTES, true).expect("addresses");
        client.gpu.device().wait(&[(client.gpu.paging().fence(), value)]).expect("mapped");
        client.run(|commands| {
            commands.pattern(va, MIB, 5);
        });
        // It leaves its last list, and everything else that there is room for comes.
        client.gpu.device().evict(vec![overlay.handle()], EvictFlags::empty()).expect("it is on the list");
        let others: Vec<_> = (0..8).map(|_| make(&client, AllocationFlags::empty(), MIB)).collect();
        let moved: Vec<_> = others.iter().flat_map(|other| arrive(&client, other)).collect();
        let taken = |run: &PageRun| place.iter().any(|own| own.first < run.end() && run.first < own.end());
        assert!(!moved.iter().any(taken), "{mode:?}: no other content takes its place");
        let one_more = make(&client, AllocationFlags::empty(), 2 * MIB);
        let list = vec![one_more.handle()];
        client.gpu.paging().make_resident(list, MakeResidentFlags::empty()).expect_err("pinned content gives no room");
        assert_eq!(arrive(&client, &overlay), [], "{mode:?}: it never left");
        let report = client.pinned(SurfaceKind::System, 4096);
        let report_va = report.va();
        client.run(|commands| {
            commands.check(va, MIB, 5, report_va, 0);
        });
        assert_eq!(report.lock().unwrap().read_word(0), 0, "{mode:?}: its bytes are there");
    }
}

/// A driver of the first generation whose aperture is two segments of 16 MiB.
fn two_apertures(mode: Mode, whims: Whims) -> Result<Arc<Host>, HostError> {
    let first = Profile::named("wddm1-banks").expect("a built-in profile");
    let driver = KmdConfig { layout: Layout::TwoApertures, ..first.driver };
    let profile = Profile { driver, aperture_bytes: 32 * MIB, ..*first };
    let mut config = HostConfig { vram_bytes: 4 * MIB, system_bytes: 64 * MIB, ..HostConfig::new(&profile, mode) };
    config.wrap_miniport = Some(wrapped(Whims { packets: true, ..whims }));
    Host::start(config)
}

#[test]
fn content_is_reached_through_the_aperture_that_it_was_mapped_in() {
    // spec: memory §1.6, memory §1.12, memory §3.4 operations 5 and 6
    for mode in [VIRTUAL, Mode::Real] {
        let maps: Arc<Mutex<Vec<(SegmentId, bool, u64)>>> = Arc::default();
        let heard = Arc::clone(&maps);
        let whims = Whims {
            build: Box::new(move |driver, build| {
                let seen = match &build.operation {
                    PagingOp::MapApertureSegment { segment, number_of_pages, allocation: Some(_), .. } => {
                        Some((*segment, true, *number_of_pages))
                    }
                    PagingOp::UnmapApertureSegment { segment, number_of_pages, allocation: Some(_), .. } => {
                        Some((*segment, false, *number_of_pages))
                    }
                    _ => None,
                };
                heard.lock().unwrap().extend(seen);
                driver.build_paging_buffer(build)
            }),
            ..Whims::default()
        };
        let host = two_apertures(mode, whims).expect("the first generation has any number");
        let apertures: Vec<_> = host.describe().segments.into_iter().filter(|segment| segment.aperture).collect();
        let sizes: Vec<_> = apertures.iter().map(|segment| (segment.id, segment.size_bytes)).collect();
        assert_eq!(sizes, [(SegmentId(2), 16 * MIB), (SegmentId(3), 16 * MIB)]);
        let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).expect("the adapter opens");
        let context = Context::create(gpu.device(), NodeId(0), Vec::new()).expect("a context");
        let half = 8 * MIB;
        let make = |segments: u32| {
            let preferred_segment = segments.trailing_zeros() + 1;
            let details = Details { supported_segments: segments, preferred_segment, ..Details::default() };
            let data = private_data(Kind::System, half, true, &details);
            gpu.device().create_allocation(data).expect("an allocation")
        };
        // The first half of the aperture only, the second only, the second again.
        let all: Vec<_> = [0b010, 0b100, 0b100].map(make).into();
        let run = |commands: ListedCommands| {
            commands.render(&context).expect("a buffer");
            let done = gpu.device().create_monitored_fence(FenceFlags::NO_GPU_ACCESS, 0).expect("a fence");
            context.signal(&done, 1).expect("a signal");
            gpu.device().wait(&[(&done, 1)]).expect("it completes");
        };
        let mut commands = ListedCommands::new();
        for (seed, allocation) in (1..).zip(&all) {
            commands.pattern(allocation, half, seed);
        }
        // From one aperture to the other.
        commands.copy((&all[0], 0), (&all[1], 64), 64);
        run(commands);
        let seen: Vec<_> = std::mem::take(&mut *maps.lock().unwrap());
        let mapped: Vec<_> = seen.iter().filter(|map| map.1).map(|map| map.0).collect();
        assert_eq!(mapped, [SegmentId(2), SegmentId(3), SegmentId(3)], "{mode:?}");
        let word = |of: &Arc<Allocation>, at| {
            of.lock_legacy(Vec::new(), d3dkmt::LockFlags::LOCK_ENTIRE).expect("a lock").read_word(at)
        };
        let pattern = pattern::word;
        assert_eq!(word(&all[0], 8), pattern(1, 8), "{mode:?}");
        assert_eq!([word(&all[1], 8), word(&all[1], 72)], [pattern(2, 8), pattern(1, 8)], "{mode:?}");
        assert_eq!(word(&all[2], half - 8), pattern(3, half - 8), "{mode:?}");
        // Content that comes to the second and leaves it does not touch the first.
        let fourth = make(0b100);
        let mut commands = ListedCommands::new();
        commands.pattern(&fourth, half, 4);
        run(commands);
        let seen: Vec<_> = std::mem::take(&mut *maps.lock().unwrap());
        assert!(seen.iter().all(|map| map.0 == SegmentId(3)), "{mode:?}: {seen:?}");
        assert!(seen.iter().any(|map| !map.1) && seen.iter().any(|map| map.1), "{mode:?}: {seen:?}");
        for (seed, allocation) in (1..).zip(all.iter().chain([&fourth])) {
            assert_eq!(word(allocation, half - 8), pattern(seed, half - 8), "{mode:?}: no byte is lost");
        }
    }
}

#[test]
fn a_second_aperture_is_the_first_generations() {
    // spec: memory §1.6
    let second = Profile::named("discrete-4k").expect("a built-in profile");
    let profile = Profile { driver: KmdConfig { layout: Layout::TwoApertures, ..second.driver }, ..*second };
    let refused = Host::start(HostConfig::new(&profile, VIRTUAL)).map(drop).expect_err("exactly one, or none");
    assert!(refused.to_string().contains("2 aperture segments"), "{refused}");
}
