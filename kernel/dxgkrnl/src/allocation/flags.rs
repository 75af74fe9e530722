//! The flags of a creation, bit by bit (memory §2.7). Pure: it looks at the request only.

use kmt_calls::{AllocationInfoFlags, AllocationRequest, CreateAllocationFlags, Refusal, ResourceRequest};
use wddm_types::RawHandle;

use crate::refusal::{invalid, not_supported};

/// Most sources of a display.
const VIDEO_SOURCES_MAX: u32 = 16;

/// Refuses what the flags do not allow.
// spec: memory §2.7
pub fn check(requests: &[AllocationRequest], call: &ResourceRequest) -> Result<(), Refusal> {
    use CreateAllocationFlags as F;
    let flags = call.flags;
    let has = |flag: F| flags.contains(flag);
    if flags.bits() >> 23 != 0 {
        return Err(invalid(format!("creation flags {:#x}: reserved bits", flags.bits())));
    }
    if has(F::ZEROED) {
        return Err(invalid("Zeroed is the kernel's answer"));
    }
    let kernel_only = F::CREATE_PROTECTED | F::CREATE_WRITE_COMBINED | F::CREATE_CACHED | F::OPEN_CROSS_ADAPTER;
    if flags.intersects(kernel_only) || has(F::EXISTING_SYS_MEM) && !has(F::STANDARD_ALLOCATION) {
        return Err(invalid(format!("creation flags {:#x}: not for user mode", flags.bits())));
    }
    for (flag, needs) in [
        (F::CREATE_SHARED, F::CREATE_RESOURCE),
        (F::NT_SECURITY_SHARING, F::CREATE_SHARED),
        (F::READ_ONLY, F::CREATE_SHARED),
        (F::CROSS_ADAPTER, F::CREATE_SHARED),
        // spec: memory §2.7: of memory of the program it needs neither
        (F::STANDARD_ALLOCATION | F::EXISTING_SECTION, F::CREATE_SHARED.union(F::CROSS_ADAPTER)),
    ] {
        if has(flag) && !has(needs) {
            return Err(invalid(format!("creation flags {:#x}: {flag:?} needs {needs:?}", flags.bits())));
        }
    }
    if has(F::CREATE_RESOURCE) && call.resource != RawHandle::NONE {
        return Err(invalid("a resource is either created or given"));
    }
    if requests.is_empty() && !has(F::CREATE_RESOURCE) {
        return Err(invalid("a call without a new resource creates at least one allocation"));
    }
    check_existing(requests, call)?;
    let not_built = F::RESTRICT_SHARED_ACCESS
        | F::PARTIAL_SHARED_CREATION
        | F::WRITE_WATCH
        | F::PHYSICALLY_CONTIGUOUS
        | F::NO_KMD_ACCESS
        | F::SHARED_DISPLAYABLE;
    if flags.intersects(not_built) {
        return Err(not_supported(format!("creation flags {:?} are not built", flags & not_built)));
    }
    requests.iter().try_for_each(check_one)
}

fn check_existing(requests: &[AllocationRequest], call: &ResourceRequest) -> Result<(), Refusal> {
    use CreateAllocationFlags as F;
    let sources = call.flags & (F::EXISTING_SYS_MEM | F::EXISTING_SECTION);
    if sources.bits().count_ones() > 1 {
        return Err(invalid("memory exists either as a range or as a section"));
    }
    if call.is_standard() && (sources.is_empty() || requests.len() != 1 || call.resource != RawHandle::NONE) {
        return Err(invalid("a standard allocation is one allocation over memory that exists, in a new resource"));
    }
    // Its place in the call is that of the standard allocation's description (pStandardAllocation).
    if call.is_standard() && !call.private_data.is_empty() {
        return Err(invalid("private data of the call where the description of a standard allocation stands"));
    }
    if let Some(wrong) = requests.iter().position(|request| request.existing.is_some() == sources.is_empty()) {
        return Err(invalid(format!("allocation {wrong}: memory that exists, and the flag that says so")));
    }
    Ok(())
}

fn check_one(request: &AllocationRequest) -> Result<(), Refusal> {
    let primary = request.flags.contains(AllocationInfoFlags::PRIMARY);
    if request.flags.bits() >> 3 != 0 || request.flags.contains(AllocationInfoFlags::STEREO) && !primary {
        return Err(invalid(format!("allocation flags {:#x}", request.flags.bits())));
    }
    // spec: memory §10.2: E_INVALIDARG
    if request.video_source != 0 && !primary || request.video_source >= VIDEO_SOURCES_MAX {
        return Err(invalid("a video source is named by primaries only"));
    }
    if request.priority != 0 && !request.flags.contains(AllocationInfoFlags::OVERRIDE_PRIORITY) {
        return Err(invalid("a priority without OverridePriority"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kmt_calls::SectionRange;
    use wddm_types::NtStatus;

    fn status(flags: CreateAllocationFlags, requests: &[AllocationRequest]) -> Option<NtStatus> {
        let call = ResourceRequest { flags, ..ResourceRequest::default() };
        check(requests, &call).err().map(|refusal| refusal.status)
    }

    #[test]
    fn every_bit_of_a_creation_has_its_answer() {
        // spec: memory §2.7, memory §9.2
        use CreateAllocationFlags as F;
        let one = [AllocationRequest::default()];
        let (ok, wrong, unbuilt) = (None, Some(NtStatus::INVALID_PARAMETER), Some(NtStatus::NOT_SUPPORTED));
        let shared = F::CREATE_RESOURCE | F::CREATE_SHARED;
        for (bit, alone, in_shared) in [
            (0, ok, ok),
            (1, wrong, ok),
            (2, ok, ok),
            (3, wrong, wrong),
            (4, unbuilt, unbuilt),
            (5, wrong, wrong),
            (6, wrong, ok),
            (7, wrong, ok),
            (8, wrong, wrong),
            (9, wrong, wrong),
            (10, ok, ok),
            (11, wrong, ok),
            (12, wrong, wrong),
            (13, unbuilt, unbuilt),
            (14, wrong, wrong),
            (15, unbuilt, unbuilt),
            (16, wrong, wrong),
            (17, wrong, wrong),
            (18, ok, ok),
            (19, unbuilt, unbuilt),
            (20, unbuilt, unbuilt),
            (21, unbuilt, unbuilt),
            (22, ok, ok),
            (23, wrong, wrong),
            (31, wrong, wrong),
        ] {
            let flag = F::from_bits_retain(1 << bit);
            assert_eq!(status(flag, &one), alone, "bit {bit} alone");
            assert_eq!(status(flag | shared, &one), in_shared, "bit {bit} in a shared resource");
        }
    }

    #[test]
    fn a_standard_allocation_is_one_over_memory_that_exists() {
        // spec: memory §2.7
        use CreateAllocationFlags as F;
        let range = AllocationRequest { existing: Some(SectionRange::default()), ..AllocationRequest::default() };
        let standard = F::CREATE_RESOURCE | F::CREATE_SHARED | F::CROSS_ADAPTER | F::STANDARD_ALLOCATION;
        for source in [F::EXISTING_SYS_MEM, F::EXISTING_SECTION] {
            assert_eq!(status(standard | source, std::slice::from_ref(&range)), None);
        }
        let wrong = Some(NtStatus::INVALID_PARAMETER);
        let both = F::EXISTING_SYS_MEM | F::EXISTING_SECTION;
        assert_eq!(status(standard | both, std::slice::from_ref(&range)), wrong, "one of the two");
        assert_eq!(status(standard, std::slice::from_ref(&range)), wrong, "none of the two");
        let two = [range.clone(), range.clone()];
        assert_eq!(status(standard | F::EXISTING_SECTION, &two), wrong, "two");
        assert_eq!(status(standard | F::EXISTING_SECTION, &[AllocationRequest::default()]), wrong, "no memory");
        // Memory of the program alone, in a resource, shared: measured, the page asks for more. A section as the page says.
        for flags in [F::empty(), F::CREATE_RESOURCE, F::CREATE_RESOURCE | F::CREATE_SHARED] {
            let flags = flags | F::STANDARD_ALLOCATION;
            assert_eq!(status(flags | F::EXISTING_SYS_MEM, std::slice::from_ref(&range)), None, "{flags:?}");
            assert_eq!(status(flags | F::EXISTING_SECTION, std::slice::from_ref(&range)), wrong, "{flags:?}");
        }
        let described = AllocationRequest { private_data: vec![1; 7], ..range.clone() };
        let alone = F::EXISTING_SYS_MEM | F::STANDARD_ALLOCATION;
        assert_eq!(status(alone, std::slice::from_ref(&described)), None, "data of the allocation's");
        let of_call = ResourceRequest { flags: alone, private_data: vec![1; 64], ..ResourceRequest::default() };
        assert!(check(std::slice::from_ref(&range), &of_call).is_err(), "data in the description's place");
        let given = ResourceRequest {
            resource: RawHandle(1),
            flags: (standard | F::EXISTING_SECTION) - F::CREATE_RESOURCE,
            ..ResourceRequest::default()
        };
        assert!(check(&[range], &given).is_err(), "a resource that exists");
    }

    #[test]
    fn sources_and_priorities_need_their_flags() {
        // spec: memory §2.7, memory §10.2
        let wrong = Some(NtStatus::INVALID_PARAMETER);
        let with = |flags: u32, video_source, priority| {
            let flags = AllocationInfoFlags::from_bits_retain(flags);
            let request = AllocationRequest { flags, video_source, priority, ..AllocationRequest::default() };
            status(CreateAllocationFlags::empty(), &[request])
        };
        assert_eq!([with(0, 1, 0), with(1, 16, 0), with(2, 0, 0), with(8, 0, 0), with(0, 0, 5)], [wrong; 5]);
        assert_eq!([with(1, 3, 0), with(3, 0, 0), with(4, 0, 5)], [None; 3]);
        assert_eq!(status(CreateAllocationFlags::empty(), &[]), wrong);
        assert_eq!(status(CreateAllocationFlags::CREATE_RESOURCE, &[]), None, "an empty resource is legal");
    }
}
