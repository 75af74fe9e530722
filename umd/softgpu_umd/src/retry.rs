//! Calls that the kernel refuses because memory is scarce, and that succeed when the driver gives some back or the GPU gets on: MakeResident
//! (memory §5.2) and Render (memory §7.1). This module decides when a refusal stands; the caller says how it gives back.

use d3dkmt::{MakeResidentFlags, Refusal, Residency};
use wddm_types::{NtStatus, RawHandle};

use crate::gpu::{Gpu, UmdError};
use crate::lane::Lane;

/// MakeResident, repeated until it succeeds or the refusal stands. `give_back` evicts at least so many bytes if it can, and returns
/// the bytes that it has evicted; 0: it has none, and the call goes on to the next step of [`Retry`].
///
/// # Errors
/// The last refusal; its `bytes_to_trim` is not 0 if the allocations would fit into memory that others hold. The device is lost.
// spec: memory §5.2
pub fn make_resident(
    gpu: &Gpu,
    lane: &mut Lane,
    allocations: &[RawHandle],
    mut give_back: impl FnMut(u64) -> Result<u64, UmdError>,
) -> Result<Residency, UmdError> {
    let mut retry = Retry::default();
    loop {
        let refusal = match gpu.paging().make_resident(allocations.to_vec(), retry.flags()) {
            Ok(made) => return Ok(made),
            Err(refusal) if refusal.bytes_to_trim > 0 => refusal,
            Err(refusal) => return Err(refusal.into()),
        };
        if give_back(refusal.bytes_to_trim)? == 0 && !retry.harder(gpu, lane, &refusal)? {
            return Err(refusal.into());
        }
    }
}

/// The steps of MakeResident's retry loop when there is nothing left to give back (memory §5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Retry {
    /// The plain call.
    #[default]
    Plain,
    /// All work of the lane is over: nothing that was evicted is in use any more.
    Waited,
    /// With CantTrimFurther.
    CantTrim,
    /// With MustSucceed: a failure puts the device in error.
    Must,
}

impl Retry {
    /// The flags to ask with.
    fn flags(self) -> MakeResidentFlags {
        match self {
            Retry::Plain | Retry::Waited => MakeResidentFlags::empty(),
            Retry::CantTrim => MakeResidentFlags::CANT_TRIM_FURTHER,
            Retry::Must => MakeResidentFlags::CANT_TRIM_FURTHER | MakeResidentFlags::MUST_SUCCEED,
        }
    }

    /// Goes on to the next step after a refusal. False: there is none, and the refusal stands.
    ///
    /// # Errors
    /// The device is lost while this call waits for its work.
    // spec: memory §5.2
    fn harder(&mut self, gpu: &Gpu, lane: &mut Lane, refusal: &Refusal) -> Result<bool, UmdError> {
        *self = match self {
            Retry::Plain => {
                let last = lane.last_value();
                lane.wait(gpu, last)?;
                Retry::Waited
            }
            Retry::Waited => Retry::CantTrim,
            Retry::CantTrim => {
                // The driver does not ask with MustSucceed for a set that can never fit.
                let segments = gpu.adapter().info()?.segments;
                let largest =
                    segments.iter().filter(|segment| !segment.aperture).map(|segment| segment.size_bytes).max();
                if refusal.bytes_to_trim > largest.unwrap_or(0) {
                    return Ok(false);
                }
                Retry::Must
            }
            Retry::Must => return Ok(false),
        };
        Ok(true)
    }
}

/// The packets that may still hold DMA buffers of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    /// Packets that the kernel was given before may be queued yet.
    QueuedPackets,
    /// The context has no packet queued.
    NoPacket,
}

/// Render, repeated while packets hold the context's DMA buffers. `wait` waits until some have given theirs back, and says which may hold
/// buffers yet. The refusal stands only when the kernel repeats it for a context that held nothing: the GPU may finish the last packet
/// between a refusal and the look at what is queued.
///
/// # Errors
/// The refusal that stands; the device is lost while `wait` waits.
// spec: memory §7.1
pub(crate) fn render_when_buffers_return(
    mut render: impl FnMut() -> Result<(), Refusal>,
    mut wait: impl FnMut() -> Result<Holding, UmdError>,
) -> Result<(), UmdError> {
    let mut holding = Holding::QueuedPackets;
    loop {
        match render() {
            Err(refusal) if refusal.status == NtStatus::NO_MEMORY && holding == Holding::QueuedPackets => {
                holding = wait()?;
            }
            answer => return Ok(answer?),
        }
    }
}

#[cfg(test)]
mod tests {
    use wddm_types::Blame;

    use super::*;

    fn refusal(status: NtStatus) -> Refusal {
        Refusal {
            status,
            blame: Blame::Scarcity,
            reason: "the context's DMA buffers are all queued".into(),
            bytes_to_trim: 0,
        }
    }

    /// Renders while the kernel answers so, in order; `held`: what may hold buffers after each wait. Returns the answer, the
    /// renders and the waits.
    fn rendered(answers: &[Result<(), Refusal>], held: &[Holding]) -> (Result<(), UmdError>, usize, usize) {
        let (mut renders, mut waits) = (0, 0);
        let answer = render_when_buffers_return(
            || {
                renders += 1;
                answers[renders - 1].clone()
            },
            || {
                waits += 1;
                Ok(held[waits - 1])
            },
        );
        (answer, renders, waits)
    }

    #[test]
    fn a_render_is_repeated_when_the_last_packet_ended_behind_the_refusal() {
        let full = || Err(refusal(NtStatus::NO_MEMORY));
        let (answer, renders, waits) = rendered(&[full(), Ok(())], &[Holding::NoPacket]);
        assert!(answer.is_ok(), "{answer:?}");
        assert_eq!((renders, waits), (2, 1));
        let held = [Holding::QueuedPackets, Holding::QueuedPackets, Holding::NoPacket];
        let (answer, renders, waits) = rendered(&[full(), full(), full(), Ok(())], &held);
        assert!(answer.is_ok(), "{answer:?}");
        assert_eq!((renders, waits), (4, 3));
    }

    #[test]
    fn a_refusal_of_an_empty_context_stands_and_one_for_another_cause_is_not_repeated() {
        let full = || Err(refusal(NtStatus::NO_MEMORY));
        let (answer, renders, waits) = rendered(&[full(), full()], &[Holding::NoPacket]);
        let stands = |answer: Result<(), UmdError>| match answer {
            Err(UmdError::Refused(refusal)) => refusal.status,
            other => panic!("a refusal: {other:?}"),
        };
        assert_eq!((stands(answer), renders, waits), (NtStatus::NO_MEMORY, 2, 1));
        let (answer, renders, waits) = rendered(&[Err(refusal(NtStatus::INVALID_PARAMETER))], &[]);
        assert_eq!((stands(answer), renders, waits), (NtStatus::INVALID_PARAMETER, 1, 0));
    }
}
