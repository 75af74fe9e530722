//! Hardware contexts and hardware queues.

use d3dkmt_abi::*;
use kmt_calls::{Call, CreatedFence, QueueCall, QueueFlags, Reply, SignalFlags};
use wddm_types::{GpuVa, NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::context::node;
use crate::handle::{handles, points};
use crate::refusal::{expect_reply, invalid};
use crate::sync_object::for_gpu;

// spec: sync §2.5
pub fn create_hw_context(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATEHWCONTEXT) -> Answer {
    if arguments.Flags.Value != 0 {
        return Err(invalid(format!("flags {:#x} of a hardware context are reserved", arguments.Flags.Value)));
    }
    if arguments.EngineAffinity > 1 {
        return Err(invalid(format!(
            "EngineAffinity is {:#x}, and each node has one engine; give 1 or 0",
            arguments.EngineAffinity
        )));
    }
    let call = Call::Queue(QueueCall::CreateHwContext {
        device: RawHandle(arguments.hDevice),
        node: node(arguments.NodeOrdinal)?,
        private_data: caller.bytes(arguments.pPrivateDriverData, arguments.PrivateDriverDataSize)?,
    });
    arguments.hHwContext = expect_reply!(caller.process.call(call)?, Reply::Handle(context) => context.0);
    caller.process.note_timeless(arguments.hHwContext, caller.process.is_timeless(arguments.hDevice));
    Ok(NtStatus::SUCCESS)
}

pub fn destroy_hw_context(caller: &Caller<'_>, arguments: &D3DKMT_DESTROYHWCONTEXT) -> Answer {
    let context = RawHandle(arguments.hHwContext);
    caller.process.call(Call::Queue(QueueCall::DestroyHwContext { context }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §2.5
pub fn create_hw_queue(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATEHWQUEUE) -> Answer {
    let call = Call::Queue(QueueCall::CreateHwQueue {
        context: RawHandle(arguments.hHwContext),
        flags: match caller.process.is_timeless(arguments.hHwContext) {
            true => QueueFlags::from_bits_retain(arguments.Flags.Value) | QueueFlags::DISABLE_GPU_TIMEOUT,
            false => QueueFlags::from_bits_retain(arguments.Flags.Value),
        },
        private_data: caller.bytes(arguments.pPrivateDriverData, arguments.PrivateDriverDataSize)?,
    });
    let results = caller.room::<u8>(arguments.pPrivateDriverData.cast(), arguments.PrivateDriverDataSize)?;
    let created = expect_reply!(caller.process.call(call)?, Reply::HwQueue(created) => created);
    let CreatedFence { fence, current, current_va, current_cpu_va, .. } = created.progress;
    caller.process.has_word(fence);
    arguments.Flags.Value = created.flags.bits();
    arguments.hHwQueue = created.queue.0;
    arguments.hHwQueueProgressFence = fence.0;
    let undo = Call::Queue(QueueCall::DestroyHwQueue { queue: created.queue });
    arguments.HwQueueProgressFenceCPUVirtualAddress = caller.process.word_of_new(current, undo)?;
    arguments.HwQueueProgressFenceGPUVirtualAddress = for_gpu(current_va, current_cpu_va);
    results.write(&created.private_data);
    Ok(NtStatus::SUCCESS)
}

pub fn destroy_hw_queue(caller: &Caller<'_>, arguments: &D3DKMT_DESTROYHWQUEUE) -> Answer {
    let queue = RawHandle(arguments.hHwQueue);
    caller.process.call(Call::Queue(QueueCall::DestroyHwQueue { queue }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §2.1, sync §2.9
pub fn get_native_fence_log_detail(caller: &Caller<'_>, arguments: &mut D3DKMT_GETNATIVEFENCELOGDETAIL) -> Answer {
    if arguments.Flags.Value != 0 || arguments.Reserved.iter().any(|byte| *byte != 0) {
        return Err(invalid("Flags and Reserved of GetNativeFenceLogDetail are reserved; set both to 0"));
    }
    let call = Call::Queue(QueueCall::GetNativeFenceLogDetail { queue: RawHandle(arguments.hHwQueue) });
    let logs = expect_reply!(caller.process.call(call)?, Reply::NativeFenceLogs(logs) => logs);
    arguments.WaitLogNumberOfEntries = logs.wait_entries;
    arguments.SignalLogNumberOfEntries = logs.signal_entries;
    arguments.WaitLogGpuBaseAddress = logs.wait_base.0;
    arguments.SignalLogGpuBaseAddress = logs.signal_base.0;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §2.5
pub fn submit_command_to_hw_queue(caller: &Caller<'_>, arguments: &D3DKMT_SUBMITCOMMANDTOHWQUEUE) -> Answer {
    caller.process.call(Call::Queue(QueueCall::SubmitCommandToHwQueue {
        queue: RawHandle(arguments.hHwQueue),
        progress_value: arguments.HwQueueProgressFenceId,
        buffer: GpuVa(arguments.CommandBuffer),
        buffer_bytes: arguments.CommandLength,
        written_primaries: handles(caller, arguments.WrittenPrimaries, arguments.NumPrimaries)?,
        private_data: caller.bytes(arguments.pPrivateDriverData, arguments.PrivateDriverDataSize)?,
    }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §2.4
pub fn submit_wait_for_sync_objects_to_hw_queue(
    caller: &Caller<'_>,
    arguments: &D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE,
) -> Answer {
    caller.process.call(Call::Queue(QueueCall::SubmitWaitForSyncObjectsToHwQueue {
        queue: RawHandle(arguments.hHwQueue),
        points: points(caller, arguments.ObjectHandleArray, arguments.FenceValueArray, arguments.ObjectCount)?,
    }))?;
    Ok(NtStatus::SUCCESS)
}

// spec: sync §2.4
pub fn submit_signal_sync_objects_to_hw_queue(
    caller: &Caller<'_>,
    arguments: &D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE,
) -> Answer {
    caller.process.call(Call::Queue(QueueCall::SubmitSignalSyncObjectsToHwQueue {
        queues: handles(caller, arguments.BroadcastHwQueueArray, arguments.BroadcastHwQueueCount)?,
        points: points(caller, arguments.ObjectHandleArray, arguments.FenceValueArray, arguments.ObjectCount)?,
        flags: SignalFlags::from_bits_retain(arguments.Flags.Value),
    }))?;
    Ok(NtStatus::SUCCESS)
}
