//! One source of an adapter: its owner, its mode, the flips that it has.

use std::collections::{BTreeSet, VecDeque};
use std::ops::{Index, IndexMut};

use ddi::{Surface, VidPnPath};
use wddm_types::VidPnSourceId;

use super::INTERVAL_MAX;
use super::flip::Flip;
use super::queue::SourceQueue;
use crate::effect::Token;
use crate::number::DeviceNumber;

/// A source.
pub(super) struct Source {
    pub(super) path: VidPnPath,
    /// The device that has it.
    pub(super) owner: Option<DeviceNumber>,
    /// The devices that take themselves for its owner, and are not.
    pub(super) emulated: BTreeSet<DeviceNumber>,
    /// The surface that it shows, in texels, while it is on.
    pub(super) mode: Option<Surface>,
    /// The number of the last flip that a device made before this mode: flips up to it belong to earlier modes.
    pub(super) flips_before: u64,
    /// Flips that are complete and not shown, oldest first.
    pub(super) flips: VecDeque<Flip>,
    /// How many of them the driver has.
    pub(super) handed: usize,
    /// Blanks behind the flip that was shown last, counted up to [`INTERVAL_MAX`].
    pub(super) blanks: u32,
    /// Blanks interrupt.
    pub(super) told: bool,
    /// Of its flip queue in the hardware.
    pub(super) queue: SourceQueue,
    /// Calls that wait for a blank, and of which devices.
    pub(super) waiting: Vec<(Token, DeviceNumber)>,
}

impl Source {
    /// A source that no device has, and that shows nothing.
    pub(super) fn new(path: VidPnPath) -> Source {
        Source {
            path,
            owner: None,
            emulated: BTreeSet::new(),
            mode: None,
            flips_before: 0,
            flips: VecDeque::new(),
            handed: 0,
            blanks: INTERVAL_MAX,
            told: false,
            queue: SourceQueue::default(),
            waiting: Vec::new(),
        }
    }

    /// The flips that the driver has, oldest first.
    pub(super) fn with_driver(&self) -> impl Iterator<Item = &Flip> {
        self.flips.iter().take(self.handed)
    }

    /// The rule of the room that this source breaks; a sound state has none.
    pub(super) fn broken_rule(&self) -> Option<&'static str> {
        let off = self.mode.is_none();
        let rules = [
            (off || self.owner.is_some(), "shows a mode and has no owner"),
            (!off || (self.flips.is_empty() && self.waiting.is_empty()), "is off, and flips or calls wait for it"),
            (!off || !self.told, "is off, and its blanks interrupt"),
            (self.handed <= self.flips.len(), "has fewer flips than the driver was given"),
            (
                self.flips.iter().skip(self.handed).all(|flip| flip.address.is_none()),
                "told the driver of a flip it has not",
            ),
            (self.blanks <= INTERVAL_MAX, "counts more blanks than a flip may wait for"),
        ];
        rules.into_iter().find(|(kept, _)| !kept).map(|(_, rule)| rule)
    }
}

/// The sources of an adapter by their numbers, which count from 0.
#[derive(Default)]
pub(super) struct Sources(Vec<Source>);

impl Sources {
    /// One source for each path, in the order of their numbers.
    pub(super) fn of(paths: Vec<VidPnPath>) -> Sources {
        Sources(paths.into_iter().map(Source::new).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Source> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Source> {
        self.0.iter_mut()
    }

    /// Whether there is a source of this number.
    pub(super) fn has(&self, source: VidPnSourceId) -> bool {
        (source.0 as usize) < self.0.len()
    }

    /// Their numbers.
    pub(super) fn ids(&self) -> impl Iterator<Item = VidPnSourceId> + use<> {
        // CAST: an adapter has a handful of sources.
        (0..self.0.len() as u32).map(VidPnSourceId)
    }
}

impl Index<VidPnSourceId> for Sources {
    type Output = Source;

    /// # Panics
    /// For a source that there is not: inside the kernel a number is one that `Displays::source` has looked at.
    fn index(&self, source: VidPnSourceId) -> &Source {
        &self.0[source.0 as usize]
    }
}

impl IndexMut<VidPnSourceId> for Sources {
    fn index_mut(&mut self, source: VidPnSourceId) -> &mut Source {
        &mut self.0[source.0 as usize]
    }
}
