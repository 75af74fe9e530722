//! The check of every rule that holds after every call ([`Machine::check_invariants`]), and a digest of the state
//! ([`Machine::state_digest`]). A debug facility for fuzzers, simulators and drivers' own tests: it reads everything, is slow, and
//! nothing in the kernel calls it. `crate::invariant` has the table of the rules.

mod shared;

use std::collections::BTreeSet;

use vidmm::{BrokenInvariant, StateDigest};
use wddm_types::ProcessId;

use crate::adapter::Adapter;
use crate::invariant::{Checked, ensure};
use crate::machine::Machine;
use crate::number::SectionNumber;
use crate::object::Object;
use crate::process::Process;
use crate::section::Section;

impl Machine {
    /// Looks at everything.
    ///
    /// # Errors
    /// The first rule that does not hold: a defect of the kernel, never of a caller or a driver.
    // spec: memory §9.3
    pub fn check_invariants(&self) -> Result<(), BrokenInvariant> {
        for (id, process) in &self.processes {
            self.check_handles(*id, process)?;
        }
        self.check_reachable()?;
        self.check_news()?;
        self.check_sync_objects()?;
        self.check_keyed_mutexes()?;
        self.check_names()?;
        self.check_named_resources()?;
        self.check_cross_adapter()?;
        self.check_sections()?;
        self.adapters.iter().try_for_each(|adapter| adapter.check_invariants(&self.sections.lent_by(adapter.index())))
    }

    /// That no object has two handles is checked with the handles.
    fn check_reachable(&self) -> Checked {
        let named: BTreeSet<Object> =
            self.processes.values().flat_map(|process| process.named().map(|(_, object)| *object)).collect();
        let held = |(number, section): (SectionNumber, &Section)| section.holder().map(|_| Object::Section(number));
        let of_adapters = self.adapters.iter().flat_map(Adapter::objects);
        let opens = self.keyed_mutexes.opens().map(|(open, _)| Object::KeyedMutex(open));
        for object in of_adapters.chain(self.sections.iter().filter_map(held)).chain(opens) {
            // A process that died while an adapter slept has no handles any more; its objects there go when the adapter wakes.
            let lives = self.process_of(&object).filter(|process| self.processes.contains_key(process));
            let Some(process) = lives else { continue };
            ensure(named.contains(&object), "reachable", || format!("process {}: {object:?}", process.0))?;
        }
        Ok(())
    }

    fn check_handles(&self, id: ProcessId, process: &Process) -> Checked {
        let mut seen: Vec<Object> = Vec::new();
        for (handle, object) in process.named() {
            let live = match object {
                Object::Event(number) => process.events.get(*number).is_some(),
                object => self.process_of(object) == Some(id),
            };
            let opened = matches!(object, Object::Adapter(_));
            ensure(live || opened, "handles", || format!("process {}: {handle:?} names {object:?}", id.0))?;
            if !opened {
                seen.push(*object);
            }
        }
        seen.sort_unstable();
        let twice = seen.windows(2).find(|pair| pair[0] == pair[1]);
        ensure(twice.is_none(), "handles", || format!("process {}: {twice:?} has two handles", id.0))
    }

    /// The process that a handle of this object may be in.
    fn process_of(&self, object: &Object) -> Option<ProcessId> {
        match object {
            Object::Section(number) => self.sections.get(*number)?.holder(),
            Object::KeyedMutex(open) => Some(self.keyed_mutexes.open_of(*open)?.process),
            object => self.adapter_of(object)?.process_of(object),
        }
    }

    fn adapter_of(&self, object: &Object) -> Option<&Adapter> {
        let (Object::Adapter(index)
        | Object::Device(index, _)
        | Object::PagingQueue(index, _)
        | Object::Allocation(index, _)
        | Object::Instance(index, ..)
        | Object::Resource(index, _)
        | Object::Context(index, _)
        | Object::PacketContext(index, _)
        | Object::Queue(index, _)
        | Object::Doorbell(index, _)
        | Object::Fence(index, _)
        | Object::Legacy(index, _)
        | Object::Registration(index, _)) = object
        else {
            return None;
        };
        self.adapters.get(*index)
    }

    /// A digest of everything that a refused call must leave as it was: handles, objects, memory. It leaves out clocks, counters and the
    /// hardware's own progress, so compare when nothing is under way.
    pub fn state_digest(&self) -> StateDigest {
        let mut digest = StateDigest::default();
        for (id, process) in &self.processes {
            let handles: Vec<_> = process.named().collect();
            digest.add("handles of process", &id.0, &(process.terms, handles));
            process.events.iter().for_each(|(number, event)| digest.add("event", &(id.0, number), event));
        }
        self.nt_handles.iter().for_each(|(id, value)| digest.add("NT handle", &id, value));
        self.nt_handles.names().for_each(|(name, named)| digest.add("name", &name, named));
        self.globals.iter().for_each(|(id, value)| digest.add("global handle", &id, &value));
        self.cross_fences.iter().for_each(|(id, value)| digest.add("cross-adapter fence", &id, value));
        self.sections.iter().for_each(|(id, value)| digest.add("section", &id, value));
        self.keyed_mutexes.iter().for_each(|(id, value)| digest.add("keyed mutex", &id, value));
        self.keyed_mutexes.opens().for_each(|(id, value)| digest.add("open of a keyed mutex", &id, value));
        for (number, adapter) in self.adapters.iter().enumerate() {
            let mut of_adapter = StateDigest::default();
            adapter.add_to(&mut of_adapter);
            // Each adapter numbers its objects by itself.
            digest.include(if number == 0 { of_adapter } else { of_adapter.of(&format!("adapter {number}")) });
        }
        digest
    }
}
