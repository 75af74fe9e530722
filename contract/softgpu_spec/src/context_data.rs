//! The private data of a packet context: what a user-mode driver of the software GPU may wish about its DMA buffers. Like
//! the data of an allocation it is no register; both drivers read it here. Without data a driver chooses by itself.
//!
//! # Layout, 8 bytes, little-endian
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | [`MAGIC`] |
//! | 4 | 2 | [`VERSION`] |
//! | 6 | 1 | where DMA buffers lie: 0 contiguous system memory, 1 behind the aperture, 2 local memory |
//! | 7 | 1 | 0 |

/// "SGCX" in ASCII, as a little-endian number.
pub const MAGIC: u32 = u32::from_le_bytes(*b"SGCX");
/// The version of the layout.
pub const VERSION: u16 = 1;
/// Bytes of the layout.
pub const BYTES: usize = 8;

/// Where DMA buffers lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DmaBuffers {
    /// Contiguous system memory, read at its own address.
    Contiguous,
    /// System pages shown by the aperture.
    #[default]
    Aperture,
    /// Local memory. The device could read them there; kernels are known to refuse it.
    Local,
}

impl DmaBuffers {
    /// The number in the layout.
    pub const fn number(self) -> u8 {
        match self {
            DmaBuffers::Contiguous => 0,
            DmaBuffers::Aperture => 1,
            DmaBuffers::Local => 2,
        }
    }
}

/// The bytes to hand to the kernel.
pub fn encode(buffers: DmaBuffers) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
    bytes[6] = buffers.number();
    bytes
}

/// Reads what a process has written; `None` when it is no layout of this version.
pub fn decode(bytes: &[u8]) -> Option<DmaBuffers> {
    if bytes.is_empty() {
        return Some(DmaBuffers::default());
    }
    let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
    let buffers = match bytes[6] {
        0 => DmaBuffers::Contiguous,
        1 => DmaBuffers::Aperture,
        2 => DmaBuffers::Local,
        _ => return None,
    };
    (encode(buffers) == *bytes).then_some(buffers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_layout_is_read() {
        for buffers in [DmaBuffers::Contiguous, DmaBuffers::Aperture, DmaBuffers::Local] {
            let good = encode(buffers);
            assert_eq!(decode(&good), Some(buffers));
            for at in 0..BYTES {
                let mut bad = good;
                bad[at] ^= 0x40;
                assert_eq!(decode(&bad), None, "byte {at}");
            }
            assert_eq!(decode(&good[..7]), None);
        }
        assert_eq!(decode(&[]), Some(DmaBuffers::Aperture));
    }
}
