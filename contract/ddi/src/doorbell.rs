//! Doorbells between kernel and driver (sync §2.9, §3.17). The kernel owns what a process sees at its doorbell's address: the page of the
//! physical doorbell, or nothing; the driver owns the physical doorbells, which may be fewer than there are queues.

use wddm_types::GpuVa;

use crate::adapter::DriverStatus;
use crate::queue::{KmdDoorbell, KmdQueue, OsDoorbell, OsQueue};

/// `D3DDDI_DOORBELL_PRIVATEDATA_MAX_BYTES_WDDM3_1` (sync §0).
pub const DOORBELL_PRIVATE_DATA_MAX: usize = 16;

/// `DXGKARG_CREATEDOORBELL` (sync §2.9).
#[derive(Debug)]
pub struct CreateDoorbell<'a> {
    /// The queue.
    pub queue: KmdQueue,
    /// The kernel's handle of it: the driver names it by this to [`DoorbellHost`].
    pub os_queue: OsQueue,
    /// The kernel's handle of the doorbell.
    pub doorbell: OsDoorbell,
    /// Where the ring buffer lies in the process's space.
    pub ring: GpuVa,
    /// Its bytes.
    pub ring_bytes: u64,
    /// Between the two halves of the driver, in both directions; untrusted.
    pub private_data: &'a mut [u8],
}

/// The answer of `DxgkDdiConnectDoorbell`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectedDoorbell {
    /// Byte offset in the device's doorbell window of the page of the physical doorbell, which no other connected one shares.
    pub offset: u64,
    /// `CONNECTED_NOTIFY_KMD`: the client must tell the kernel after ringing.
    pub notify: bool,
}

/// `D3DDDI_DOORBELLSTATUS` of a doorbell that is not connected: the reasons that a driver may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disconnected {
    /// `DISCONNECTED_RETRY`: it may be connected again.
    Retry,
    /// `DISCONNECTED_ABORT`: never.
    Abort,
}

/// The kernel's functions for a driver that connects a doorbell.
pub trait DoorbellHost {
    /// `DxgkCbDisconnectDoorbell`: takes a doorbell away from its process. When it returns, nothing that is rung there reaches the
    /// physical doorbell any more, which may be given to another queue. Nothing happens to one that is not connected.
    ///
    /// # Errors
    /// `InvalidParameter` when the queue has no such doorbell.
    fn disconnect_doorbell(
        &mut self,
        queue: OsQueue,
        doorbell: OsDoorbell,
        reason: Disconnected,
    ) -> Result<(), DriverStatus>;
}

/// User-mode submission (sync §2.9, §3.17).
pub trait Doorbells {
    /// `DxgkDdiCreateDoorbell`: data only, no physical doorbell.
    ///
    /// # Errors
    /// `InvalidParameter`, `NoMemory`.
    fn create_doorbell(&mut self, create: CreateDoorbell<'_>) -> Result<KmdDoorbell, DriverStatus>;

    /// `DxgkDdiConnectDoorbell`: assigns a physical doorbell. If there is none left the driver takes one from another queue, through
    /// the host.
    ///
    /// # Errors
    /// Only irrecoverable ones.
    fn connect_doorbell(
        &mut self,
        host: &mut dyn DoorbellHost,
        doorbell: KmdDoorbell,
    ) -> Result<ConnectedDoorbell, DriverStatus>;

    /// `DxgkDdiDisconnectDoorbell`: the process reaches the physical doorbell no more, and what it has rung is not lost. Must succeed.
    fn disconnect_doorbell(&mut self, doorbell: KmdDoorbell);

    /// `DxgkDdiDestroyDoorbell`. Must succeed.
    fn destroy_doorbell(&mut self, doorbell: KmdDoorbell);

    /// `DxgkDdiNotifyWorkSubmission`. Must succeed.
    fn notify_work_submission(&mut self, queue: KmdQueue);
}
