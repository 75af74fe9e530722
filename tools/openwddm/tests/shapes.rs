//! The main job on any shape: strings drawn from a seed, at capacities from their largest operation to twice their peak, at each stage. Each
//! runs, and moves what the exact model of a least-recently-used memory says, to the byte.
//!
//! `OPENWDDM_SHAPES=N` draws N strings of each shape instead of a few; a failure names shape, seed, capacity and stage.

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use openwddm::arguments::default_run;
use openwddm::progress::Progress;
use openwddm::run::{RunOptions, Stage, Workload, execute};
use openwddm::size::MemorySize;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
const STAGES: [Stage; 3] = [Stage::Packet, Stage::Hardware, Stage::User];

/// Numbers that a seed draws.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ (self.0 >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 17
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A string under construction.
#[derive(Default)]
struct Strings {
    storages: Vec<(u64, bool)>,
    events: Vec<Event>,
}

enum Event {
    Op(Vec<usize>, Vec<usize>),
    Death(usize),
}

impl Strings {
    fn storage(&mut self, bytes: u64, persistent: bool) -> usize {
        self.storages.push((bytes, persistent));
        self.storages.len() - 1
    }

    fn op(&mut self, reads: &[usize], writes: &[usize]) {
        self.events.push(Event::Op(reads.to_vec(), writes.to_vec()));
    }

    fn death(&mut self, storage: usize) {
        self.events.push(Event::Death(storage));
    }

    fn json(&self) -> String {
        let storages: Vec<_> =
            self.storages.iter().map(|(bytes, alive)| format!("[{bytes},{}]", u8::from(*alive))).collect();
        let mut text = format!(
            r#"{{"format":"residency-reference-string/1","op_names":["op"],"storages":[{}],"events":["#,
            storages.join(",")
        );
        for (at, event) in self.events.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            // Writing to a string does not fail.
            let _ = match event {
                Event::Op(reads, writes) => write!(text, "{comma}[0,{reads:?},{writes:?}]"),
                Event::Death(storage) => write!(text, "{comma}[-1,[{storage}]]"),
            };
        }
        text + "]}"
    }
}

type Shape = fn(&mut Dice) -> Strings;

const SHAPES: [(&str, Shape); 8] = [
    ("few large storages, two alive at a time", few_large),
    ("many tiny storages", many_tiny),
    ("one storage as large as the memory", one_large),
    ("a chain", chain),
    ("a fan out and in", fan),
    ("sizes from a byte to nine tenths of the memory", any_size),
    ("deaths late, in bursts", late_deaths),
    ("a step over persistent weights", weights),
];

/// As an allocator above a driver does it: the next is made while the one before dies.
fn few_large(dice: &mut Dice) -> Strings {
    let mut string = Strings::default();
    let bytes = (1 + dice.below(8)) * 2 * MIB;
    let mut last = string.storage(bytes, false);
    string.op(&[], &[last]);
    for _ in 0..40 + dice.below(60) {
        let next = string.storage(bytes, false);
        string.op(&[last], &[next]);
        string.death(last);
        last = next;
    }
    string
}

fn many_tiny(dice: &mut Dice) -> Strings {
    let mut string = Strings::default();
    let count = 100 + dice.below(200);
    let all: Vec<usize> = (0..count).map(|nth| string.storage(1 + dice.below(2 * PAGE), nth % 3 == 0)).collect();
    let mut dead = vec![false; all.len()];
    for _ in 0..150 {
        let mut set = [0; 6].map(|_| dice.below(count) as usize).to_vec();
        set.retain(|storage| !dead[*storage]);
        let (reads, writes) = set.split_at(set.len() / 2);
        if !set.is_empty() {
            string.op(reads, writes);
        }
        let dies = dice.below(count) as usize;
        let used = string.storages[dies].1
            || string
                .events
                .iter()
                .any(|event| matches!(event, Event::Op(r, w) if r.contains(&dies) || w.contains(&dies)));
        if used && !dead[dies] && dice.below(2) == 0 {
            dead[dies] = true;
            string.death(dies);
        }
    }
    string
}

fn one_large(dice: &mut Dice) -> Strings {
    let mut string = Strings::default();
    let large = string.storage(24 * MIB, dice.below(2) == 0);
    let small: Vec<usize> = (0..6).map(|_| string.storage(1 + dice.below(MIB), true)).collect();
    for round in 0..10 {
        string.op(&small[..3], &[small[round % 6]]);
        // The large one alone: at the least capacity nothing else has room.
        string.op(&[large], &[large][..dice.below(2) as usize]);
    }
    string
}

fn chain(dice: &mut Dice) -> Strings {
    let mut string = Strings::default();
    let forward: Vec<usize> = (0..24).map(|_| string.storage(1 + dice.below(3 * MIB), false)).collect();
    string.op(&[], &forward[..1]);
    for pair in forward.windows(2) {
        string.op(&pair[..1], &pair[1..]);
    }
    let mut last = *forward.last().expect("there are 24");
    for &saved in forward.iter().rev().skip(1) {
        let gradient = string.storage(string.storages[saved].0, false);
        string.op(&[saved, last], &[gradient]);
        string.death(last);
        string.death(saved);
        last = gradient;
    }
    string
}

fn fan(dice: &mut Dice) -> Strings {
    let mut string = Strings::default();
    let root = string.storage((1 + dice.below(4)) * MIB, true);
    for _ in 0..4 {
        let leaves: Vec<usize> = (0..12).map(|_| string.storage(1 + dice.below(2 * MIB), false)).collect();
        leaves.iter().for_each(|leaf| string.op(&[root], &[*leaf]));
        string.op(&leaves, &[root]);
        leaves.iter().for_each(|leaf| string.death(*leaf));
    }
    string
}

fn any_size(dice: &mut Dice) -> Strings {
    let mut string = Strings::default();
    let memory = 32 * MIB;
    let mut alive: Vec<usize> = Vec::new();
    for _ in 0..60 {
        let bytes = match dice.below(6) {
            0 => 1 + dice.below(8),
            1 => PAGE - 1 + dice.below(3),
            2 => dice.below(2),
            3 => memory / 10 * (1 + dice.below(9)),
            _ => 1 + dice.below(2 * MIB),
        };
        let new = string.storage(bytes, dice.below(5) == 0);
        let reads: Vec<usize> = (0..2).filter_map(|_| alive.get(dice.below(8) as usize).copied()).collect();
        string.op(&reads, &[new]);
        alive.push(new);
        if alive.len() > 6 {
            string.death(alive.swap_remove(dice.below(6) as usize));
        }
    }
    string
}

fn late_deaths(dice: &mut Dice) -> Strings {
    let mut string = Strings::default();
    for _ in 0..6 {
        let all: Vec<usize> = (0..10).map(|_| string.storage((1 + dice.below(32)) * 64 * 1024, false)).collect();
        all.iter().for_each(|storage| string.op(&[], &[*storage]));
        string.op(&all[..2], &all[8..]);
        // All at once, long behind their last use; some never.
        all.iter().skip(dice.below(4) as usize).for_each(|storage| string.death(*storage));
    }
    string
}

fn weights(dice: &mut Dice) -> Strings {
    let mut string = Strings::default();
    let layers: Vec<usize> = (0..16).map(|_| string.storage((1 + dice.below(16)) * 256 * 1024, true)).collect();
    let mut kept = Vec::new();
    let mut last = string.storage(MIB, false);
    string.op(&[], &[last]);
    for layer in &layers {
        let next = string.storage(1 + dice.below(MIB), false);
        string.op(&[last, *layer], &[next]);
        kept.push(last);
        last = next;
    }
    for (layer, saved) in layers.iter().zip(&kept).rev() {
        let gradient = string.storage(string.storages[*layer].0, false);
        string.op(&[last, *saved, *layer], &[gradient]);
        string.op(&[gradient], &[*layer]);
        string.death(*saved);
        if dice.below(2) == 0 {
            string.death(gradient);
        }
    }
    string
}

fn options(file: &Path, vram: u64, stage: Stage) -> RunOptions {
    RunOptions {
        workload: Workload::File(file.to_owned()),
        vram: Some(MemorySize::Bytes(vram)),
        stages: vec![stage],
        virtual_time: true,
        verify: false,
        recorded: false,
        trace: None,
        report: None,
        ..default_run()
    }
}

/// Writes a string to a file; returns the path, the workload, and a name for failures.
fn drawn(folder: &Path, (name, shape): (&str, Shape), seed: u64) -> (std::path::PathBuf, replay::Workload, String) {
    let file = folder.join("string.json");
    std::fs::write(&file, shape(&mut Dice(seed)).json()).expect("a file");
    let workload = replay::Workload::open(&file).unwrap_or_else(|fault| panic!("{name}, seed {seed}: {fault}"));
    (file, workload, format!("{name}, seed {seed}"))
}

/// From the largest operation, in whole pages, to twice the peak.
fn capacities(workload: &replay::Workload, dice: &mut Dice) -> [u64; 5] {
    let peak = workload.peak_page_bytes(2, PAGE);
    let sizes =
        |set: &[u32]| set.iter().map(|index| workload.storages()[*index as usize].bytes.next_multiple_of(PAGE)).sum();
    let of_op = |event: &replay::Event| match event {
        replay::Event::Op { reads, writes, .. } => {
            let mut set: Vec<u32> = reads.iter().chain(writes).copied().collect();
            set.sort_unstable();
            set.dedup();
            sizes(&set)
        }
        replay::Event::Death(_) => 0,
    };
    let least = workload.events().iter().map(of_op).max().unwrap_or(0).max(PAGE);
    let between = least + dice.below((peak - least) / PAGE + 1) * PAGE;
    [least, least + PAGE, between, peak.max(PAGE), 2 * peak.max(PAGE)]
}

#[test]
fn every_string_runs_at_every_capacity_and_stage_and_moves_what_the_model_says() {
    let count: u64 = std::env::var("OPENWDDM_SHAPES").map_or(2, |text| text.parse().expect("a number of strings"));
    let folder = tempfile::tempdir().expect("a folder");
    let progress = Progress::new(Box::new(std::io::sink()), false);
    let mut runs = 0;
    for shape in SHAPES {
        for seed in 1..=count {
            let (file, workload, what) = drawn(folder.path(), shape, seed);
            for vram in capacities(&workload, &mut Dice(seed)) {
                let exact = replay::lru_bytes(&workload, 2, vram, PAGE).expect("its largest operation fits");
                for stage in STAGES {
                    let run = execute(&options(&file, vram, stage), &progress, &AtomicBool::new(false));
                    let summary =
                        run.unwrap_or_else(|error| panic!("{what}, {vram} bytes, {stage:?}: {error}")).summary;
                    let moved = (summary.paged_in_bytes, summary.paged_out_bytes);
                    assert_eq!(moved, (exact.paged_in, exact.paged_out), "{what}, {vram} bytes, {stage:?}");
                    runs += 1;
                }
            }
        }
    }
    assert_eq!(runs, SHAPES.len() as u64 * count * 15);
    println!("{runs} runs of {} strings", SHAPES.len() as u64 * count);
}

/// A replay does not leave it to the kernel to wait for what it has destroyed: the dead hold no more than the video memory.
#[test]
fn a_replay_runs_ahead_by_no_more_dead_bytes_than_the_video_memory_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let progress = Progress::new(Box::new(std::io::sink()), false);
    let mut string = Strings::default();
    let bytes = 8 * MIB;
    let mut last = string.storage(bytes, false);
    string.op(&[], &[last]);
    for _ in 0..80 {
        let next = string.storage(bytes, false);
        string.op(&[last], &[next]);
        string.death(last);
        last = next;
    }
    let file = folder.path().join("string.json");
    std::fs::write(&file, string.json()).expect("a file");
    let of = options(&file, 2 * bytes, Stage::User);
    let waited = |system| {
        let of = RunOptions { system: Some(MemorySize::Bytes(system)), ..of.clone() };
        execute(&of, &progress, &AtomicBool::new(false)).expect("it runs").summary.creations_waited
    };
    // Two are alive at once and two dead, and the pages of two or three are on their way back behind the paging ring; 16 MiB are the process's own.
    assert_eq!(waited(7 * bytes + 16 * MIB), 0);
    assert!(waited(2 * bytes + 16 * MIB) > 0, "the kernel waits where the replay need not");
}

#[test]
fn real_bytes_of_every_shape_come_back_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let progress = Progress::new(Box::new(std::io::sink()), false);
    for (shape, stage) in SHAPES.into_iter().zip(STAGES.into_iter().cycle()) {
        let (file, workload, what) = drawn(folder.path(), shape, 7);
        let [least, ..] = capacities(&workload, &mut Dice(7));
        // The least system memory that the command line takes, too: the dead come back in time.
        let of = options(&file, least, stage);
        let refused = execute(
            &RunOptions { system: Some(MemorySize::Bytes(1)), ..of.clone() },
            &progress,
            &AtomicBool::new(false),
        );
        let refusal = refused.expect_err("one byte is too little").to_string();
        let needed = refusal.split_whitespace().find_map(|word| word.parse::<u64>().ok().filter(|bytes| *bytes > 1));
        let system = Some(MemorySize::Bytes(needed.unwrap_or_else(|| panic!("{what}: no size in {refusal}"))));
        let real = RunOptions { virtual_time: false, verify: true, system, ..of };
        let run = execute(&real, &progress, &AtomicBool::new(false));
        let summary = run.unwrap_or_else(|error| panic!("{what}, {least} bytes, {stage:?}: {error}")).summary;
        assert_eq!(summary.verify, "ok", "{what}");
    }
}
