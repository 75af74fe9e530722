//! A filter in front of any miniport that shows every call to the checkers before or after it goes on, and, in a sabotaged
//! world, leaves some out. It never changes what a call answers.

mod addresses;
mod fences;
mod folds;
mod hesitant;
mod packets;
mod queues;
mod reluctant;

use std::collections::BTreeSet;
use std::sync::Arc;

use ddi::*;
use miniport_filter::*;
use shared_words::Word;
use wddm_types::{EngineId, NodeId, PhysicalAddress};

use crate::check::contract::Broken;
use crate::check::{Ledger, Shared, shared};
use crate::sabotage::Sabotage;
pub use folds::{Folds, Names};
pub use hesitant::Hesitant;
use packets::Tampering;
pub use reluctant::Reluctant;

const CONTRACT: &str = "ddi contract";
const FRAMES: &str = "frames";
const FENCES: &str = "fences";
/// The first word of a command that there is not.
const NO_OPCODE: u64 = 0x7f | 1 << 8;

/// The filter.
pub struct Watched {
    ledger: Shared,
    sabotage: Sabotage,
    /// Entries that name tables of 64-KB entries.
    coarse: BTreeSet<(PhysicalAddress, u32)>,
    /// Processes of which such a table was converted, until a flush.
    converted: BTreeSet<KmdProcess>,
    /// In a world of packets. In others the kernel knows of none.
    has_packets: bool,
    tampering: Tampering,
    /// In worlds whose driver refuses and is late.
    reluctant: Option<Arc<Reluctant>>,
}

impl Watched {
    /// In front of this driver.
    pub fn before(
        driver: Box<dyn Miniport>,
        ledger: Shared,
        sabotage: Sabotage,
        has_packets: bool,
    ) -> Box<dyn Miniport> {
        Box::new(Filtered::new(driver, Watched::new(ledger, sabotage, has_packets)))
    }

    fn new(ledger: Shared, sabotage: Sabotage, has_packets: bool) -> Watched {
        Watched {
            ledger,
            sabotage,
            coarse: BTreeSet::new(),
            converted: BTreeSet::new(),
            has_packets,
            tampering: Tampering::default(),
            reluctant: None,
        }
    }

    fn see(&self, checker: &'static str, check: impl FnOnce(&mut Ledger) -> Result<(), Broken>) {
        let mut ledger = shared(&self.ledger);
        let outcome = check(&mut ledger);
        ledger.check(checker, outcome);
    }

    /// Whether a sabotaged driver leaves this operation out.
    fn driver_skips(&self, operation: &PagingOp<'_>) -> bool {
        match (self.sabotage, operation) {
            (Sabotage::DriverSkipsFlush, PagingOp::FlushTlb { .. })
            | (Sabotage::DriverSkipsFill, PagingOp::Fill { .. } | PagingOp::VirtualFill { .. }) => true,
            (Sabotage::DriverSkipsPageOut, PagingOp::Transfer { destination, .. }) => {
                matches!(destination, TransferEnd::Mdl(_))
            }
            (Sabotage::DriverSkipsPageOut, PagingOp::VirtualTransfer { direction, .. }) => {
                *direction == VirtualDirection::LocalToSystem
            }
            (Sabotage::DriverSkipsCopy, PagingOp::CopyPageTableEntries { .. }) => true,
            (Sabotage::DriverSkipsRelocation, PagingOp::Transfer { source, destination, .. }) => {
                matches!((source, destination), (TransferEnd::Segment { .. }, TransferEnd::Segment { .. }))
            }
            _ => false,
        }
    }

    /// Whether a sabotaged kernel never asked for this operation.
    fn kernel_skips(&mut self, operation: &PagingOp<'_>) -> bool {
        if let PagingOp::UpdatePageTable { level: 1, table, start_index, first, process, .. } = *operation {
            let place = (table, start_index);
            let coarse = first.flags.contains(PteFlags::LEAF_64KB);
            if coarse {
                self.coarse.insert(place);
            } else if self.coarse.remove(&place) && first.flags.contains(PteFlags::VALID) {
                self.converted.insert(process);
            }
        }
        match (self.sabotage, operation) {
            (Sabotage::KernelSkipsConversionFlush, PagingOp::FlushTlb { process, start, end, .. }) => {
                (start.0, end.0) != (0, 0) && self.converted.remove(process)
            }
            (
                Sabotage::KernelSkipsCopiedInvalidation,
                PagingOp::UpdatePageTable { level: 0, first, initial: false, process, first_va, count, .. },
            ) => {
                let invalid = !first.flags.contains(PteFlags::VALID);
                invalid && shared(&self.ledger).frames.was_copied(*process, *first_va, *count)
            }
            (Sabotage::KernelSkipsFlush, PagingOp::FlushTlb { .. }) => true,
            (Sabotage::KernelSkipsInvalidation, PagingOp::UpdatePageTable { level: 0, first, initial: false, .. }) => {
                !first.flags.contains(PteFlags::VALID)
            }
            _ => false,
        }
    }
}

passes_on!(
    Watched: NativeFenceLogsFilter, PeerDoorbellsFilter, HostApertureFilter, SwizzlingFilter, DisplayFilter, FlipQueueFilter
);

impl Filter for Watched {
    fn shows(&self, facet: Facet, there: bool) -> bool {
        match facet {
            Facet::PacketScheduling | Facet::Swizzling => self.has_packets && there,
            _ => there,
        }
    }

    fn start_device(&mut self, next: &mut dyn Miniport, host: &mut dyn Host) -> Result<(), DriverStatus> {
        self.see(CONTRACT, |ledger| ledger.contract.started(true));
        next.start_device(host)
    }

    fn stop_device(&mut self, next: &mut dyn Miniport, host: &mut dyn Host) {
        self.see(CONTRACT, |ledger| ledger.contract.started(false));
        next.stop_device(host);
    }

    fn restart_from_timeout(&mut self, next: &mut dyn Miniport, host: &mut dyn Host) -> Result<(), DriverStatus> {
        shared(&self.ledger).was_reset();
        next.restart_from_timeout(host)
    }

    fn set_power_state(
        &mut self,
        next: &mut dyn Miniport,
        host: &mut dyn Host,
        state: ddi::PowerState,
    ) -> Result<(), DriverStatus> {
        let on = state == ddi::PowerState::On;
        self.see(CONTRACT, |ledger| ledger.contract.power(on));
        if !on {
            self.see("packets", |ledger| ledger.packets.idle());
            shared(&self.ledger).frames.power_lost();
        }
        next.set_power_state(host, state)
    }

    fn adapter_caps(&self, next: &dyn Miniport) -> AdapterCaps {
        let caps = next.adapter_caps();
        shared(&self.ledger).frames.moves_by_address(caps.paging_by_gpu_va);
        caps
    }

    fn query_segment4(&self, next: &dyn Miniport, query: &mut QuerySegment4<'_>) -> Result<(), DriverStatus> {
        let result = next.query_segment4(query);
        if let Some(descriptors) = &query.descriptors {
            let all: Vec<_> = (0..descriptors.len()).filter_map(|index| descriptors.get(index)).collect();
            shared(&self.ledger).frames.segments(&all);
        }
        result
    }

    fn query_segment3(&self, next: &dyn Miniport, query: &mut QuerySegment3<'_>) -> Result<(), DriverStatus> {
        let result = next.query_segment3(query);
        if let Some(descriptors) = &query.descriptors {
            // Where a segment lies and what it is, every form says alike.
            let place = |known: &SegmentDescriptor3| SegmentDescriptor4 {
                base_address: known.base_address,
                size_bytes: known.size_bytes,
                flags: known.flags,
                ..SegmentDescriptor4::default()
            };
            let all: Vec<_> = descriptors.iter().map(place).collect();
            shared(&self.ledger).frames.segments(&all);
        }
        result
    }

    fn create_process(
        &mut self,
        next: &mut dyn Miniport,
        host: &mut dyn Host,
        create: CreateProcess<'_>,
    ) -> Result<KmdProcess, DriverStatus> {
        let process = next.create_process(host, create)?;
        self.see(CONTRACT, |ledger| ledger.contract.create_process(process, create.system));
        Ok(process)
    }

    fn destroy_process(&mut self, next: &mut dyn Miniport, process: KmdProcess) {
        self.see(CONTRACT, |ledger| ledger.contract.destroy_process(process));
        self.see(FRAMES, |ledger| ledger.frames.process_gone(process));
        next.destroy_process(process);
    }

    fn create_device(
        &mut self,
        next: &mut dyn Miniport,
        host: &mut dyn Host,
        create: CreateDevice,
    ) -> Result<(KmdDevice, DeviceInfo), DriverStatus> {
        self.reluctantly()?;
        let (device, info) = next.create_device(host, create)?;
        self.see(CONTRACT, |ledger| {
            ledger.device_asked(create.process);
            ledger.contract.create_device(device, create.process)
        });
        Ok((device, info))
    }

    fn destroy_device(&mut self, next: &mut dyn Miniport, device: KmdDevice) {
        self.see(CONTRACT, |ledger| ledger.contract.destroy_device(device));
        next.destroy_device(device);
    }

    fn create_allocation(
        &mut self,
        next: &mut dyn Miniport,
        create: &mut CreateAllocation<'_, '_>,
    ) -> Result<(), DriverStatus> {
        self.reluctantly()?;
        next.create_allocation(create)?;
        for created in create.allocations.iter() {
            let allocation = created.info.allocation;
            self.see(CONTRACT, |ledger| {
                ledger.allocation_asked(allocation);
                ledger.contract.create_allocation(allocation)
            });
        }
        Ok(())
    }

    fn open_allocation(
        &mut self,
        next: &mut dyn Miniport,
        open: &mut OpenAllocation<'_, '_>,
    ) -> Result<(), DriverStatus> {
        next.open_allocation(open)?;
        for opened in open.allocations.iter() {
            self.see(CONTRACT, |ledger| ledger.contract.open_allocation(opened.open, opened.allocation, open.device));
        }
        Ok(())
    }

    fn close_allocation(&mut self, next: &mut dyn Miniport, device: KmdDevice, open: &[KmdOpenAllocation]) {
        for &open in open {
            self.see(CONTRACT, |ledger| ledger.contract.close_allocation(open, device));
        }
        next.close_allocation(device, open);
    }

    fn destroy_allocation(&mut self, next: &mut dyn Miniport, destroy: &mut DestroyAllocation<'_>) {
        for &allocation in destroy.allocations {
            self.see(CONTRACT, |ledger| ledger.contract.destroy_allocation(allocation));
            self.see(FRAMES, |ledger| ledger.frames.allocation_gone(allocation));
        }
        next.destroy_allocation(destroy);
    }

    fn build_paging_buffer(
        &mut self,
        next: &mut dyn Miniport,
        build: &mut BuildPagingBuffer<'_>,
    ) -> Result<(), PagingStatus> {
        self.see(CONTRACT, |ledger| ledger.contract.running());
        if self.kernel_skips(&build.operation) {
            return Ok(());
        }
        let result = if self.driver_skips(&build.operation) { Ok(()) } else { next.build_paging_buffer(build) };
        if result.is_ok() && !build.immediate && build.written > 0 && shared(&self.ledger).takes_hang() {
            // No such opcode: the engine stops.
            build.buffer[0] = NO_OPCODE;
        }
        // A part of an operation changes nothing for the checkers: the whole of it stands in the ring before anything that
        // is built later.
        if result.is_ok() {
            let operation = build.operation;
            match operation {
                PagingOp::CopyPageTableEntries { .. } => shared(&self.ledger).count("entries copied"),
                PagingOp::UpdatePageTable { first_64kb: Some(_), .. } => {
                    shared(&self.ledger).count("dual entry written");
                }
                PagingOp::VirtualTransfer { .. } => shared(&self.ledger).count("content moved by address"),
                PagingOp::NotifyFenceResidency { .. } => shared(&self.ledger).count("words moved"),
                _ => {}
            }
            self.see(FRAMES, |ledger| {
                let Ledger { frames, contract, packets, .. } = ledger;
                contract.rest(packets.resting());
                frames.operation(&operation, contract)
            });
        }
        result
    }

    fn interrupt_routine(&mut self, next: &mut dyn Miniport, notify: &mut dyn Notify) -> bool {
        if self.reluctant.as_ref().is_some_and(|reluctant| reluctant.misses()) {
            return false;
        }
        self.interrupts(next, notify)
    }
}
