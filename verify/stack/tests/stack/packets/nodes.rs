//! Buffers at GPU addresses beside those with lists, and contexts that share a node.

use d3dkmt::{DeviceState, VirtualContext};
use dxgk_host::Mode;
use softgpu_umd::{Commands, DmaBuffers, ListedCommands, SurfaceKind};
use wddm_types::{NodeId, NtStatus};

use super::{COPY, context, drain, fence, physical, word};
use stack::world::{Client, MIB, VIRTUAL, client, host};

#[test]
fn a_buffer_at_an_address_names_only_the_primaries_that_it_writes() {
    // spec: memory §5.6, memory §10.1
    // seed: R16, R23
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
