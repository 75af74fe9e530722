//! Present (memory §5.7): the list carries its parameters, and no residency. In a context that is patched it goes the way of Render. In a
//! context with addresses the driver is told where source and destination lie in the process's space, and its DMA buffer is a page of the
//! kernel's that is shown there read-only; both mappings are the kernel's own, so no process moves them under the buffer.

use ddi::{AllocationListEntry, SubmitFlags};
use kmt_calls::Refusal;
use wddm_types::{BltRectangle, GpuVa};

use crate::adapter::Adapter;
use crate::effect::Cx;
use crate::gpu_va::from_map;
use crate::number::{DeviceNumber, PacketContextNumber};
use crate::packet::{Built, ListEntry, Listed, Presented, Source, Work};
use crate::refusal::not_supported;

impl Adapter {
    /// `D3DKMTPresent` as far as memory goes: the list carries source and destination.
    // spec: memory §5.7
    pub fn present(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        entries: &[ListEntry],
        rectangles: &[BltRectangle],
    ) -> Result<u32, Refusal> {
        if self.packets[context].addresses {
            self.present_by_address(cx, context, entries, rectangles)
        } else {
            self.queue_patched(cx, context, entries, &Source::Present { rectangles }, SubmitFlags::PRESENT)
        }
    }

    // spec: memory §5.7, memory §7.2
    fn present_by_address(
        &mut self,
        cx: &mut Cx<'_>,
        context: PacketContextNumber,
        entries: &[ListEntry],
        rectangles: &[BltRectangle],
    ) -> Result<u32, Refusal> {
        if self.packets[context].info.dma_buffer_bytes == 0 {
            return Err(not_supported("the driver writes no DMA buffers for contexts with addresses"));
        }
        let (device, owner) = self.owner_of(context);
        let (mut serial, mut uses) = (0, Vec::new());
        for (allocation, write) in entries.iter().filter_map(|entry| Some((entry.allocation?.instance, entry.write))) {
            match self.vidmm.reference_by_address(owner, allocation) {
                Ok(reference) => serial = serial.max(reference.serial),
                Err(error) => return Err(self.reject(cx, context, device, error.to_string())),
            }
            uses.push((allocation, write));
        }
        self.check_views(self.owners.space_of(self.owners.process_of(device)), entries)?;
        let list = entries.iter().map(|entry| self.listed_by_address(cx, device, entry));
        let list = list.collect::<Result<Vec<_>, _>>()?;
        let built = self.write_dma_buffers(cx, context, &list, &Source::Present { rectangles })?;
        // A destination that is displayed is left alone until its flip.
        let primaries: Vec<_> =
            entries.iter().filter(|entry| entry.write).filter_map(|entry| Some(entry.allocation?.instance)).collect();
        let views = self.packets.views_mapped_at(self.owners.process_of(device));
        let work = |Built { buffer, written, .. }| {
            let place = self.packets.buffer_place(context, buffer);
            let shown_after = place.shown_after.max(views);
            // CAST: a DMA buffer is far below 4 GiB.
            let (commands, bytes) = (place.va, written as u32 * 8);
            let presented = Some(Presented { buffer, uses: uses.clone(), serial, shown_after });
            (
                buffer,
                Work::Virtual { commands, bytes, private_data: Vec::new(), primaries: primaries.clone(), presented },
            )
        };
        let works = built.into_iter().map(work).collect();
        self.queue_built(cx, context, works, uses)
    }

    /// An entry with the address at which the kernel has all of its allocation in the process's space.
    fn listed_by_address(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        entry: &ListEntry,
    ) -> Result<AllocationListEntry, Refusal> {
        let Some(Listed { number, instance: allocation }) = entry.allocation else {
            return Ok(AllocationListEntry::default());
        };
        let kmd = self.memory.allocations[number].open;
        Ok(AllocationListEntry {
            allocation: Some(kmd),
            write_operation: entry.write,
            virtual_address: self.view_of(cx, device, allocation, entry.write)?,
            ..AllocationListEntry::default()
        })
    }

    /// Looks at all entries before the first is mapped: a refused call maps none.
    // spec: memory §4.11
    fn check_views(&self, space: vidmm::SpaceId, entries: &[ListEntry]) -> Result<(), Refusal> {
        let listed = entries.iter().filter_map(|entry| Some((entry.allocation?.instance, entry.write)));
        for (allocation, write) in listed {
            self.vidmm.check_whole_view(space, allocation, write).map_err(|error| from_map(&error))?;
        }
        Ok(())
    }

    fn view_of(
        &mut self,
        cx: &mut Cx<'_>,
        device: DeviceNumber,
        allocation: vidmm::AllocationId,
        write: bool,
    ) -> Result<GpuVa, Refusal> {
        let process = self.owners.process_of(device);
        let space = self.owners.space_of(process);
        if let Some(view) = self.vidmm.whole_view(space, allocation, write) {
            return Ok(view);
        }
        let view = self.map_for_kernel(cx, space, self.vidmm.whole_request(allocation, write))?;
        let mapped_at = self.memory.ring.queued();
        self.packets.view_mapped(process, mapped_at);
        Ok(view)
    }
}
