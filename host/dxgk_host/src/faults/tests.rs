//! Failures on demand: what a text means, which calls fail, and what a failed call leaves.

use std::collections::BTreeSet;
use std::path::Path;

use kmt_calls::{AdapterCall, Call, DeviceCall, Reply};
use wddm_types::NtStatus;

use super::*;
use crate::{Host, HostConfig, Mode, Profile};

fn plan(text: &str) -> FaultPlan {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn each_form_is_read_with_its_meaning() {
    let text = "MakeResident#3=NO_MEMORY; paging=hang@2s; D3DKMTCreateAllocation2 every 7=STATUS_NO_MEMORY; device=remove@call 100; \
                engine 0=hang; interrupt=drop 1/50; Lock2 2/9=GRAPHICS_ALLOCATION_BUSY; seed=7; tdr=250ms;";
    let said: Vec<String> = plan(text).described().into_iter().map(|(_, meaning)| meaning).collect();
    let wanted = [
        "call number 3 of MakeResident fails with STATUS_NO_MEMORY",
        "engine 1 hangs until it is reset with the first call or interrupt from 2000000000 ns on",
        "of CreateAllocation the last of each 7 calls fails",
        "the device is pulled out with call 100",
        "engine 0 hangs until it is reset with call 1",
        "1 of 50 fence interrupts are lost",
        "of Lock2 2 of 9 calls fail",
        "the seed is 7",
        "after 250000000 ns without progress",
    ];
    assert_eq!(said.len(), wanted.len(), "{said:?}");
    for (said, wanted) in said.iter().zip(wanted) {
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn a_wrong_clause_is_refused_with_its_place_and_the_remedy() {
    for (text, number, says) in [
        ("", 1, "give CALL#N=STATUS"),
        ("seed=1;;tdr=1s", 2, "give CALL#N=STATUS"),
        ("MakeResident#0=NO_MEMORY", 1, "\"0\" is no count"),
        ("MakeResident=NO_MEMORY", 1, "which calls of MakeResident fail? give MakeResident#N"),
        ("seed=1; MakeResidents#1=NO_MEMORY", 2, "no call that may fail is called MakeResidents"),
        ("DestroyAllocation#1=NO_MEMORY", 1, "no call that may fail is called DestroyAllocation"),
        ("Lock2#1=NO_MEMORIES", 1, "there is no status \"NO_MEMORIES\""),
        ("Lock2#1=SUCCESS", 1, "is no failure"),
        ("Lock2#1=PENDING", 1, "is no failure"),
        ("CreateDevice#1=DEVICE_REMOVED", 1, "give device=remove"),
        ("engine 2=hang", 1, "there is no engine 2"),
        ("engine 0=stall", 1, "\"stall\" is no fault of it: give hang"),
        ("device=remove@call", 1, "\"call\" is no time"),
        ("device=remove@2h", 1, "\"2h\" is no time"),
        ("paging=hang@0s", 1, "\"0s\" is no time"),
        ("interrupt=drop 3/2", 1, "3 of 2 is more than all"),
        ("interrupt=lose", 1, "give drop N/M"),
        ("seed=1; seed=2", 2, "said once already"),
        ("tdr=1.5s", 1, "is no time"),
        ("tdr=999ns", 1, "\"999ns\" is no TdrDelay: give a time from 1us to 900s"),
        ("tdr=901s", 1, "\"901s\" is no TdrDelay: give a time from 1us to 900s"),
    ] {
        let error = text.parse::<FaultPlan>().expect_err(text);
        assert!(error.number == number && error.to_string().contains(says), "{text}: {error}");
    }
}

#[test]
fn the_ends_of_a_watch_are_taken() {
    assert!(plan("tdr=1us").described()[0].1.contains("after 1000 ns"));
    assert!(plan("tdr=900s").described()[0].1.contains("after 900000000000 ns"));
}

/// Calls that are not made to fail.
const LEFT_OUT: &[&str] = &[
    // They give something back.
    "CloseAdapter",
    "CloseHandle",
    "DestroyAllocation",
    "DestroyContext",
    "DestroyDevice",
    "DestroyDoorbell",
    "DestroyHwContext",
    "DestroyHwQueue",
    "DestroyKeyedMutex",
    "DestroyPagingQueue",
    "DestroySynchronizationObject",
    "Evict",
    "FreeGpuVirtualAddress",
    "ReleaseKeyedMutex2",
    "ReleaseProcessVidPnSourceOwners",
    "Unlock",
    "Unlock2",
    "UnregisterNotification",
    // The operating system's, on an event that exists.
    "ResetEvent",
    "SetEvent",
    "WaitForSingleObject",
    // Made by the libraries, inside a function of another name.
    "DescribeAllocations",
    "GetProcessId",
    "SectionInUse",
    "TakeNtHandle",
];

/// The names that the kernel's calls give themselves, as their sources have them.
fn real_names() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contract/kmt_calls/src/call");
    let mut names = BTreeSet::new();
    for file in std::fs::read_dir(folder).expect("the folder of the calls") {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("its text");
        let arms = text.lines().filter_map(|line| line.split_once("=> \"")?.1.strip_suffix("\","));
        names.extend(arms.map(str::to_owned));
    }
    names
}

#[test]
fn every_call_of_the_kernel_is_listed_or_left_out_by_a_rule() {
    let listed = CALLS.iter().chain(LEFT_OUT);
    assert_eq!(listed.clone().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>(), real_names());
    assert_eq!(listed.count(), real_names().len(), "a call stands in the lists once");
}

#[test]
fn a_function_of_another_name_is_the_call_that_it_makes() {
    let aliases = FaultPlan::aliases();
    for (alias, call) in aliases {
        assert!(CALLS.contains(call) && !CALLS.contains(alias), "{alias} makes {call}");
        let said = plan(&format!("D3DKMT{alias}#1=NO_MEMORY")).described();
        assert!(said[0].1.starts_with(&format!("call number 1 of {call} fails")), "{said:?}");
    }
    for pair in [
        ("WaitForSynchronizationObject", "WaitForSynchronizationObject2"),
        ("SignalSynchronizationObject", "SignalSynchronizationObject2"),
        ("CreateSyncFile", "WaitForSynchronizationObjectFromCpu"),
        ("EnumAdapters3", "EnumAdapters"),
        ("OpenResourceFromNtHandle", "OpenResource"),
        ("QueryResourceInfoFromNtHandle", "QueryResourceInfo"),
    ] {
        assert!(aliases.contains(&pair), "{pair:?}");
    }
}

#[test]
fn every_call_and_status_that_is_listed_is_taken() {
    for name in CALLS {
        for status in plan::statuses() {
            plan(&format!("{name}#1={status}"));
        }
    }
    assert!(!plan::statuses().contains(&"SUCCESS") && plan::statuses().contains(&"NO_MEMORY"));
}

/// The numbers of the calls of a name that fail, of the first hundred.
fn failing(text: &str, name: &'static str) -> Vec<u64> {
    let faults = Faults::new(&plan(text));
    (1..=100).filter(|_| faults.refuses(name, 0).is_some()).collect::<Vec<u64>>()
}

#[test]
fn counts_and_shares_follow_from_text_seed_and_order_alone() {
    assert_eq!(failing("Lock2#3=NO_MEMORY; Lock2#5=NO_MEMORY", "Lock2"), [3, 5]);
    assert_eq!(failing("Lock2 every 30=NO_MEMORY", "Lock2"), [30, 60, 90]);
    assert_eq!(failing("Lock2#1=NO_MEMORY", "Lock"), [0; 0]);
    let [first, again, other] =
        ["seed=1", "seed=1", "seed=2"].map(|seed| failing(&format!("Lock2 1/5=NO_MEMORY;{seed}"), "Lock2"));
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert!((10..=30).contains(&first.len()), "{first:?}");
    assert_eq!(failing("Lock2 5/5=NO_MEMORY", "Lock2").len(), 100);
}

fn host(text: &str) -> Arc<Host> {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let config = HostConfig::new(profile, Mode::Virtual { stored: false });
    Host::start(HostConfig { faults: Some(plan(text)), ..config }).expect("the host starts")
}

/// A refused call has no effect in the kernel, and costs its caller the same time.
#[test]
fn a_call_that_fails_leaves_the_kernel_as_it_was() {
    let host = host("CreateDevice#2=NO_MEMORY");
    let process = host.process_created();
    let Ok(Reply::Handle(adapter)) =
        host.call(process, Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: host.luid() }))
    else {
        panic!("the adapter opens")
    };
    let create = || Call::Device(DeviceCall::CreateDevice { adapter });
    host.call(process, create()).expect("the first is made");
    while host.step() {}
    let (before, began) = (host.state_digest(), host.now_ns());
    let refusal = host.call(process, create()).expect_err("the second fails");
    assert_eq!((refusal.status, refusal.blame), (NtStatus::NO_MEMORY, Blame::Scarcity));
    assert!(refusal.reason.contains("CreateDevice number 2"), "{refusal}");
    assert_eq!(host.state_digest(), before);
    assert!(host.now_ns() > began);
    host.call(process, create()).expect("the third is made");
    assert_ne!(host.state_digest(), before);
}

#[test]
fn a_kernel_whose_device_has_faults_looks_for_hangs() {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    for (text, delay_ns) in [
        ("engine 0=hang@call 9", Some(2_000_000_000)),
        ("interrupt=drop 1/2", Some(2_000_000_000)),
        ("device=remove@1s; tdr=5ms", Some(5_000_000)),
        ("Lock2#1=NO_MEMORY", None),
    ] {
        let mut setup = AdapterSetup::new(profile, Mode::Real);
        Faults::new(&plan(text)).put_into(&mut setup);
        assert_eq!((setup.recovery.delay_ns, setup.wrap_port.is_some()), (delay_ns, delay_ns.is_some()), "{text}");
    }
    for (host, text, delay_ns) in [
        (Some(7_000_000), "engine 0=hang", Some(7_000_000)),
        (Some(7_000_000), "engine 0=hang; tdr=5ms", Some(5_000_000)),
        (None, "tdr=5ms", Some(5_000_000)),
    ] {
        let mut setup = AdapterSetup::new(profile, Mode::Real);
        setup.recovery.delay_ns = host;
        Faults::new(&plan(text)).put_into(&mut setup);
        assert_eq!(setup.recovery.delay_ns, delay_ns, "{text} on a host with {host:?}");
    }
}
