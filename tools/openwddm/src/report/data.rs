//! The data of the page: the numbers, the marks of the timeline, the curves, the lists.

use std::collections::BTreeMap;

use serde::Serialize;

use super::memory::Memory;
use super::movers::Movers;
use super::thin::{self, Mark};
use crate::outcome::{Outcome, PlanSummary, Summary};
use crate::timeline::{CounterKind, Instant, Note, Slice, SliceKind, Timeline, TrackKind};

/// Everything that the page shows. Times are nanoseconds from the beginning of the recording.
#[derive(Debug, Serialize)]
pub struct Data<'a> {
    summary: &'a Summary,
    profile: &'a str,
    interrupted: bool,
    /// The imports of recordings, a workload's name and a sentence each.
    imports: Vec<(&'a str, String)>,
    /// Where evictions are planned: planned against actual, names and values.
    plan: Vec<(&'static str, String)>,
    /// The view of each adapter; all count from the same beginning.
    views: Vec<View<'a>>,
}

/// The view of an adapter.
#[derive(Debug, Serialize)]
struct View<'a> {
    adapter: &'a str,
    dropped: u64,
    limit_bytes: u64,
    timeline: Marks<'a>,
    resident: Vec<Curve>,
    memory: Memory,
    movers: Movers,
}

/// The timeline, as rows of marks.
#[derive(Debug, Serialize)]
struct Marks<'a> {
    length_ns: u64,
    names: &'a [String],
    rows: Vec<Row>,
    /// When each step's first operation began.
    steps: Vec<(u64, u64)>,
    /// The adapter's recoveries and lost entries of logs: the time, and a text.
    recoveries: Vec<(u64, String)>,
    /// Marks that stand for the slices.
    shown: u64,
    /// Slices there are.
    total: u64,
    /// Slices that lie deeper than the lanes that are drawn.
    deeper: u64,
    /// Slices within a stretch of this length may have become one mark; 0: every slice is shown.
    merged_ns: u64,
}

/// One row: a track.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    kind: &'static str,
    /// By kind of slice: begin, length, name, bytes; for several slices as one also count and busy time.
    marks: BTreeMap<&'static str, Vec<Vec<u64>>>,
}

/// Resident bytes of a segment over time.
#[derive(Debug, Serialize)]
struct Curve {
    segment: u8,
    points: Vec<(u64, u64)>,
    points_total: usize,
}

const MARKS_MAX: usize = 16_000;
/// Most lanes of one track: a stream that runs far ahead has a box for each submission under way, one below the other.
const LANES_MAX: usize = 8;
const CURVE_POINTS_MAX: usize = 2_400;
const STEPS_MAX: usize = 400;
const RECOVERIES_MAX: usize = 400;

impl<'a> Data<'a> {
    /// Chooses and counts.
    pub fn of(outcome: &'a Outcome, timelines: &'a [(String, Timeline)]) -> Data<'a> {
        let views = outcome.recordings.iter().zip(timelines).map(|(recording, (_, timeline))| View {
            adapter: &recording.adapter,
            dropped: recording.dropped,
            limit_bytes: recording.vram_bytes,
            timeline: marks(timeline),
            resident: curves(timeline),
            memory: Memory::of(&recording.events, timeline),
            movers: Movers::of(&recording.events, timeline.begin_ns),
        });
        Data {
            summary: &outcome.summary,
            profile: &outcome.profile,
            interrupted: outcome.interrupted,
            imports: imports(&outcome.summary),
            plan: outcome.summary.plans.iter().flat_map(PlanSummary::rows).collect(),
            views: views.collect(),
        }
    }
}

fn imports(summary: &Summary) -> Vec<(&str, String)> {
    let all = summary.imports.iter();
    all.flat_map(|imported| imported.sentences().into_iter().map(|said| (imported.workload.as_str(), said))).collect()
}

fn marks(timeline: &Timeline) -> Marks<'_> {
    let mut lists: BTreeMap<(usize, SliceKind), Vec<Mark>> = BTreeMap::new();
    let deep = deep_tracks(timeline);
    let (drawn, deeper): (Vec<_>, Vec<_>) = timeline.slices.iter().partition(|slice| !deep[slice.track]);
    for slice in drawn {
        let (begin, end) = (slice.begin_ns - timeline.begin_ns, slice.end_ns - timeline.begin_ns);
        lists.entry((slice.track, slice.kind)).or_default().push(Mark::one(begin, end, slice.name, bytes(slice)));
    }
    let (keys, mut lists): (Vec<_>, Vec<_>) = lists.into_iter().unzip();
    let merged_ns = thin::merge(&mut lists, MARKS_MAX);
    let shown = lists.iter().map(|list| list.len() as u64).sum();
    let mut rows: BTreeMap<usize, Row> = BTreeMap::new();
    for (index, track) in timeline.tracks.iter().enumerate() {
        let has_slices = keys.iter().any(|(track, _)| *track == index);
        // An idle engine is worth seeing; a queue without operations and waits has nothing that its engine does not show.
        if has_slices || track.kind == TrackKind::Engine {
            let row = Row { name: track.name.clone(), kind: row_kind(track.kind), marks: BTreeMap::new() };
            rows.insert(index, row);
        }
    }
    for ((track, kind), list) in keys.into_iter().zip(lists) {
        let list = list.into_iter().map(encoded).collect();
        rows.get_mut(&track).expect("a row for each track with slices").marks.insert(mark_kind(kind), list);
    }
    Marks {
        length_ns: timeline.end_ns - timeline.begin_ns,
        names: timeline.names.all(),
        rows: rows.into_values().collect(),
        steps: steps(timeline),
        recoveries: recoveries(timeline),
        shown,
        total: (timeline.slices.len() - deeper.len()) as u64,
        deeper: deeper.len() as u64,
        merged_ns,
    }
}

/// Marks the tracks that are lanes beyond those that are drawn.
fn deep_tracks(timeline: &Timeline) -> Vec<bool> {
    let mut lanes: BTreeMap<(TrackKind, &str), usize> = BTreeMap::new();
    let deep = timeline.tracks.iter().map(|track| {
        let lane = lanes.entry((track.kind, &track.name)).or_insert(0);
        *lane += 1;
        *lane > LANES_MAX
    });
    deep.collect()
}

fn encoded(mark: Mark) -> Vec<u64> {
    let mut numbers = vec![mark.begin_ns, mark.end_ns - mark.begin_ns, u64::from(mark.name), mark.bytes];
    if mark.count > 1 {
        numbers.extend([mark.count, mark.busy_ns]);
    }
    numbers
}

fn bytes(slice: &Slice) -> u64 {
    let of_note = |note: &Note| match note {
        Note::Number("bytes" | "in bytes" | "out bytes", bytes) => *bytes,
        _ => 0,
    };
    slice.notes.iter().map(of_note).fold(0, u64::saturating_add)
}

fn steps(timeline: &Timeline) -> Vec<(u64, u64)> {
    let mut steps: BTreeMap<u64, u64> = BTreeMap::new();
    for slice in timeline.slices.iter().filter(|slice| slice.kind == SliceKind::Operation) {
        let step = slice.notes.iter().find_map(|note| match note {
            Note::Number("step", step) => Some(*step),
            _ => None,
        });
        if let Some(step) = step {
            steps.entry(step).or_insert(slice.begin_ns - timeline.begin_ns);
        }
    }
    steps.into_iter().take(STEPS_MAX).collect()
}

fn recoveries(timeline: &Timeline) -> Vec<(u64, String)> {
    let mark = |instant: &Instant| {
        let number = |wanted: &str| {
            let of_note = |note: &Note| match note {
                Note::Number(name, number) if *name == wanted => Some(*number),
                _ => None,
            };
            instant.notes.iter().find_map(of_note).unwrap_or(0)
        };
        let words = match timeline.names.text(instant.name) {
            "EngineReset" => format!("engine {} reset", number("node")),
            "AdapterReset" => "adapter reset".to_owned(),
            "AdapterStopped" => "adapter stopped".to_owned(),
            "ProcessBlocked" => format!("process {} kept away", number("process")),
            "FenceLogOverrun" | "SubmissionLogOverrun" => {
                format!("{} log entries of queue {} lost", number("lost"), number("queue"))
            }
            "SchedulingLogOverrun" => format!("{} log entries of engine {} lost", number("lost"), number("node")),
            "FenceLogTimeReversed" => format!("times in a log of queue {} go back", number("queue")),
            _ => return None,
        };
        Some((instant.at_ns - timeline.begin_ns, words))
    };
    timeline.instants.iter().filter_map(mark).take(RECOVERIES_MAX).collect()
}

fn curves(timeline: &Timeline) -> Vec<Curve> {
    let segments = timeline.counters.iter().filter_map(|counter| match counter.kind {
        CounterKind::Resident(segment) => Some((segment, counter)),
        _ => None,
    });
    let segments = segments.map(|(segment, counter)| {
        let points: Vec<_> = counter.points.iter().map(|(at, _, bytes)| (at - timeline.begin_ns, *bytes)).collect();
        let points_total = points.len();
        Curve { segment, points: thin::curve(&points, CURVE_POINTS_MAX), points_total }
    });
    segments.collect()
}

fn row_kind(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Engine => "engine",
        TrackKind::Turns => "turns",
        TrackKind::Ready => "ready",
        TrackKind::Queue => "queue",
        TrackKind::FenceLog => "logs",
        TrackKind::Paging => "paging",
        TrackKind::Suspended => "suspended",
        TrackKind::CpuWaits => "cpu",
        TrackKind::CpuSignals | TrackKind::Moves | TrackKind::Kernel => "other",
    }
}

fn mark_kind(kind: SliceKind) -> &'static str {
    match kind {
        SliceKind::Command => "command",
        SliceKind::Operation => "operation",
        SliceKind::Wait => "wait",
        SliceKind::Paging => "paging",
        SliceKind::CpuWait => "cpu",
        SliceKind::Suspended => "suspended",
        SliceKind::Signal => "signal",
        SliceKind::Turn => "turn",
        SliceKind::Ready => "ready",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_say_what_of_a_recording_is_left_out() {
        let mut outcome = crate::synthetic::outcome(1, 4);
        let left = crate::imported::Omission { reason: "no tensors", kernels: 17, storages: 0, bytes: 0 };
        let workload = "mine".to_owned();
        let imported = crate::imported::Imported { workload, kernels: 812, left_out: vec![left], ..Default::default() };
        outcome.summary.imports = vec![imported];
        let data = Data::of(&outcome, &[]);
        assert_eq!(data.imports, [("mine", "17 of 812 kernels left out: no tensors".to_owned())]);
    }

    #[test]
    fn the_data_count_what_the_timeline_holds() {
        let outcome = crate::synthetic::outcome(2, 40);
        let timelines = Timeline::of_all(&outcome);
        let data = Data::of(&outcome, &timelines);
        let [view] = &data.views[..] else { panic!("there is one adapter") };
        assert_eq!(view.timeline.total, timelines[0].1.slices.len() as u64);
        let drawn: usize = view.timeline.rows.iter().flat_map(|row| row.marks.values()).map(Vec::len).sum();
        assert_eq!(drawn as u64, view.timeline.total);
        assert_eq!(view.timeline.steps.len(), 2);
        assert_eq!(view.resident.len(), 1);
        let longest = view.timeline.rows.iter().flat_map(|row| row.marks.values().flatten()).map(|m| m[0] + m[1]).max();
        assert!(longest.is_some_and(|end| end <= view.timeline.length_ns));
    }

    #[test]
    fn of_a_track_with_many_lanes_the_first_are_drawn_and_the_rest_counted() {
        let outcome = crate::synthetic::outcome(2, 40);
        let mut timelines = Timeline::of_all(&outcome);
        let timeline = &mut timelines[0].1;
        let (before, deepest) = (timeline.slices.len(), timeline.tracks.len() + LANES_MAX);
        let slice = timeline.slices[0].clone();
        for lane in timeline.tracks.len()..=deepest {
            timeline.tracks.push(crate::timeline::Track { kind: TrackKind::FenceLog, name: "many".to_owned() });
            timeline.slices.push(Slice { track: lane, ..slice.clone() });
        }
        let data = Data::of(&outcome, &timelines);
        let drawn = &data.views[0].timeline;
        assert_eq!((drawn.total, drawn.deeper), ((before + LANES_MAX) as u64, 1));
        assert_eq!(drawn.rows.iter().filter(|row| row.name == "many").count(), LANES_MAX);
    }
}
