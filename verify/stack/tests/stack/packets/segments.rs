//! A driver's answers about a context: the segment of its DMA buffers, and the node that does its paging.

use d3dkmt::VirtualContext;
use wddm_types::{Blame, SegmentSet};

use super::*;
use crate::stubborn::{Whims, host_with};

/// A driver that says this of its contexts, patched or in an address space.
fn refused(addresses: bool, change: fn(&mut ddi::ContextInfo)) -> Option<Refusal> {
    let whims = Whims { packets: true, context: Box::new(change), ..Whims::default() };
    let host = host_with(4 * MIB, whims);
    let client = client(&host);
    let device = client.gpu.device();
    let made = match addresses {
        true => VirtualContext::create(device, COPY, Vec::new()).map(drop),
        false => Context::create(device, COPY, context_data(DmaBuffers::Aperture).to_vec()).map(drop),
    };
    host.check_invariants().expect("nothing of it is left");
    assert_eq!(device.state().unwrap(), DeviceState::Active);
    made.err()
}

#[test]
fn a_context_names_segments_and_nodes_that_there_are() {
    // spec: memory §7.1, memory §1.13, memory §4.8
    let no_segment: fn(&mut ddi::ContextInfo) = |info| info.dma_buffer_segment_set = SegmentSet(1 << 8);
    let no_node: fn(&mut ddi::ContextInfo) = |info| info.paging_companion_node = NodeId(2);
    for (addresses, change, reason) in [
        (false, no_segment, "DmaBufferSegmentSet names a segment that there is not"),
        (true, no_segment, "DmaBufferSegmentSet names a segment that there is not"),
        (true, no_node, "PagingCompanionNodeId names no node"),
    ] {
        let refusal = refused(addresses, change).expect("a rule is broken");
        assert_eq!((refusal.status, refusal.blame), (NtStatus::INVALID_PARAMETER, Blame::Driver), "{refusal}");
        assert!(refusal.reason.contains(reason), "{refusal}");
    }
    assert_eq!(refused(true, |info| info.paging_companion_node = NodeId(1)), None, "the last one");
    assert_eq!(refused(false, no_node), None, "only contexts with addresses have one");
}

#[test]
fn a_buffer_of_many_pages_is_read_to_its_end() {
    // spec: memory §7.1
    for mode in [VIRTUAL, Mode::Real] {
        let host = host(mode, 4 * MIB);
        let client = client(&host);
        // The client keeps every second page, so that consecutive free pages are rare.
        let holes: Vec<_> = (0..64).map(|_| unlisted(&client, SurfaceKind::System, 4096)).collect();
        let kept: Vec<_> = holes.into_iter().step_by(2).collect();
        for buffers in [DmaBuffers::Contiguous, DmaBuffers::Aperture] {
            let context = context(&client, buffers);
            let target = physical(&client, SurfaceKind::System, 4096);
            let mut commands = ListedCommands::new();
            let mut filled = 0;
            while commands.has_room(&context.sizes()) && filled < 512 {
                commands.fill((&target, filled * 8), 8, filled + 1);
                filled += 1;
            }
            let bytes = context.sizes().command_buffer_bytes;
            assert!(bytes > 4096, "{bytes}");
            commands.render(&context).unwrap();
            drain(&client, &context).unwrap();
            let lock = target.lock().unwrap();
            for at in 0..u64::from(filled) {
                assert_eq!(lock.read_word(at * 8), (at + 1) << 32 | (at + 1), "{mode:?} {buffers:?} {at} of {filled}");
            }
        }
        drop(kept);
    }
}
