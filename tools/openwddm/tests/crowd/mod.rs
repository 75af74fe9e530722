//! Many clients with very many allocations at a daemon that the operating system gives few descriptors: allocations cost none, neither the
//! clients nor the daemon. The clients are in this program, which changes nothing for the daemon.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use kmt_link::Link;
use kmt_link::socket::SocketLink;
use softgpu_spec::private_data::{AllocationRequest, Kind};
use softgpu_umd::Gpu;

use crate::served::{self, NEVER};

const BYTES: u64 = 64 << 10;
const CLIENTS: usize = 16;

/// Allocations of each client; `OPENWDDM_ALLOCATIONS` says another number, for measurements.
fn count() -> u64 {
    let said = std::env::var("OPENWDDM_ALLOCATIONS").ok();
    said.map_or(500, |said| said.parse().expect("a number of allocations"))
}

struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn descriptors_of(process: &str) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).expect("procfs").count()
}

fn mappings_of(process: &str) -> usize {
    std::fs::read_to_string(format!("/proc/{process}/maps")).expect("procfs").lines().count()
}

/// A client that has written a word into each of its allocations, and what else it has to keep.
fn fill(socket: &Path, number: u64, ready: &Barrier, written: &Barrier) {
    let link: Arc<dyn Link> = SocketLink::connect(socket).expect("a kernel");
    let gpu = Gpu::open(link).expect("the adapter opens");
    let create = || {
        let kind = Kind::System;
        let wanted =
            AllocationRequest { kind, cpu_visible: true, cached: false, accessed_physically: false, size_bytes: BYTES };
        gpu.device().create_allocation(wanted.encode().to_vec()).expect("system memory")
    };
    let first = create();
    first.lock().expect("always").write_words(0, &[number]);
    ready.wait();
    // The test counts.
    ready.wait();
    let word = |index: u64| (number << 32) + index;
    let all: Vec<_> = (0..count())
        .map(|index| {
            let allocation = create();
            let lock = allocation.lock().expect("always");
            assert_eq!((lock.read_word(0), lock.read_word(BYTES - 8)), (0, 0), "client {number}, allocation {index}");
            lock.write_words(0, &[word(index)]);
            drop(lock);
            allocation
        })
        .collect();
    written.wait();
    // The test counts again, and then each finds its own.
    written.wait();
    for (index, allocation) in (0..).zip(&all) {
        assert_eq!(allocation.lock().expect("always").read_word(0), word(index), "client {number}");
    }
}

#[test]
fn a_daemon_with_few_descriptors_has_many_clients_with_any_number_of_allocations() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("kernel");
    let script = "ulimit -n 1024 && exec \"$0\" serve --socket \"$1\" --adapter discrete-4k,vram=128MiB --system 16GiB";
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_openwddm")]).arg(&socket).stderr(Stdio::null());
    let daemon = Ends(command.spawn().expect("the shell starts"));
    let began = Instant::now();
    while !served::listens(&socket) {
        assert!(began.elapsed() < NEVER, "it does not serve");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let process = daemon.0.id().to_string();
    let [ready, written] = [0; 2].map(|_| Barrier::new(CLIENTS + 1));
    std::thread::scope(|scope| {
        for number in 1..=CLIENTS as u64 {
            let (socket, ready, written) = (&socket, &ready, &written);
            scope.spawn(move || fill(socket, number, ready, written));
        }
        ready.wait();
        let before = [&process, "self"].map(descriptors_of);
        let mapped = mappings_of(&process);
        ready.wait();
        written.wait();
        let now = [&process, "self"].map(descriptors_of);
        let more = mappings_of(&process).saturating_sub(mapped);
        println!(
            "{CLIENTS} clients with {} allocations: descriptors of daemon and clients {before:?}, then {now:?}",
            count()
        );
        println!("the daemon has {more} mappings more");
        // A stretch of 1,024 pages is one mapping, and another lies behind it.
        let stretches = CLIENTS * (count() as usize * 16).div_ceil(1024);
        assert!(more <= 2 * stretches + 4 * CLIENTS, "{more} mappings for {stretches} stretches");
        for (before, now) in before.iter().zip(now) {
            assert!(now <= before + 32, "{before} descriptors, then {now}");
        }
        written.wait();
    });
}
