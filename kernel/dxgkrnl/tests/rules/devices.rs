//! DMA buffers that a driver may want for a device: the kernel's own is the first that it is asked for.

use wddm_types::SegmentSet;

use super::*;

#[test]
fn a_device_has_its_dma_buffers_in_apertures_or_in_contiguous_memory() {
    // spec: memory §7.1, memory §1.13
    // seed: M52, M54
    let sound = DeviceInfo {
        dma_buffer_bytes: 4096,
        allocation_list_entries: 16,
        patch_location_list_entries: 16,
        ..DeviceInfo::default()
    };
    let wants = |device_info| Answers { device_info, ..Answers::default() };
    let set = |id| SegmentSet::only(SegmentId(id));
    let both = set(1).with(set(2));
    let broken = [
        (DeviceInfo { dma_buffer_segment_set: set(1), ..sound }, "names a memory segment"),
        (DeviceInfo { dma_buffer_segment_set: both, ..sound }, "names a memory segment"),
        (DeviceInfo { dma_buffer_segment_set: set(1), ..DeviceInfo::default() }, "names a memory segment"),
        (DeviceInfo { dma_buffer_segment_set: set(3), ..sound }, "names a segment that there is not"),
        (DeviceInfo { dma_buffer_bytes: 4, ..sound }, "sizes of DMA buffers"),
        (DeviceInfo { dma_buffer_bytes: 4097, ..sound }, "sizes of DMA buffers"),
        (DeviceInfo { dma_buffer_bytes: !7, ..sound }, "sizes of DMA buffers"),
        (DeviceInfo { dma_buffer_private_data_bytes: u32::MAX, ..sound }, "sizes of DMA buffers"),
        (DeviceInfo { allocation_list_entries: 0, ..sound }, "sizes of DMA buffers"),
        (DeviceInfo { patch_location_list_entries: u32::MAX, ..sound }, "sizes of DMA buffers"),
    ];
    for (info, rule) in broken {
        expect_error(wants(info), rule);
    }
    for info in [sound, DeviceInfo { dma_buffer_segment_set: set(2), ..sound }, DeviceInfo::default()] {
        start(wants(info), vec![]).0.expect("it keeps the rules");
    }
}
