//! Messages about memory that come with the response to the call that caused them: the client's listening thread does not wake for them.
//! One test alone: it looks at a thread of this program by its name.

use std::sync::Arc;

use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits};
use kmt_link::socket::SocketLink;
use softgpu_spec::private_data::{AllocationRequest, Kind};
use softgpu_umd::Gpu;

const BYTES: u64 = 64 << 10;
const LOCKS: u64 = 200;

/// How often the thread that listens on the stream has slept.
fn listener_slept() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("this process");
    let paths = threads.map(|thread| thread.expect("a thread").path());
    let named = |path: &std::path::PathBuf| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "kmt stream")
    };
    let listeners: Vec<_> = paths.filter(named).collect();
    let [listener] = &listeners[..] else { panic!("one client listens: {listeners:?}") };
    let status = std::fs::read_to_string(listener.join("status")).expect("a thread");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.expect("the operating system counts them").trim().parse().expect("a number")
}

#[test]
fn locks_do_not_wake_the_thread_that_listens() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel");
    let mut config = HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real);
    (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (8 << 20, 4 << 20, 32 << 20);
    config.isolates_processes = true;
    let host = Host::start(config).expect("a kernel");
    let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, Limits::default()).expect("a socket");
    let gpu = Gpu::open(SocketLink::connect(&path).expect("a kernel")).expect("an adapter");
    let kind = Kind::System;
    let asked =
        AllocationRequest { kind, cpu_visible: true, cached: false, accessed_physically: false, size_bytes: BYTES };
    let life = |number| {
        let allocation = gpu.device().create_allocation(asked.encode().to_vec()).expect("memory");
        let lock = allocation.lock().expect("it may be locked");
        lock.fill_words(0, BYTES / 8, |at| at + number);
        assert_eq!(lock.read_word(BYTES - 8), BYTES / 8 - 1 + number);
    };
    // The arena comes with the first, by the stream.
    life(0);
    let before = listener_slept();
    (1..=LOCKS).for_each(life);
    let woken = listener_slept() - before;
    assert!(woken < LOCKS / 10, "the listening thread woke {woken} times in {LOCKS} locks and unlocks");
    drop((gpu, daemon));
    host.check_invariants().expect("the kernel's invariants hold");
}
