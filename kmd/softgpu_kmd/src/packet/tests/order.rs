//! Packets of one node in two rings: the device takes turns among rings, the kernel counts on the order in which it handed
//! them over.

use super::preemption::{preempt, said};
use super::*;
use shared_words::Word;

const AT: u64 = 0x9000;

/// A context with addresses, which has its own ring, beside the rig's, whose ring contexts without addresses share.
fn addressed(rig: &mut Rig) -> KmdContext {
    let create = CreateContext {
        device: rig.kmd.packets.get(rig.context).unwrap().device,
        context: ddi::OsContext(6),
        node: NodeId(1),
        engine_affinity: 1,
        flags: CreateContextFlags::VIRTUAL_ADDRESSING,
        private_data: &[],
    };
    let context = rig.kmd.create_context(&mut rig.host, create).unwrap().0;
    rig.kmd.set_packet_root(context, 0x7000);
    context
}

fn submit_at(rig: &mut Rig, context: KmdContext, fence_id: u32, flags: SubmitFlags) -> Result<(), DriverStatus> {
    let (dma_buffer, dma_buffer_bytes) = (wddm_types::GpuVa(AT), 32);
    let private_data = &[];
    let submit = SubmitCommandVirtual {
        context,
        dma_buffer,
        dma_buffer_bytes,
        private_data,
        user_data_bytes: 0,
        fence_id,
        flags,
    };
    rig.kmd.submit_command_virtual(submit)
}

/// Ids of what a context's ring has, and the words that its first packet has left.
fn in_ring(rig: &mut Rig, context: KmdContext) -> (Vec<u32>, u64) {
    let ring = rig.kmd.packets.get(context).unwrap().ring;
    let ring = rig.kmd.packets.ring_mut(ring);
    let ids = ring.in_flight.iter().map(|packet| packet.fence_id).collect();
    let at = ring.run.first * bus::PAGE_BYTES;
    let words: Vec<u64> = (0..4).map(|word| Word::load(rig.kmd.system.word(at + word * 8))).collect();
    let left = match Command::decode(&words) {
        Ok((Command::Branch { words, .. } | Command::BranchPhysical { words, .. }, _)) => u64::from(words),
        _ => 0,
    };
    (ids, left)
}

#[test]
fn what_is_for_another_ring_waits_until_the_first_is_empty() {
    // spec: sync §4.1, sync §2.8
    let (mut rig, _) = rig(DmaBuffers::Contiguous);
    let (first, index) = (rig.context, ring_of(&mut rig).0);
    let second = addressed(&mut rig);
    submit(&mut rig, 0x3000, 7, SubmitFlags::empty()).unwrap();
    submit(&mut rig, 0x4000, 8, SubmitFlags::empty()).unwrap();
    submit_at(&mut rig, second, 9, SubmitFlags::empty()).unwrap();
    submit_at(&mut rig, second, 10, SubmitFlags::empty()).unwrap();
    assert!(submit_at(&mut rig, second, 11, SubmitFlags::empty()).is_err(), "a node has four at most");
    assert_eq!((in_ring(&mut rig, first).0, in_ring(&mut rig, second).0), (vec![7, 8], vec![]));
    rig.port.record(record::COMPLETED, [index, 7, 0]);
    assert_eq!(said(&mut rig), [Said::Completed(7)]);
    assert_eq!(in_ring(&mut rig, second).0, [], "one is left");
    rig.port.record(record::COMPLETED, [index, 8, 0]);
    assert_eq!(said(&mut rig), [Said::Completed(8)]);
    assert_eq!((in_ring(&mut rig, first).0, in_ring(&mut rig, second)), (vec![], (vec![9, 10], 4)));
    // And the other way round.
    submit(&mut rig, 0x3000, 11, SubmitFlags::empty()).unwrap();
    assert_eq!(in_ring(&mut rig, first).0, []);
    rig.kmd.stop_context(second);
    assert_eq!(in_ring(&mut rig, first), (vec![11], 4));
}

#[test]
fn what_waits_comes_back_with_a_preemption() {
    // spec: memory §7.4, sync §4.3
    let (mut rig, _) = rig(DmaBuffers::Contiguous);
    let (first, index, again) = (rig.context, ring_of(&mut rig).0, SubmitFlags::RESUBMISSION);
    let second = addressed(&mut rig);
    rig.context = second;
    let own = ring_of(&mut rig).0;
    rig.context = first;
    // Three words of a packet at addresses are done; then it waits behind another ring.
    submit_at(&mut rig, second, 7, SubmitFlags::empty()).unwrap();
    preempt(&mut rig, 1);
    rig.port.record(record::PREEMPTED, [own, 0, 3]);
    assert_eq!(said(&mut rig), [Said::Preempted(1, 0)]);
    submit(&mut rig, 0x3000, 8, SubmitFlags::empty()).unwrap();
    submit_at(&mut rig, second, 9, again).unwrap();
    preempt(&mut rig, 2);
    // The first is done when the device stops its ring: the waiting packet does not begin for that.
    rig.port.record(record::COMPLETED, [index, 8, 0]);
    assert_eq!(said(&mut rig), [Said::Completed(8)]);
    assert_eq!(in_ring(&mut rig, second).0, []);
    rig.port.record(record::PREEMPTED, [index, PACKET_BYTES, 0]);
    assert_eq!(said(&mut rig), [Said::Preempted(2, 8)]);
    // It has what it had, and goes on behind it.
    submit_at(&mut rig, second, 10, again).unwrap();
    assert_eq!(in_ring(&mut rig, second), (vec![10], 1));
}

#[test]
fn what_waits_goes_with_its_context() {
    // spec: memory §5.8
    let (mut rig, _) = rig(DmaBuffers::Contiguous);
    let (first, index) = (rig.context, ring_of(&mut rig).0);
    let second = addressed(&mut rig);
    submit(&mut rig, 0x3000, 7, SubmitFlags::empty()).unwrap();
    submit_at(&mut rig, second, 8, SubmitFlags::empty()).unwrap();
    rig.kmd.stop_context(second);
    rig.port.record(record::COMPLETED, [index, 7, 0]);
    assert_eq!(said(&mut rig), [Said::Completed(7)]);
    assert_eq!((in_ring(&mut rig, first).0, in_ring(&mut rig, second).0), (vec![], vec![]));
}

#[test]
fn a_present_at_addresses_needs_both_and_comes_with_what_was_written_beside_it() {
    // spec: memory §5.7, memory §7.4
    let (mut rig, _) = rig(DmaBuffers::Contiguous);
    let context = addressed(&mut rig);
    let mut list = list(&rig);
    let present = |rig: &mut Rig, list: &[AllocationListEntry]| {
        let (mut words, mut data) = (vec![0; 8], vec![0; 4]);
        let mut present = Present {
            rectangles: &[],
            allocation_list: list,
            dma_buffer: DmaBuffer { words: &mut words, written: 0, private_data: &mut data },
            dma_buffer_va: wddm_types::GpuVa(AT),
            patch_locations_out: PatchLocationsOut { list: &mut [], written: 0 },
            multipass_offset: 0,
        };
        rig.kmd.present(context, &mut present).map(|()| present.dma_buffer.written).map(|written| {
            words.truncate(written);
            (words, data)
        })
    };
    let missing = RenderStatus::InvalidParameter("an allocation of a present without an address");
    assert_eq!(present(&mut rig, &list), Err(missing), "physical addresses are none here");
    (list[1].virtual_address, list[2].virtual_address) = (wddm_types::GpuVa(0x4000), wddm_types::GpuVa(0x6000));
    let (words, data) = present(&mut rig, &list).unwrap();
    let copy = Command::decode(&words).unwrap().0;
    assert!(matches!(copy, Command::Copy { source_va: 0x4000, target_va: 0x6000, .. }), "{copy:?}");
    list[2].allocation = None;
    assert_eq!(present(&mut rig, &list), Err(RenderStatus::InvalidHandle("no allocation")));
    let (dma_buffer, flags) = (wddm_types::GpuVa(AT), SubmitFlags::PRESENT);
    let mut hand_over = |dma_buffer_bytes: u32, private_data: &[u8]| {
        let fence_id = 1;
        let submit = SubmitCommandVirtual {
            context,
            dma_buffer,
            dma_buffer_bytes,
            private_data,
            user_data_bytes: 0,
            fence_id,
            flags,
        };
        rig.kmd.submit_command_virtual(submit)
    };
    let another = DriverStatus::InvalidParameter("the private data belong to another buffer");
    assert_eq!(hand_over(words.len() as u32 * 8, &[]), Err(another));
    assert_eq!(hand_over(8, &data), Err(another));
    hand_over(words.len() as u32 * 8, &data).unwrap();
}
