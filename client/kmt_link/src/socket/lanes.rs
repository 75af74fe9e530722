//! The lanes of a process: a request takes one that is free and waits on it for its response. When all are taken, another is made, so
//! that no call waits behind one that sleeps in the kernel.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kmt_calls::wire::{decode, encode};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::message::{Request, Response, Told};
use super::packet::{MESSAGE_MAX, PacketError, Packets};

/// The lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    free: Mutex<Vec<Packets>>,
}

impl Lanes {
    /// The first of them.
    pub fn new(first: Packets) -> Lanes {
        Lanes { free: Mutex::new(vec![first]) }
    }

    /// What the kernel answers. A lane whose peer has gone, or says what no kernel says, is not used again.
    pub fn ask(&self, request: &Request, files: &[BorrowedFd<'_>]) -> Result<(Told, Option<OwnedFd>), PacketError> {
        let lane = self.take()?;
        lane.send(&encode(request, Vec::new()), files)?;
        let told = response(&lane)?;
        self.free().push(lane);
        Ok(told)
    }

    /// The same for what is answered at once: where no lane can be had, on the one that others are asked for with.
    pub fn ask_shortly(&self, request: &Request) -> Result<(Told, Option<OwnedFd>), PacketError> {
        match self.ask(request, &[]) {
            Err(PacketError::NoLane(_)) => {
                let free = self.free();
                let lane = free.first().ok_or(PacketError::Closed)?;
                lane.send(&encode(request, Vec::new()), &[])?;
                response(lane)
            }
            told => told,
        }
    }

    /// A lane that nobody uses.
    fn take(&self) -> Result<Packets, PacketError> {
        let mut free = self.free();
        match free.len() {
            // The last free one is what others are asked for with.
            0 => Err(PacketError::Closed),
            1 => {
                let (ours, theirs) = Packets::pair()?;
                let asks = &free[0];
                asks.send(&encode(&Request::Lane, Vec::new()), &[theirs.as_fd()])?;
                match response(asks)?.0.response {
                    Response::Done => Ok(ours),
                    Response::Refused(reason) => Err(PacketError::NoLane(reason)),
                    _ => Err(PacketError::Malformed("no lane, and no reason")),
                }
            }
            _ => Ok(free.pop().expect("just counted")),
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Packets>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The next response on a lane, and what comes with it.
pub(super) fn response(lane: &Packets) -> Result<(Told, Option<OwnedFd>), PacketError> {
    let (bytes, mut files) = lane.receive(MESSAGE_MAX, 1)?;
    let told = decode(&bytes).map_err(|_| PacketError::Malformed("no response of this version"))?;
    Ok((told, files.pop()))
}
