//! The real driver, late with its faults: it knows of a fault, and the kernel does not yet.

use std::sync::{Arc, Mutex};

use ddi::{DmaFault, DriverStatus, Interrupt, Miniport, Notify, PageFault};
use miniport_filter::{Filter, Function, passes_on};

/// A fault of which the kernel has not heard.
#[derive(Clone, Copy)]
pub(super) enum Fault {
    Packet(DmaFault),
    Queue(PageFault),
}

/// When the driver tells of a fault.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Tells {
    #[default]
    AtOnce,
    /// When the kernel hears it again after it has refused something.
    BehindARefusal,
    /// With the next packet that is done, and behind that.
    BehindAPacket,
}

#[derive(Default)]
pub(super) struct Known {
    pub(super) tells: Tells,
    pub(super) kept: Vec<Fault>,
    /// What it refuses once, when it knows of a fault or `lies`.
    pub(super) refuses: Option<Function>,
    pub(super) lies: bool,
    pub(super) refused: bool,
    /// Calls of the function that it refuses, or has refused, since then.
    pub(super) asked: Vec<Function>,
}

/// The real driver, late with its faults.
#[derive(Clone, Default)]
pub(super) struct Late(pub(super) Arc<Mutex<Known>>);

passes_on!(Late);

impl Filter for Late {
    fn called(&self, function: Function, _arguments: &dyn Fn() -> String) {
        self.0.lock().unwrap().asked.push(function);
    }
    fn refuses(&self, function: Function) -> Option<DriverStatus> {
        let mut known = self.0.lock().unwrap();
        if known.refuses != Some(function) || known.kept.is_empty() && !known.lies {
            return None;
        }
        known.refuses = None;
        known.refused = !known.kept.is_empty();
        known.asked.clear();
        Some(DriverStatus::Unsuccessful("a whim"))
    }
    fn answered(&self, _function: Function, refusal: Option<String>) {
        let mut known = self.0.lock().unwrap();
        known.refused |= refusal.is_some() && !known.kept.is_empty();
    }
    fn interrupt_routine(&mut self, next: &mut dyn Miniport, notify: &mut dyn Notify) -> bool {
        let mut heard = Hears { known: &self.0, notify };
        let found = next.interrupt_routine(&mut heard);
        let mut known = self.0.lock().unwrap();
        let tells = std::mem::take(&mut known.refused) && known.tells == Tells::BehindARefusal;
        if tells {
            tell(&mut known, notify);
        }
        found || tells
    }
}

fn tell(known: &mut Known, notify: &mut dyn Notify) {
    for fault in known.kept.drain(..) {
        notify.interrupt(match fault {
            Fault::Packet(fault) => Interrupt::DmaPageFaulted(fault),
            Fault::Queue(fault) => Interrupt::HwQueuePageFaulted(fault),
        });
    }
}

struct Hears<'a> {
    known: &'a Mutex<Known>,
    notify: &'a mut dyn Notify,
}

impl Notify for Hears<'_> {
    fn interrupt(&mut self, interrupt: Interrupt<'_>) {
        let mut known = self.known.lock().unwrap();
        match interrupt {
            Interrupt::DmaPageFaulted(fault) if known.tells != Tells::AtOnce => known.kept.push(Fault::Packet(fault)),
            Interrupt::HwQueuePageFaulted(fault) if known.tells != Tells::AtOnce => {
                known.kept.push(Fault::Queue(fault));
            }
            Interrupt::DmaCompleted { .. } if known.tells == Tells::BehindAPacket => {
                self.notify.interrupt(interrupt);
                tell(&mut known, self.notify);
            }
            other => self.notify.interrupt(other),
        }
    }
}
