//! The private data of an allocation: what a user-mode driver of the software GPU tells the kernel-mode one when it asks
//! for memory. It is no register and the device never sees it; it stands in the data sheet because both drivers read the
//! data sheet and nothing else of each other. The kernel carries it unread.
//!
//! # Layout, 24 bytes, little-endian
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4 | [`MAGIC`] |
//! | 4 | 2 | [`VERSION`], or [`VERSION_DETAILED`] with [`Details`] behind |
//! | 6 | 1 | kind: 1 local, 2 system, 3 local, else system |
//! | 7 | 1 | 0 |
//! | 8 | 4 | flags: 1 CPU-visible, 2 cached, 4 accessed physically |
//! | 12 | 4 | 0; the kernel-mode driver answers with the alignment here when the allocation is opened first |
//! | 16 | 8 | size in bytes |
//!
//! The bytes come from a process and are an allegation: [`AllocationRequest::decode`] checks each of them.

mod details;

pub use details::{Details, VERSION_DETAILED};

/// "SGAL" in ASCII, as a little-endian number.
pub const MAGIC: u32 = u32::from_le_bytes(*b"SGAL");
/// The version of the layout.
pub const VERSION: u16 = 1;
/// Bytes of the layout.
pub const BYTES: usize = 24;
/// Most bytes that an allocation can have. A device with narrower addresses cannot show it whole.
pub const SIZE_BYTES_MAX: u64 = 1 << 47;

/// Where an allocation wants to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In the device's local memory, nowhere else.
    Local,
    /// In system memory, which the device reaches over the bus.
    System,
    /// In local memory; in system memory when there is no room.
    LocalThenSystem,
}

impl Kind {
    /// The number in the layout.
    pub const fn number(self) -> u8 {
        match self {
            Kind::Local => 1,
            Kind::System => 2,
            Kind::LocalThenSystem => 3,
        }
    }
}

/// The wanted properties of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationRequest {
    /// Where it wants to live.
    pub kind: Kind,
    /// The CPU may map it.
    pub cpu_visible: bool,
    /// System pages are cacheable; needs `cpu_visible` (memory §2.2).
    pub cached: bool,
    /// Commands name it by bus address: contiguous in local memory, mapped in the aperture (memory §1.6).
    pub accessed_physically: bool,
    /// Bytes, 1 to [`SIZE_BYTES_MAX`].
    pub size_bytes: u64,
}

/// Why bytes are no request. Their writer is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Another length.
    #[error("the private data have {0} bytes, not 24 (80 with details)")]
    Length(usize),
    /// Another magic number.
    #[error("the private data begin with {0:#010x}, which no driver of this device writes")]
    Magic(u32),
    /// Another version.
    #[error("the private data have version {0}, this driver knows versions 1 and 2")]
    Version(u16),
    /// No such kind.
    #[error("kind {0} does not exist")]
    Kind(u8),
    /// Unknown flags, or some that exclude each other.
    #[error("flags {0:#x}: unknown, or cached without CPU-visible")]
    Flags(u32),
    /// A reserved byte is not 0.
    #[error("a reserved byte is not 0")]
    Reserved,
    /// Nothing, or more than there are addresses for.
    #[error("{0} bytes is no size of an allocation")]
    Size(u64),
}

/// Flag: the CPU may map it.
pub const CPU_VISIBLE: u32 = 1 << 0;
/// Flag: system pages are cacheable; needs [`CPU_VISIBLE`].
pub const CACHED: u32 = 1 << 1;
/// Flag: commands name it by bus address.
pub const ACCESSED_PHYSICALLY: u32 = 1 << 2;

impl AllocationRequest {
    /// The bytes to hand to the kernel.
    pub fn encode(&self) -> [u8; BYTES] {
        let kind = self.kind.number();
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        let flags = flag(self.cpu_visible, CPU_VISIBLE)
            | flag(self.cached, CACHED)
            | flag(self.accessed_physically, ACCESSED_PHYSICALLY);
        let mut bytes = [0; BYTES];
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6] = kind;
        bytes[8..12].copy_from_slice(&flags.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.size_bytes.to_le_bytes());
        bytes
    }

    /// The bytes of version 2: the request, and what it wants beyond the usual.
    pub fn encode_with(&self, details: &Details) -> [u8; BYTES + details::BYTES] {
        let mut bytes = [0; BYTES + details::BYTES];
        bytes[..BYTES].copy_from_slice(&self.encode());
        bytes[4..6].copy_from_slice(&VERSION_DETAILED.to_le_bytes());
        bytes[BYTES..].copy_from_slice(&details.encode());
        bytes
    }

    /// Reads what a process has written, in either version.
    ///
    /// # Errors
    /// The first rule that the bytes break.
    pub fn decode_with_details(bytes: &[u8]) -> Result<(AllocationRequest, Option<Details>), RequestError> {
        let Some((request, details)) = bytes.split_first_chunk::<BYTES>() else {
            return Err(RequestError::Length(bytes.len()));
        };
        if details.is_empty() {
            return Ok((AllocationRequest::decode(request)?, None));
        }
        let details: &[u8; details::BYTES] = details.try_into().map_err(|_| RequestError::Length(bytes.len()))?;
        let version = u16::from_le_bytes([request[4], request[5]]);
        if version != VERSION_DETAILED {
            return Err(RequestError::Version(version));
        }
        let mut first = *request;
        first[4..6].copy_from_slice(&VERSION.to_le_bytes());
        Ok((AllocationRequest::decode(&first)?, Some(Details::decode(details))))
    }

    /// Reads what a process has written, without details.
    ///
    /// # Errors
    /// The first rule that the bytes break.
    pub fn decode(bytes: &[u8]) -> Result<AllocationRequest, RequestError> {
        let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| RequestError::Length(bytes.len()))?;
        let four = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if four(0) != MAGIC {
            return Err(RequestError::Magic(four(0)));
        }
        let version = u16::from_le_bytes([bytes[4], bytes[5]]);
        if version != VERSION {
            return Err(RequestError::Version(version));
        }
        let kind = match bytes[6] {
            1 => Kind::Local,
            2 => Kind::System,
            3 => Kind::LocalThenSystem,
            other => return Err(RequestError::Kind(other)),
        };
        if bytes[7] != 0 || four(12) != 0 {
            return Err(RequestError::Reserved);
        }
        let flags = four(8);
        let known = CPU_VISIBLE | CACHED | ACCESSED_PHYSICALLY;
        if flags & !known != 0 || flags & (CPU_VISIBLE | CACHED) == CACHED {
            return Err(RequestError::Flags(flags));
        }
        let size_bytes = u64::from(four(16)) | u64::from(four(20)) << 32;
        if size_bytes == 0 || size_bytes > SIZE_BYTES_MAX {
            return Err(RequestError::Size(size_bytes));
        }
        Ok(AllocationRequest {
            kind,
            cpu_visible: flags & CPU_VISIBLE != 0,
            cached: flags & CACHED != 0,
            accessed_physically: flags & ACCESSED_PHYSICALLY != 0,
            size_bytes,
        })
    }
}

/// The kernel-mode driver's answer in the private data of an allocation that is opened for the first time. Bytes that are
/// too short were refused before.
pub fn grant_alignment(bytes: &mut [u8], alignment_bytes: u64) {
    // CAST: alignments of this driver are pages of 4 KB or 64 KB; a larger one is told as "unknown".
    let told = u32::try_from(alignment_bytes).unwrap_or(0);
    if let Some(field) = bytes.get_mut(12..16) {
        field.copy_from_slice(&told.to_le_bytes());
    }
}

/// The alignment that [`grant_alignment`] wrote; `None` for bytes that are too short.
pub fn granted_alignment(bytes: &[u8]) -> Option<u32> {
    let field = bytes.get(12..16)?;
    Some(u32::from_le_bytes([field[0], field[1], field[2], field[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: AllocationRequest = AllocationRequest {
        kind: Kind::LocalThenSystem,
        cpu_visible: true,
        cached: true,
        accessed_physically: false,
        size_bytes: 0x1_0000_2000,
    };

    #[test]
    fn a_request_decodes_to_itself() {
        for kind in [Kind::Local, Kind::System, Kind::LocalThenSystem] {
            for bits in 0..8 {
                let request = AllocationRequest {
                    kind,
                    cpu_visible: bits & 1 != 0,
                    cached: bits & 3 == 3,
                    accessed_physically: bits & 4 != 0,
                    size_bytes: 1 + bits,
                };
                assert_eq!(AllocationRequest::decode(&request.encode()), Ok(request));
            }
        }
    }

    #[test]
    fn details_stand_behind_the_request() {
        let details =
            Details { flags: 0x20, priority: 7, tile_pitch: 512, alignment_bytes: 1 << 16, ..Details::default() };
        let bytes = REQUEST.encode_with(&details);
        assert_eq!(AllocationRequest::decode_with_details(&bytes), Ok((REQUEST, Some(details))));
        assert_eq!(AllocationRequest::decode_with_details(&REQUEST.encode()), Ok((REQUEST, None)));
        for length in (0..bytes.len()).filter(|length| *length != BYTES) {
            let result = AllocationRequest::decode_with_details(&bytes[..length]);
            assert_eq!(result, Err(RequestError::Length(length)), "{length}");
        }
        let mut wrong = bytes;
        wrong[4] = 1;
        assert_eq!(AllocationRequest::decode_with_details(&wrong), Err(RequestError::Version(1)));
    }

    #[test]
    fn hostile_bytes_are_refused() {
        let good = REQUEST.encode();
        for length in (0..BYTES).chain([BYTES + 1, 4096]) {
            assert_eq!(AllocationRequest::decode(&vec![0; length]), Err(RequestError::Length(length)));
        }
        let with = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            AllocationRequest::decode(&bytes)
        };
        assert!(matches!(with(0, 0), Err(RequestError::Magic(_))));
        assert_eq!(with(4, 2), Err(RequestError::Version(2)));
        for kind in [0, 4, 255] {
            assert_eq!(with(6, kind), Err(RequestError::Kind(kind)));
        }
        for at in [7, 12, 13, 14, 15] {
            assert_eq!(with(at, 1), Err(RequestError::Reserved));
        }
        assert_eq!(with(8, 8), Err(RequestError::Flags(8)));
        assert_eq!(with(8, 2), Err(RequestError::Flags(2)), "cached needs CPU-visible");
        assert!(matches!(with(23, 0xff), Err(RequestError::Size(_))));
        let empty = AllocationRequest { size_bytes: 0, ..REQUEST };
        assert_eq!(AllocationRequest::decode(&empty.encode()), Err(RequestError::Size(0)));
        let huge = AllocationRequest { size_bytes: SIZE_BYTES_MAX + 1, ..REQUEST };
        assert_eq!(AllocationRequest::decode(&huge.encode()), Err(RequestError::Size(SIZE_BYTES_MAX + 1)));
    }
}
