//! What is known of each allocation: a table by slot. Parts keep what they alone need in tables of their own, by the same slot.

use crate::event::{Broken, Item, Key, Moved};

/// One living allocation that a list has named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub key: Key,
    /// The process that used it last; `None`: it has ended, and others share the allocation.
    pub process: Option<u32>,
    pub pages: u64,
    pub kind: u16,
    /// Whether a missing page has content outside.
    pub has_content: bool,
    /// False while it is pinned, locked, offered or in another segment.
    pub here: bool,
    /// Pages in the segment, from its begin.
    pub resident: u64,
    /// How many of these the segment alone has.
    pub dirty: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Subjects {
    slots: Vec<Option<Subject>>,
    resident: u64,
    /// Pages of those that are here, resident or not.
    named: u64,
    /// Pages of the living ones of each process.
    footprints: Vec<(u32, u64)>,
}

impl Subjects {
    /// The living one with this name.
    pub(crate) fn get(&self, key: Key) -> Option<&Subject> {
        self.slots.get(key.slot() as usize)?.as_ref().filter(|subject| subject.key == key)
    }

    fn get_mut(&mut self, key: Key) -> Option<&mut Subject> {
        self.slots.get_mut(key.slot() as usize)?.as_mut().filter(|subject| subject.key == key)
    }

    /// A list names it. An older tenant of the slot is gone.
    pub(crate) fn used(&mut self, process: u32, item: &Item) {
        let slot = item.key.slot() as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, None);
        }
        if self.get(item.key).is_none() {
            self.forget(slot);
        }
        let Item { key, pages, kind, has_content } = *item;
        if let Some(before) = self.slots[slot] {
            self.named -= if before.here { before.pages } else { 0 };
            self.leave(&before);
        }
        *self.footprint_of(process) += pages;
        self.named += pages;
        let process = Some(process);
        let subject = self.slots[slot].get_or_insert(Subject {
            key,
            process,
            pages,
            kind,
            has_content,
            here: true,
            resident: 0,
            dirty: 0,
        });
        (subject.process, subject.pages, subject.kind) = (process, pages, kind);
        (subject.has_content, subject.here) = (has_content, true);
    }

    /// Work has written it: what is resident of it is dirty, and what leaves has content.
    pub(crate) fn written(&mut self, key: Key) {
        if let Some(subject) = self.get_mut(key) {
            (subject.dirty, subject.has_content) = (subject.resident, true);
        }
    }

    /// Its pages have changed. `false`: it is no subject.
    pub(crate) fn moved(&mut self, moved: &Moved) -> bool {
        let Some(subject) = self.get_mut(moved.key) else { return false };
        let before = std::mem::replace(&mut subject.resident, moved.resident);
        subject.dirty = moved.dirty;
        self.resident = self.resident - before + moved.resident;
        true
    }

    /// Its content is void.
    pub(crate) fn dropped(&mut self, key: Key) {
        if let Some(subject) = self.get_mut(key) {
            (subject.dirty, subject.has_content) = (0, false);
        }
    }

    /// It is no subject until it is used again.
    pub(crate) fn elsewhere(&mut self, key: Key) {
        if let Some(subject) = self.get_mut(key) {
            let pages = if subject.here { subject.pages } else { 0 };
            (subject.here, subject.dirty) = (false, 0);
            let resident = std::mem::take(&mut subject.resident);
            self.resident -= resident;
            self.named -= pages;
        }
    }

    /// It is gone.
    pub(crate) fn died(&mut self, key: Key) {
        if self.get(key).is_some() {
            self.forget(key.slot() as usize);
        }
    }

    fn forget(&mut self, slot: usize) {
        if let Some(subject) = self.slots[slot].take() {
            self.resident -= subject.resident;
            self.named -= if subject.here { subject.pages } else { 0 };
            self.leave(&subject);
        }
    }

    /// A process has ended: what it used last is no process's until another one uses it.
    pub(crate) fn gone(&mut self, process: u32) {
        for subject in self.slots.iter_mut().flatten().filter(|subject| subject.process == Some(process)) {
            subject.process = None;
        }
        self.footprints.retain(|(of, _)| *of != process);
    }

    /// It counts no longer in the footprint of the process that used it last.
    fn leave(&mut self, subject: &Subject) {
        if let Some(process) = subject.process {
            *self.footprint_of(process) -= subject.pages;
        }
    }

    fn footprint_of(&mut self, process: u32) -> &mut u64 {
        let at = self.footprints.iter().position(|(of, _)| *of == process).unwrap_or_else(|| {
            self.footprints.push((process, 0));
            self.footprints.len() - 1
        });
        &mut self.footprints[at].1
    }

    /// Pages of all that a process has.
    pub(crate) fn footprint(&self, process: u32) -> u64 {
        self.footprints.iter().find(|(of, _)| *of == process).map_or(0, |(_, pages)| *pages)
    }

    /// Pages that all of them have in the segment.
    pub(crate) fn resident(&self) -> u64 {
        self.resident
    }

    /// Pages of those that are here, resident or not: what room they would need all together.
    pub(crate) fn named(&self) -> u64 {
        self.named
    }

    /// The living ones, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Subject> {
        self.slots.iter().flatten()
    }

    pub(crate) fn check(&self) -> Result<(), Broken> {
        let mut sum = 0;
        for subject in self.iter() {
            if subject.resident > subject.pages || subject.dirty > subject.resident {
                return Err(Broken(format!("more pages than there are: {subject:?}")));
            }
            sum += subject.resident;
        }
        if sum != self.resident {
            return Err(Broken(format!("{sum} pages are resident, and {} counted", self.resident)));
        }
        let named: u64 = self.iter().filter(|subject| subject.here).map(|subject| subject.pages).sum();
        if named != self.named {
            return Err(Broken(format!("{named} pages are here, and {} counted", self.named)));
        }
        for &(process, counted) in &self.footprints {
            let of = self.iter().filter(|subject| subject.process == Some(process));
            let pages: u64 = of.map(|subject| subject.pages).sum();
            if pages != counted {
                return Err(Broken(format!("process {process} has {pages} pages, and {counted} counted")));
            }
        }
        Ok(())
    }
}
