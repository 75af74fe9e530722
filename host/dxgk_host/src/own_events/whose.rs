//! Which processes an event concerns, and how each of them may see it. The event's declaration says which object the event concerns
//! ([`Event::concerned`]); objects belong to the processes that created or opened them. Called by `own_events`.

use std::collections::{BTreeMap, VecDeque};

use events::{Cause, Concerned, Event};

/// A kind of objects that have numbers of their own on each adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Device,
    Allocation,
    Queue,
    Fence,
    PacketContext,
    SyncObject,
}

/// An object: its adapter, its kind, its number.
type Object = (Option<u32>, Kind, u64);

/// A paging work, as far as processes that ask have to do with it.
#[derive(Default)]
struct Work {
    /// Bytes copied in and out, by the process whose memory it is.
    bytes: BTreeMap<u32, (u64, u64)>,
    /// It moves memory of a process that does not ask, too.
    has_others: bool,
}

/// Who has what, as far as processes ask.
#[derive(Default)]
pub(super) struct Owners {
    /// An object that a process which does not ask has, too, has more than one here.
    objects: BTreeMap<Object, Vec<u32>>,
    /// How many objects each process has here.
    counts: BTreeMap<u32, usize>,
    /// Destroyed allocations of each process, the oldest first: their memory leaves later, and that still concerns the process.
    doomed: BTreeMap<u32, VecDeque<Object>>,
    works: BTreeMap<(Option<u32>, u64), Work>,
}

/// Most destroyed allocations of a process that are remembered.
const DOOMED_MAX: usize = 16_384;
/// Most objects of a process that are remembered; those behind them have no owner here. No event tells the end of a device.
const OBJECTS_MAX: usize = 65_536;
/// Stands for a process that had an object before one that asks opened it.
const ANOTHER: u32 = u32::MAX;
/// Most works that are remembered: one that an adapter lost is never told to be complete.
const WORKS_MAX: usize = 65_536;

impl Owners {
    /// Learns who has what from an event, and answers with the processes that it concerns; `asks`: a process is one that asks.
    pub fn hear(&mut self, adapter: Option<u32>, event: &Event, asks: impl Fn(u32) -> bool) -> Vec<u32> {
        self.learn(adapter, event, asks);
        let of = |kind, number| self.only_owner(adapter, kind, number);
        let mut processes = match event.concerned() {
            Concerned::Process(process) => vec![process],
            Concerned::Device(device) => of(Kind::Device, device),
            Concerned::Allocation(allocation) => of(Kind::Allocation, allocation),
            Concerned::Queue(queue) => of(Kind::Queue, queue),
            Concerned::Fence(fence) => of(Kind::Fence, fence),
            Concerned::PacketContext(context) => of(Kind::PacketContext, context),
            Concerned::SyncObject(object) => of(Kind::SyncObject, object),
            Concerned::Work(work) => self.works.get(&(adapter, work)).map_or(Vec::new(), Work::processes),
            Concerned::Kernel => Vec::new(),
        };
        match event {
            Event::PagingQueued { work, fence, .. } => {
                // The process that waits for the fence sees the work through, also where others' memory moves.
                for waits in self.of(adapter, Kind::Fence, *fence).to_vec() {
                    self.work(adapter, *work).bytes.entry(waits).or_default();
                    if !processes.contains(&waits) {
                        processes.push(waits);
                    }
                }
            }
            Event::Moved { work, bytes, how, .. } if *work != 0 => {
                let work = self.work(adapter, *work);
                work.has_others |= processes.is_empty();
                for process in &processes {
                    let (came, went) = work.bytes.entry(*process).or_default();
                    match how {
                        events::Move::PageIn => *came += bytes,
                        events::Move::PageOut => *went += bytes,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        processes
    }

    /// The event as a process may see it: numbers and bytes of others are 0.
    pub fn as_seen_by(&self, process: u32, adapter: Option<u32>, event: &Event) -> Event {
        let mut seen = event.clone();
        let only_own = |other: &mut u32| {
            if *other != process {
                *other = 0;
            }
        };
        match &mut seen {
            Event::Moved { process: requester, why, .. } => {
                only_own(requester);
                if let Cause::Pressure { for_allocation } | Cause::Compaction { for_allocation } = why
                    && !self.of(adapter, Kind::Allocation, *for_allocation).contains(&process)
                {
                    *for_allocation = 0;
                }
            }
            Event::TablesEvicted { for_process, .. } => only_own(for_process),
            Event::PagingQueued { work, paging_queue, fence, value, in_bytes, out_bytes, held_for } => {
                if !self.of(adapter, Kind::Fence, *fence).contains(&process) {
                    (*paging_queue, *fence, *value, *held_for) = (0, 0, 0, 0);
                }
                (*in_bytes, *out_bytes) = self.share(process, adapter, *work).0;
            }
            Event::PagingSubmitted { work, words, progress_value } if self.share(process, adapter, *work).1 => {
                (*words, *progress_value) = (0, 0);
            }
            Event::KeyedMutexReleased { waits, .. } => *waits = 0,
            Event::QueueCreated { owner, .. } => *owner = 0,
            _ => {}
        }
        seen
    }

    /// The object of an event that tells its end has no owner any more.
    pub fn ended(&mut self, adapter: Option<u32>, event: &Event) {
        let object = match event {
            Event::AllocationDestroyed { allocation } => return self.doom((adapter, Kind::Allocation, *allocation)),
            Event::QueueDestroyed { queue } => (Kind::Queue, *queue),
            Event::FenceDestroyed { fence } => (Kind::Fence, *fence),
            Event::PacketContextDestroyed { context } => (Kind::PacketContext, *context),
            Event::SyncObjectDestroyed { object } => (Kind::SyncObject, *object),
            Event::PagingCompleted { work } => {
                self.works.remove(&(adapter, *work));
                return;
            }
            _ => return,
        };
        self.remove((adapter, object.0, object.1));
    }

    /// An allocation was destroyed, and is remembered for a while.
    fn doom(&mut self, object: Object) {
        let [process] = self.of(object.0, object.1, object.2) else { return };
        let doomed = self.doomed.entry(*process).or_default();
        doomed.push_back(object);
        if doomed.len() > DOOMED_MAX
            && let Some(oldest) = doomed.pop_front()
        {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, object: Object) {
        for process in self.objects.remove(&object).unwrap_or_default() {
            if let Some(count) = self.counts.get_mut(&process) {
                *count -= 1;
            }
        }
    }

    /// A process has gone.
    pub fn forget(&mut self, process: u32) {
        self.objects.retain(|_, processes| {
            processes.retain(|one| *one != process);
            processes.iter().any(|one| *one != ANOTHER)
        });
        self.counts.remove(&process);
        self.doomed.remove(&process);
        self.works.values_mut().for_each(|work| work.has_others |= work.bytes.remove(&process).is_some());
        self.works.retain(|_, work| !work.bytes.is_empty());
    }

    /// The process that alone has an object: deeds of others at an object that several processes have are theirs.
    fn only_owner(&self, adapter: Option<u32>, kind: Kind, number: u64) -> Vec<u32> {
        match self.of(adapter, kind, number) {
            [only] => vec![*only],
            _ => Vec::new(),
        }
    }

    fn of(&self, adapter: Option<u32>, kind: Kind, number: u64) -> &[u32] {
        self.objects.get(&(adapter, kind, number)).map_or(&[], Vec::as_slice)
    }

    fn work(&mut self, adapter: Option<u32>, work: u64) -> &mut Work {
        if self.works.len() >= WORKS_MAX {
            self.works.pop_first();
        }
        self.works.entry((adapter, work)).or_default()
    }

    /// A process's bytes of a work, in and out, and whether the work has to do with others, too.
    fn share(&self, process: u32, adapter: Option<u32>, work: u64) -> ((u64, u64), bool) {
        let Some(work) = self.works.get(&(adapter, work)) else { return ((0, 0), false) };
        (work.bytes.get(&process).copied().unwrap_or_default(), work.has_others || work.bytes.len() > 1)
    }

    fn learn(&mut self, adapter: Option<u32>, event: &Event, asks: impl Fn(u32) -> bool) {
        let (kind, number, processes) = match event {
            Event::DeviceCreated { process, device } => (Kind::Device, *device, vec![*process]),
            Event::AllocationCreated { device, allocation, .. } => {
                (Kind::Allocation, *allocation, self.of(adapter, Kind::Device, *device).to_vec())
            }
            Event::QueueCreated { queue, process, .. } => (Kind::Queue, *queue, vec![*process]),
            Event::FenceCreated { process, fence, .. } | Event::FenceOpened { process, fence, .. } => {
                (Kind::Fence, *fence, vec![*process])
            }
            Event::PacketContextCreated { context, device, .. } => {
                (Kind::PacketContext, *context, self.of(adapter, Kind::Device, *device).to_vec())
            }
            Event::SyncObjectCreated { device, object, .. } => {
                (Kind::SyncObject, *object, self.of(adapter, Kind::Device, *device).to_vec())
            }
            Event::SyncObjectOpened { process, object, .. } => (Kind::SyncObject, *object, vec![*process]),
            _ => return,
        };
        let opened = matches!(event, Event::FenceOpened { .. } | Event::SyncObjectOpened { .. });
        for process in processes {
            let owners = self.objects.get(&(adapter, kind, number));
            if owners.is_some_and(|owners| owners.contains(&process)) {
                continue;
            }
            if !asks(process) {
                // One that asks has the object already: it is no longer that one's alone.
                if let Some(owners) = self.objects.get_mut(&(adapter, kind, number)) {
                    owners.push(ANOTHER);
                }
                continue;
            }
            let count = self.counts.entry(process).or_default();
            if *count == OBJECTS_MAX {
                continue;
            }
            *count += 1;
            let had_before = if opened && owners.is_none() { vec![ANOTHER] } else { Vec::new() };
            self.objects.entry((adapter, kind, number)).or_insert(had_before).push(process);
        }
    }
}

impl Work {
    fn processes(&self) -> Vec<u32> {
        self.bytes.keys().copied().collect()
    }
}
