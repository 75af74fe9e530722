//! Page tables of processes that have nothing to run leave for others, through the whole stack, and every byte is where it
//! was when they are back.

use std::sync::{Arc, Mutex};

use d3dkmt::GpuVaReservation;
use dxgk_host::{Host, HostConfig, Mode, Profile};
use events::{Event, Tracer};
use softgpu_umd::{Surface, SurfaceKind, pattern};
use wddm_types::{GpuVa, NtStatus, PAGE_BYTES};

use stack::world::{Client, MIB, VIRTUAL, client};

/// Bytes that a leaf table translates.
const LEAF: u64 = 2 * MIB;
/// The paging process keeps so much of the page tables' memory.
const PAGING_TABLES: u64 = 256;

/// Moves of page tables: whether they came or left; of which process; bytes.
#[derive(Clone, Default)]
struct Tables(Arc<Mutex<Vec<(bool, u32, u64)>>>);

impl Tracer for Tables {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        let seen = match event {
            Event::TablesEvicted { process, bytes, for_process, .. } => {
                assert_ne!(process, for_process, "a process's tables leave for its own use");
                (false, *process, *bytes)
            }
            Event::TablesRestored { process, bytes, .. } => (true, *process, *bytes),
            _ => return,
        };
        self.0.lock().expect("no thread panicked").push(seen);
    }
}

/// A host with so many pages for the tables of all processes.
fn host(mode: Mode, table_pages: u64) -> (Arc<Host>, Tables) {
    host_of("discrete-4k", mode, table_pages)
}

fn host_of(profile: &str, mode: Mode, table_pages: u64) -> (Arc<Host>, Tables) {
    let profile = Profile::named(profile).expect("a built-in profile");
    let tables = Tables::default();
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: (PAGING_TABLES + table_pages) * PAGE_BYTES,
        system_bytes: 64 * MIB,
        tracer: Box::new(tables.clone()),
        ..HostConfig::new(profile, mode)
    };
    (Host::start(config).expect("the host starts"), tables)
}

/// A surface that is seen at this many places, each in a leaf table of its own.
struct Player {
    client: Client,
    surface: Surface,
    report: Surface,
    places: Vec<GpuVa>,
}

impl Player {
    fn new(host: &Arc<Host>) -> Player {
        let client = client(host);
        let surface = client.pinned(SurfaceKind::Local, 65536);
        let report = client.pinned(SurfaceKind::System, 65536);
        Player { client, surface, report, places: Vec::new() }
    }

    /// Shows it at one place more.
    fn spread(&mut self) -> Result<(), d3dkmt::Refusal> {
        let base = GpuVa((1 << 39) + (64 + self.places.len() as u64) * LEAF);
        let paging = self.client.gpu.paging();
        let (va, value) = paging.map_at(self.surface.allocation(), base, 0, 16, true)?;
        if value > 0 {
            self.client.gpu.device().wait(&[(paging.fence(), value)])?;
        }
        self.places.push(va);
        Ok(())
    }

    /// Writes it at its own address, and reads all of it at every place.
    fn work(&mut self, seed: u64) {
        let (va, report, places) = (self.surface.va(), self.report.va(), self.places.clone());
        self.client.run(|commands| {
            commands.pattern(va, 65536, seed);
            for (slot, place) in (0..).zip(&places) {
                commands.check(*place, 65536, seed, report, slot);
            }
        });
        let lock = self.report.lock().expect("system memory");
        for slot in 0..places.len() {
            assert_eq!(lock.read_word(slot as u64 * 8), 0, "place {slot} shows other bytes");
        }
    }

    /// Checks the content of the last work.
    fn look(&mut self, seed: u64) {
        let (report, places) = (self.report.va(), self.places.clone());
        self.client.run(|commands| {
            for (slot, place) in (0..).zip(&places) {
                commands.check(*place, 65536, seed, report, slot);
            }
        });
        let lock = self.report.lock().expect("system memory");
        for slot in 0..places.len() {
            assert_eq!(lock.read_word(slot as u64 * 8), 0, "place {slot} lost bytes");
        }
    }
}

/// The driver is told of both halves: it refuses an entry of one.
#[test]
fn tables_whose_entries_have_two_halves_leave_and_come_back() {
    // spec: memory §3.4 operation 11, memory §4.5, memory §4.6
    let (host, tables) = host_of("dual-entries", VIRTUAL, 80);
    let mut players = [Player::new(&host), Player::new(&host)];
    for player in &mut players {
        for _ in 0..24 {
            player.spread().expect("the other has nothing to run");
        }
    }
    for round in 0..3u64 {
        for (number, player) in (0..).zip(&mut players) {
            if round > 0 {
                player.look(pattern::seed(number, round - 1));
            }
            player.work(pattern::seed(number, round));
        }
    }
    assert!(tables.0.lock().unwrap().len() >= 8, "they take turns");
    host.check_invariants().unwrap();
    assert_eq!(host.stopped(), None);
}

#[test]
fn the_tables_of_the_idle_leave_and_come_back_and_no_byte_differs() {
    // spec: memory §4.6, memory §5.1, memory §8.2
    for mode in [VIRTUAL, Mode::Real] {
        // One process wants more than half of it, so two are never there at once.
        let (host, tables) = host(mode, 40);
        let mut players = [Player::new(&host), Player::new(&host)];
        for player in &mut players {
            for _ in 0..24 {
                player.spread().expect("the other has nothing to run");
            }
        }
        assert!(!tables.0.lock().unwrap().is_empty(), "{mode:?}: the first one's tables left");
        for round in 0..6u64 {
            for (number, player) in (0..).zip(&mut players) {
                if round > 0 {
                    player.look(pattern::seed(number, round - 1));
                }
                player.work(pattern::seed(number, round));
            }
        }
        let seen = tables.0.lock().unwrap();
        let bytes_of = |process: u32| seen.iter().filter(move |moved| moved.1 == process).map(|moved| moved.2);
        for process in [1, 2] {
            // With each turn all of a process's tables leave, and come back whole.
            let of_turns: Vec<u64> = bytes_of(process).skip(2).collect();
            assert!(of_turns.len() >= 6, "{mode:?}: process {process} has its turns: {seen:?}");
            assert!(of_turns.iter().all(|bytes| *bytes == of_turns[0] && *bytes > 24 * PAGE_BYTES), "{seen:?}");
        }
        for process in [1, 2] {
            let order: Vec<bool> = seen.iter().filter(|moved| moved.1 == process).map(|moved| moved.0).collect();
            assert!(
                order.iter().enumerate().all(|(at, came)| *came == (at % 2 == 1)),
                "left, came, left, …: {order:?}"
            );
        }
    }
}

#[test]
fn no_more_is_promised_than_a_process_can_have_alone() {
    // spec: memory §4.6, memory §9.2
    let (host, tables) = host(VIRTUAL, 40);
    let mut first = Player::new(&host);
    let mut second = Player::new(&host);
    let refusal = loop {
        if let Err(refusal) = second.spread() {
            break refusal;
        }
    };
    assert_eq!(refusal.status, NtStatus::NO_MEMORY);
    assert_eq!(tables.0.lock().unwrap().len(), 1, "the first one's left, once");
    // The kernel refuses a range that no tables could ever hold at once, and evicts no tables for it.
    let zeros = GpuVaReservation { size_bytes: 1 << 46, zero: true, ..GpuVaReservation::default() };
    let refusal = second.client.gpu.device().reserve_gpu_va(zeros).unwrap_err();
    assert_eq!(refusal.status, NtStatus::NO_MEMORY);
    second.work(5);
    first.work(6);
    second.look(5);
    first.look(6);
}

#[test]
fn a_process_that_comes_when_all_is_taken_gets_its_tables() {
    // spec: memory §4.6
    let (host, _) = host(VIRTUAL, 40);
    let mut players: Vec<Player> = Vec::new();
    for number in 0..6 {
        let mut player = Player::new(&host);
        for _ in 0..12 {
            player.spread().expect("the others have nothing to run");
        }
        player.work(pattern::seed(number, 0));
        players.push(player);
    }
    for (number, player) in (0..).zip(&mut players) {
        player.look(pattern::seed(number, 0));
    }
}
