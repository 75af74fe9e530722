//! Allocations come in when they are listed, stay while they are counted, and are refused when they do not fit.

use conformance::{Client, MIB, VRAM_BYTES, World, over_every_link};
use d3dkmt::{EvictFlags, MakeResidentFlags, ResidencyStatus};
use softgpu_umd::{Surface, SurfaceKind, UmdError};
use wddm_types::NtStatus;

use super::status;

over_every_link!(a_list_brings_in_and_counts, what_does_not_fit_is_refused_whole, what_is_destroyed_is_gone);

fn usage(client: &Client) -> u64 {
    client.gpu.adapter().video_memory_info(true).expect("an adapter").current_usage_bytes
}

fn evict(client: &Client, surface: &Surface) -> Result<u64, d3dkmt::Refusal> {
    client.gpu.device().evict(vec![surface.allocation().handle()], EvictFlags::empty())
}

// spec: memory §5.2
fn a_list_brings_in_and_counts(world: &World) {
    let client = world.client();
    let before = usage(&client);
    let surface = client.gpu.create_surface(SurfaceKind::Local, MIB).expect("a surface");
    assert_eq!(surface.allocation().residency(), Ok(ResidencyStatus::NotResident));
    for count in 1..=2 {
        client.gpu.pin(&surface).expect("room");
        assert_eq!(usage(&client), before + MIB, "counted {count} times, there once");
    }
    assert_eq!(surface.allocation().residency(), Ok(ResidencyStatus::ResidentInGpuMemory));
    evict(&client, &surface).expect("counted twice");
    assert_eq!(surface.allocation().residency(), Ok(ResidencyStatus::ResidentInGpuMemory));
    evict(&client, &surface).expect("counted once");
    assert_eq!((surface.allocation().residency(), usage(&client)), (Ok(ResidencyStatus::NotResident), before));
    assert_eq!(status(evict(&client, &surface)), NtStatus::INVALID_PARAMETER, "not counted any more");
}

// spec: memory §5.2, memory §10.4
fn what_does_not_fit_is_refused_whole(world: &World) {
    let client = world.client();
    let half = || client.gpu.create_surface(SurfaceKind::Local, VRAM_BYTES / 2).expect("backing store");
    let surfaces = [half(), half(), half()];
    let handles = |many: &[Surface]| many.iter().map(|surface| surface.allocation().handle()).collect();
    let list = |many| client.gpu.paging().make_resident(handles(many), MakeResidentFlags::empty());
    let before = usage(&client);
    let refusal = list(&surfaces).expect_err("half as much again as there is");
    assert_eq!(refusal.status, NtStatus::NO_MEMORY);
    assert_eq!(refusal.bytes_to_trim, 0, "no trim helps: {refusal}");
    assert_eq!(usage(&client), before, "nothing has changed");
    assert_eq!(status(evict(&client, &surfaces[0])), NtStatus::INVALID_PARAMETER, "nothing was counted");
    list(&surfaces[..1]).expect("there is room for one");
    let third = client.gpu.create_surface(SurfaceKind::Local, 3 * VRAM_BYTES / 4).expect("backing store");
    let refusal = list(&[third]).expect_err("beside the one it does not fit");
    assert_eq!(refusal.status, NtStatus::NO_MEMORY);
    assert!(refusal.bytes_to_trim > 0 && refusal.bytes_to_trim <= VRAM_BYTES / 2, "{refusal}");
}

fn what_is_destroyed_is_gone(world: &World) {
    let client = world.client();
    let before = usage(&client);
    let surface = client.pinned(SurfaceKind::Local, MIB);
    let handle = surface.allocation().handle();
    drop(surface);
    assert_eq!(usage(&client), before);
    let list = client.gpu.paging().make_resident(vec![handle], MakeResidentFlags::empty());
    assert_eq!(status(list), NtStatus::INVALID_PARAMETER);
    // All that there is can be had again and again: nothing stays behind.
    for _ in 0..8 {
        client.pinned(SurfaceKind::Local, 3 * VRAM_BYTES / 4);
    }
    let refused = client.gpu.create_surface(SurfaceKind::System, 1 << 40).err();
    assert!(matches!(refused, Some(UmdError::Refused(refusal)) if refusal.status == NtStatus::NO_MEMORY));
}
