//! Presents of contexts with addresses, and presents in several buffers (memory §5.7, §7.1).

use std::sync::{Arc, Mutex};

use d3dkmt::{Allocation, DestroyFlags, DeviceState, GpuVaMapping, GpuVaProtection, VirtualContext};
use ddi::{PacketScheduling, Present, RenderStatus, SubmitFlags};
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use kmt_calls::{Call, OfferFlags, PacketCall};
use kmt_link::Link;
use wddm_types::{GpuVa, NtStatus, PAGE_BYTES, SegmentId, SegmentSet};

use super::*;
use crate::stubborn::{PacketStep, Shared, Whims, host_in};

/// A call of the driver's Present: the buffer, the source, the destination; and how far it had got.
type Asked = (GpuVa, GpuVa, GpuVa, u32);

/// A driver that notes the calls of its Present and the packets that it is handed.
fn watched(mode: Mode) -> (Arc<Host>, Shared<Asked>, Shared<PacketStep>) {
    let (asked, steps) = (Shared::<Asked>::default(), Shared::<PacketStep>::default());
    let (said, handed) = (Arc::clone(&asked), Arc::clone(&steps));
    let present = move |driver: &mut dyn PacketScheduling, context, present: &mut Present<'_>| {
        let [_, source, target] = present.allocation_list else { panic!("three entries") };
        assert_eq!((source.segment, target.segment), (SegmentId::SYSTEM, SegmentId::SYSTEM), "no physical address");
        assert!(present.patch_locations_out.list.is_empty(), "nothing is patched");
        let (source, target) = (source.virtual_address, target.virtual_address);
        said.lock().unwrap().push((present.dma_buffer_va, source, target, present.multipass_offset));
        driver.present(context, present)
    };
    let hand_over = move |step: PacketStep| {
        if step.flags.contains(SubmitFlags::PRESENT) {
            handed.lock().unwrap().push(step);
        }
    };
    let whims = Whims { packets: true, present: Box::new(present), hand_over: Box::new(hand_over), ..Whims::default() };
    (host_in(mode, 4 * MIB, whims), asked, steps)
}

fn presents(client: &Client) -> VirtualContext {
    VirtualContext::create(client.gpu.device(), COPY, vec![]).unwrap()
}

/// Waits until everything presented so far is done.
fn shown(client: &Client, context: &VirtualContext) {
    let done = fence(client);
    context.signal(&done, 1).unwrap();
    client.gpu.device().wait(&[(&done, 1)]).unwrap();
}

fn filled(client: &Client, bytes: u64, first: u64) -> Arc<Allocation> {
    let source = physical(client, SurfaceKind::System, bytes);
    source.lock().unwrap().write_words(0, &[first, first + 1]);
    source
}

/// The client maps nothing: buffer and allocations are shown by the kernel.
#[test]
fn a_present_in_an_address_space_moves_real_bytes() {
    // spec: memory §5.7, memory §7.2, memory §7.4
    // seed: R19
    for mode in [VIRTUAL, Mode::Real] {
        let (host, asked, steps) = watched(mode);
        let client = client(&host);
        let context = presents(&client);
        let (source, target) = (filled(&client, 8192, 11), physical(&client, SurfaceKind::System, 4096));
        // The packet waits for the paging fence, not the client.
        let middle = physical(&client, SurfaceKind::Local, 8192);
        context.present(&source, &middle).unwrap();
        context.present(&middle, &target).unwrap();
        shown(&client, &context);
        assert_eq!([word(&target, 0), word(&target, 8)], [11, 12], "{mode:?}");
        // A second time they are where they were.
        source.lock().unwrap().write_words(0, &[21]);
        context.present(&source, &middle).unwrap();
        context.present(&middle, &target).unwrap();
        shown(&client, &context);
        assert_eq!([word(&target, 0), word(&target, 8)], [21, 12], "{mode:?}");
        let asked = asked.lock().unwrap();
        assert!(asked.iter().all(|asked| !asked.0.is_null() && asked.3 == 0), "{asked:?}");
        assert_eq!([asked[0].1, asked[0].2], [asked[2].1, asked[2].2], "mapped once");
        assert_eq!([asked[1].1, asked[1].2], [asked[3].1, asked[3].2], "mapped once");
        assert_eq!(asked[0].2, asked[1].1, "what may be written may be read there");
        let steps = steps.lock().unwrap();
        assert_eq!(steps.len(), 4);
        for step in steps.iter() {
            assert_eq!((step.flags, step.patch, step.end_offset), (SubmitFlags::PRESENT, false, 32), "one copy");
            assert_eq!(
                step.private_data.last_chunk(),
                Some(&4u32.to_le_bytes()),
                "the driver's private bytes beside it"
            );
        }
        host.check_invariants().unwrap();
    }
}

/// The memory of a queued present stays in place until the present has run, whatever the process does meanwhile.
#[test]
fn queued_presents_keep_what_they_name() {
    // spec: memory §5.3, memory §5.7, memory §6.2
    for mode in [VIRTUAL, Mode::Real] {
        let (host, asked, _) = watched(mode);
        let client = client(&host);
        let context = presents(&client);
        let device = client.gpu.device();
        let (source, target) = (filled(&client, 4096, 5), physical(&client, SurfaceKind::System, 4096));
        let go = fence(&client);
        context.wait(&go, 1).unwrap();
        context.present(&source, &target).unwrap();
        device.evict(vec![source.handle()], EvictFlags::empty()).unwrap();
        source.destroy(DestroyFlags::empty()).unwrap();
        let (buffer, at, ..) = asked.lock().unwrap()[0];
        for va in [buffer, at] {
            let refused = device.free_gpu_va(va, PAGE_BYTES).unwrap_err();
            assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "the kernel's own");
            let other = physical(&client, SurfaceKind::System, 4096);
            let refused = client.gpu.paging().map_at(&other, va, 0, 1, true).unwrap_err();
            assert_eq!(refused.status, NtStatus::CONFLICTING_ADDRESSES, "{refused}");
        }
        device.signal(&go, 1).unwrap();
        shown(&client, &context);
        assert_eq!(word(&target, 0), 5, "{mode:?}");
        // The view went with its allocation.
        let again = filled(&client, 4096, 6);
        context.present(&again, &target).unwrap();
        shown(&client, &context);
        assert_eq!(word(&target, 0), 6, "{mode:?}");
        host.check_invariants().unwrap();
        // A context goes with its queued work.
        context.wait(&go, 2).unwrap();
        context.present(&again, &target).unwrap();
        drop(context);
        let second = presents(&client);
        again.lock().unwrap().write_words(0, &[7]);
        second.present(&again, &target).unwrap();
        shown(&client, &second);
        assert_eq!(word(&target, 0), 7, "{mode:?}");
        host.check_invariants().unwrap();
    }
}

#[test]
fn the_list_of_a_present_is_no_residency_list() {
    // spec: memory §5.6, memory §5.7, memory §5.9, memory §9.3
    // seed: R19
    for offered in [false, true] {
        let (host, ..) = watched(VIRTUAL);
        let client = client(&host);
        let device = client.gpu.device();
        let context = presents(&client);
        let (source, target) = (filled(&client, 4096, 1), unlisted(&client, SurfaceKind::System, 4096));
        if offered {
            client.gpu.paging().make_resident(vec![target.handle()], MakeResidentFlags::empty()).unwrap();
            device.offer(vec![target.handle()], 2, OfferFlags::empty()).unwrap();
        }
        let refused = context.present(&source, &target).unwrap_err();
        assert_eq!(refused.status, NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE, "{refused}");
        assert_eq!(device.state().unwrap(), DeviceState::ErrorDmaFault);
        host.check_invariants().unwrap();
    }
}

/// The kernel's view is a mapping like any other: it may not contradict a unique driver protection.
#[test]
fn what_cannot_be_mapped_a_second_time_is_not_presented() {
    // spec: memory §4.11, memory §5.7
    let (host, asked, _) = watched(VIRTUAL);
    let client = client(&host);
    let context = presents(&client);
    let (source, target) = (filled(&client, 4096, 1), physical(&client, SurfaceKind::System, 4096));
    let mapping = GpuVaMapping {
        size_in_pages: 1,
        protection: GpuVaProtection::WRITE,
        driver_protection: 1 << 63 | 5,
        ..GpuVaMapping::default()
    };
    client.gpu.paging().map_gpu_va(Some(&target), mapping).unwrap();
    while host.step() {}
    let before = host.state_digest();
    let refused = context.present(&source, &target).unwrap_err();
    assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{refused}");
    let mut changed = before.differences(&host.state_digest());
    // The kernel's view of the source would be a mapping, too.
    changed.retain(|part| part.starts_with("addresses") || part.starts_with("memory of"));
    assert_eq!(changed, Vec::<String>::new());
    assert!(asked.lock().unwrap().is_empty());
    assert_eq!(client.gpu.device().state().unwrap(), DeviceState::Active, "nothing has changed");
    context.present(&target, &source).unwrap_err();
    host.check_invariants().unwrap();
}

#[test]
fn hardware_queues_present_nothing() {
    // spec: sync §3.17
    let host = host(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let device = client.gpu.device();
    let hardware = device.create_context(NodeId(0)).unwrap();
    let surface = physical(&client, SurfaceKind::System, 4096).handle();
    let call =
        PacketCall::Present { context: hardware.handle(), source: surface, destination: surface, rectangles: vec![] };
    let refused = (Arc::clone(&client.link) as Arc<dyn Link>).call(Call::Packet(call)).unwrap_err();
    assert_eq!(refused.status, NtStatus::NOT_SUPPORTED, "{refused}");
    assert_eq!(device.state().unwrap(), DeviceState::Active);
}

/// A driver's answers about the DMA buffers of a context with addresses: none at all is allowed, a broken one refuses the context.
#[test]
fn a_driver_may_do_without_presents_and_not_with_half_of_them() {
    // spec: memory §5.7, memory §7.1, memory §1.13
    let context = |change: fn(&mut ddi::ContextInfo)| {
        let whims = Whims { packets: true, context: Box::new(change), ..Whims::default() };
        let host = host_in(VIRTUAL, 4 * MIB, whims);
        let client = client(&host);
        let made = VirtualContext::create(client.gpu.device(), COPY, vec![]);
        (host, client, made)
    };
    let (host, client, made) = context(|info| info.dma_buffer_bytes = 0);
    let made = made.unwrap();
    let (source, target) = (filled(&client, 4096, 1), physical(&client, SurfaceKind::System, 4096));
    let refused = made.present(&source, &target).unwrap_err();
    assert_eq!(refused.status, NtStatus::NOT_SUPPORTED, "{refused}");
    assert_eq!(client.gpu.device().state().unwrap(), DeviceState::Active, "nothing has changed");
    drop((made, client));
    host.check_invariants().unwrap();
    for wrong in [
        (|info| info.dma_buffer_bytes = 12) as fn(&mut ddi::ContextInfo),
        |info| info.dma_buffer_bytes = 1 << 30,
        |info| info.dma_buffer_private_data_bytes = u32::MAX,
        |info| info.dma_buffer_segment_set = SegmentSet::only(SegmentId(1)),
    ] {
        let (host, _client, made) = context(wrong);
        let refused = made.err().expect("a rule is broken");
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{refused}");
        host.check_invariants().unwrap();
    }
}

/// A driver that fills a buffer this often before it is done.
fn in_passes(passes: u32, offsets: &Shared<u32>) -> Whims {
    let offsets = Arc::clone(offsets);
    let present = move |driver: &mut dyn PacketScheduling, context, present: &mut Present<'_>| {
        offsets.lock().unwrap().push(present.multipass_offset);
        let before = std::mem::take(&mut present.multipass_offset);
        driver.present(context, present)?;
        present.multipass_offset = before + 1;
        if present.multipass_offset < passes { Err(RenderStatus::InsufficientDmaBuffer) } else { Ok(()) }
    };
    Whims { packets: true, present: Box::new(present), ..Whims::default() }
}

#[test]
fn a_present_may_ask_for_more_buffers() {
    // spec: memory §7.1, memory §9.2
    for mode in [VIRTUAL, Mode::Real] {
        let offsets = Shared::<u32>::default();
        let host = host_in(mode, 4 * MIB, in_passes(3, &offsets));
        let client = client(&host);
        let (source, target) = (filled(&client, 4096, 3), physical(&client, SurfaceKind::System, 4096));
        let patched = context(&client, DmaBuffers::Aperture);
        patched.present(&source, &target).unwrap();
        drain(&client, &patched).unwrap();
        assert_eq!(word(&target, 0), 3, "{mode:?}");
        let addressed = presents(&client);
        let go = fence(&client);
        addressed.wait(&go, 1).unwrap();
        source.lock().unwrap().write_words(0, &[4]);
        assert_eq!(addressed.present(&source, &target).unwrap(), 3, "one packet for each buffer");
        client.gpu.device().signal(&go, 1).unwrap();
        shown(&client, &addressed);
        assert_eq!(word(&target, 0), 4, "{mode:?}");
        assert_eq!(*offsets.lock().unwrap(), [0, 1, 2, 0, 1, 2], "the driver's own progress, and 0 at first");
        host.check_invariants().unwrap();
    }
}

#[test]
fn a_present_without_end_is_refused_and_one_without_a_beginning_stops_the_adapter() {
    // spec: memory §7.1, memory §9.2
    let offsets = Shared::<u32>::default();
    let host = host_in(VIRTUAL, 4 * MIB, in_passes(u32::MAX, &offsets));
    let client = client(&host);
    let (source, target) = (filled(&client, 4096, 3), physical(&client, SurfaceKind::System, 4096));
    let (patched, addressed) = (context(&client, DmaBuffers::Contiguous), presents(&client));
    for refused in [patched.present(&source, &target), addressed.present(&source, &target)] {
        assert_eq!(refused.unwrap_err().status, NtStatus::NO_MEMORY);
    }
    assert_eq!(offsets.lock().unwrap().len(), 64, "as many buffers as a context has");
    assert_eq!(client.gpu.device().state().unwrap(), DeviceState::Active);
    assert_eq!(word(&target, 0), 0, "nothing of it was queued");
    host.check_invariants().unwrap();
    let none = |_: &mut dyn PacketScheduling, _, _: &mut Present<'_>| Err(RenderStatus::InsufficientDmaBuffer);
    let host = host_in(VIRTUAL, 4 * MIB, Whims { packets: true, present: Box::new(none), ..Whims::default() });
    let client = stack::world::client(&host);
    let (source, target) = (filled(&client, 4096, 3), physical(&client, SurfaceKind::System, 4096));
    let refused = presents(&client).present(&source, &target).unwrap_err();
    assert_eq!(refused.status, NtStatus::DEVICE_REMOVED, "{refused}");
}

/// Engines that use the CPU's addresses: source and destination have theirs from the beginning.
#[test]
fn presents_use_the_addresses_of_the_process() {
    // spec: memory §4.1, memory §5.7
    for mode in [VIRTUAL, Mode::Real] {
        let heard = Arc::<Mutex<Vec<(GpuVa, GpuVa)>>>::default();
        let said = Arc::clone(&heard);
        let present = move |driver: &mut dyn PacketScheduling, context, present: &mut Present<'_>| {
            let [_, source, target] = present.allocation_list else { panic!("three entries") };
            said.lock().unwrap().push((source.virtual_address, target.virtual_address));
            driver.present(context, present)
        };
        let whims = Whims { packets: true, present: Box::new(present), ..Whims::default() };
        let profile = Profile::named("iommu-packets").unwrap();
        let mut config = HostConfig { system_bytes: 64 * MIB, ..HostConfig::new(profile, mode) };
        config.wrap_miniport = Some(crate::stubborn::wrapped(whims));
        let host = Host::start(config).unwrap();
        let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).unwrap();
        let context = VirtualContext::create(gpu.device(), COPY, vec![]).unwrap();
        let surfaces = [(); 2].map(|()| {
            let surface = gpu.create_surface(SurfaceKind::System, 4096).unwrap();
            gpu.pin(&surface).unwrap();
            surface
        });
        surfaces[0].lock().unwrap().write_words(0, &[9]);
        context.present(surfaces[0].allocation(), surfaces[1].allocation()).unwrap();
        let done = gpu.device().create_monitored_fence(Default::default(), 0).unwrap();
        context.signal(&done, 1).unwrap();
        gpu.device().wait(&[(&done, 1)]).unwrap();
        assert_eq!(surfaces[1].lock().unwrap().read_word(0), 9, "{mode:?}");
        assert_eq!(*heard.lock().unwrap(), [(surfaces[0].va(), surfaces[1].va())]);
        drop((context, surfaces, gpu));
        host.check_invariants().unwrap();
    }
}
