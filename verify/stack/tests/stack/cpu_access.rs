//! The CPU at memory that moves: where a lock shows it, and that nothing is lost on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use d3dkmt::{EvictFlags, MakeResidentFlags, Residency};
use dxgk_host::{Host, HostConfig, Mode, Profile};
use kmt_calls::{AllocationCall, Call, LockCall, Reply};
use kmt_link::Link;
use softgpu_spec::register::counter;
use softgpu_umd::{Surface, SurfaceKind, pattern};
use wddm_types::CpuPlace;

use stack::world::{Client, MIB, VIRTUAL, client, host};

pub const BYTES: u64 = 64 << 10;

pub fn lockable(client: &Client, kind: SurfaceKind, cached: bool) -> Surface {
    let surface = client.gpu.create_lockable_surface(kind, BYTES, cached).expect("a surface");
    client.gpu.pin(&surface).expect("room for it");
    surface
}

fn places(client: &Client, surface: &Surface) -> Vec<CpuPlace> {
    let (device, allocation) = (client.gpu.device().handle(), surface.allocation().handle());
    let reply = client.link.call(Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 })).expect("a lock");
    client.link.call(Call::Lock(LockCall::Unlock2 { device, allocation })).expect("it is locked");
    let Reply::Mapped(mapped) = reply else { panic!("a lock answers with memory") };
    mapped.runs.iter().map(|run| run.place).collect()
}

fn evict(client: &Client, surface: &Surface) {
    let list = vec![surface.allocation().handle()];
    client.gpu.device().evict(list, EvictFlags::empty()).expect("it was resident");
}

// spec: memory §6.3, memory §1.7
// seed: M15, M27, M31, M32
// seed: U14
#[test]
fn a_resized_bar_shows_local_memory_without_a_copy() {
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let mut client = client(&host);
        let surfaces = [0; 2].map(|_| lockable(&client, SurfaceKind::LocalThenSystem, false));
        let report = client.pinned(SurfaceKind::System, 4096);
        let copied = host.device_register(counter::COPY_BYTES);
        let vas = surfaces.each_ref().map(Surface::va);
        client.run(|commands| _ = commands.pattern(vas[0], BYTES, 7).pattern(vas[1], BYTES, 8));
        let locks = surfaces.each_ref().map(|surface| surface.lock().expect("always"));
        for (at, lock) in (0u64..).zip(&locks) {
            assert_eq!(places(&client, &surfaces[at as usize]), [CpuPlace::Bar]);
            let seen = |offset| lock.read_word(offset) == pattern::word(7 + at, offset);
            assert!((0..BYTES).step_by(8).all(seen), "{mode:?}, {at}: the CPU sees what the GPU wrote");
        }
        let write = |(at, lock): (u64, &d3dkmt::Lock)| lock.fill_words(0, BYTES / 8, |i| pattern::word(9 + at, i * 8));
        (0..).zip(&locks).for_each(write);
        for (at, va) in (0u64..).zip(vas) {
            client.run(|commands| _ = commands.check(va, BYTES, 9 + at, report.va(), 1 + at));
            let mismatch = report.lock().expect("system memory").read_word(pattern::report::TAG * 8);
            assert_eq!(mismatch, 0, "{mode:?}, {at}: and the reverse");
        }
        assert_eq!(host.device_register(counter::COPY_BYTES), copied, "nothing was copied");
    }
}

// spec: memory §6.3, memory §8.3, memory §8.5
// seed: M38
// seed: U09
#[test]
fn a_lock_follows_its_content_out_and_in() {
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let mut client = client(&host);
        let surface = lockable(&client, SurfaceKind::LocalThenSystem, false);
        let report = client.pinned(SurfaceKind::System, 4096);
        let lock = surface.lock().expect("always");
        for round in 0..8u64 {
            lock.fill_words(0, BYTES / 8, |index| pattern::word(round, index * 8));
            evict(&client, &surface);
            lock.write_words(0, &[!pattern::word(round, 0)]);
            assert_eq!(lock.read_word(8), pattern::word(round, 8), "{mode:?}: it went along");
            lock.write_words(0, &[pattern::word(round, 0)]);
            client.gpu.pin(&surface).expect("room");
            assert_eq!(places(&client, &surface), [CpuPlace::Bar], "and came back");
            client.run(|commands| _ = commands.check(surface.va(), BYTES, round, report.va(), round + 1));
            let mismatch = report.lock().expect("system memory").read_word(pattern::report::TAG * 8);
            assert_eq!(mismatch, 0, "{mode:?}: the GPU sees what the CPU wrote");
        }
    }
}

fn host_with_files() -> Arc<Host> {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 32 * MIB,
        memory_files: true,
        ..HostConfig::new(profile, Mode::Real)
    };
    Host::start(config).expect("the host starts")
}

/// Threads count through the locked address while the content goes out and in thousands of times.
// spec: memory §6.3, requirements
// seed: M38
// seed: U09
#[test]
fn no_write_is_lost_while_the_content_moves() {
    const MOVES: u64 = 2000;
    let host = host_with_files();
    let client = client(&host);
    let surface = lockable(&client, SurfaceKind::LocalThenSystem, false);
    let lock = surface.lock().expect("always");
    let range = lock.addresses().expect("memory files have addresses");
    let first = range.base();
    let stop = AtomicBool::new(false);
    let counted: u64 = std::thread::scope(|scope| {
        let count = |thread: u64| {
            let (range, stop) = (&range, &stop);
            scope.spawn(move || {
                let mut counted = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    range.word((counted * 13 + thread * 4096) % BYTES / 8 * 8).fetch_add(1, Ordering::Relaxed);
                    counted += 1;
                }
                counted
            })
        };
        let threads: Vec<_> = (0..2).map(count).collect();
        for _ in 0..MOVES / 2 {
            evict(&client, &surface);
            client.gpu.pin(&surface).expect("room");
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("a thread of ours")).sum()
    });
    assert!(host.device_register(counter::COPY_BYTES) >= MOVES * BYTES, "the content did move");
    let found: u64 = (0..BYTES / 8).map(|word| range.word(word * 8).load(Ordering::Relaxed)).sum();
    assert_eq!(found, counted, "every increment is there");
    assert_eq!(surface.lock().expect("nested").addresses().expect("addresses").base(), first, "the address stayed");
}

// spec: memory §6.3, memory §10.1
// seed: U13
// seed: U17
// seed: U18
#[test]
fn what_the_cpu_may_not_see_there_goes_to_system_memory_and_stays_until_the_unlock() {
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let mut client = client(&host);
        let report = client.pinned(SurfaceKind::System, 4096);
        let cached = lockable(&client, SurfaceKind::LocalThenSystem, true);
        let hidden = client.gpu.create_surface(SurfaceKind::LocalThenSystem, BYTES).expect("a surface");
        client.gpu.pin(&hidden).expect("room");
        for surface in [&cached, &hidden] {
            client.run(|commands| _ = commands.pattern(surface.va(), BYTES, 5));
            let lock = surface.lock().expect("it supports an aperture");
            assert!(places(&client, surface).iter().all(|place| *place == CpuPlace::System));
            assert_eq!(lock.read_word(8), pattern::word(5, 8), "{mode:?}: the GPU's writes came along");
            lock.fill_words(0, BYTES / 8, |index| pattern::word(6, index * 8));
            // It is on the list still: the GPU reaches it where it is now.
            client.run(|commands| _ = commands.check(surface.va(), BYTES, 6, report.va(), 1));
            assert_eq!(report.lock().expect("system memory").read_word(pattern::report::TAG * 8), 0, "{mode:?}");
        }
    }
}

/// A host whose CPU reaches local memory through a window of 4 pages of 64 KB.
fn host_with_window(mode: Mode) -> Arc<Host> {
    let mut profile = *Profile::named("small-bar").expect("a built-in profile");
    profile.driver.cpu_window_pages = 4;
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 32 * MIB,
        ..HostConfig::new(&profile, mode)
    };
    Host::start(config).expect("the host starts")
}

// spec: memory §6.6, memory §6.3
// seed: U15
// seed: U16
// seed: U21
// seed: U22
// seed: U23
// seed: U24
#[test]
fn a_window_shows_local_memory_page_by_page_and_system_memory_is_the_way_out() {
    for mode in [VIRTUAL, Mode::Real] {
        let host = host_with_window(mode);
        let mut client = client(&host);
        let report = client.pinned(SurfaceKind::System, 4096);
        let surfaces: Vec<Surface> = (0..6).map(|_| lockable(&client, SurfaceKind::LocalThenSystem, false)).collect();
        let mut locks = Vec::new();
        for (index, surface) in (0u64..).zip(&surfaces) {
            client.run(|commands| _ = commands.pattern(surface.va(), BYTES, index + 1));
            let lock = surface.lock().expect("a window, or a way out");
            // The window has room for four.
            let expected = if index < 4 { CpuPlace::HostAperture } else { CpuPlace::System };
            assert!(places(&client, surface).iter().all(|place| *place == expected), "{mode:?}: lock {index}");
            assert_eq!(lock.read_word(4096), pattern::word(index + 1, 4096), "{mode:?}: the GPU's writes");
            lock.fill_words(0, BYTES / 8, |word| pattern::word(index + 100, word * 8));
            client.run(|commands| _ = commands.check(surface.va(), BYTES, index + 100, report.va(), index + 1));
            assert_eq!(report.lock().expect("system memory").read_word(pattern::report::TAG * 8), 0, "{mode:?}");
            locks.push(lock);
        }
        // Content that leaves takes its view along; its pages of the window are free for others then.
        evict(&client, &surfaces[1]);
        locks[1].write_words(8, &[77]);
        assert_eq!(locks[1].read_word(8), 77);
        assert_eq!(places(&client, &surfaces[1]), [CpuPlace::System]);
        let next = lockable(&client, SurfaceKind::LocalThenSystem, false);
        let _lock = next.lock().expect("a page is free");
        assert!(places(&client, &next).iter().all(|place| *place == CpuPlace::HostAperture), "{mode:?}");
        // An unlocked view keeps its pages of the window until another lock needs them.
        locks.remove(0);
        let last = lockable(&client, SurfaceKind::LocalThenSystem, false);
        let _lock = last.lock().expect("a kept page goes");
        assert!(places(&client, &last).iter().all(|place| *place == CpuPlace::HostAperture), "{mode:?}");
    }
}

// spec: memory §6.3, memory §10.1
#[test]
fn destroying_the_locked_ends_its_address() {
    let host = host_with_files();
    let client = client(&host);
    let surface = lockable(&client, SurfaceKind::LocalThenSystem, false);
    let lock = surface.lock().expect("always");
    lock.write_words(0, &[7]);
    let (device, allocations) = (client.gpu.device().handle(), vec![surface.allocation().handle()]);
    let target = kmt_calls::AllocationTarget { allocations, ..Default::default() };
    let flags = kmt_calls::DestroyFlags::empty();
    client
        .link
        .call(Call::Allocation(AllocationCall::DestroyAllocation { device, target, flags }))
        .expect("not an error");
    assert_eq!(lock.read_word(0), 0, "nothing of it is seen any more");
    lock.write_words(0, &[8]);
}

// spec: memory §6.3, memory §10.1
// seed: U19
#[test]
fn what_may_not_be_committed_while_it_is_locked_waits_for_the_unlock() {
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let mut client = client(&host);
        let report = client.pinned(SurfaceKind::System, 4096);
        let surface = client.gpu.create_surface(SurfaceKind::Local, BYTES).expect("a surface");
        let other = client.gpu.create_surface(SurfaceKind::Local, BYTES).expect("a surface");
        let handle = surface.allocation().handle();
        let paging = client.gpu.paging();
        let device = client.gpu.device();
        let lock = surface.lock().expect("not resident");
        lock.fill_words(0, BYTES / 8, |index| pattern::word(4, index * 8));
        let nested = [0; 2].map(|_| surface.lock().expect("locks nest"));
        let first = paging.make_resident(vec![handle], MakeResidentFlags::empty()).expect("pending");
        let Residency::Pending { paging_fence_value, .. } = first else {
            panic!("{mode:?}: it may not be resident yet")
        };
        // A later request on the queue completes behind this one.
        let second = paging.make_resident(vec![other.allocation().handle()], MakeResidentFlags::empty()).expect("room");
        let Residency::Pending { paging_fence_value: later, .. } = second else { panic!("{mode:?}: the queue waits") };
        assert!(later >= paging_fence_value && paging.fence().current() < paging_fence_value);
        // It counts already: a second count can be taken back, one that was never made cannot.
        let third = paging.make_resident(vec![handle], MakeResidentFlags::empty()).expect("pending");
        assert!(matches!(third, Residency::Pending { paging_fence_value, .. } if paging_fence_value > later));
        device.evict(vec![handle], EvictFlags::empty()).expect("it waits");
        assert!(device.evict(vec![handle, handle], EvictFlags::empty()).is_err(), "counted");
        drop(lock);
        let [second, last] = nested;
        drop(second);
        while mode == VIRTUAL && host.step() {}
        assert!(paging.fence().current() < paging_fence_value, "{mode:?}: it is locked once more");
        let seen = places(&client, &surface);
        assert!(seen.iter().all(|place| *place == CpuPlace::System), "{mode:?}: {seen:?}");
        drop(last);
        device.wait(&[(paging.fence(), later)]).expect("after the unlock");
        client.run(|commands| _ = commands.check(surface.va(), BYTES, 4, report.va(), 1));
        assert_eq!(report.lock().expect("system memory").read_word(pattern::report::TAG * 8), 0, "{mode:?}");
        client.gpu.device().evict(vec![handle], EvictFlags::empty()).expect("once");
        assert!(client.gpu.device().evict(vec![handle], EvictFlags::empty()).is_err(), "and once only");
    }
}

/// The same without addresses: each thread writes rising numbers through the gate, and the last ones are there.
// spec: memory §6.3, requirements
// seed: M38
#[test]
fn no_write_is_lost_through_the_gate() {
    let host = host(Mode::Real, 4 * MIB);
    let client = client(&host);
    let surface = lockable(&client, SurfaceKind::LocalThenSystem, false);
    let lock = surface.lock().expect("always");
    assert!(lock.addresses().is_none(), "this host has no memory files");
    let stop = AtomicBool::new(false);
    let last: Vec<u64> = std::thread::scope(|scope| {
        let write = |thread: u64| {
            let (lock, stop) = (&lock, &stop);
            scope.spawn(move || {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    lock.write_words(thread * 4096 + number % 512 * 8, &[number]);
                    assert_eq!(lock.read_word(thread * 4096 + number % 512 * 8), number);
                }
                number
            })
        };
        let threads: Vec<_> = (0..2).map(write).collect();
        for _ in 0..500 {
            evict(&client, &surface);
            client.gpu.pin(&surface).expect("room");
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("a thread of ours")).collect()
    });
    for (thread, last) in (0u64..).zip(last) {
        for number in last.saturating_sub(511).max(1)..=last {
            assert_eq!(lock.read_word(thread * 4096 + number % 512 * 8), number);
        }
    }
}

// spec: memory §6.3, memory §8.3
// seed: M38
// seed: M40
#[test]
fn what_pressure_takes_a_part_of_is_seen_in_both_places_in_order() {
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 2 * MIB);
        let client = client(&host);
        let surface = client.gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, MIB, false).expect("a surface");
        client.gpu.pin(&surface).expect("room");
        let lock = surface.lock().expect("always");
        lock.fill_words(0, MIB / 8, |index| index);
        let list = vec![surface.allocation().handle()];
        client.gpu.device().evict(list, EvictFlags::EVICT_ONLY_IF_NECESSARY).expect("it was resident");
        // Half a MiB too much: the end of the surface has to go.
        let other = client.pinned(SurfaceKind::Local, MIB + MIB / 2);
        let seen = places(&client, &surface);
        assert!(seen.contains(&CpuPlace::Bar) && seen.contains(&CpuPlace::System), "{mode:?}: {seen:?}");
        for word in (0..MIB / 8).step_by(511) {
            assert_eq!(lock.read_word(word * 8), word, "{mode:?}");
        }
        lock.fill_words(0, MIB / 8, |index| !index);
        drop(other);
        client.gpu.pin(&surface).expect("room");
        for word in (0..MIB / 8).step_by(511) {
            assert_eq!(lock.read_word(word * 8), !word, "{mode:?}: and together again");
        }
    }
}

// spec: memory §6.3, memory §1.6
// seed: M36
// seed: M41
// seed: U17
#[test]
fn what_lies_in_system_memory_is_locked_and_moves_without_a_copy() {
    for profile_host in [host(VIRTUAL, 4 * MIB), host_with_window(VIRTUAL)] {
        let client = client(&profile_host);
        let surface = lockable(&client, SurfaceKind::System, true);
        let copied = profile_host.device_register(counter::COPY_BYTES);
        let lock = surface.lock().expect("always");
        assert!(places(&client, &surface).iter().all(|place| *place == CpuPlace::System));
        lock.write_words(0, &[9]);
        evict(&client, &surface);
        client.gpu.pin(&surface).expect("room");
        assert_eq!(lock.read_word(0), 9);
        assert_eq!(profile_host.device_register(counter::COPY_BYTES), copied);
    }
}

/// A process dies with locks; its memory is moved and used by others at once.
// spec: memory §10.1, memory §6.3
#[test]
fn the_locks_of_the_dead_are_gone() {
    let host = host_with_files();
    let survivor = client(&host);
    let lock = {
        let dying = client(&host);
        let surface = lockable(&dying, SurfaceKind::LocalThenSystem, false);
        let lock = surface.lock().expect("always");
        lock.write_words(0, &[0xdead]);
        let bytes = (*lock).clone();
        std::mem::forget(lock);
        bytes
    };
    let surface = lockable(&survivor, SurfaceKind::LocalThenSystem, false);
    let ours = surface.lock().expect("always");
    ours.write_words(0, &[1]);
    lock.write_words(0, &[2]);
    assert_eq!((ours.read_word(0), lock.read_word(0)), (1, 2), "a dead process's lock writes into no other memory");
}
