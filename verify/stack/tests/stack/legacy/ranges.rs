//! Tiled surfaces through ranges: one order for the CPU, wherever the bytes are.

use std::sync::{Arc, Mutex};

use d3dkmt::EvictFlags;
use ddi::{AcquireSwizzlingRange, AllocationFlags, PagingOp, SwizzlingError};
use dxgk_host::{Host, HostConfig, MemoryPolicy, Mode};
use events::{Event, Tracer};
use wddm_types::{CpuPlace, NtStatus};

use super::{BYTES, ENTIRE, PITCH, RANGE, all, config, old, rows, tiles};
use crate::stubborn::{Whims, wrapped};
use d3dkmt::{LockFlags, Refusal};
use stack::world::VIRTUAL;

const LAZY: EvictFlags = EvictFlags::EVICT_ONLY_IF_NECESSARY;

/// Written through a range, the bytes lie in tiles; the engine finds them there, and in rows where it unswizzles.
#[test]
fn a_range_shows_rows_of_what_lies_in_tiles() {
    // spec: memory §6.5, memory §1.7
    // seed: M15, M32, M33, M34
    for (mode, memory_files) in [(VIRTUAL, false), (Mode::Real, false), (Mode::Real, true)] {
        let host = Host::start(HostConfig { memory_files, ..config(mode) }).expect("the host starts");
        let client = old(&host);
        let (surface, plain, linear) = (client.surface(PITCH, 0), client.surface(0, 0), client.surface(0, 0));
        for allocation in [&surface, &plain, &linear] {
            client.list(allocation);
        }
        assert_eq!(client.places(&surface, RANGE).expect("a range"), [CpuPlace::Bar], "no copy, its own place");
        client.write(&surface, RANGE, 1000);
        client.run(|commands| {
            commands.copy((&surface, 0), (&plain, 0), BYTES);
            commands.unswizzle(&surface, (&linear, 0), all());
        });
        assert_eq!(client.read(&plain, ENTIRE), tiles(1000), "{mode:?}: it lies in tiles");
        assert_eq!(client.read(&linear, ENTIRE), rows(1000), "{mode:?}");
        client.run(|commands| {
            commands.fill((&linear, 0), BYTES, 7);
            commands.swizzle((&linear, 0), &surface, all());
        });
        assert_eq!(client.read(&surface, RANGE), vec![7 << 32 | 7; (BYTES / 8) as usize], "{mode:?}");
    }
}

/// The same bytes in the same order through the window and after eviction, swizzled or not, also through a lock that stays.
#[test]
fn eviction_keeps_the_order_that_the_cpu_saw() {
    // spec: memory §6.5, memory §3.4, memory §6.3
    // seed: M36, M37, M38, M40
    let marked = AllocationFlags::SWIZZLED.bits();
    for (mode, memory_files) in [(VIRTUAL, false), (Mode::Real, false), (Mode::Real, true)] {
        let host = Host::start(HostConfig { memory_files, ..config(mode) }).expect("the host starts");
        let client = old(&host);
        for (pitch, flags) in [(0, 0), (PITCH, 0), (PITCH, marked)] {
            let how = format!("{mode:?} pitch {pitch} flags {flags:#x}");
            let surface = client.surface(pitch, flags);
            client.list(&surface);
            client.write(&surface, RANGE, 5);
            assert_eq!(client.read(&surface, RANGE), rows(5), "{how}: in memory");
            let kept = surface.lock_legacy(Vec::new(), RANGE).expect("a range");
            client.unlist(&surface, EvictFlags::empty());
            assert_eq!(kept.read_word(BYTES - 8), 5 + BYTES / 8 - 1, "{how}: the address stays");
            kept.fill_words(0, BYTES / 8, |index| 9 + index);
            drop(kept);
            assert_eq!(
                client.places(&surface, RANGE).expect("as it is"),
                [CpuPlace::System],
                "{how}: without the driver"
            );
            assert_eq!(client.read(&surface, ENTIRE), rows(9), "{how}: outside");
            client.list(&surface);
            assert_eq!(client.places(&surface, RANGE).expect("a range"), [CpuPlace::Bar], "{how}: inside again");
            assert_eq!(client.read(&surface, RANGE), rows(9), "{how}");
            let plain = client.surface(0, 0);
            client.list(&plain);
            client.run(|commands| _ = commands.copy((&surface, 0), (&plain, 0), BYTES));
            let lies = if pitch == 0 { rows(9) } else { tiles(9) };
            assert_eq!(client.read(&plain, ENTIRE), lies, "{how}: in tiles again");
        }
    }
}

/// Ranges that are acquired and released, as the trace has them.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(bool, u32)>>>);

impl Tracer for Seen {
    fn event(&mut self, _: u64, event: &Event) {
        match event {
            Event::SwizzlingRangeAcquired { range, .. } => self.0.lock().unwrap().push((true, *range)),
            Event::SwizzlingRangeReleased { range } => self.0.lock().unwrap().push((false, *range)),
            _ => {}
        }
    }
}

#[test]
fn every_range_that_was_acquired_is_seen_to_be_released() {
    // spec: memory §6.5
    let seen = Seen::default();
    let host = Host::start(HostConfig { tracer: Box::new(seen.clone()), ..config(VIRTUAL) }).expect("the host starts");
    let client = old(&host);
    let surface = client.surface(PITCH, 0);
    client.list(&surface);
    client.write(&surface, RANGE, 5);
    client.unlist(&surface, EvictFlags::empty());
    assert_eq!(client.places(&surface, RANGE).expect("outside"), [CpuPlace::System]);
    let seen = seen.0.lock().unwrap().clone();
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!((seen[0], seen[1]), ((true, seen[0].1), (false, seen[0].1)), "what shows it goes with it");
}

#[test]
fn marked_content_leaves_in_tiles_and_comes_back_for_a_lock() {
    // spec: memory §6.5
    // seed: M37
    let host = Host::start(config(VIRTUAL)).expect("the host starts");
    let client = old(&host);
    let surface = client.surface(PITCH, AllocationFlags::SWIZZLED.bits());
    client.list(&surface);
    client.write(&surface, RANGE, 3);
    client.unlist(&surface, EvictFlags::empty());
    // Out in tiles: a lock brings it in, and shows it through a range, or takes it out in rows.
    assert_eq!(client.places(&surface, RANGE).expect("a range"), [CpuPlace::Bar]);
    assert_eq!(client.read(&surface, RANGE), rows(3));
    assert_eq!(client.places(&surface, ENTIRE).expect("linear"), [CpuPlace::System]);
    assert_eq!(client.read(&surface, ENTIRE), rows(3));
    client.list(&surface);
    let refused = client.places(&surface, ENTIRE).expect_err("its device needs it swizzled");
    assert_eq!(refused.status, NtStatus::GRAPHICS_CANT_LOCK_MEMORY, "{refused}");
    assert_eq!(client.read(&surface, RANGE), rows(3));
}

#[test]
fn without_a_range_the_cpu_works_on_system_memory() {
    // spec: memory §6.5
    // seed: M35
    for mode in [VIRTUAL, Mode::Real] {
        let host = Host::start(config(mode)).expect("the host starts");
        let client = old(&host);
        let surfaces: Vec<_> = (0..6).map(|_| client.surface(PITCH, 0)).collect();
        for (seed, surface) in (0u64..).zip(&surfaces) {
            client.list(surface);
            client.write(surface, RANGE, seed * 10_000);
            client.unlist(surface, LAZY);
        }
        let locks: Vec<_> =
            surfaces.iter().take(4).map(|surface| surface.lock_legacy(Vec::new(), RANGE).expect("a range")).collect();
        let fifth = &surfaces[4];
        let refused = client.places(fifth, RANGE | LockFlags::DONOT_EVICT).expect_err("there are four");
        assert_eq!(refused.status, NtStatus::GRAPHICS_CANT_LOCK_MEMORY, "{refused}");
        assert_eq!(client.places(fifth, RANGE).expect("outside"), [CpuPlace::System], "{mode:?}");
        assert_eq!(client.read(fifth, RANGE), rows(40_000), "{mode:?}");
        drop(locks);
        // A lock takes a range that no lock holds, and the range's last user loses nothing else.
        assert_eq!(client.places(&surfaces[5], RANGE).expect("a range"), [CpuPlace::Bar]);
        for (seed, surface) in (0u64..).zip(&surfaces) {
            assert_eq!(client.read(surface, RANGE), rows(seed * 10_000), "{mode:?} {seed}");
        }
        // One level is all that a surface of this device has: for another there is no range.
        let device = surfaces[5].lock_level(1, Vec::new(), RANGE | LockFlags::DONOT_EVICT).map(drop);
        assert_eq!(device.expect_err("unsupported").status, NtStatus::GRAPHICS_CANT_LOCK_MEMORY);
    }
}

/// The kernel's response to a driver that has no range to give, or moves one.
#[test]
fn ranges_are_released_until_there_is_one_and_a_moved_view_stops_the_adapter() {
    // spec: memory §6.5
    // seed: M34, M35
    type Asked = Arc<Mutex<Vec<(u32, &'static str)>>>;
    let asked: Asked = Asked::default();
    let with = |answer: fn(usize, &mut AcquireSwizzlingRange) -> Result<(), SwizzlingError>| {
        let (acquired, released) = (Arc::clone(&asked), Arc::clone(&asked));
        let whims = Whims {
            acquire: Box::new(move |driver, acquire| {
                let mut asked = acquired.lock().unwrap();
                asked.push((acquire.range, "acquire"));
                answer(asked.len(), acquire)?;
                let told = *acquire;
                driver.acquire_swizzling_range(acquire)?;
                *acquire = told;
                Ok(())
            }),
            release: Box::new(move |range| released.lock().unwrap().push((range, "release"))),
            packets: true,
            ..Whims::default()
        };
        // A surface that was evicted for a lock stays outside, so that the test can see its form.
        let memory_policy = MemoryPolicy { promote: false, ..MemoryPolicy::default() };
        let config = HostConfig { wrap_miniport: Some(wrapped(whims)), memory_policy, ..config(VIRTUAL) };
        Host::start(config).expect("the host starts")
    };
    // The third is not to be had: both kept ones go, one after the other, and then it gives up.
    let host = with(|call, _| if call > 2 { Err(SwizzlingError::Unavailable) } else { Ok(()) });
    let client = old(&host);
    let surfaces: Vec<_> = (0..3).map(|_| client.surface(PITCH, 0)).collect();
    surfaces.iter().for_each(|surface| client.list(surface));
    for (seed, surface) in (0u64..).zip(&surfaces) {
        client.write(surface, RANGE, seed);
    }
    let heard = std::mem::take(&mut *asked.lock().unwrap());
    let expected = [
        (0, "acquire"),
        (1, "acquire"),
        (2, "acquire"),
        (0, "release"),
        (2, "acquire"),
        (1, "release"),
        (2, "acquire"),
    ];
    assert_eq!(heard, expected);
    assert_eq!(client.read(&surfaces[2], ENTIRE), rows(2), "the CPU worked on system memory");
    // Unsupported: given up at once.
    let host = with(|_, _| Err(SwizzlingError::Unsupported));
    let client = old(&host);
    let surface = client.surface(PITCH, 0);
    client.list(&surface);
    assert_eq!(client.places(&surface, RANGE).expect("outside"), [CpuPlace::System]);
    assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), [(0, "acquire")]);
    // Neither offset nor footprint may change.
    let longer: fn(usize, &mut AcquireSwizzlingRange) -> Result<(), SwizzlingError> = |_, acquire| {
        acquire.range_bytes += 4096;
        Ok(())
    };
    let elsewhere: fn(usize, &mut AcquireSwizzlingRange) -> Result<(), SwizzlingError> = |_, acquire| {
        acquire.cpu_translated_address += 4096;
        Ok(())
    };
    for wrong in [longer, elsewhere] {
        let host = with(wrong);
        let (client, other) = (old(&host), old(&host));
        let surface = client.surface(PITCH, 0);
        client.list(&surface);
        let status = |result: Result<Vec<CpuPlace>, Refusal>| result.expect_err("it broke the contract").status;
        assert_eq!(status(client.places(&surface, RANGE)), NtStatus::DEVICE_REMOVED);
        let refused = other.gpu.device().create_allocation(Vec::new()).map(drop).expect_err("it has stopped");
        assert!(refused.reason.contains("swizzling range"), "{refused}");
    }
}

/// A primary that the CPU sees at an address of the driver's choice: its evicted content has the order that the CPU saw there.
#[test]
fn what_is_seen_at_an_alternate_address_moves_by_special_transfers() {
    // spec: memory §6.5, memory §3.4
    // seed: M40
    type Moves = Arc<Mutex<Vec<(u32, Option<u32>)>>>;
    let moves = Moves::default();
    let heard = Arc::clone(&moves);
    let whims = Whims {
        build: Box::new(move |driver, build| {
            match build.operation {
                PagingOp::SpecialLockTransfer { swizzling_range, .. } => {
                    heard.lock().unwrap().push((build.operation.number(), Some(swizzling_range)));
                }
                PagingOp::Transfer { .. } => heard.lock().unwrap().push((build.operation.number(), None)),
                _ => {}
            }
            driver.build_paging_buffer(build)
        }),
        packets: true,
        ..Whims::default()
    };
    let host = Host::start(HostConfig { wrap_miniport: Some(wrapped(whims)), ..config(VIRTUAL) }).expect("it starts");
    let client = old(&host);
    let (primary, plain) = (client.primary(PITCH, AllocationFlags::USE_ALTERNATE_VA.bits()), client.surface(0, 0));
    client.list(&primary);
    client.list(&plain);
    let alternate = RANGE | LockFlags::USE_ALTERNATE_VA;
    let otherwise = client.places(&primary, RANGE).expect_err("locked in no other way");
    assert_eq!(otherwise.status, NtStatus::INVALID_PARAMETER, "{otherwise}");
    client.write(&primary, alternate, 40);
    client.run(|commands| _ = commands.copy((&primary, 0), (&plain, 0), BYTES));
    assert_eq!(client.read(&plain, ENTIRE), tiles(40));
    let lock = primary.lock_legacy(Vec::new(), alternate).expect("a range");
    let twice = client.places(&primary, alternate).expect_err("it cannot be locked twice");
    assert_eq!(twice.status, NtStatus::INVALID_PARAMETER, "{twice}");
    moves.lock().unwrap().clear();
    client.unlist(&primary, EvictFlags::empty());
    assert_eq!(lock.read_word(BYTES - 8), 40 + BYTES / 8 - 1);
    lock.write_words(8, &[1]);
    drop(lock);
    client.list(&primary);
    client.run(|commands| _ = commands.unswizzle(&primary, (&plain, 0), all()));
    let mut expected = rows(40);
    expected[1] = 1;
    assert_eq!(client.read(&plain, ENTIRE), expected);
    assert_eq!(*moves.lock().unwrap(), [(7, Some(0)), (7, Some(0))], "out and back in");
    moves.lock().unwrap().clear();
    client.unlist(&primary, EvictFlags::empty());
    client.list(&primary);
    assert_eq!(*moves.lock().unwrap(), [(0, None), (0, None)], "without a lock: ordinary transfers");
}
