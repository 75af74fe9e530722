//! Packet contexts on the whole stack: buffers with lists that are patched, buffers in GPU address spaces, refusals and the processes that
//! pay for them.

mod data;
mod destroys;
mod lists;
mod mixed;
mod nodes;
mod parts;
mod presents;
mod said;
mod segments;
mod sleep;
mod unlocks;

use std::sync::{Arc, Mutex};

use d3dkmt::{Allocation, Context, DeviceState, EvictFlags, Fence, MakeResidentFlags, Refusal, Residency};
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use events::{Event, Tracer};
use kmt_link::Link;
use softgpu_kmd::{KmdConfig, Layout};
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::{DmaBuffers, Gpu, ListedCommands, SurfaceKind, context_data};
use stack::world::{Client, MIB, VIRTUAL, client, host};
use wddm_types::{NodeId, NtStatus};

const COPY: NodeId = NodeId(1);

/// Notes the events of packets.
#[derive(Clone, Default)]
struct Packets(Arc<Mutex<Vec<Event>>>);

impl Tracer for Packets {
    fn event(&mut self, _now_ns: u64, event: &Event) {
        let kept = matches!(
            event,
            Event::PacketStarted { .. }
                | Event::DmaBufferCreated { .. }
                | Event::DmaBufferDestroyed { .. }
                | Event::DeviceSuspended { .. }
                | Event::Moved { .. }
        );
        if kept {
            self.0.lock().unwrap().push(event.clone());
        }
    }
}

impl Packets {
    /// Of each packet that was started, whether it was patched after it had been queued.
    fn patched(&self) -> Vec<bool> {
        let events = self.0.lock().unwrap();
        events
            .iter()
            .filter_map(|e| if let Event::PacketStarted { patched, .. } = e { Some(*patched) } else { None })
            .collect()
    }

    fn count(&self, which: impl Fn(&Event) -> bool) -> usize {
        self.0.lock().unwrap().iter().filter(|event| which(event)).count()
    }
}

fn traced(mode: Mode, vram_bytes: u64) -> (Arc<Host>, Packets) {
    let packets = Packets::default();
    let profile = Profile::named("discrete-4k").unwrap();
    let config = HostConfig {
        vram_bytes,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(packets.clone()),
        ..HostConfig::new(profile, mode)
    };
    (Host::start(config).unwrap(), packets)
}

/// An allocation that buffers may name by physical address, on the list and not waited for.
fn physical(client: &Client, kind: SurfaceKind, bytes: u64) -> Arc<Allocation> {
    let allocation = unlisted(client, kind, bytes);
    client.gpu.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).unwrap();
    allocation
}

fn unlisted(client: &Client, kind: SurfaceKind, bytes: u64) -> Arc<Allocation> {
    requested(client, kind, bytes, false)
}

fn requested(client: &Client, kind: SurfaceKind, bytes: u64, cached: bool) -> Arc<Allocation> {
    let cpu_visible = kind != SurfaceKind::Local;
    let request = AllocationRequest { kind, cpu_visible, cached, accessed_physically: true, size_bytes: bytes };
    client.gpu.device().create_allocation(request.encode().to_vec()).unwrap()
}

fn context(client: &Client, buffers: DmaBuffers) -> Context {
    Context::create(client.gpu.device(), COPY, context_data(buffers).to_vec()).unwrap()
}

fn fence(client: &Client) -> Fence {
    client.gpu.device().create_native_fence(Default::default()).unwrap()
}

/// Waits until everything rendered so far is done.
fn drain(client: &Client, context: &Context) -> Result<(), Refusal> {
    let done = fence(client);
    context.signal(&done, 1)?;
    client.gpu.device().wait(&[(&done, 1)])
}

fn word(allocation: &Arc<Allocation>, offset: u64) -> u64 {
    allocation.lock().unwrap().read_word(offset)
}

#[test]
fn a_buffer_with_lists_moves_real_bytes() {
    // spec: memory §5.6, memory §7.1, memory §7.3, memory §7.4
    // seed: R02, M50, M53
    for mode in [VIRTUAL, Mode::Real] {
        for buffers in [DmaBuffers::Contiguous, DmaBuffers::Aperture] {
            let (host, packets) = traced(mode, 4 * MIB);
            let client = client(&host);
            let context = context(&client, buffers);
            let (from, local, to) = (
                physical(&client, SurfaceKind::System, 8192),
                physical(&client, SurfaceKind::Local, MIB),
                physical(&client, SurfaceKind::System, 8192),
            );
            from.lock().unwrap().write_words(0, &(0..1024).map(|n| n * 3).collect::<Vec<u64>>());
            // The client does not wait for the paging fence: the kernel runs no packet before its addresses hold.
            let mut commands = ListedCommands::new();
            commands.copy((&from, 0), (&local, 4096), 8192).fill((&local, 4096 + 8), 8, 7);
            commands.copy((&local, 4096), (&to, 0), 8192);
            commands.render(&context).unwrap();
            drain(&client, &context).unwrap();
            assert_eq!([0, 8, 16, 8184].map(|at| word(&to, at)), [0, 7 << 32 | 7, 6, 3069], "{mode:?} {buffers:?}");
            assert_eq!(packets.patched(), [false], "everything was pre-patched");
            let segment = if buffers == DmaBuffers::Contiguous { 0 } else { 2 };
            let made = packets.count(|e| matches!(e, Event::DmaBufferCreated { segment: s, .. } if *s == segment));
            assert_eq!(made, 1, "{buffers:?}");
        }
    }
}

/// The set names two apertures, and the first is full: the second shows the buffer.
#[test]
fn buffers_are_shown_by_the_first_aperture_that_has_room() {
    // spec: memory §7.1
    for mode in [VIRTUAL, Mode::Real] {
        let first = Profile::named("wddm1-banks").unwrap();
        let driver = KmdConfig { layout: Layout::TwoApertures, ..first.driver };
        let profile = Profile { driver, aperture_bytes: 32 * MIB, ..*first };
        let packets = Packets::default();
        let config = HostConfig {
            vram_bytes: 4 * MIB,
            page_table_bytes: 16 * MIB,
            system_bytes: 64 * MIB,
            tracer: Box::new(packets.clone()),
            ..HostConfig::new(&profile, mode)
        };
        let host = Host::start(config).unwrap();
        let gpu = Gpu::open(ProcessLink::new(host) as Arc<dyn Link>).unwrap();
        let mut full = Vec::new();
        for size_bytes in [MIB, 65536, 4096] {
            let request = AllocationRequest {
                kind: SurfaceKind::System,
                cpu_visible: true,
                cached: false,
                accessed_physically: true,
                size_bytes,
            };
            loop {
                let allocation = gpu.device().create_allocation(request.encode().to_vec()).unwrap();
                if gpu.paging().make_resident(vec![allocation.handle()], MakeResidentFlags::empty()).is_err() {
                    break;
                }
                full.push(allocation);
            }
        }
        let context = Context::create(gpu.device(), COPY, context_data(DmaBuffers::Aperture).to_vec()).unwrap();
        let mut commands = ListedCommands::new();
        commands.fill((&full[0], 0), 4096, 5);
        commands.render(&context).unwrap();
        let done = gpu.device().create_monitored_fence(Default::default(), 0).unwrap();
        context.signal(&done, 1).unwrap();
        gpu.device().wait(&[(&done, 1)]).unwrap();
        assert_eq!(word(&full[0], 8), 5 << 32 | 5, "{mode:?}");
        let made = |which| packets.count(|e| matches!(e, Event::DmaBufferCreated { segment, .. } if *segment == which));
        assert_eq!([2, 3].map(made), [0, 1], "{mode:?}");
    }
}

#[test]
fn dma_buffers_in_local_memory_are_refused() {
    // spec: memory §7.1, memory §1.13
    // seed: M54
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let data = context_data(DmaBuffers::Local).to_vec();
    let refused = Context::create(client.gpu.device(), COPY, data).err().unwrap();
    assert_eq!(refused.status, NtStatus::INVALID_PARAMETER);
    assert!(refused.reason.contains("memory segment"), "{refused}");
    assert_eq!(client.gpu.device().state().unwrap(), DeviceState::Active);
    context(&client, DmaBuffers::Aperture);
}

#[test]
fn buffers_come_as_they_are_needed_and_go() {
    // spec: memory §7.1
    // seed: M51
    let (host, packets) = traced(VIRTUAL, 4 * MIB);
    let client = client(&host);
    for buffers in [DmaBuffers::Aperture, DmaBuffers::Contiguous] {
        let context = context(&client, buffers);
        let target = physical(&client, SurfaceKind::Local, 4096);
        let go = fence(&client);
        context.wait(&go, 1).unwrap();
        let mut commands = ListedCommands::new();
        commands.fill((&target, 0), 4096, 1);
        let queued = (1..).find(|_| commands.render(&context).is_err()).unwrap();
        assert_eq!(commands.render(&context).unwrap_err().status, NtStatus::NO_MEMORY, "scarcity, and nothing changed");
        client.gpu.device().signal(&go, 1).unwrap();
        drain(&client, &context).unwrap();
        let made = packets.count(|e| matches!(e, Event::DmaBufferCreated { .. }));
        let gone = packets.count(|e| matches!(e, Event::DmaBufferDestroyed { .. }));
        assert_eq!(made - gone, 1, "{queued} were needed, one is kept");
        commands.render(&context).unwrap();
        drain(&client, &context).unwrap();
        assert_eq!(packets.count(|e| matches!(e, Event::DmaBufferCreated { .. })), made, "and used again");
        drop(context);
        packets.0.lock().unwrap().clear();
    }
}

#[test]
fn memory_off_the_list_rejects_the_buffer_and_loses_the_device() {
    // spec: memory §5.6, memory §5.8, memory §9.3, memory §10.4
    // seed: R14
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let innocent = client(&host);
        let innocent_context = context(&innocent, DmaBuffers::Aperture);
        let target = physical(&innocent, SurfaceKind::System, 4096);
        for listed_but_not_physical in [false, true] {
            let guilty = client(&host);
            let context = context(&guilty, DmaBuffers::Aperture);
            let surface = guilty.pinned(SurfaceKind::Local, 4096);
            let away = unlisted(&guilty, SurfaceKind::Local, 4096);
            let wrong = if listed_but_not_physical { surface.allocation() } else { &away };
            let mut commands = ListedCommands::new();
            commands.fill((wrong, 0), 4096, 1);
            let refused = commands.render(&context).unwrap_err();
            assert_eq!(refused.status, NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE, "{refused}");
            assert_eq!(guilty.gpu.device().state().unwrap(), DeviceState::ErrorDmaFault);
            assert_eq!(commands.render(&context).unwrap_err().status, NtStatus::DEVICE_REMOVED);
        }
        let mut commands = ListedCommands::new();
        commands.fill((&target, 0), 4096, 5);
        commands.render(&innocent_context).unwrap();
        drain(&innocent, &innocent_context).unwrap();
        assert_eq!(word(&target, 0), 5 << 32 | 5, "{mode:?}: no other process noticed");
        assert_eq!(innocent.gpu.device().state().unwrap(), DeviceState::Active);
    }
}

/// A packet that is queued when its memory is evicted, or destroyed, still runs on it.
#[test]
fn queued_buffers_keep_what_leaves_the_list() {
    // spec: memory §5.3, memory §10.1, memory §6.2
    let host = host(VIRTUAL, 2 * MIB);
    let client = client(&host);
    let context = context(&client, DmaBuffers::Aperture);
    let (local, to) = (physical(&client, SurfaceKind::Local, MIB), physical(&client, SurfaceKind::System, 4096));
    let go = fence(&client);
    context.wait(&go, 1).unwrap();
    let mut commands = ListedCommands::new();
    commands.fill((&local, 0), 4096, 9).copy((&local, 0), (&to, 0), 4096);
    commands.render(&context).unwrap();
    let device = client.gpu.device();
    device.evict(vec![local.handle()], EvictFlags::empty()).unwrap();
    drop(local);
    // Others want the room at once; they get it behind the buffer.
    let other = unlisted(&client, SurfaceKind::Local, 2 * MIB);
    let residency = client.gpu.paging().make_resident(vec![other.handle()], MakeResidentFlags::empty());
    assert!(matches!(residency, Ok(Residency::Pending { .. })), "{residency:?}");
    device.signal(&go, 1).unwrap();
    drain(&client, &context).unwrap();
    assert_eq!(word(&to, 8), 9 << 32 | 9);
    let mut more = ListedCommands::new();
    more.copy((&other, 0), (&to, 0), 4096);
    more.render(&context).unwrap();
    drain(&client, &context).unwrap();
    assert_eq!(word(&to, 8), 0, "fresh memory, not the other one's");
}

/// A lock moves an allocation between queueing and scheduling: the buffer is patched once more.
#[test]
fn what_moves_while_a_buffer_is_queued_is_patched_again() {
    // spec: memory §7.4, memory §10.1, memory §10.4
    // seed: R20
    for mode in [VIRTUAL, Mode::Real] {
        for present in [false, true] {
            let (host, packets) = traced(mode, 4 * MIB);
            let client = client(&host);
            let context = context(&client, DmaBuffers::Aperture);
            // Cached content leaves local memory for a lock (memory §10.1 row 21).
            let source = requested(&client, SurfaceKind::LocalThenSystem, 4096, true);
            let paging = client.gpu.paging();
            paging.make_resident(vec![source.handle()], MakeResidentFlags::empty()).unwrap();
            let target = physical(&client, SurfaceKind::System, 4096);
            let mut first = ListedCommands::new();
            first.fill((&source, 0), 4096, 3);
            first.render(&context).unwrap();
            drain(&client, &context).unwrap();
            let go = fence(&client);
            context.wait(&go, 1).unwrap();
            if present {
                context.present(&source, &target).unwrap();
            } else {
                let mut commands = ListedCommands::new();
                commands.copy((&source, 0), (&target, 0), 4096);
                commands.render(&context).unwrap();
            }
            {
                let lock = source.lock().unwrap();
                assert_eq!(lock.read_word(0), 3 << 32 | 3);
                lock.write_words(8, &[77]);
            }
            client.gpu.device().signal(&go, 1).unwrap();
            drain(&client, &context).unwrap();
            assert_eq!([0, 8].map(|at| word(&target, at)), [3 << 32 | 3, 77], "{mode:?} present {present}");
            let moved = packets.count(|e| matches!(e, Event::Moved { bytes: 4096, .. }));
            assert_eq!(packets.patched(), [false, true], "{mode:?} present {present}");
            assert!(moved > 0, "it left local memory");
        }
    }
}

#[test]
fn present_carries_its_parameters_in_a_list() {
    // spec: memory §5.7
    // seed: R19
    let (host, packets) = traced(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let context = context(&client, DmaBuffers::Contiguous);
    let (source, target) = (physical(&client, SurfaceKind::System, 8192), physical(&client, SurfaceKind::System, 4096));
    source.lock().unwrap().write_words(0, &[11, 12]);
    context.present(&source, &target).unwrap();
    drain(&client, &context).unwrap();
    assert_eq!([word(&target, 0), word(&target, 8)], [11, 12]);
    assert_eq!(packets.patched(), [false]);
    // The list is not a residency list: the named allocation must be resident already.
    let away = unlisted(&client, SurfaceKind::System, 4096);
    let refused = context.present(&source, &away).unwrap_err();
    assert_eq!(refused.status, NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE);
}
