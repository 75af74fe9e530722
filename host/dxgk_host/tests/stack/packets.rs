//! Packet contexts on the whole stack: buffers with lists that are patched, buffers in GPU address spaces, what is refused and
//! who pays for it.

use std::sync::{Arc, Mutex};

use crate::world::{Client, MIB, VIRTUAL, client, host};
use d3dkmt::{
    Allocation, AllocationListFlags, AllocationListItem, Context, DeviceState, EvictFlags, Fence, MakeResidentFlags,
    PatchLocationItem, Refusal, Residency, VirtualContext,
};
use dxgk_host::{Host, HostConfig, Mode, Profile};
use events::{Event, Tracer};
use kmt_calls::Call;
use kmt_link::Link;
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::{Commands, DmaBuffers, ListedCommands, SurfaceKind, context_data};
use wddm_types::{NodeId, NtStatus, RawHandle};

const COPY: NodeId = NodeId(1);

/// Remembers what happened to packets.
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
    // seed: R01, R02, R13, R21, M50, M52, M53
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
            // Nobody waits for the paging fence: the kernel does not let an address be used before it holds.
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
    // seed: R14, R10
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
        assert_eq!(word(&target, 0), 5 << 32 | 5, "{mode:?}: nobody else noticed");
        assert_eq!(innocent.gpu.device().state().unwrap(), DeviceState::Active);
    }
}

/// What is queued when its memory is evicted, or destroyed, still runs on it.
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
    // seed: R03, R20
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
    // The list is not a residency list: what it names must be resident already.
    let away = unlisted(&client, SurfaceKind::System, 4096);
    let refused = context.present(&source, &away).unwrap_err();
    assert_eq!(refused.status, NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE);
}

#[test]
fn hostile_lists_are_refused_and_change_nothing() {
    // spec: memory §7.2, memory §7.3, memory §9.2, memory §9.3
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let other_device = d3dkmt::Device::create(client.gpu.adapter()).unwrap();
    let request = AllocationRequest {
        kind: SurfaceKind::System,
        cpu_visible: true,
        cached: false,
        accessed_physically: true,
        size_bytes: 4096,
    };
    let foreign = other_device.create_allocation(request.encode().to_vec()).unwrap();
    let context = context(&client, DmaBuffers::Aperture);
    let target = physical(&client, SurfaceKind::System, 4096);
    let mut good = ListedCommands::new();
    good.fill((&target, 0), 4096, 2).fill((&target, 8), 8, 3);
    let item = |allocation, bits| AllocationListItem { allocation, flags: AllocationListFlags::from_bits_retain(bits) };
    let room = context.sizes().allocation_list_entries as usize;
    type Change = Box<dyn Fn(&mut ListedCommands)>;
    let place = |change: fn(&mut PatchLocationItem)| -> Change { Box::new(move |bad| change(&mut bad.places[0])) };
    let invalid = NtStatus::INVALID_PARAMETER;
    let (foreign_handle, target_handle) = (foreign.handle(), target.handle());
    let device_handle = client.gpu.device().handle();
    let cases: Vec<(&str, NtStatus, Change)> = vec![
        ("an index out of range", invalid, place(|p| p.allocation_index = 2)),
        ("an index far out of range", invalid, place(|p| p.allocation_index = u32::MAX)),
        ("reserved bits of a slot", invalid, place(|p| p.slot_id = 1 << 24)),
        ("a slot that there is not", invalid, place(|p| p.slot_id = 256)),
        ("an address outside the buffer", invalid, place(|p| p.patch_offset = 48)),
        ("an address far outside", invalid, place(|p| p.patch_offset = u32::MAX)),
        ("a split outside the buffer", invalid, place(|p| p.split_offset = 49)),
        ("splits that fall", invalid, place(|p| p.split_offset = 40)),
        ("an offset beyond the allocation", invalid, place(|p| p.allocation_offset = 4096)),
        ("a range beyond the allocation", invalid, place(|p| p.allocation_offset = 8)),
        ("an address in a NULL element", NtStatus::INVALID_USER_BUFFER, place(|p| p.allocation_index = 0)),
        ("an address between two words", NtStatus::INVALID_USER_BUFFER, place(|p| p.patch_offset = 9)),
        ("no patch locations", NtStatus::INVALID_USER_BUFFER, Box::new(|bad| bad.places.clear())),
        ("no commands", invalid, Box::new(|bad| bad.words.clear())),
        ("too many commands", invalid, Box::new(|bad| bad.words = vec![0x100; 1 << 16])),
        ("words that are none", NtStatus::ILLEGAL_INSTRUCTION, Box::new(|bad| bad.words[0] = 0x7f | 1 << 8)),
        (
            "a page-table write",
            NtStatus::PRIVILEGED_INSTRUCTION,
            Box::new(|bad| bad.words = vec![0x83 | 5 << 8, 0, 0, 0, 0, 0x100]),
        ),
        ("a cut command", NtStatus::INVALID_USER_BUFFER, Box::new(|bad| bad.words.truncate(5))),
        ("a write to what is read", invalid, Box::new(move |bad| bad.allocations[1] = item(target_handle, 0))),
        ("reserved flags", invalid, Box::new(move |bad| bad.allocations[1] = item(target_handle, 1 | 1 << 5))),
        ("an offer in a list", invalid, Box::new(move |bad| bad.allocations[1] = item(target_handle, 1 | 1 << 2))),
        ("a handle of another kind", invalid, Box::new(move |bad| bad.allocations[1] = item(device_handle, 1))),
        ("no handle", invalid, Box::new(move |bad| bad.allocations[1] = item(RawHandle(u32::MAX), 1))),
        (
            "another device's allocation",
            NtStatus::GRAPHICS_WRONG_ALLOCATION_DEVICE,
            Box::new(move |bad| bad.allocations[1] = item(foreign_handle, 1)),
        ),
        (
            "a list that is too long",
            invalid,
            Box::new(move |bad| bad.allocations.resize(room + 1, item(target_handle, 1))),
        ),
        ("too many patch locations", invalid, Box::new(move |bad| bad.places.resize(room + 1, bad.places[1]))),
    ];
    for (name, status, change) in cases {
        let mut bad = good.clone();
        change(&mut bad);
        let refused = bad.render(&context).expect_err(name);
        assert_eq!(refused.status, status, "{name}: {refused}");
        assert_eq!(client.gpu.device().state().unwrap(), DeviceState::Active, "{name}");
    }
    assert_eq!(word(&target, 0), 0, "nothing of it ran");
    // NULL elements unbind their slots; there is nothing to patch in them.
    let mut unbound = good.clone();
    let null =
        PatchLocationItem { allocation_index: 0, slot_id: 1, patch_offset: 41, split_offset: 24, ..Default::default() };
    unbound.places.insert(1, null);
    unbound.places.push(null);
    unbound.render(&context).expect("an unbind");
    drain(&client, &context).unwrap();
    assert_eq!([0, 8].map(|at| word(&target, at)), [2 << 32 | 2, 3 << 32 | 3]);
}

#[test]
fn wrong_contexts_and_flags_are_refused() {
    // spec: memory §5.6, sync §2.5
    // seed: R12, R16, R23
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let device = client.gpu.device();
    let flags = kmt_calls::ContextFlags::empty();
    let create = |node, engine_affinity, flags, private_data| Call::CreateContext {
        device: device.handle(),
        node: NodeId(node),
        engine_affinity,
        flags,
        private_data,
    };
    let retained = kmt_calls::ContextFlags::from_bits_retain;
    let refused = [
        (create(7, 1, flags, vec![]), NtStatus::INVALID_PARAMETER),
        (create(1, 0, flags, vec![]), NtStatus::INVALID_PARAMETER),
        (create(1, 3, flags, vec![]), NtStatus::INVALID_PARAMETER),
        (create(1, 1, retained(1 << 9), vec![]), NtStatus::INVALID_PARAMETER),
        (create(1, 1, retained(1), vec![]), NtStatus::INVALID_PARAMETER),
        (create(1, 1, retained(1 << 4), vec![]), NtStatus::NOT_SUPPORTED),
        (create(1, 1, flags, vec![1, 2, 3]), NtStatus::INVALID_PARAMETER),
    ];
    for (call, status) in refused {
        assert_eq!(client.link.call(call.clone()).expect_err("refused").status, status, "{call:?}");
    }
    let listed = context(&client, DmaBuffers::Aperture);
    let virtual_context = VirtualContext::create(device, COPY, vec![]).unwrap();
    let hardware = device.create_context(COPY).unwrap();
    let hardware_queue = hardware.create_kernel_queue().unwrap();
    let render =
        |context| Call::Render { context, command: vec![0x100], allocation_list: vec![], patch_location_list: vec![] };
    let (commands, written_primaries) = (wddm_types::GpuVa(4096), vec![]);
    let submit = Call::SubmitCommand { context: listed.handle(), commands, command_bytes: 8, written_primaries };
    let hardware_handle = hardware_queue.handle();
    for call in [render(virtual_context.handle()), render(hardware_handle), render(RawHandle::NONE), submit] {
        let refused = client.link.call(call.clone()).expect_err("lists belong to contexts that are patched");
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{call:?}");
    }
    client.link.call(render(listed.handle())).expect("a buffer that names nothing");
    drain(&client, &listed).unwrap();
    assert_eq!(device.state().unwrap(), DeviceState::Active);
}

#[test]
fn a_buffer_at_an_address_names_only_the_primaries_that_it_writes() {
    // spec: memory §5.6, memory §10.1
    // seed: R16, R17, R22, R23
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let client = client(&host);
        let device = client.gpu.device();
        let context = VirtualContext::create(device, NodeId(0), vec![]).unwrap();
        let buffer = client.pinned(SurfaceKind::System, 4096);
        let target = client.pinned(SurfaceKind::System, 4096);
        let mut commands = Commands::new();
        commands.fill(target.va(), 4096, 6);
        buffer.lock().unwrap().write_words(0, commands.words());
        let bytes = commands.words().len() as u32 * 8;
        let primary = target.allocation().handle();
        let done = fence(&client);
        context.submit(buffer.va(), bytes, vec![primary; 16]).unwrap();
        context.signal(&done, 1).unwrap();
        device.wait(&[(&done, 1)]).unwrap();
        assert_eq!(target.lock().unwrap().read_word(0), 6 << 32 | 6, "{mode:?}");
        let too_many = context.submit(buffer.va(), bytes, vec![primary; 17]).unwrap_err();
        assert_eq!(too_many.status, NtStatus::INVALID_PARAMETER);
        for (va, bytes) in [(wddm_types::GpuVa(0), 8), (buffer.va().offset(4), 8), (buffer.va(), 7), (buffer.va(), 0)] {
            assert_eq!(context.submit(va, bytes, vec![]).unwrap_err().status, NtStatus::INVALID_PARAMETER);
        }
        // A hardware queue takes the same array, and nothing else of lists.
        let hardware = device.create_context(NodeId(0)).unwrap();
        let queue = hardware.create_kernel_queue().unwrap();
        queue.submit_writing(buffer.va(), bytes, 1, vec![primary]).unwrap();
        let too_many = queue.submit_writing(buffer.va(), bytes, 2, vec![primary; 17]).unwrap_err();
        assert_eq!(too_many.status, NtStatus::INVALID_PARAMETER);
        device.wait(&[(queue.progress(), 1)]).unwrap();
        assert_eq!(device.state().unwrap(), DeviceState::Active);
        let away = client.gpu.create_surface(SurfaceKind::Local, 4096).unwrap();
        let rejected = context.submit(buffer.va(), bytes, vec![away.allocation().handle()]).unwrap_err();
        assert_eq!(rejected.status, NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE);
        assert_eq!(device.state().unwrap(), DeviceState::ErrorDmaFault);
    }
}

#[test]
fn a_fault_of_a_packet_costs_its_device_only() {
    // spec: memory §5.8
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let (guilty, innocent) = (client(&host), client(&host));
        let contexts = [&guilty, &innocent].map(|c| VirtualContext::create(c.gpu.device(), COPY, vec![]).unwrap());
        let submit = |client: &Client, context: &VirtualContext, va| {
            let buffer = client.pinned(SurfaceKind::System, 4096);
            let mut commands = Commands::new();
            commands.fill(va, 4096, 6);
            buffer.lock().unwrap().write_words(0, commands.words());
            let done = fence(client);
            context.submit(buffer.va(), commands.words().len() as u32 * 8, vec![]).unwrap();
            context.signal(&done, 1).map(|()| (buffer, done))
        };
        let target = innocent.pinned(SurfaceKind::System, 4096);
        let wild = submit(&guilty, &contexts[0], wddm_types::GpuVa(0x7fff_0000_0000));
        let (_buffer, done) = submit(&innocent, &contexts[1], target.va()).unwrap();
        innocent.gpu.device().wait(&[(&done, 1)]).unwrap();
        assert_eq!(target.lock().unwrap().read_word(0), 6 << 32 | 6, "{mode:?}");
        if let Ok((_buffer, done)) = wild {
            // Answered when the device is lost, with that.
            let _ = guilty.gpu.device().wait(&[(&done, 1)]);
        }
        assert_eq!(guilty.gpu.device().state().unwrap(), DeviceState::ErrorDmaPageFault, "{mode:?}");
        assert_eq!(innocent.gpu.device().state().unwrap(), DeviceState::Active, "{mode:?}");
    }
}

/// Contexts of several devices share a node; waits hold one of them only; processes die in between.
#[test]
fn contexts_take_turns_on_a_node() {
    // spec: sync §4.1, sync §3.4
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let (a, b, c) = (client(&host), client(&host), client(&host));
        let held = context(&a, DmaBuffers::Aperture);
        let go = fence(&a);
        held.wait(&go, 1).unwrap();
        let target = physical(&a, SurfaceKind::System, 4096);
        let mut commands = ListedCommands::new();
        commands.fill((&target, 0), 4096, 1);
        commands.render(&held).unwrap();
        let busy = context(&b, DmaBuffers::Contiguous);
        let other = physical(&b, SurfaceKind::System, 4096);
        for round in 1..100u32 {
            let mut commands = ListedCommands::new();
            commands.fill((&other, 0), 4096, round);
            // Scarcity is waited out.
            while commands.render(&busy).is_err() {
                drain(&b, &busy).unwrap();
            }
            if round == 50 {
                let dying = context(&c, DmaBuffers::Aperture);
                let memory = physical(&c, SurfaceKind::Local, MIB);
                let mut commands = ListedCommands::new();
                commands.fill((&memory, 0), MIB, 1);
                for _ in 0..8 {
                    commands.render(&dying).unwrap();
                }
                host.process_died(c.link.process());
                std::mem::forget((dying, memory));
            }
        }
        drain(&b, &busy).unwrap();
        assert_eq!(word(&other, 0), 99 << 32 | 99);
        assert_eq!(word(&target, 0), 0, "{mode:?}: its fence has not come");
        a.gpu.device().signal(&go, 1).unwrap();
        drain(&a, &held).unwrap();
        assert_eq!(word(&target, 0), 1 << 32 | 1);
    }
}
