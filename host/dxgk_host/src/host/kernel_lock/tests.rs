//! Which thread carries an interrupt to the kernel. In the crate, because a host without a dispatcher is needed to see it.

use std::sync::Arc;

use device_port::InterruptPin;

use super::*;
use crate::host::Threads;
use crate::{HostConfig, Profile};

/// A host in real time whose dispatcher has ended: no thread carries an interrupt but one that holds the kernel.
fn without_dispatcher() -> Arc<Host> {
    let config = HostConfig {
        vram_bytes: 1 << 20,
        page_table_bytes: 4 << 20,
        system_bytes: 4 << 20,
        ..HostConfig::new(Profile::named("discrete-4k").expect("a built-in profile"), Mode::Real)
    };
    let host = Host::start(config).expect("the host starts");
    let Threads { running, dispatcher } = lock(&host.threads).take().expect("a host in real time has threads");
    host.line.close();
    dispatcher.join().expect("it ends");
    drop(running);
    host.line.take();
    host
}

#[test]
fn a_thread_that_holds_the_kernel_carries_the_interrupts_that_come_meanwhile() {
    let host = without_dispatcher();
    let pin = host.line.pin(0);
    {
        let _held = host.hold();
        pin.assert();
    }
    assert_eq!(host.line.take(), 0, "carried");
    let mut held = host.hold();
    pin.assert();
    // Woken beforehand, it sleeps no time.
    std::thread::current().unpark();
    held.sleep();
    assert_eq!(host.line.take(), 0, "carried before the thread sleeps");
    drop(held);
    pin.assert();
    assert_eq!(host.line.take(), 1, "no thread holds the kernel: it is the dispatcher's");
}

#[test]
fn the_lending_thread_leaves_interrupts_to_the_dispatcher() {
    let host = without_dispatcher();
    {
        let _held = host.hold_as_lender();
        host.line.pin(0).assert();
    }
    assert_eq!(host.line.take(), 1);
}

#[test]
fn a_thread_that_unwinds_leaves_interrupts_to_the_dispatcher() {
    let host = without_dispatcher();
    let unwinds = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _held = host.hold();
        host.line.pin(0).assert();
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(unwinds.is_err());
    assert_eq!(host.line.take(), 1);
}
