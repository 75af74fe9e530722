//! The name of each call, for traces and refusals.

use crate::call::Call;

impl Call {
    /// The name of the `D3DKMT` function, without its prefix.
    pub const fn name(&self) -> &'static str {
        match self {
            Call::Adapter(call) => call.name(),
            Call::Device(call) => call.name(),
            Call::Allocation(call) => call.name(),
            Call::Property(call) => call.name(),
            Call::GpuVa(call) => call.name(),
            Call::Residency(call) => call.name(),
            Call::Lock(call) => call.name(),
            Call::Share(call) => call.name(),
            Call::Event(call) => call.name(),
            Call::Notification(call) => call.name(),
            Call::Section(call) => call.name(),
            Call::Queue(call) => call.name(),
            Call::Packet(call) => call.name(),
            Call::Priority(call) => call.name(),
            Call::Display(call) => call.name(),
            Call::Sync(call) => call.name(),
            Call::Statistics(call) => call.name(),
            Call::KeyedMutex(call) => call.name(),
            Call::Escape(_) => "Escape",
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{SignalFlags, SyncCall, SyncObjectKind, SyncObjectRequest, WaitFlags};
    use wddm_types::RawHandle;

    #[test]
    fn calls_on_synchronization_objects_bear_the_names_of_the_header() {
        // spec: sync §2.2, sync §2.4
        let (device, context, event) = (RawHandle(1), RawHandle(2), RawHandle::NONE);
        let (points, flags) = (Vec::new(), SignalFlags::empty());
        let kind = SyncObjectKind::MonitoredFence { initial_value: 0, engine_affinity: 0 };
        let request = SyncObjectRequest { kind, flags: Default::default() };
        let calls = [
            SyncCall::CreateSynchronizationObject2 { device, request },
            SyncCall::WaitForSynchronizationObjectFromCpu {
                device,
                points: Vec::new(),
                async_event: event,
                flags: WaitFlags::empty(),
            },
            SyncCall::SignalSynchronizationObjectFromCpu { device, points: Vec::new(), flags },
            SyncCall::WaitForSynchronizationObjectFromGpu { context, points: Vec::new() },
            SyncCall::SignalSynchronizationObjectFromGpu { context, points: Vec::new() },
            SyncCall::SignalSynchronizationObjectFromGpu2 { contexts: Vec::new(), points, event, flags },
            SyncCall::WaitForSynchronizationObject2 { context, objects: Vec::new(), fence_value: 0 },
        ];
        for call in calls {
            // The variant's name is the function's.
            let variant = format!("{call:?}");
            assert_eq!(variant.split_whitespace().next(), Some(call.name()));
        }
    }
}
