//! Modes whose primary is on its way: the kernel answers `SetDisplayMode` when the display shows it. `adapter/mode.rs` brings them closer.

use vidmm::AllocationId;

use super::{DisplayNews, Displays, Lent};
use crate::effect::Token;
use crate::number::{AllocationNumber, DeviceNumber};

/// A mode that waits for its primary.
pub struct ComingMode {
    /// The call that waits for it.
    pub token: Token,
    /// The device that asked for it.
    pub device: DeviceNumber,
    /// The primary, as that device has it.
    pub number: AllocationNumber,
    /// The same, as the memory manager has it.
    pub primary: AllocationId,
    /// It stays where it is.
    pub pinned: bool,
}

impl Displays {
    /// A mode waits for its primary, behind all others.
    pub fn await_mode(&mut self, coming: ComingMode) {
        self.coming.push_back(coming);
    }

    /// How many wait.
    pub fn coming_modes(&self) -> usize {
        self.coming.len()
    }

    /// The one that has waited longest: it begins, ends or waits again ([`Displays::await_mode`]).
    pub fn take_coming_mode(&mut self) -> Option<ComingMode> {
        self.coming.pop_front()
    }

    /// A primary was destroyed: modes that wait for it are over. The calls that it answers.
    #[must_use = "its calls wait for an answer"]
    pub fn lose_coming_modes(&mut self, lent: &mut Lent<'_, '_>, primary: AllocationId) -> Vec<Token> {
        let lost = self.forget_coming_modes(lent, |coming| coming.primary == primary);
        lost.into_iter().map(|(token, _)| token).collect()
    }

    /// Drops these modes. Answers with their calls and devices.
    pub(super) fn forget_coming_modes(
        &mut self,
        lent: &mut Lent<'_, '_>,
        gone: impl Fn(&ComingMode) -> bool,
    ) -> Vec<(Token, DeviceNumber)> {
        let (gone, kept) = std::mem::take(&mut self.coming).into_iter().partition::<Vec<_>, _>(gone);
        self.coming = kept.into();
        let pinned = gone.iter().filter(|coming| coming.pinned);
        lent.news.extend(pinned.map(|coming| DisplayNews::Unpin(coming.primary)));
        gone.into_iter().map(|coming| (coming.token, coming.device)).collect()
    }

    /// Unpins primaries on their way, because they move: the kernel brings them in anew.
    pub fn unpin_coming_modes(&mut self, lent: &mut Lent<'_, '_>) {
        for coming in &mut self.coming {
            if std::mem::take(&mut coming.pinned) {
                lent.tell(DisplayNews::Unpin(coming.primary));
            }
        }
    }
}
