//! The answers of the kernel to hostile calls, and the refusals that may change its state.

use kmt_calls::{Call, MakeResidentFlags, PacketCall, Refusal, Reply, ResidencyCall};
use wddm_types::NtStatus;

use crate::hostile::Hostile;
use crate::report::{Diary, Report};

/// Takes an answer in; hands a refusal back.
pub(super) fn note(
    diary: &Diary,
    report: &mut Report,
    hostile: &mut Hostile,
    call: &Call,
    result: Result<Reply, Refusal>,
) -> Option<Refusal> {
    let count = report.by_call.entry(call.name().to_owned()).or_default();
    match result {
        Ok(reply) => {
            count[0] += 1;
            diary.write(format!("    -> {reply:?}"));
            hostile.known.answered(call, &reply);
            hostile.program(call, reply);
            None
        }
        Err(refusal) => {
            count[1] += 1;
            report.refused += 1;
            let reason: String = refusal.reason.chars().filter(|letter| !letter.is_ascii_digit()).collect();
            *report.reasons.entry(format!("{}: {reason}", call.name())).or_default() += 1;
            diary.write(format!("    -> {refusal}"));
            // A device was lost: most of what is known is of no use any more.
            if refusal.status == NtStatus::DEVICE_REMOVED && hostile.dice.chance(30) {
                hostile.known.forget_devices();
            }
            Some(refusal)
        }
    }
}

/// A refused buffer leaves the DMA buffer that it was translated into in the context's pool, shown by the aperture. One that
/// waited for its device's turn has given it that turn: what the device lists is back, and is spared again. The first turn of an adapter makes
/// the fence of suspensions.
// spec: memory §7.1, memory §8.6
pub(super) fn is_of_buffers(call: &Call, part: &str, had_turn: bool) -> bool {
    let buffers = matches!(call, Call::Packet(PacketCall::Render { .. } | PacketCall::Present { .. }));
    let always = ["adapter", "segment", "device ", "lists of", "turns"].iter().any(|name| part.starts_with(name));
    let of_turn = [
        "memory of",
        "foreseen of",
        "terms of",
        "works",
        "fence",
        "open of a fence",
        "packed words",
        "waits for a fence",
    ];
    buffers && (always || had_turn && of_turn.iter().any(|name| part.starts_with(name)))
}

/// Refusals that change something by the rules: a device is put into error, or named by what was refused.
// spec: memory §9.3
pub(super) fn may_change(call: &Call, refusal: &Refusal) -> bool {
    let must = matches!(call, Call::Residency(ResidencyCall::MakeResident { flags, .. }) if flags.contains(MakeResidentFlags::MUST_SUCCEED));
    // A process told to retry a mode has something to do until then: it gets its turn.
    let mode = matches!(call, Call::Display(kmt_calls::DisplayCall::SetDisplayMode { .. }));
    // The driver refuses a present when it has the addresses of source and destination: the kernel has mapped both, and keeps that for the next one.
    let mapped =
        matches!(call, Call::Packet(PacketCall::Present { .. })) && refusal.reason.starts_with("the driver says");
    mapped
        || mode && refusal.status == NtStatus::RETRY
        || must && refusal.status == NtStatus::NO_MEMORY
        || refusal.status == NtStatus::GRAPHICS_INVALID_ALLOCATION_USAGE
}
