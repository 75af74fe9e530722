//! Whether the account's sums are what their definitions say.

use super::{Account, term};
use crate::event::Broken;

impl Account {
    /// # Errors
    /// The sum that is not what its definition says.
    pub(crate) fn check(&self) -> Result<(), Broken> {
        self.ghost.check().map_err(Broken)?;
        let mut potential = 0;
        for (slot, mark) in (0..).zip(&self.marks) {
            let holding = self.ghost.holding(slot);
            potential += term(mark, holding);
            let surplus = mark.resident > holding.resident && holding.idle;
            let stands = mark.key.is_some_and(|key| self.surplus.contains(&(mark.place, key)));
            if mark.listed != surplus || stands != surplus {
                return Err(Broken(format!("slot {slot} is wrongly in or out of the surplus: {mark:?}, {holding:?}")));
            }
        }
        if potential != self.potential {
            return Err(Broken(format!("the potential is {potential} pages, and {} counted", self.potential)));
        }
        if self.surplus.len() != self.marks.iter().filter(|mark| mark.listed).count() {
            return Err(Broken("the surplus names allocations that are gone".to_owned()));
        }
        Ok(())
    }
}
