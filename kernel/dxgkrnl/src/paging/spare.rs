//! Copies out that leave some pages alone (memory §2.2): the CPU has written these pages of a locked permanent copy since it was shown them,
//! and what it wrote is newer than the content that the GPU has. Pure functions: `rotation` applies them to the work at the head of the
//! ring, with the pages that the adapter has compared.

use vidmm::{Direction, Operation, cut_pages};
use wddm_types::{PAGE_BYTES, PageRun};

/// Takes system pages out of the copies of a work that would write them. `whole`: their allocation is copied whole or not at all.
// spec: memory §2.2
pub fn spare(operation: Operation, frames: &[PageRun], whole: bool) -> Vec<Operation> {
    let Operation::Transfer { backing, direction: Direction::Out, .. } = &operation else { return vec![operation] };
    let kept = unspared(backing, frames);
    let pages: u64 = backing.iter().map(|run| run.count.0).sum();
    match kept[..] {
        [(0, count)] if count == pages => vec![operation],
        _ if whole => Vec::new(),
        _ => kept.iter().map(|&(first, count)| part_of(&operation, first, count)).collect(),
    }
}

/// The ranges of a list of pages that are not among `frames`: first and how many.
fn unspared(backing: &[PageRun], frames: &[PageRun]) -> Vec<(u64, u64)> {
    let spared = |frame: u64| frames.iter().any(|run| (run.first..run.end()).contains(&frame));
    let mut kept: Vec<(u64, u64)> = Vec::new();
    for (page, frame) in (0..).zip(backing.iter().flat_map(|run| run.first..run.end())) {
        match kept.last_mut() {
            _ if spared(frame) => {}
            Some((first, count)) if *first + *count == page => *count += 1,
            _ => kept.push((page, 1)),
        }
    }
    kept
}

/// `count` pages of a copy, from its page `from` on.
fn part_of(operation: &Operation, from: u64, count: u64) -> Operation {
    let mut part = operation.clone();
    let Operation::Transfer { allocation_offset, size_bytes, address, backing, through, .. } = &mut part else {
        unreachable!("it is a transfer")
    };
    *allocation_offset += from * PAGE_BYTES;
    *address += from * PAGE_BYTES;
    *size_bytes = count * PAGE_BYTES;
    *backing = cut_pages(backing, from, count);
    if let Some((_, shown)) = through {
        *shown += from * PAGE_BYTES;
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use vidmm::Form;
    use wddm_types::{Pages, SegmentId};

    fn run(first: u64, count: u64) -> PageRun {
        PageRun { first, count: Pages(count) }
    }

    fn out(direction: Direction) -> Operation {
        Operation::Transfer {
            allocation: Some(ddi::KmdAllocation(1)),
            allocation_offset: 8 * PAGE_BYTES,
            size_bytes: 6 * PAGE_BYTES,
            segment: SegmentId(1),
            address: 100 * PAGE_BYTES,
            contiguous: false,
            backing: vec![run(40, 2), run(10, 4)],
            through: Some((SegmentId(2), 500 * PAGE_BYTES)),
            direction,
            form: Form::Kept,
        }
    }

    /// Offset, size, address, through, in pages; and the backing store.
    fn shape(operation: &Operation) -> (u64, u64, u64, u64, Vec<PageRun>) {
        let Operation::Transfer { allocation_offset, size_bytes, address, backing, through, .. } = operation else {
            panic!("{operation:?}")
        };
        let through = through.map_or(0, |(_, at)| at / PAGE_BYTES);
        (allocation_offset / PAGE_BYTES, size_bytes / PAGE_BYTES, address / PAGE_BYTES, through, backing.clone())
    }

    #[test]
    fn a_copy_out_leaves_the_pages_alone_that_the_cpu_wrote() {
        // spec: memory §2.2
        let spared = |frames: &[PageRun]| spare(out(Direction::Out), frames, false);
        assert_eq!(spared(&[]), [out(Direction::Out)]);
        assert_eq!(spared(&[run(20, 5)]), [out(Direction::Out)], "pages of others");
        let parts: Vec<_> = spared(&[run(41, 1), run(11, 1)]).iter().map(shape).collect();
        let expected = [
            (8, 1, 100, 500, vec![run(40, 1)]),
            (10, 1, 102, 502, vec![run(10, 1)]),
            (12, 2, 104, 504, vec![run(12, 2)]),
        ];
        assert_eq!(parts, expected);
        assert_eq!(spared(&[run(0, 100)]), [], "nothing is left to be copied");
        assert_eq!(spare(out(Direction::Out), &[run(13, 1)], true), [], "whole or not at all");
        assert_eq!(spare(out(Direction::In), &[run(0, 100)], false), [out(Direction::In)], "what comes is not spared");
    }
}
