//! Allocations come in when they are listed, stay while they are counted, and are refused when they do not fit.

use std::os::fd::AsFd;

use conformance::{Client, MIB, VRAM_BYTES, World, over_every_link};
use d3dkmt::{EvictFlags, MakeResidentFlags, ResidencyStatus, Section};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::{pread, pwrite};
use softgpu_umd::{Surface, SurfaceKind, UmdError};
use wddm_types::{NtStatus, PAGE_BYTES};

use super::status;

over_every_link!(
    a_list_brings_in_and_counts,
    what_does_not_fit_is_refused_whole,
    what_is_destroyed_is_gone,
    a_section_lies_over_a_file_of_the_process
);

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

/// The section holds the file's content, and when the section has gone the kernel keeps its pages and the process its file.
// spec: memory §2.7
fn a_section_lies_over_a_file_of_the_process(world: &World) {
    const PAGES: u64 = 64;
    let client = world.client();
    let file = memfd_create("shared", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file");
    ftruncate(&file, (PAGES + 2) * PAGE_BYTES).expect("its size");
    let over = || Section::over_file(client.gpu.adapter(), file.as_fd(), PAGE_BYTES, PAGES * PAGE_BYTES);
    assert_eq!(status(over()), NtStatus::NOT_SUPPORTED, "it may become smaller");
    fcntl_add_seals(&file, SealFlags::SHRINK).expect("a seal");
    let stamp = |page: u64| (page + 1) * 0x0101_0101;
    for page in 0..PAGES + 2 {
        pwrite(&file, &stamp(page).to_le_bytes(), page * PAGE_BYTES).expect("a word");
    }
    let word = |at: u64| {
        let mut bytes = [0; 8];
        pread(&file, &mut bytes, at).expect("a word");
        u64::from_le_bytes(bytes)
    };
    let section = over().expect("a good file");
    for page in 0..PAGES {
        assert_eq!(section.bytes().read_word(page * PAGE_BYTES), stamp(page + 1), "page {page}");
        section.bytes().write(page * PAGE_BYTES + 8, &page.to_le_bytes());
        assert_eq!(word((page + 1) * PAGE_BYTES + 8), page, "the file has what is stored in the section");
    }
    drop(section);
    // All that is left of system memory, the section's pages among it.
    let all = || client.gpu.create_surface(SurfaceKind::System, MIB).and_then(|one| client.gpu.pin(&one).map(|()| one));
    let mut lane = client.lane(softgpu_umd::Stage::Hardware);
    let surfaces: Vec<Surface> = std::iter::from_fn(|| all().ok()).collect();
    assert!(surfaces.len() > 16, "{}", surfaces.len());
    for surface in &surfaces {
        let lock = surface.lock().expect("it can be locked");
        assert!((0..MIB / 8).all(|at| lock.read_word(at * 8) == 0), "nothing of the file is there");
        drop(lock);
        client.gpu.pin(surface).expect("room");
        lane.pattern(surface, 5);
        client.run(&mut lane);
    }
    let intact = |page: u64| word(page * PAGE_BYTES) == stamp(page) && word(page * PAGE_BYTES + 16) == 0;
    assert!((0..PAGES + 2).all(intact), "the kernel stores in the file no more");
}
