//! Packet contexts: creation, submission, priority.

use d3dkmt_abi::*;
use kmt_calls::{
    AllocationListFlags, AllocationListItem, Call, ContextFlags, PacketCall, PatchLocationItem, Refusal, Reply,
};
use wddm_types::{GpuVa, NodeId, NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::buffer::ContextBuffers;
use crate::refusal::{expect_reply, invalid, not_supported};

/// A node by its number.
pub fn node(number: u32) -> Result<NodeId, Refusal> {
    u16::try_from(number).map(NodeId).map_err(|_| invalid(format!("no node has the number {number}")))
}

/// Flags of a context, with what its device asked for.
fn flags(caller: &Caller<'_>, device: D3DKMT_HANDLE, value: u32) -> ContextFlags {
    let flags = ContextFlags::from_bits_retain(value);
    if caller.process.is_timeless(device) { flags | ContextFlags::DISABLE_GPU_TIMEOUT } else { flags }
}

/// A context for buffers with lists; the buffer and the lists are the library's, and the caller writes into them.
pub fn create_context(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATECONTEXT) -> Answer {
    let call = Call::Packet(PacketCall::CreateContext {
        device: RawHandle(arguments.hDevice),
        node: node(arguments.NodeOrdinal)?,
        engine_affinity: arguments.EngineAffinity,
        flags: flags(caller, arguments.hDevice, arguments.Flags.Value),
        private_data: caller.bytes(arguments.pPrivateDriverData, arguments.PrivateDriverDataSize)?,
    });
    let created = expect_reply!(caller.process.call(call)?, Reply::Context(created) => created);
    arguments.hContext = created.context.0;
    let buffers = ContextBuffers::new(&created);
    arguments.pCommandBuffer = buffers.commands.place().cast();
    arguments.CommandBufferSize = created.command_buffer_bytes;
    arguments.pAllocationList = buffers.allocations.place();
    arguments.AllocationListSize = created.allocation_list_entries;
    arguments.pPatchLocationList = buffers.patches.place();
    arguments.PatchLocationListSize = created.patch_location_list_entries;
    arguments.CommandBuffer = 0;
    caller.process.buffers().insert(created.context.0, buffers);
    Ok(NtStatus::SUCCESS)
}

pub fn create_context_virtual(caller: &Caller<'_>, arguments: &mut D3DKMT_CREATECONTEXTVIRTUAL) -> Answer {
    let call = Call::Packet(PacketCall::CreateContextVirtual {
        device: RawHandle(arguments.hDevice),
        node: node(arguments.NodeOrdinal)?,
        engine_affinity: arguments.EngineAffinity,
        flags: flags(caller, arguments.hDevice, arguments.Flags.Value),
        private_data: caller.bytes(arguments.pPrivateDriverData, arguments.PrivateDriverDataSize)?,
    });
    arguments.hContext = expect_reply!(caller.process.call(call)?, Reply::Handle(context) => context.0);
    Ok(NtStatus::SUCCESS)
}

pub fn destroy_context(caller: &Caller<'_>, arguments: &D3DKMT_DESTROYCONTEXT) -> Answer {
    let context = RawHandle(arguments.hContext);
    caller.process.call(Call::Packet(PacketCall::DestroyContext { context }))?;
    caller.process.buffers().remove(&context.0);
    Ok(NtStatus::SUCCESS)
}

/// Copies the commands and lists that the program has written into the context's buffers; the program writes into the same ones again.
pub fn render(caller: &Caller<'_>, arguments: &mut D3DKMT_RENDER) -> Answer {
    const DEFINED: u32 = D3DKMT_RENDERFLAGS::RenderKmReadback | (D3DKMT_RENDERFLAGS::RenderKmReadback - 1);
    if arguments.Flags.Value & !DEFINED != 0 {
        return Err(invalid(format!("flags {:#x} of Render are reserved", arguments.Flags.Value & !DEFINED)));
    }
    if arguments.Flags.Value & !D3DKMT_RENDERFLAGS::NullRendering != 0 {
        return Err(not_supported("buffers and lists that are resized, redirected or read back"));
    }
    if arguments.BroadcastContextCount != 0 {
        return Err(not_supported("one buffer for several contexts"));
    }
    if arguments.PresentHistoryToken != 0 {
        return Err(not_supported("a buffer that redirects a present"));
    }
    let private_data = caller.bytes(arguments.pPrivateDriverData, arguments.PrivateDriverDataSize)?;
    let context = arguments.Anonymous.hContext();
    let known = caller.process.buffers();
    let buffers =
        known.get(&context).ok_or_else(|| invalid(format!("{context:#x} is no patched context of this process")))?;
    let (start, length) = (arguments.CommandOffset, arguments.CommandLength);
    if !start.is_multiple_of(8) || !length.is_multiple_of(8) {
        return Err(invalid(format!("CommandOffset is {start} and CommandLength {length}; give multiples of 8")));
    }
    let room = buffers.commands.entries() * 8;
    let end = start.checked_add(length).filter(|end| *end as usize <= room);
    let end =
        end.ok_or_else(|| invalid(format!("{length} bytes of commands at {start} of a buffer of {room} bytes")))?;
    let too_long = arguments.AllocationCount as usize > buffers.allocations.entries()
        || arguments.PatchLocationCount as usize > buffers.patches.entries();
    if too_long {
        return Err(invalid(format!(
            "AllocationCount is {} for a list of {} entries, PatchLocationCount is {} for a list of {}",
            arguments.AllocationCount,
            buffers.allocations.entries(),
            arguments.PatchLocationCount,
            buffers.patches.entries()
        )));
    }
    let words = buffers.commands.first(end / 8);
    let allocations = buffers.allocations.first(arguments.AllocationCount);
    let patches = buffers.patches.first(arguments.PatchLocationCount);
    arguments.NewCommandBuffer = 0;
    arguments.pNewCommandBuffer = buffers.commands.place().cast();
    // CAST: the sizes came as numbers of 32 bits.
    arguments.NewCommandBufferSize = (buffers.commands.entries() * 8) as u32;
    arguments.pNewAllocationList = buffers.allocations.place();
    arguments.NewAllocationListSize = buffers.allocations.entries() as u32;
    arguments.pNewPatchLocationList = buffers.patches.place();
    arguments.NewPatchLocationListSize = buffers.patches.entries() as u32;
    // A call may wait; others use their contexts meanwhile.
    drop(known);
    let context = RawHandle(context);
    if arguments.Flags.Value & D3DKMT_RENDERFLAGS::NullRendering != 0 {
        let call = Call::Packet(PacketCall::SubmitNull { context, written_primaries: Vec::new() });
        arguments.QueuedBufferCount = expect_reply!(caller.process.call(call)?, Reply::Queued(queued) => queued);
        return Ok(NtStatus::SUCCESS);
    }
    let call = Call::Packet(PacketCall::Render {
        context,
        command: words[(start / 8) as usize..].to_vec(),
        allocation_list: allocations.iter().map(listed).collect(),
        patch_location_list: patches.iter().map(patched).collect(),
        private_data,
    });
    arguments.QueuedBufferCount = expect_reply!(caller.process.call(call)?, Reply::Queued(queued) => queued);
    Ok(NtStatus::SUCCESS)
}

// spec: memory §7.2
fn listed(from: &D3DDDI_ALLOCATIONLIST) -> AllocationListItem {
    AllocationListItem {
        allocation: RawHandle(from.hAllocation),
        flags: AllocationListFlags::from_bits_retain(from.Anonymous.Value),
    }
}

// spec: memory §7.3
fn patched(from: &D3DDDI_PATCHLOCATIONLIST) -> PatchLocationItem {
    PatchLocationItem {
        allocation_index: from.AllocationIndex,
        slot_id: from.Anonymous.Value,
        driver_id: from.DriverId,
        allocation_offset: from.AllocationOffset,
        patch_offset: from.PatchOffset,
        split_offset: from.SplitOffset,
    }
}

/// The first of the broadcast contexts is the one that runs the commands.
pub fn submit_command(caller: &Caller<'_>, arguments: &D3DKMT_SUBMITCOMMAND) -> Answer {
    const DEFINED: u32 = D3DKMT_SUBMITCOMMANDFLAGS::NullRendering
        | D3DKMT_SUBMITCOMMANDFLAGS::PresentRedirected
        | D3DKMT_SUBMITCOMMANDFLAGS::NoKmdAccess;
    let flags = arguments.Flags.Value;
    if flags & !DEFINED != 0 {
        return Err(invalid(format!("submission flags {:#x} are reserved", flags & !DEFINED)));
    }
    if flags & !D3DKMT_SUBMITCOMMANDFLAGS::NullRendering != 0 || arguments.PresentHistoryToken != 0 {
        return Err(not_supported("submissions that present, or that the kernel-mode driver does not see"));
    }
    if arguments.NumHistoryBuffers != 0 {
        return Err(not_supported("history buffers of a submission"));
    }
    match arguments.BroadcastContextCount {
        1 => {}
        2..=64 => return Err(not_supported("one buffer for several contexts")),
        count => return Err(invalid(format!("BroadcastContextCount is {count}; give 1"))),
    }
    let primaries = arguments.WrittenPrimaries.get(..arguments.NumPrimaries as usize);
    let primaries = primaries.ok_or_else(|| {
        invalid(format!(
            "NumPrimaries is {}; give at most {}",
            arguments.NumPrimaries,
            arguments.WrittenPrimaries.len()
        ))
    })?;
    let context = RawHandle(arguments.BroadcastContext[0]);
    if flags & D3DKMT_SUBMITCOMMANDFLAGS::NullRendering != 0 {
        let written_primaries = primaries.iter().copied().map(RawHandle).collect();
        caller.process.call(Call::Packet(PacketCall::SubmitNull { context, written_primaries }))?;
        return Ok(NtStatus::SUCCESS);
    }
    caller.process.call(Call::Packet(PacketCall::SubmitCommand {
        context,
        commands: GpuVa(arguments.Commands),
        command_bytes: arguments.CommandLength,
        written_primaries: primaries.iter().copied().map(RawHandle).collect(),
        private_data: caller.bytes(arguments.pPrivateDriverData, arguments.PrivateDriverDataSize)?,
    }))?;
    Ok(NtStatus::SUCCESS)
}
