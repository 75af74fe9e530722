//! The lanes of a process: a request takes one that is free and waits on it for its response. When all are taken, the process makes
//! another, so that no call waits behind one that sleeps in the kernel. Each request tells how many calls were posted before it, so that
//! the kernel makes those first whatever lane they took; and it tells where mappings are that were shown since the last request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kmt_calls::Call;
use kmt_calls::wire::{decode, encode};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::hearing::Hearing;
use super::message::{Asked, Request, Response, Told};
use super::packet::{PACKET_BYTES, PacketError};
use super::packets::{MESSAGE_MAX, Packets};

/// What the kernel says to a request, and the descriptor that comes with it; the error: this process has none left for it.
pub(super) type Heard = (Told, Result<Option<OwnedFd>, Errno>);

/// The lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    free: Mutex<Vec<Packets>>,
    /// Calls that were posted: no thread waits for an answer.
    posted: AtomicU64,
    /// The state of the stream: it knows where mappings are, which requests tell the kernel.
    hearing: Arc<Hearing>,
}

impl Lanes {
    /// The first of them.
    pub fn new(first: Packets, hearing: Arc<Hearing>) -> Lanes {
        Lanes { free: Mutex::new(vec![first.shortly()]), posted: AtomicU64::new(0), hearing }
    }

    /// The kernel's answer. A lane whose peer has gone, or says what no kernel says, is not used again.
    pub fn ask(&self, request: Request, files: &[BorrowedFd<'_>]) -> Result<Heard, PacketError> {
        self.ask_telling(request, files, &|| {})
    }

    /// Makes a call whose place in the kernel's order is wanted: `waits` hears that the kernel has taken it and answers later.
    pub fn ask_in_order(&self, call: Call, waits: &dyn Fn()) -> Result<Heard, PacketError> {
        self.ask_telling(Request::CallInOrder(call), &[], waits)
    }

    fn ask_telling(&self, request: Request, files: &[BorrowedFd<'_>], waits: &dyn Fn()) -> Result<Heard, PacketError> {
        let lane = self.take()?;
        let brings = usize::from(matches!(request, Request::Descriptor(_)));
        let mut told = match self.asked(request).and_then(|asked| lane.send(&asked, files)) {
            Ok(()) => response(&lane, brings)?,
            Err(error) => {
                // Nothing of the message has gone: the lane is as it was.
                let unsent = matches!(error, PacketError::System(_)) && !files.is_empty();
                if unsent || matches!(error, PacketError::TooLong(_)) {
                    self.free().push(lane);
                }
                return Err(error);
            }
        };
        if told.0.response == Response::Waits {
            waits();
            told = response(&lane, brings)?;
        }
        self.free().push(lane);
        Ok(told)
    }

    /// The same for what is answered at once: where no lane can be had, on the one that others are asked for with.
    pub fn ask_shortly(&self, request: Request) -> Result<Heard, PacketError> {
        match self.ask(request.clone(), &[]) {
            Err(PacketError::NoLane(_)) => {
                let free = self.free();
                let lane = free.first().ok_or(PacketError::Closed)?;
                lane.send(&self.asked(request)?, &[])?;
                response(lane, 0)
            }
            told => told,
        }
    }

    /// Posts a call: no thread reads its answer. False: it has not been made, because the kernel may refuse a message of its length
    /// unread, or because no lane can be had.
    pub fn post(&self, call: Call) -> Result<bool, PacketError> {
        let lane = match self.take() {
            Err(PacketError::NoLane(_)) => return Ok(false),
            lane => lane?,
        };
        let Ok(asked) = self.asked_within(Request::Post(call), PACKET_BYTES) else {
            self.free().push(lane);
            return Ok(false);
        };
        // Counted before it is sent: every request that is made from here on is behind it.
        self.posted.fetch_add(1, Ordering::AcqRel);
        lane.send(&asked, &[])?;
        self.free().push(lane);
        Ok(true)
    }

    /// A request in bytes, with what is to be said with it.
    ///
    /// # Errors
    /// `TooLong`: no kernel would read it. What was to be said with it goes with the next.
    fn asked(&self, request: Request) -> Result<Vec<u8>, PacketError> {
        self.asked_within(request, MESSAGE_MAX)
    }

    fn asked_within(&self, request: Request, bytes_max: usize) -> Result<Vec<u8>, PacketError> {
        let after = self.posted.load(Ordering::Acquire);
        let (placed, lost) = self.hearing.take_untold();
        let asked = Asked { after, placed, lost, request };
        let bytes = encode(&asked, Vec::new());
        if bytes.len() > bytes_max {
            self.hearing.tell_later(asked.placed, asked.lost);
            return Err(PacketError::TooLong(bytes.len()));
        }
        Ok(bytes)
    }

    /// A lane that no thread uses.
    fn take(&self) -> Result<Packets, PacketError> {
        let mut free = self.free();
        match free.len() {
            // The last free one is what others are asked for with.
            0 => Err(PacketError::Closed),
            1 => {
                let (ours, theirs) = Packets::pair().map_err(|error| PacketError::NoLane(no_descriptor(error)))?;
                let asks = &free[0];
                asks.send(&self.asked(Request::Lane)?, &[theirs.as_fd()])?;
                match response(asks, 0)?.0.response {
                    Response::Done => Ok(ours.shortly()),
                    Response::Refused(reason) => Err(PacketError::NoLane(reason)),
                    _ => Err(PacketError::Malformed("unexpected response type to a request for a lane")),
                }
            }
            _ => Ok(free.pop().expect("just counted")),
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Packets>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The next response on a lane, and the descriptor that comes with it, if it `brings` one.
pub(super) fn response(lane: &Packets, brings: usize) -> Result<Heard, PacketError> {
    // An answer is as long as what was asked for.
    let (bytes, files) = lane.receive(usize::MAX, brings)?;
    let told = decode(&bytes)
        .map_err(|_| PacketError::Malformed("the response cannot be decoded; both programs must have one version"))?;
    Ok((told, files.all().map(|mut files| files.pop())))
}

/// Why this process cannot have another descriptor.
pub(super) fn no_descriptor(error: Errno) -> String {
    format!("this process is out of descriptors: {error}; raise its limit (ulimit -n)")
}

#[cfg(test)]
mod tests {
    use kmt_calls::MappingId;
    use shared_words::{ClientAccess, Memory};
    use wddm_types::PAGE_BYTES;

    use super::*;
    use crate::socket::hearing::listen;
    use crate::socket::message::{FileOf, PieceOf, Push, Pushed};

    #[test]
    fn where_a_mapping_is_the_next_request_tells_and_no_other() {
        let (ours, theirs) = Packets::pair().expect("two ends");
        let (stream, theirs, hearing) = (Arc::new(ours), Packets::new(theirs), Arc::new(Hearing::default()));
        let listens = std::thread::spawn({
            let hearing = Arc::downgrade(&hearing);
            move || listen(&stream, &hearing)
        });
        let memory = Memory::reserve_file(PAGE_BYTES).expect("a page");
        let file = memory.lend(&[(0, PAGE_BYTES)], ClientAccess::ReadWrite).expect("its file");
        for (mapping, before) in [(MappingId(1), 0), (MappingId(2), 1)] {
            let pieces = vec![PieceOf { file: FileOf::Message(0), offset: 0, bytes: PAGE_BYTES }];
            let files = vec![PAGE_BYTES];
            let shows = Push::Shows { mapping, size_bytes: PAGE_BYTES, files, pieces, complete: true };
            let pushed = Pushed { before, push: shows };
            theirs.send(&encode(&pushed, Vec::new()), &[file.as_fd()]).expect("it hears");
        }
        let gone = Pushed { before: 2, push: Push::Gone(MappingId(2)) };
        theirs.send(&encode(&gone, Vec::new()), &[]).expect("it hears");
        assert!(hearing.up_to(3));

        let (lane, _) = Packets::pair().expect("two ends");
        let lanes = Lanes::new(lane, Arc::clone(&hearing));
        let asked = || decode::<Asked>(&lanes.asked(Request::Now).expect("short")).expect("a request").placed;
        // A request that no kernel reads tells nothing, and the lane that it would have taken is free.
        let long = kmt_calls::EscapeCall {
            adapter: wddm_types::RawHandle::NONE,
            device: wddm_types::RawHandle::NONE,
            context: wddm_types::RawHandle::NONE,
            kind: 0,
            flags: kmt_calls::EscapeFlags::empty(),
            private_data: vec![0; MESSAGE_MAX],
        };
        let asked_long = lanes.asked(Request::Call(Call::Escape(long.clone())));
        assert!(matches!(asked_long, Err(PacketError::TooLong(bytes)) if bytes > MESSAGE_MAX));
        lanes.free().push(Packets::pair().expect("two ends").0);
        assert!(matches!(lanes.ask(Request::Call(Call::Escape(long)), &[]), Err(PacketError::TooLong(_))));
        assert_eq!(lanes.free().len(), 2);
        let shown = hearing.mapping(MappingId(1)).expect("it was shown");
        // Where the operating system holds no stores it has no address.
        let address = shown.range().ok().map(|range| range.base().as_ptr() as u64);
        let told: Vec<_> = asked().iter().map(|placed| (placed.mapping, placed.address)).collect();
        assert_eq!(told, address.map(|address| (MappingId(1), address)).into_iter().collect::<Vec<_>>());
        assert!(asked().is_empty(), "it does not go from there");
        drop(theirs);
        listens.join().expect("no panic");
    }
}
