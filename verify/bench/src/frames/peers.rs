//! The other frame allocators. Called by `frames`.
#![allow(unsafe_code)] // the two-level segregated fit takes pointers back

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use super::sequence::{Frames, POOL_PAGES};

/// `offset-allocator`, in pages.
pub(super) struct Offsets(offset_allocator::Allocator);

impl Offsets {
    pub fn new() -> Self {
        Offsets(offset_allocator::Allocator::new(POOL_PAGES as u32))
    }
}

impl Frames for Offsets {
    type Taken = offset_allocator::Allocation;

    fn take(&mut self, pages: u32) -> Option<Self::Taken> {
        self.0.allocate(pages)
    }

    fn give(&mut self, taken: Self::Taken) {
        self.0.free(taken);
    }
}

/// The smallest block of `rlsf`, which stands for a page: so its headers lie as close together as they can.
const PAGE: usize = rlsf::GRANULARITY;
/// The bytes that a block needs beside its content.
const HEADER: usize = PAGE / 2;

/// `rlsf`, which keeps its books in the memory that it manages.
pub(super) struct Segregated<'m>(rlsf::Tlsf<'m, u32, u32, 24, 32>);

impl<'m> Segregated<'m> {
    /// Memory for one.
    pub fn memory() -> Vec<MaybeUninit<u8>> {
        // One page more: the end of the memory has a header of its own.
        vec![MaybeUninit::new(0); (POOL_PAGES as usize + 2) * PAGE]
    }

    pub fn new(memory: &'m mut [MaybeUninit<u8>]) -> Self {
        let mut tlsf = rlsf::Tlsf::new();
        let _ = tlsf.insert_free_block(memory);
        Segregated(tlsf)
    }
}

impl Frames for Segregated<'_> {
    type Taken = NonNull<u8>;

    fn take(&mut self, pages: u32) -> Option<Self::Taken> {
        let layout = Layout::from_size_align(pages as usize * PAGE - HEADER, 1).expect("a small alignment");
        self.0.allocate(layout)
    }

    fn give(&mut self, taken: Self::Taken) {
        // SAFETY: `make` gives back what `take` of the same allocator answered with, once; the alignment is that of `take`.
        unsafe { self.0.deallocate(taken, 1) }
    }
}
