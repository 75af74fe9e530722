//! Displays: each source's owner, its mode, the flips that it shows and has queued, and the calls that wait for its vertical blanks.
//!
//! ```text
//! SetVidPnSourceOwner ─▶ owned ── SetDisplayMode ─▶ shows a primary ◀─────────────────────────────┐
//!                                                                                                 │ vertical blank
//! Present with Flip ─▶ behind what the context has queued ─▶ queued on the source ─▶ with the driver ─┘
//! ```
//! # The rules
//! - A flip comes to its source when everything before it on its context has completed, and what is behind it on the context does not
//!   wait for it. From then on until another one has replaced it nothing that says that it writes the primary starts
//!   ([`vidsch::Flips`]; memory §5.6, §10.1).
//! - A primary stays where it is from its flip until it is replaced: it is pinned (memory §8.2).
//! - Where lists are residency (memory §6.1) a flip brings its primary in, and a mode its first one: `SetDisplayMode` is answered when the
//!   display is on.
//! - The driver has as many flips as it says that it takes; the others wait here, in order. One with an interval of n is shown n
//!   blanks behind the one before it.
//! - Where the hardware has a flip queue, flips are handed over ahead, each with its time, and a log says what became of them (`queue`).
//! - Blanks interrupt while the kernel needs them: for flips that are not shown, for calls that wait, and for [`INTERVAL_MAX`] blanks
//!   behind each flip, because the next one may count them.
//! - A display goes black, and what was queued for it is over, when its owner goes, is lost or gives it up, when what it shows or has
//!   been given is destroyed, when the adapter sleeps or is reset. Then it needs a mode anew.
//!
//! # The part
//! [`Displays`] owns all of that, and no other part touches it: which device has which source, what is shown, the flips that have come to
//! their sources, the rule of primaries that may not be written. It is not where primaries lie, how they are brought in and pinned, nor
//! what stands before a flip on its context: `adapter/flip.rs` and `adapter/mode.rs` ask the memory manager and the scheduler, and give
//! the answers as arguments. It may ask the driver and count in the tally, as `news::Lent` lends them. Its [`DisplayNews`] go to the
//! adapter, as does a [`Breach`](crate::breach::Breach) of the driver.
//!
//! Relations that hold between calls (the checker of invariants asks `broken_rule`; `vidsch::Flips` asserts the counts):
//! - A source that shows a mode has an owner; one that is off has neither flips nor calls that wait for a blank, and no blank of it
//!   interrupts.
//! - The driver has the oldest flips of a source, as many as `handed` says; it was told where those lie, and of no other.
//! - Each primary is counted in `flips` once for each flip to it on a source, and as shown for each source that shows it.
//! - A device's `queued` counts its flips from `Present` on until they are shown or dropped, wherever they stand.
//!
//! `source` is one source, `mode` about owners and modes, `coming_mode` about modes whose primary is on its way, `flip` about flips on
//! their way, `present` about the calls that make them, `held` about hardware queues that wait for primaries, `blank` about what the hardware tells, `queue` about the flip queue of
//! the hardware, `log` about what it says.

mod blank;
mod coming_mode;
mod flip;
mod held;
mod log;
mod mode;
mod news;
mod present;
mod queue;
mod source;

use std::collections::{BTreeMap, VecDeque};

use ddi::{AdapterCaps, DdiVersion, Display, FeatureId, FlipCaps, Surface, VidPnPath};
use kmt_calls::{DisplayInfo, DisplayMode, Refusal};
use vidmm::{AllocationId, StateDigest};
use wddm_types::{VidPnSourceId, VidPnTargetId};

pub use coming_mode::ComingMode;
pub use flip::{Flip, NextFlip};
pub use mode::{Mode, Primary};
pub use news::{DisplayNews, Lent};

use crate::driver::EntryPoints;
use crate::effect::Token;
use crate::features::Features;
use crate::number::{DeviceNumber, QueueNumber, ResourceBodyNumber};
use crate::refusal::{invalid, not_supported};

use present::OfDevice;
use queue::Hardware;
use source::Sources;

/// `FlipInterval` is at most so many.
const INTERVAL_MAX: u32 = 4;

/// The displays of an adapter.
#[derive(Default)]
pub struct Displays {
    caps: FlipCaps,
    /// The flip queues of the hardware, where the feature is on.
    hardware: Option<Hardware>,
    sources: Sources,
    /// The primaries that are shown or about to be.
    flips: vidsch::Flips<AllocationId>,
    devices: BTreeMap<DeviceNumber, OfDevice>,
    /// Presents that are not answered, oldest first.
    blocked: VecDeque<(Token, DeviceNumber)>,
    /// Modes whose primary is on its way, oldest first.
    coming: VecDeque<ComingMode>,
    /// Hardware queues whose next command writes these primaries.
    held: Vec<(QueueNumber, Vec<AllocationId>)>,
    /// Flips made so far: their numbers.
    flips_made: u64,
    /// The shared primaries that the embedding program has made for sources, oldest first.
    made: Vec<(VidPnSourceId, ResourceBodyNumber)>,
}

/// The displays of a driver.
///
/// # Errors
/// `NOT_SUPPORTED` where it has none.
pub fn display(driver: EntryPoints<'_>) -> Result<&mut dyn Display, Refusal> {
    driver.display().ok_or_else(no_displays)
}

fn no_displays() -> Refusal {
    not_supported("the adapter only renders: it has no displays")
}

impl Displays {
    /// The displays that a driver describes.
    ///
    /// # Errors
    /// The rule that it broke.
    pub fn of(
        miniport: &mut EntryPoints<'_>,
        adapter: &AdapterCaps,
        features: &Features,
    ) -> Result<Displays, &'static str> {
        let Some(display) = miniport.again().display() else { return Ok(Displays::default()) };
        let (caps, paths) = (display.flip_caps(), display.vidpn_paths());
        let targets = paths.iter().map(|path| path.target).collect::<std::collections::BTreeSet<_>>();
        let rules = [
            (caps.max_queued_flip_on_vsync > 0, "MaxQueuedFlipOnVSync is 1 at least"),
            (paths.iter().zip(0..).all(|(path, nth)| path.source.0 == nth), "sources are numbered from 0 on"),
            (targets.len() == paths.len(), "a target has one path"),
            (paths.iter().all(|path| path.refresh_ns > 0), "a display is refreshed in some time"),
            (paths.iter().all(|path| path.preferred.width.min(path.preferred.height) > 0), "a mode has texels"),
        ];
        if let Some((_, rule)) = rules.iter().find(|(kept, _)| !kept) {
            return Err(rule);
        }
        let sources = Sources::of(paths);
        let hardware = if features.enabled(FeatureId::HWFLIPQUEUE) && !sources.is_empty() {
            // spec: sync §2.11
            if adapter.ddi_version < DdiVersion::WDDM_3_0 {
                return Err("HWFLIPQUEUE exists from WDDM 3.0 on");
            }
            Hardware::of(miniport)?
        } else {
            None
        };
        Ok(Displays { caps, hardware, sources, ..Displays::default() })
    }

    /// Nanoseconds from one blank of a target to the next.
    pub fn refresh_ns(&self, target: VidPnTargetId) -> Option<u64> {
        self.sources.iter().find(|source| source.path.target == target).map(|source| source.path.refresh_ns)
    }

    /// Whether there are any.
    pub fn are_there(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Whether flips are queued on the hardware.
    pub fn are_queued_by_hardware(&self) -> bool {
        self.hardware.is_some()
    }

    /// The sources.
    pub fn sources(&self) -> impl Iterator<Item = VidPnSourceId> + use<> {
        self.sources.ids()
    }

    /// A source that a caller names.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` without displays, `INVALID_PARAMETER` when there is no such source.
    fn source(&self, source: VidPnSourceId) -> Result<VidPnSourceId, Refusal> {
        if self.sources.is_empty() {
            return Err(no_displays());
        }
        let known = self.sources.has(source);
        known.then_some(source).ok_or_else(|| invalid(format!("there is no source {}", source.0)))
    }

    /// For the digest of the adapter's state.
    pub fn add_to(&self, digest: &mut StateDigest) {
        for source in self.sources.iter() {
            let flips: Vec<_> = source.flips.iter().map(Flip::digest).collect();
            let shown = (source.mode, flips, source.handed, source.waiting.len());
            digest.add("display", &source.path.source.0, &(source.owner, &source.emulated, shown));
        }
        for (device, of) in self.devices.iter().filter(|(_, of)| of.is_noteworthy()) {
            digest.add("flips of a device", device, &(of.queued, of.limit));
        }
        let coming: Vec<_> = self.coming.iter().map(|coming| coming.primary).collect();
        digest.add("waiters for displays", &"", &(self.blocked.len(), coming, &self.held));
        digest.add("flips", &"", &self.flips);
    }

    /// Whether a buffer that writes this primary may start: no display shows it, or is about to.
    // spec: memory §5.6, memory §10.1
    pub fn may_write(&self, primary: AllocationId) -> bool {
        self.flips.may_write(primary)
    }

    /// The displays as a query of the adapter reports them.
    pub fn info(&self) -> Vec<DisplayInfo> {
        let mode = |Surface { width, height, format }| DisplayMode { width, height, format: format.0 };
        let info = |known: &source::Source| {
            let VidPnPath { source, target, refresh_ns, preferred } = known.path;
            let (current, preferred) = (mode(known.mode.unwrap_or(preferred)), mode(preferred));
            DisplayInfo { source, target, refresh_ns, current, preferred }
        };
        self.sources.iter().map(info).collect()
    }

    /// The embedding program has made a shared primary for a source. Those that are not there any more are forgotten.
    pub fn shared_primary_made(
        &mut self,
        source: VidPnSourceId,
        made: ResourceBodyNumber,
        is_there: impl Fn(ResourceBodyNumber) -> bool,
    ) {
        self.made.retain(|(_, known)| is_there(*known));
        self.made.push((source, made));
    }

    /// What a source shows, and the shared primaries that were made for it, the newest first; some may have gone.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` without displays, `INVALID_PARAMETER` when there is no such source.
    pub fn shared_primaries(
        &self,
        source: VidPnSourceId,
    ) -> Result<(Option<AllocationId>, impl Iterator<Item = ResourceBodyNumber>), Refusal> {
        let source = self.source(source)?;
        let made = self.made.iter().rev().filter(move |(of, _)| *of == source).map(|(_, made)| *made);
        Ok((self.flips.shown_on(source.0), made))
    }

    /// Primaries that displays read, or are about to.
    pub fn primaries(&self) -> Vec<AllocationId> {
        self.sources
            .iter()
            .flat_map(|source| source.with_driver())
            .map(Flip::primary)
            .chain(self.flips.shown())
            .collect()
    }

    /// The rule that a source breaks, and which; a sound state has none.
    pub fn broken_rule(&self) -> Option<(VidPnSourceId, &'static str)> {
        self.sources.iter().find_map(|known| {
            let shown = self.flips.shown_on(known.path.source.0).is_some() == known.mode.is_some();
            let broken =
                known.broken_rule().or((!shown).then_some("shows a primary without a mode, or a mode without one"));
            broken.map(|rule| (known.path.source, rule))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ObjectNumber;

    #[test]
    fn shared_primaries_that_have_gone_are_forgotten_when_another_one_is_made() {
        // spec: memory §2.7
        let (source, target) = (VidPnSourceId(0), VidPnTargetId(0));
        let preferred = Surface { width: 64, height: 64, format: ddi::SurfaceFormat::X8R8G8B8 };
        let sources = Sources::of(vec![VidPnPath { source, target, refresh_ns: 16_666_667, preferred }]);
        let mut displays = Displays { sources, ..Displays::default() };
        let bodies = [1, 2, 3].map(ResourceBodyNumber::from_raw);
        let known = |displays: &Displays| -> Vec<ResourceBodyNumber> {
            displays.shared_primaries(source).expect("the source is there").1.collect()
        };
        displays.shared_primary_made(source, bodies[0], |_| true);
        displays.shared_primary_made(source, bodies[1], |_| true);
        assert_eq!(known(&displays), [bodies[1], bodies[0]], "the newest first");
        displays.shared_primary_made(source, bodies[2], |body| body != bodies[1]);
        assert_eq!(known(&displays), [bodies[2], bodies[0]], "one that has gone takes no room");
    }
}
