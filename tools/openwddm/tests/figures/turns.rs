//! The contexts that engines ran, drawn from the scheduling logs, agree with the observations of the device.

use events::Event;
use openwddm::run::{RunOptions, Stage};
use openwddm::timeline::{SliceKind, Timeline, TrackKind};

use crate::{options, run};

#[test]
fn every_command_lies_in_a_turn_that_the_scheduling_log_tells() {
    // spec: sync §4.2
    for stage in [Stage::Hardware, Stage::User] {
        let traced = run(&RunOptions { recorded: true, stages: vec![stage], ..options("gpt.cpu.rrs.json.gz") });
        let recording = &traced.recordings[0];
        let wrong = |event: &Event| {
            matches!(event, Event::SchedulingLogOverrun { .. } | Event::SchedulingLogEntryIgnored { .. })
        };
        assert_eq!(recording.events.iter().find(|(_, event)| wrong(event)), None);
        let timeline = Timeline::of(recording);
        let on = |kind: TrackKind, name: &str| {
            let track = timeline.tracks.iter().position(|track| track.kind == kind && track.name == name);
            let track = track.unwrap_or_else(|| panic!("no {name} in {:?}", timeline.tracks));
            timeline.slices.iter().filter(move |slice| slice.track == track)
        };
        for engine in [0, 1] {
            let mut turns: Vec<_> = on(TrackKind::Turns, &format!("engine {engine} runs")).collect();
            turns.sort_by_key(|turn| turn.begin_ns);
            assert!(turns.iter().all(|turn| turn.kind == SliceKind::Turn && !turn.cut));
            assert!(turns.windows(2).all(|pair| pair[0].end_ns <= pair[1].begin_ns), "one at a time");
            let commands: Vec<_> = on(TrackKind::Engine, &format!("engine {engine}")).collect();
            assert!(commands.len() > 100);
            // Tracing begins when the paging process has worked already.
            let begun = turns[0].begin_ns;
            for command in commands.into_iter().filter(|command| command.begin_ns >= begun) {
                let nth = turns.partition_point(|turn| turn.begin_ns <= command.begin_ns);
                let turn = turns[nth - 1];
                assert!(command.end_ns <= turn.end_ns, "{command:?} beyond {turn:?}");
                let name = timeline.names.text(turn.name);
                assert_eq!(name == "paging", engine == 1, "{name}");
            }
        }
    }
}
