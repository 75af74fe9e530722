//! Processes elsewhere lock content in video memory: the host lends them its pages with their content, and a file that a process was given
//! never shows content of another process, however long the process keeps it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use d3dkmt::{EvictFlags, Lock, MakeResidentFlags};
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile, StoresWait};
use kmt_calls::Residency;
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, Surface, SurfaceKind, pattern};
use wddm_types::{NodeId, RawHandle};

use crate::remote_client::RemoteClient;
use stack::world::MIB;

const BYTES: u64 = 256 << 10;

fn host(profile: &str, vram_bytes: u64) -> Arc<Host> {
    let config = HostConfig {
        vram_bytes,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        isolates_processes: true,
        ..HostConfig::new(Profile::named(profile).expect("a built-in profile"), Mode::Real)
    };
    Host::start(config).expect("the host starts")
}

/// Whether a host on this computer can lend pages with their content; where it cannot, locked content is in system memory.
pub fn lends() -> bool {
    StoresWait::here() == StoresWait::InTheOperatingSystem
}

fn list(surface: &Surface) -> Vec<RawHandle> {
    vec![surface.allocation().handle()]
}

fn run(gpu: &Gpu, stream: &mut Stream, build: impl FnOnce(&mut Commands)) {
    let mut commands = Commands::new();
    build(&mut commands);
    let value = stream.submit(gpu, &[], &commands).expect("a submission");
    stream.wait(gpu, value).expect("it completes");
}

#[test]
fn content_in_video_memory_is_locked_where_it_is() {
    // spec: memory §6.3, rows 3 and 4
    if !lends() {
        return;
    }
    for profile in ["discrete-4k", "discrete-64k"] {
        let host = host(profile, 8 * MIB);
        let link = RemoteClient::new(&host);
        let gpu = link.gpu();
        let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
        let report = gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
        gpu.pin(&report).expect("room for it");
        // The first may be nowhere else.
        for kind in [SurfaceKind::Local, SurfaceKind::LocalThenSystem] {
            let surface = gpu.create_lockable_surface(kind, BYTES, false).expect("a surface");
            gpu.pin(&surface).expect("room for it");
            for round in 0..8 {
                run(&gpu, &mut stream, |commands| _ = commands.pattern(surface.va(), BYTES, round));
                let lock = surface.lock().expect("always");
                for at in (0..BYTES).step_by(8) {
                    assert_eq!(lock.read_word(at), pattern::word(round, at), "{kind:?} at {at:#x}");
                }
                lock.fill_words(0, BYTES / 8, |index| pattern::word(round + 100, index * 8));
                // While it is locked, and after.
                for tag in [2 * round + 1, 2 * round + 2] {
                    run(&gpu, &mut stream, |commands| {
                        commands.check(surface.va(), BYTES, round + 100, report.va(), tag);
                    });
                    let mismatch = report.lock().expect("system memory").read_word(pattern::report::TAG * 8);
                    assert_eq!(mismatch, 0, "{profile}, {kind:?}: the GPU sees what the CPU wrote");
                    if tag % 2 == 1 {
                        run(&gpu, &mut stream, |commands| _ = commands.pattern(surface.va(), 4096, round + 200));
                        assert_eq!(lock.read_word(8), pattern::word(round + 200, 8), "and the CPU what the GPU wrote");
                        lock.fill_words(0, 512, |index| pattern::word(round + 100, index * 8));
                    }
                }
                drop(lock);
                gpu.device().evict(list(&surface), EvictFlags::empty()).expect("it was resident");
                gpu.pin(&surface).expect("room for it");
            }
        }
        assert!(link.lost().is_empty());
        host.check_invariants().expect("in order");
    }
}

/// Adds 1 to words that only this thread writes, all over a lock, until told to stop; how often.
fn count(lock: &Lock, writer: u64, stop: &AtomicBool) -> u64 {
    let mut counted = 0;
    while !stop.load(Ordering::Relaxed) {
        let word = (counted * 8191 % (BYTES / 16)) * 2 + writer;
        lock.write_words(word * 8, &[lock.read_word(word * 8) + 1]);
        counted += 1;
    }
    counted
}

#[test]
fn no_store_of_a_process_elsewhere_is_lost_while_allocations_push_each_other_around() {
    // spec: memory §6.3, memory §8.3
    for profile in ["discrete-4k", "discrete-64k"] {
        let host = host(profile, MIB);
        let link = RemoteClient::new(&host);
        let gpu = link.gpu();
        let create = |_| gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, BYTES, false).expect("a surface");
        let surfaces: Vec<Surface> = (0..6).map(create).collect();
        let locks: Vec<Lock> = surfaces.iter().map(|surface| surface.lock().expect("always")).collect();
        let stop = AtomicBool::new(false);
        let counted: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = [(0, 0), (0, 1), (1, 0), (1, 1)]
                .map(|(lock, writer)| {
                    let (lock, stop): (&Lock, _) = (&locks[lock], &stop);
                    scope.spawn(move || count(lock, writer, stop))
                })
                .into();
            for round in 0..25 {
                for surface in &surfaces {
                    gpu.pin(surface).expect("the others are lazy");
                    let how = if round % 3 == 0 { EvictFlags::empty() } else { EvictFlags::EVICT_ONLY_IF_NECESSARY };
                    gpu.device().evict(list(surface), how).expect("it was listed");
                }
            }
            stop.store(true, Ordering::Relaxed);
            threads.into_iter().map(|thread| thread.join().expect("a thread of ours")).collect()
        });
        for (lock, counted) in locks.iter().zip(counted.chunks(2)) {
            let found: u64 = (0..BYTES / 8).map(|word| lock.read_word(word * 8)).sum();
            assert_eq!(found, counted.iter().sum::<u64>(), "{profile}: every increment is there");
        }
        assert!(link.lost().is_empty());
    }
}

#[test]
fn no_store_of_an_engine_is_lost_while_its_pages_are_lent_and_taken_back() {
    // spec: memory §6.3
    let host = host("discrete-4k", 8 * MIB);
    let link = RemoteClient::new(&host);
    let gpu = link.gpu();
    let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    let surface = gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, MIB, false).expect("a surface");
    gpu.pin(&surface).expect("room for it");
    for round in 0..40 {
        let mut commands = Commands::new();
        // Each part is written once, so that a store that is lost is missed.
        for part in 0..MIB / 4096 {
            commands.pattern(surface.va().offset(part * 4096), 4096, round);
        }
        let value = stream.submit(&gpu, &[], &commands).expect("a submission");
        for _ in 0..3 {
            drop(surface.lock().expect("always"));
        }
        stream.wait(&gpu, value).expect("it completes");
        let lock = surface.lock().expect("always");
        for at in (0..MIB).step_by(8) {
            assert_eq!(lock.read_word(at), pattern::word(round, at % 4096), "round {round}, at {at:#x}");
        }
    }
}

#[test]
fn what_a_process_keeps_of_video_memory_never_shows_another_s_content() {
    const SECRETS: [u64; 2] = [0x5ec2_e700_0000_0000, 0x6ec2_e700_0000_0000];
    let host = host("discrete-4k", MIB);
    let links = [0, 1].map(|_| RemoteClient::new(&host));
    let gpus = [0, 1].map(|of| links[of].gpu());
    let foreign = |of: usize| move |word: u64| word >> 32 == SECRETS[1 - of] >> 32;
    let mut found = None;
    for round in 0..30_u64 {
        // Four surfaces of a quarter each, of both processes, in one memory: each new surface evicts earlier ones.
        let surfaces: Vec<(usize, Surface)> = (0..8)
            .map(|number| {
                let of = (number + round as usize) % 2;
                let kind = [SurfaceKind::Local, SurfaceKind::LocalThenSystem][number / 2 % 2];
                (of, gpus[of].create_lockable_surface(kind, BYTES, false).expect("a surface"))
            })
            .collect();
        let mut locks = Vec::new();
        for (number, (of, surface)) in surfaces.iter().enumerate() {
            // The client does not wait: the earlier content is still on its way out when this is locked.
            gpus[*of].paging().make_resident(list(surface), MakeResidentFlags::empty()).expect("the others are lazy");
            let lock = surface.lock().expect("always");
            let zero_or_own = |word: u64| word == 0 || word >> 32 == SECRETS[*of] >> 32;
            assert!((0..BYTES).step_by(8).all(|at| zero_or_own(lock.read_word(at))), "round {round}");
            lock.fill_words(0, BYTES / 8, |index| SECRETS[*of] | round << 20 | index);
            // Some stay locked while others push them around.
            if number % 3 == 0 {
                locks.push(lock);
            }
            gpus[*of].device().evict(list(surface), EvictFlags::EVICT_ONLY_IF_NECESSARY).expect("it was listed");
            for of in [0, 1] {
                found = found.or(links[of].finds(foreign(of)));
            }
        }
        assert_eq!(found, None, "round {round}: (word, value) of another process");
    }
    assert!(links.iter().all(|link| link.lost().is_empty()));
    host.check_invariants().expect("in order");
}

#[test]
fn what_a_process_had_when_it_died_is_no_other_s_before_it_is_taken_back() {
    const FOREIGN: u32 = 0x5ec2_e700;
    const LARGE: u64 = 16 * MIB;
    // So many allocations that reaping takes long, and the ring ends the lock while the kernel is still reaping.
    const SMALL: usize = 200;
    if !lends() {
        return;
    }
    let host = host("discrete-4k", 24 * MIB);
    let (link, stop) = (RemoteClient::new(&host), AtomicBool::new(false));
    let gpu = link.gpu();
    for round in 0..15 {
        let other = RemoteClient::new(&host);
        let of_other = other.gpu();
        let surface = of_other.create_lockable_surface(SurfaceKind::Local, LARGE, false).expect("a surface");
        of_other.pin(&surface).expect("room for it");
        let small = |_| of_other.create_surface(SurfaceKind::System, 4096).expect("a surface");
        let others: Vec<Surface> = (0..SMALL).map(small).collect();
        let lock = surface.lock().expect("always");
        stop.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    other.scribbles(FOREIGN);
                }
            });
            other.dies();
            let own = gpu.create_lockable_surface(SurfaceKind::Local, LARGE, false).expect("a surface");
            let resident = gpu.pin(&own);
            let lock = own.lock();
            stop.store(true, Ordering::Relaxed);
            resident.expect("there is room for it");
            let lock = lock.expect("always");
            let found = (0..LARGE).step_by(8 * 61).find(|at| lock.read_word(*at) != 0);
            assert_eq!(
                found.map(|at| (at, lock.read_word(at))),
                None,
                "round {round}: (where, what) another has stored"
            );
        });
        drop((lock, others));
    }
    assert!(link.lost().is_empty());
    host.check_invariants().expect("in order");
}

/// The GPU writes content that has just come in; the CPU, which has it locked, looks as soon as a word says that the GPU has written. The test
/// makes no call meanwhile, which would order more.
fn look_by_words_alone(gpu: &Gpu) {
    let mut stream = Stream::create(gpu, NodeId(0), StreamConfig::default()).expect("a stream");
    let surface = gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, BYTES, false).expect("a surface");
    gpu.pin(&surface).expect("room for it");
    let lock = surface.lock().expect("always");
    for round in 1..200 {
        gpu.device().evict(list(&surface), EvictFlags::empty()).expect("it was resident");
        let paged = gpu.paging().make_resident(list(&surface), MakeResidentFlags::empty()).expect("room for it");
        let Residency::Pending { paging_fence_value, .. } = paged else { panic!("it was evicted") };
        while gpu.paging().fence().current() < paging_fence_value {
            std::thread::yield_now();
        }
        let mut commands = Commands::new();
        commands.fill(surface.va(), 4096, round);
        let value = stream.submit(gpu, &[], &commands).expect("a submission");
        while stream.progress().current() < value {
            std::thread::yield_now();
        }
        assert_eq!(lock.read_word(0), u64::from(round) << 32 | u64::from(round), "round {round}");
    }
}

#[test]
fn a_process_that_is_told_that_content_has_come_sees_it_where_it_is() {
    // spec: memory §4.9, memory §6.3
    let there = RemoteClient::new(&host("discrete-4k", 8 * MIB));
    look_by_words_alone(&there.gpu());
    assert!(there.lost().is_empty());
    for memory_files in [false, true] {
        let config = HostConfig {
            vram_bytes: 8 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            memory_files,
            ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real)
        };
        let host = Host::start(config).expect("the host starts");
        look_by_words_alone(&Gpu::open(ProcessLink::new(host)).expect("the adapter opens"));
    }
}
