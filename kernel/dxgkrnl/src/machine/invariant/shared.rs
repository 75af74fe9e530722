//! The rules about what several processes or adapters have: objects that names keep, and the names.

use std::collections::{BTreeMap, BTreeSet};

use wddm_types::{AdapterIndex, RawHandle};

use crate::adapter::Adapter;
use crate::global_handle::Global;
use crate::invariant::{Checked, ensure};
use crate::machine::Machine;
use crate::nt_handle::Shared;
use crate::number::{CrossFenceNumber, KeyedMutexOpenNumber, ResourceBodyNumber, SectionNumber, SyncObjectNumber};
use crate::quota::Commitments;

impl Machine {
    /// Between two calls no adapter has news that it, or the machine, has not carried out.
    pub(super) fn check_news(&self) -> Checked {
        self.adapters.iter().try_for_each(|adapter| {
            let left = adapter.news_left_over();
            ensure(left.is_none(), "due", || format!("adapter {} still has {left:?}", adapter.index().0))?;
            let told = !adapter.has_news_for_others();
            ensure(told, "due", || format!("adapter {} still has news for the others", adapter.index().0))
        })
    }

    /// An object without a word in memory is there as long as it is open or an NT handle names it; a global handle names what is
    /// there and knows its name.
    // spec: sync §2.2, sync §3.4
    pub(super) fn check_sync_objects(&self) -> Checked {
        for adapter in self.adapters.iter() {
            let index = adapter.index();
            let names = |number: SyncObjectNumber| {
                let names = |shared: &Shared| match *shared {
                    Shared::SyncObject { adapter, object, .. } => (adapter, object) == (index, number),
                    Shared::ResourceSet { adapter, sync_object, .. } => (adapter, sync_object) == (index, number),
                    _ => false,
                };
                self.nt_handles.iter().filter(|(_, handle)| names(&handle.object)).count()
            };
            adapter.check_sync_objects(names)?;
        }
        let known = |object: &Global| {
            let name = match *object {
                Global::Resource { adapter, body } => self.adapters[adapter].global_of_resource(body),
                Global::SyncObject { adapter, object } => self.adapters[adapter].global_of_sync_object(object),
                Global::KeyedMutex { mutex } => self.keyed_mutexes.get(mutex).map(|mutex| mutex.global),
            };
            name.unwrap_or_default()
        };
        let wrong = self.globals.iter().find(|(name, object)| known(object) != *name);
        ensure(wrong.is_none(), "sync objects", || format!("a global handle of what is not there: {wrong:?}"))?;
        let names: BTreeSet<RawHandle> = self.globals.iter().map(|(name, _)| name).collect();
        let lost = self.adapters.iter().flat_map(Adapter::globals).find(|name| !names.contains(name));
        ensure(lost.is_none(), "sync objects", || format!("the machine does not know {lost:?}"))
    }

    /// A resource counts the NT handles that name it, and is there as long as one does.
    // spec: sync §2.2, memory §2.7
    pub(super) fn check_named_resources(&self) -> Checked {
        let mut named: BTreeMap<(AdapterIndex, ResourceBodyNumber), u32> = BTreeMap::new();
        for (_, handle) in self.nt_handles.iter() {
            if let Shared::Resource { adapter, body } | Shared::ResourceSet { adapter, body, .. } = handle.object {
                *named.entry((adapter, body)).or_default() += 1;
            }
        }
        for adapter in self.adapters.iter() {
            let index = adapter.index();
            adapter.check_names_of_resources(|body| named.remove(&(index, body)).unwrap_or_default())?;
        }
        ensure(named.is_empty(), "names", || format!("NT handles name resources that there are not: {named:?}"))
    }

    /// A name is there as long as an NT handle has it, and they count it rightly.
    // spec: sync §2.2
    pub(super) fn check_names(&self) -> Checked {
        for (name, named) in self.nt_handles.names() {
            let handles = self.nt_handles.iter().filter(|(_, handle)| handle.name.as_deref() == Some(name)).count();
            let sound = handles > 0 && handles == named.handles as usize;
            ensure(sound, "names", || format!("{name:?} has {handles} NT handles: {named:?}"))?;
        }
        let known = |name: &str| self.nt_handles.names().any(|(known, _)| known == name);
        let lost = self.nt_handles.iter().find(|(_, handle)| handle.name.as_deref().is_some_and(|name| !known(name)));
        ensure(lost.is_none(), "names", || format!("{lost:?} has a name that no look-up finds"))
    }

    /// A keyed mutex is there as long as it is open or an NT handle names it, and its owner and its waiters have it open.
    // spec: sync §2.2
    pub(super) fn check_keyed_mutexes(&self) -> Checked {
        for (number, mutex) in self.keyed_mutexes.iter() {
            let of_it = self.keyed_mutexes.opens().filter(|(_, open)| open.mutex == number);
            let opens: Vec<KeyedMutexOpenNumber> = of_it.map(|(open, _)| open).collect();
            let names =
                |shared: &Shared| matches!(shared, Shared::ResourceSet { keyed_mutex, .. } if *keyed_mutex == number);
            let names = self.nt_handles.iter().filter(|(_, handle)| names(&handle.object)).count();
            let sound = mutex.is_held_by(&opens, names) && opens.len() + names > 0;
            let named = mutex.global == RawHandle::NONE || self.globals.get(mutex.global).is_some();
            ensure(sound && named, "keyed mutexes", || format!("{number:?}, opens {opens:?}: {mutex:?}"))?;
        }
        let stray = self.keyed_mutexes.opens().find(|(_, open)| self.keyed_mutexes.get(open.mutex).is_none());
        ensure(stray.is_none(), "keyed mutexes", || format!("an open of nothing: {stray:?}"))
    }

    /// A fence of several adapters is known to each of them as what it is, and is there as long as it is named or reached.
    pub(super) fn check_cross_adapter(&self) -> Checked {
        for (number, fence) in self.cross_fences.iter() {
            let names = |object: &Shared| matches!(object, Shared::CrossFence { fence, .. } if *fence == number);
            let named = self.nt_handles.iter().filter(|(_, handle)| names(&handle.object)).count();
            let reached = self.adapters.iter().any(|adapter| adapter.reaches_common_word(number));
            let sound = named == fence.names() as usize && (named > 0 || reached);
            ensure(sound, "cross-adapter fences", || format!("{number:?} has {named} names: {fence:?}"))?;
            self.adapters.iter().try_for_each(|adapter| adapter.check_part_in(number, fence.word()))?;
        }
        let known = |number: &CrossFenceNumber| self.cross_fences.iter().any(|(known, _)| known == *number);
        let unknown = self.adapters.iter().flat_map(Adapter::parts_in_common).find(|(cross, _)| !known(cross));
        ensure(unknown.is_none(), "cross-adapter fences", || format!("an adapter has {unknown:?}, which there is not"))
    }

    /// A section is there as long as its handle is open or an allocation of any adapter lies in it.
    // spec: memory §2.2, memory §2.7
    pub(super) fn check_sections(&self) -> Checked {
        let mut inside: BTreeMap<SectionNumber, u32> = BTreeMap::new();
        for adapter in self.adapters.iter() {
            adapter.uses_of_sections().for_each(|section| *inside.entry(section).or_default() += 1);
        }
        for (number, section) in self.sections.iter() {
            let users = inside.remove(&number).unwrap_or_default() + u32::from(section.holder().is_some());
            let sound = users > 0 && users == section.users();
            ensure(sound, "sections", || format!("{number:?} has {users} users: {section:?}"))?;
        }
        let mut sums = Commitments::default();
        self.sections.iter().for_each(|(_, section)| sums.charge(section.process(), section.size_bytes()));
        let counted = self.sections.committed();
        ensure(sums.iter().eq(counted.iter()), "quotas", || format!("{sums:?} in sections, counted {counted:?}"))?;
        ensure(inside.is_empty(), "sections", || format!("allocations lie in what there is not: {inside:?}"))
    }
}
