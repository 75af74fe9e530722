//! A display that the life owns, with flips in its queue.

use d3dkmt::Fence;
use kmt_calls::{Call, DisplayCall};
use softgpu_umd::{Gpu, KernelFedStream, Surface, UmdError};
use wddm_types::NodeId;

use super::{CONFIG, SOURCE};

/// A mode of the source.
const MODE: (u16, u16) = (32, 8);

/// What stays until the life ends.
pub struct Screen {
    packets: KernelFedStream,
    _hardware: KernelFedStream,
    primaries: [Surface; 2],
}

pub fn live(gpu: &Gpu, never: &Fence) -> Result<Screen, UmdError> {
    let (device, link) = (gpu.device(), gpu.device().link());
    let primaries = [gpu.create_primary(SOURCE, MODE.0, MODE.1)?, gpu.create_primary(SOURCE, MODE.0, MODE.1)?];
    for primary in &primaries {
        gpu.pin(primary)?;
    }
    device.own_sources(&[SOURCE])?;
    link.call(Call::Display(DisplayCall::ReleaseProcessVidPnSourceOwners))?;
    device.own_sources(&[SOURCE])?;
    device.set_display_mode(primaries[0].allocation())?;
    device.set_queued_limit(1)?;
    let hardware = KernelFedStream::hardware(gpu, NodeId(0), CONFIG)?;
    hardware.flip(primaries[1].allocation(), 0)?;
    let mut packets = KernelFedStream::packets(gpu, NodeId(0), CONFIG)?;
    // The flip is one that waits until the life ends, and the queue of flips is full.
    packets.wait_on_gpu(gpu, never, 1)?;
    packets.flip(primaries[0].allocation(), 1)?;
    Ok(Screen { packets, _hardware: hardware, primaries })
}

impl Screen {
    /// One more than the queue has room for.
    pub fn flip_beyond_the_limit(&self) -> Result<(), UmdError> {
        Ok(self.packets.flip(self.primaries[1].allocation(), 1).map(drop)?)
    }
}
