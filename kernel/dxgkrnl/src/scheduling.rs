//! What priorities mean here (sync §4.2). The specification names bands, levels and classes; which class is in which band, and what
//! classes of one band are to each other, is policy, and stands here.

use engine_time::{Band, REALTIME_LEVEL_MAX, Rank, WEIGHT_NORMAL};

/// How contexts of a process of this class rank (`D3DKMT_SCHEDULINGPRIORITYCLASS`): IDLE in the idle band, the three around NORMAL in
/// the normal band with half, once and twice the weight, HIGH in the focus band, REALTIME in the middle of the realtime band.
// spec: sync §4.2
pub fn rank_of_class(process: u64, class: u32) -> Rank {
    let rank = Rank::ordinary(process);
    match class {
        0 => Rank { band: Band::Idle, ..rank },
        1 => Rank { weight: WEIGHT_NORMAL / 2, ..rank },
        2 => rank,
        3 => Rank { weight: 2 * WEIGHT_NORMAL, ..rank },
        4 => Rank { band: Band::Focus, ..rank },
        _ => Rank { band: Band::Realtime, level: REALTIME_LEVEL_MAX / 2, ..rank },
    }
}
