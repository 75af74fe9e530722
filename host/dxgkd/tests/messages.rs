//! Messages in memory: the daemon refuses a message for which there is no room, and its client goes on; the clients of one user share
//! their room.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dxgk_host::{Host, HostConfig, Mode, Profile};
use dxgkd::{Daemon, Limits, ProcessLimits, UserLimits};
use kmt_calls::wire::{decode, encode};
use kmt_calls::{AdapterCall, Call, ESCAPE_BYTES_MAX, EscapeCall, EscapeFlags, Refusal, Reply};
use kmt_link::Link;
use kmt_link::socket::{Asked, Hello, Packets, Request, Response, SocketLink, Told};
use rustix::fd::AsFd;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType};
use wddm_types::{Blame, NtStatus, RawHandle};

/// The bytes of one packet.
const PACKET_BYTES: u64 = 32 << 10;

struct Served {
    path: PathBuf,
    // Before the folder of its socket.
    _daemon: Daemon,
    _folder: tempfile::TempDir,
}

fn serve(process: u64, user: u64) -> Served {
    let mut config = HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real);
    (config.vram_bytes, config.page_table_bytes, config.system_bytes) = (8 << 20, 4 << 20, 32 << 20);
    (config.memory_files, config.isolates_processes) = (true, true);
    let host = Host::start(config).expect("the adapter starts");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel");
    let limits = Limits {
        process: ProcessLimits { message_bytes: process, ..ProcessLimits::default() },
        user: UserLimits { message_bytes: user, ..UserLimits::default() },
        ..Limits::default()
    };
    let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, limits).expect("a socket");
    Served { path, _daemon: daemon, _folder: folder }
}

/// A call whose message has so many packets, and a little more than those before the last.
fn long(packets: usize) -> Call {
    Call::Escape(EscapeCall {
        adapter: RawHandle::NONE,
        device: RawHandle::NONE,
        context: RawHandle::NONE,
        kind: 0,
        flags: EscapeFlags::empty(),
        private_data: vec![1; (packets - 1) * PACKET_BYTES as usize + 64],
    })
}

fn refused(link: &dyn Link, call: Call) -> Refusal {
    link.call(call).expect_err("it names no adapter")
}

fn no_room(refusal: &Refusal, of: &str) {
    assert_eq!((refusal.status, refusal.blame), (NtStatus::NO_MEMORY, Blame::Quota), "{refusal}");
    assert!(refusal.reason.starts_with("limit of messages: those of ") && refusal.reason.contains(of), "{refusal}");
}

#[test]
fn a_message_longer_than_there_is_room_for_is_refused_and_the_next_one_is_heard() {
    let served = serve(2 * PACKET_BYTES, u64::MAX);
    let link = SocketLink::connect(&served.path).expect("a kernel");
    for _ in 0..20 {
        // Those that fit come to the kernel, which finds nothing of that name or length; their room is free again.
        for packets in [1, 2, 3] {
            let refusal = refused(&*link, long(packets));
            assert_eq!((refusal.status, refusal.blame), (NtStatus::INVALID_PARAMETER, Blame::Caller), "{packets}");
        }
        no_room(&refused(&*link, long(4)), "the process would have more than 65536 bytes (process.messages)");
        no_room(&refused(&*link, long(100)), "the process would have more than 65536 bytes (process.messages)");
        assert!(matches!(link.call(Call::Adapter(AdapterCall::EnumAdapters)), Ok(Reply::Adapters(_))));
    }
    assert!(ESCAPE_BYTES_MAX as u64 >= 2 * PACKET_BYTES, "a call may be longer than two packets");
}

/// There is room for a message of so many packets, now or when the daemon has seen that other clients have gone.
fn has_room(link: &SocketLink, packets: usize, what: &str) {
    let began = Instant::now();
    while refused(link, long(packets)).blame == Blame::Quota {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
    }
}

/// Another client begins a message and does not go on: its lane and its stream.
fn begin(served: &Served) -> (Packets, Packets) {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
    rustix::net::connect(&socket, &SocketAddrUnix::new(&served.path).expect("a path")).expect("a kernel");
    let (stream, theirs) = Packets::pair().expect("two descriptors");
    let lane = Packets::new(socket);
    lane.send(&encode(&Hello::OURS, Vec::new()), &[theirs.as_fd()]).expect("it listens");
    lane.send(&encode(&Asked::only(Request::Now), Vec::new()), &[]).expect("it listens");
    let told: Told = loop {
        let (bytes, _) = lane.receive(1 << 16, 1).expect("an answer");
        if let Ok(told) = decode::<Told>(&bytes) {
            break told;
        }
    };
    assert!(matches!(told.response, Response::Now(_) | Response::Done));
    let more_follows = vec![0; 1 + PACKET_BYTES as usize];
    rustix::net::send(lane.as_fd(), &more_follows, SendFlags::empty()).expect("it listens");
    (lane, stream)
}

#[test]
fn the_processes_of_a_user_share_the_room_for_messages_and_give_it_back_when_they_go() {
    let served = serve(u64::MAX, 3 * PACKET_BYTES);
    let link = SocketLink::connect(&served.path).expect("a kernel");
    assert_eq!(refused(&*link, long(4)).status, NtStatus::INVALID_PARAMETER, "alone it has all");
    let began = Instant::now();
    let (begun, refusal) = loop {
        // Chance decides which message gets the room first; the daemon discards the other.
        let begun = begin(&served);
        std::thread::sleep(Duration::from_millis(20));
        let refusal = refused(&*link, long(4));
        if refusal.blame == Blame::Quota {
            break (begun, refusal);
        }
        assert!(began.elapsed() < Duration::from_secs(60), "its beginning takes no room");
    };
    no_room(&refusal, "user ");
    has_room(&link, 3, "the rest of the room is free");
    drop(begun);
    has_room(&link, 4, "a client that has gone keeps no room");
}
