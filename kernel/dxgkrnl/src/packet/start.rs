//! From a context's queue to the driver (memory §7.4): patching, and the submission. `adapter::packets::schedule` says when.

use std::ops::Range;

use ddi::{DriverStatus, Patch, SubmitCommand, SubmitCommandVirtual, SubmitFlags};
use vidmm::AllocationId;
use vidsch::{PacketFenceId, Powered};

use super::list::driver_list;
use super::work::{Packet, Portion, Work};
use super::{DmaBufferNumber, Packets};
use crate::driver::Driver;
use crate::due::Verdict;
use crate::effect::Cx;
use crate::number::{PacketContextNumber, PacketNumber};
use crate::store::ObjectNumber;

/// A packet, or its next part, on its way to the driver.
pub struct Starting {
    pub(super) context: PacketContextNumber,
    pub(super) packet: Packet,
    pub(super) portion: Option<Portion>,
}

/// Why a packet was not handed over.
pub enum Refused {
    /// It names memory that has no place. Its buffer is free.
    Away(DmaBufferNumber),
    /// The driver did not patch it, or did not take it. The consequence, unless a fault explains that.
    ByDriver(Verdict),
}

/// The driver did not patch a packet: bug check 0x119, parameter 3.
fn patch_failed(status: DriverStatus) -> Refused {
    Refused::ByDriver(Verdict::Stop(format!("Patch failed: {status}")))
}

/// The driver did not take a packet: bug check 0x119, parameter 2.
fn submit_failed(status: DriverStatus) -> Refused {
    Refused::ByDriver(Verdict::Stop(format!("SubmitCommand failed: {status}")))
}

/// The driver did not take commands in a context's space. The process has chosen them.
fn virtual_failed(context: PacketContextNumber, status: DriverStatus) -> Refused {
    let DriverStatus::InvalidParameter(reason) = status else { return submit_failed(status) };
    let reason = format!("context {}: the driver refused a submission: {reason}", context.raw());
    Refused::ByDriver(Verdict::Lose(reason))
}

impl Starting {
    /// Its context.
    pub fn context(&self) -> PacketContextNumber {
        self.context
    }

    /// The packet's number.
    pub fn number(&self) -> PacketNumber {
        self.packet.number
    }

    /// For the scheduler a packet starts with its last portion: packets behind it wait for that.
    pub fn is_last(&self) -> bool {
        self.portion.as_ref().is_none_or(|portion| portion.number.is_none())
    }

    /// Whether nothing of the packet was handed over before.
    pub fn is_first(&self) -> bool {
        self.portion.as_ref().is_none_or(|portion| portion.bytes.start == 0)
    }

    /// The bytes of a packet that runs in parts; `None`: it runs as a whole.
    pub fn part(&self) -> Option<Range<u32>> {
        let portion = self.portion.as_ref().filter(|portion| !self.is_last() || portion.bytes.start > 0);
        portion.map(|portion| portion.bytes.clone())
    }

    /// The allocations that it uses, and whether it writes them.
    pub fn uses(&self) -> Vec<(AllocationId, bool)> {
        match &self.packet.work {
            Work::Patched { entries, .. } => {
                let here = |at: usize| self.portion.as_ref().is_none_or(|portion| portion.needs[at].is_some());
                let named = entries.iter().enumerate().filter(|(at, _)| here(*at));
                named.filter_map(|(_, bound)| bound.vidmm.map(|id| (id, bound.write))).collect()
            }
            Work::Virtual { presented, .. } => {
                presented.iter().flat_map(|presented| presented.uses.iter().copied()).collect()
            }
        }
    }
}

impl Packets {
    /// Takes a context's next packet, or its next part, which may start.
    pub fn take_next(&mut self, context: PacketContextNumber) -> Starting {
        let queued = &mut self.contexts[context].queued;
        let mut packet = queued.pop_front().expect("a packet that may start is queued");
        let portion = match &mut packet.work {
            Work::Patched { portions, .. } => portions.pop_front(),
            Work::Virtual { .. } => None,
        };
        Starting { context, packet, portion }
    }

    /// The driver has not taken a packet, or a part of one: it is in front of its queue again.
    pub fn was_refused(&mut self, starting: Starting) {
        let Starting { context, mut packet, portion } = starting;
        if let (Some(portion), Work::Patched { portions, .. }) = (portion, &mut packet.work) {
            portions.push_front(portion);
        }
        self.contexts[context].queued.push_front(packet);
    }

    /// Hands a packet, or a part of one, to the driver under an id. Says whether it was patched.
    ///
    /// # Errors
    /// The refusal; nothing is handed over then.
    // spec: memory §7.4
    pub fn hand_over(
        &mut self,
        driver: &mut Driver,
        cx: &Cx<'_>,
        id: PacketFenceId,
        starting: &mut Starting,
        powered: Powered,
    ) -> Result<bool, Refused> {
        debug_assert_eq!(powered.node(), self.contexts[starting.context].facts.node, "another engine was raised");
        let came_back = starting.portion.as_ref().map_or(starting.packet.preempted, |portion| portion.preempted);
        let mut again = SubmitFlags::empty();
        again.set(SubmitFlags::RESUBMISSION, came_back);
        match &starting.packet.work {
            Work::Patched { .. } => self.submit_patched(driver, cx, id, starting, again),
            Work::Virtual { .. } => self.submit_virtual(driver, cx, id, starting, again),
        }
    }

    /// Patches a DMA buffer if an address was unknown or has changed, and submits it. Says whether it was patched.
    // spec: memory §7.4, memory §10.1
    fn submit_patched(
        &mut self,
        driver: &mut Driver,
        cx: &Cx<'_>,
        PacketFenceId(fence_id): PacketFenceId,
        starting: &mut Starting,
        again: SubmitFlags,
    ) -> Result<bool, Refused> {
        let (context, portion) = (starting.context, starting.portion.as_ref());
        let Work::Patched { buffer, written, entries, places, flags, .. } = &mut starting.packet.work else {
            unreachable!("a DMA buffer")
        };
        let (buffer, written, flags) = (*buffer, *written, *flags | again);
        let lost = entries.iter().any(|bound| bound.vidmm.is_some() && bound.bindings.now.place.is_none());
        if lost && portion.is_none() {
            return Err(Refused::Away(buffer));
        }
        let changed = match portion {
            None => entries.iter().any(|bound| bound.bindings.now.place != bound.written),
            Some(portion) => portion.needs.iter().flatten().any(|needed| needed.bindings.now.place != needed.written),
        };
        debug_assert!(written > 0, "a DMA buffer holds something: {buffer:?}");
        let allocation_list = driver_list(entries, portion);
        // CAST: a DMA buffer is far below 4 GiB, and a list below 2^32 entries.
        let bytes = portion.map_or(0..written as u32 * 8, |portion| portion.bytes.clone());
        let listed = portion.map_or(0..places.len(), |portion| portion.places.clone());
        let known = &mut self.contexts[context];
        let kmd = known.facts.kmd;
        let found = known.buffers.iter_mut().find(|known| known.number == buffer).expect("a buffer in use");
        if changed {
            let mut patch = Patch {
                context: kmd,
                words: &mut found.words[..written],
                private_data: &mut found.private_data,
                allocation_list: &allocation_list,
                patch_locations: places,
                submission_start: listed.start as u32,
                submission_length: listed.len() as u32,
                start_offset: bytes.start,
                end_offset: bytes.end,
                fence_id,
                flags,
            };
            let driver = driver.call(cx).packet_scheduling().expect("it made this context");
            driver.patch(&mut patch).map_err(patch_failed)?;
            // It may come back, and is patched again only if something has moved since. The places of other portions keep their content.
            match &mut starting.portion {
                Some(portion) => {
                    portion.needs.iter_mut().flatten().for_each(|needed| needed.written = needed.bindings.now.place);
                }
                None => entries.iter_mut().for_each(|bound| bound.written = bound.bindings.now.place),
            }
        }
        self.store_buffer(cx.memory, context, buffer, bytes.start as usize / 8..bytes.end.div_ceil(8) as usize);
        let found = self.dma_buffer(context, buffer);
        let submit = SubmitCommand {
            context: kmd,
            dma_buffer_segment: found.place.told.0,
            dma_buffer_physical_address: found.place.told.1,
            start_offset: bytes.start,
            end_offset: bytes.end,
            private_data: &found.private_data,
            fence_id,
            flags,
        };
        let driver = driver.call(cx).packet_scheduling().expect("it made this context");
        driver.submit_command(submit).map(|()| changed).map_err(submit_failed)
    }

    /// Submits commands in the context's space: a user's, or what the driver has written.
    // spec: memory §7.4
    fn submit_virtual(
        &self,
        driver: &mut Driver,
        cx: &Cx<'_>,
        PacketFenceId(fence_id): PacketFenceId,
        starting: &Starting,
        again: SubmitFlags,
    ) -> Result<bool, Refused> {
        let Work::Virtual { commands, bytes, private_data: users, presented, .. } = &starting.packet.work else {
            unreachable!("commands in the context's space")
        };
        let (context, dma_buffer, dma_buffer_bytes) = (starting.context, *commands, *bytes);
        let (mut flags, mut private_data) = (again, users.as_slice());
        if let Some(presented) = presented {
            self.store_buffer(cx.memory, context, presented.buffer, 0..dma_buffer_bytes as usize / 8);
            flags |= SubmitFlags::PRESENT;
            private_data = &self.dma_buffer(context, presented.buffer).private_data;
        }
        let submit = SubmitCommandVirtual {
            context: self[context].kmd,
            dma_buffer,
            dma_buffer_bytes,
            private_data,
            // CAST: no more than the driver said in 32 bits.
            user_data_bytes: users.len() as u32,
            fence_id,
            flags,
        };
        let driver = driver.call(cx).packet_scheduling().expect("it made this context");
        let submitted = driver.submit_command_virtual(submit);
        submitted.map(|()| false).map_err(|status| virtual_failed(context, status))
    }
}
