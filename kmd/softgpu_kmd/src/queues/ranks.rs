//! Scheduling ranks of contexts for the device: bands and ranks are registers, a process is a group (sync §2.5, §4.2).

use ddi::{DriverStatus, KmdContext, SCHEDULING_UNIT_NS, SetContextSchedulingProperties, SetupPriorityBands};
use softgpu_spec::register::{self, queue_control, queue_rank};

use crate::driver::SoftGpuKmd;
use crate::queues::QueueStage;

/// In-process priorities as the device counts them begin here.
const PRIORITY_MIN: i32 = -7;
/// The group of contexts without scheduling properties: no process has this number.
const NO_GROUP: u32 = u32::MAX;
/// How long queues of that group keep an engine beside each other.
const QUANTUM_NS: u64 = 1_000_000;

/// A queue's rank registers, in the order of their addresses.
pub(crate) type RankRegisters = [u64; 4];

/// The rank of packet rings, because the kernel orders packets, and of contexts without scheduling properties.
pub(crate) const ORDINARY: RankRegisters = [queue_rank::encode(1, 0, 7, NO_GROUP), QUANTUM_NS, 0, 0];

impl SoftGpuKmd {
    // spec: sync §2.5
    pub(crate) fn setup_bands(&mut self, setup: SetupPriorityBands) -> Result<(), DriverStatus> {
        if setup.target_normal_band_percentage > 50 {
            return Err(DriverStatus::InvalidParameter("more than half for the normal band"));
        }
        for band in 0..4 {
            self.port.write_register(register::BAND_SELECT, band as u64);
            for (register, units) in [
                (register::BAND_GRACE, setup.grace_period_for_band[band]),
                (register::BAND_QUANTUM, setup.process_quantum_for_band[band]),
                (register::BAND_GROUP_GRACE, setup.process_grace_period_for_band[band]),
            ] {
                self.port.write_register(register, units.saturating_mul(SCHEDULING_UNIT_NS));
            }
        }
        self.port.write_register(register::NORMAL_PERCENT, u64::from(setup.target_normal_band_percentage));
        Ok(())
    }

    // spec: sync §2.5, sync §4.2
    pub(crate) fn set_rank(&mut self, set: SetContextSchedulingProperties) -> Result<(), DriverStatus> {
        let no_context = DriverStatus::InvalidParameter("no such hardware context");
        let device = self.contexts.get(set.context.0).ok_or(no_context)?.device;
        let priority = u8::try_from(set.in_process_priority.saturating_sub(PRIORITY_MIN));
        let level = u8::try_from(set.realtime_band_priority_level);
        let (Ok(priority @ 0..=14), Ok(level @ 0..=31)) = (priority, level) else {
            return Err(DriverStatus::InvalidParameter("a priority that there is not"));
        };
        let Ok(weight @ 1..) = u8::try_from(set.process_weight) else {
            return Err(DriverStatus::InvalidParameter("a weight that there is not"));
        };
        // CAST: processes are counted from 1, and a device has not 2^32 of them at once.
        let group = self.devices.get(device.0).expect("a device outlives its contexts").process.0 as u32;
        let ns = |units: u64| units.saturating_mul(SCHEDULING_UNIT_NS);
        let rank = [
            queue_rank::weighted(queue_rank::encode(set.priority_band as u64, level, priority, group), weight),
            ns(set.quantum),
            ns(set.grace_period_same_priority),
            ns(set.grace_period_lower_priority),
        ];
        self.contexts.get_mut(set.context.0).expect("looked up above").rank = rank;
        let runs = |queue: &crate::queues::Queue| queue.context == set.context && queue.state == QueueStage::Enabled;
        let queues = self.queues.handles.iter().filter(|(_, queue)| runs(queue));
        for index in queues.map(|(_, queue)| queue.index).collect::<Vec<_>>() {
            self.port.write_register(register::QUEUE_SELECT, u64::from(index));
            self.write_rank(rank);
            self.port.write_register(register::QUEUE_CONTROL, queue_control::RANK);
        }
        Ok(())
    }

    /// The scheduling rank of a context's queues.
    pub(crate) fn rank_of(&self, context: KmdContext) -> RankRegisters {
        self.contexts.get(context.0).expect("a context outlives its queues").rank
    }

    /// Writes the selected queue's rank.
    pub(crate) fn write_rank(&self, rank: RankRegisters) {
        let registers =
            [register::QUEUE_RANK, register::QUEUE_QUANTUM, register::QUEUE_GRACE_SAME, register::QUEUE_GRACE_LOWER];
        for (register, value) in registers.into_iter().zip(rank) {
            self.port.write_register(register, value);
        }
    }
}
