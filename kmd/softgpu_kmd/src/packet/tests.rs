//! The driver's packet contexts over a device that executes nothing: translation, refusals, reports.

use ddi::{
    AllocationListEntry, CreateAllocation, CreateAllocationFlags, DmaBuffer, KmdOpenAllocation, KmdResource, Miniport,
    NewAllocation, OpenAllocation, OpenAllocationFlags, OpenAllocationInfo, OpenPrivateData, PatchLocation,
    PatchLocationsOut, SubmitFlags,
};
use softgpu_spec::Command;
use softgpu_spec::private_data::{AllocationRequest, Kind};
use softgpu_spec::register::{self, queue_control, queue_state, record};
use softgpu_spec::tile::Tiling;

use super::ring::PACKET_BYTES;
use super::*;
use crate::fake_port::{FakeHost, FakeNotify, FakePort, Said, context as hw_context, started};
use crate::segments::LOCAL;

mod order;
mod preemption;

struct Rig {
    kmd: SoftGpuKmd,
    port: std::sync::Arc<FakePort>,
    host: FakeHost,
    context: KmdContext,
    allocations: Vec<KmdOpenAllocation>,
}

fn rig(buffers: DmaBuffers) -> (Rig, ContextInfo) {
    let (mut kmd, port, mut host) = started();
    let (_, device, _) = hw_context(&mut kmd, 1, false);
    let create = CreateContext {
        device,
        context: ddi::OsContext(5),
        node: NodeId(1),
        engine_affinity: 1,
        flags: CreateContextFlags::empty(),
        private_data: &context_data::encode(buffers),
    };
    let (context, info) = kmd.create_context(&mut host, create).unwrap();
    let request = AllocationRequest {
        kind: Kind::Local,
        cpu_visible: false,
        cached: false,
        accessed_physically: true,
        size_bytes: 8192,
    };
    let data = request.encode();
    let mut new = [NewAllocation::new(&data), NewAllocation::new(&data)];
    kmd.create_allocation(&mut CreateAllocation {
        private_data: &[],
        allocations: &mut new,
        resource: KmdResource::default(),
        flags: CreateAllocationFlags::empty(),
    })
    .unwrap();
    let mut opened = new.map(|new| OpenAllocationInfo {
        allocation: new.info.allocation,
        private_data: OpenPrivateData::ReadOnly(&[]),
        open: KmdOpenAllocation::default(),
    });
    let mut open = OpenAllocation {
        device,
        allocations: &mut opened,
        private_data: &[],
        flags: OpenAllocationFlags::CREATE,
        subresource_index: 0,
        subresource_offset: 9,
        pitch: 9,
    };
    kmd.open_allocation(&mut open).unwrap();
    assert_eq!((open.subresource_offset, open.pitch), (0, 0), "one surface without rows");
    let allocations = opened.iter().map(|opened| opened.open).collect();
    (Rig { kmd, port, host, context, allocations }, info)
}

/// NULL, a source at a known address, a target whose address is unknown.
fn list(rig: &Rig) -> Vec<AllocationListEntry> {
    vec![
        AllocationListEntry::default(),
        AllocationListEntry {
            allocation: Some(rig.allocations[0]),
            segment: LOCAL,
            physical_address: 0x5000,
            ..Default::default()
        },
        AllocationListEntry { allocation: Some(rig.allocations[1]), write_operation: true, ..Default::default() },
    ]
}

fn place(allocation_index: u32, patch_offset: u32, allocation_offset: u32) -> PatchLocation {
    PatchLocation { allocation_index, patch_offset, allocation_offset, slot_id: allocation_index, ..Default::default() }
}

fn words(commands: &[Command<'_>]) -> Vec<u64> {
    let mut words = Vec::new();
    commands.iter().for_each(|command| command.encode(&mut words));
    words
}

fn copy(bytes: u64) -> Command<'static> {
    Command::CopyPhysical { source_bus: 0xbad, target_bus: 0xbad, bytes }
}

type Rendered = (Vec<u64>, Vec<u8>, Vec<PatchLocation>);

fn render(
    rig: &mut Rig,
    command: &[u64],
    allocation_list: &[AllocationListEntry],
    places: &[PatchLocation],
) -> Result<Rendered, RenderStatus> {
    let (mut buffer, mut data, mut out) = (vec![0; 64], vec![0; 4], vec![PatchLocation::default(); 16]);
    let mut render = Render {
        command,
        allocation_list,
        patch_locations_in: places,
        dma_buffer: DmaBuffer { words: &mut buffer, written: 0, private_data: &mut data },
        user_data_bytes: 0,
        patch_locations_out: PatchLocationsOut { list: &mut out, written: 0 },
    };
    rig.kmd.render(rig.context, &mut render)?;
    let (used, listed) = (render.dma_buffer.written, render.patch_locations_out.written);
    buffer.truncate(used);
    out.truncate(listed);
    Ok((buffer, data, out))
}

#[test]
fn what_is_known_is_written_at_once_and_every_place_is_told() {
    // spec: memory §7.3, memory §7.4
    // seed: R02, R13
    let (mut rig, _) = rig(DmaBuffers::Aperture);
    let list = list(&rig);
    let command = words(&[Command::Nop, copy(64)]);
    let places = [place(1, 16, 8), place(2, 24, 4096)];
    let (mut buffer, mut data, out) = render(&mut rig, &command, &list, &places).unwrap();
    assert_eq!(buffer[2], 0x5008, "the source is known");
    assert_eq!(buffer[3], 0, "what the process wrote there is not used");
    assert_eq!(
        out.iter().map(|place| (place.patch_offset, place.split_offset)).collect::<Vec<_>>(),
        [(16, 8), (24, 8)]
    );
    let mut known = list.clone();
    (known[1].physical_address, known[2].segment, known[2].physical_address) = (0x9000, LOCAL, 0x2_0000);
    let mut patch = Patch {
        context: rig.context,
        words: &mut buffer,
        private_data: &mut data,
        allocation_list: &known,
        patch_locations: &out,
        submission_start: 0,
        submission_length: 2,
        start_offset: 0,
        end_offset: 40,
        fence_id: 1,
        flags: SubmitFlags::empty(),
    };
    rig.kmd.patch(&mut patch).unwrap();
    assert_eq!(buffer[2..4], [0x9008, 0x2_1000]);
    // An address that is not known is never left open.
    let (mut words, mut data) = (buffer.clone(), data.clone());
    let mut patch =
        Patch { words: &mut words, private_data: &mut data, allocation_list: &list, ..patch_of(&rig, &out) };
    assert!(rig.kmd.patch(&mut patch).is_err());
}

fn patch_of<'a>(rig: &Rig, places: &'a [PatchLocation]) -> Patch<'a> {
    Patch {
        context: rig.context,
        words: &mut [],
        private_data: &mut [],
        allocation_list: &[],
        patch_locations: places,
        submission_start: 0,
        // CAST: a few.
        submission_length: places.len() as u32,
        start_offset: 0,
        end_offset: 40,
        fence_id: 2,
        flags: SubmitFlags::empty(),
    }
}

#[test]
fn compute_kernels_are_checked_like_copies() {
    // spec: memory §7.3, memory §7.4
    let (mut rig, _) = rig(DmaBuffers::Aperture);
    let list = list(&rig);
    let check = Command::Check { va: 0xbad, bytes: 64, seed: 1, report_va: 0xbad, tag: 2 };
    let command = words(&[Command::Touch { va: 0xbad, bytes: 8192, write: false, within: false }, check]);
    let places = [place(1, 8, 0), place(1, 32, 64), place(2, 56, 8160)];
    let (buffer, _, out) = render(&mut rig, &command, &list, &places).expect("inside their bounds");
    assert_eq!((buffer[1], buffer[4], buffer[7]), (0x5000, 0x5040, 0), "known, known, to be patched");
    assert_eq!(out.len(), 3);
    let mut refused = |command: Command<'_>, places: &[PatchLocation]| {
        let refused = render(&mut rig, &words(&[command]), &list, places).expect_err("it is refused");
        assert!(matches!(refused, RenderStatus::InvalidParameter(_)), "{command:?}: {refused}");
    };
    refused(Command::Touch { va: 0, bytes: 8, write: true, within: false }, &[place(1, 8, 0)]);
    refused(Command::Pattern { va: 0, bytes: 8, seed: 1 }, &[place(1, 8, 0)]);
    refused(Command::Pattern { va: 0, bytes: 8200, seed: 1 }, &[place(2, 8, 0)]);
    // The report has 32 bytes, a checksum's result 8.
    refused(check, &[place(1, 8, 0), place(2, 32, 8168)]);
    refused(Command::Checksum { va: 0, bytes: 8, result_va: 0 }, &[place(1, 8, 0), place(2, 24, 8192)]);
    refused(Command::Saxpy { x_va: 0, y_va: 0, elements: 4096, a_bits: 0 }, &[place(1, 8, 0), place(2, 16, 0)]);
}

#[test]
fn hostile_buffers_are_refused() {
    // spec: memory §9.2
    let (mut rig, _) = rig(DmaBuffers::Aperture);
    let list = list(&rig);
    let good = [place(1, 8, 0), place(2, 16, 0)];
    let mut refused = |command: &[u64], places: &[PatchLocation]| {
        render(&mut rig, command, &list, places).expect_err("it is refused")
    };
    let table = Command::WriteEntryRun { table: 0, first: 0, count: 1, entry: 1, step: 0 };
    assert_eq!(refused(&words(&[table]), &[]), RenderStatus::PrivilegedInstruction);
    assert_eq!(refused(&words(&[Command::Complete { value: 1 }]), &[]), RenderStatus::PrivilegedInstruction);
    assert_eq!(refused(&words(&[Command::Timestamp { va: 8 }]), &[]), RenderStatus::IllegalInstruction);
    assert_eq!(refused(&[0x7f | 1 << 8], &[]), RenderStatus::IllegalInstruction);
    assert!(matches!(refused(&words(&[copy(8)])[..2], &good), RenderStatus::InvalidUserBuffer(_)));
    let command = words(&[copy(64)]);
    assert!(matches!(refused(&command, &good[..1]), RenderStatus::InvalidUserBuffer(_)), "an address is missing");
    assert!(matches!(refused(&command, &[good[1], good[0]]), RenderStatus::InvalidUserBuffer(_)), "out of order");
    let extra = [good[0], good[1], place(1, 24, 0)];
    assert!(matches!(refused(&command, &extra), RenderStatus::InvalidUserBuffer(_)), "a place of no address");
    let null = [place(0, 8, 0), good[1]];
    assert!(matches!(refused(&command, &null), RenderStatus::InvalidUserBuffer(_)), "an address in a NULL element");
    let swapped = [place(2, 8, 0), place(1, 16, 0)];
    assert!(matches!(refused(&command, &swapped), RenderStatus::InvalidParameter(_)), "a write to what is only read");
    for (offset, bytes) in [(4, 8), (8192, 8), (8136, 64), (8, 8192), (u32::MAX - 7, !7)] {
        let beyond = [place(1, 8, offset), good[1]];
        assert!(
            matches!(refused(&words(&[copy(bytes)]), &beyond), RenderStatus::InvalidParameter(_)),
            "{offset} {bytes}"
        );
    }
    let long = words(&[Command::Nop; 65]);
    assert_eq!(refused(&long, &[]), RenderStatus::InsufficientDmaBuffer);
}

#[test]
fn packets_complete_by_their_ids_even_when_records_are_lost() {
    // spec: memory §7.4, sync §4.1
    let (mut rig, info) = rig(DmaBuffers::Contiguous);
    assert!(info.dma_buffer_segment_set.is_empty());
    let submit = |rig: &mut Rig, fence_id: u32| submit(rig, 0x3000, fence_id, SubmitFlags::empty());
    for fence_id in 7..11 {
        submit(&mut rig, fence_id).unwrap();
    }
    assert!(submit(&mut rig, 11).is_err(), "HwQueuePacketCap");
    let index = ring_of(&mut rig).0;
    rig.port.record(record::COMPLETED, [index, 8, 0]);
    rig.port.record(record::COMPLETED, [index, 99, 0]);
    rig.port.set_read_pointer(3 * PACKET_BYTES);
    rig.port.record(record::OVERFLOW, [0; 3]);
    rig.port.record(record::FAULT, [index, 0xabc, fault::BAD_ADDRESS]);
    rig.port.record(record::FAULT, [index, 0xabc, fault::BAD_ADDRESS]);
    let mut notify = FakeNotify::default();
    assert!(rig.kmd.interrupt_routine(&mut notify));
    let ids: Vec<u32> =
        notify.0.iter().filter_map(|said| if let Said::Completed(id) = said { Some(*id) } else { None }).collect();
    assert_eq!(ids, [7, 8, 9]);
    let faults: Vec<u32> =
        notify.0.iter().filter_map(|said| if let Said::DmaFault(f) = said { Some(f.fence_id) } else { None }).collect();
    assert_eq!(faults, [10], "once, and the packet is named");
    assert!(submit(&mut rig, 12).is_err(), "it runs nothing more");
    let device = rig.kmd.packets.get(rig.context).unwrap().device;
    PacketScheduling::destroy_context(&mut rig.kmd, &mut rig.host, rig.context);
    rig.context = patched(&mut rig, device, 6);
    assert_eq!(ring_of(&mut rig).0, index, "the node's ring is there for the next");
    submit(&mut rig, 12).unwrap();
}

/// 32 bytes of a context's commands.
fn submit(rig: &mut Rig, address: u64, fence_id: u32, flags: SubmitFlags) -> Result<(), DriverStatus> {
    let data = 4u32.to_le_bytes();
    rig.kmd.submit_command(SubmitCommand {
        context: rig.context,
        dma_buffer_segment: wddm_types::SegmentId::SYSTEM,
        dma_buffer_physical_address: address,
        start_offset: 0,
        end_offset: 32,
        private_data: &data,
        fence_id,
        flags,
    })
}

fn patched(rig: &mut Rig, device: KmdDevice, context: u64) -> KmdContext {
    let create = CreateContext {
        device,
        context: ddi::OsContext(context),
        node: NodeId(1),
        engine_affinity: 1,
        flags: CreateContextFlags::empty(),
        private_data: &[],
    };
    rig.kmd.create_context(&mut rig.host, create).unwrap().0
}

/// The device's number of the queue of the rig's context, and where its ring lies.
fn ring_of(rig: &mut Rig) -> (u64, u64) {
    let ring = rig.kmd.packets.get(rig.context).unwrap().ring;
    let ring = rig.kmd.packets.ring_mut(ring);
    (u64::from(ring.index), ring.run.first * bus::PAGE_BYTES)
}

#[test]
fn private_data_of_others_make_no_context() {
    let (mut rig, _) = rig(DmaBuffers::Aperture);
    let device = rig.kmd.packets.get(rig.context).unwrap().device;
    for (private_data, node, engine_affinity) in [(&[1u8, 2][..], 1, 1), (&[], 9, 1), (&[], 1, 2), (&[], 1, 0)] {
        let create = CreateContext {
            device,
            context: ddi::OsContext(6),
            node: NodeId(node),
            engine_affinity,
            flags: CreateContextFlags::empty(),
            private_data,
        };
        assert!(rig.kmd.create_context(&mut rig.host, create).is_err());
    }
}

#[test]
fn a_tiled_copy_reaches_whole_bands() {
    // spec: memory §6.5, memory §7.3
    let (mut rig, _) = rig(DmaBuffers::Aperture);
    let list = list(&rig);
    let tiled = |offset, bytes, swizzle| {
        let tiling = Tiling::of_pitch(512).unwrap();
        words(&[Command::CopyTiled { linear_bus: 0xbad, surface_bus: 0xbad, offset, bytes, tiling, swizzle }])
    };
    // Element 1 is read, element 2 is written.
    let places = [place(1, 8, 0), place(2, 16, 0)];
    let (buffer, _, out) = render(&mut rig, &tiled(4096, 8, true), &list, &places).unwrap();
    assert_eq!((buffer[1], buffer[2], out.len()), (0x5000, 0, 2));
    let against = render(&mut rig, &tiled(0, 8, false), &list, &places);
    assert!(matches!(against, Err(RenderStatus::InvalidParameter(_))), "the linear end would be written");
    for offset in [1 << 40, !7] {
        let far = render(&mut rig, &tiled(offset, 8, true), &list, &places);
        assert!(matches!(far, Err(RenderStatus::InvalidParameter(_))), "{offset:#x}");
    }
}
