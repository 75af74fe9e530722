//! A process comes to an adapter: its address space, its number at the IOMMU, and what its driver keeps of the addresses for
//! itself meanwhile (memory §4.6, §4.7); and its private calls to the driver. It goes with its last device (`device`).

use ddi::{CreateProcess, DriverStatus, Escape, EscapeFlags, OsProcess, ReserveGpuVaRange, ReserveGpuVaRangeFlags};
use events::Event;
use gpu_fence::FenceId;
use kmt_calls::Refusal;
use vidmm::{DriverRange, MapError, Operation, SpaceId, SpaceKind, VidMm};
use wddm_types::{GpuVa, ProcessId};

use crate::adapter::Adapter;
use crate::adapter::turns::priority_of;
use crate::driver::{Creating, ProcessRequests};
use crate::effect::Cx;
use crate::number::DeviceNumber;
use crate::owners::ProcessFacts;
use crate::process::Terms;
use crate::refusal::{from_driver, no_memory};
use crate::scheduling::AnyContext;

/// The ranges of addresses that a driver reserves in a process that is being created.
pub struct ProcessHost<'a> {
    pub vidmm: &'a mut VidMm<FenceId>,
    pub process: OsProcess,
    pub space: SpaceId,
    /// First address and bytes of each range.
    pub made: Vec<(GpuVa, u64)>,
}

impl ProcessRequests for ProcessHost<'_> {
    // spec: memory §4.6
    fn reserve(&mut self, reserve: ReserveGpuVaRange) -> Result<GpuVa, DriverStatus> {
        if reserve.process != self.process {
            return Err(DriverStatus::InvalidParameter("addresses of another process than the one being created"));
        }
        if !ReserveGpuVaRangeFlags::ALLOW_USER_MODE_MAPPING.contains(reserve.flags) {
            return Err(DriverStatus::InvalidParameter("reserved flags of a range of addresses"));
        }
        let range = DriverRange {
            size_bytes: reserve.size_bytes,
            alignment_bytes: u64::from(reserve.alignment_bytes),
            base: (!reserve.base.is_null()).then_some(reserve.base),
            user_maps: reserve.flags.contains(ReserveGpuVaRangeFlags::ALLOW_USER_MODE_MAPPING),
        };
        let base = self.vidmm.reserve_for_driver(self.space, range).map_err(from_reserve)?;
        self.made.push((base, reserve.size_bytes));
        Ok(base)
    }
}

fn from_reserve(error: MapError) -> DriverStatus {
    match error {
        MapError::Misaligned => {
            DriverStatus::InvalidParameter("a range of addresses: whole leaf tables, aligned to a power of two")
        }
        MapError::OutsideSpace => {
            DriverStatus::InvalidParameter("a range outside the space, or below the second entry of the root")
        }
        MapError::ConflictingAddresses => DriverStatus::InvalidParameter("a range of addresses that are taken"),
        MapError::NotTranslated => DriverStatus::NotSupported("addresses where the GPU has no page tables"),
        _ => DriverStatus::NoMemory("no free range of addresses"),
    }
}

impl Adapter {
    /// A process uses the adapter for the first time. Its space is made before the driver hears of it, so that the driver can
    /// reserve addresses there; nothing is left of either when one of them fails.
    pub fn add_process(&mut self, cx: &mut Cx<'_>, process: ProcessId, terms: Terms) -> Result<(), Refusal> {
        let pasid = self.memory.pasids.take().map_err(|error| no_memory(error.to_string()))?;
        let (space, tables) = self.make_space(cx, terms).inspect_err(|_| self.memory.pasids.give_back(pasid))?;
        let os = OsProcess(u64::from(process.0));
        let mut asked = ProcessHost { vidmm: &mut self.vidmm, process: os, space, made: Vec::new() };
        let create = CreateProcess { process: os, system: false, pasids: pasid.as_slice() };
        let (mut driver, mut host) = self.driver.creating(cx, Creating::Process(&mut asked));
        let created = driver.create_process(&mut host, create);
        let reserved = asked.made;
        let kmd = match created {
            Ok(kmd) => kmd,
            Err(status) => {
                self.vidmm.abandon_space(space);
                self.memory.pasids.give_back(pasid);
                return Err(from_driver(status));
            }
        };
        self.memory.spaces.insert(space, kmd);
        self.memory.pasids.enter(space, pasid);
        self.owners.process_comes(process, ProcessFacts { space, kmd }, Terms::default().class);
        self.sync.process_comes(process);
        self.tally.begin(process);
        self.queue_operations(cx, process, tables);
        for (va, size_bytes) in reserved {
            cx.emit(self.index, Event::GpuVaReserved { process: process.0, va: va.0, size_bytes });
        }
        Ok(())
    }

    /// An address space, for whose root others may have to leave.
    fn make_space(&mut self, cx: &mut Cx<'_>, terms: Terms) -> Result<(SpaceId, Vec<Operation>), Refusal> {
        let mut created = self.vidmm.create_space(SpaceKind::Process);
        if created.is_err() {
            self.note_idle_devices(cx);
            let work = self.vidmm.make_room_for_root(priority_of(terms));
            if work.is_some() {
                self.queue_work(cx, ProcessId::SYSTEM, None, work, Vec::new());
                created = self.vidmm.create_space(SpaceKind::Process);
            }
        }
        created.map_err(|error| no_memory(format!("page tables of the process: {error}")))
    }
}

/// A private call of a process to the driver (`D3DKMTEscape`); `call::escape` has checked what the caller said.
impl Adapter {
    /// That the driver may be called, for this device if there is one.
    ///
    /// # Errors
    /// The adapter has stopped, or the device is lost; it sleeps, and the call reaches for it.
    pub fn may_escape(&self, device: Option<DeviceNumber>, flags: EscapeFlags) -> Result<(), Refusal> {
        self.life.running()?;
        if let Some(device) = device {
            self.device_active(device)?;
        }
        // A device that sleeps or is reset has nothing to say, and a driver that touched it would wait for ever.
        if flags.contains(EscapeFlags::HARDWARE_ACCESS) {
            self.life.awake()?;
        }
        Ok(())
    }

    /// Calls the driver, which answers in the bytes.
    ///
    /// # Errors
    /// The driver's own.
    pub fn escape(
        &mut self,
        cx: &Cx<'_>,
        process: ProcessId,
        (device, context): (Option<DeviceNumber>, Option<AnyContext>),
        flags: EscapeFlags,
        private_data: &mut [u8],
    ) -> Result<(), Refusal> {
        let process = self.owners.facts_of_process(process).map(|facts| facts.kmd);
        let device = device.map(|device| self.owners.kmd_of(device));
        let context = context.map(|context| match context {
            AnyContext::Hardware(number) => self.queues[number].kmd,
            AnyContext::Packets(number) => self.packets[number].kmd,
        });
        let mut escape = Escape { process, device, context, flags, private_data };
        self.driver.call(cx).escape(&mut escape).map_err(from_driver)
    }
}
