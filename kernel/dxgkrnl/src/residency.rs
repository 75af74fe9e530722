//! What calls about residency (memory §5) say, in the words of the memory manager, and its answers in the words of calls. Flags are an
//! allegation: what is reserved, or not for user mode, is refused here. It decides nothing about memory and keeps no state.

use kmt_calls::{EvictFlags, MakeResidentFlags, OfferFlags, ReclaimResult, Refusal};
use vidmm::{NeverFits, OfferPriority, ReclaimError, SegmentGroup};

use crate::refusal::{invalid, no_memory};

/// How MakeResident is to do it.
// spec: memory §5.2
pub fn how_to_make_resident(flags: MakeResidentFlags) -> Result<vidmm::MakeResidentFlags, Refusal> {
    let known = MakeResidentFlags::CANT_TRIM_FURTHER | MakeResidentFlags::MUST_SUCCEED;
    if !known.contains(flags) || flags == MakeResidentFlags::MUST_SUCCEED {
        return Err(invalid(format!(
            "MakeResident flags {:#x}: MustSucceed only with CantTrimFurther, no others",
            flags.bits()
        )));
    }
    Ok(vidmm::MakeResidentFlags {
        cant_trim_further: flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER),
        must_succeed: flags.contains(MakeResidentFlags::MUST_SUCCEED),
    })
}

/// How Evict is to do it.
// spec: memory §5.3
pub fn how_to_evict(flags: EvictFlags) -> Result<vidmm::EvictFlags, Refusal> {
    let known = EvictFlags::EVICT_ONLY_IF_NECESSARY | EvictFlags::NOT_WRITTEN_TO;
    if !known.contains(flags) {
        return Err(invalid(format!("Evict flags {:#x} are reserved", flags.difference(known).bits())));
    }
    Ok(vidmm::EvictFlags {
        only_if_necessary: flags.contains(EvictFlags::EVICT_ONLY_IF_NECESSARY),
        not_written_to: flags.contains(EvictFlags::NOT_WRITTEN_TO),
    })
}

/// How Offer is to do it.
// spec: memory §5.9
pub fn how_to_offer(priority: u32, flags: OfferFlags) -> Result<(OfferPriority, vidmm::OfferFlags), Refusal> {
    let known = OfferFlags::OFFER_IMMEDIATELY | OfferFlags::ALLOW_DECOMMIT;
    if !known.contains(flags) {
        return Err(invalid(format!("Offer flags {:#x} are reserved", flags.difference(known).bits())));
    }
    let priority = match priority {
        1 => OfferPriority::Low,
        2 => OfferPriority::Normal,
        3 => OfferPriority::High,
        4 => OfferPriority::Auto,
        other => return Err(invalid(format!("offer priority {other}: 1 LOW, 2 NORMAL, 3 HIGH or 4 AUTO"))),
    };
    Ok((priority, vidmm::OfferFlags { allow_decommit: flags.contains(OfferFlags::ALLOW_DECOMMIT) }))
}

/// The segments that a budget is of.
// spec: memory §5.5
pub fn group_of(local: bool) -> SegmentGroup {
    if local { SegmentGroup::Local } else { SegmentGroup::NonLocal }
}

/// What has become of an allocation's content meanwhile.
// spec: memory §5.9
pub fn reclaim_result(result: vidmm::ReclaimResult) -> ReclaimResult {
    match result {
        vidmm::ReclaimResult::Ok => ReclaimResult::Ok,
        vidmm::ReclaimResult::Discarded => ReclaimResult::Discarded,
        vidmm::ReclaimResult::NotCommitted => ReclaimResult::NotCommitted,
    }
}

/// Nothing was reclaimed.
// spec: memory §5.9
pub fn from_reclaim(error: &ReclaimError) -> Refusal {
    match *error {
        ReclaimError::NotOffered { .. } => invalid(error.to_string()),
        // Of the documented answers none says this; nothing that could follow a success would ever be true.
        ReclaimError::OutOfMemory { bytes_to_trim } => out_of_memory(bytes_to_trim),
    }
}

/// No trim helps, and none is asked for.
// spec: memory §10.1 row 11
pub fn never_fits(never: NeverFits) -> Refusal {
    let NeverFits { wanted_bytes, most_bytes } = never;
    no_memory(format!(
        "the allocations never fit together: {wanted_bytes} bytes of them can lie in segments of {most_bytes} bytes only"
    ))
}

/// The caller may trim so much and ask again.
pub fn out_of_memory(bytes_to_trim: u64) -> Refusal {
    let mut refusal = no_memory("the allocations do not fit beside what is resident, or not into the budget");
    refusal.bytes_to_trim = bytes_to_trim;
    refusal
}
