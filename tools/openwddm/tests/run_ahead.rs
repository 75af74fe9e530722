//! The CPU runs ahead of the GPU as far as dead storages hold no more bytes than they may, by what lies in memory at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink};
use replay::{ContentMode, DriveOptions, Observer, ResidencyPolicy, SourceKind, Storage, Workload, drive};
use wddm_types::PAGE_BYTES;

const STORAGE_BYTES: u64 = 1 << 20;
const AHEAD_BYTES: u64 = 2 * STORAGE_BYTES;
const OPERATIONS: u32 = 40;

/// The most bytes of allocations that lay in memory at once, whenever an operation was submitted.
struct Resident {
    host: Arc<Host>,
    most_bytes: u64,
}

impl Observer for Resident {
    fn progress(&mut self, _done: u64, _total: u64) {
        let pages: u64 = self.host.adapter(0).see_residences(|residences| {
            residences.iter().flat_map(|residence| &residence.runs).map(|run| run.count.0).sum()
        });
        self.most_bytes = self.most_bytes.max(pages * PAGE_BYTES);
    }

    fn step_done(&mut self, _step: u32, _now_ns: u64) {}
}

/// Each operation reads what stays and makes one storage, which dies behind it.
fn workload() -> Workload {
    let storage = |persistent| Storage { bytes: STORAGE_BYTES, persistent };
    let storages = std::iter::once(storage(true)).chain((0..OPERATIONS).map(|_| storage(false))).collect();
    let operate = |made| {
        let operation = replay::Event::Op { adapter: None, name: 0, reads: vec![0], writes: vec![made] };
        [operation, replay::Event::Death(made)]
    };
    let events = (1..=OPERATIONS).flat_map(operate).collect();
    let name = "dead storages".to_owned();
    Workload::new(name, SourceKind::ReferenceString, storages, vec!["operate".to_owned()], events).expect("a workload")
}

#[test]
fn the_cpu_waits_before_a_storage_is_made_although_others_of_the_operation_are_there() {
    for residency in [ResidencyPolicy::PerOperation, ResidencyPolicy::Kept] {
        let config = HostConfig {
            vram_bytes: 64 * STORAGE_BYTES,
            ..HostConfig::new(&PROFILES[0], Mode::Virtual { stored: false })
        };
        let host = Host::start(config).expect("an adapter");
        let options = DriveOptions {
            steps: 1,
            content: ContentMode::Timed,
            seed: 0,
            residency,
            hears_budget: false,
            stage: None,
            keeps_submissions: false,
            ahead_bytes: Some(AHEAD_BYTES),
            constant_bytes: None,
            recorded_times: false,
            in_place: false,
        };
        let mut resident = Resident { host: Arc::clone(&host), most_bytes: 0 };
        let link = ProcessLink::new(host);
        let driven = drive(&workload(), link, options, &mut resident, &AtomicBool::new(false)).expect("a run");
        assert_eq!(driven.ops, u64::from(OPERATIONS));
        let most = resident.most_bytes / STORAGE_BYTES;
        // The one that stays, the dead ones, the one that has died since, the next, and the program's own.
        assert!(most <= 1 + AHEAD_BYTES / STORAGE_BYTES + 3, "{residency:?}: {most} storages at once");
        assert!(most > 2, "{residency:?}: the CPU runs ahead: {most}");
    }
}
