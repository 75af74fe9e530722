//! Buffers that the library gives to C programs to write into: command buffer and lists of a context that is patched.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use d3dkmt_abi::{D3DDDI_ALLOCATIONLIST, D3DDDI_PATCHLOCATIONLIST};
use kmt_calls::CreatedContext;

/// Memory for so many entries, zeros at first. It is the C program's to write; here only its place is known.
pub struct Buffer<T> {
    place: NonNull<T>,
    entries: usize,
}

// SAFETY: nothing is reached through the value; the library reads there only in a call of the C program, which vouches for the bytes.
unsafe impl<T> Send for Buffer<T> {}

impl<T: Copy> Buffer<T> {
    fn new(zero: T, entries: usize) -> Buffer<T> {
        let memory = Box::into_raw(vec![zero; entries].into_boxed_slice());
        Buffer { place: NonNull::new(memory.cast::<T>()).expect("a box is somewhere"), entries }
    }

    /// Where it is.
    pub fn place(&self) -> *mut T {
        self.place.as_ptr()
    }

    /// The first entries, as the C program has written them. A replay may look there, too: no recording has said the place.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn first(&self, count: u32) -> Vec<T> {
        assert!(count as usize <= self.entries, "{count} entries of a buffer of {}", self.entries);
        // SAFETY: so many entries are there (checked), all of them written at first. The C program, which waits for its call, vouches for the bytes.
        unsafe { std::slice::from_raw_parts(self.place.as_ptr(), count as usize) }.to_vec()
    }

    /// How many entries it has.
    pub fn entries(&self) -> usize {
        self.entries
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // SAFETY: it came from a box of so many entries, and the context that it belonged to is gone.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.place.as_ptr(), self.entries)) });
    }
}

/// The buffer and lists that a C program writes for a context that is patched.
pub struct ContextBuffers {
    /// Words of commands.
    pub commands: Buffer<u64>,
    /// The allocation list.
    pub allocations: Buffer<D3DDDI_ALLOCATIONLIST>,
    /// The patch-location list.
    pub patches: Buffer<D3DDDI_PATCHLOCATIONLIST>,
}

impl ContextBuffers {
    /// Of the sizes that the kernel has said.
    pub fn new(created: &CreatedContext) -> ContextBuffers {
        // SAFETY: zeros are a value of these structures of numbers.
        let (allocation, patch) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        ContextBuffers {
            commands: Buffer::new(0, created.command_buffer_bytes as usize / 8),
            allocations: Buffer::new(allocation, created.allocation_list_entries as usize),
            patches: Buffer::new(patch, created.patch_location_list_entries as usize),
        }
    }
}
