//! Copies by address whose driver is told where the tables stand behind their ends (memory §3.4, §4.2).

use dxgk_host::{HostConfig, Profile};
use softgpu_kmd::KmdConfig;
use softgpu_spec::page_table::VALID;

use super::*;
use crate::stubborn::wrapped;
use stack::world::VIRTUAL;

/// Entries of a leaf table here.
const ENTRIES: u64 = 512;
const PAGE: u64 = 4096;

/// The engine reads both entries of each copy to system memory at the addresses that the driver is told, and leaves them in the first
/// two words of the copied content.
fn copies_entries(
    driver: &mut dyn Miniport,
    build: &mut BuildPagingBuffer<'_>,
    seen: &Shared<[u64; 2]>,
) -> Result<(), PagingStatus> {
    let ends = match build.operation {
        PagingOp::VirtualTransfer {
            source, destination, source_page_table, destination_page_table, direction, ..
        } => {
            seen.lock().unwrap().push([source_page_table.0, destination_page_table.0]);
            let told = direction == VirtualDirection::LocalToSystem && !source_page_table.is_null();
            told.then_some([(source, source_page_table), (destination, destination_page_table)])
        }
        _ => None,
    };
    driver.build_paging_buffer(build)?;
    for (word, (of, table)) in (0..).zip(ends.into_iter().flatten()) {
        let source_va = table.0 + of.0 / PAGE % ENTRIES * 8;
        let mut words = Vec::new();
        Command::Copy { source_va, target_va: ends.unwrap()[1].0.0 + word * 8, bytes: 8 }.encode(&mut words);
        build.buffer[build.written..][..words.len()].copy_from_slice(&words);
        build.written += words.len();
    }
    Ok(())
}

fn start(mode: Mode, told: bool) -> (Arc<Host>, Shared<[u64; 2]>) {
    let base = Profile::named("by-address").expect("a built-in profile");
    let profile = Profile { driver: KmdConfig { source_page_table_va: told, ..base.driver }, ..*base };
    let seen = Shared::default();
    let tables = Arc::clone(&seen);
    let build =
        move |driver: &mut dyn Miniport, build: &mut BuildPagingBuffer<'_>| copies_entries(driver, build, &tables);
    let (vram_bytes, system_bytes) = (8 * MIB, 32 * MIB);
    let mut config =
        HostConfig { vram_bytes, page_table_bytes: 16 * MIB, system_bytes, ..HostConfig::new(&profile, mode) };
    config.wrap_miniport = Some(wrapped(Whims { build: Box::new(build), ..Whims::default() }));
    (Host::start(config).expect("the host starts"), seen)
}

#[test]
fn a_copy_by_address_tells_the_tables_behind_its_ends() {
    // spec: memory §3.4 operation 8, memory §4.2
    for mode in [VIRTUAL, Mode::Real] {
        let (host, seen) = start(mode, true);
        let mut client = client(&host);
        let surface = client.gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, 64 << 10, true).unwrap();
        arrive(&client, &surface).unwrap();
        client.run(|commands| {
            commands.fill(surface.va(), 64 << 10, 7);
        });
        leave(&client, &surface, EvictFlags::empty()).unwrap();
        let lock = surface.lock().unwrap();
        let [source, destination, rest] = [0, 8, 16].map(|at| lock.read_word(at));
        assert_eq!(rest, 7 << 32 | 7, "{mode:?}: the copied content");
        assert_eq!([source & VALID, destination & VALID], [VALID; 2], "{mode:?}: {source:#x} {destination:#x}");
        assert!(source & !(PAGE - 1) < 8 * MIB + 16 * MIB, "{mode:?}: {source:#x} is in local memory");
        // The destination's entry names the very page in which it stands now.
        let page = (destination & !(PAGE - 1)) - bus::SYSTEM_BASE;
        let mut words = [0; 16];
        host.system_memory().read(page, &mut words);
        assert_eq!(words[8..], destination.to_le_bytes(), "{mode:?}");
        assert!(seen.lock().unwrap().iter().flatten().all(|table| *table != 0 && table.is_multiple_of(PAGE)));
        drop(lock);
        host.check_invariants().unwrap();
    }
}

#[test]
fn they_are_told_only_to_a_tool_that_asks() {
    // spec: memory §3.4
    let (host, seen) = start(VIRTUAL, false);
    exercise(&host, SurfaceKind::Local, 4 * MIB).unwrap();
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty() && seen.iter().all(|tables| *tables == [0, 0]), "{seen:?}");
}
