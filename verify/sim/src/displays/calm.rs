//! The rules that hold at any time in a world with displays, and those once everything begun is over.

use super::*;
use crate::check::contract::ObjectCounts;
use kmt_calls::{AdapterCall, DeviceCall};

impl World {
    pub(super) fn look(&mut self, turn: u64) -> Result<(), Broken> {
        {
            let mut ledger = shared(&self.ledger);
            let outcome = ledger.fences.look(self.host.system_memory());
            ledger.check("fences", outcome);
            if let Some((process, reason)) = ledger.take_lost().first()
                && !ledger.has_hung()
            {
                ledger.check("residency", Err(format!("process {process} lost its device: {reason}")));
            }
            if let Some(broken) = ledger.broken() {
                return Err(broken.clone());
            }
        }
        self.answers()?;
        if let Some(bystander) = self.bystander.as_mut().filter(|_| self.asleep.is_none()) {
            bystander.look(&self.host)?;
        }
        if turn.is_multiple_of(8) {
            self.host.check_invariants().map_err(|broken| ("invariants", broken.to_string()))?;
        }
        Ok(())
    }

    /// Calls that waited, and are answered.
    fn answers(&mut self) -> Result<(), Broken> {
        let now = self.host.now_ns();
        for (who, player) in self.players.iter().enumerate() {
            let Some(player) = player else { continue };
            let mut kept = Vec::new();
            for waiting in std::mem::take(&mut *player.waiting()) {
                match self.host.take_answer(waiting.pending) {
                    None if waiting.call == "blank" && now > waiting.since_ns + 2 * PERIOD => {
                        let place = format!("process {who} waits for a blank from {} on until {now}", waiting.since_ns);
                        return Err(("liveness", place));
                    }
                    None => kept.push(waiting),
                    Some(Ok(Reply::Done | Reply::Queued(_))) => {}
                    Some(Err(refusal)) if is_over(refusal.status) => {}
                    Some(other) => return Err(("answers", format!("a {} answered {other:?}", waiting.call))),
                }
            }
            player.waiting().append(&mut kept);
        }
        Ok(())
    }

    /// A process with unfinished work, and where it is.
    fn restless(&self) -> Option<(usize, String)> {
        let ledger = shared(&self.ledger);
        self.players.iter().enumerate().find_map(|(who, player)| {
            let player = player.as_ref()?;
            let calls: Vec<_> = player.waiting().iter().map(|waiting| waiting.call).collect();
            let queued = ledger.displays.queued_of(who);
            let rests = calls.is_empty() && queued == 0 && (player.done() || ledger.has_hung());
            (!rests).then(|| (who, format!("calls that wait: {calls:?}; flips: {queued}; done: {}", player.done())))
        })
    }

    fn blacken(&mut self, who: usize) -> Result<(), Broken> {
        let player = self.players[who].as_ref().expect("it waits");
        player.own(&[]).map_err(|refusal| ("answers", format!("displays were not given back: {refusal}")))
    }

    /// Runs the world until all work is finished. A process that draws behind a dropped flip of its own goes on once it gives its displays
    /// back; no other waits for ever.
    pub(super) fn calm(&mut self) -> Result<(), Broken> {
        let until = self.host.now_ns() + CALM_NS;
        while self.restless().is_some() && self.host.now_ns() < until {
            self.step(until);
            self.look(1)?;
        }
        while let Some((who, place)) = self.restless() {
            if !shared(&self.ledger).displays.robbed(who) {
                return Err(("liveness", format!("process {who} waits for ever: {place}")));
            }
            self.blacken(who)?;
            let until = self.host.now_ns() + CALM_NS;
            while self.step(until) {}
            self.look(1)?;
        }
        Ok(())
    }

    /// Everything that was begun comes to its end, then all die, and nothing is left of them.
    pub(super) fn end(&mut self, seed: u64) -> Result<Report, Broken> {
        while self.asleep.is_some() {
            self.wake()?;
        }
        shared(&self.ledger).never_hangs();
        self.calm()?;
        // In the dark no process waits for a display.
        for who in 0..self.players.len() {
            if self.players[who].as_ref().is_some_and(|player| !player.is_lost()) {
                self.blacken(who)?;
            }
        }
        while self.host.step() {}
        self.look(0)?;
        if let Some((who, place)) = self.restless() {
            return Err(("liveness", format!("process {who} waits in the dark: {place}")));
        }
        if let Some(bystander) = &mut self.bystander {
            bystander.at_rest(&self.host)?;
            bystander.leave();
        }
        for player in std::mem::take(&mut self.players).into_iter().flatten() {
            player.die(&self.host);
        }
        while self.host.step() {}
        // A newcomer's device is there when the ring has got past everything older, so that what was put off has been done.
        let newcomer = self.host.process_created();
        let opened =
            self.host.call(newcomer, Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: self.host.luid() }));
        let Ok(Reply::Handle(adapter)) = opened else {
            return Err(("answers", format!("a newcomer's open answered {opened:?}")));
        };
        let device = self.host.call(newcomer, Call::Device(DeviceCall::CreateDevice { adapter }));
        if !matches!(device, Ok(Reply::Handle(_))) {
            return Err(("liveness", format!("a newcomer's device answered {device:?}")));
        }
        while self.host.step() {}
        self.look(0)?;
        let ledger = shared(&self.ledger);
        ledger.displays.idle().map_err(|place| ("displays", place))?;
        // The paging process and the newcomer.
        let held = ledger.contract.held();
        let ObjectCounts { processes: 2, devices: 2, doorbells: 0, allocations: 0, .. } = held else {
            return Err(("ddi contract", format!("at the end the driver holds {held:?}")));
        };
        if ledger.resident_bytes() != 0 || !ledger.paging.idle() {
            return Err((
                "frames",
                format!("{} bytes stay resident although no process is left", ledger.resident_bytes()),
            ));
        }
        let shown = ledger.frames.aperture_pages();
        if shown != self.aperture {
            return Err(("frames", format!("the aperture shows {shown} pages, {} at the beginning", self.aperture)));
        }
        let (trace_hash, events) = ledger.trace();
        let mut seen = ledger.seen().clone();
        seen.insert("frame".into(), ledger.displays.frames());
        if let Some(bystander) = &self.bystander {
            seen.extend(bystander.tally().map(|(what, count)| (what.to_owned(), count)));
        }
        let (calls, virtual_ns) = (self.calls, self.host.now_ns());
        Ok(Report { seed, trace_hash, events, calls, turns: TURNS, virtual_ns, seen })
    }
}

/// Answers of calls whose display has gone black or whose device is lost.
fn is_over(status: NtStatus) -> bool {
    matches!(
        status,
        NtStatus::INVALID_PARAMETER
            | NtStatus::DEVICE_REMOVED
            | NtStatus::NO_MEMORY
            | NtStatus::RETRY
            | NtStatus::ACCESS_DENIED
            | NtStatus::GRAPHICS_VIDPN_SOURCE_IN_USE
    )
}
