//! A client of good will: what it asks for it gets, and what it has written into its memory is there, whatever others send meanwhile. Its
//! surfaces stay locked while they do; between, they go out of video memory and come back.

use std::path::Path;
use std::sync::Arc;

use d3dkmt::{EvictFlags, Lock};
use kmt_calls::{AdapterCall, Call, DeviceCall, LockCall, Reply};
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use softgpu_umd::{Gpu, Surface, SurfaceKind, UmdError};
use wddm_types::{Luid, NtStatus, RawHandle};

use super::shows_video_memory;

const BYTES: u64 = 128 << 10;
/// The first may lie nowhere else.
const KINDS: [SurfaceKind; 2] = [SurfaceKind::Local, SurfaceKind::LocalThenSystem];

/// How many processes it is to the kernel.
pub const PROCESSES: u64 = 2;

pub struct Honest {
    // Before what they are of: they are dropped first.
    locks: Vec<Lock>,
    surfaces: Vec<Surface>,
    gpu: Gpu,
    link: Arc<SocketLink>,
    /// As another process, which has nothing between its rounds.
    plain: Arc<SocketLink>,
    luid: Luid,
    /// The round whose content the surfaces hold.
    round: u64,
    /// Locks of video memory where it lay.
    pub lent: u64,
}

impl Honest {
    pub fn connect(path: &Path, luid: Luid) -> Result<Honest, String> {
        let connect = || SocketLink::connect(path).map_err(|error| error.to_string());
        let (link, plain) = (connect()?, connect()?);
        let gpu = Gpu::open(Arc::clone(&link) as Arc<dyn Link>).map_err(refused)?;
        let create = |kind: &SurfaceKind| gpu.create_lockable_surface(*kind, BYTES, false);
        let surfaces: Vec<Surface> = KINDS.iter().map(create).collect::<Result<_, _>>().map_err(refused)?;
        // It is shown its arena of system memory now, and not when a round first lacks video memory: descriptors are counted.
        drop(create(&SurfaceKind::System).map_err(refused)?.lock().map_err(refused)?);
        Ok(Honest { locks: Vec::new(), surfaces, gpu, link, plain, luid, round: 0, lent: 0 })
    }

    /// Does what a client of good will does, and leaves its surfaces locked.
    pub fn behave(&mut self) -> Result<(), String> {
        self.open_and_close()?;
        self.rest()?;
        self.round += 1;
        for (number, surface) in self.surfaces.iter().enumerate() {
            match self.gpu.pin(surface) {
                Ok(()) => {}
                // Others may have what there is for now.
                Err(UmdError::Refused(refusal)) if refusal.status == NtStatus::NO_MEMORY => {}
                Err(error) => return Err(refused(error)),
            }
            let lock = surface.lock().map_err(refused)?;
            self.lent += u64::from(self.is_lent(surface.allocation().handle())?);
            for at in (0..BYTES).step_by(8) {
                let (found, expected) = (lock.read_word(at), word(self.round - 1, number, at));
                if found != expected {
                    return Err(format!(
                        "surface {number} of the honest client holds {found:#x} at {at:#x}, not {expected:#x}"
                    ));
                }
            }
            lock.fill_words(0, BYTES / 8, |index| word(self.round, number, index * 8));
            self.locks.push(lock);
        }
        Ok(())
    }

    /// Looks at what it has locked, and lets it go out of video memory.
    pub fn rest(&mut self) -> Result<(), String> {
        for (number, lock) in std::mem::take(&mut self.locks).into_iter().enumerate() {
            // Every page, and not each word of it: this is looked at whole when it is back.
            for at in (0..BYTES).step_by(4096) {
                let (found, expected) = (lock.read_word(at), word(self.round, number, at));
                if found != expected {
                    return Err(format!(
                        "what the honest client has locked holds {found:#x} at {at:#x}, not {expected:#x}"
                    ));
                }
            }
            // One goes out while it is locked, the other after.
            let evict = || {
                let handle = self.surfaces[number].allocation().handle();
                match self.gpu.device().evict(vec![handle], EvictFlags::empty()) {
                    // There was no memory for it to be listed.
                    Ok(_) => Ok(()),
                    Err(refusal) if refusal.status == NtStatus::INVALID_PARAMETER => Ok(()),
                    Err(refusal) => Err(refusal.to_string()),
                }
            };
            if number % 2 == 0 {
                evict()?;
                drop(lock);
            } else {
                drop(lock);
                evict()?;
            }
        }
        Ok(())
    }

    fn is_lent(&self, allocation: RawHandle) -> Result<bool, String> {
        let device = self.gpu.device().handle();
        let nested = self
            .link
            .call(Call::Lock(LockCall::Lock2 { device, allocation, flags: 0 }))
            .map_err(|refusal| refusal.to_string())?;
        self.link.call(Call::Lock(LockCall::Unlock2 { device, allocation })).map_err(|refusal| refusal.to_string())?;
        Ok(matches!(nested, Reply::Mapped(mapped) if shows_video_memory(&mapped)))
    }

    fn open_and_close(&self) -> Result<(), String> {
        let made = |call: Call| match self.plain.call(call.clone()) {
            Ok(Reply::Handle(handle)) => Ok(handle),
            other => Err(format!("the honest client's {} answers {other:?}", call.name())),
        };
        let adapter = made(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: self.luid }))?;
        let device = made(Call::Device(DeviceCall::CreateDevice { adapter }))?;
        for call in
            [Call::Device(DeviceCall::DestroyDevice { device }), Call::Adapter(AdapterCall::CloseAdapter { adapter })]
        {
            self.plain.call(call).map_err(|refusal| format!("the honest client is refused: {refusal}"))?;
        }
        Ok(())
    }
}

fn refused(error: UmdError) -> String {
    format!("the honest client is refused: {error}")
}

/// The word at a place of a surface; zero in the beginning.
fn word(round: u64, surface: usize, at: u64) -> u64 {
    if round == 0 { 0 } else { round << 32 | (surface as u64) << 24 | at }
}
