//! Sleep of an adapter of the first generation: content of its banks, in tiles or not, seen through ranges or not, and
//! packets that are under way when the computer falls asleep.

use ddi::{AllocationFlags, PowerState, SegmentFlags as F};
use dxgk_host::{Host, Mode};
use events::{Event, Move};
use softgpu_umd::ListedCommands;
use wddm_types::NtStatus;

use super::{BYTES, ENTIRE, PITCH, RANGE, config, old, rows, tiles};
use stack::heard::heard_on;
use stack::world::{MIB, VIRTUAL};

#[test]
fn content_in_banks_survives_in_the_order_that_the_cpu_saw() {
    // spec: memory §1.8, memory §1.10, memory §6.5, memory §8.4
    // seed: M12, M13
    let (standby, whole) = (F::PRESERVED_DURING_STANDBY, F::PRESERVED_DURING_HIBERNATE);
    let marked = AllocationFlags::SWIZZLED.bits();
    for (mode, preserved, state) in [
        (VIRTUAL, F::empty(), PowerState::Standby),
        (VIRTUAL, standby, PowerState::Standby),
        (VIRTUAL, standby, PowerState::Hibernate),
        (VIRTUAL, standby | whole, PowerState::Hibernate),
        (Mode::Real, F::empty(), PowerState::Hibernate),
        (Mode::Real, standby, PowerState::Standby),
    ] {
        let how = format!("{mode:?} {preserved:?} {state:?}");
        let mut config = config(mode);
        config.profile.driver.preserved = preserved;
        let host = Host::start(config).expect("the host starts");
        let client = old(&host);
        let forms = [(0, 0), (PITCH, 0), (PITCH, marked)];
        let surfaces = forms.map(|(pitch, flags)| client.surface(pitch, flags));
        for (seed, surface) in (1u64..).zip(&surfaces) {
            client.list(surface);
            client.write(surface, RANGE, seed * 10_000);
        }
        // One stays locked through all of it, one has left its list.
        let (held, off) = (client.surface(PITCH, 0), client.surface(PITCH, 0));
        for surface in [&held, &off] {
            client.list(surface);
            client.write(surface, RANGE, 7);
        }
        client.unlist(&off, d3dkmt::EvictFlags::EVICT_ONLY_IF_NECESSARY);
        let kept = held.lock_legacy(Vec::new(), RANGE).expect("a range");
        for round in 0..2u64 {
            host.power_transition(state).unwrap_or_else(|refusal| panic!("{how}: {refusal}"));
            let refused = client.gpu.device().evict(vec![surfaces[0].handle()], Default::default());
            assert_eq!(refused.expect_err("it sleeps").status, NtStatus::RETRY, "{how}");
            host.power_transition(PowerState::On).unwrap_or_else(|refusal| panic!("{how}: {refusal}"));
            let plain = client.surface(0, 0);
            client.list(&plain);
            for ((seed, surface), (pitch, _)) in (1u64..).zip(&surfaces).zip(forms) {
                let seed = seed * 10_000;
                client.run(|commands| _ = commands.copy((surface, 0), (&plain, 0), BYTES));
                let lies = if pitch == 0 { rows(seed) } else { tiles(seed) };
                assert!(client.read(&plain, ENTIRE) == lies, "{how}: the engine, pitch {pitch}");
                assert!(client.read(surface, RANGE) == rows(seed), "{how}: the CPU, pitch {pitch}");
            }
            let seen: Vec<u64> = (0..BYTES / 8).map(|index| kept.read_word(index * 8)).collect();
            assert!(seen == rows(7 + round), "{how}: the address stays, and shows rows");
            kept.fill_words(0, BYTES / 8, |index| 8 + round + index);
            assert!(client.read(&off, RANGE) == rows(7), "{how}: off its list");
        }
        drop(kept);
        assert!(client.read(&held, RANGE) == rows(9), "{how}: written through the kept lock");
    }
}

/// A packet that waits for the CPU's signal does not keep the adapter awake: it waits on, and its memory is back before it runs.
#[test]
fn a_packet_that_waits_outlives_a_sleep() {
    // spec: memory §8.4, memory §8.6
    for mode in [VIRTUAL, Mode::Real] {
        let host = Host::start(config(mode)).expect("the host starts");
        let client = old(&host);
        let (from, to) = (client.surface(PITCH, 0), client.surface(PITCH, 0));
        for surface in [&from, &to] {
            client.list(surface);
        }
        client.write(&from, RANGE, 3);
        let go = client.fence();
        client.context.wait(&go, 1).expect("a wait");
        let mut commands = ListedCommands::new();
        commands.copy((&from, 0), (&to, 0), BYTES).render(&client.context).expect("a buffer");
        for state in [PowerState::Standby, PowerState::Hibernate] {
            host.power_transition(state).expect("it falls asleep");
            host.power_transition(PowerState::On).expect("it wakes");
        }
        client.gpu.device().signal(&go, 1).expect("the GPU goes on");
        client.run(|commands| _ = commands.fill((&from, 0), 8, 0));
        assert_eq!(client.read(&to, RANGE), rows(3), "{mode:?}");
    }
}

/// A stop keeps no address valid, unlike a sleep: the kernel saves the content that the locks showed, then the locks show memory of no
/// allocation, and the driver has all its ranges back.
#[test]
fn a_stop_ends_the_addresses_of_locks_and_gives_the_ranges_back() {
    // spec: memory §6.5, memory §8.4
    let (host, heard) = heard_on("wddm1-banks", VIRTUAL, 4 * MIB, |event| {
        matches!(
            event,
            Event::SwizzlingRangeAcquired { .. } | Event::SwizzlingRangeReleased { .. } | Event::Moved { .. }
        )
    });
    let client = old(&host);
    let forms = [(0, 0), (PITCH, 0), (PITCH, AllocationFlags::SWIZZLED.bits())];
    let surfaces = forms.map(|(pitch, flags)| client.surface(pitch, flags));
    let locks = [1, 2, 3].map(|seed: u64| {
        let surface = &surfaces[seed as usize - 1];
        client.list(surface);
        client.write(surface, RANGE, seed * 10_000);
        // The engine copies it over itself: the kernel must save the engine's content.
        client.run(|commands| _ = commands.copy((surface, 0), (surface, 0), BYTES));
        let lock = surface.lock_legacy(Vec::new(), RANGE).expect("a range");
        assert_eq!(lock.read_word(8), seed * 10_000 + 1);
        lock
    });
    let acquired = heard.take().iter().filter(|event| matches!(event, Event::SwizzlingRangeAcquired { .. })).count();
    host.stop_adapter().expect("it stops");
    let at_stop = heard.take();
    let released = at_stop.iter().filter(|event| matches!(event, Event::SwizzlingRangeReleased { .. })).count();
    assert_eq!((acquired, released), (3, 3));
    let saved = at_stop.iter().filter(|event| matches!(event, Event::Moved { how: Move::PageOut, .. })).count();
    assert!(saved >= 3, "each was copied out");
    for lock in &locks {
        assert_eq!(lock.read_word(8), 0, "memory of no allocation");
        lock.fill_words(8, 1, |_| 7);
    }
    drop(locks);
    drop(surfaces);
    drop(client);
    host.check_invariants().expect("in order");
}
