//! Tracks, found by what they show; and lanes, so that slices that overlap without nesting never share a track.

use std::collections::BTreeMap;

use super::{Track, TrackKind};

/// The tracks made so far.
#[derive(Debug, Default)]
pub struct Lanes {
    tracks: Vec<Track>,
    found: BTreeMap<(TrackKind, u64, usize), usize>,
    busy: Vec<bool>,
}

impl Lanes {
    /// The track for number `number` of this kind; its name is asked for when it is new.
    pub fn track(&mut self, kind: TrackKind, number: u64, name: impl FnOnce() -> String) -> usize {
        self.lane(kind, number, 0, name)
    }

    /// A lane on which nothing is open; it is taken until [`Lanes::release`].
    pub fn take(&mut self, kind: TrackKind, number: u64, name: impl FnOnce() -> String) -> usize {
        let lane = (0..).find(|lane| self.found.get(&(kind, number, *lane)).is_none_or(|track| !self.busy[*track]));
        let track = self.lane(kind, number, lane.expect("lanes do not run out"), name);
        self.busy[track] = true;
        track
    }

    /// The slice that was open on a lane has ended.
    pub fn release(&mut self, track: usize) {
        self.busy[track] = false;
    }

    /// The tracks in drawing order, and for each number given so far its place there.
    pub fn sorted(self) -> (Vec<Track>, Vec<usize>) {
        let mut places = vec![0; self.tracks.len()];
        let mut tracks = Vec::with_capacity(self.tracks.len());
        for track in self.found.into_values() {
            places[track] = tracks.len();
            tracks.push(self.tracks[track].clone());
        }
        (tracks, places)
    }

    fn lane(&mut self, kind: TrackKind, number: u64, lane: usize, name: impl FnOnce() -> String) -> usize {
        let (tracks, busy) = (&mut self.tracks, &mut self.busy);
        *self.found.entry((kind, number, lane)).or_insert_with(|| {
            tracks.push(Track { kind, name: name() });
            busy.push(false);
            tracks.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_lane_is_not_given_twice_and_a_free_one_is() {
        let mut lanes = Lanes::default();
        let name = || "CPU waits".to_string();
        let first = lanes.take(TrackKind::CpuWaits, 0, name);
        let second = lanes.take(TrackKind::CpuWaits, 0, name);
        assert_ne!(first, second);
        lanes.release(first);
        assert_eq!(lanes.take(TrackKind::CpuWaits, 0, name), first);
        let engine = lanes.track(TrackKind::Engine, 0, || "engine 0".to_string());
        let (tracks, places) = lanes.sorted();
        assert_eq!(tracks[0].kind, TrackKind::Engine);
        assert_eq!((places[engine], places[first], places[second]), (0, 1, 2));
    }
}
