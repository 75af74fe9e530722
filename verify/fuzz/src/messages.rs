//! Messages that no client sends, against the daemon: bytes of good messages that are cut, longer, changed in places, or made up, with
//! descriptors or without, from clients that know nothing and from such as have come a long way in good order first (`attacker`). One client
//! beside behaves (`honest`). Both have video memory locked, which is lent to them. Real threads and time: what is checked holds whatever
//! their order.

mod attacker;
mod honest;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dxgk_host::{Host, HostConfig, Mode, Profile, StoresWait};
use dxgkd::{Daemon, Limits};
use kmt_calls::Mapped;
use wddm_types::CpuPlace;

use attacker::Attacker;
use honest::Honest;

/// The counts of a run's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Messages sent.
    pub sent: u64,
    /// Of these, answered; the others ended their connection, or waited in a call until the connection was given up.
    pub answered: u64,
    /// Connections that were needed.
    pub connections: u64,
    /// Locks of video memory where it lay, of the attackers and of the client that behaves: pages of the device were lent for them.
    pub lent: [u64; 2],
}

impl fmt::Display for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Messages { sent, answered, connections, lent: [theirs, honest] } = self;
        write!(
            f,
            "{sent} messages, {answered} of them answered, over {connections} connections; video memory was lent for {theirs} locks "
        )?;
        write!(f, "of theirs and {honest} of the client that behaves")
    }
}

/// How long everything that a client had may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(60);
/// How long there is nothing new when everything has been done.
const SETTLED: Duration = Duration::from_millis(200);
/// Of so many messages some lock video memory.
const LENT_FROM: u64 = 1000;
/// So many times more are sent before the fuzzer says that none did.
const MORE_MAX: u64 = 20;

/// Sends so many, and more until video memory has been lent to an attacker.
///
/// # Errors
/// The rule that did not hold.
pub fn run_messages(seed: u64, count: u64) -> Result<Messages, String> {
    let path = std::env::temp_dir().join(format!("openwddm-fuzz-{}-{seed}", std::process::id()));
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let config = HostConfig {
        vram_bytes: 8 << 20,
        page_table_bytes: 4 << 20,
        system_bytes: 32 << 20,
        isolates_processes: true,
        ..HostConfig::new(profile, Mode::Real)
    };
    let host = Host::start(config).map_err(|error| error.to_string())?;
    let daemon = Daemon::serve(Arc::clone(&host), &path, 0o600, Limits::default());
    let daemon = daemon.map_err(|error| error.to_string())?;
    // A client keeps as many connections as its threads have needed at once, which depends on the machine: descriptors are counted while
    // there is no client. The first one leaves those that the program keeps for good.
    let mut first = Honest::connect(&path, host.luid())?;
    first.behave()?;
    first.rest()?;
    drop(first);
    only_left(&daemon, 0)?;
    let files = settled_files();
    let mut honest = Honest::connect(&path, host.luid())?;
    honest.behave()?;
    let mut attacker = Attacker::new(seed, path, host.luid());
    let mut report = Messages::default();
    let lends = StoresWait::here() == StoresWait::InTheOperatingSystem && count >= LENT_FROM;
    // On a busy machine spies give up more of their waiting calls, and lose their connections: then it takes more messages.
    let messages_max = if lends { count.saturating_mul(MORE_MAX) } else { count };
    while report.sent < count || report.lent[0] == 0 && report.sent < messages_max {
        attacker.message(&mut report)?;
        report.sent += 1;
        if report.sent.is_multiple_of(1000) {
            honest.behave()?;
            host.check_invariants().map_err(|broken| broken.to_string())?;
        }
    }
    drop(attacker);
    only_left(&daemon, honest::PROCESSES)?;
    honest.behave()?;
    honest.rest()?;
    report.lent[1] = honest.lent;
    if lends && report.lent.contains(&0) {
        return Err(format!("video memory is not lent: {report}"));
    }
    host.check_invariants().map_err(|broken| broken.to_string())?;
    drop(honest);
    only_left(&daemon, 0)?;
    // A thread of the kernel closes the descriptors that a dead process had given out.
    let began = Instant::now();
    while open_files().len() > files.len() {
        if began.elapsed() > GONE_WITHIN {
            return Err(format!("descriptors {files:?} before, {:?} after", open_files()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(report)
}

/// Waits until the daemon has so many clients and no more.
fn only_left(daemon: &Daemon, clients: u64) -> Result<(), String> {
    let began = Instant::now();
    while daemon.clients() != clients {
        if began.elapsed() > GONE_WITHIN {
            return Err(format!("{} clients are left, {clients} are there to stay", daemon.clients()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The descriptors that this program has once their number has settled.
fn settled_files() -> Vec<PathBuf> {
    let (mut files, began, mut since) = (open_files(), Instant::now(), Instant::now());
    while since.elapsed() < SETTLED && began.elapsed() < GONE_WITHIN {
        std::thread::sleep(Duration::from_millis(1));
        let now = open_files();
        if now.len() != files.len() {
            (files, since) = (now, Instant::now());
        }
    }
    files
}

/// The names of the descriptors that this program has, daemon and clients included, without eventfds.
fn open_files() -> Vec<PathBuf> {
    // PANIC: every system that runs this has procfs, and nothing else lists descriptors.
    let open = std::fs::read_dir("/proc/self/fd").expect("procfs").filter_map(Result::ok);
    let names = open.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
    names.filter(|name| !name.ends_with("anon_inode:[eventfd]")).collect()
}

/// Whether a lock shows the device's own memory, which a process elsewhere sees only by being lent it.
fn shows_video_memory(mapped: &Mapped) -> bool {
    mapped.runs.iter().any(|run| run.place == CpuPlace::Bar)
}
