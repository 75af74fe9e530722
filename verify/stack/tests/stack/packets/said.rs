//! A driver's answers about a device's DMA buffers and a context's lists: the kernel uses them, and refuses the call for a false one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use d3dkmt::{AllocationListFlags, AllocationListItem, Context, DeviceState, MakeResidentFlags, VirtualContext};
use ddi::{ContextCaps, ContextInfo, DeviceInfo};
use dxgk_host::{Host, HostConfig, Mode, ProcessLink, Profile};
use events::Event;
use kmt_link::Link;
use softgpu_kmd::KmdConfig;
use softgpu_spec::private_data::AllocationRequest;
use softgpu_umd::{DmaBuffers, Gpu, ListedCommands, PatchedStream, SurfaceKind, context_data};
use wddm_types::{NodeId, NtStatus, RawHandle, SegmentId, SegmentSet};

use super::{COPY, Packets};
use crate::stubborn::{Whims, host_with, wrapped};
use stack::world::{MIB, VIRTUAL, client};

fn started(name: &str, mode: Mode, dma_buffers: DmaBuffers) -> (Arc<Host>, Packets) {
    let named = Profile::named(name).expect("a built-in profile");
    let profile = Profile { driver: KmdConfig { dma_buffers, ..named.driver }, ..*named };
    let packets = Packets::default();
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(packets.clone()),
        ..HostConfig::new(&profile, mode)
    };
    (Host::start(config).expect("the host starts"), packets)
}

/// A context without wishes uses the answer to CreateDevice: contiguous memory or apertures, and lists of full size.
#[test]
fn a_context_that_says_nothing_has_the_buffers_of_its_device() {
    // spec: memory §7.1, memory §5.6
    // seed: M52, M53, R21
    for name in ["wddm1-banks", "discrete-4k"] {
        for (of_device, segment) in [(DmaBuffers::Contiguous, 0), (DmaBuffers::Aperture, 2)] {
            let (host, packets) = started(name, VIRTUAL, of_device);
            let gpu = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).expect("the adapter opens");
            let mut stream = PatchedStream::create(&gpu, COPY).expect("a context without private data");
            let surface = gpu.create_surface(SurfaceKind::System, 4096).expect("a surface");
            let plain = Context::create(gpu.device(), COPY, Vec::new()).expect("a context");
            let sizes = plain.sizes();
            assert_eq!((sizes.allocation_list_entries, sizes.patch_location_list_entries), (256, 256), "{name}");
            if name == "wddm1-banks" {
                stream.pattern(&surface, 3);
                let value = stream.submit(&gpu).expect("room");
                stream.wait(&gpu, value).expect("it completes");
            } else {
                plain.render(vec![0x100], vec![], vec![]).expect("a buffer that names nothing");
            }
            let of = |which| {
                packets.count(|event| matches!(event, Event::DmaBufferCreated { segment, .. } if *segment == which))
            };
            assert_eq!((of(segment), of(2 - segment)), (1, 0), "{name} {of_device:?}");
            // A context's own answer comes before the device's.
            let other = if of_device == DmaBuffers::Contiguous { DmaBuffers::Aperture } else { DmaBuffers::Contiguous };
            let own = Context::create(gpu.device(), COPY, context_data(other).to_vec()).expect("a context");
            own.render(vec![0x100], vec![], vec![]).expect("a buffer that names nothing");
            assert_eq!((of(segment), of(2 - segment)), (1, 1), "{name} {of_device:?}");
        }
    }
}

/// Bytes of a DMA buffer and of a command buffer, entries of an allocation list, of a patch-location list.
type Sizes = (u32, u32, u32);

/// A context has these sizes, and its kernel takes just as much and no entry and no word more.
fn holds(gpu: &Gpu, context: &Context, (bytes, allocations, places): Sizes) {
    let sizes = context.sizes();
    let told = (sizes.command_buffer_bytes, sizes.allocation_list_entries, sizes.patch_location_list_entries);
    assert_eq!(told, (bytes, allocations, places));
    let only_words = |words: u32| context.render(vec![0x100; words as usize], vec![], vec![]);
    let null = AllocationListItem { allocation: RawHandle::NONE, flags: AllocationListFlags::empty() };
    let only_list = |entries: u32| context.render(vec![0x100], vec![null; entries as usize], vec![]);
    let request = AllocationRequest {
        kind: SurfaceKind::System,
        cpu_visible: true,
        cached: false,
        accessed_physically: true,
        size_bytes: 4096,
    };
    let target = gpu.device().create_allocation(request.encode().to_vec()).expect("an allocation");
    gpu.paging().make_resident(vec![target.handle()], MakeResidentFlags::empty()).expect("room");
    let only_places = |count: u32| {
        let mut commands = ListedCommands::new();
        (0..count).for_each(|nth| _ = commands.fill((&target, nth * 8), 8, nth));
        assert_eq!(commands.places.len(), count as usize, "one place for each");
        commands.render(context)
    };
    let fit = [only_words(bytes / 8), only_list(allocations), only_places(places)];
    fit.into_iter().for_each(|answer| _ = answer.expect("just as much as the driver said"));
    for (more, why) in [
        (only_words(bytes / 8 + 1), format!("a command buffer of {} bytes; a DMA buffer holds {bytes}", bytes + 8)),
        (only_list(allocations + 1), format!("an allocation list of {}; at most {allocations}", allocations + 1)),
        (only_places(places + 1), format!("the context has room for {allocations} and {places}")),
    ] {
        let refused = more.expect_err("more than the driver said");
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{refused}");
        assert!(refused.reason.contains(&why), "{refused}");
    }
}

/// What the driver says of a device holds for the contexts of that device, what it says of a context for that context: on an engine without
/// addresses three sizes stand side by side.
#[test]
fn buffers_and_lists_are_as_large_as_the_driver_says() {
    // spec: memory §5.6, memory §7.1
    // seed: R21
    const SAID: [Sizes; 3] = [(4096, 5, 7), (8192, 60, 3), (12288, 300, 290)];
    let devices = AtomicUsize::new(0);
    let device = move |info: &mut DeviceInfo| {
        let said = SAID[devices.fetch_add(1, Ordering::SeqCst)];
        (info.dma_buffer_bytes, info.allocation_list_entries, info.patch_location_list_entries) = said;
    };
    let context = |info: &mut ContextInfo| {
        // Of a context without private data the driver says nothing.
        if info.dma_buffer_bytes != 0 {
            (info.dma_buffer_bytes, info.allocation_list_entries, info.patch_location_list_entries) = SAID[2];
        }
    };
    let whims = Whims { device: Box::new(device), context: Box::new(context), packets: true, ..Whims::default() };
    let packets = Packets::default();
    let config = HostConfig {
        vram_bytes: 4 * MIB,
        page_table_bytes: 16 * MIB,
        system_bytes: 64 * MIB,
        tracer: Box::new(packets.clone()),
        wrap_miniport: Some(wrapped(whims)),
        ..HostConfig::new(Profile::named("mixed-engines").expect("a built-in profile"), VIRTUAL)
    };
    let host = Host::start(config).expect("the host starts");
    let gpus = [0, 1].map(|_| Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>).expect("it opens"));
    let own = || context_data(DmaBuffers::Contiguous).to_vec();
    let contexts = [0, 1].map(|nth: usize| {
        [Vec::new(), own()].map(|data| Context::create(gpus[nth].device(), COPY, data).expect("a context"))
    });
    // All contexts are there before any is looked at.
    for (nth, [silent, own]) in contexts.iter().enumerate() {
        holds(&gpus[nth], silent, SAID[nth]);
        holds(&gpus[nth], own, SAID[2]);
    }
    let made = SAID.map(|(size, ..)| {
        packets.count(|e| matches!(e, Event::DmaBufferCreated { bytes, .. } if *bytes == u64::from(size))) > 0
    });
    let any = packets.count(|e| matches!(e, Event::DmaBufferCreated { .. }));
    let known = packets.count(|e| {
        matches!(e, Event::DmaBufferCreated { bytes, .. } if SAID.iter().any(|(size, ..)| *bytes == u64::from(*size)))
    });
    assert_eq!((made, known), ([true; 3], any), "the buffers are as large");
    host.check_invariants().expect("in order");
}

/// The same rules as for contexts, at the earlier call: nothing is left of a device whose driver breaks one.
#[test]
fn a_device_whose_buffers_would_lie_in_memory_is_not_created() {
    // spec: memory §7.1, memory §1.13
    // seed: M52, M54
    let lie = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&lie);
    let lies: [fn(&mut DeviceInfo); 4] = [
        |info| info.dma_buffer_segment_set = SegmentSet::only(SegmentId(1)),
        |info| info.dma_buffer_segment_set = SegmentSet::only(SegmentId(9)),
        |info| info.dma_buffer_bytes = 12,
        |info| info.allocation_list_entries = 0,
    ];
    let device = move |info: &mut DeviceInfo| {
        if let Some(nth) = told.load(Ordering::SeqCst).checked_sub(1) {
            lies[nth](info);
        }
    };
    let host = host_with(4 * MIB, Whims { device: Box::new(device), packets: true, ..Whims::default() });
    let before = client(&host);
    let rules = ["names a memory segment", "a segment that there is not", "sizes of DMA", "sizes of DMA"];
    for (nth, rule) in rules.into_iter().enumerate() {
        lie.store(nth + 1, Ordering::SeqCst);
        let refused = d3dkmt::Device::create(before.gpu.adapter()).err().expect(rule);
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{refused}");
        assert!(refused.reason.contains(rule), "{refused}");
        let stranger = Gpu::open(ProcessLink::new(Arc::clone(&host)) as Arc<dyn Link>);
        assert!(stranger.is_err(), "nor is the first device of a process");
        host.check_invariants().expect("nothing is left of it");
    }
    lie.store(0, Ordering::SeqCst);
    client(&host);
    assert_eq!(before.gpu.device().state(), Ok(DeviceState::Active));
}

/// NoPatchingRequired goes with addresses, and with it 16 entries and no patch list.
#[test]
fn a_driver_that_lies_about_patching_makes_no_context() {
    // spec: memory §5.6, memory §7.1
    // seed: R16
    let lie = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&lie);
    let lies: [fn(&mut ContextInfo); 6] = [
        |info| info.caps.toggle(ContextCaps::NO_PATCHING_REQUIRED),
        |info| info.allocation_list_entries = 15,
        |info| info.allocation_list_entries = 17,
        |info| info.allocation_list_entries = 256,
        |info| info.patch_location_list_entries = 1,
        |info| (info.allocation_list_entries, info.patch_location_list_entries) = (0, 0),
    ];
    let context = move |info: &mut ContextInfo| {
        if let Some(nth) = told.load(Ordering::SeqCst).checked_sub(1) {
            lies[nth](info);
        }
    };
    let host = host_with(4 * MIB, Whims { context: Box::new(context), packets: true, ..Whims::default() });
    let client = client(&host);
    let device = client.gpu.device();
    let with_addresses = || VirtualContext::create(device, NodeId(0), Vec::new()).map(drop);
    let patched = || Context::create(device, COPY, context_data(DmaBuffers::Aperture).to_vec()).map(drop);
    with_addresses().expect("the truth");
    patched().expect("the truth");
    for nth in 1..=lies.len() {
        lie.store(nth, Ordering::SeqCst);
        let refused = with_addresses().expect_err("a lie");
        let rule = if nth == 1 { "NoPatchingRequired goes with" } else { "16 entries and no patch list" };
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "lie {nth}");
        assert!(refused.reason.contains(rule), "lie {nth}: {refused}");
    }
    lie.store(1, Ordering::SeqCst);
    let refused = patched().expect_err("its buffers would never be patched");
    assert!(refused.reason.contains("NoPatchingRequired goes with"), "{refused}");
    lie.store(0, Ordering::SeqCst);
    with_addresses().expect("the truth again");
    assert_eq!(device.state(), Ok(DeviceState::Active));
    host.check_invariants().expect("in order");
}
