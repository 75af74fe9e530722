//! How hardware shares an engine out among contexts with hardware queues (sync §2.5, §4.2): bands, and where a context stands. All times
//! are in units of 100 ns.

use crate::queue::KmdContext;

/// Nanoseconds of a unit.
pub const SCHEDULING_UNIT_NS: u64 = 100;

/// `DXGK_SCHEDULING_PRIORITY_BAND`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PriorityBand {
    /// Below all others.
    Idle = 0,
    /// The band of ordinary processes.
    #[default]
    Normal = 1,
    /// The band of the process in the foreground.
    Focus = 2,
    /// Before all others.
    Realtime = 3,
}

/// `DXGKARG_SETUPPRIORITYBANDS`. Arrays are by [`PriorityBand`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetupPriorityBands {
    /// How long a context of the band waits before one of another band is preempted for it. Means nothing for the idle band.
    pub grace_period_for_band: [u64; 4],
    /// How long a process of the band keeps an engine while another process of it waits.
    pub process_quantum_for_band: [u64; 4],
    /// How long a process of the band waits before another one of it is preempted for it.
    pub process_grace_period_for_band: [u64; 4],
    /// Hundredths of the time that the normal band keeps when the focus band wants all of it: 0 to 50.
    pub target_normal_band_percentage: u32,
}

/// `DXGKARG_SETCONTEXTSCHEDULINGPROPERTIES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetContextSchedulingProperties {
    /// The context.
    pub context: KmdContext,
    /// Its band.
    pub priority_band: PriorityBand,
    /// Its level in the realtime band, 0 to 31. Means nothing in others.
    pub realtime_band_priority_level: i32,
    /// Among contexts of its process, -7 to 7.
    pub in_process_priority: i32,
    /// How long it keeps an engine while another context of its process and priority waits.
    pub quantum: u64,
    /// How long it waits before one of its process and priority is preempted for it.
    pub grace_period_same_priority: u64,
    /// How long it waits before one of its process and lower priority is preempted for it.
    pub grace_period_lower_priority: u64,
    /// How much its process gets beside others of the band, as against theirs: 2 is ordinary, 1 BELOW_NORMAL, 4 ABOVE_NORMAL; the same
    /// for all contexts of a process. WDDM's structure has no such member, and none that could say it: a quantum across processes is the
    /// band's. A driver that leaves it out treats the three classes alike.
    pub process_weight: u32,
}
