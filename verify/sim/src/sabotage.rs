//! Worlds that are broken on purpose, to see that a checker notices: a checker that cannot fail is worth nothing.
//! [`Sabotage`] names what is broken; the drivers' part is done by the watching decorator, the device's part here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use device_port::DevicePort;
use shared_words::Memory;
use softgpu_spec::register;

/// The part that is broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// Nothing is broken.
    #[default]
    None,
    /// Every third fence record that the device holds is never given to the driver.
    LostInterrupts,
    /// The driver forgets TLB flushes.
    DriverSkipsFlush,
    /// The driver forgets copies out of a segment.
    DriverSkipsPageOut,
    /// The driver forgets to fill new memory.
    DriverSkipsFill,
    /// The driver does not store MonitoredValues.
    DriverIgnoresMonitored,
    /// The kernel forgets TLB flushes: neither checkers nor driver see them.
    KernelSkipsFlush,
    /// The kernel forgets to flush after leaf tables were converted.
    KernelSkipsConversionFlush,
    /// The kernel does not stop a process for a conversion.
    KernelRunsOn,
    /// The driver that is late with its fence interrupts tells of the last one only.
    DriverForgetsFolded,
    /// The driver does not look at what other adapters' engines have signalled.
    DriverForgetsNews,
    /// The driver forgets to copy page-table entries.
    DriverSkipsCopy,
    /// The kernel forgets that what copied entries name was left.
    KernelSkipsCopiedInvalidation,
    /// The driver forgets to move content out of the way of other content.
    DriverSkipsRelocation,
    /// The kernel forgets that frames were left: entries stay valid.
    KernelSkipsInvalidation,
    /// The driver gives a queue's doorbell to another one and does not say so.
    DriverTakesSilently,
    /// The driver does not say which packets were done while a preemption was under way, so that they run twice.
    DriverForgetsCompletion,
    /// The kernel gives paging buffers that came back another id.
    KernelChangesPagingId,
    /// The kernel does not say that a packet comes again.
    KernelForgetsResubmission,
    /// The kernel hands packets over in another order than they came back in.
    KernelSwapsPackets,
}

/// A device port that swallows every third fence record, once it is deaf.
pub struct DeafPort {
    inner: Arc<dyn DevicePort>,
    deaf: Arc<AtomicBool>,
    records: AtomicU64,
}

impl DeafPort {
    /// Between the driver and this device.
    pub fn new(inner: Arc<dyn DevicePort>, deaf: Arc<AtomicBool>) -> DeafPort {
        DeafPort { inner, deaf, records: AtomicU64::new(0) }
    }
}

impl DevicePort for DeafPort {
    fn read_register(&self, offset: u32) -> u64 {
        let value = self.inner.read_register(offset);
        let swallowed = offset == register::INTERRUPT_POP
            && value == register::record::FENCE
            && self.deaf.load(Ordering::Relaxed)
            && self.records.fetch_add(1, Ordering::Relaxed) % 3 == 2;
        if swallowed { self.read_register(offset) } else { value }
    }

    fn write_register(&self, offset: u32, value: u64) {
        self.inner.write_register(offset, value);
    }

    fn local_memory(&self) -> &Arc<Memory> {
        self.inner.local_memory()
    }

    fn doorbell_page(&self) -> &Arc<Memory> {
        self.inner.doorbell_page()
    }

    fn doorbell_rung(&self, index: u32) {
        self.inner.doorbell_rung(index);
    }
}
