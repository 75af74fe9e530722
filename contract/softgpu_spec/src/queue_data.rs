//! The private data of a hardware queue: what the kernel-mode driver of the software GPU tells the user-mode one of a queue that is made.
//! A program that creates queues through the D3DKMT structures learns CurrentValue's address of the progress fence from the kernel, and
//! MonitoredValue's from here: `D3DKMT_CREATEHWQUEUE` has no member for it, and a signal needs both. Without data a driver says nothing.
//!
//! # Layout, 16 bytes, little-endian
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | [`MAGIC`], by the user-mode driver |
//! | 4 | 2 | [`VERSION`], likewise |
//! | 6 | 2 | 0 |
//! | 8 | 8 | 0; the kernel-mode driver answers with the GPU address of the progress fence's MonitoredValue |

/// "SGQU" in ASCII, as a little-endian number.
pub const MAGIC: u32 = u32::from_le_bytes(*b"SGQU");
/// The version of the layout.
pub const VERSION: u16 = 1;
/// Bytes of the layout.
pub const BYTES: usize = 16;

/// The bytes that a user-mode driver hands in.
pub fn question() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Writes the answer into what a process has handed in; false when that is no question of this version.
#[must_use]
pub fn answer(bytes: &mut [u8], monitored_va: u64) -> bool {
    let asked = bytes == question();
    if asked {
        bytes[8..].copy_from_slice(&monitored_va.to_le_bytes());
    }
    asked
}

/// Reads an answer; `None` when the bytes are none.
pub fn monitored_va(bytes: &[u8]) -> Option<u64> {
    let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
    let (asked, answered) = bytes.split_at(8);
    let va = u64::from_le_bytes(*answered.first_chunk()?);
    (asked == &question()[..8] && va != 0).then_some(va)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_question_is_answered_and_only_an_answer_read() {
        let mut good = question();
        assert_eq!(monitored_va(&good), None, "the driver has not answered");
        assert!(answer(&mut good, 0x1234_5000));
        assert_eq!(monitored_va(&good), Some(0x1234_5000));
        for at in 0..BYTES {
            let mut bad = question();
            bad[at] ^= 0x40;
            assert!(!answer(&mut bad, 1), "byte {at}");
        }
        assert!(!answer(&mut [], 1) && !answer(&mut question()[..8], 1));
        assert_eq!(monitored_va(&good[..15]), None);
    }
}
