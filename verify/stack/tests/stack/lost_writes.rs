//! No concurrent store of the CPU is lost over evict and commit (memory §6.3): several allocations push each other out and in
//! while threads count in all of them, where stores wait in the operating system and where they wait at the gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use d3dkmt::{EvictFlags, Lock};
use dxgk_host::{Host, HostConfig, Mode, Profile, StoresWait};
use softgpu_spec::register::counter;
use softgpu_umd::{Surface, SurfaceKind};

use stack::world::{Client, MIB, client};

const BYTES: u64 = MIB;
const SURFACES: u64 = 6;
const ROUNDS: u64 = 25;
const WRITERS: u64 = 3;

fn host(profile: &str, memory_files: bool) -> Arc<Host> {
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        memory_files,
        ..HostConfig::new(Profile::named(profile).expect("a built-in profile"), Mode::Real)
    };
    Host::start(config).expect("the host starts")
}

/// Adds 1 to words that only this thread writes, all over a lock, until told to stop; how often.
fn count(lock: &Lock, writer: u64, stop: &AtomicBool) -> u64 {
    let words = BYTES / 8 / WRITERS;
    let mut counted = 0;
    while !stop.load(Ordering::Relaxed) {
        // A prime step meets every page.
        let word = (counted * 8191 % words) * WRITERS + writer;
        match lock.addresses() {
            Some(range) => _ = range.word(word * 8).fetch_add(1, Ordering::Relaxed),
            None => lock.write_words(word * 8, &[lock.read_word(word * 8) + 1]),
        }
        counted += 1;
    }
    counted
}

fn push_around(client: &Client, surfaces: &[Surface]) {
    for round in 0..ROUNDS {
        for surface in surfaces {
            // Six of one mebibyte in four: each evicts an earlier one, whole or in part.
            client.gpu.pin(surface).expect("the others are lazy");
            let how = if round % 3 == 0 { EvictFlags::empty() } else { EvictFlags::EVICT_ONLY_IF_NECESSARY };
            client.gpu.device().evict(vec![surface.allocation().handle()], how).expect("it was listed");
        }
    }
}

#[test]
fn no_store_is_lost_while_allocations_push_each_other_around() {
    // spec: memory §6.3, memory §8.3
    // seed: M38, U09
    for (profile, memory_files) in [("discrete-4k", true), ("discrete-4k", false), ("discrete-64k", true)] {
        let host = host(profile, memory_files);
        let client = client(&host);
        let surface =
            |_| client.gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, BYTES, false).expect("a surface");
        let surfaces: Vec<Surface> = (0..SURFACES).map(surface).collect();
        let locks: Vec<Lock> = surfaces.iter().map(|surface| surface.lock().expect("always")).collect();
        let held = StoresWait::here() == StoresWait::InTheOperatingSystem;
        assert!(locks.iter().all(|lock| lock.addresses().is_some() == (memory_files && held)), "{profile}");
        let stop = AtomicBool::new(false);
        let counted: Vec<u64> = std::thread::scope(|scope| {
            let stop = &stop;
            let threads: Vec<_> = locks
                .iter()
                .take(2)
                .flat_map(|lock| (0..WRITERS).map(move |writer| (lock, writer)))
                .map(|(lock, writer)| scope.spawn(move || count(lock, writer, stop)))
                .collect();
            push_around(&client, &surfaces);
            stop.store(true, Ordering::Relaxed);
            threads.into_iter().map(|thread| thread.join().expect("a thread of ours")).collect()
        });
        let moved = host.device_register(counter::COPY_BYTES);
        assert!(moved >= ROUNDS * BYTES, "{profile}: {moved} bytes moved");
        for (lock, counted) in locks.iter().zip(counted.chunks(WRITERS as usize)) {
            let found: u64 = (0..BYTES / 8).map(|word| lock.read_word(word * 8)).sum();
            assert_eq!(found, counted.iter().sum::<u64>(), "{profile} {memory_files}: every increment is there");
        }
    }
}
