//! Packet contexts: a context whose buffers name memory by lists and are patched ([`Context`]), and one in the process's
//! address space ([`VirtualContext`]). Both run behind waits and tell of their end by signals.

use std::sync::Arc;

use kmt_calls::{
    AllocationListItem, Call, ContextFlags, CreatedContext, DisplayCall, PacketCall, PatchLocationItem, Refusal, Reply,
    SyncCall,
};
use wddm_types::{BltRectangle, GpuVa, NodeId, RawHandle};

use crate::allocation::Allocation;
use crate::device::Device;
use crate::fence::Fence;
use crate::{Owned, expect_reply};

/// Every node has engine 0.
const ENGINE_0: u32 = 1;

/// A context of `D3DKMTCreateContext`: command buffers with an allocation list and a patch-location list (memory §5.6).
pub struct Context {
    pub(crate) owned: Owned,
    sizes: CreatedContext,
}

/// A context of `D3DKMTCreateContextVirtual`: command buffers at GPU virtual addresses, without lists.
pub struct VirtualContext {
    pub(crate) owned: Owned,
}

impl Context {
    /// Creates a context on a node of a device. `private_data` is the user-mode driver's.
    ///
    /// # Errors
    /// When there is no such node, or its driver has no packet scheduling.
    pub fn create(device: &Device, node: NodeId, private_data: Vec<u8>) -> Result<Context, Refusal> {
        let flags = ContextFlags::empty();
        let call = Call::Packet(PacketCall::CreateContext {
            device: device.handle(),
            node,
            engine_affinity: ENGINE_0,
            flags,
            private_data,
        });
        let sizes = expect_reply!(device.link().call(call)?, Reply::Context(created) => created);
        Ok(Context { owned: owned(device, sizes.context), sizes })
    }

    /// `D3DKMTRender`. Returns how many of the context's buffers are queued and not done.
    ///
    /// # Errors
    /// When commands or lists are wrong: nothing has changed. `INVALID_ALLOCATION_USAGE` when they name memory that is not on
    /// the device's list: the device is lost.
    pub fn render(
        &self,
        command: Vec<u64>,
        allocation_list: Vec<AllocationListItem>,
        patch_location_list: Vec<PatchLocationItem>,
    ) -> Result<u32, Refusal> {
        let call = Call::Packet(PacketCall::Render {
            context: self.handle(),
            command,
            allocation_list,
            patch_location_list,
            private_data: Vec::new(),
        });
        Ok(expect_reply!(self.owned.link.call(call)?, Reply::Queued(queued) => queued))
    }

    /// `D3DKMTPresent` as far as memory goes: the source's content goes to the destination.
    ///
    /// # Errors
    /// As of [`Context::render`].
    pub fn present(&self, source: &Allocation, destination: &Allocation) -> Result<u32, Refusal> {
        present(&self.owned, source, destination, Vec::new())
    }

    /// `D3DKMTPresent` with rectangles: these parts of the source's content go to the destination.
    ///
    /// # Errors
    /// As of [`Self::present`]; `INVALID_PARAMETER` for parts beyond a surface, or surfaces whose rows the driver does not know.
    pub fn present_parts(
        &self,
        source: &Allocation,
        destination: &Allocation,
        parts: Vec<BltRectangle>,
    ) -> Result<u32, Refusal> {
        present(&self.owned, source, destination, parts)
    }

    /// `D3DKMTPresent` with Flags.Flip: when everything rendered before is done, the primary is shown on its source, `interval` vertical
    /// blanks behind the flip before it; 0: at once. Returns how many flips of the device are queued; it blocks while they are more
    /// than the limit.
    ///
    /// # Errors
    /// `ACCESS_DENIED` when the source is not the device's. `INVALID_ALLOCATION_USAGE` when the primary is not on the device's list: the
    /// device is lost.
    pub fn flip(&self, primary: &Allocation, interval: u32) -> Result<u32, Refusal> {
        flip(&self.owned, primary, interval)
    }

    /// Buffers that are rendered later start only when the fence has the value.
    ///
    /// # Errors
    /// When the fence may not be waited for.
    pub fn wait(&self, fence: &Fence, value: u64) -> Result<(), Refusal> {
        wait(&self.owned, fence, value)
    }

    /// The fence gets the value when everything rendered before is done.
    ///
    /// # Errors
    /// When the fence may not be signalled.
    pub fn signal(&self, fence: &Fence, value: u64) -> Result<(), Refusal> {
        signal(&self.owned, fence, value)
    }

    /// The sizes that buffers and lists may have.
    pub fn sizes(&self) -> CreatedContext {
        self.sizes
    }

    /// Its handle.
    pub fn handle(&self) -> RawHandle {
        self.owned.handle
    }
}

impl VirtualContext {
    /// Creates a context on a node of a device.
    ///
    /// # Errors
    /// When the node has no GPU virtual addresses.
    pub fn create(device: &Device, node: NodeId, private_data: Vec<u8>) -> Result<VirtualContext, Refusal> {
        let flags = ContextFlags::empty();
        let call = Call::Packet(PacketCall::CreateContextVirtual {
            device: device.handle(),
            node,
            engine_affinity: ENGINE_0,
            flags,
            private_data,
        });
        let handle = expect_reply!(device.link().call(call)?, Reply::Handle(handle) => handle);
        Ok(VirtualContext { owned: owned(device, handle) })
    }

    /// `D3DKMTSubmitCommand`. `written_primaries`: 16 at most, each on the device's list.
    ///
    /// # Errors
    /// When an argument is wrong: nothing has changed. `INVALID_ALLOCATION_USAGE`: the device is lost.
    pub fn submit(
        &self,
        commands: GpuVa,
        command_bytes: u32,
        written_primaries: Vec<RawHandle>,
    ) -> Result<u32, Refusal> {
        let call = Call::Packet(PacketCall::SubmitCommand {
            context: self.handle(),
            commands,
            command_bytes,
            written_primaries,
            private_data: Vec::new(),
        });
        Ok(expect_reply!(self.owned.link.call(call)?, Reply::Queued(queued) => queued))
    }

    /// `D3DKMTPresent` as far as memory goes: the source's content goes to the destination. Neither needs an address of the
    /// process's own.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` when the driver has no presents for such contexts. `INVALID_ALLOCATION_USAGE` when one of them is not on the
    /// device's list: the device is lost.
    pub fn present(&self, source: &Allocation, destination: &Allocation) -> Result<u32, Refusal> {
        present(&self.owned, source, destination, Vec::new())
    }

    /// `D3DKMTPresent` with rectangles: these parts of the source's content go to the destination.
    ///
    /// # Errors
    /// As of [`Self::present`]; `INVALID_PARAMETER` for parts beyond a surface, or surfaces whose rows the driver does not know.
    pub fn present_parts(
        &self,
        source: &Allocation,
        destination: &Allocation,
        parts: Vec<BltRectangle>,
    ) -> Result<u32, Refusal> {
        present(&self.owned, source, destination, parts)
    }

    /// `D3DKMTPresent` with Flags.Flip: when everything submitted before is done, the primary is shown on its source, `interval` vertical
    /// blanks behind the flip before it; 0: at once. Returns how many flips of the device are queued; it blocks while they are more
    /// than the limit.
    ///
    /// # Errors
    /// `ACCESS_DENIED` when the source is not the device's. `INVALID_ALLOCATION_USAGE` when the primary is not on the device's list: the
    /// device is lost.
    pub fn flip(&self, primary: &Allocation, interval: u32) -> Result<u32, Refusal> {
        flip(&self.owned, primary, interval)
    }

    /// Buffers that are submitted later start only when the fence has the value.
    ///
    /// # Errors
    /// When the fence may not be waited for.
    pub fn wait(&self, fence: &Fence, value: u64) -> Result<(), Refusal> {
        wait(&self.owned, fence, value)
    }

    /// The fence gets the value when everything submitted before is done.
    ///
    /// # Errors
    /// When the fence may not be signalled.
    pub fn signal(&self, fence: &Fence, value: u64) -> Result<(), Refusal> {
        signal(&self.owned, fence, value)
    }

    /// Its handle.
    pub fn handle(&self) -> RawHandle {
        self.owned.handle
    }
}

fn owned(device: &Device, handle: RawHandle) -> Owned {
    Owned {
        link: Arc::clone(device.link()),
        handle,
        destroy: |context| Call::Packet(PacketCall::DestroyContext { context }),
    }
}

fn present(
    owned: &Owned,
    source: &Allocation,
    destination: &Allocation,
    rectangles: Vec<BltRectangle>,
) -> Result<u32, Refusal> {
    let (source, destination) = (source.handle(), destination.handle());
    let call = Call::Packet(PacketCall::Present { context: owned.handle, source, destination, rectangles });
    Ok(expect_reply!(owned.link.call(call)?, Reply::Queued(queued) => queued))
}

fn flip(owned: &Owned, primary: &Allocation, interval: u32) -> Result<u32, Refusal> {
    let call = Call::Display(DisplayCall::Flip { context: owned.handle, primary: primary.handle(), interval });
    Ok(expect_reply!(owned.link.call(call)?, Reply::Queued(queued) => queued))
}

fn wait(owned: &Owned, fence: &Fence, value: u64) -> Result<(), Refusal> {
    let points = vec![(fence.handle(), value)];
    owned
        .link
        .call(Call::Sync(SyncCall::WaitForSynchronizationObjectFromGpu { context: owned.handle, points }))
        .map(drop)
}

fn signal(owned: &Owned, fence: &Fence, value: u64) -> Result<(), Refusal> {
    let points = vec![(fence.handle(), value)];
    owned
        .link
        .call(Call::Sync(SyncCall::SignalSynchronizationObjectFromGpu { context: owned.handle, points }))
        .map(drop)
}
