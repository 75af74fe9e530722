//! Whether the front's sums and sets are what its allocations say.

use super::{Front, Mark};
use crate::event::Broken;

impl Front {
    /// # Errors
    /// The sum or the set that is not what its definition says.
    pub(crate) fn check(&self) -> Result<(), Broken> {
        let lead: u64 = self.marks.iter().map(|mark| mark.ahead).sum();
        if lead != self.lead {
            return Err(Broken(format!("{lead} pages came ahead, and {} counted", self.lead)));
        }
        let stands = |mark: &&Mark| mark.missing_at.is_some();
        let listed = |mark: &Mark| Some(self.missing.contains(&(mark.stream, mark.missing_at?, mark.key?)));
        let missing = self.marks.iter().filter(stands);
        if missing.clone().count() != self.missing.len() || missing.into_iter().any(|mark| listed(mark) != Some(true)) {
            return Err(Broken("what is missing is not what the allocations say".to_owned()));
        }
        for (stream, demand) in (0..).zip(&self.demands) {
            let of = self.marks.iter().filter(|mark| mark.key.is_some() && mark.stream == stream);
            let living: u64 = of.map(|mark| mark.created).sum();
            if living != demand.living() {
                return Err(Broken(format!("{living} pages live in stream {stream}, and {} counted", demand.living())));
            }
        }
        Ok(())
    }
}
