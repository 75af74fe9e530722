//! A process of these worlds, and its devices.

use std::sync::Arc;

use d3dkmt::{Fence, NativeFenceRequest, NtHandle, OpenSyncObjectRequest};
use dxgk_host::{Host, Pending, ProcessLink};
use kmt_calls::{Call, Refusal, Reply, SyncCall, WaitFlags};
use kmt_link::Link;
use softgpu_umd::{Gpu, Stream, StreamConfig, UmdError};
use wddm_types::{NodeId, RawHandle};

use super::DEVICES;
use crate::world::Broken;

/// A device with a queue that its process feeds.
pub(super) struct Device {
    pub stream: Stream,
    /// It has no waiter.
    pub noise: Fence,
    pub noise_value: u64,
    pub gpu: Gpu,
}

/// A process.
pub(super) struct Process {
    pub devices: Vec<Device>,
    /// It waits for this one to have the driver tell what it has kept.
    pub bell: Fence,
    link: Arc<ProcessLink>,
}

impl Process {
    pub fn new(host: &Arc<Host>) -> Result<Process, Broken> {
        let link = ProcessLink::new(Arc::clone(host));
        let devices = (0..DEVICES).map(|_| Device::new(&link)).collect::<Result<Vec<_>, _>>()?;
        let bell = devices[0].gpu.device().create_native_fence(NativeFenceRequest::default()).map_err(refused)?;
        Ok(Process { devices, bell, link })
    }

    pub fn open(&self, device: usize, name: &NtHandle) -> Result<Fence, Broken> {
        let request = OpenSyncObjectRequest { handle: name.token(), ..OpenSyncObjectRequest::default() };
        self.devices[device].gpu.device().open_native_fence(request).map_err(refused)
    }

    pub fn begin_wait(
        &self,
        host: &Host,
        device: usize,
        fence: &Fence,
        value: u64,
    ) -> Result<Result<Reply, Refusal>, Pending> {
        let call = Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu {
            device: self.devices[device].gpu.device().handle(),
            points: vec![(fence.handle(), value)],
            async_event: RawHandle::NONE,
            flags: WaitFlags::empty(),
        });
        host.begin_call(self.link.process(), call)
    }
}

impl Device {
    fn new(link: &Arc<ProcessLink>) -> Result<Device, Broken> {
        let gpu = Gpu::open(Arc::clone(link) as Arc<dyn Link>).map_err(failed)?;
        let stream = Stream::create(&gpu, NodeId(0), StreamConfig::default()).map_err(failed)?;
        let noise = gpu.device().create_native_fence(NativeFenceRequest::default()).map_err(refused)?;
        Ok(Device { stream, noise, noise_value: 0, gpu })
    }
}

/// A call that was to succeed did not.
pub(super) fn refused(refusal: Refusal) -> Broken {
    ("answers", format!("a well-behaved call was refused: {refusal}"))
}

/// The same of a submission.
pub(super) fn failed(error: UmdError) -> Broken {
    ("answers", format!("a well-behaved submission failed: {error}"))
}
