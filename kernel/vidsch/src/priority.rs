//! The meaning of priorities (sync §4.2): the specification names bands, levels and classes; the policy here says which class is in which
//! band, how classes of one band relate, and what a context's own priority does. Which process may ask for one is not decided here.

use engine_time::{Band, IN_PROCESS_MAX, REALTIME_LEVEL_MAX, Rank, WEIGHT_NORMAL};

/// A context's priority as against all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnPriority {
    /// So many steps above or below those of its class.
    Steps(i32),
    /// This level of the realtime band, whatever its class.
    Realtime(u8),
}

/// One context's priorities as calls have set them: always within the bounds of `with_own` and `with_in_process`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextPriority {
    own: OwnPriority,
    in_process: i32,
}

impl Default for ContextPriority {
    fn default() -> Self {
        ContextPriority { own: OwnPriority::Steps(0), in_process: 0 }
    }
}

/// A priority beyond the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds;

impl ContextPriority {
    /// The priority as against all others.
    pub fn own(self) -> OwnPriority {
        self.own
    }

    /// The priority among the contexts of its process.
    pub fn in_process(self) -> i32 {
        self.in_process
    }

    /// With another priority as against all others.
    ///
    /// # Errors
    /// More than [`IN_PROCESS_MAX`] steps, or a level above [`REALTIME_LEVEL_MAX`].
    // spec: sync §4.2
    pub fn with_own(self, own: OwnPriority) -> Result<ContextPriority, OutOfBounds> {
        let known = match own {
            OwnPriority::Steps(steps) => is_step(steps),
            OwnPriority::Realtime(level) => level <= REALTIME_LEVEL_MAX,
        };
        if known { Ok(ContextPriority { own, ..self }) } else { Err(OutOfBounds) }
    }

    /// With another priority among the contexts of its process.
    ///
    /// # Errors
    /// More than [`IN_PROCESS_MAX`] steps.
    // spec: sync §4.2
    pub fn with_in_process(self, in_process: i32) -> Result<ContextPriority, OutOfBounds> {
        if is_step(in_process) { Ok(ContextPriority { in_process, ..self }) } else { Err(OutOfBounds) }
    }

    /// The rank of a context with these priorities in a process of this class.
    // spec: sync §4.2
    pub fn rank(self, process: u64, class: u32) -> Rank {
        debug_assert!(is_step(self.in_process), "{} steps among the contexts of a process", self.in_process);
        let rank = Rank { in_process: self.in_process, ..rank_of_class(process, class) };
        let steps = match self.own {
            OwnPriority::Realtime(level) => {
                debug_assert!(level <= REALTIME_LEVEL_MAX, "level {level} of {REALTIME_LEVEL_MAX}");
                return Rank { band: Band::Realtime, level, ..rank };
            }
            OwnPriority::Steps(steps) => steps,
        };
        debug_assert!(is_step(steps), "{steps} steps beside the class");
        // The first step stays within what the class has anyway: only those above it, which are privileged, lift the band.
        let step = if steps == 1 { 0 } else { steps.signum() };
        let band = match (rank.band, step) {
            (Band::Realtime, -1) => Band::Focus,
            (Band::Focus, -1) | (Band::Idle, 1) => Band::Normal,
            (Band::Normal, -1) => Band::Idle,
            (Band::Normal, 1) => Band::Focus,
            (band, _) => band,
        };
        let in_process = (self.in_process + steps).clamp(-IN_PROCESS_MAX, IN_PROCESS_MAX);
        Rank { band, in_process, ..rank }
    }
}

fn is_step(steps: i32) -> bool {
    (-IN_PROCESS_MAX..=IN_PROCESS_MAX).contains(&steps)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn said(own: OwnPriority, in_process: i32) -> ContextPriority {
        ContextPriority::default().with_own(own).and_then(|known| known.with_in_process(in_process)).unwrap()
    }

    #[test]
    fn every_class_and_every_priority_of_a_context_has_its_band() {
        // spec: sync §4.2
        use Band::*;
        #[rustfmt::skip]
        let table = [
            // class  below     nothing   above
            (0,      [Idle,     Idle,     Normal]),
            (1,      [Idle,     Normal,   Focus]),
            (2,      [Idle,     Normal,   Focus]),
            (3,      [Idle,     Normal,   Focus]),
            (4,      [Normal,   Focus,    Focus]),
            (5,      [Focus,    Realtime, Realtime]),
        ];
        for (class, bands) in table {
            for (steps, band) in [-7, -1, 0, 2, 7].into_iter().zip([0, 0, 1, 2, 2].map(|column| bands[column])) {
                let rank = said(OwnPriority::Steps(steps), 0).rank(1, class);
                assert_eq!((rank.band, rank.process), (band, 1), "class {class}, {steps} steps");
            }
            // The first step above is the class's own still, and needs no privilege.
            assert_eq!(said(OwnPriority::Steps(1), 0).rank(1, class).band, bands[1], "class {class}");
            for level in 0..=31 {
                let rank = said(OwnPriority::Realtime(level), 3).rank(1, class);
                assert_eq!((rank.band, rank.level, rank.in_process), (Realtime, level, 3));
            }
        }
        assert_eq!([1, 2, 3].map(|class| rank_of_class(1, class).weight), [1, 2, 4]);
        assert_eq!(rank_of_class(1, 5).level, 15, "in the middle of its band");
        assert_eq!(said(OwnPriority::Steps(5), 5).rank(1, 2).in_process, 7);
        assert_eq!(said(OwnPriority::Steps(-5), 3).rank(1, 2).in_process, -2);
    }

    #[test]
    fn there_is_nothing_beyond_the_bounds() {
        // spec: sync §4.2
        let known = said(OwnPriority::Steps(-7), 7);
        assert_eq!((known.own(), known.in_process()), (OwnPriority::Steps(-7), 7));
        for wrong in [-8, 8, 31, i32::MIN, i32::MAX] {
            assert_eq!(known.with_own(OwnPriority::Steps(wrong)), Err(OutOfBounds), "{wrong}");
            assert_eq!(known.with_in_process(wrong), Err(OutOfBounds), "{wrong}");
        }
        assert_eq!([32, 255].map(|level| known.with_own(OwnPriority::Realtime(level)).is_err()), [true, true]);
        assert_eq!(known.with_own(OwnPriority::Realtime(31)).unwrap().in_process(), 7, "the other stays");
    }
}
