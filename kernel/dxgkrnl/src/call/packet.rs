//! Calls on packet contexts: lists become numbers of allocations of the context's device, or the call is refused (memory §7.2,
//! §9.3).

use kmt_calls::{AllocationListItem, ContextFlags, CreatedContext, PacketCall, Refusal, Reply};
use vidmm::AllocationId;
use wddm_types::{AdapterIndex, Blame, BltRectangle, NodeId, NtStatus, RawHandle};

use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::number::{DeviceNumber, PacketContextNumber};
use crate::object::Object;
use crate::packet::{ListEntry, Listed, Submission, check_primaries};
use crate::refusal::{invalid, not_supported, refuse};

/// Rows of the parts of a blt at most: the driver writes commands for each.
const BLT_ROWS_MAX: u64 = 16_384;

/// The arguments of CreateContext and CreateContextVirtual.
struct Wanted {
    device: RawHandle,
    node: NodeId,
    engine_affinity: u32,
    flags: ContextFlags,
    private_data: Vec<u8>,
}

impl Turn<'_> {
    pub(super) fn on_packets(&mut self, cx: &mut Cx<'_>, call: PacketCall) -> Result<Answer, Refusal> {
        match call {
            PacketCall::CreateContext { device, node, engine_affinity, flags, private_data } => {
                let wanted = Wanted { device, node, engine_affinity, flags, private_data };
                let (index, number, context) = self.create_packet_context(cx, &wanted, false)?;
                let info = self.adapters[index].packet_sizes(number);
                let created = CreatedContext {
                    context,
                    command_buffer_bytes: info.dma_buffer_bytes,
                    allocation_list_entries: info.allocation_list_entries,
                    patch_location_list_entries: info.patch_location_list_entries,
                };
                Ok(self.answer_created(cx, index, number, Reply::Context(created)))
            }
            PacketCall::CreateContextVirtual { device, node, engine_affinity, flags, private_data } => {
                let wanted = Wanted { device, node, engine_affinity, flags, private_data };
                let (index, number, context) = self.create_packet_context(cx, &wanted, true)?;
                Ok(self.answer_created(cx, index, number, Reply::Handle(context)))
            }
            PacketCall::DestroyContext { context } => {
                let (index, number) = self.packet_context(context)?;
                self.about = Some(index);
                self.adapters[index].destroy_packet_context(cx, number);
                self.process.handles.remove(context);
                done(Reply::Done)
            }
            PacketCall::Render { context, command, allocation_list, patch_location_list, private_data } => {
                let what = Submission::Render { command, places: patch_location_list, private_data };
                self.render(cx, context, &allocation_list, what)
            }
            PacketCall::SubmitNull { context, written_primaries } => {
                let (index, number, device) = self.live_packet_context(context)?;
                self.primaries(index, device, &written_primaries)?;
                done(Reply::Queued(self.adapters[index].submit_null(cx, number)?))
            }
            PacketCall::Present { context, source, destination, rectangles } => {
                self.present(cx, context, (source, destination), rectangles)
            }
            PacketCall::SubmitCommand { context, commands, command_bytes, written_primaries, private_data } => {
                let (index, number, device) = self.live_packet_context(context)?;
                let primaries = self.primaries(index, device, &written_primaries)?;
                let adapter = &mut self.adapters[index];
                if adapter.is_null_rendering(number) {
                    return done(Reply::Queued(adapter.submit_null(cx, number)?));
                }
                done(Reply::Queued(adapter.submit_virtual(
                    cx,
                    number,
                    (commands, command_bytes),
                    private_data,
                    &primaries,
                )?))
            }
        }
    }

    /// Submits a buffer with its allocation list, which has at most as many entries as the driver asked for.
    fn render(
        &mut self,
        cx: &mut Cx<'_>,
        context: RawHandle,
        allocation_list: &[AllocationListItem],
        what: Submission,
    ) -> Result<Answer, Refusal> {
        let (index, number, device) = self.live_packet_context(context)?;
        if self.adapters[index].is_null_rendering(number) {
            return done(Reply::Queued(self.adapters[index].submit_null(cx, number)?));
        }
        let room = self.adapters[index].packet_sizes(number).allocation_list_entries;
        if allocation_list.len() > room as usize {
            return Err(invalid(format!("an allocation list of {}; at most {room}", allocation_list.len())));
        }
        let entries = self.list_entries(index, device, allocation_list)?;
        self.adapters[index].submit_listed(cx, self.token, number, entries, what)
    }

    /// Copies a picture to another allocation.
    fn present(
        &mut self,
        cx: &mut Cx<'_>,
        context: RawHandle,
        (source, destination): (RawHandle, RawHandle),
        rectangles: Vec<BltRectangle>,
    ) -> Result<Answer, Refusal> {
        check_rectangles(&rectangles)?;
        // spec: sync §3.17, presentation stays on packets that the kernel submits
        if matches!(self.process.handles.get(context), Some(Object::Context(..))) {
            return Err(not_supported("presents on hardware queues (DxgkDdiPresentToHwQueue)"));
        }
        let (index, number, device) = self.live_packet_context(context)?;
        let source = self.listed_allocation(index, device, source)?;
        let destination = self.listed_allocation(index, device, destination)?;
        self.adapters[index].may_write(destination.number)?;
        let entries = vec![
            ListEntry::default(),
            ListEntry { allocation: Some(source), ..ListEntry::default() },
            ListEntry { allocation: Some(destination), write: true, ..ListEntry::default() },
        ];
        self.adapters[index].submit_listed(cx, self.token, number, entries, Submission::Present { rectangles })
    }

    /// The written primaries of a submission, to a packet context or to a hardware queue.
    // spec: memory §5.6, memory §10.1
    pub(super) fn primaries(
        &self,
        index: AdapterIndex,
        device: DeviceNumber,
        list: &[RawHandle],
    ) -> Result<Vec<AllocationId>, Refusal> {
        check_primaries(list.len())?;
        let written = |handle: &RawHandle| {
            let listed = self.listed_allocation(index, device, *handle)?;
            self.adapters[index].may_write(listed.number).map(|()| listed.instance)
        };
        list.iter().map(written).collect()
    }

    fn create_packet_context(
        &mut self,
        cx: &mut Cx<'_>,
        wanted: &Wanted,
        addresses: bool,
    ) -> Result<(AdapterIndex, PacketContextNumber, RawHandle), Refusal> {
        let (index, device) = self.live_device(wanted.device)?;
        let Wanted { node, engine_affinity, flags, private_data, .. } = wanted;
        let adapter = &mut self.adapters[index];
        let number =
            adapter.create_packet_context(cx, device, *node, *engine_affinity, *flags, addresses, private_data)?;
        match self.name(Object::PacketContext(index, number)) {
            Ok(handle) => Ok((index, number, handle)),
            Err(refusal) => {
                self.adapters[index].destroy_packet_context(cx, number);
                Err(refusal)
            }
        }
    }

    /// Answers a creation when the driver's allocations for the context are there, so before the caller can use it.
    // spec: memory §7.5
    fn answer_created(
        &mut self,
        cx: &mut Cx<'_>,
        index: AdapterIndex,
        number: PacketContextNumber,
        reply: Reply,
    ) -> Answer {
        let adapter = &mut self.adapters[index];
        match adapter.has_packet_allocations(number) {
            true => adapter.after_ring(cx, self.token, reply),
            false => Answer::Done(Ok(reply)),
        }
    }

    fn packet_context(&self, handle: RawHandle) -> Result<(AdapterIndex, PacketContextNumber), Refusal> {
        match self.process.handles.get(handle) {
            Some(Object::PacketContext(adapter, number)) => Ok((*adapter, *number)),
            _ => Err(invalid(format!("{handle} is no packet context of this process"))),
        }
    }

    pub(super) fn live_packet_context(
        &mut self,
        handle: RawHandle,
    ) -> Result<(AdapterIndex, PacketContextNumber, DeviceNumber), Refusal> {
        let (index, number) = self.packet_context(handle)?;
        let device = self.adapters[index].device_of_packets(number);
        self.alive(index, device)?;
        Ok((index, number, device))
    }

    // spec: memory §7.2
    fn list_entries(
        &self,
        index: AdapterIndex,
        device: DeviceNumber,
        list: &[AllocationListItem],
    ) -> Result<Vec<ListEntry>, Refusal> {
        list.iter()
            .map(|item| {
                let named = item.allocation != RawHandle::NONE;
                let allocation = named.then(|| self.listed_allocation(index, device, item.allocation)).transpose()?;
                let entry = ListEntry::new(allocation, item.flags)?;
                if let Some(listed) = allocation.filter(|_| entry.write) {
                    self.adapters[index].may_write(listed.number)?;
                }
                Ok(entry)
            })
            .collect()
    }

    /// An allocation in a list: of the list's device.
    // spec: memory §9.3
    pub(super) fn listed_allocation(
        &self,
        index: AdapterIndex,
        device: DeviceNumber,
        handle: RawHandle,
    ) -> Result<Listed, Refusal> {
        let number = self.allocation(index, handle)?;
        if self.adapters[index].device_of_allocation(number) == device {
            return self.instance(index, number, handle);
        }
        let wrong = NtStatus::GRAPHICS_WRONG_ALLOCATION_DEVICE;
        Err(refuse(wrong, Blame::Caller, "a list names an allocation of another device"))
    }
}

/// Parts have texels, and not too many rows.
fn check_rectangles(rectangles: &[BltRectangle]) -> Result<(), Refusal> {
    if let Some(empty) = rectangles.iter().find(|part| part.width == 0 || part.height == 0) {
        return Err(invalid(format!("a part of a blt with {} by {} texels", empty.width, empty.height)));
    }
    match rectangles.iter().map(|part| u64::from(part.height)).sum::<u64>() {
        rows if rows > BLT_ROWS_MAX => {
            Err(invalid(format!("parts of a blt with {rows} rows, and {BLT_ROWS_MAX} is the most; give fewer")))
        }
        _ => Ok(()),
    }
}
