//! A kernel in this program: a native fence that one thread waits for and another signals. `cargo run -p openwddm --example hello_fence`

use std::error::Error;
use std::sync::Arc;
use std::thread;

use d3dkmt::{Adapter, Device, NativeFenceRequest};
use dxgk_host::{Host, HostConfig, Mode, PROFILES, ProcessLink};

fn main() -> Result<(), Box<dyn Error>> {
    // A kernel, a software GPU and its driver, in this process and in real time. Any profile or file of an adapter does.
    let host = Host::start(HostConfig { vram_bytes: 64 << 20, ..HostConfig::new(&PROFILES[0], Mode::Real) })?;
    println!("adapter {}, stopped: {:?}", host.describe().name, host.stopped());

    // This program is one process of that kernel. Dropping the link is the process's death.
    let link = ProcessLink::new(Arc::clone(&host));
    let adapter = Adapter::open_first(link)?;
    let device = Device::create(&adapter)?;

    // The value lies in memory that this process maps for reading only: a load, no call.
    let fence = device.create_native_fence(NativeFenceRequest::default())?;
    println!("before: {}", fence.current());

    thread::scope(|scope| {
        // The kernel blocks the waiter's thread, and writes MonitoredValue, so that a signal knows that a waiter is there.
        let waiter = scope.spawn(|| device.wait(&[(&fence, 3)]));
        for value in 1..=3 {
            device.signal(&fence, value)?;
        }
        waiter.join().expect("the waiter does not panic")
    })?;
    println!("after: {}", fence.current());
    Ok(())
}
