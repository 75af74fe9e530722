//! Expectations of shipped user-mode drivers: each is a C program of `client/d3dkmt_c/tests/drivers`, built with `cc` as its users would, which
//! checks one expectation and ends with a message where it fails. The programs run with the kernel in their own process and, where it matters,
//! as processes of a served kernel.

mod programs;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use programs::{Served, build_from, command, run, said, said_by};

/// Runs a program that says `line` when something is to be done, and does it then. The end of the program's input says that it is done.
fn run_and_then(program: &Path, environment: &[(&str, &str)], line: &str, act: impl FnOnce()) -> Output {
    let mut command = command(program, environment);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let input = child.stdin.take();
    let mut said = BufReader::new(child.stdout.take().expect("piped"));
    let (mut first, mut stdout) = (String::new(), Vec::new());
    said.read_line(&mut first).expect("a line");
    if first.trim_end() == line {
        act();
    }
    drop(input);
    said.read_to_end(&mut stdout).expect("its output");
    Output { stdout, ..child.wait_with_output().expect("it ends") }
}

fn build(folder: &Path, name: &str, link: &[&str]) -> PathBuf {
    build_from("tests/drivers", folder, name, link)
}

/// The output of a program in the process of its kernel.
fn program(name: &str, environment: &[(&str, &str)]) -> String {
    said_by("tests/drivers", name, environment)
}

/// The output of a program in the process of its kernel, and its output as a process of a served kernel.
fn both(name: &str) -> [String; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let built = build(folder.path(), name, &["-lopenwddm"]);
    let mut served = Served::start();
    let there = said(&run(&built, &served.environment()));
    let here = said(&run(&built, &[]));
    served.end();
    [here, there]
}

/// Not a test: the daemon of the others.
#[test]
fn the_daemon() {
    programs::daemon();
}

// spec: memory §4.3, memory §4.6, memory §4.8
#[test]
fn nearly_all_addresses_are_reserved_at_once() {
    assert_eq!(program("addresses", &[]), "mapped where it was reserved\n");
}

// spec: memory §7.1, sync §2.5
#[test]
fn private_data_go_to_the_driver() {
    assert_eq!(program("submission_data", &[]), "handed on\n");
    assert_eq!(
        program("submission_data", &[("OPENWDDM_ADAPTER", "wddm1-banks"), ("SUBMISSION", "patched")]),
        "handed on\n"
    );
}

// spec: memory §6.2, sync §4.2
#[test]
fn priorities_rise_by_one_and_lists_stand_beside_resources() {
    assert_eq!(program("small_answers", &[]), "raised and freed\n");
}

// spec: memory §9.2
#[test]
fn scarcity_says_whether_something_helps() {
    assert_eq!(program("scarcity", &[("OPENWDDM_SYSTEM", "67108864")]), "it helped\n");
    for adapter in ["integrated", "iommu"] {
        let environment = [("OPENWDDM_SYSTEM", "67108864"), ("OPENWDDM_ADAPTER", adapter), ("ONLY_SYSTEM", "1")];
        assert_eq!(program("scarcity", &environment), "it helped\n", "{adapter}");
    }
}

// spec: memory §6.3, memory §10.1 row 23
#[test]
fn a_call_that_waits_for_an_unlock_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(&build(folder.path(), "locked", &["-lopenwddm"]), &[]);
    assert_eq!(said(&output), "it came\n");
    let remarks = String::from_utf8_lossy(&output.stderr);
    assert!(remarks.contains("D3DKMTMakeResident: element 1 of the list is locked"), "{remarks}");
}

// spec: memory §2.7
#[test]
fn allocations_lie_over_memory_of_the_program() {
    let all = "heap\nstatic\nstack\nprotected\nread only\nothers\nshared\n";
    assert_eq!(both("program_memory"), [all, all]);
}

/// Among them the page in which the calling thread's own frames lie.
// spec: memory §2.7
#[test]
fn pages_with_words_of_the_thread_that_calls_are_given_like_others() {
    let all = "the caller's frames\nthose of a thread\nanother thread's\nthe heap's own words\nunder signals\n";
    assert_eq!(both("own_stack"), [all, all]);
}

// spec: memory §2.7
#[test]
fn a_program_of_one_thread_gives_its_memory_where_userfaultfd_is_forbidden() {
    let folder = tempfile::tempdir().expect("a folder");
    let built = build(folder.path(), "no_holds", &["-lopenwddm"]);
    let mut served = Served::start();
    for environment in [&served.environment()[..], &[]] {
        let output = run(&built, &[environment, &[("FORBID", "1")]].concat());
        let all = "the GPU reaches it\nthe caller's frames\nrefused beside another thread\n";
        assert_eq!(said(&output), all);
        let reasons = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(reasons.contains("userfaultfd fails (Operation not permitted"), "{reasons}");
        assert!(reasons.contains("userfaultfd"), "{reasons}");
        assert!(reasons.contains("allow userfaultfd") && reasons.contains("memfd_create"), "{reasons}");
    }
    served.end();
}

/// A client whose daemon ends, in this way, while it waits.
fn a_client_whose_kernel_ends(end: fn(&mut Served)) {
    let folder = tempfile::tempdir().expect("a folder");
    let built = build(folder.path(), "lost_kernel", &["-lopenwddm"]);
    let mut served = Served::start();
    let environment = served.environment().map(|(name, value)| (name, value.to_owned()));
    let environment = environment.each_ref().map(|(name, value)| (*name, &**value));
    let output = run_and_then(&built, &environment, "waits", || end(&mut served));
    let all = [
        "every waiter went on",
        "the words",
        "locked system memory",
        "locked video memory",
        "locked shared memory",
        "the stack",
        "the heap",
    ];
    assert_eq!(said(&output).lines().collect::<Vec<_>>(), all, "{}", String::from_utf8_lossy(&output.stderr));
}

// spec: sync §2.4, memory §6.3
#[test]
fn waiters_go_on_and_memory_stays_when_the_daemon_is_killed() {
    a_client_whose_kernel_ends(Served::kill);
}

// spec: sync §2.4, memory §6.3
#[test]
fn waiters_go_on_and_memory_stays_when_the_daemon_stops() {
    a_client_whose_kernel_ends(Served::end);
}

// spec: memory §2.7
#[test]
fn existing_heaps_need_nothing_else() {
    assert_eq!(both("existing_heap"), ["over a heap\n"; 2]);
}

#[test]
fn calls_work_until_the_process_ends() {
    let all = "main\nat exit\nanother thread at exit\ndestructor\nclosed\n";
    assert_eq!(both("at_exit"), [all, all]);
}

#[test]
fn a_child_is_refused_and_its_parent_goes_on() {
    assert_eq!(both("forks"), ["the child was refused\n"; 2]);
}

#[test]
fn a_program_handles_its_own_faults() {
    assert_eq!(both("own_handler"), ["its own handler\n"; 2]);
}

#[test]
fn a_program_may_end_without_destroying_anything() {
    assert_eq!(both("leaves"), ["left\n"; 2]);
}

/// Its code and data lie at addresses that were chosen when it was linked, low ones among them.
#[test]
fn a_program_need_not_be_position_independent() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["addresses", "program_memory"] {
        let built = build(folder.path(), name, &["-lopenwddm", "-no-pie", "-fno-pie"]);
        said(&run(&built, &[]));
    }
}

/// The reason is the true one: not that of another adapter, where the operating system is to blame.
// spec: memory §6.3, memory §6.7
#[test]
fn a_lock_without_an_address_says_why_it_has_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let built = build(folder.path(), "lock_reason", &["-lopenwddm"]);
    let there = run(&built, &[("OPENWDDM_ADAPTER", "discrete-4k")]);
    assert_eq!(said(&there), "locked\n");
    // One whose caches software maintains, and a coherent one whose caches are played.
    for profile in ["noncoherent", "snooping"] {
        let caches = run(&built, &[("OPENWDDM_ADAPTER", profile)]);
        assert_eq!(said(&caches), "refused\n");
        let reasons = String::from_utf8_lossy(&caches.stderr).into_owned();
        assert!(reasons.contains("the host simulates the CPU's caches of this adapter"), "{reasons}");
        assert!(!reasons.contains("userfaultfd") && !reasons.contains("coherent"), "{reasons}");
    }
}
