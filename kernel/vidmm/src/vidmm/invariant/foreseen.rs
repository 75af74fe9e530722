//! The planner was told what is: each subject's pages, and the room that is left for subjects.

use super::{BrokenInvariant, broken, ensure};
use crate::vidmm::VidMm;

impl<F: Copy + Eq + std::fmt::Debug> VidMm<F> {
    // spec: memory §8.2
    pub(super) fn check_foreseen(&self) -> Result<(), BrokenInvariant> {
        for segment in self.foreseen.planned().iter() {
            let mut outside = 0;
            for (id, allocation) in self.allocations.iter() {
                let told = &allocation.told;
                outside += told.outside.filter(|(at, _)| *at == segment).map_or(0, |(_, pages)| pages);
                let sound = match told.subject {
                    // A lock and its end tell nothing by themselves.
                    true => !allocation.is_subject() || told.resident == allocation.resident_pages(),
                    false => told.died || told.outside == allocation.outside(),
                };
                ensure(sound, "foreseen", || format!("{id:?} was told as {told:?}"))?;
                let listed = self.times_listed(id);
                ensure(!told.subject || (told.open > 0) == (listed > 0), "foreseen", || {
                    format!("{id:?} stands {listed} times on lists, and was told as {told:?}")
                })?;
            }
            let known = self.foreseen.outside(segment);
            ensure(known == outside, "foreseen", || {
                format!("segment {}: {known} pages of no subject, and should be {outside}", segment.0)
            })?;
            let foresight = self.foreseen.of(segment).map_or(Ok(()), foresight::Foresight::check);
            foresight.map_err(|fault| broken("foreseen")(format!("segment {}: {fault}", segment.0)))?;
        }
        Ok(())
    }
}
