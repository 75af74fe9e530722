//! Work of an idle kernel, through the whole stack, by exact bytes: the kernel moves content up, clears pages ahead, and writes content
//! back ahead.

use std::sync::{Arc, Mutex};

use d3dkmt::{EvictFlags, MakeResidentFlags, Residency};
use ddi::PowerState;
use dxgk_host::{Host, HostConfig, MemoryPolicy, Mode, Profile};
use events::{Cause, Event, Move, Tracer};
use softgpu_umd::{Commands, GpuWait, Surface, SurfaceKind, pattern};
use wddm_types::{PAGE_BYTES, Pages};

use stack::world::{Client, MIB, VIRTUAL, client};

const LAZY: EvictFlags = EvictFlags::EVICT_ONLY_IF_NECESSARY;

/// How, why, bytes.
type Moved = (Move, &'static str, u64);

/// The moves that the kernel reported.
#[derive(Clone, Default)]
pub struct Moves(Arc<Mutex<Vec<Moved>>>);

impl Tracer for Moves {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        if let Event::Moved { how, why, bytes, .. } = event {
            self.0.lock().expect("no thread panicked").push((*how, why.name(), *bytes));
        }
    }
}

impl Moves {
    /// Bytes that moved so, for this reason.
    pub fn bytes(&self, how: Move, why: Cause) -> u64 {
        let moves = self.0.lock().expect("no thread panicked");
        moves.iter().filter(|moved| (moved.0, moved.1) == (how, why.name())).map(|moved| moved.2).sum()
    }

    /// Bytes that moved so, whatever for.
    fn all(&self, how: Move) -> u64 {
        let moves = self.0.lock().expect("no thread panicked");
        moves.iter().filter(|moved| moved.0 == how).map(|moved| moved.2).sum()
    }
}

const PRESSURE: Cause = Cause::Pressure { for_allocation: 0 };

pub fn host(mode: Mode, memory_policy: MemoryPolicy) -> (Arc<Host>, Moves) {
    host_of("discrete-4k", mode, memory_policy)
}

fn host_of(profile: &str, mode: Mode, memory_policy: MemoryPolicy) -> (Arc<Host>, Moves) {
    let profile = Profile::named(profile).expect("a built-in profile");
    let moves = Moves::default();
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        memory_policy,
        tracer: Box::new(moves.clone()),
        ..HostConfig::new(profile, mode)
    };
    (Host::start(config).expect("the host starts"), moves)
}

fn bring_in(client: &Client, surface: &Surface) {
    let paging = client.gpu.paging();
    let list = vec![surface.allocation().handle()];
    if let Residency::Pending { paging_fence_value, .. } =
        paging.make_resident(list, MakeResidentFlags::empty()).unwrap()
    {
        client.gpu.device().wait(&[(paging.fence(), paging_fence_value)]).unwrap();
    }
}

fn evict(client: &Client, surface: &Surface, flags: EvictFlags) {
    client.gpu.device().evict(vec![surface.allocation().handle()], flags).unwrap();
}

/// Lets the kernel have its turns: small work of this process, over and over, until `done`.
pub fn let_pass(client: &mut Client, scrap: &Surface, mut done: impl FnMut() -> bool) {
    let va = scrap.va();
    for _ in 0..10_000 {
        if done() {
            return;
        }
        client.run(|commands| {
            commands.pattern(va, 64, 1);
        });
    }
    panic!("it does not come to pass");
}

/// All of a surface is this pattern, as the GPU reads it.
fn check(client: &mut Client, report: &Surface, surface: &Surface, seed: u64) {
    let (va, bytes, report_va) = (surface.va(), surface.bytes(), report.va());
    client.run(|commands| {
        commands.check(va, bytes, seed, report_va, 0);
    });
    assert_eq!(report.lock().unwrap().read_word(0), 0, "other bytes");
}

fn write(client: &mut Client, surface: &Surface, seed: u64) {
    let (va, bytes) = (surface.va(), surface.bytes());
    client.run(|commands| {
        commands.pattern(va, bytes, seed);
    });
}

#[test]
fn content_moves_up_when_there_is_room_and_its_process_has_nothing_to_run() {
    // spec: memory §8.1
    for mode in [VIRTUAL, Mode::Real] {
        let (host, moves) = host(mode, MemoryPolicy::default());
        let (mut first, mut second) = (client(&host), client(&host));
        // It takes nothing from the second, though that has nothing to run.
        first.gpu.adapter().set_priority_class(0).unwrap();
        let report = first.pinned(SurfaceKind::System, 65536);
        let scrap = second.pinned(SurfaceKind::System, 65536);
        let wall = second.pinned(SurfaceKind::Local, 3 * MIB);
        let surface = first.pinned(SurfaceKind::LocalThenSystem, 2 * MIB);
        let usage = |client: &Client| client.gpu.adapter().video_memory_info(true).unwrap().current_usage_bytes;
        write(&mut first, &surface, pattern::seed(1, 0));
        assert_eq!(usage(&first), 0, "{mode:?}: it went to system memory");
        assert_eq!(moves.bytes(Move::PageIn, Cause::Promote), 0, "there is no room");
        evict(&second, &wall, EvictFlags::empty());
        let_pass(&mut second, &scrap, || moves.bytes(Move::PageIn, Cause::Promote) > 0);
        assert_eq!(moves.bytes(Move::PageIn, Cause::Promote), 2 * MIB, "{mode:?}: once, all of it");
        assert_eq!(usage(&first), 2 * MIB);
        check(&mut first, &report, &surface, pattern::seed(1, 0));
        write(&mut first, &surface, pattern::seed(1, 1));
        // Another client still gets the room when it needs it, and the content written after the move comes back.
        evict(&first, &surface, LAZY);
        bring_in(&second, &wall);
        bring_in(&first, &surface);
        check(&mut first, &report, &surface, pattern::seed(1, 1));
        assert_eq!(moves.bytes(Move::PageIn, Cause::Promote), 2 * MIB);
    }
}

/// A queue that waits for something is never idle: its content moves up all the same, when patience ends and not before.
#[test]
fn content_of_a_process_that_is_never_idle_moves_up_when_patience_ends() {
    // spec: memory §8.1
    for mode in [VIRTUAL, Mode::Real] {
        let promote_patience_ns = 5_000_000;
        let (host, moves) = host(mode, MemoryPolicy { promote_patience_ns, ..MemoryPolicy::default() });
        let (mut first, mut second) = (client(&host), client(&host));
        first.gpu.adapter().set_priority_class(0).unwrap();
        let report = first.pinned(SurfaceKind::System, 65536);
        let scrap = second.pinned(SurfaceKind::System, 65536);
        let wall = second.pinned(SurfaceKind::Local, 3 * MIB);
        let surface = first.pinned(SurfaceKind::LocalThenSystem, 2 * MIB);
        write(&mut first, &surface, 7);
        let gate = first.gpu.device().create_native_fence(Default::default()).unwrap();
        let waits = [GpuWait { fence: (&gate).into(), value: 1 }];
        let mut commands = Commands::new();
        commands.check(surface.va(), surface.bytes(), 7, report.va(), 1);
        let value = first.stream.submit(&first.gpu, &waits, &commands).unwrap();
        let freed_ns = host.now_ns();
        evict(&second, &wall, EvictFlags::empty());
        let_pass(&mut second, &scrap, || moves.bytes(Move::PageIn, Cause::Promote) > 0);
        let waited_ns = host.now_ns() - freed_ns;
        assert!(waited_ns >= promote_patience_ns, "{mode:?}: after {waited_ns} ns");
        // It was looked at within a turn of the small work that lets time pass.
        assert!(mode == Mode::Real || waited_ns < promote_patience_ns + 200_000, "after {waited_ns} ns");
        first.gpu.device().signal(&gate, 1).unwrap();
        first.stream.wait(&first.gpu, value).unwrap();
        assert_eq!(report.lock().unwrap().read_word(0), 0, "{mode:?}: other bytes");
        assert_eq!(moves.bytes(Move::PageIn, Cause::Promote), 2 * MIB);
    }
}

#[test]
fn nothing_moves_up_where_the_policy_says_no() {
    // spec: memory §8.1
    let (host, moves) = host(VIRTUAL, MemoryPolicy { promote: false, ..MemoryPolicy::default() });
    let (first, mut second) = (client(&host), client(&host));
    first.gpu.adapter().set_priority_class(0).unwrap();
    let scrap = second.pinned(SurfaceKind::System, 65536);
    let wall = second.pinned(SurfaceKind::Local, 3 * MIB);
    let _surface = first.pinned(SurfaceKind::LocalThenSystem, 2 * MIB);
    evict(&second, &wall, EvictFlags::empty());
    let mut turns = 0;
    let_pass(&mut second, &scrap, || {
        turns += 1;
        turns > 200
    });
    assert_eq!(moves.bytes(Move::PageIn, Cause::Promote), 0);
}

/// Two surfaces that want the same room, the first one's content written and left lazily; then the second comes. Answers
/// with the bytes that were copied out for room, those copied out ahead, and how long the second waited for its place.
fn displaced_after_idling(ahead: bool) -> (u64, u64, u64) {
    let (host, moves) = host(VIRTUAL, MemoryPolicy { write_back_ahead: ahead, ..MemoryPolicy::default() });
    let mut client = client(&host);
    let report = client.pinned(SurfaceKind::System, 65536);
    let (first, second) = (surface(&client), surface(&client));
    bring_in(&client, &first);
    write(&mut client, &first, pattern::seed(2, 0));
    evict(&client, &first, LAZY);
    let scrap = client.pinned(SurfaceKind::System, 65536);
    let mut turns = 0;
    let_pass(&mut client, &scrap, || {
        turns += 1;
        turns > 40
    });
    let ahead = moves.bytes(Move::PageOut, Cause::Ahead);
    let before = host.now_ns();
    bring_in(&client, &second);
    let waited = host.now_ns() - before;
    evict(&client, &second, LAZY);
    bring_in(&client, &first);
    check(&mut client, &report, &first, pattern::seed(2, 0));
    (moves.bytes(Move::PageOut, PRESSURE), ahead, waited)
}

fn surface(client: &Client) -> Surface {
    client.gpu.create_surface(SurfaceKind::Local, 3 * MIB).unwrap()
}

#[test]
fn what_was_written_back_ahead_is_displaced_without_a_copy() {
    // spec: memory §8.3
    let (out, ahead, waited) = displaced_after_idling(false);
    // The first has 3 MiB of 4, the second wants 3: two MiB of the first leave. Later two MiB of the second leave: the GPU did not write
    // them, but the device did not say so.
    assert_eq!((out, ahead), (4 * MIB, 0));
    let (out_after, ahead, waited_after) = displaced_after_idling(true);
    assert_eq!((out_after, ahead), (2 * MIB, 3 * MIB), "the first one's were copied before");
    // Writing back ahead saves the copy of two MiB at the profile's 25,000 bytes in a microsecond.
    let copy_ns = 2 * MIB * 1000 / 25_000;
    let saved = waited - waited_after;
    assert!((copy_ns..copy_ns + copy_ns / 10).contains(&saved), "{saved} ns saved, a copy takes {copy_ns}");
}

#[test]
fn a_store_after_the_write_back_is_not_lost() {
    // spec: memory §8.3, memory §6.3
    for mode in [VIRTUAL, Mode::Real] {
        let (host, moves) = host(mode, MemoryPolicy { write_back_ahead: true, ..MemoryPolicy::default() });
        let mut client = client(&host);
        let report = client.pinned(SurfaceKind::System, 65536);
        let scrap = client.pinned(SurfaceKind::System, 65536);
        let seen = client.gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, 3 * MIB, false).unwrap();
        let (blind, wall) = (surface(&client), surface(&client));
        // By the GPU: it lists it again, writes, and lets go.
        bring_in(&client, &blind);
        write(&mut client, &blind, pattern::seed(3, 0));
        evict(&client, &blind, LAZY);
        let_pass(&mut client, &scrap, || moves.bytes(Move::PageOut, Cause::Ahead) == 3 * MIB);
        bring_in(&client, &blind);
        write(&mut client, &blind, pattern::seed(3, 1));
        evict(&client, &blind, LAZY);
        bring_in(&client, &wall);
        evict(&client, &wall, EvictFlags::empty());
        bring_in(&client, &blind);
        check(&mut client, &report, &blind, pattern::seed(3, 1));
        evict(&client, &blind, EvictFlags::empty());
        // By the CPU: it locks a surface that no list holds, stores, and unlocks.
        let before = moves.bytes(Move::PageOut, Cause::Ahead);
        bring_in(&client, &seen);
        write(&mut client, &seen, pattern::seed(4, 0));
        evict(&client, &seen, LAZY);
        let_pass(&mut client, &scrap, || moves.bytes(Move::PageOut, Cause::Ahead) == before + 3 * MIB);
        let lock = seen.lock().unwrap();
        let last = 3 * MIB / 8 - 1;
        lock.write_words(last * 8, &[0x0dd5]);
        drop(lock);
        bring_in(&client, &wall);
        evict(&client, &wall, EvictFlags::empty());
        bring_in(&client, &seen);
        let lock = seen.lock().unwrap();
        let words = (lock.read_word(last * 8), lock.read_word(0), lock.read_word((last - 1) * 8));
        let seed = pattern::seed(4, 0);
        assert_eq!(words, (0x0dd5, pattern::word(seed, 0), pattern::word(seed, (last - 1) * 8)), "{mode:?}");
    }
}

#[test]
fn a_first_commit_into_pages_cleared_ahead_fills_nothing() {
    // spec: memory §3.3
    for profile in ["discrete-4k", "by-address"] {
        first_commits_into_cleared_pages(profile);
    }
}

/// A sleep destroys cleared pages like any content of memory that is not kept.
#[test]
fn pages_cleared_before_a_sleep_are_filled_after_it() {
    // spec: memory §1.10, memory §3.3
    let all = MemoryPolicy { clear_ahead: Pages(4 * MIB / PAGE_BYTES), ..MemoryPolicy::default() };
    for state in [PowerState::Standby, PowerState::Hibernate] {
        let (host, _) = host(VIRTUAL, all);
        let mut client = client(&host);
        let scrap = client.pinned(SurfaceKind::System, 65536);
        // They hold something else first, which is lost memory's to forget.
        let before = client.pinned(SurfaceKind::Local, 3 * MIB);
        write(&mut client, &before, pattern::seed(1, 0));
        drop(before);
        let mut turns = 0;
        let_pass(&mut client, &scrap, || {
            turns += 1;
            turns > 40
        });
        host.power_transition(state).expect("it falls asleep");
        host.power_transition(PowerState::On).expect("it wakes");
        let wanted = surface(&client);
        bring_in(&client, &wanted);
        // The copy that a lock may make would be zeros whatever lies in the segment.
        let report = client.pinned(SurfaceKind::System, 3 * MIB);
        let (from, to) = (wanted.va(), report.va());
        client.run(|commands| {
            commands.copy(from, to, 3 * MIB);
        });
        let lock = report.lock().unwrap();
        assert!((0..3 * MIB).step_by(8).all(|at| lock.read_word(at) == 0), "{state:?}: it begins as zeros");
    }
}

fn first_commits_into_cleared_pages(profile: &str) {
    let first_commit = |clear_ahead: Pages| {
        let (host, moves) = host_of(profile, VIRTUAL, MemoryPolicy { clear_ahead, ..MemoryPolicy::default() });
        let mut client = client(&host);
        let scrap = client.pinned(SurfaceKind::System, 65536);
        let mut turns = 0;
        let_pass(&mut client, &scrap, || {
            turns += 1;
            turns > 40
        });
        let wanted = surface(&client);
        let before = host.now_ns();
        bring_in(&client, &wanted);
        let waited = host.now_ns() - before;
        assert_eq!(moves.bytes(Move::Fill, Cause::MakeResident), 3 * MIB, "it came, cleared ahead or not");
        assert_eq!(moves.all(Move::PageOut) + moves.all(Move::PageIn), 0);
        let report = client.pinned(SurfaceKind::System, 65536);
        let (from, to) = (wanted.va(), report.va());
        client.run(|commands| {
            commands.copy(from.offset(3 * MIB - 4096), to, 4096);
        });
        let lock = report.lock().unwrap();
        assert!((0..512).all(|word| lock.read_word(word * 8) == 0), "it begins as zeros");
        waited
    };
    let (without, half, with) =
        (first_commit(Pages::ZERO), first_commit(Pages(3 * MIB / 2 / PAGE_BYTES)), first_commit(Pages(MIB)));
    // A fill of local memory goes at the profile's 400,000 bytes in a microsecond.
    let fill_ns = 3 * MIB * 1000 / 400_000;
    let saved = [without - with, without - half];
    assert!(saved[0] >= fill_ns && saved[0] < fill_ns * 3, "{profile}: {saved:?} ns saved, the fill takes {fill_ns}");
    assert!(saved[1] >= fill_ns * 4 / 10 && saved[1] < saved[0], "{profile}, half of it: {saved:?}");
}
