//! Constants that the CPU hands each operation, as a program sets them for a draw. They go into one dynamic resource, as programs do
//! it: appended behind those that the GPU still reads (NO_OVERWRITE) until it is full, then thrown away (DISCARD), for which the driver
//! renames. The first map of each asks not to wait; if the GPU is still drawing, a second one waits.

use d3dkmt::Notification;
use softgpu_umd::{ContextId, Contexts, DynamicResource, Gpu, MapError, MapKind, RenamePolicy, Renamed, SurfaceKind};

use crate::drive::content::{Content, Report};
use crate::drive::error::DriveError;

/// Operations whose constants one instance holds.
const SLOTS: u64 = 4;

/// The constants of one adapter's operations.
pub struct Constants {
    resource: DynamicResource,
    /// Bytes of one operation's constants.
    bytes: u64,
    handed: u64,
}

impl Constants {
    /// Constants of so many bytes for each operation.
    pub fn create(gpu: &Gpu, bytes: u64) -> Result<Constants, DriveError> {
        let policy = RenamePolicy::default();
        let resource = DynamicResource::create(gpu, SurfaceKind::System, SLOTS * bytes, policy)?;
        Ok(Constants { resource, bytes, handed: 0 })
    }

    /// Writes the constants of an operation, and records that it reads them.
    // spec: memory §6.4
    pub fn hand(
        &mut self,
        gpu: &Gpu,
        queues: &mut Contexts,
        compute: ContextId,
        content: &Content,
        report: &Report,
        op: u64,
    ) -> Result<(), DriveError> {
        let offset = self.handed % SLOTS * self.bytes;
        let kind = if offset == 0 { MapKind::WriteDiscard } else { MapKind::WriteNoOverwrite };
        let mapped = match self.resource.map(gpu, queues, kind, true) {
            Err(MapError::WasStillDrawing) => self.resource.map(gpu, queues, kind, false),
            answer => answer,
        };
        let lock = mapped.map_err(driver)?;
        content.write_constants(&lock, offset, self.bytes, op);
        self.resource.unmap().map_err(driver)?;
        let va = self.resource.record_read(queues, compute).offset(offset);
        content.read_constants(queues.commands(compute), va, self.bytes, report, op);
        self.handed += 1;
        Ok(())
    }

    /// Carries out a notification for this resource, and ignores others.
    pub fn hear(&mut self, queues: &Contexts, told: &Notification) {
        self.resource.hear(queues, told);
    }

    /// Counts of the maps, by outcome.
    pub fn done(&self) -> Renamed {
        self.resource.done()
    }
}

fn driver(error: MapError) -> DriveError {
    match error {
        MapError::Driver(error) => error.into(),
        // PANIC: maps and unmaps come in pairs, and a map that may wait never returns WasStillDrawing.
        error => unreachable!("{error}"),
    }
}
