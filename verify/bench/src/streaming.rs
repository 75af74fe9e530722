//! A copy whose stores go past the caches: the fastest that a processor copies memory that no cache has. A measured peer. Called by `copies`.

#![allow(unsafe_code)] // the stores have no safe form

/// Copies `from` to `to`, which are as long as each other; on other processors than x86-64 as any copy.
///
/// # Panics
/// When their lengths differ.
#[cfg(target_arch = "x86_64")]
pub(crate) fn stream(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const LANE: usize = size_of::<__m128i>();
    assert_eq!(to.len(), from.len(), "a copy of as many bytes");
    // Stores past the caches need an aligned target.
    let head = to.as_ptr().align_offset(LANE).min(to.len());
    let (to_head, to) = to.split_at_mut(head);
    let (from_head, from) = from.split_at(head);
    to_head.copy_from_slice(from_head);
    let lanes = to.len() / LANE;
    for lane in 0..lanes {
        // SAFETY: lane `lane` of both slices is within them, the source may be unaligned, and the target is aligned: the head was split
        // off. SSE2 is part of every x86-64.
        unsafe {
            let value = _mm_loadu_si128(from.as_ptr().add(lane * LANE).cast());
            _mm_stream_si128(to.as_mut_ptr().add(lane * LANE).cast(), value);
        }
    }
    // SAFETY: a barrier; SSE is part of every x86-64. It orders the stores above before all that follows.
    unsafe { _mm_sfence() };
    to[lanes * LANE..].copy_from_slice(&from[lanes * LANE..]);
}

/// Copies `from` to `to`, which are as long as each other.
///
/// # Panics
/// When their lengths differ.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn stream(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_arrives_whatever_the_alignment() {
        let from: Vec<u8> = (0..200).collect();
        for (begin, length) in [(0, 200), (1, 199), (7, 33), (15, 1), (3, 0)] {
            let mut to = [0xEE; 200];
            stream(&mut to[begin..begin + length], &from[begin..begin + length]);
            assert!(to.iter().zip(&from).enumerate().all(
                |(at, (to, from))| match (begin..begin + length).contains(&at) {
                    true => to == from,
                    false => *to == 0xEE,
                }
            ));
        }
    }
}
