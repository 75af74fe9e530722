//! A client that attacks: it stores all over what it shares with the kernel while the kernel works for it, floods it with fences, NT handles,
//! descriptors, queues with doorbells and rings, has the engine reach where nothing is, sends what no client sends, and dies without a word.
//!
//! It has one life after the other, as fast as it can, and dies before another call each time, until it has died before each of them. With
//! good manners it has the same lives, each as far as to the same call; but it attacks nothing, and gives everything back before it goes.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

use d3dkmt::{EvictFlags, FenceFlags, Lock, NativeFenceRequest, SyncObjectAccess};
use kmt_calls::wire::encode;
use kmt_calls::{Call, Refusal, Reply};
use kmt_link::socket::{Asked, Packets, Request, SocketLink};
use kmt_link::{Link, Routed};
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, shutdown};
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, SurfaceKind, UmdError};
use wddm_types::{Blame, GpuVa, NodeId, NtStatus};

use super::worker::BYTES;
use crate::report::BenchError;

/// Fences of a flood.
const FENCES: u64 = 64;
/// Descriptors with a message that has use for none.
const DESCRIPTORS: usize = 16;
/// From the cut of a life to that of the next: a prime number that is larger than the calls of any life, so that it meets every call.
const CUT_STEP: u64 = 1_000_003;
/// Where nothing is.
const NOWHERE: GpuVa = GpuVa(0x7fff_0000);

/// Whether a life attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manners {
    Good,
    Bad,
}

/// The attacker.
pub(super) struct Attacker {
    path: PathBuf,
    /// The lock whose memory it stores into just now.
    shared: Mutex<Option<Lock>>,
    lives: AtomicU64,
    /// The life after this one, of whichever manners.
    next: AtomicU64,
    /// Calls of a whole life. Nothing is known of them before the first.
    calls: AtomicU64,
}

impl Attacker {
    pub fn new(socket: &Path) -> Attacker {
        let [lives, next, calls] = [0; 3].map(AtomicU64::new);
        Attacker { path: socket.to_owned(), shared: Mutex::default(), lives, next, calls }
    }

    /// How many lives it has had.
    pub fn lives(&self) -> u64 {
        self.lives.load(Ordering::Relaxed)
    }

    /// Before which call the next life is over. Lives that follow one another are cut far from one another, so that those of a short
    /// time are short and long; as many as there are calls have been cut at each of them.
    fn cut(&self) -> u64 {
        let nth = self.next.fetch_add(1, Ordering::Relaxed);
        match self.calls.load(Ordering::Relaxed) {
            0 => u64::MAX,
            calls => 1 + nth * CUT_STEP % calls,
        }
    }

    /// Lives on two threads until it is to stop, from this life on.
    pub fn begin<'scope, 'a: 'scope>(
        &'a self,
        scope: &'scope Scope<'scope, '_>,
        stop: &'a AtomicBool,
        manners: Manners,
        first: u64,
    ) -> Vec<ScopedJoinHandle<'scope, Result<(), BenchError>>> {
        self.next.store(first, Ordering::Relaxed);
        let lives = scope.spawn(move || {
            while !stop.load(Ordering::Acquire) {
                match manners {
                    Manners::Good => self.live_well()?,
                    Manners::Bad => self.live()?,
                }
            }
            Ok(())
        });
        let stores = scope.spawn(move || {
            if manners == Manners::Good {
                super::compute(stop);
            }
            let mut value = 0;
            while !stop.load(Ordering::Acquire) {
                value += 1;
                match &*self.shared() {
                    Some(lock) => lock.fill_words(0, BYTES / 8, |_| value),
                    None => std::thread::yield_now(),
                }
            }
            Ok(())
        });
        vec![lives, stores]
    }

    fn shared(&self) -> MutexGuard<'_, Option<Lock>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One life without an attack, up to its end or to the call that it does not make any more.
    fn live_well(&self) -> Result<(), BenchError> {
        let link = SocketLink::connect(&self.path).map_err(|error| BenchError::Device(error.to_string()))?;
        let left = AtomicU64::new(self.cut());
        let goes = Arc::new(AtomicBool::new(false));
        let gone = Arc::clone(&goes);
        let route = move |link: &SocketLink, call: Call| -> Result<Reply, Refusal> {
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                gone.store(true, Ordering::Relaxed);
                let (status, blame) = (NtStatus::INVALID_PARAMETER, Blame::Caller);
                return Err(Refusal { status, blame, reason: "it goes instead".into(), bytes_to_trim: 0 });
            }
            link.call(call)
        };
        match self.work(Arc::new(Routed::new(link, route)), Manners::Good) {
            Err(_) if goes.load(Ordering::Relaxed) => Ok(()),
            lived => Ok(lived?),
        }
    }

    /// One life, up to its end or to the call before which it dies.
    fn live(&self) -> Result<(), BenchError> {
        let socket = connect(&self.path)?;
        let connection = socket.try_clone()?;
        let link = SocketLink::over(socket).map_err(|error| BenchError::Device(error.to_string()))?;
        let cut = self.cut();
        let left = Arc::new(AtomicU64::new(cut));
        let still = Arc::clone(&left);
        let route = move |link: &SocketLink, call: Call| -> Result<Reply, Refusal> {
            if still.fetch_sub(1, Ordering::Relaxed) == 1 {
                // It may have been ended already.
                let _ = shutdown(&connection, Shutdown::Both);
            }
            link.call(call)
        };
        // It ends as it ends: what a life asks for may be refused, by the device that it has lost for one.
        let _ = self.work(Arc::new(Routed::new(link, route)), Manners::Bad);
        *self.shared() = None;
        self.lives.fetch_add(1, Ordering::Relaxed);
        if cut == u64::MAX {
            self.calls.store(cut - left.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        Ok(())
    }

    fn work(&self, link: Arc<dyn Link>, manners: Manners) -> Result<(), UmdError> {
        let gpu = Gpu::open(Arc::clone(&link))?;
        let surface = gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, BYTES, false)?;
        gpu.pin(&surface)?;
        let lock = surface.lock()?;
        let mut kept = None;
        match manners {
            Manners::Good => kept = Some(lock),
            Manners::Bad => *self.shared() = Some(lock),
        }
        // Each has a doorbell, whose page the kernel reads.
        let streams = (0..4).map(|_| Stream::create(&gpu, NodeId(0), StreamConfig::default()));
        let mut streams = streams.collect::<Result<Vec<_>, _>>()?;
        for stream in &mut streams {
            let mut commands = Commands::new();
            commands.fill(surface.va(), BYTES, 0xbad);
            for _ in 0..16 {
                stream.submit(&gpu, &[], &commands)?;
            }
        }
        // Its locked memory moves as far as it can while it is written.
        for _ in 0..4 {
            gpu.device().evict(vec![surface.allocation().handle()], EvictFlags::empty())?;
            gpu.pin(&surface)?;
        }
        let flags = [FenceFlags::empty(), FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING];
        let mut floods = Vec::new();
        for nth in 0..FENCES {
            let flags = flags[(nth % 2) as usize];
            let fence = gpu.device().create_native_fence(NativeFenceRequest { flags, ..Default::default() })?;
            gpu.device().signal(&fence, nth)?;
            let name = if flags.is_empty() { None } else { Some(fence.share(SyncObjectAccess::ALL_ACCESS)?) };
            let descriptor = name.as_ref().map(|name| link.descriptor(name.token())).transpose()?;
            floods.push((fence, name, descriptor));
        }
        drop(kept);
        if manners == Manners::Bad {
            self.flood_descriptors();
            let mut nowhere = Commands::new();
            nowhere.fill(NOWHERE, 8, 7);
            let value = streams[0].submit(&gpu, &[], &nowhere)?;
            streams[0].wait(&gpu, value)?;
        }
        Ok(())
    }

    /// Another connection, which brings descriptors where none is asked for: it is ended.
    fn flood_descriptors(&self) {
        let Ok(socket) = connect(&self.path) else { return };
        let packets = Packets::new(socket);
        let files = [packets.as_fd(); DESCRIPTORS];
        let _ = packets.send(&encode(&Asked::only(Request::Now), Vec::new()), &files);
    }
}

fn connect(path: &Path) -> Result<OwnedFd, BenchError> {
    let failed = |error: rustix::io::Errno| BenchError::Device(format!("no connection: {error}"));
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).map_err(failed)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).map_err(failed)?).map_err(failed)?;
    Ok(socket)
}
