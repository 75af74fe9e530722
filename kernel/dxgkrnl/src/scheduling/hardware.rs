//! The ranks of hardware contexts, as their driver is told (sync §2.5, §4.2): the hardware shares an engine out among their queues, by
//! the same rule. A driver without these calls shares its engines out as it likes.

use crate::driver::EntryPoints;
use ddi::{
    DriverStatus, KmdContext, PriorityBand, SCHEDULING_UNIT_NS, SetContextSchedulingProperties, SetupPriorityBands,
};
use engine_time::{BANDS, Band, BandTerms, Policy, Quanta, REALTIME_LEVEL_MAX, Rank};

/// Tells a driver with hardware queues how to share its engines out.
// spec: sync §2.5
pub fn setup_bands(driver: &mut EntryPoints<'_>, policy: &Policy) -> Result<(), DriverStatus> {
    let Some(hardware) = driver.again().hardware_queues() else { return Ok(()) };
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
pub fn rank_paging(driver: &mut EntryPoints<'_>, context: KmdContext) -> Result<(), DriverStatus> {
    let rank = Rank { band: Band::Realtime, level: REALTIME_LEVEL_MAX, ..Rank::ordinary(0) };
    set_rank(driver, context, rank)
}

/// Tells a driver a context's rank.
// spec: sync §4.2
pub fn set_rank(driver: &mut EntryPoints<'_>, context: KmdContext, rank: Rank) -> Result<(), DriverStatus> {
    let quanta = Quanta::default();
    let priority_band = match rank.band {
        Band::Idle => PriorityBand::Idle,
        Band::Normal => PriorityBand::Normal,
        Band::Focus => PriorityBand::Focus,
        Band::Realtime => PriorityBand::Realtime,
    };
    let hardware = driver.again().hardware_queues().expect("it has hardware contexts");
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
