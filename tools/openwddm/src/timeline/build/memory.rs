//! Events of memory: moves, the bytes that each process holds, budgets, devices suspended until their lists are back.

use events::{Cause, Event, Move};

use super::{Builder, CounterKind, Note, SliceKind, TrackKind};

impl Builder<'_> {
    pub(super) fn memory_moved(&mut self, event: &Event) {
        let Event::Moved { work, process, allocation, segment, bytes, how, why, runs } = event else { return };
        let track = self.lanes.track(TrackKind::Moves, 0, || "memory that moved".to_string());
        let mut notes = vec![
            Note::Number("allocation", *allocation),
            Note::Number("bytes", *bytes),
            Note::Text("cause", why.name().to_string()),
            Note::Number("segment", u64::from(*segment)),
            Note::Number("work", *work),
            Note::Number("process", u64::from(*process)),
        ];
        match why {
            Cause::Pressure { for_allocation } => {
                notes.push(Note::Number("victim", *allocation));
                notes.push(Note::Number("made room for", *for_allocation));
            }
            Cause::Compaction { for_allocation } => {
                notes.push(Note::Number("moved out of the way of", *for_allocation));
            }
            _ => {}
        }
        self.instant(track, how.name(), notes);
        let sum = &mut self.moved[*how as usize];
        *sum = sum.saturating_add(*bytes);
        let sum = *sum;
        match how {
            Move::PageIn => self.count(CounterKind::Sum("paged in"), sum),
            Move::PageOut => self.count(CounterKind::Sum("paged out"), sum),
            Move::Discard | Move::Fill | Move::Relocate | Move::Map | Move::Unmap => {}
        }
        let owner = self.owners.of_allocation(*allocation).unwrap_or(0);
        let comes = matches!(how, Move::PageIn | Move::Fill | Move::Map);
        if why.stays() || *segment == 0 {
            // A copy: nothing has entered or left the segment; or system memory, which is none and whose pages several may have.
            return;
        }
        if *how == Move::Relocate {
            // Within one work no move goes to pages that another one leaves.
            for pair in runs.chunks_exact(2) {
                self.places.left(self.now_ns, *segment, pair[0]);
                self.places.came(self.now_ns, *segment, pair[1], *allocation, owner);
            }
            return;
        }
        for run in runs {
            if comes {
                self.places.came(self.now_ns, *segment, *run, *allocation, owner);
            } else {
                self.places.left(self.now_ns, *segment, *run);
            }
        }
        if matches!(how, Move::Map | Move::Unmap) {
            // It holds no memory of a segment.
            return;
        }
        let held = self.held.entry(owner).or_default();
        *held = if comes { held.saturating_add(*bytes) } else { held.saturating_sub(*bytes) };
        let held = *held;
        self.count(CounterKind::Held(owner), held);
    }

    /// The budget of a process in local memory has changed.
    pub(super) fn budget_changed(&mut self, process: u32, local: bool, bytes: u64) {
        if local {
            self.count(CounterKind::Budget(process), bytes);
        }
    }

    /// The kernel suspends a device, for the reasons that are the bits of the event.
    pub(super) fn device_suspended(&mut self, device: u64, reasons: u32) {
        if self.suspended.contains_key(&device) {
            return;
        }
        let process = self.owners.of_device(device).unwrap_or(0);
        let track = self.lanes.track(TrackKind::Suspended, device, || format!("process {process} suspended"));
        let why: Vec<&str> = [(1, "residency"), (2, "page tables"), (4, "power"), (8, "relocation")]
            .iter()
            .filter(|(bit, _)| reasons & bit != 0)
            .map(|(_, name)| *name)
            .collect();
        let mut notes = vec![Note::Number("device", device), Note::Text("reasons", why.join(", "))];
        // The kernel tells the cause just before it stops the process's devices.
        if reasons & 2 != 0
            && let Some(cause) = self.stillness.get(&process)
        {
            notes.push(Note::Text("cause", cause.name().to_string()));
        }
        let slice = self.open(track, SliceKind::Suspended, "suspended", notes);
        self.suspended.insert(device, slice);
    }

    /// A leaf table gets 4-KB entries: drawn where the kernel suspends its process for that.
    pub(super) fn table_converted(&mut self, event: &Event) {
        let Event::LeafTableConverted { work, process, va, size_bytes, why } = event else { return };
        let track = self.lanes.track(TrackKind::Moves, 0, || "memory that moved".to_string());
        let notes = vec![
            Note::Number("process", u64::from(*process)),
            Note::Number("va", *va),
            Note::Number("covers bytes", *size_bytes),
            Note::Number("work", *work),
            Note::Text("cause", why.name().to_string()),
        ];
        self.instant(track, "leaf table converted", notes);
    }

    /// It runs again, or is gone.
    pub(super) fn device_resumed(&mut self, device: u64) {
        if let Some(slice) = self.suspended.remove(&device) {
            self.close(slice);
        }
    }
}
