//! Waits that are under way: none ends before its time, none that is reached stays unanswered.

use super::*;

impl World {
    /// Takes the answers that have come: to calls of processes, and to waits in their background.
    pub(super) fn take_answers(&mut self) -> Result<(), Broken> {
        for who in 0..self.processes.len() {
            let Some(pending) = self.processes[who].pending() else { continue };
            let Some(result) = self.host.take_answer(pending) else { continue };
            let (op, fence) = self.processes[who].unblock();
            match self.waits.iter().position(|wait| wait.pending == pending) {
                Some(at) => {
                    let wait = self.waits.swap_remove(at);
                    let relaxed = wait.relaxed || self.processes[who].guilty;
                    self.wait_over(who, &wait.points, wait.any, true, relaxed, result)?;
                }
                None => self.processes[who].answered(op, result, fence).map_err(|place| ("answers", place))?,
            }
        }
        let mut at = 0;
        while at < self.waits.len() {
            let answered = if self.waits[at].main { None } else { self.host.take_answer(self.waits[at].pending) };
            let Some(result) = answered else {
                at += 1;
                continue;
            };
            let wait = self.waits.swap_remove(at);
            let relaxed = wait.relaxed || self.processes[wait.process].guilty;
            self.wait_over(wait.process, &wait.points, wait.any, false, relaxed, result)?;
        }
        Ok(())
    }

    /// A wait was answered: not before its time, and with an error only where the device was given up or lost.
    // spec: sync §3.5
    pub(super) fn wait_over(
        &mut self,
        who: usize,
        points: &[Point],
        any: bool,
        main: bool,
        relaxed: bool,
        result: Result<Reply, Refusal>,
    ) -> Result<(), Broken> {
        if result.is_ok() {
            // A call lets the hardware run: the words are looked at again before they are judged.
            let mut ledger = shared(&self.ledger);
            let outcome = ledger.fences.look(self.host.system_memory());
            ledger.check("fences", outcome);
            drop(ledger);
            // spec: sync §6 B8: a wait that still needs a fence ends with it, whatever else it needs
            let gone = |point: &Point| shared(&self.ledger).fences.current(point.number).is_none();
            if !points.iter().any(gone) && !self.reached(points, any) {
                let now: Vec<_> =
                    points.iter().map(|point| shared(&self.ledger).fences.current(point.number)).collect();
                return Err((
                    "fences",
                    format!("process {} was woken early: {points:?} at {now:?}, any: {any}", self.processes[who].id.0),
                ));
            }
        }
        if main && (self.processes[who].guilty || !relaxed) {
            return self.processes[who].wait_over(result).map_err(|place| ("answers", place));
        }
        match result {
            Ok(Reply::Done) => Ok(()),
            Err(_) if relaxed => Ok(()),
            other => Err(("answers", format!("a wait in the background of an innocent process answered {other:?}"))),
        }
    }

    /// Every wait that is not reached is covered by MonitoredValues; none that is reached stays unanswered.
    // spec: sync §3.9
    pub(super) fn look_at_waits(&mut self) -> Result<(), Broken> {
        for at in 0..self.waits.len() {
            if self.satisfied(&self.waits[at]) {
                let since = *self.waits[at].reached_at.get_or_insert(self.turns);
                if self.turns - since > LATE_TURNS {
                    return Err(("fences", format!("a waiter was lost: {}", self.describe(&self.waits[at]))));
                }
                continue;
            }
            let ledger = shared(&self.ledger);
            for point in &self.waits[at].points {
                if ledger.fences.current(point.number).is_some_and(|current| current < point.value) {
                    ledger.fences.covers(point.number, point.value).map_err(|place| ("fences", place))?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn satisfied(&self, wait: &Wait) -> bool {
        self.reached(&wait.points, wait.any)
    }

    /// Whether the words say that a wait is over. A fence that has gone holds no waiter.
    fn reached(&self, points: &[Point], any: bool) -> bool {
        let ledger = shared(&self.ledger);
        let reached = |point: &Point| ledger.fences.current(point.number).is_none_or(|current| current >= point.value);
        if any { points.iter().any(reached) } else { points.iter().all(reached) }
    }

    pub(super) fn describe(&self, wait: &Wait) -> String {
        let ledger = shared(&self.ledger);
        let now: Vec<_> = wait.points.iter().map(|point| (ledger.fences.current(point.number), point)).collect();
        format!("process {}, any: {}, current values and points {now:?}", self.processes[wait.process].id.0, wait.any)
    }
}
