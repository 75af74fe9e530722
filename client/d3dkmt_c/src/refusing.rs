//! A kernel of two adapters that refuses calls by a rule, for tests: the library asks the next adapter, and leaves none open.

use std::collections::BTreeSet;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use kmt_calls::{
    AdapterCall, AdapterInfo, Call, DisplayCall, DisplayInfo, DoorbellAddress, MappingId, Notification, PriorityCall,
    QueuedFence, Refusal, Reply,
};
use kmt_link::{CpuMapping, DoorbellPage, Link, OwnCommands, WritableWord};
use shared_words::{Memory, ReadOnlyWord};
use wddm_types::{Luid, NtStatus, RawHandle, WordAddress};

use crate::border::Caller;
use crate::refusal::{refuse, unsuccessful};
use crate::session::{Process, lock};

/// Each adapter has one display; its handle has the number of its LUID.
struct Refusing {
    refuses: fn(&Call) -> Option<NtStatus>,
    open: Mutex<BTreeSet<u32>>,
}

impl Refusing {
    fn process(refuses: fn(&Call) -> Option<NtStatus>) -> (Arc<Refusing>, Process) {
        let kernel = Arc::new(Refusing { refuses, open: Mutex::default() });
        (Arc::clone(&kernel), Process::new(kernel))
    }

    fn is_none_open(&self) -> bool {
        lock(&self.open).is_empty()
    }
}

fn nothing_here() -> Refusal {
    unsuccessful("a call that this test does not make")
}

impl Link for Refusing {
    fn call(&self, call: Call) -> Result<Reply, Refusal> {
        if let Some(status) = (self.refuses)(&call) {
            return Err(refuse(status, "the test refuses the call"));
        }
        match call {
            Call::Adapter(AdapterCall::EnumAdapters) => {
                Ok(Reply::Adapters(vec![(Luid(1), String::new()), (Luid(2), String::new())]))
            }
            Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid }) => {
                let handle = u32::try_from(luid.0).expect("1 or 2");
                lock(&self.open).insert(handle);
                Ok(Reply::Handle(RawHandle(handle)))
            }
            Call::Adapter(AdapterCall::CloseAdapter { adapter }) => {
                assert!(lock(&self.open).remove(&adapter.0), "the adapter is closed once");
                Ok(Reply::Done)
            }
            Call::Adapter(AdapterCall::QueryAdapterInfo { .. }) => {
                let display = DisplayInfo {
                    source: Default::default(),
                    target: Default::default(),
                    refresh_ns: 1,
                    current: Default::default(),
                    preferred: Default::default(),
                };
                Ok(Reply::AdapterInfo(AdapterInfo { displays: vec![display], ..AdapterInfo::default() }))
            }
            Call::Display(DisplayCall::CheckVidPnExclusiveOwnership { .. }) => Ok(Reply::Done),
            Call::Priority(PriorityCall::GetProcessSchedulingPriorityClass { adapter }) => {
                Ok(Reply::PriorityClass(adapter.0))
            }
            _ => Err(nothing_here()),
        }
    }

    fn system_memory(&self) -> Option<&Arc<Memory>> {
        None
    }

    fn read_only(&self, _address: WordAddress) -> ReadOnlyWord {
        unreachable!("these tests read no word")
    }

    fn writable(&self, _address: WordAddress) -> WritableWord {
        unreachable!("these tests write no word")
    }

    fn mapping(&self, _mapping: MappingId) -> Option<Arc<CpuMapping>> {
        None
    }

    fn doorbell(&self, _address: DoorbellAddress) -> Option<Arc<DoorbellPage>> {
        None
    }

    fn take_notification(&self) -> Option<Notification> {
        None
    }

    fn wait_notification(&self) -> Option<Notification> {
        None
    }

    fn descriptor(&self, _handle: u64) -> Result<OwnedFd, Refusal> {
        Err(nothing_here())
    }

    fn described(&self, _descriptor: BorrowedFd<'_>) -> Result<u64, Refusal> {
        Err(nothing_here())
    }

    fn section_over(&self, _: RawHandle, _: BorrowedFd<'_>, _: u64, _: u64) -> Result<Reply, Refusal> {
        Err(nothing_here())
    }

    fn own_commands(&self) -> Result<OwnCommands, Refusal> {
        Ok(OwnCommands::default())
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn traces_fences(&self) -> bool {
        false
    }

    fn fences_queued(&self, _queue: RawHandle, _queued: &[QueuedFence]) {}
}

#[test]
fn an_adapter_that_says_nothing_of_itself_is_closed() {
    let (kernel, process) = Refusing::process(|call| {
        matches!(call, Call::Adapter(AdapterCall::QueryAdapterInfo { adapter: RawHandle(2) }))
            .then_some(NtStatus::NO_MEMORY)
    });
    let caller = Caller::new(&process);
    let opened = crate::adapter::open(&caller, Luid(2)).map(|_| ());
    assert_eq!(opened.map_err(|refusal| refusal.status), Err(NtStatus::NO_MEMORY));
    assert!(kernel.is_none_open());
    let mut list = crate::abi::D3DKMT_ENUMADAPTERS::zeroed();
    assert!(crate::adapter::enum_adapters(&caller, &mut list).is_err());
    assert!(kernel.is_none_open());
}

#[test]
fn an_owner_is_found_behind_an_adapter_that_refuses() {
    let (kernel, process) = Refusing::process(|call| match call {
        Call::Adapter(AdapterCall::QueryAdapterInfo { adapter: RawHandle(1) }) => Some(NtStatus::NO_MEMORY),
        Call::Display(_) => Some(NtStatus::GRAPHICS_PRESENT_OCCLUDED),
        _ => None,
    });
    let answer = crate::ownership::no_exclusive_owner(&Caller::new(&process));
    assert_eq!(answer.map_err(|refusal| refusal.status), Err(NtStatus::GRAPHICS_PRESENT_OCCLUDED));
    assert!(kernel.is_none_open());
}

#[test]
fn a_refusal_is_told_where_there_is_no_owner() {
    let (kernel, process) = Refusing::process(|call| match call {
        Call::Display(DisplayCall::CheckVidPnExclusiveOwnership { adapter: RawHandle(1), .. }) => {
            Some(NtStatus::NO_MEMORY)
        }
        _ => None,
    });
    let answer = crate::ownership::no_exclusive_owner(&Caller::new(&process));
    assert_eq!(answer.map_err(|refusal| refusal.status), Err(NtStatus::NO_MEMORY));
    assert!(kernel.is_none_open());
}

#[test]
fn the_next_adapter_tells_the_class_and_a_refused_close_keeps_the_answer() {
    let (_, process) = Refusing::process(|call| match call {
        Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: Luid(1) }) => Some(NtStatus::NO_MEMORY),
        Call::Adapter(AdapterCall::CloseAdapter { .. }) => Some(NtStatus::INVALID_PARAMETER),
        _ => None,
    });
    let mut class = 77;
    let answer = crate::priority::get_process_class(&Caller::new(&process), std::ptr::null_mut(), &mut class);
    assert_eq!((answer, class), (Ok(NtStatus::SUCCESS), 2));
}
