//! Writes a timeline as a Perfetto trace: packets of protobuf, encoded by hand.
//!
//! The part of the format that is needed is small: tracks, slices, instants, counters, arrows, names that are stored once.
//! `protobuf` knows bytes, `packet` knows which field has which number, this file knows what to write. One sequence carries
//! everything, in order of the timeline's serial numbers, so that slices nest and arrows begin before they end.
//! Called by `run_command`. A writer of another format would be another such module over [`Timeline`].

mod packet;
mod protobuf;

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::timeline::{Note, Timeline, TrackKind};
use packet::{Annotations, TrackPlace, Unit};

/// Writes the whole trace: timelines of the same clock, each under its title. Times are nanoseconds as recorded.
///
/// # Errors
/// Those of `sink`.
pub fn write(timelines: &[(String, Timeline)], sink: &mut dyn Write) -> io::Result<()> {
    for (number, (title, timeline)) in (0..).zip(timelines) {
        let page = Page(number);
        sink.write_all(&packet::sequence_start(page.sequence(), timeline.begin_ns, timeline.names.all()))?;
        write_tracks(page, timeline, title, sink)?;
        let arrows = Arrows::of(page, timeline);
        for mark in marks(timeline) {
            sink.write_all(&encode(page, timeline, &arrows, mark))?;
        }
    }
    Ok(())
}

/// One of several timelines: it has a sequence of packets, and numbers of tracks and arrows, of its own.
#[derive(Clone, Copy)]
struct Page(u64);

impl Page {
    fn sequence(self) -> u64 {
        self.0 + 1
    }

    /// A number of this timeline as one of the file.
    fn own(self, number: u64) -> u64 {
        (self.0 << 48) + number
    }
}

/// Track numbers: 1 is the title, then groups, then tracks, then counters. Each kind has a room of its own.
const TITLE: u64 = 1;
const GROUPS: u64 = 0x100;
const TRACKS: u64 = 0x1_0000;
const COUNTERS: u64 = 0x1_0000_0000;

fn write_tracks(page: Page, timeline: &Timeline, title: &str, sink: &mut dyn Write) -> io::Result<()> {
    let sequence = page.sequence();
    sink.write_all(&packet::track(sequence, page.own(TITLE), title, TrackPlace { parent: None, rank: 0 }, None))?;
    let mut kinds: Vec<TrackKind> = timeline.tracks.iter().map(|track| track.kind).collect();
    kinds.dedup();
    for kind in kinds.into_iter().filter(|kind| group_name(*kind).is_some()) {
        let place = TrackPlace { parent: Some(page.own(TITLE)), rank: kind as u32 };
        sink.write_all(&packet::track(sequence, page.own(group(kind)), group_name(kind).unwrap_or(""), place, None))?;
    }
    for (index, track) in timeline.tracks.iter().enumerate() {
        let parent = if group_name(track.kind).is_some() { group(track.kind) } else { TITLE };
        let rank = if parent == TITLE { track.kind as u32 } else { u32::try_from(index).unwrap_or(u32::MAX) };
        let place = TrackPlace { parent: Some(page.own(parent)), rank };
        sink.write_all(&packet::track(sequence, page.own(TRACKS + index as u64), &track.name, place, None))?;
    }
    for (index, counter) in timeline.counters.iter().enumerate() {
        let rank = u32::try_from(COUNTER_RANK + index).unwrap_or(u32::MAX);
        let place = TrackPlace { parent: Some(page.own(TITLE)), rank };
        sink.write_all(&packet::track(
            sequence,
            page.own(COUNTERS + index as u64),
            &counter.kind.name(),
            place,
            Some(Unit::Bytes),
        ))?;
    }
    Ok(())
}

/// Counters stand below all tracks.
const COUNTER_RANK: usize = 100;

fn group(kind: TrackKind) -> u64 {
    GROUPS + kind as u64
}

/// Kinds of which there are several tracks stand in a group.
fn group_name(kind: TrackKind) -> Option<&'static str> {
    match kind {
        TrackKind::Engine => Some("engines"),
        TrackKind::Turns => Some("scheduling"),
        TrackKind::Ready => Some("ready for an engine"),
        TrackKind::Queue => Some("hardware queues"),
        TrackKind::FenceLog => Some("fence logs"),
        TrackKind::Paging => Some("paging queues"),
        TrackKind::Suspended => Some("suspensions"),
        TrackKind::CpuWaits | TrackKind::CpuSignals | TrackKind::Moves | TrackKind::Kernel => None,
    }
}

/// One thing to write, by its index in the timeline.
#[derive(Clone, Copy)]
enum Mark {
    Begin(usize),
    End(usize),
    Instant(usize),
    Value(usize, usize),
}

fn marks(timeline: &Timeline) -> impl Iterator<Item = Mark> {
    let slices = timeline.slices.iter().enumerate();
    let slices = slices.flat_map(|(index, s)| [(s.opened, Mark::Begin(index)), (s.closed, Mark::End(index))]);
    let instants = timeline.instants.iter().enumerate().map(|(index, i)| (i.serial, Mark::Instant(index)));
    let counters = timeline.counters.iter().enumerate();
    let values = counters.flat_map(|(counter, c)| {
        c.points.iter().enumerate().map(move |(point, (_, serial, _))| (*serial, Mark::Value(counter, point)))
    });
    let mut marks: Vec<(u64, Mark)> = slices.chain(instants).chain(values).collect();
    marks.sort_by_key(|(serial, _)| *serial);
    marks.into_iter().map(|(_, mark)| mark)
}

fn encode(page: Page, timeline: &Timeline, arrows: &Arrows, mark: Mark) -> Vec<u8> {
    let sequence = page.sequence();
    match mark {
        Mark::Begin(index) => {
            let slice = &timeline.slices[index];
            let mut notes = annotations(&slice.notes);
            if slice.cut {
                notes.text("cut", "the recording ended before this did");
            }
            packet::slice_begin(sequence, slice.begin_ns, page.own(TRACKS + slice.track as u64), slice.name, &notes)
        }
        Mark::End(index) => {
            let slice = &timeline.slices[index];
            packet::slice_end(sequence, slice.end_ns, page.own(TRACKS + slice.track as u64))
        }
        Mark::Instant(index) => {
            let instant = &timeline.instants[index];
            let track = page.own(TRACKS + instant.track as u64);
            let notes = annotations(&instant.notes);
            let (from, to) = (arrows.leaving(index), arrows.arriving(index));
            packet::instant(sequence, instant.at_ns, track, instant.name, &notes, (from, to))
        }
        Mark::Value(counter, point) => {
            let (at_ns, _, value) = timeline.counters[counter].points[point];
            packet::counter(sequence, at_ns, page.own(COUNTERS + counter as u64), value)
        }
    }
}

/// The arrows that leave and reach each instant. Arrow numbers count from 1.
struct Arrows {
    leaving: BTreeMap<usize, Vec<u64>>,
    arriving: BTreeMap<usize, Vec<u64>>,
}

impl Arrows {
    fn of(page: Page, timeline: &Timeline) -> Arrows {
        let mut arrows = Arrows { leaving: BTreeMap::new(), arriving: BTreeMap::new() };
        for (number, flow) in (page.own(1)..).zip(&timeline.flows) {
            arrows.leaving.entry(flow.from).or_default().push(number);
            arrows.arriving.entry(flow.to).or_default().push(number);
        }
        arrows
    }

    fn leaving(&self, instant: usize) -> &[u64] {
        self.leaving.get(&instant).map_or(&[], Vec::as_slice)
    }

    fn arriving(&self, instant: usize) -> &[u64] {
        self.arriving.get(&instant).map_or(&[], Vec::as_slice)
    }
}

fn annotations(notes: &[Note]) -> Annotations {
    let mut annotations = Annotations::default();
    for note in notes {
        match note {
            Note::Number(name, value) => annotations.number(name, *value),
            Note::Text(name, text) => annotations.text(name, text),
        }
    }
    annotations
}

#[cfg(test)]
mod decode;
#[cfg(test)]
mod tests;
