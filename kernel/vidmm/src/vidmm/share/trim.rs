//! TrimResidency: which devices to ask to shrink, and when (memory §5.4). It only asks; the client answers with Evict.
//! Called by the kernel from its timer. The cadence is policy: no document gives one (memory §10.3).
//!
//! - TrimToBudget goes to the devices of a process over its budget, those with the longest lists first, and again after
//!   a pause while it stays over.
//! - PeriodicTrim goes to every device with a list, once per period in which content was evicted for room or a request
//!   was refused. Without pressure VidMm sends no request.
//! - RestartPeriodicTrim goes, instead of the next PeriodicTrim, to a device that was suspended meanwhile: content that
//!   it could not use for lack of a turn does not count as unused.

use crate::slab::{DeviceId, SpaceId};
use crate::vidmm::VidMm;

/// `D3DDDI_TRIMRESIDENCYSET_FLAGS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimFlags {
    /// Evict what was not used since the last periodic trim.
    pub periodic: bool,
    /// Only note the time of a periodic trim; never with `periodic`.
    pub restart_periodic: bool,
    /// Evict at least the bytes.
    pub to_budget: bool,
}

/// One callback to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimRequest {
    /// The device that the kernel asks.
    pub device: DeviceId,
    /// The kind of the request.
    pub flags: TrimFlags,
    /// `NumBytesToTrim`; 0 without `to_budget`.
    pub bytes: u64,
}

impl<F: Copy + Eq> VidMm<F> {
    /// The trim callbacks that are due.
    // spec: memory §5.4
    pub fn trim_requests(&mut self, now_ns: u64) -> Vec<TrimRequest> {
        self.set_time(now_ns);
        let mut requests = self.budget_trims();
        if self.pressure.begins_period(self.clock.now_ns(), self.policy.trim_period_ns) {
            let devices: Vec<DeviceId> = self.devices.iter().map(|(device, _)| device).collect();
            for device in devices {
                self.periodic_trim(device, &mut requests);
            }
        }
        requests
    }

    /// Whether a trim may become due without another call: whether the kernel's timer is needed.
    pub fn trim_pending(&self) -> bool {
        self.pressure.is_felt() || self.processes.any_over_budget()
    }

    fn periodic_trim(&mut self, device: DeviceId, requests: &mut Vec<TrimRequest>) {
        let known = &self.devices[device];
        if known.is_suspended() || !known.lists_any() {
            return;
        }
        let restart = self.devices.take_restart_trim(device);
        let flags = TrimFlags { periodic: !restart, restart_periodic: restart, to_budget: false };
        match requests.iter_mut().find(|request| request.device == device) {
            Some(request) => {
                request.flags = TrimFlags { to_budget: true, ..flags };
            }
            None => requests.push(TrimRequest { device, flags, bytes: 0 }),
        }
    }

    fn budget_trims(&mut self) -> Vec<TrimRequest> {
        let mut requests = Vec::new();
        let over = self.processes.spaces().map(|space| (space, self.bytes_over_budget(space))).collect();
        for (space, over) in self.processes.due_trims(over, self.clock.now_ns(), &self.policy) {
            self.ask(space, over, &mut requests);
        }
        requests
    }

    /// Spreads what a process is to trim over its devices.
    fn ask(&self, space: SpaceId, over: u64, requests: &mut Vec<TrimRequest>) {
        let length = |device: DeviceId| self.listed_bytes(device);
        let mut devices: Vec<DeviceId> = self.processes.devices(space).collect();
        devices.sort_by_key(|&device| (std::cmp::Reverse(length(device)), device));
        let mut left = over;
        for device in devices {
            let bytes = left.min(length(device));
            if bytes == 0 {
                break;
            }
            let flags = TrimFlags { to_budget: true, ..TrimFlags::default() };
            requests.push(TrimRequest { device, flags, bytes });
            left -= bytes;
        }
        debug_assert_eq!(left, 0, "{space:?} is to trim {over} bytes, and its devices list fewer");
    }

    /// Bytes on a device's list that count for a budget.
    fn listed_bytes(&self, device: DeviceId) -> u64 {
        let charged = |id: &crate::AllocationId| self.allocations[*id].charged.is_some();
        self.devices[device].list().filter(charged).map(|id| self.allocation_bytes(id)).sum()
    }
}
