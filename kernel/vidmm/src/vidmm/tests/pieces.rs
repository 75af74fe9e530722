//! Which pages of an allocation lie where, from any page on; and which segments the CPU sees through a window.

use ddi::{CpuAccess, SegmentDescriptor4, SegmentFlags};
use wddm_types::{PageRun, Pages, SegmentId};

use super::world::*;
use crate::allocation::{Placement, cut};
use crate::extent::{Extent, Extents};

fn run(first: u64, count: u64) -> PageRun {
    PageRun { first, count: Pages(count) }
}

#[test]
fn a_part_of_a_page_list_begins_and_ends_inside_its_runs() {
    let list = [run(100, 3), run(200, 4), run(300, 5)];
    for (first, count, part) in [
        (0, 12, list.to_vec()),
        (0, 2, vec![run(100, 2)]),
        (1, 2, vec![run(101, 2)]),
        (2, 3, vec![run(102, 1), run(200, 2)]),
        (3, 1, vec![run(200, 1)]),
        (5, 2, vec![run(202, 2)]),
        (6, 4, vec![run(203, 1), run(300, 3)]),
        (9, 3, vec![run(302, 3)]),
        (12, 0, vec![]),
    ] {
        assert_eq!(cut(&list, first, count), part, "{count} pages from page {first}");
    }
}

#[test]
fn pieces_of_an_allocation_are_named_by_page_segment_and_frame() {
    let (mut mm, _, device) = with_device(64);
    let id = create(&mut mm, device, 12, &[VRAM]);
    let allocation = &mut mm.allocations[id];
    assert_eq!(allocation.resident_pieces(0, 12), [], "it lies nowhere");
    let extents = [(0, 40, 3), (3, 10, 4), (9, 20, 3)];
    let mut lying = Extents::of(12);
    lying.add(&extents.map(|(page, frame, count)| Extent { page, frame, count, dirty: false }));
    allocation.placement = Placement::Memory(VRAM, lying);
    assert_eq!(allocation.resident_pieces(0, 12), [(0, 3, VRAM, 40), (3, 4, VRAM, 10), (9, 3, VRAM, 20)]);
    assert_eq!(allocation.resident_pieces(5, 5), [(5, 2, VRAM, 12), (9, 1, VRAM, 20)]);
    assert_eq!(allocation.resident_pieces(7, 2), [], "of these none is resident");
    let first = allocation.backing[0].first;
    allocation.placement = Placement::System(None);
    let pieces: Vec<_> = allocation.resident_pieces(4, 6);
    assert_eq!(pieces.iter().map(|piece| piece.1).sum::<u64>(), 6);
    assert!(pieces.iter().all(|piece| piece.2 == SegmentId::SYSTEM));
    assert_eq!((pieces[0].0, pieces[0].3), (4, first + 4));
}

#[test]
fn a_window_is_one_of_a_memory_segment_that_supports_it() {
    // spec: memory §1.5, memory §6.6
    let window = SegmentFlags::SUPPORTS_CPU_HOST_APERTURE;
    for (flags, has) in [
        (window, true),
        (SegmentFlags::empty(), false),
        (SegmentFlags::CPU_VISIBLE, false),
        (window | SegmentFlags::PITCH_ALIGNMENT, false),
    ] {
        assert_eq!(adapter_of_two(64, flags).windows.is_windowed(EXTRA), has, "{flags:?}");
    }
    let described =
        SegmentDescriptor4 { cpu: CpuAccess::HostAperture(window_range(SegmentId(2))), ..aperture_descriptor(64) };
    let bits = [5, 5, 6];
    let mm = crate::VidMm::<u8>::new(policy(), &[vram_descriptor(64, window), described], mmu(&bits), &levels(&bits));
    let mm = mm.expect("on an aperture the flag means nothing");
    assert!(!mm.windows.is_windowed(SegmentId(2)) && mm.windows.is_windowed(VRAM));
}
