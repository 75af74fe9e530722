//! Two processes that do not trust each other at one kernel: the first serves it and signals a fence, the second is a process of its own
//! that opens the fence by its name and waits. `cargo run -p openwddm --example two_processes`

use std::error::Error;
use std::path::Path;
use std::process::Command;

use d3dkmt::{Adapter, Device, FenceFlags, NativeFenceRequest, OpenSyncObjectRequest, SyncObjectAccess};
use dxgk_host::{Host, HostConfig, Mode, PROFILES};
use dxgkd::{Daemon, Limits, Socket};
use kmt_link::socket::SocketLink;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [] => first(),
        [socket, name] => second(Path::new(socket), name.parse()?),
        _ => Err("usage: two_processes".into()),
    }
}

/// Serves a kernel, and is its first client.
fn first() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("openwddm-example-{}", std::process::id()));
    let config = HostConfig { vram_bytes: 64 << 20, ..HostConfig::new(&PROFILES[0], Mode::Real) };
    // Each process is lent its own memory, and nothing of others'.
    let host = Host::start(HostConfig { isolates_processes: true, ..config })?;
    let _daemon = Daemon::listen(host, Socket::bind(&path, 0o600)?, Limits::default())?;

    let device = Device::create(&Adapter::open_first(SocketLink::connect(&path)?)?)?;
    let flags = FenceFlags::SHARED | FenceFlags::NT_SECURITY_SHARING;
    let fence = device.create_native_fence(NativeFenceRequest { flags, ..NativeFenceRequest::default() })?;
    // A name of 64 random bits: a process that is told it may open the fence, and wait for it only.
    let name = fence.share(SyncObjectAccess::WAIT | SyncObjectAccess::STANDARD_RIGHTS_READ)?;
    let mut other = Command::new(std::env::current_exe()?).arg(&path).arg(name.token().to_string()).spawn()?;
    device.signal(&fence, 7)?;
    let ended = other.wait()?;
    println!("first: the other process ended with {ended}");
    if ended.success() { Ok(()) } else { Err("the other process failed".into()) }
}

/// Waits for the fence of another process.
fn second(socket: &Path, name: u64) -> Result<(), Box<dyn Error>> {
    let device = Device::create(&Adapter::open_first(SocketLink::connect(socket)?)?)?;
    let fence = device.open_native_fence(OpenSyncObjectRequest { handle: name, ..OpenSyncObjectRequest::default() })?;
    device.wait(&[(&fence, 7)])?;
    println!("second: the fence has {}", fence.current());
    match device.signal(&fence, 8) {
        Ok(()) => Err("this process may not signal it".into()),
        Err(refusal) => {
            println!("second: its own signal is refused, {}", refusal.status);
            Ok(())
        }
    }
}
