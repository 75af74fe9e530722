//! The calls that make flips: a device may have so many queued, and a call with one too many returns when fewer are.

use kmt_calls::{PresentState, Refusal, Reply};
use wddm_types::VidPnSourceId;

use super::Displays;
use crate::effect::{Answer, Cx, Effect, Token};
use crate::number::DeviceNumber;
use crate::refusal::invalid;
use crate::tally::Tally;

/// How many flips a device may have queued when its Present returns, if it does not say.
const QUEUED_LIMIT: u32 = 3;
/// The most that it can say.
const QUEUED_LIMIT_MAX: u32 = 16;

/// A device's flips.
pub(super) struct OfDevice {
    /// Flips that are neither shown nor dropped.
    pub(super) queued: u32,
    pub(super) limit: u32,
    /// It was told to ask again for a mode, when its content is back.
    asks: bool,
}

impl Default for OfDevice {
    fn default() -> OfDevice {
        OfDevice { queued: 0, limit: QUEUED_LIMIT, asks: false }
    }
}

impl OfDevice {
    /// Another device in the same place would behave otherwise.
    pub(super) fn is_noteworthy(&self) -> bool {
        self.queued > 0 || self.limit != QUEUED_LIMIT
    }
}

impl Displays {
    /// `D3DKMTGetDeviceState` of presents.
    pub fn present_state(&self, tally: &Tally, device: DeviceNumber, source: VidPnSourceId) -> PresentState {
        let known = self.devices.get(&device);
        PresentState {
            shown: tally.flips_of(source).shown,
            limit_reached: known.is_some_and(|known| known.queued >= known.limit),
        }
    }

    /// Answers a Present whose flip is queued: later where its device has too many.
    pub fn answer_present(&mut self, token: Token, device: DeviceNumber) -> Answer {
        match self.devices.get(&device) {
            Some(of) if of.queued > of.limit => {
                self.blocked.push_back((token, device));
                Answer::Later(token)
            }
            of => Answer::Done(Ok(Reply::Queued(of.map_or(0, |of| of.queued)))),
        }
    }

    /// `D3DKMTSetQueuedLimit`.
    ///
    /// # Errors
    /// There is no such limit.
    pub fn set_queued_limit(&mut self, cx: &mut Cx<'_>, device: DeviceNumber, limit: u32) -> Result<(), Refusal> {
        if limit > QUEUED_LIMIT_MAX {
            let most =
                format!("a limit of {limit}: give 1 to {QUEUED_LIMIT_MAX} flips, or 0 for the limit of a new device");
            return Err(invalid(most));
        }
        let limit = if limit == 0 { QUEUED_LIMIT } else { limit };
        self.devices.entry(device).or_default().limit = limit;
        self.answer_presents(cx, device);
        Ok(())
    }

    /// How many flips of a device may be queued when Present returns.
    pub fn queued_limit(&self, device: DeviceNumber) -> u32 {
        self.devices.get(&device).map_or(QUEUED_LIMIT, |known| known.limit)
    }

    /// Whether a device was told to ask again for a mode.
    pub fn asks_again(&mut self, device: DeviceNumber, asks: bool) {
        self.devices.entry(device).or_default().asks = asks;
    }

    /// Whether a device needs its content to be shown: it is not idle then.
    pub fn want(&self, device: DeviceNumber) -> bool {
        self.devices.get(&device).is_some_and(|of| of.queued > 0 || of.asks)
            || self.coming.iter().any(|coming| coming.device == device)
    }

    /// A device goes, with its flips.
    pub fn forget_device(&mut self, device: DeviceNumber) {
        self.devices.remove(&device);
    }

    /// One flip more of a device.
    pub(super) fn flip_begins(&mut self, device: DeviceNumber) {
        self.devices.entry(device).or_default().queued += 1;
    }

    /// One flip less of a device.
    pub(super) fn flip_over(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        if let Some(of) = self.devices.get_mut(&device) {
            debug_assert!(of.queued > 0, "a flip of {device:?} is over that was not counted");
            of.queued -= 1;
        }
        self.answer_presents(cx, device);
    }

    /// Presents whose device has few enough flips are answered.
    fn answer_presents(&mut self, cx: &mut Cx<'_>, device: DeviceNumber) {
        let Some(of) = self.devices.get(&device).filter(|of| of.queued <= of.limit) else { return };
        let queued = of.queued;
        self.blocked.retain(|(token, of)| {
            let answered = *of == device;
            if answered {
                cx.effects.push(Effect::Answer { token: *token, result: Ok(Reply::Queued(queued)) });
            }
            !answered
        });
    }

    /// Devices whose presents wait, and how many of their flips are too many.
    pub(super) fn presents_above_limit(&self) -> impl Iterator<Item = (DeviceNumber, u32)> + '_ {
        let excess = |of: &OfDevice| of.queued.saturating_sub(of.limit);
        self.blocked.iter().filter_map(move |(_, device)| Some((*device, excess(self.devices.get(device)?))))
    }
}
