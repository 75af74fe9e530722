//! The descriptor array of `QUERYSEGMENT4`: raw bytes whose elements stand `SegmentDescriptorStride` apart (memory §1.3).
//! The caller chooses the stride, so that a driver built for a short descriptor works under a kernel that knows a longer
//! one. Bytes between descriptors belong to the kernel; a driver never writes them.

use super::descriptor::{CpuAccess, CpuHostAperture, SegmentDescriptor4};
use super::flags::SegmentFlags;

/// Bytes of `DXGK_SEGMENTDESCRIPTOR4` (memory §1.4).
pub const DESCRIPTOR4_BYTES: usize = 96;

/// The array cannot hold descriptors at this stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stride is at least {DESCRIPTOR4_BYTES} bytes, a multiple of 8, and divides the bytes of the array")]
pub struct StrideError;

/// Elements of `DXGK_SEGMENTDESCRIPTOR4`, addressed as byte pointer + index × stride.
#[derive(Debug)]
pub struct DescriptorArray<'a> {
    bytes: &'a mut [u8],
    stride: usize,
}

impl<'a> DescriptorArray<'a> {
    /// An array over `bytes` with an element at each multiple of `stride`.
    ///
    /// # Errors
    /// The stride is too short for a descriptor, unaligned, or does not divide the bytes.
    pub fn new(bytes: &'a mut [u8], stride: usize) -> Result<Self, StrideError> {
        if stride < DESCRIPTOR4_BYTES || !stride.is_multiple_of(8) || !bytes.len().is_multiple_of(stride) {
            return Err(StrideError);
        }
        Ok(DescriptorArray { bytes, stride })
    }

    /// How many elements there is room for.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.stride
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// `SegmentDescriptorStride`, bytes between descriptors.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Writes element `index`, its [`DESCRIPTOR4_BYTES`] bytes and no other. `false`, and nothing written, when there is no
    /// such element.
    #[must_use]
    pub fn put(&mut self, index: usize, descriptor: &SegmentDescriptor4) -> bool {
        let Some(element) = self.bytes.chunks_exact_mut(self.stride).nth(index) else { return false };
        encode(descriptor, &mut element[..DESCRIPTOR4_BYTES]);
        true
    }

    /// Writes the first elements; `false`, and nothing written, when there is no room for all.
    #[must_use]
    pub fn put_all(&mut self, descriptors: &[SegmentDescriptor4]) -> bool {
        descriptors.len() <= self.len()
            && descriptors.iter().enumerate().all(|(index, descriptor)| self.put(index, descriptor))
    }

    /// Reads element `index`. The flags of what was read say which arm of the union counts.
    pub fn get(&self, index: usize) -> Option<SegmentDescriptor4> {
        self.bytes.chunks_exact(self.stride).nth(index).map(|element| decode(&element[..DESCRIPTOR4_BYTES]))
    }
}

/// Offsets as in memory §1.4.
fn encode(descriptor: &SegmentDescriptor4, out: &mut [u8]) {
    out.fill(0);
    let (address, pages) = match descriptor.cpu {
        CpuAccess::Translated(address) => (address, 0),
        CpuAccess::HostAperture(window) => (window.physical_address, window.size_in_pages),
    };
    let d = descriptor;
    let longs = [
        (8, d.base_address),
        (16, d.size_bytes),
        (24, d.commit_limit_bytes),
        (32, d.system_memory_end_address),
        (40, address),
        (64, d.vpr_range_start_offset),
        (72, d.vpr_range_size),
    ];
    let words = [
        (0, d.flags.bits()),
        (48, pages),
        (56, d.num_invalid_memory_ranges),
        (80, d.vpr_alignment),
        (84, d.num_vpr_supported),
        (88, d.vpr_reserve_size),
        (92, d.num_uefi_frame_buffer_ranges),
    ];
    for (offset, value) in longs {
        out[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    }
    for (offset, value) in words {
        out[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }
}

fn decode(bytes: &[u8]) -> SegmentDescriptor4 {
    let long =
        |offset: usize| bytes[offset..offset + 8].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
    let word =
        |offset: usize| bytes[offset..offset + 4].iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
    let flags = SegmentFlags::from_bits_retain(word(0));
    let cpu = if flags.contains(SegmentFlags::SUPPORTS_CPU_HOST_APERTURE) {
        CpuAccess::HostAperture(CpuHostAperture { physical_address: long(40), size_in_pages: word(48) })
    } else {
        CpuAccess::Translated(long(40))
    };
    SegmentDescriptor4 {
        flags,
        base_address: long(8),
        size_bytes: long(16),
        commit_limit_bytes: long(24),
        system_memory_end_address: long(32),
        cpu,
        num_invalid_memory_ranges: word(56),
        vpr_range_start_offset: long(64),
        vpr_range_size: long(72),
        vpr_alignment: word(80),
        num_vpr_supported: word(84),
        vpr_reserve_size: word(88),
        num_uefi_frame_buffer_ranges: word(92),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> SegmentDescriptor4 {
        SegmentDescriptor4 {
            flags: SegmentFlags::SUPPORTS_CPU_HOST_APERTURE | SegmentFlags::VPR_SUPPORTED,
            base_address: 0x1111,
            size_bytes: 0x2222,
            commit_limit_bytes: 0x3333,
            system_memory_end_address: 0x4444,
            cpu: CpuAccess::HostAperture(CpuHostAperture { physical_address: 0x5555, size_in_pages: 0x66 }),
            num_invalid_memory_ranges: 7,
            vpr_range_start_offset: 0x8888,
            vpr_range_size: 0x9999,
            vpr_alignment: 0xa,
            num_vpr_supported: 0xb,
            vpr_reserve_size: 0xc,
            num_uefi_frame_buffer_ranges: 0xd,
        }
    }

    #[test]
    fn elements_stand_a_stride_apart_and_nothing_between_is_written() {
        // spec: memory §1.3, memory §10.4
        for stride in [96, 104, 256] {
            let mut bytes = vec![0x55; 3 * stride];
            let mut array = DescriptorArray::new(&mut bytes, stride).unwrap();
            assert!(array.put_all(&[full(), SegmentDescriptor4::default(), full()]));
            assert_eq!(array.get(0), Some(full()));
            assert_eq!(array.get(1), Some(SegmentDescriptor4::default()));
            assert_eq!(array.get(2), Some(full()));
            assert_eq!(array.get(3), None);
            assert!(!array.put(3, &full()), "no such element");
            assert!(!array.put_all(&[full(); 4]), "no room");
            for element in bytes.chunks_exact(stride) {
                assert!(element[DESCRIPTOR4_BYTES..].iter().all(|&byte| byte == 0x55));
            }
        }
    }

    #[test]
    fn members_stand_where_the_c_structure_has_them() {
        // spec: memory §1.4
        let mut bytes = vec![0; 96];
        assert!(DescriptorArray::new(&mut bytes, 96).unwrap().put(0, &full()));
        assert_eq!(bytes[16..18], [0x22, 0x22]);
        assert_eq!(bytes[40..42], [0x55, 0x55]);
        assert_eq!((bytes[48], bytes[56], bytes[92]), (0x66, 7, 0xd));
    }

    #[test]
    fn a_stride_that_holds_no_descriptor_is_refused() {
        // spec: memory §1.3
        for (bytes, stride) in [(960, 88), (960, 0), (970, 97), (100, 96)] {
            assert_eq!(DescriptorArray::new(&mut vec![0; bytes], stride).err(), Some(StrideError), "{stride}");
        }
    }
}
