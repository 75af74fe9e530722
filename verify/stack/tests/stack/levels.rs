//! Page tables of 2 to 6 levels through the whole stack: the same work at addresses that use the highest bits, on every
//! shape of device.

use std::sync::Arc;

use d3dkmt::{EvictFlags, GpuVaMapping, GpuVaProtection, GpuVaReservation};
use ddi::{PageTableUpdateMode, PowerState};
use dxgk_host::{Host, HostConfig, Mode, Profile};
use softgpu_kmd::{KmdConfig, TableHome, TableHomes};
use softgpu_spec::page_table::Shape;
use softgpu_spec::register::counter::ENTRIES_WRITTEN;
use softgpu_umd::{Commands, Stream, StreamConfig, SurfaceKind, pattern};
use wddm_types::{GpuVa, NodeId, NtStatus};

use stack::world::{MIB, VIRTUAL, client};

const TILE: u64 = 65536;

fn host_of(name: &str, mode: Mode) -> Arc<Host> {
    let profile = Profile::named(name).expect("a built-in profile");
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        ..HostConfig::new(profile, mode)
    };
    Host::start(config).unwrap_or_else(|error| panic!("{name}: {error}"))
}

const PROFILES: [(&str, usize, u32); 7] = [
    ("levels-2", 2, 39),
    ("levels-3", 3, 42),
    ("discrete-64k", 4, 48),
    ("levels-5", 5, 57),
    ("levels-6", 6, 60),
    ("levels-apart", 4, 48),
    ("dual-entries", 4, 48),
];

/// At the top of a process's addresses lie the kernel's own pages.
const KERNELS: u64 = 16 * MIB;

#[test]
fn addresses_use_every_bit_of_every_shape() {
    // spec: memory §4.2, memory §4.3
    for (name, levels, bits) in PROFILES {
        for mode in [VIRTUAL, Mode::Real] {
            let host = host_of(name, mode);
            let said = host.describe().reported;
            assert_eq!((said.levels.len(), said.mmu.virtual_address_bits), (levels, bits), "{name}");
            let mut client = client(&host);
            let out = client.pinned(SurfaceKind::System, TILE);
            let surface = client.pinned(SurfaceKind::Local, 4 * MIB);
            // The last addresses below the kernel's own pages, and the same pages at those that VidMm chose.
            let top = GpuVa((1 << bits) - KERNELS - 4 * MIB);
            let reservation = GpuVaReservation { base: top, size_bytes: 4 * MIB, ..GpuVaReservation::default() };
            assert_eq!(client.gpu.device().reserve_gpu_va(reservation).expect("the addresses are free"), top);
            let mapping = GpuVaMapping {
                base: top,
                size_in_pages: 1024,
                protection: GpuVaProtection::WRITE,
                ..GpuVaMapping::default()
            };
            let (va, value) = client.gpu.paging().map_gpu_va(Some(surface.allocation()), mapping).expect("reserved");
            assert_eq!(va, top, "{name}");
            client.gpu.device().wait(&[(client.gpu.paging().fence(), value)]).expect("mapped");
            client.run(|commands| {
                commands.pattern(top, 4 * MIB, 11);
                commands.check(surface.va(), 4 * MIB, 11, out.va(), 1);
                commands.pattern(surface.va(), 4 * MIB, 12);
                commands.check(top, 4 * MIB, 12, out.va(), 2);
                commands.copy(top.offset(3 * MIB), out.va().offset(4096), 4096);
            });
            let bytes = out.lock().expect("system memory");
            assert_eq!(bytes.read_word(0), 0, "{name}: both addresses show the same pages");
            assert_eq!(bytes.read_word(4096), pattern::word(12, 3 * MIB), "{name}");
        }
    }
}

#[test]
fn every_shape_has_addresses_from_64_kib_to_its_bits() {
    // spec: memory §4.3, memory §4.6
    for (name, _, bits) in PROFILES {
        let host = host_of(name, VIRTUAL);
        let client = client(&host);
        let covered: u32 = host.describe().reported.levels.iter().rev().skip(1).map(|level| level.index_bits).sum();
        let first = GpuVa(4096 << covered);
        let reserve = |base: GpuVa| {
            let reservation = GpuVaReservation { base, size_bytes: TILE, ..GpuVaReservation::default() };
            client.gpu.device().reserve_gpu_va(reservation).map_err(|refusal| refusal.status)
        };
        // The process also has the addresses of the root's first entry, except its first pages.
        assert_eq!(reserve(GpuVa(first.0 - TILE)), Ok(GpuVa(first.0 - TILE)), "{name}");
        let surface = client.pinned(SurfaceKind::System, 4096);
        let map = |base| {
            let mapping = GpuVaMapping { base: GpuVa(base), size_in_pages: 1, ..GpuVaMapping::default() };
            let mapped = client.gpu.paging().map_gpu_va(Some(surface.allocation()), mapping);
            mapped.map(|(va, _)| va.0).map_err(|refusal| refusal.status)
        };
        assert_eq!(map(0xf000), Err(NtStatus::INVALID_PARAMETER), "{name}");
        assert_eq!(map(TILE * 16), Ok(TILE * 16), "{name}");
        assert_eq!(reserve(GpuVa(1 << bits)), Err(NtStatus::INVALID_PARAMETER), "{name}");
        // The sign extension names the same page.
        let high = GpuVa((1 << bits) - KERNELS - TILE);
        let extended = GpuVa(high.0 | u64::MAX << bits);
        assert!(reserve(extended).is_ok(), "{name}");
        assert_eq!(reserve(high), Err(NtStatus::CONFLICTING_ADDRESSES), "{name}");
    }
}

#[test]
fn a_fault_names_an_address_of_any_width() {
    // spec: memory §5.8
    for (name, _, bits) in PROFILES {
        let host = host_of(name, VIRTUAL);
        let mut client = client(&host);
        let beyond = GpuVa((1 << bits) - KERNELS - TILE);
        let mut commands = Commands::new();
        commands.fill(beyond, 4096, 1);
        let value = client.stream.submit(&client.gpu, &[], &commands).expect("it is not looked into");
        assert!(client.stream.wait(&client.gpu, value).is_err(), "{name}: nothing is there");
        // Another process does not notice.
        let mut other = stack::world::client(&host);
        let surface = other.pinned(SurfaceKind::Local, TILE);
        other.run(|commands| {
            commands.fill(surface.va(), TILE, 1);
        });
    }
}

#[test]
fn tables_are_written_by_whom_the_driver_names() {
    // spec: memory §4.2, memory §3.4
    for (name, mode, engine_writes) in [
        ("discrete-64k", PageTableUpdateMode::GpuPhysical, true),
        ("tables-by-cpu", PageTableUpdateMode::CpuVirtual, false),
        ("tables-by-address", PageTableUpdateMode::GpuVirtual, true),
        ("levels-apart", PageTableUpdateMode::GpuPhysical, true),
        ("dual-entries", PageTableUpdateMode::GpuPhysical, true),
    ] {
        for time in [VIRTUAL, Mode::Real] {
            let host = host_of(name, time);
            assert_eq!(host.describe().reported.mmu.update_mode, mode);
            let mut client = client(&host);
            let out = client.pinned(SurfaceKind::System, TILE);
            // More than fits: pages move, and the tables with them.
            let surfaces: Vec<_> = (0..4).map(|_| client.gpu.create_surface(SurfaceKind::Local, 3 * MIB)).collect();
            let surfaces: Vec<_> = surfaces.into_iter().map(|surface| surface.expect("a surface")).collect();
            for round in 0..3 {
                for (surface, seed) in surfaces.iter().zip(1..) {
                    client.gpu.pin(surface).expect("the others have left");
                    client.run(|commands| {
                        if round > 0 {
                            commands.check(surface.va(), 3 * MIB, seed, out.va(), seed);
                        }
                        commands.pattern(surface.va(), 3 * MIB, seed);
                    });
                    let handles = vec![surface.allocation().handle()];
                    client.gpu.device().evict(handles, EvictFlags::empty()).expect("it is on the list");
                }
            }
            assert_eq!(out.lock().expect("system memory").read_word(0), 0, "{name}");
            assert_eq!(host.device_register(ENTRIES_WRITTEN) > 0, engine_writes, "{name}");
        }
    }
}

#[test]
fn tables_come_back_after_a_sleep_by_every_way_to_write_them() {
    // spec: memory §4.7, memory §8.4
    for name in ["tables-by-cpu", "tables-by-address", "levels-3", "levels-apart", "dual-entries"] {
        let host = host_of(name, VIRTUAL);
        let mut client = client(&host);
        let out = client.pinned(SurfaceKind::System, TILE);
        let surface = client.pinned(SurfaceKind::Local, MIB);
        client.run(|commands| {
            commands.pattern(surface.va(), MIB, 4);
        });
        host.power_transition(PowerState::Hibernate).expect("it goes to sleep");
        host.power_transition(PowerState::On).expect("it wakes");
        let late = client.pinned(SurfaceKind::Local, MIB);
        client.run(|commands| {
            commands.check(surface.va(), MIB, 4, out.va(), 1);
            commands.pattern(late.va(), MIB, 5);
        });
        assert_eq!(out.lock().expect("system memory").read_word(0), 0, "{name}");
    }
}

#[test]
fn a_root_is_lengthened_and_shortened_under_a_process_that_works() {
    // spec: memory §4.2, memory §4.6
    for mode in [VIRTUAL, Mode::Real] {
        let host = host_of("levels-2", mode);
        let mut client = client(&host);
        let out = client.pinned(SurfaceKind::System, TILE);
        let surface = client.pinned(SurfaceKind::Local, MIB);
        client.run(|commands| {
            commands.pattern(surface.va(), MIB, 1);
        });
        // Each step lies beyond the root that the one before needed; in between work runs, and a late context.
        let mut seen = Vec::new();
        for (step, bits) in [30u32, 32, 35, 38].into_iter().enumerate() {
            let base = GpuVa((1 << bits) + TILE);
            let mapping = GpuVaMapping {
                base,
                size_in_pages: 256,
                protection: GpuVaProtection::WRITE,
                ..GpuVaMapping::default()
            };
            let mut before = Commands::new();
            before.pattern(surface.va(), MIB, 10 + step as u64);
            client.stream.submit(&client.gpu, &[], &before).expect("it runs when the root is there");
            let (va, value) = client.gpu.paging().map_gpu_va(Some(surface.allocation()), mapping).expect("free");
            assert_eq!(va, base);
            client.gpu.device().wait(&[(client.gpu.paging().fence(), value)]).expect("mapped");
            seen.push(base);
            client.run(|commands| {
                for &base in &seen {
                    commands.check(base, MIB, 10 + step as u64, out.va(), u64::from(bits));
                }
                commands.check(surface.va(), MIB, 10 + step as u64, out.va(), 99);
            });
            let mut late = Stream::create(&client.gpu, NodeId(0), StreamConfig::default()).expect("a stream");
            let mut commands = Commands::new();
            commands.check(base, MIB, 10 + step as u64, out.va(), 100);
            let value = late.submit(&client.gpu, &[], &commands).expect("a submission");
            late.wait(&client.gpu, value).expect("under the new root too");
            assert_eq!(out.lock().expect("system memory").read_word(0), 0, "{bits}");
        }
        // The addresses go, the root becomes shorter; the other mappings stay.
        for base in seen {
            client.gpu.device().free_gpu_va(base, MIB).expect("mapped");
            client.run(|commands| {
                commands.check(surface.va(), MIB, 13, out.va(), 101);
            });
        }
        assert_eq!(out.lock().expect("system memory").read_word(0), 0);
        // An index beyond the root faults.
        let mut commands = Commands::new();
        commands.fill(GpuVa(1 << 38), 4096, 1);
        let value = client.stream.submit(&client.gpu, &[], &commands).expect("it is not looked into");
        assert!(client.stream.wait(&client.gpu, value).is_err(), "nothing is there");
    }
}

#[test]
fn a_driver_may_mix_who_writes_tables_and_where_each_level_lives() {
    // spec: memory §4.2, memory §4.3
    let apart = TableHomes { leaf: TableHome::Local, ..TableHomes::all(TableHome::System) };
    let memories = TableHomes { middle: TableHome::Second, paging_leaf: TableHome::Second, ..Default::default() };
    for (name, tables, update_mode) in [
        // spec: memory §4.2, what CPU_VIRTUAL allows: leaf tables in a visible segment, directories in system memory
        ("discrete-64k", apart, PageTableUpdateMode::CpuVirtual),
        ("discrete-64k", apart, PageTableUpdateMode::GpuVirtual),
        ("two-memories", memories, PageTableUpdateMode::GpuVirtual),
        ("two-memories", memories, PageTableUpdateMode::GpuPhysical),
        ("dual-entries", TableHomes::default(), PageTableUpdateMode::GpuVirtual),
    ] {
        let mut profile = *Profile::named(name).expect("a built-in profile");
        profile.driver = KmdConfig { tables, update_mode, ..profile.driver };
        let config = HostConfig {
            vram_bytes: 8 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            ..HostConfig::new(&profile, VIRTUAL)
        };
        let host = Host::start(config).unwrap_or_else(|error| panic!("{name} {update_mode:?}: {error}"));
        let capacity: u64 = host.describe().segments.iter().filter(|s| !s.aperture).map(|s| s.capacity_bytes).sum();
        assert_eq!(capacity, 8 * MIB, "the reserves lie beside what was asked for");
        let mut client = client(&host);
        let out = client.pinned(SurfaceKind::System, TILE);
        let surface = client.pinned(SurfaceKind::Local, 4 * MIB);
        for sleeps in [false, true] {
            if sleeps {
                host.power_transition(PowerState::Hibernate).expect("it goes to sleep");
                host.power_transition(PowerState::On).expect("it wakes");
            }
            client.run(|commands| {
                if sleeps {
                    commands.check(surface.va(), 4 * MIB, 6, out.va(), 1);
                }
                commands.pattern(surface.va(), 4 * MIB, 6);
                commands.check(surface.va(), 4 * MIB, 6, out.va(), 2);
            });
        }
        assert_eq!(out.lock().expect("system memory").read_word(0), 0, "{name} {update_mode:?}");
    }
}

#[test]
fn a_second_memory_that_is_not_there_holds_no_tables() {
    // spec: memory §4.3
    let mut profile = *Profile::named("discrete-64k").expect("a built-in profile");
    profile.driver.tables.root = TableHome::Second;
    let refused = Host::start(HostConfig::new(&profile, VIRTUAL)).map(drop).expect_err("there is one memory segment");
    assert!(refused.to_string().contains("second memory segment"), "{refused}");
}

#[test]
fn an_adapter_whose_scratch_area_finds_no_room_does_not_start() {
    // spec: memory §3.3, memory §3.4, memory §4.7
    // Leaf tables of eight entries: the scratch area needs a thousand of them. Whether content moves by address or only
    // entries, context allocations and notices need it.
    for name in ["by-address", "discrete-4k"] {
        let profile = *Profile::named(name).expect("a built-in profile");
        let profile = Profile { shape: Shape::new(&[3, 18]), ..profile };
        let with = |page_table_bytes| HostConfig { page_table_bytes, ..HostConfig::new(&profile, VIRTUAL) };
        let refused = Host::start(with(4 * MIB)).map(drop).expect_err("it would fail later");
        assert!(refused.to_string().contains("the scratch area of the paging process"), "{name}: {refused}");
    }
    // With room for so many the same device starts.
    let profile = *Profile::named("discrete-4k").expect("a built-in profile");
    let profile = Profile { shape: Shape::new(&[3, 18]), ..profile };
    drop(Host::start(HostConfig { page_table_bytes: 16 * MIB, ..HostConfig::new(&profile, VIRTUAL) }).expect("room"));
}
