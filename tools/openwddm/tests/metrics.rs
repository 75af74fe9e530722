//! Figures of a served kernel as a collector gets them.

mod daemon;
mod served;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use daemon::Daemon;
use served::{NEVER, openwddm};
use softgpu_umd::{Gpu, SurfaceKind};

const MIB: u64 = 1 << 20;

/// A port that was free a moment ago.
fn port() -> SocketAddr {
    TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr()).expect("a port")
}

fn get(address: SocketAddr, target: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Samples by name and labels.
fn samples(address: SocketAddr) -> BTreeMap<String, f64> {
    let answer = get(address, "/metrics");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("text/plain; version=0.0.4"), "{head}");
    let of =
        |line: &str| line.rsplit_once(' ').map(|(name, value)| (name.to_owned(), value.parse().expect("a number")));
    body.lines().filter(|line| !line.starts_with('#')).filter_map(of).collect()
}

fn sum(samples: &BTreeMap<String, f64>, family: &str, label: &str) -> f64 {
    let begins = format!("{family}{{");
    samples.iter().filter(|(name, _)| name.starts_with(&begins) && name.contains(label)).map(|(_, value)| value).sum()
}

#[test]
fn a_collector_finds_what_processes_do_and_counters_only_rise() {
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, address) = (folder.path().join("kernel"), port());
    let arguments = ["--adapter", "discrete-4k,vram=128MiB", "--system", "1GiB", "--metrics", &address.to_string()];
    let mut daemon = Daemon::start(&socket, &arguments);
    let gpu = Gpu::open(kmt_link::socket::SocketLink::connect(&daemon.socket).expect("a kernel")).expect("an adapter");
    let resident = |samples: &BTreeMap<String, f64>| sum(samples, "openwddm_process_resident_bytes", "process=\"");
    let before = samples(address);
    let surface = gpu.create_surface(SurfaceKind::Local, 4 * MIB).expect("a surface");
    gpu.pin(&surface).expect("room");
    let after = samples(address);
    assert_eq!(resident(&after) - resident(&before), (4 * MIB) as f64);
    let comm = std::fs::read_to_string("/proc/self/comm").expect("this program has a name");
    let own = format!(",pid=\"{}\",name=\"{}\"}}", std::process::id(), comm.trim_end());
    assert_eq!(sum(&after, "openwddm_process_info", &own), 1.0, "{own} in {after:?}");
    assert_eq!(sum(&after, "openwddm_segment_capacity_bytes", "segment=\"1\""), (128 * MIB) as f64);
    let mut running =
        openwddm(&["run", "--steps", "1000", "--connect"]).arg(&daemon.socket).spawn().expect("it starts");
    let (began, mut last) = (Instant::now(), after);
    for look in 0.. {
        let now = samples(address);
        for (name, before) in
            last.iter().filter(|(name, _)| name.split('{').next().is_some_and(|name| name.ends_with("_total")))
        {
            assert!(now.get(name).is_none_or(|now| now >= before), "{name} fell");
        }
        let done = sum(&now, "openwddm_node_buffers_completed_total", "");
        last = now;
        if look >= 20 && done > 0.0 {
            break;
        }
        assert!(began.elapsed() < NEVER, "nothing is done");
    }
    // Ending what has ended already is no fault.
    let _ = running.kill();
    let _ = running.wait();
    assert!(get(address, "/").starts_with("HTTP/1.1 404 "));
    gpu.pin(&surface).expect("the kernel is where it was");
    rustix::process::kill_process(rustix::process::Pid::from_child(&daemon.child), rustix::process::Signal::TERM)
        .expect("it runs");
    assert_eq!(daemon.child.wait().expect("it ends").code(), Some(0), "it stops as one without figures does");
    assert!(TcpStream::connect(address).is_err(), "the server listens no more");
}

#[test]
fn an_address_that_cannot_be_had_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (socket, taken) = (folder.path().join("kernel"), TcpListener::bind(("127.0.0.1", 0)).expect("a port"));
    let address = taken.local_addr().expect("an address").to_string();
    for (address, part) in [(address.as_str(), "in use"), ("nowhere", "ADDRESS:PORT")] {
        let output =
            openwddm(&["serve", "--metrics", address, "--socket"]).arg(&socket).output().expect("the binary starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && text.contains(part), "{text}");
    }
}
