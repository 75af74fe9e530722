//! The life of flips as the events tell it, and what monitors see. The rules:
//! - a flip is queued once, and shown or dropped once; nothing is shown that the driver was not given;
//! - what a process queues is shown in its order;
//! - no frame is torn, and each is one whole picture;
//! - the pictures of a display are those of its modes and of the flips that were queued for it, in their order. None comes back.

use std::collections::{BTreeMap, BTreeSet};

use device_port::Frame;
use events::Event;
use wddm_types::ProcessId;

use crate::check::contract::Broken;

/// All displays of an adapter.
#[derive(Debug, Default)]
pub struct Displays {
    sources: BTreeMap<u32, Source>,
    /// The process of each device.
    owners: BTreeMap<u64, ProcessId>,
    /// The picture of the last mode that each process wants for a source. One process's mode can be pending while the kernel refuses
    /// another's.
    modes: BTreeMap<(ProcessId, u32), u32>,
    /// Flips that are neither shown nor dropped.
    flips: BTreeMap<u64, Flip>,
    /// The process whose flip is queued next, and its picture.
    next: Option<(usize, u32)>,
    /// Processes that have lost a flip while their display was on.
    robbed: BTreeSet<usize>,
    frames: u64,
}

#[derive(Debug, Default)]
struct Source {
    on: bool,
    /// Pictures in the order in which they may be shown, and which of them is the last that was.
    planned: Vec<u32>,
    seen: usize,
    /// The last flip of each process that was shown.
    shown: BTreeMap<usize, u64>,
}

#[derive(Debug)]
struct Flip {
    who: usize,
    source: u32,
    /// The driver has it.
    handed: bool,
}

impl Displays {
    /// A process is about to queue a flip to this picture.
    pub fn flips_to(&mut self, who: usize, picture: u32) {
        self.next = Some((who, picture));
    }

    /// A process has one more device.
    pub fn device_of(&mut self, process: ProcessId, device: u64) {
        self.owners.insert(device, process);
    }

    /// A process is about to give a source a mode with this picture.
    pub fn mode_of(&mut self, process: ProcessId, source: u32, picture: u32) {
        self.modes.insert((process, source), picture);
    }

    /// Whether a display is on.
    pub fn is_on(&self, source: u32) -> bool {
        self.sources.get(&source).is_some_and(|source| source.on)
    }

    /// Flips of a process that are neither shown nor dropped.
    pub fn queued_of(&self, who: usize) -> usize {
        self.flips.values().filter(|flip| flip.who == who).count()
    }

    /// Whether a process has lost a flip while its display was on: what it draws may wait for one that never comes.
    pub fn robbed(&self, who: usize) -> bool {
        self.robbed.contains(&who)
    }

    /// Frames that monitors have seen.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Takes in an event of the kernel.
    // spec: sync §4.6, memory §5.6, memory §10.1
    pub fn told(&mut self, event: &Event) -> Result<(), Broken> {
        match *event {
            Event::DisplayOn { source, device, .. } => {
                let owner =
                    self.owners.get(&device).ok_or_else(|| format!("display {source} goes on for no device"))?;
                let picture = self.modes.get(&(*owner, source));
                let picture = picture.ok_or_else(|| format!("display {source} has a mode that no process wants"))?;
                let known = self.sources.entry(source).or_default();
                known.planned.push(*picture);
                match std::mem::replace(&mut known.on, true) {
                    true => Err(format!("display {source} goes on twice")),
                    false => Ok(()),
                }
            }
            Event::DisplayOff { source } => {
                let known = self.sources.entry(source).or_default();
                match std::mem::replace(&mut known.on, false) {
                    false => Err(format!("display {source} goes off twice")),
                    true => Ok(()),
                }
            }
            Event::FlipQueued { flip, source, .. } => {
                let (who, picture) = self.next.take().ok_or("a flip that no process asked for")?;
                self.sources.entry(source).or_default().planned.push(picture);
                match self.flips.insert(flip, Flip { who, source, handed: false }) {
                    Some(_) => Err(format!("flip {flip} is queued twice")),
                    None => Ok(()),
                }
            }
            Event::FlipHandedOver { flip, .. } => match self.flips.get_mut(&flip) {
                Some(known) if !known.handed => {
                    known.handed = true;
                    Ok(())
                }
                other => Err(format!("flip {flip} is handed over, {other:?}")),
            },
            Event::FlipsTakenBack { source, flip, count } => {
                let back = self.flips.range_mut(flip..).filter(|(_, known)| known.source == source && known.handed);
                let back = back.map(|(_, known)| known.handed = false).count();
                match back == count as usize {
                    true => Ok(()),
                    false => Err(format!("{count} flips are taken back from {flip} on, the driver had {back}")),
                }
            }
            Event::FlipShown { source, flip, .. } => {
                let known = self.flips.remove(&flip).filter(|known| known.handed && known.source == source);
                let Some(Flip { who, .. }) = known else { return Err(format!("flip {flip} is shown, {known:?}")) };
                let shown = self.sources.entry(source).or_default().shown.insert(who, flip);
                match shown.filter(|shown| *shown > flip) {
                    Some(before) => Err(format!("flip {flip} is shown behind {before}")),
                    None => Ok(()),
                }
            }
            Event::FlipDropped { flip } => {
                let Some(Flip { who, source, .. }) = self.flips.remove(&flip) else {
                    return Err(format!("flip {flip} is dropped, which is over"));
                };
                if self.is_on(source) {
                    self.robbed.insert(who);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks a frame that a monitor sees.
    // spec: memory §5.6, memory §10.1 row 31
    pub fn frame(&mut self, frame: &Frame<'_>) -> Result<(), Broken> {
        self.frames += 1;
        let (source, number) = (frame.display, frame.number);
        if frame.torn {
            return Err(format!("frame {number} of display {source} is torn"));
        }
        let picture = frame.texels.first().copied().unwrap_or(0);
        if let Some(other) = frame.texels.iter().find(|texel| **texel != picture) {
            return Err(format!("frame {number} of display {source} is part of {picture:#x} and of {other:#x}"));
        }
        let known = self.sources.entry(source).or_default();
        let at = known.planned.iter().skip(known.seen).position(|planned| *planned == picture);
        let at =
            at.ok_or_else(|| format!("frame {number} of display {source} is {picture:#x}, which is not its turn"))?;
        known.seen += at;
        Ok(())
    }

    /// Nothing is left.
    pub fn idle(&self) -> Result<(), Broken> {
        match (self.flips.first_key_value(), self.sources.iter().find(|(_, source)| source.on)) {
            (Some((flip, of)), _) => Err(format!("flip {flip} never came to an end: {of:?}")),
            (None, Some((source, _))) => Err(format!("display {source} shows a picture that no process owns")),
            (None, None) => Ok(()),
        }
    }
}
