//! Bands and the numbers of the rule. `DXGKARG_SETUPPRIORITYBANDS` carries some of them, here in nanoseconds; the rest is policy.

/// `DXGK_SCHEDULING_PRIORITY_BAND`.
// spec: sync §2.5, sync §4.2
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Band {
    /// Runs when no other band wants the engine, and for its share.
    Idle = 0,
    /// The band of ordinary processes.
    #[default]
    Normal = 1,
    /// The band of the process in the foreground. Needs a privilege.
    Focus = 2,
    /// Before all others, at 32 levels. Needs a privilege.
    Realtime = 3,
}

/// All of them, from the lowest.
pub const BANDS: [Band; 4] = [Band::Idle, Band::Normal, Band::Focus, Band::Realtime];

/// Terms of one band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BandTerms {
    /// `gracePeriodForBand`: how long it waits before another band is preempted for it.
    pub grace_ns: u64,
    /// `processQuantumForBand`: how long a process of it has the engine while another process of it waits.
    pub process_quantum_ns: u64,
    /// `processGracePeriodForBand`: how long a process of it waits before another one of it is preempted.
    pub process_grace_ns: u64,
}

/// The numbers. The specification gives the percentage; all others are policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// By [`Band`].
    pub bands: [BandTerms; 4],
    /// `targetNormalBandPercentage`, 0 to 50: NORMAL's share of the time when FOCUS wants all of it.
    pub normal_percent: u32,
    /// How long NORMAL has the engine when it is owed.
    pub normal_slice_ns: u64,
    /// IDLE's share of the time, in thousandths, when NORMAL and FOCUS want all of it. So little that the bands above still have more
    /// than 99 % of what they would have alone.
    pub idle_permille: u32,
    /// How long IDLE has the engine when it is owed.
    pub idle_slice_ns: u64,
    /// The share of lower in-process priorities, in thousandths of their process's time.
    pub inner_permille: u32,
    /// How long one of them has the engine when it is owed.
    pub inner_slice_ns: u64,
}

impl Policy {
    /// Terms of a band.
    pub fn band(&self, band: Band) -> BandTerms {
        self.bands[band as usize]
    }
}

impl Default for Policy {
    /// Another band is preempted at once: the user's work does not wait for background work. Among equals a process waits a tenth of a
    /// millisecond before it has another one preempted.
    // spec: sync §2.5, sync §4.2
    fn default() -> Policy {
        let terms = BandTerms { grace_ns: 0, process_quantum_ns: 2_000_000, process_grace_ns: 100_000 };
        Policy {
            bands: [terms; 4],
            normal_percent: 10,
            normal_slice_ns: 2_000_000,
            idle_permille: 5,
            idle_slice_ns: 500_000,
            inner_permille: 5,
            inner_slice_ns: 500_000,
        }
    }
}
