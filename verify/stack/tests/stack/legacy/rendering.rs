//! Rendering from an allocation that the CPU has locked: the kernel refuses it in local memory.

use std::sync::Arc;

use d3dkmt::{Allocation, AllocationListFlags, AllocationListItem, DeviceState};
use ddi::AllocationFlags;
use dxgk_host::{Host, Mode};
use kmt_calls::{Call, PacketCall};
use kmt_link::Link;
use softgpu_spec::private_data::{AllocationRequest, Details};
use softgpu_umd::{ListedCommands, SurfaceKind};
use wddm_types::{CpuPlace, NtStatus, RawHandle};

use super::{BYTES, ENTIRE, Old, RANGE, config, old};
use stack::world::{MIB, VIRTUAL};

fn surface(client: &Old, kind: SurfaceKind, tile_pitch: u32) -> Arc<Allocation> {
    surface_of(client, kind, tile_pitch, BYTES)
}

pub fn surface_of(client: &Old, kind: SurfaceKind, tile_pitch: u32, size_bytes: u64) -> Arc<Allocation> {
    let request = AllocationRequest { kind, cpu_visible: true, cached: false, accessed_physically: true, size_bytes };
    // Tiles of which the kernel keeps track.
    let flags = if tile_pitch == 0 { 0 } else { AllocationFlags::SWIZZLED.bits() };
    let data = request.encode_with(&Details { tile_pitch, flags, ..Details::default() }).to_vec();
    client.gpu.device().create_allocation(data).expect("an allocation")
}

fn first_word(client: &Old, of: &Arc<Allocation>) -> u64 {
    let report = surface(client, SurfaceKind::System, 0);
    client.run(|commands| {
        commands.copy((of, 0), (&report, 0), 8);
    });
    report.lock_legacy(Vec::new(), ENTIRE).expect("a lock").read_word(0)
}

/// Whether a list names it, or a residency list holds it besides: it is rendered from in an aperture.
#[test]
fn what_is_locked_leaves_local_memory_before_it_is_rendered_from() {
    // spec: memory §6.5
    for (mode, listed) in [(VIRTUAL, false), (VIRTUAL, true), (Mode::Real, false), (Mode::Real, true)] {
        let host = Host::start(config(mode)).expect("the host starts");
        let client = old(&host);
        let surface = surface(&client, SurfaceKind::LocalThenSystem, 0);
        if listed {
            client.list(&surface);
        }
        client.run(|commands| {
            commands.fill((&surface, 0), BYTES, 3);
        });
        let lock = surface.lock_legacy(Vec::new(), ENTIRE).expect("a lock");
        assert_eq!(client.places(&surface, ENTIRE).expect("nested"), [CpuPlace::Bar], "{mode:?} {listed}");
        lock.write_words(8, &[4711]);
        client.run(|commands| {
            commands.fill((&surface, 0), 8, 5).copy((&surface, 8), (&surface, 16), 8);
        });
        let places = client.places(&surface, ENTIRE).expect("nested");
        assert!(places.iter().all(|place| *place == CpuPlace::System), "{mode:?} {listed}: {places:?}");
        let words = [0, 8, 16, 24].map(|at| lock.read_word(at));
        assert_eq!(words, [5 << 32 | 5, 4711, 4711, 3 << 32 | 3], "{mode:?} {listed}: no byte is lost");
        drop(lock);
        assert_eq!(first_word(&client, &surface), 5 << 32 | 5, "{mode:?} {listed}");
    }
}

/// For a buffer that its driver refuses nothing leaves its place.
#[test]
fn what_is_locked_stays_where_it_is_when_the_buffer_is_refused() {
    // spec: memory §6.5, memory §9.2
    let host = Host::start(config(VIRTUAL)).expect("the host starts");
    let client = old(&host);
    let surface = surface(&client, SurfaceKind::LocalThenSystem, 0);
    client.run(|commands| {
        commands.fill((&surface, 0), BYTES, 3);
    });
    let _lock = surface.lock_legacy(Vec::new(), ENTIRE).expect("a lock");
    let listed = AllocationListItem { allocation: surface.handle(), flags: AllocationListFlags::WRITE_OPERATION };
    let nothing = AllocationListItem { allocation: RawHandle(0), flags: AllocationListFlags::empty() };
    let call = |command| {
        let context = client.context.handle();
        let (allocation_list, patch_location_list) = (vec![nothing, listed], Vec::new());
        client.link.call(Call::Packet(PacketCall::Render {
            context,
            command,
            allocation_list,
            patch_location_list,
            private_data: Vec::new(),
        }))
    };
    // The first makes the context's buffer.
    for round in 0..2 {
        let before = host.state_digest();
        let refusal = call(vec![0x7f | 1 << 8]).map(drop).expect_err("no command of this device");
        assert_eq!(refusal.status, NtStatus::ILLEGAL_INSTRUCTION, "{refusal}");
        let changed = before.differences(&host.state_digest());
        assert!(round == 0 || changed.is_empty(), "{changed:?}");
        assert_eq!(client.places(&surface, ENTIRE).expect("nested"), [CpuPlace::Bar]);
    }
}

#[test]
fn what_is_locked_and_may_be_nowhere_else_is_not_rendered_from() {
    // spec: memory §6.5, memory §9.2
    for (tile_pitch, kind, how, listed) in [
        (0, SurfaceKind::Local, ENTIRE, false),
        (0, SurfaceKind::Local, ENTIRE, true),
        (super::PITCH, SurfaceKind::LocalThenSystem, RANGE, false),
    ] {
        let host = Host::start(config(VIRTUAL)).expect("the host starts");
        let client = old(&host);
        let surface = surface(&client, kind, tile_pitch);
        if listed {
            client.list(&surface);
        }
        client.run(|commands| {
            commands.fill((&surface, 0), BYTES, 3);
        });
        let lock = surface.lock_legacy(Vec::new(), how).expect("a lock");
        let mut commands = ListedCommands::new();
        commands.fill((&surface, 0), 8, 5);
        let refusal = commands.render(&client.context).map(drop).expect_err("it is locked in local memory");
        assert_eq!(refusal.status, NtStatus::GRAPHICS_CANT_RENDER_LOCKED_ALLOCATION, "{refusal}");
        assert_eq!(client.gpu.device().state().expect("a state"), DeviceState::Active, "the device is not lost");
        assert_eq!(lock.read_word(0), 3 << 32 | 3, "nothing has happened");
        drop(lock);
        commands.render(&client.context).expect("nothing against it");
        assert_eq!(first_word(&client, &surface), 5 << 32 | 5);
    }
}

/// A quiesced device whose list holds an allocation that its own process has locked gets no turn before the unlock: a call that waited for
/// the turn would wait for ever.
#[test]
fn no_call_waits_for_a_turn_that_its_own_lock_keeps_away() {
    // spec: memory §6.5, memory §10.1 row 23
    let host = Host::start(config(VIRTUAL)).expect("the host starts");
    let [client, other] = [old(&host), old(&host)];
    let local = |client: &Old, bytes| surface_of(client, SurfaceKind::Local, 0, bytes);
    let (listed, small) = (local(&client, 3 * MIB), local(&client, MIB));
    client.list(&listed);
    let lock = listed.lock_legacy(Vec::new(), ENTIRE).expect("a lock");
    lock.write_words(0, &[4711]);
    let taker = local(&other, 2 * MIB);
    other.list(&taker);
    let mut commands = ListedCommands::new();
    commands.fill((&small, 0), 4096, 7);
    let refusal = commands.render(&client.context).map(drop).expect_err("it has no turn");
    assert_eq!(refusal.status, NtStatus::GRAPHICS_CANT_RENDER_LOCKED_ALLOCATION, "{refusal}");
    assert_eq!(client.gpu.device().state().expect("a state"), DeviceState::Active, "the device is not lost");
    assert_eq!(lock.read_word(0), 4711, "the lock shows the stored word at any place of the content");
    drop(lock);
    commands.render(&client.context).expect("its turn comes now");
    assert_eq!(first_word(&client, &small), 7 << 32 | 7);
    assert_eq!(first_word(&client, &listed), 4711);
}
