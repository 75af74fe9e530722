//! The relations between the fields of the paging ring, which the invariant checker asks for after each turn.

use super::PagingRing;
use vidmm::SpaceId;

use super::deferred::Deferred;
use crate::number::PagingWorkNumber;
use crate::store::ObjectNumber;

impl PagingRing {
    /// What the head of the ring says of its works, buffers and deferred actions. The argument is the paging process's address space.
    ///
    /// # Errors
    /// The first relation that does not hold: a defect of the kernel.
    pub fn check(&self, paging: SpaceId) -> Result<(), String> {
        self.check_works()?;
        self.check_entry_works(paging)?;
        let given = self.progress_value;
        let mut completed = self.submitted.iter().map(|work| work.progress_value);
        ensure(completed.all(|value| value <= given), || format!("a work completes behind {given}"))?;
        let mut busy = self.buffers.iter().map(|buffer| buffer.busy_until);
        ensure(busy.all(|until| until <= given), || format!("a buffer is busy until behind {given}"))?;
        let whole = self.buffers.iter().all(|buffer| !buffer.content.words.is_empty());
        ensure(whole, || "a buffer has lost its content".into())?;
        let ready: Vec<u64> = self.ready.iter().map(|ready| ready.value()).collect();
        let ordered = rises(&ready) && ready.last().is_none_or(|value| *value <= given);
        ensure(ordered, || format!("buffers that complete {ready:?} wait for their node, {given} is given"))?;
        self.check_deferred()
    }

    fn check_works(&self) -> Result<(), String> {
        let submitted = self.submitted.iter().map(|work| work.number);
        let unbuilt = self.building.iter().chain(&self.held).map(|work| work.number);
        let works: Vec<u64> = submitted.chain(unbuilt).map(PagingWorkNumber::raw).collect();
        let (done, queued) = (self.last_done, self.last_queued);
        let between = works.iter().all(|number| (done + 1..=queued).contains(number));
        ensure(done <= queued && between && rises(&works), || {
            format!("works {works:?} are under way, {done} is done, {queued} is queued")
        })
    }

    fn check_deferred(&self) -> Result<(), String> {
        let actions = &self.deferred;
        let numbers: Vec<u64> = actions.all.iter().map(|(number, _)| *number).collect();
        let ordered = numbers.is_sorted() && numbers.last().is_none_or(|number| *number <= self.last_queued);
        ensure(ordered, || format!("actions are deferred to {numbers:?}, {} is queued", self.last_queued))?;
        let awaited = actions.all.iter().filter(|(_, what)| what.is_awaited()).map(|(number, _)| number);
        ensure(awaited.eq(&actions.awaited), || format!("actions at {:?} are counted as awaited", actions.awaited))?;
        let turns = actions.all.iter().filter(|(_, what)| matches!(what, Deferred::Resume(..))).count();
        ensure(turns == actions.turns, || format!("{turns} turns are to begin, {} are counted", actions.turns))
    }
}

/// Whether each is above the one before.
fn rises(values: &[u64]) -> bool {
    values.windows(2).all(|pair| pair[0] < pair[1])
}

fn ensure(holds: bool, place: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(place()) }
}
