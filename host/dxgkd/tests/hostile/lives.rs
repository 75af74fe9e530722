//! Lives that end at every call of a program, in three manners: before the call's message, in the middle of it, and behind it before its answer.
//! The kernel's state afterwards is that of the start, and so are the daemon's descriptors, memory files and threads. One round ends at each call
//! once in each manner; `OPENWDDM_LIVES=100000` repeats the rounds until there were so many lives.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use d3dkmt::EvictFlags;
use dxgkd::{Limits, ProcessLimits};
use kmt_calls::wire::encode;
use kmt_calls::{
    Call, EventCall, FenceFlags, KeyedMutexCall, NativeFenceRequest, QueueCall, Refusal, Reply, SyncCall,
    SyncObjectAccess, SyncObjectKind, SyncObjectRequest, WaitFlags,
};
use kmt_link::socket::{Asked, Packets, Request, SocketLink};
use kmt_link::{Link, Routed};
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketType, shutdown};
use softgpu_umd::{Commands, Gpu, Stream, StreamConfig, SurfaceKind, UmdError};
use wddm_types::{NodeId, RawHandle};

use super::{MIB, Served, handle};

/// A value that no fence of a life reaches.
const NEVER: u64 = 1 << 40;

/// How a life ends at a call.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// The call's message is not sent.
    Before,
    /// Half of it is.
    Within,
    /// It is sent, and no answer is taken.
    Unheard,
}

const DEATHS: [Death; 3] = [Death::Before, Death::Within, Death::Unheard];

/// A whole life. The calls are the same in each but for polls of fences, which may have been reached before.
fn live(link: &Arc<dyn Link>) -> Result<(), UmdError> {
    let gpu = Gpu::open(Arc::clone(link))?;
    let device = gpu.device().handle();
    let surface = gpu.create_lockable_surface(SurfaceKind::LocalThenSystem, MIB, false)?;
    gpu.pin(&surface)?;
    let lock = surface.lock()?;
    lock.fill_words(0, 8, |word| word);
    // A stream has a queue with a doorbell.
    let mut stream = Stream::create(&gpu, NodeId(0), StreamConfig::default())?;
    let mut commands = Commands::new();
    commands.fill(surface.va(), MIB, 0xa5);
    for _ in 0..4 {
        stream.submit(&gpu, &[], &commands)?;
    }
    gpu.device().evict(vec![surface.allocation().handle()], EvictFlags::empty())?;
    gpu.pin(&surface)?;
    let plain = gpu.device().create_native_fence(NativeFenceRequest::default())?;
    gpu.device().signal(&plain, 3)?;
    let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let shared = gpu.device().create_native_fence(NativeFenceRequest { flags, ..Default::default() })?;
    let name = shared.share(SyncObjectAccess::ALL_ACCESS)?;
    let descriptor = link.descriptor(name.token())?;
    let event = handle(Some(link.call(Call::Event(EventCall::Create { manual_reset: true }))?));
    let kinds = [
        SyncObjectKind::MutexObject { owned: true },
        SyncObjectKind::Semaphore { max_count: 4, initial_count: 1 },
        SyncObjectKind::Fence { value: 5 },
        SyncObjectKind::CpuNotification { event },
    ];
    for kind in kinds {
        let request = SyncObjectRequest { kind, flags: FenceFlags::empty() };
        link.call(Call::Sync(SyncCall::CreateSynchronizationObject2 { device, request }))?;
    }
    let create = KeyedMutexCall::Create { initial_key: 1, flags: Default::default(), runtime_data: vec![7; 64] };
    let Reply::KeyedMutex(made) = link.call(Call::KeyedMutex(create))? else { panic!("no keyed mutex") };
    let acquire = KeyedMutexCall::Acquire { mutex: made.mutex, key: 1, timeout_100ns: Some(0), runtime_data_bytes: 64 };
    link.call(Call::KeyedMutex(acquire))?;
    // Waits that nothing ends: of a queue, and of the CPU with an event.
    let context = QueueCall::CreateHwContext { device, node: NodeId(0), private_data: Vec::new() };
    let context = handle(Some(link.call(Call::Queue(context))?));
    let queue = QueueCall::CreateHwQueue { context, flags: Default::default(), private_data: Vec::new() };
    let queue = handle(Some(link.call(Call::Queue(queue))?));
    let points = vec![(plain.handle(), NEVER)];
    link.call(Call::Queue(QueueCall::SubmitWaitForSyncObjectsToHwQueue { queue, points: points.clone() }))?;
    let wait = |async_event| SyncCall::WaitForSynchronizationObjectFromCpu {
        device,
        points: points.clone(),
        async_event,
        flags: WaitFlags::empty(),
    };
    link.call(Call::Sync(wait(event)))?;
    drop((lock, descriptor));
    // The last call waits for ever: only a death at it or before ends a life.
    link.call(Call::Sync(wait(RawHandle(0))))?;
    Ok(())
}

/// One life, which ends at the call with this number or at the first one that blocks.
fn end_at(served: &Served, cut: u64, death: Death, blocks: impl Fn(&Call) -> bool + Send + Sync + 'static) {
    let socket: OwnedFd = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    let address = SocketAddrUnix::new(&served.path).expect("a path");
    rustix::net::connect(&socket, &address).expect("a kernel");
    let connection = Packets::new(socket.try_clone().expect("a descriptor"));
    let end = socket.try_clone().expect("a descriptor");
    let link = SocketLink::over(socket).expect("a kernel");
    let made = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&made);
    let ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&ended);
    let route = move |link: &SocketLink, call: Call| -> Result<Reply, Refusal> {
        let nth = counted.fetch_add(1, Ordering::Relaxed) + 1;
        // A life ends once: behind that the destructors call, and are refused.
        if !ends.load(Ordering::Relaxed) && (nth == cut || blocks(&call)) {
            let message = encode(&Asked::only(Request::Call(call.clone())), Vec::new());
            let sent = match death {
                Death::Before => 0,
                Death::Within => message.len().div_ceil(2),
                Death::Unheard => message.len(),
            };
            if sent > 0 {
                connection.send(&message[..sent], &[]).expect("the daemon has not ended this client");
            }
            ends.store(true, Ordering::Relaxed);
            shutdown(&end, Shutdown::Both).expect("it is connected");
        }
        link.call(call)
    };
    let link: Arc<dyn Link> = Arc::new(Routed::new(link, route));
    let lived = live(&link);
    let calls = made.load(Ordering::Relaxed);
    assert!(ended.load(Ordering::Relaxed), "a life was to end at call {cut} and ended behind {calls}: {lived:?}");
}

fn waits_for_ever(call: &Call) -> bool {
    let Call::Sync(SyncCall::WaitForSynchronizationObjectFromCpu { points, async_event, .. }) = call else {
        return false;
    };
    *async_event == RawHandle(0) && points.iter().any(|(_, value)| *value == NEVER)
}

#[test]
fn a_life_that_ends_at_any_call_leaves_the_state_of_the_start() {
    let wanted: u64 = match std::env::var("OPENWDDM_LIVES") {
        Ok(lives) => lives.parse().expect("OPENWDDM_LIVES is a number"),
        Err(_) => 0,
    };
    // A client that comes at once behind one that left much would wait.
    let process = ProcessLimits { clearing_percent: 100, ..ProcessLimits::default() };
    let mut served = Served::start(Limits { process, ..Limits::default() });
    // The first lives make what stays: the kernel keeps a fence for its own use, and this process two sockets for NT handles that are descriptors.
    for death in DEATHS {
        end_at(&served, u64::MAX, death, waits_for_ever);
    }
    served.begin_anew();
    let counted = Arc::new(AtomicU64::new(0));
    let last = Arc::clone(&counted);
    let seen = AtomicU64::new(0);
    end_at(&served, u64::MAX, Death::Before, move |call| {
        let nth = seen.fetch_add(1, Ordering::Relaxed) + 1;
        let waits = waits_for_ever(call);
        if waits {
            last.store(nth, Ordering::Relaxed);
        }
        waits
    });
    let calls = counted.load(Ordering::Relaxed);
    served.until_as_before("a whole life");
    assert!(calls > 40, "{calls} calls are a whole life");
    let mut lives = 0;
    while lives == 0 || lives < wanted {
        for cut in 1..=calls {
            for death in DEATHS {
                end_at(&served, cut, death, waits_for_ever);
                served.until_as_before(&format!("a life that ended {death:?} call {cut} of {calls}"));
                lives += 1;
            }
        }
    }
    println!("{lives} lives ended at {calls} calls in {} manners; the state is that of the start", DEATHS.len());
}
