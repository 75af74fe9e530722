//! The asymmetric barrier between two processes, on the processors of the day.

#[path = "../../../contract/shared_words/tests/race/mod.rs"]
mod race;

use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use dxgk_host::{Host, HostConfig, Mode, PROFILES};
use race::{BYTES, lost, meet, pin, run, two_of};
use shared_words::across::{FrequentAcross, Processors, register};
use shared_words::{Barrier, ClientAccess, Memory, RareBarrier};

/// Names the processors of a race to the process that plays its frequent side.
const PLAYS: &str = "OPENWDDM_TEST_RACE";
/// The turn at which it is registered, and the one from which on it may ring.
const REGISTERED: u64 = 1;
const PASSED: u64 = 2;

/// A process elsewhere leaves its barrier out, registered while a processor on which it had run slept. The rare side has run on every processor
/// since, so that one is in the barrier. (Without that this failed in some of its runs.)
// seed: N27
// spec: sync §3.9, sync §3.17
#[test]
fn a_process_elsewhere_is_in_the_barrier_once_the_other_has_run_everywhere() {
    let processors = Processors::all();
    let two = processors.as_ref().and_then(|all| two_of(all.numbers()));
    let sizes = HostConfig {
        vram_bytes: 8 << 20,
        page_table_bytes: 4 << 20,
        system_bytes: 32 << 20,
        ..HostConfig::new(&PROFILES[0], Mode::Real)
    };
    let host = Host::start(HostConfig { isolates_processes: true, processors, ..sizes }).expect("a kernel");
    let (Some((rare, frequent)), true) = (two, (0..100).any(|_| host.run_everywhere())) else {
        println!("one processor, not all of them, or no such barrier: a ringing process keeps its own");
        return;
    };
    let memory = Memory::reserve(BYTES).expect("memory");
    let file = memory.lend(&[(0, BYTES)], ClientAccess::ReadWrite).expect("a file");
    let mut plays = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "plays_the_frequent_side"])
        .env(PLAYS, format!("{rare} {frequent}"))
        .stdin(Stdio::from(file.as_fd().try_clone_to_owned().expect("a descriptor")))
        .stdout(Stdio::null())
        .spawn()
        .expect("this program");
    pin(rare);
    meet(&memory, 1, REGISTERED);
    assert!((0..100).any(|_| host.run_everywhere()), "it has run on every processor");
    meet(&memory, 1, PASSED);
    run(&memory, 1, PASSED + 1, RareBarrier::full);
    assert!(plays.wait().expect("it ends").success());
    assert_eq!(lost(&memory), 0, "rounds in which neither found the other's store");
}

/// No test: the other process of the one above.
#[test]
fn plays_the_frequent_side() {
    let Ok(processors) = std::env::var(PLAYS) else { return };
    let (rare, frequent) = processors.split_once(' ').expect("two processors");
    let [rare, frequent] = [rare, frequent].map(|number| number.parse().expect("a number"));
    let file = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    let memory = Memory::from_file(file, BYTES).expect("a file of the other's");
    pin(frequent);
    std::thread::sleep(Duration::from_millis(1));
    pin(rare);
    assert!(register(), "as the other is");
    meet(&memory, 0, REGISTERED);
    meet(&memory, 0, PASSED);
    pin(frequent);
    run(&memory, 0, PASSED + 1, FrequentAcross::full);
}
