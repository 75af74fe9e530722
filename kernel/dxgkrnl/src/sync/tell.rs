//! What the driver is told of the values of fences: CurrentValues that the processor stores, fences whose every wait passes, values that
//! have come from elsewhere, and MonitoredValues. A driver that fails has broken the contract: these calls return the breach, and the
//! adapter stops for it. It is not asked here whether the device has power: one that sleeps is told nothing, and hears of it when it wakes.

use std::sync::atomic::AtomicU64;

use ddi::{CurrentUpdate, DriverStatus, MonitoredUpdate, UpdateCurrentFlags};
use shared_words::Memory;

use super::{Fence, Synchronization};
use crate::breach::Breach;
use crate::driver::EntryPoints;
use crate::number::FenceNumber;

/// The document's value for an AlwaysSignaled update; drivers ignore it (sync §6 B12).
const ALWAYS_SIGNALED_VALUE: u64 = 0xFFFF_FFFF;

impl Synchronization {
    /// Brings fences to values from the CPU, all by one call: of native fences the driver stores them, of others the kernel.
    ///
    /// # Errors
    /// The driver failed: bug check 0x119, parameter 0x13.
    // spec: sync §3.6, sync §2.6
    pub fn set_current(
        &mut self,
        driver: EntryPoints<'_>,
        memory: &Memory,
        changes: &[(FenceNumber, u64)],
    ) -> Result<(), Breach> {
        for &(number, value) in changes {
            if self.fence(number).kmd.is_none() {
                self.store(memory, number, value);
            }
        }
        let update = |&(number, value): &(FenceNumber, u64)| {
            let fence = self.fence(number);
            let current = memory.word(fence.slot.current.0);
            fence.kmd.map(|global| CurrentUpdate { fence: global, value, current: Some(current) })
        };
        let batch: Vec<CurrentUpdate<'_>> = changes.iter().filter_map(update).collect();
        update_current(driver, &batch, UpdateCurrentFlags::empty())
    }

    /// `UpdateCurrentValuesFromCpu` with NotificationOnly: these fences may have other values, by signals from elsewhere.
    ///
    /// # Errors
    /// The driver failed: bug check 0x119, parameter 0x13.
    // spec: sync §2.6, sync §3.12
    pub fn notify(&self, driver: EntryPoints<'_>, memory: &Memory, numbers: &[FenceNumber]) -> Result<(), Breach> {
        let update = |number: &FenceNumber| {
            let fence = self.fence(*number);
            let (value, current) = (fence.value(memory), memory.word(fence.slot.current.0));
            fence.kmd.map(|global| CurrentUpdate { fence: global, value, current: Some(current) })
        };
        let batch: Vec<CurrentUpdate<'_>> = numbers.iter().filter_map(update).collect();
        update_current(driver, &batch, UpdateCurrentFlags::NOTIFICATION_ONLY)
    }

    /// The driver passes every wait for a fence.
    ///
    /// # Errors
    /// The driver failed: bug check 0x119, parameter 0x13.
    // spec: sync §3.16, sync §6 B12
    pub fn tell_always(&self, driver: EntryPoints<'_>, memory: &Memory, number: FenceNumber) -> Result<(), Breach> {
        let fence = self.fence(number);
        let current = fence.slot.on_cpu().then(|| memory.word(fence.slot.current.0));
        let update = fence.kmd.map(|global| CurrentUpdate { fence: global, value: ALWAYS_SIGNALED_VALUE, current });
        update_current(driver, update.as_slice(), UpdateCurrentFlags::ALWAYS_SIGNALED)
    }

    /// Has the driver store MonitoredValues, each in the word that the caller finds for its fence; a fence without one just now is told
    /// later. No engine reads the MonitoredValue of a fence that only the kernel signals.
    ///
    /// # Errors
    /// The driver failed: bug check 0x119, parameter 0x12.
    // spec: sync §3.9
    pub fn tell_monitored<'a>(
        &self,
        driver: EntryPoints<'_>,
        values: &[(FenceNumber, u64)],
        word_of: impl Fn(&Fence) -> Option<&'a AtomicU64>,
    ) -> Result<(), Breach> {
        let update = |&(number, value): &(FenceNumber, u64)| {
            let fence = self.fence(number);
            let (global, monitored) = (fence.kmd?, word_of(fence)?);
            Some(MonitoredUpdate { fence: global, value, monitored })
        };
        let batch: Vec<MonitoredUpdate<'_>> = values.iter().filter_map(update).collect();
        let told = match driver.native_fences() {
            Some(fences) if !batch.is_empty() => fences.update_monitored_values(&batch),
            _ => Ok(()),
        };
        told.map_err(|status| {
            Breach(format!("bug check 0x119, parameter 0x12: UpdateMonitoredValues failed: {status}"))
        })
    }
}

fn update_current(
    driver: EntryPoints<'_>,
    batch: &[CurrentUpdate<'_>],
    flags: UpdateCurrentFlags,
) -> Result<(), Breach> {
    match driver.native_fences() {
        Some(fences) if !batch.is_empty() => fences.update_current_values(batch, flags).map_err(current_values_failed),
        _ => Ok(()),
    }
}

/// The driver could not store CurrentValues.
// spec: sync §3.9
fn current_values_failed(status: DriverStatus) -> Breach {
    Breach(format!("bug check 0x119, parameter 0x13: UpdateCurrentValuesFromCpu failed: {status}"))
}
