//! The choice of the queue that an engine executes next, where more than one want it: the rule of bands, quanta and shares
//! ([`engine_time`]) as it is for an engine, which changes from queue to queue between two commands and loses nothing by it. The engine
//! calls it, and names the queues that want to run.
//!
//! An engine with one queue to look at does not ask, so the path from doorbell to command knows nothing of this. In real time it does
//! not even look at its clock: a queue that was alone begins its quantum when another one comes.

use engine_time::{Band, BandTerms, Contender, EngineTime, IN_PROCESS_MAX, Policy, Quanta, Rank, Verdict, Who};
use softgpu_spec::register::{self, queue_rank};

use crate::queue::QueueSetup;

/// Most changes of the holder within one decision: to the queue that should have the engine, and to one that it is owed to.
const HANDS_MAX: u32 = 4;

/// An engine's record of its queues' ranks and of what they have had.
pub(crate) struct Sharing {
    time: EngineTime<usize>,
    /// The queues that want the engine now, in order.
    pub(crate) ready: Vec<usize>,
    holder: Option<usize>,
    /// The last answer, and what it was about.
    last: Option<(Option<usize>, Verdict<usize>)>,
    last_ready: Vec<usize>,
}

impl Sharing {
    pub(crate) fn new(policy: Policy) -> Sharing {
        Sharing { time: EngineTime::new(policy), ready: Vec::new(), holder: None, last: None, last_ready: Vec::new() }
    }

    pub(crate) fn set_policy(&mut self, policy: Policy) {
        self.time.set_policy(policy);
        self.last = None;
    }

    /// A queue came, went, or ranks otherwise.
    pub(crate) fn changed(&mut self) {
        self.last = None;
    }

    /// Whether a queue is noted as having the engine.
    pub(crate) fn is_held(&self) -> bool {
        self.holder.is_some()
    }

    /// No queue has the engine, or one that is alone has it: none is charged.
    pub(crate) fn rests(&mut self, now_ns: u64) {
        self.holder = None;
        self.last = None;
        self.time.passes(now_ns, None);
    }

    /// The queue of those that are ready that executes its next command; there is one at least. `between`: a queue has no nested buffer
    /// begun.
    pub(crate) fn next(
        &mut self,
        now_ns: u64,
        contender: impl Fn(usize) -> Contender<usize>,
        between: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut holder = self.holder.filter(|holder| self.ready.contains(holder));
        for _ in 0..HANDS_MAX {
            match self.ask(now_ns, holder, &contender).who {
                Who::Takes(next) => holder = Some(next),
                Who::GivesWay { to, from_ns } if from_ns <= now_ns || holder.is_some_and(&between) => holder = Some(to),
                Who::KeepsIt | Who::GivesWay { .. } | Who::NoContender => break,
            }
        }
        self.holder = holder;
        holder
    }

    /// The answer; the last one while nothing has changed and it holds.
    fn ask(
        &mut self,
        now_ns: u64,
        holder: Option<usize>,
        contender: &impl Fn(usize) -> Contender<usize>,
    ) -> Verdict<usize> {
        if let Some((known, verdict)) = self.last
            && known == holder
            && self.ready == self.last_ready
            && verdict.again_ns.is_none_or(|again_ns| now_ns < again_ns)
        {
            return verdict;
        }
        let ready: Vec<_> = self.ready.iter().map(|queue| contender(*queue)).collect();
        let verdict = self.time.ask(now_ns, holder.map(contender), &ready);
        self.last = Some((holder, verdict));
        self.last_ready.clone_from(&self.ready);
        verdict
    }
}

/// How a queue ranks, as its registers say.
pub(crate) fn contender(queue: u32, setup: &QueueSetup) -> Contender<usize> {
    let field = |shift: u32, mask: u64| setup.rank >> shift & mask;
    let band = match setup.rank & queue_rank::BAND {
        0 => Band::Idle,
        1 => Band::Normal,
        2 => Band::Focus,
        _ => Band::Realtime,
    };
    // CAST: five and four bits.
    let (level, priority) = (field(queue_rank::LEVEL_SHIFT, 31) as u8, field(queue_rank::PRIORITY_SHIFT, 15) as i32);
    // CAST: eight bits.
    let weight = match field(queue_rank::WEIGHT_SHIFT, 255) as u32 {
        0 => u32::from(queue_rank::WEIGHT_ORDINARY),
        weight => weight,
    };
    let process = setup.rank >> queue_rank::GROUP_SHIFT;
    let rank = Rank { band, level, in_process: priority - IN_PROCESS_MAX, weight, ..Rank::ordinary(process) };
    let quanta = Quanta {
        // Command by command, if it says nothing.
        quantum_ns: setup.quantum_ns.max(1),
        grace_same_ns: setup.grace_same_ns,
        grace_lower_ns: setup.grace_lower_ns,
    };
    Contender { context: queue as usize, rank, quanta }
}

/// The registers of bands.
#[derive(Debug, Default)]
pub(crate) struct Bands {
    selected: usize,
    policy: Policy,
}

impl Bands {
    pub(crate) fn read(&self, offset: u32) -> u64 {
        let BandTerms { grace_ns, process_quantum_ns, process_grace_ns } = self.policy.bands[self.selected];
        match offset {
            register::BAND_SELECT => self.selected as u64,
            register::BAND_GRACE => grace_ns,
            register::BAND_QUANTUM => process_quantum_ns,
            register::BAND_GROUP_GRACE => process_grace_ns,
            register::NORMAL_PERCENT => u64::from(self.policy.normal_percent),
            _ => 0,
        }
    }

    /// The policy from now on, if it is another than before.
    pub(crate) fn write(&mut self, offset: u32, value: u64) -> Option<Policy> {
        let terms = &mut self.policy.bands[self.selected];
        match offset {
            // A band that there is not cannot be selected: the selection stays.
            register::BAND_SELECT if value < 4 => self.selected = value as usize,
            register::BAND_GRACE => terms.grace_ns = value,
            register::BAND_QUANTUM => terms.process_quantum_ns = value,
            register::BAND_GROUP_GRACE => terms.process_grace_ns = value,
            // CAST: 50 at most.
            register::NORMAL_PERCENT => self.policy.normal_percent = value.min(50) as u32,
            _ => return None,
        }
        (offset != register::BAND_SELECT).then_some(self.policy)
    }
}
