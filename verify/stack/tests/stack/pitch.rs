//! A segment that aligns pitches, through the stack: the driver lays rows out further apart there, and packs them again
//! wherever content leaves.

use std::sync::Arc;

use d3dkmt::{Allocation, Context, EvictFlags, MakeResidentFlags, Residency};
use ddi::PowerState;
use dxgk_host::{Host, HostConfig, Mode, Profile};
use softgpu_spec::private_data::{AllocationRequest, Details};
use softgpu_umd::{DmaBuffers, ListedCommands, SurfaceKind, context_data};
use wddm_types::{NodeId, NtStatus};

use stack::world::{Client, MIB, VIRTUAL, client};

const ROW: u64 = 4096;
const PITCH: u64 = 6144;
const ROWS: u64 = 32;
/// Number of the segment.
const PITCHED: u32 = 3;

fn host(mode: Mode) -> Arc<Host> {
    let mut profile = *Profile::named("two-memories").expect("a built-in profile");
    profile.driver.pitch_aligned = true;
    let config = HostConfig {
        vram_bytes: 8 * MIB,
        page_table_bytes: 2 * MIB,
        system_bytes: 64 * MIB,
        ..HostConfig::new(&profile, mode)
    };
    Host::start(config).expect("the host starts")
}

fn request(kind: SurfaceKind, bytes: u64) -> AllocationRequest {
    let cpu_visible = kind == SurfaceKind::System;
    AllocationRequest { kind, cpu_visible, cached: false, accessed_physically: true, size_bytes: bytes }
}

/// Rows of an image for the segment that aligns pitches.
fn rows() -> Details {
    Details {
        supported_segments: 1 << (PITCHED - 1),
        preferred_segment: PITCHED,
        row_bytes: ROW as u32,
        pitch_aligned_size_bytes: ROWS * PITCH,
        ..Details::default()
    }
}

fn arrive(client: &Client, allocation: &Allocation) {
    let made = client.gpu.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).expect("room");
    if let Residency::Pending { paging_fence_value, .. } = made {
        client.gpu.device().wait(&[(client.gpu.paging().fence(), paging_fence_value)]).expect("it comes");
    }
}

fn drain(client: &Client, context: &Context, commands: &ListedCommands) {
    commands.render(context).expect("the lists name what is resident");
    let done = client.gpu.device().create_native_fence(Default::default()).expect("a fence");
    context.signal(&done, 1).expect("it is queued");
    client.gpu.device().wait(&[(&done, 1)]).expect("it runs");
}

fn value(word: u64) -> u64 {
    word * 0x9E37_79B9 + 5
}

#[test]
fn rows_are_apart_in_the_segment_and_packed_in_system_memory() {
    // spec: memory §1.5, memory §2.6, memory §3.4
    // seed: M11
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode);
        let client = client(&host);
        let context =
            Context::create(client.gpu.device(), NodeId(1), context_data(DmaBuffers::Contiguous).to_vec()).unwrap();
        let made = |request: AllocationRequest| client.gpu.device().create_allocation(request.encode().to_vec());
        let bytes = ROWS * ROW;
        let [from, to] = [(); 2].map(|()| made(request(SurfaceKind::System, bytes)).expect("system memory"));
        let data = request(SurfaceKind::Local, bytes).encode_with(&rows()).to_vec();
        let image = client.gpu.device().create_allocation(data).expect("an image");
        let words = bytes / 8;
        from.lock().unwrap().write_words(0, &(0..words).map(value).collect::<Vec<u64>>());
        for allocation in [&from, &to, &image] {
            arrive(&client, allocation);
        }
        // The GPU draws rows where they lie, a pitch apart.
        let mut draw = ListedCommands::new();
        for row in 0..ROWS as u32 {
            draw.copy((&from, row * ROW as u32), (&image, row * PITCH as u32), ROW);
        }
        drain(&client, &context, &draw);
        // Out: the driver packs them.
        client.gpu.device().evict(vec![image.handle()], EvictFlags::empty()).expect("it is on the list");
        let lock = image.lock().expect("it is in system memory");
        for word in 0..words {
            assert_eq!(lock.read_word(word * 8), value(word), "word {word}, {mode:?}");
        }
        drop(lock);
        // In, through a sleep, and back to the GPU: they are apart again.
        arrive(&client, &image);
        host.power_transition(PowerState::Hibernate).expect("it falls asleep");
        host.power_transition(PowerState::On).expect("it wakes");
        for allocation in [&from, &to, &image] {
            arrive(&client, allocation);
        }
        let mut read = ListedCommands::new();
        for row in 0..ROWS as u32 {
            // Backwards, so that a copy of all at once would show.
            read.copy((&image, row * PITCH as u32), (&to, (ROWS as u32 - 1 - row) * ROW as u32), ROW);
        }
        drain(&client, &context, &read);
        let lock = to.lock().expect("system memory");
        for word in 0..words {
            let (row, into) = (word * 8 / ROW, word * 8 % ROW);
            let source = ((ROWS - 1 - row) * ROW + into) / 8;
            assert_eq!(lock.read_word(word * 8), value(source), "word {word}, {mode:?}");
        }
    }
}

#[test]
fn what_has_no_rows_has_no_place_there_and_nothing_reaches_behind_the_last() {
    // spec: memory §1.5, memory §2.6, memory §9.3
    // seed: M11
    let host = host(VIRTUAL);
    let client = client(&host);
    let base = request(SurfaceKind::Local, ROWS * ROW);
    let wrong = [
        Details { pitch_aligned_size_bytes: 0, ..rows() },
        Details { row_bytes: 0, ..rows() },
        Details { row_bytes: 4100, ..rows() },
        Details { pitch_aligned_size_bytes: ROWS * ROW - 8, ..rows() },
        Details { pitch_aligned_size_bytes: ROWS * PITCH + 8, ..rows() },
        Details { eviction_segments: 1 << (PITCHED - 1), ..rows() },
    ];
    for details in wrong {
        let refused = client.gpu.device().create_allocation(base.encode_with(&details).to_vec());
        assert_eq!(refused.map(drop).expect_err("a rule is broken").status, NtStatus::INVALID_PARAMETER, "{details:?}");
    }
    let endless = Details { pitch_aligned_size_bytes: u64::MAX / ROWS / 8 * ROWS * 8, ..rows() };
    let refused = client.gpu.device().create_allocation(base.encode_with(&endless).to_vec());
    assert_eq!(refused.map(drop).expect_err("no segment is so large").status, NtStatus::GRAPHICS_NO_VIDEO_MEMORY);
    let scattered = AllocationRequest { accessed_physically: false, ..base };
    let refused = client.gpu.device().create_allocation(scattered.encode_with(&rows()).to_vec());
    assert_eq!(refused.map(drop).expect_err("one piece").status, NtStatus::INVALID_PARAMETER);
    // An allocation that may also lie where rows are packed is accessible only up to its packed size.
    let either = Details { supported_segments: 1 | 1 << (PITCHED - 1), ..rows() };
    let either = client.gpu.device().create_allocation(base.encode_with(&either).to_vec()).expect("two places");
    let only = client.gpu.device().create_allocation(base.encode_with(&rows()).to_vec()).expect("one place");
    let context =
        Context::create(client.gpu.device(), NodeId(1), context_data(DmaBuffers::Contiguous).to_vec()).unwrap();
    arrive(&client, &either);
    arrive(&client, &only);
    let last = |pitch: u64| ((ROWS - 1) * pitch) as u32;
    let status = |allocation: &Allocation, at: u32| {
        let mut commands = ListedCommands::new();
        commands.fill((allocation, at), ROW, 1);
        commands.render(&context).map(drop).map_err(|refusal| refusal.status)
    };
    assert_eq!(status(&only, last(PITCH)), Ok(()));
    assert_eq!(status(&only, 4 * (ROWS * ROW) as u32), Err(NtStatus::INVALID_PARAMETER));
    assert_eq!(status(&either, last(ROW)), Ok(()));
    assert_eq!(status(&either, last(PITCH)), Err(NtStatus::INVALID_PARAMETER));
    // Neither has a GPU virtual address.
    let mapped = client.gpu.paging().map(&only, ROWS * ROW / 4096, true);
    assert_eq!(mapped.map(drop).expect_err("two layouts").status, NtStatus::INVALID_PARAMETER);
}
