//! Recorded calls, made again: a call by its function's name and its decoded arguments, as a trace has them, at any kernel.
//! `openwddm replay-calls` reads the lines and maps handles; here one call becomes bytes, is made as a C program would make it, and its
//! answer is decoded.
//!
//! # The law of this boundary
//! A recording is an allegation. Each structure and list lies in memory that the replay makes, of the sizes that the recording says;
//! the call may look there and nowhere else, and a pointer that leads elsewhere is refused as `INVALID_PARAMETER`. A function of the program
//! is replaced by one that does nothing, memory that a program gave by pages of zeros.

mod arena;
mod callback;
mod encode;
mod flavour;

use std::sync::Arc;

use kmt_link::Link;
use thiserror::Error;
use wddm_types::NtStatus;

use crate::border::{Answer, Caller, play, refusal};
use crate::exported;
use crate::function::{Function, FunctionState, functions};
use crate::parameter::arguments_of;
use crate::refusal::{invalid, not_supported, unsuccessful};
use crate::session::Process;
use crate::subject::Subject;
use crate::trace::{Decoder, JSON, Side, Value, Watched};
use crate::unsupported::SUBJECTS;
use arena::Arena;

pub use flavour::{FLAVOUR, from_wsl};

/// A process that makes recorded calls.
pub struct Playback {
    process: Process,
}

/// What a call has answered.
#[derive(Clone, Debug)]
pub struct Played {
    /// Its status.
    pub status: NtStatus,
    /// Why it is refused.
    pub reason: Option<String>,
    /// What its structure has behind the call that it had not before.
    pub answered: Value,
}

/// Why a line is no call.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlayError {
    /// The library has no such function.
    #[error("no function has the name \"{0}\"")]
    NoFunction(String),
    /// An argument is none of its type.
    #[error("{0}")]
    Argument(String),
}

impl Playback {
    /// As a process of the kernel behind the link.
    pub fn over(link: Arc<dyn Link>) -> Playback {
        Playback { process: Process::new(link) }
    }

    /// Makes a call.
    ///
    /// # Errors
    /// The function or the arguments are none. Nothing has been called then.
    pub fn call(&self, function: &str, given: &Value) -> Result<Played, PlayError> {
        let (known, arena, place) = prepared(function, given)?;
        let watched = Watched::within(arena.ranges());
        let before = arena.bytes(place);
        let (status, reason) = play(&self.process, &watched, known, place);
        let decoder = |side| Decoder { function: known.name, watched: &watched, side, bounds: JSON };
        let answered = match arguments_of(known.name) {
            Some((of, _)) if place != 0 => {
                let before = decoder(Side::Given).structure(of, &before);
                decoder(Side::Answered).structure(of, &arena.bytes(place)).changed_since(&before)
            }
            _ => Value::Members(Vec::new()),
        };
        arena.keep_pages();
        Ok(Played { status, reason, answered })
    }

    /// Looks whether a line is a call, and makes none.
    ///
    /// # Errors
    /// As of [`Playback::call`].
    pub fn check(function: &str, given: &Value) -> Result<(), PlayError> {
        prepared(function, given).map(drop)
    }
}

/// The function of a name, the memory of its arguments, and where in it they are: at 0 if there are none.
fn prepared(function: &str, given: &Value) -> Result<(&'static Function, Arena, usize), PlayError> {
    let known = functions().find(|known| known.name == function);
    let known = known.ok_or_else(|| PlayError::NoFunction(function.to_owned()))?;
    let mut arena = Arena::default();
    let place = match (arguments_of(known.name), given) {
        // The function looks at none, or the program gave no structure.
        (None, _) | (_, Value::Null) => 0,
        (Some((of, size)), given) => {
            let mut bytes = vec![0; size];
            encode::structure(of, given, &mut bytes, &mut arena).map_err(|misfit| PlayError::Argument(misfit.0))?;
            arena.block(&bytes)
        }
    };
    Ok((known, arena, place))
}

/// The functions whose arguments are no one structure: their parameters stand at `at`, one in each 8 bytes.
pub(crate) fn without_structure(name: &str, caller: &Caller<'_>, at: usize) -> Answer {
    let parameters = |count| caller.array(std::ptr::with_exposed_provenance::<u64>(at), count);
    // CAST: a parameter of 32 bits stands in the lower half; an address has 64 bits.
    let (word, place) = (|slot: u64| slot as u32, |slot: u64| slot as usize);
    match name {
        "D3DKMTShareObjects" => {
            let slots = parameters(5)?;
            let objects = std::ptr::with_exposed_provenance(place(slots[1]));
            let attributes = std::ptr::with_exposed_provenance(place(slots[2]));
            let handle = std::ptr::with_exposed_provenance_mut(place(slots[4]));
            exported::share_objects(caller, (word(slots[0]), objects, word(slots[3])), attributes, handle)
        }
        "D3DKMTSetProcessSchedulingPriorityClass" => {
            let slots = parameters(2)?;
            let process = std::ptr::without_provenance_mut(place(slots[0]));
            exported::set_process_class(caller, process, word(slots[1]).cast_signed())
        }
        "D3DKMTGetProcessSchedulingPriorityClass" => {
            let slots = parameters(2)?;
            let process = std::ptr::without_provenance_mut(place(slots[0]));
            exported::get_process_class(caller, process, std::ptr::with_exposed_provenance_mut(place(slots[1])))
        }
        "D3DKMTReleaseProcessVidPnSourceOwners" => {
            exported::release_sources_of(caller, std::ptr::without_provenance_mut(place(parameters(1)?[0])))
        }
        "D3DKMTRegisterVailProcess" => exported::register_vail_process(caller),
        "D3DKMTCheckExclusiveOwnership" => exported::no_exclusive_owner(caller),
        "D3DKMTCloseDxCoreDevice" => Ok(NtStatus::SUCCESS),
        name => match functions().find(|function| function.name == name).map(|function| function.state) {
            Some(FunctionState::Refuses(reason)) => {
                let subject = SUBJECTS.iter().find(|(known, ..)| *known == name).map(|(_, subject, _)| *subject);
                match subject.filter(|subject| *subject != Subject::Nothing) {
                    None => Err(not_supported(reason)),
                    Some(_) if at == 0 => Err(invalid("NULL for the pointer to the arguments")),
                    Some(subject) => refusal(caller, subject, parameters(1)?[0], reason),
                }
            }
            _ => Err(unsuccessful(format!("no way to call {name}"))),
        },
    }
}

#[cfg(test)]
mod tests;
