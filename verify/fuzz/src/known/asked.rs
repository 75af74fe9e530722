//! The properties that a process has asked of an allocation, read back from its own request.

use kmt_calls::{AllocationInfoFlags, AllocationRequest};
use softgpu_spec::private_data::AllocationRequest as PrivateData;

/// The properties that a process has asked of an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Its bytes.
    pub bytes: u64,
    /// It has a bus address where it is resident.
    pub physical: bool,
    /// The CPU may lock it.
    pub cpu_visible: bool,
    /// A display may show it.
    pub primary: bool,
}

impl Asked {
    /// Reads a request, if its private data is valid for the driver.
    pub fn of(request: &AllocationRequest) -> Option<Asked> {
        let (data, _) = PrivateData::decode_with_details(&request.private_data).ok()?;
        let (bytes, physical) = (data.size_bytes, data.accessed_physically);
        let primary = request.flags.contains(AllocationInfoFlags::PRIMARY);
        Some(Asked { bytes, physical, cpu_visible: data.cpu_visible, primary })
    }
}
