//! Priorities of contexts of either kind, and the class of the process, which no structure names.

use d3dkmt_abi::*;
use kmt_calls::{AdapterCall, Call, PriorityCall, Refusal, Reply, StatisticsCall};
use wddm_types::{Luid, NtStatus, ProcessId, RawHandle};

use crate::adapter::give_back;
use crate::border::{Answer, Caller};
use crate::event::handle::process_handle;
use crate::refusal::{expect_reply, not_supported};

/// Hardware contexts have the same priorities.
pub fn set_context_scheduling_priority(caller: &Caller<'_>, arguments: &D3DKMT_SETCONTEXTSCHEDULINGPRIORITY) -> Answer {
    let (context, priority) = (RawHandle(arguments.hContext), arguments.Priority);
    caller.process.call(Call::Priority(PriorityCall::SetContextSchedulingPriority { context, priority }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §4.2
pub fn get_context_scheduling_priority(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_GETCONTEXTSCHEDULINGPRIORITY,
) -> Answer {
    let context = RawHandle(arguments.hContext);
    arguments.Priority = told(caller, PriorityCall::GetContextSchedulingPriority { context })?;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §4.2
pub fn set_context_in_process_scheduling_priority(
    caller: &Caller<'_>,
    arguments: &D3DKMT_SETCONTEXTINPROCESSSCHEDULINGPRIORITY,
) -> Answer {
    let (context, priority) = (RawHandle(arguments.hContext), arguments.Priority);
    caller.process.call(Call::Priority(PriorityCall::SetContextInProcessSchedulingPriority { context, priority }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §4.2
pub fn get_context_in_process_scheduling_priority(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_GETCONTEXTINPROCESSSCHEDULINGPRIORITY,
) -> Answer {
    let context = RawHandle(arguments.hContext);
    arguments.Priority = told(caller, PriorityCall::GetContextInProcessSchedulingPriority { context })?;
    Ok(NtStatus::SUCCESS)
}

fn told(caller: &Caller<'_>, call: PriorityCall) -> Result<i32, Refusal> {
    Ok(expect_reply!(caller.process.call(Call::Priority(call))?, Reply::ContextPriority(priority) => priority))
}

// spec: sync §4.2
pub fn set_process_class(caller: &Caller<'_>, process: HANDLE, class: D3DKMT_SCHEDULINGPRIORITYCLASS) -> Answer {
    check_own(caller, process, "the priority class")?;
    // CAST: a negative number is as little a class as a large one.
    let class = class as u32;
    by_any_adapter(caller, |adapter| PriorityCall::SetProcessSchedulingPriorityClass { adapter, class })?;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §4.2
pub fn get_process_class(caller: &Caller<'_>, process: HANDLE, class: *mut D3DKMT_SCHEDULINGPRIORITYCLASS) -> Answer {
    let room = caller.room(class, 1)?;
    check_own(caller, process, "the priority class")?;
    let reply = by_any_adapter(caller, |adapter| PriorityCall::GetProcessSchedulingPriorityClass { adapter })?;
    // CAST: there are six classes.
    room.write(&[expect_reply!(reply, Reply::PriorityClass(class) => class) as D3DKMT_SCHEDULINGPRIORITYCLASS]);
    Ok(NtStatus::SUCCESS)
}

/// The class is the process's own on all adapters, and the kernel takes it by a handle of any. Where every adapter refuses, the answer is
/// the refusal of the first.
fn by_any_adapter(caller: &Caller<'_>, call: impl Fn(RawHandle) -> PriorityCall) -> Result<Reply, Refusal> {
    let reply = caller.process.call(Call::Adapter(AdapterCall::EnumAdapters))?;
    let mut answer = Err(not_supported("the kernel has no adapter"));
    for (nth, (luid, _)) in expect_reply!(reply, Reply::Adapters(adapters) => adapters).into_iter().enumerate() {
        match by_adapter(caller, luid, &call) {
            Ok(reply) => return Ok(reply),
            Err(refusal) if nth == 0 => answer = Err(refusal),
            Err(_) => {}
        }
    }
    answer
}

fn by_adapter(caller: &Caller<'_>, luid: Luid, call: impl Fn(RawHandle) -> PriorityCall) -> Result<Reply, Refusal> {
    let reply = caller.process.call(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid }))?;
    let adapter = expect_reply!(reply, Reply::Handle(adapter) => adapter);
    let answer = caller.process.call(Call::Priority(call(adapter)));
    give_back(caller, adapter);
    answer
}

/// The process is the calling one: NULL, the handle that `GetCurrentProcess` answers, or a handle that names it.
pub(crate) fn check_own(caller: &Caller<'_>, process: HANDLE, what: &str) -> Result<(), Refusal> {
    if process.is_null() || process.addr() == usize::MAX {
        return Ok(());
    }
    let named = process_of(caller, process_handle(caller, process)?)?;
    if named != process_of(caller, 0)? {
        return Err(not_supported(format!("{what} of {named:?}, which is another process")));
    }
    Ok(())
}

fn process_of(caller: &Caller<'_>, process: u64) -> Result<Vec<ProcessId>, Refusal> {
    let reply = caller.process.call(Call::Statistics(StatisticsCall::GetProcessId { process }))?;
    Ok(expect_reply!(reply, Reply::Processes(processes) => processes))
}
