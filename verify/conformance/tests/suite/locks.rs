//! The CPU at memory that moves: it sees what engines wrote, engines see what it wrote, and nothing is lost on the way.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use conformance::{Client, MIB, World, over_every_link};
use d3dkmt::{EvictFlags, Lock};
use softgpu_umd::{Stage, Surface, SurfaceKind, pattern};

over_every_link!(
    both_sides_see_what_the_other_wrote,
    no_write_is_lost_while_the_content_moves,
    a_lock_follows_its_content,
    what_is_destroyed_shows_nothing
);

const BYTES: u64 = 64 << 10;

fn evict(client: &Client, surface: &Surface) {
    client.gpu.device().evict(vec![surface.allocation().handle()], EvictFlags::empty()).expect("it was resident");
}

fn fill(lock: &Lock, seed: u64) {
    lock.fill_words(0, BYTES / 8, |index| pattern::word(seed, index * 8));
}

fn mismatch(report: &Surface) -> u64 {
    report.lock().expect("system memory").read_word(pattern::report::TAG * 8)
}

// spec: memory §6.3
fn both_sides_see_what_the_other_wrote(world: &World) {
    let client = world.client();
    let (surface, report) = (client.lockable(BYTES), client.pinned(SurfaceKind::System, 4096));
    for (stage, seed) in [(Stage::Packet, 7), (Stage::Hardware, 8)] {
        let mut lane = client.lane(stage);
        lane.pattern(&surface, seed);
        client.run(&mut lane);
        let lock = surface.lock().expect("always");
        assert_eq!(lock.read_word(4096), pattern::word(seed, 4096), "{stage:?}: the CPU sees what the GPU wrote");
        fill(&lock, seed + 100);
        drop(lock);
        client.gpu.pin(&surface).expect("room");
        lane.check(&surface, seed + 100, &report, 1);
        client.run(&mut lane);
        assert_eq!(mismatch(&report), 0, "{stage:?}: and the reverse");
    }
}

// spec: memory §6.3, memory §8.3
fn no_write_is_lost_while_the_content_moves(world: &World) {
    const MOVES: u64 = 200;
    const WRITERS: u64 = 2;
    let client = world.client();
    let surface = client.lockable(BYTES);
    let lock = surface.lock().expect("always");
    let stop = AtomicBool::new(false);
    let all_write = &Barrier::new(WRITERS as usize + 1);
    let counted: u64 = std::thread::scope(|scope| {
        let count = |writer: u64| {
            let (lock, stop) = (&lock, &stop);
            scope.spawn(move || {
                let mut counted = 0;
                while !stop.load(Ordering::Relaxed) {
                    // Each writer has its own words, all over the pages.
                    let word = (counted * 509 % (BYTES / 8 / WRITERS)) * WRITERS + writer;
                    lock.write_words(word * 8, &[lock.read_word(word * 8) + 1]);
                    counted += 1;
                    if counted == 1 {
                        all_write.wait();
                    }
                }
                counted
            })
        };
        let writers: Vec<_> = (0..WRITERS).map(count).collect();
        // Nothing moves before: the machine may be slow to begin with them.
        all_write.wait();
        for _ in 0..MOVES {
            evict(&client, &surface);
            client.gpu.pin(&surface).expect("room");
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("no panic")).sum()
    });
    let found: u64 = (0..BYTES / 8).map(|word| lock.read_word(word * 8)).sum();
    assert_eq!(found, counted, "every increment is there");
}

// spec: memory §6.3
fn a_lock_follows_its_content(world: &World) {
    let client = world.client();
    let (surface, report) = (client.lockable(BYTES), client.pinned(SurfaceKind::System, 4096));
    let mut lane = client.lane(Stage::Hardware);
    let lock = surface.lock().expect("always");
    let address = lock.addresses().map(|range| range.base());
    for round in 0..8 {
        fill(&lock, round);
        evict(&client, &surface);
        assert_eq!(lock.read_word(8), pattern::word(round, 8), "it went along");
        // Locked content need not come back into its segment; in either place it has the same bytes.
        client.gpu.pin(&surface).expect("room");
        assert_eq!(lock.read_word(BYTES - 8), pattern::word(round, BYTES - 8), "and back");
    }
    let nested = surface.lock().expect("nested");
    assert_eq!(nested.addresses().map(|range| range.base()), address, "the address stays");
    drop((lock, nested));
    client.gpu.pin(&surface).expect("room");
    lane.check(&surface, 7, &report, 1);
    client.run(&mut lane);
    assert_eq!(mismatch(&report), 0);
    drop(world.client());
}

// spec: memory §6.3, memory §10.1
fn what_is_destroyed_shows_nothing(world: &World) {
    let client = world.client();
    let surface = client.lockable(MIB);
    let lock = surface.lock().expect("always");
    lock.write_words(0, &[7]);
    surface.allocation().destroy(d3dkmt::DestroyFlags::empty()).expect("it is there");
    assert_eq!(lock.read_word(0), 0, "nothing of it is seen any more");
    lock.write_words(0, &[8]);
    let next = client.lockable(MIB);
    assert_eq!(next.lock().expect("always").read_word(0), 0, "and the write reached no other memory");
}
