//! A call over a socket: there and back, against a message of as many bytes that a bare thread sends back. Called by the suite.
//!
//! Both ends are pinned in both, so what is compared is what stands around the two messages: the encoding, the lanes, the kernel's lock and
//! the call itself, which asks for a device's state and does nothing.

use std::os::fd::OwnedFd;
use std::time::Instant;

use kmt_calls::{AdapterCall, Call, DeviceCall, Reply};
use kmt_link::Link;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use wddm_types::RawHandle;

use crate::machine::{pin_here, pin_named};
use crate::report::{BenchError, Goal, Row};
use crate::served::Kernel;
use crate::statistic::{median, median_ratio};

/// Most that a call may cost of bare messages.
const GOAL: f64 = 1.3;
/// Bytes of a bare message: those of the call and of its answer are fewer.
const BYTES: usize = 16;

/// The row.
pub(crate) fn rows(pair: [usize; 2], batches: usize, smoke: bool) -> Result<Vec<Row>, BenchError> {
    let rounds = if smoke { 200 } else { 5_000 };
    let kernel = Kernel::start(16 << 20, true)?;
    let link = kernel.connect()?;
    let device = device(&*link)?;
    pin_here(pair[0]);
    let peer = Peer::start(pair[1]);
    call_ns(&*link, device, rounds)?;
    // Its first call has made the lanes that there will be.
    if !pin_named(&[("lane 1", pair[1])]) {
        return Ok(vec![Row::absent("a call over a socket", "its thread is not found")]);
    }
    let (mut calls, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..batches.max(3) {
        calls.push(call_ns(&*link, device, rounds)?);
        bare.push(peer.round_trip_ns(rounds));
    }
    let ratio = Some(median_ratio(&calls, &bare));
    Ok(vec![Row {
        measure: "a call over a socket, there and back".into(),
        ours: format!("{:.2} us", median(calls) / 1000.0),
        peer: format!("a bare message {:.2} us", median(bare) / 1000.0),
        ratio,
        goal: Goal::AtMost(GOAL),
    }])
}

fn device(link: &dyn Link) -> Result<RawHandle, BenchError> {
    let adapters = d3dkmt::enum_adapters(link)?;
    let Reply::Handle(adapter) = link.call(Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid: adapters[0].0 }))?
    else {
        return Err(BenchError::Device("an adapter without a handle".into()));
    };
    match link.call(Call::Device(DeviceCall::CreateDevice { adapter }))? {
        Reply::Handle(device) => Ok(device),
        reply => Err(BenchError::Device(format!("a device without a handle: {reply:?}"))),
    }
}

fn call_ns(link: &dyn Link, device: RawHandle, rounds: u32) -> Result<f64, BenchError> {
    let started = Instant::now();
    for _ in 0..rounds {
        link.call(Call::Device(DeviceCall::GetDeviceState { device }))?;
    }
    Ok(started.elapsed().as_nanos() as f64 / f64::from(rounds))
}

/// A thread that sends back what it gets, until the other end goes.
struct Peer {
    ours: OwnedFd,
}

impl Peer {
    fn start(processor: usize) -> Peer {
        let ends = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = ends.expect("two descriptors");
        std::thread::spawn(move || {
            pin_here(processor);
            let mut message = [0; BYTES];
            while let Ok((BYTES, _)) = rustix::net::recv(&theirs, &mut message, RecvFlags::empty()) {
                if rustix::net::send(&theirs, &message, SendFlags::NOSIGNAL).is_err() {
                    return;
                }
            }
        });
        Peer { ours }
    }

    fn round_trip_ns(&self, rounds: u32) -> f64 {
        let mut message = [7; BYTES];
        let started = Instant::now();
        for _ in 0..rounds {
            rustix::net::send(&self.ours, &message, SendFlags::NOSIGNAL).expect("the peer is there");
            rustix::net::recv(&self.ours, &mut message, RecvFlags::empty()).expect("the peer is there");
        }
        started.elapsed().as_nanos() as f64 / f64::from(rounds)
    }
}
