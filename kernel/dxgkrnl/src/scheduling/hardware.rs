//! The ranks of hardware contexts, as their driver is told (sync §2.5, §4.2): the hardware shares an engine out among their queues, by
//! the same rule. A driver without these calls shares its engines out as it likes.

use ddi::{
    DriverStatus, KmdContext, PriorityBand, SCHEDULING_UNIT_NS, SetContextSchedulingProperties, SetupPriorityBands,
};
use engine_time::{BANDS, Band, BandTerms, Policy, Quanta, REALTIME_LEVEL_MAX, Rank};
use wddm_types::ProcessId;

use super::AnyContext;
use crate::adapter::Adapter;
use crate::driver::EntryPoints;
use crate::machine::Cx;
use crate::object::ContextNumber;

/// Tells a driver with hardware queues how to share its engines out.
// spec: sync §2.5
pub fn setup_bands(driver: &mut EntryPoints, policy: &Policy) -> Result<(), DriverStatus> {
    let Some(hardware) = driver.hardware_queues() else { return Ok(()) };
    let of_band = |pick: fn(BandTerms) -> u64| BANDS.map(|band| pick(policy.band(band)) / SCHEDULING_UNIT_NS);
    supported(hardware.setup_priority_bands(SetupPriorityBands {
        grace_period_for_band: of_band(|terms| terms.grace_ns),
        process_quantum_for_band: of_band(|terms| terms.process_quantum_ns),
        process_grace_period_for_band: of_band(|terms| terms.process_grace_ns),
        target_normal_band_percentage: policy.normal_percent,
    }))
}

/// Ranks the kernel's own context for paging before all others.
// spec: memory §7.4
pub fn rank_paging(driver: &mut EntryPoints, context: KmdContext) -> Result<(), DriverStatus> {
    let rank = Rank { band: Band::Realtime, level: REALTIME_LEVEL_MAX, ..Rank::ordinary(0) };
    set(driver, context, rank, Quanta::default())
}

impl Adapter {
    /// Tells the driver a context's rank before any work is submitted on it.
    // spec: sync §4.2
    pub fn rank_newcomer(&mut self, number: ContextNumber) -> Result<(), DriverStatus> {
        let rank = self.rank_of_context(AnyContext::Hardware(number));
        self.set_rank(number, rank)
    }

    fn set_rank(&mut self, number: ContextNumber, rank: Rank) -> Result<(), DriverStatus> {
        let (kmd, quanta) = (self.contexts[number].kmd, self.quanta());
        self.contexts[number].told = Some(rank);
        set(&mut self.driver, kmd, rank, quanta)
    }

    /// Lends hardware contexts the rank of contexts that wait for them, as long as those wait.
    // spec: sync §4.2
    pub fn lend_ranks(&mut self, cx: &mut Cx<'_>) {
        let raised = self.raised_ranks();
        if raised.is_empty() && !self.has_inherited_priority {
            return;
        }
        let mut lent = false;
        let numbers: Vec<_> = self.contexts.iter().map(|(number, _)| number).collect();
        for number in numbers {
            let context = AnyContext::Hardware(number);
            let own = self.rank_of_context(context);
            let rank = raised.get(&context).copied().unwrap_or(own);
            lent |= rank != own;
            if self.stopped.is_none()
                && self.contexts[number].told != Some(rank)
                && let Err(status) = self.set_rank(number, rank)
            {
                self.stop(cx, format!("SetContextSchedulingProperties failed: {status}"));
            }
        }
        self.has_inherited_priority = lent;
    }

    /// A context stands elsewhere.
    // spec: sync §4.2
    pub fn tell_rank(&mut self, cx: &mut Cx<'_>, number: ContextNumber) {
        if let Err(status) = self.rank_newcomer(number) {
            self.stop(cx, format!("SetContextSchedulingProperties failed: {status}"));
        }
    }

    /// All contexts of a process do.
    pub fn tell_ranks(&mut self, cx: &mut Cx<'_>, process: ProcessId) {
        let of_process =
            |(_, context): &(ContextNumber, &crate::object::Context)| self.devices[context.device].process == process;
        let contexts: Vec<_> = self.contexts.iter().filter(of_process).map(|(number, _)| number).collect();
        for number in contexts {
            if self.stopped.is_none() {
                self.tell_rank(cx, number);
            }
        }
    }
}

fn set(driver: &mut EntryPoints, context: KmdContext, rank: Rank, quanta: Quanta) -> Result<(), DriverStatus> {
    let priority_band = match rank.band {
        Band::Idle => PriorityBand::Idle,
        Band::Normal => PriorityBand::Normal,
        Band::Focus => PriorityBand::Focus,
        Band::Realtime => PriorityBand::Realtime,
    };
    let hardware = driver.hardware_queues().expect("it has hardware contexts");
    supported(hardware.set_context_scheduling_properties(SetContextSchedulingProperties {
        context,
        priority_band,
        realtime_band_priority_level: i32::from(rank.level),
        in_process_priority: rank.in_process,
        quantum: quanta.quantum_ns / SCHEDULING_UNIT_NS,
        grace_period_same_priority: quanta.grace_same_ns / SCHEDULING_UNIT_NS,
        grace_period_lower_priority: quanta.grace_lower_ns / SCHEDULING_UNIT_NS,
        process_weight: rank.weight,
    }))
}

/// A driver that cannot be told shares out as it likes.
fn supported(answer: Result<(), DriverStatus>) -> Result<(), DriverStatus> {
    match answer {
        Err(DriverStatus::NotSupported(_)) => Ok(()),
        answer => answer,
    }
}
