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
//! `mode` is about owners and modes, `pending_modes` about modes whose primary is on its way, `flip` about flips on their way, `blank`
//! about what the hardware tells, `queue` about the flip queue of the hardware, `log` about what it says.

mod blank;
mod flip;
mod log;
mod mode;
mod pending_modes;
mod queue;

use std::collections::{BTreeMap, VecDeque};

use ddi::{AdapterCaps, DdiVersion, FeatureId, FlipCaps, KmdAllocation, Surface, VidPnPath};
use kmt_calls::DisplayInfo;
use vidmm::{AllocationId, StateDigest};
use wddm_types::VidPnTargetId;

use crate::driver::EntryPoints;
use crate::features::Features;
use crate::machine::Token;
use crate::object::{DeviceNumber, QueueNumber};
use crate::packet::PacketContextNumber;

use pending_modes::PendingMode;
use queue::{Hardware, SourceQueue};

/// `FlipInterval` is at most so many.
const INTERVAL_MAX: u32 = 4;
/// How many flips a device may have queued when its Present returns, if it does not say.
const QUEUED_LIMIT: u32 = 3;
/// The most that it can say.
const QUEUED_LIMIT_MAX: u32 = 16;

/// The displays of an adapter.
#[derive(Default)]
pub struct Displays {
    caps: FlipCaps,
    /// The flip queues of the hardware, where the feature is on.
    hardware: Option<Hardware>,
    sources: Vec<Source>,
    devices: BTreeMap<DeviceNumber, OfDevice>,
    /// Presents that are not answered, oldest first.
    blocked: VecDeque<(Token, DeviceNumber)>,
    /// Modes whose primary is on its way, oldest first.
    pending_modes: VecDeque<PendingMode>,
    /// Hardware queues whose next command writes these primaries.
    held: Vec<(QueueNumber, Vec<AllocationId>)>,
    /// Flips made so far: their numbers.
    flips_made: u64,
}

/// A source.
struct Source {
    path: VidPnPath,
    /// The device that has it.
    owner: Option<DeviceNumber>,
    /// The surface that it shows, in texels, while it is on.
    mode: Option<Surface>,
    /// Flips that are complete and not shown, oldest first.
    flips: VecDeque<Flip>,
    /// How many of them the driver has.
    handed: usize,
    /// Blanks behind the flip that was shown last, counted up to [`INTERVAL_MAX`].
    blanks: u32,
    /// Blanks interrupt.
    told: bool,
    /// Of its flip queue in the hardware.
    queue: SourceQueue,
    /// Calls that wait for a blank, and of which devices.
    waiting: Vec<(Token, DeviceNumber)>,
}

/// A device's flips.
struct OfDevice {
    /// Flips that are neither shown nor dropped.
    queued: u32,
    limit: u32,
    /// It was told to ask again for a mode, when its content is back.
    asks: bool,
}

impl Default for OfDevice {
    fn default() -> OfDevice {
        OfDevice { queued: 0, limit: QUEUED_LIMIT, asks: false }
    }
}

/// The queue that a flip stands behind.
#[derive(Clone, Copy)]
pub enum Behind {
    /// A packet context.
    Context(PacketContextNumber),
    /// A hardware queue that the kernel feeds.
    // spec: sync §3.17, presentation stays on what the kernel submits
    Queue(QueueNumber),
}

/// A flip.
pub struct Flip {
    number: u64,
    device: DeviceNumber,
    source: usize,
    primary: AllocationId,
    kmd: KmdAllocation,
    interval: u32,
    pinned: bool,
    /// The primary was destroyed.
    gone: bool,
    /// Where it is, since the driver has been told.
    address: Option<u64>,
    /// Its number in the flip queue of the hardware, and the blank at which it is to be shown; 0: not known.
    present_id: u64,
    start: u64,
}

impl Displays {
    /// The displays that a driver describes.
    ///
    /// # Errors
    /// The rule that it broke.
    pub fn of(
        miniport: &mut EntryPoints,
        adapter: &AdapterCaps,
        features: &Features,
    ) -> Result<Displays, &'static str> {
        let Some(display) = miniport.display() else { return Ok(Displays::default()) };
        let (caps, paths) = (display.flip_caps(), display.vidpn_paths());
        let targets = paths.iter().map(|path| path.target).collect::<std::collections::BTreeSet<_>>();
        let rules = [
            (caps.max_queued_flip_on_vsync > 0, "MaxQueuedFlipOnVSync is 1 at least"),
            (paths.iter().zip(0..).all(|(path, nth)| path.source.0 == nth), "sources are numbered from 0 on"),
            (targets.len() == paths.len(), "a target has one path"),
            (paths.iter().all(|path| path.refresh_ns > 0), "a display is refreshed in some time"),
        ];
        if let Some((_, rule)) = rules.iter().find(|(kept, _)| !kept) {
            return Err(rule);
        }
        let source = |path| Source {
            path,
            owner: None,
            mode: None,
            flips: VecDeque::new(),
            handed: 0,
            blanks: INTERVAL_MAX,
            told: false,
            queue: SourceQueue::default(),
            waiting: Vec::new(),
        };
        let sources: Vec<_> = paths.into_iter().map(source).collect();
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

    /// For the digest of the adapter's state.
    pub fn add_to(&self, digest: &mut StateDigest) {
        for source in &self.sources {
            let flips: Vec<_> = source.flips.iter().map(|flip| (flip.number, flip.device, flip.primary)).collect();
            let shown = (source.mode, flips, source.handed, source.waiting.len());
            digest.add("display", &source.path.source.0, &(source.owner, shown));
        }
        for (device, of) in self.devices.iter().filter(|(_, of)| of.queued > 0 || of.limit != QUEUED_LIMIT) {
            digest.add("flips of a device", device, &(of.queued, of.limit));
        }
        let pending: Vec<_> = self.pending_modes.iter().map(|pending| pending.id).collect();
        digest.add("waiters for displays", &"", &(self.blocked.len(), pending, &self.held));
    }

    /// Whether a device needs its content to be shown: it is not idle then.
    pub fn want(&self, device: DeviceNumber) -> bool {
        self.devices.get(&device).is_some_and(|of| of.queued > 0 || of.asks)
            || self.pending_modes.iter().any(|pending| pending.is_of(device))
    }

    /// A device goes, with its flips.
    pub fn forget_device(&mut self, device: DeviceNumber) {
        self.devices.remove(&device);
    }

    /// Devices whose presents wait, and how many of their flips are too many.
    fn presents_above_limit(&self) -> impl Iterator<Item = (DeviceNumber, u32)> + '_ {
        let excess = |of: &OfDevice| of.queued.saturating_sub(of.limit);
        self.blocked.iter().filter_map(move |(_, device)| Some((*device, excess(self.devices.get(device)?))))
    }

    /// The displays as a query of the adapter reports them.
    pub fn info(&self) -> Vec<DisplayInfo> {
        let info = |VidPnPath { source, target, refresh_ns }| DisplayInfo { source, target, refresh_ns };
        self.sources.iter().map(|source| info(source.path)).collect()
    }

    /// Primaries that displays read, or are about to.
    pub fn primaries(&self, shown: &vidsch::Flips<AllocationId>) -> Vec<AllocationId> {
        let handed = self.sources.iter().flat_map(|source| source.flips.iter().take(source.handed));
        handed.map(|flip| flip.primary).chain(shown.shown()).collect()
    }

    /// A source that shows a mode and has no owner; a sound state has none.
    pub fn abandoned(&self) -> Option<u32> {
        self.sources
            .iter()
            .find(|source| source.mode.is_some() && source.owner.is_none())
            .map(|known| known.path.source.0)
    }
}
