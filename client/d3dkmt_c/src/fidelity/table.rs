//! What the library takes and does not act on: each function, member and flag with the reason. Nothing else may be taken without effect;
//! `tests/members.rs` holds the members to it, and docs/calls.md has the same table.

/// Something that is accepted and changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct WithoutEffect {
    /// The structure, or a function without one.
    pub of: &'static str,
    /// The member; empty: the function as a whole.
    pub member: &'static str,
    /// The flag in it; empty: the member as a whole, if it is not 0.
    pub flag: &'static str,
    /// Why nothing changes.
    pub why: &'static str,
}

const fn row(of: &'static str, member: &'static str, flag: &'static str, why: &'static str) -> WithoutEffect {
    WithoutEffect { of, member, flag, why }
}

const STEREO: &str = "no display of this kernel shows two pictures";
const HINT: &str = "names the graphics interface above, for tools";
const LISTED: &str = "every adapter renders, so that the filter leaves none out";
const COMPOSITOR: &str = "the kernel has no compositor that would do otherwise";
const SECURITY: &str = "the kernel has users and access masks, and no descriptors of security";

/// All of them.
pub const WITHOUT_EFFECT: &[WithoutEffect] = &[
    row("D3DKMTCloseDxCoreDevice", "", "", "the library has no descriptor that a program closes"),
    row("D3DDDI_ALLOCATIONINFO", "Flags", "Stereo", STEREO),
    row("D3DDDI_ALLOCATIONINFO2", "Flags", "Stereo", STEREO),
    row("D3DDDI_MAKERESIDENT", "PriorityList", "", "documented as ignored (memory §5.2)"),
    row("D3DKMT_CREATEALLOCATION", "Flags", "AllowNotZeroed", "new content is zeros all the same"),
    row(
        "D3DKMT_CREATEALLOCATION",
        "Flags",
        "NoImplicitSynchronization",
        "surfaces that a display shows keep their rules",
    ),
    row("D3DKMT_CREATEALLOCATION", "Flags", "NonSecure", "the content is the process's own all the same"),
    row(
        "D3DKMT_CREATEALLOCATION",
        "Flags",
        "SwapChainBackBuffer",
        "a hint to a window system, which the kernel has not",
    ),
    row("D3DKMT_CREATEALLOCATION", "hPrivateRuntimeResourceHandle", "", "the runtime's own name of the resource"),
    row("D3DKMT_CREATECONTEXT", "ClientHint", "", HINT),
    row("D3DKMT_CREATECONTEXTVIRTUAL", "ClientHint", "", HINT),
    row("D3DKMT_CREATEDEVICE", "Flags", "LegacyMode", "of the presents of an older runtime"),
    row("D3DKMT_CREATEDEVICE", "Flags", "RequestVSync", "of the presents of an older runtime"),
    row("D3DKMT_CREATEHWQUEUE", "Flags", "NoBroadcastWait", "a wait on a queue holds no other queue"),
    row("D3DKMT_ENUMADAPTERS3", "Filter", "IncludeComputeOnly", LISTED),
    row("D3DKMT_ENUMADAPTERS3", "Filter", "IncludeDisplayOnly", LISTED),
    row("D3DKMT_LOCK", "Flags", "WriteOnly", "a mapping for writing can be read"),
    row("D3DKMT_OFFERALLOCATIONS", "Flags", "OfferImmediately", "each offer is immediate"),
    row("D3DKMT_PRESENT", "VidPnSourceId", "", "a primary is of one display, which the kernel knows"),
    row("D3DKMT_PRESENT", "bOptimizeForComposition", "", COMPOSITOR),
    row("D3DKMT_SETHWPROTECTIONTEARDOWNRECOVERY", "Recovered", "", "no adapter of this kernel protects content"),
    row("D3DKMT_SETVIDPNSOURCEOWNER1", "Flags", "AllowOutputDuplication", COMPOSITOR),
    row("D3DKMT_SETVIDPNSOURCEOWNER1", "Flags", "DisableDWMVirtualMode", COMPOSITOR),
    row("OBJECT_ATTRIBUTES", "Attributes", "", "names are found without regard to case, and no handle is inherited"),
    row("OBJECT_ATTRIBUTES", "SecurityDescriptor", "", SECURITY),
    row("OBJECT_ATTRIBUTES", "SecurityQualityOfService", "", SECURITY),
];

/// Why something changes nothing; `None`: it does.
pub fn why_idle(of: &str, member: &str, flag: &str) -> Option<&'static str> {
    let found = WITHOUT_EFFECT.iter().find(|row| row.of == of && row.member == member && row.flag == flag);
    found.map(|row| row.why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{fields, item};
    use d3dkmt_abi::Shape;

    #[test]
    fn every_row_names_what_there_is() {
        for row in WITHOUT_EFFECT {
            let Some(of) = item(row.of) else {
                assert!(crate::functions().any(|function| function.name == row.of) && row.member.is_empty(), "{row:?}");
                continue;
            };
            let field = fields(of).iter().find(|field| field.name == row.member);
            let field = field.unwrap_or_else(|| panic!("{row:?}"));
            if !row.flag.is_empty() {
                let Some(Shape::Flags(_, bits)) = item(field.of).map(|item| item.shape) else { panic!("{row:?}") };
                assert!(bits.iter().any(|flag| flag.name == row.flag), "{row:?}");
            }
        }
    }
}
