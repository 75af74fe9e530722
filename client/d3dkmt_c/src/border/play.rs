//! Calls of a replay: each function's body by its name, over arguments in memory that the replay has made.
#![allow(unsafe_code)]

use std::ffi::c_void;

use wddm_types::NtStatus;

use super::{Caller, checked, judged, read_only, written_always, written_on_success};
use crate::function::Function;
use crate::parameter::arguments_of;
use crate::session::Process;
use crate::trace::Watched;

/// The bodies of the functions with one structure, by name.
macro_rules! play_each {
    ($at:expr; $($kind:ident $name:ident($of:ident) $body:ident $($rest:literal)? $(lacks $lack:literal)?;)*) => {
        match $at.0 {
            // SAFETY: `play` has checked that so many bytes can be read and written there, or that there are none.
            $(stringify!($name) => unsafe { play_one!($kind $at.1, $at.2.cast::<d3dkmt_abi::$of>(), $body) },)*
            _ => crate::playback::without_structure($at.0, $at.1, $at.2.addr()),
        }
    };
}

macro_rules! play_one {
    (reads $caller:expr, $at:expr, $body:ident) => {
        checked($at.cast_const()).and_then(|()| read_only($caller, $at.cast_const(), crate::exported::$body))
    };
    (tells $caller:expr, $at:expr, $body:ident) => {
        checked($at.cast_const()).and_then(|()| written_always($caller, $at, crate::exported::$body))
    };
    ($kind:ident $caller:expr, $at:expr, $body:ident) => {
        checked($at.cast_const()).and_then(|()| written_on_success($caller, $at, crate::exported::$body))
    };
}

/// Makes the call of a replay: its arguments are at `place`, which is 0 where it has none.
///
/// # Panics
/// When `watched` does not have the arguments.
pub(crate) fn play(
    process: &Process,
    watched: &Watched,
    function: &Function,
    place: usize,
) -> (NtStatus, Option<String>) {
    let size = arguments_of(function.name).map_or(0, |(_, size)| size);
    assert!(place == 0 || watched.check(place, size).is_ok(), "the arguments lie in the memory of the replay");
    let caller = Caller { process, watched: Some(watched) };
    let call = (function.name, &caller, std::ptr::with_exposed_provenance_mut::<c_void>(place));
    let (status, refusal) = judged(function.name, || crate::functions! { [play_each] call });
    (status, refusal.map(|refusal| refusal.reason.into_owned()))
}
