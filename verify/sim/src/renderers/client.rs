//! A process of packets: one call at a time, from its plan; what the kernel answers is compared with the model.

use std::collections::VecDeque;
use std::sync::Arc;

use dxgk_host::{Host, Pending, ProcessLink};
use kmt_calls::LockFlags;
use shared_words::Word;
use softgpu_spec::private_data::Kind;
use wddm_types::{Luid, ProcessId, RawHandle};

use super::Broken;
use super::model::{Context, Paging, Surface};
use super::plan::Job;
use crate::random::Random;
use crate::shape;

/// One thing that a client does.
#[derive(Clone, Debug)]
pub enum Op {
    Open(Luid),
    Device,
    PagingQueue,
    Context {
        at: usize,
    },
    Progress {
        at: usize,
    },
    Create {
        slot: usize,
        kind: Kind,
        bytes: u64,
        home: usize,
        pinned: bool,
    },
    Map {
        slot: usize,
    },
    Resident {
        slots: Vec<usize>,
    },
    Evict {
        slots: Vec<usize>,
        lazily: bool,
    },
    /// The same of those that are listed by then.
    EvictListed {
        slots: Vec<usize>,
        lazily: bool,
    },
    Destroy {
        slot: usize,
    },
    /// A buffer is made, and what it takes is done before.
    Work {
        at: usize,
        /// The surface that is locked meanwhile.
        locked: Option<usize>,
    },
    Submit(Job),
    /// Behind a submission: its value.
    Signal {
        at: usize,
    },
    /// Later submissions wait for the work of another context.
    GpuWait {
        at: usize,
        on: usize,
    },
    /// And for the paging fence.
    GpuWaitPaging {
        at: usize,
        value: u64,
    },
    Await {
        at: usize,
        value: u64,
    },
    AwaitPaging {
        slot: usize,
    },
    Lock {
        slot: usize,
        /// Of the legacy lock; `None`: Lock2.
        flags: Option<LockFlags>,
    },
    /// The CPU looks at what is locked, and may write it.
    CpuWork {
        slot: usize,
        write: bool,
    },
    Unlock {
        slot: usize,
        legacy: bool,
    },
    Priority {
        at: usize,
        priority: i32,
    },
    Class(u32),
    DestroyContext {
        at: usize,
    },
    /// A destroyed context signals nothing more: the CPU signals for its waiters.
    CatchUp {
        at: usize,
    },
    DestroyDevice,
    Die,
}

/// A process.
pub struct Client {
    pub id: ProcessId,
    pub calls: u64,
    pub(super) link: Option<Arc<ProcessLink>>,
    pub(super) random: Random,
    pub(super) first_generation: bool,
    /// Its allocations have their addresses from their creation on.
    pub(super) cpu_addresses: bool,
    pub(super) steps_left: u64,
    pub(super) next_seed: u64,
    pub(super) adapter: RawHandle,
    pub(super) device: RawHandle,
    pub(super) paging: Option<Paging>,
    pub(super) contexts: Vec<Context>,
    pub(super) surfaces: Vec<Option<Surface>>,
    pub(super) plan: VecDeque<Op>,
    pub(super) ending: bool,
    blocked: Option<(Pending, Op)>,
    /// A lock that would not wait was refused rightly if this was not reached then.
    pub(super) busy_before: u64,
}

impl Client {
    /// A client that will do about so many things.
    pub fn new(host: &Arc<Host>, mut random: Random, steps: u64, world: shape::Kind) -> Client {
        let link = ProcessLink::new(Arc::clone(host));
        let next_seed = random.draw() << 16;
        let mut client = Client {
            id: link.process(),
            calls: 0,
            link: Some(link),
            random,
            first_generation: world == shape::Kind::Patched,
            cpu_addresses: world == shape::Kind::CpuAddresses,
            steps_left: steps,
            next_seed,
            adapter: RawHandle::NONE,
            device: RawHandle::NONE,
            paging: None,
            contexts: Vec::new(),
            surfaces: Vec::new(),
            plan: VecDeque::from([Op::Open(host.luid()), Op::Device, Op::PagingQueue]),
            ending: false,
            blocked: None,
            busy_before: 0,
        };
        client.plan_setup();
        client
    }

    /// Whether the client has gone.
    pub fn is_dead(&self) -> bool {
        self.link.is_none()
    }

    /// Whether it can do something.
    pub fn is_able(&self) -> bool {
        !self.is_dead() && self.blocked.is_none()
    }

    /// The operation that it waits for, for people.
    pub fn waits_for(&self) -> Option<String> {
        self.blocked.as_ref().map(|(_, op)| format!("process {} in {op:?}", self.id.0))
    }

    /// Does the next thing, if it can.
    pub fn turn(&mut self, host: &Host) -> Result<(), Broken> {
        if !self.is_able() {
            return Ok(());
        }
        if self.plan.is_empty() {
            self.choose();
        }
        let op = self.plan.pop_front().expect("there is always something to do");
        let Some(call) = self.issue(&op).map_err(|place| ("content", place))? else { return Ok(()) };
        self.calls += 1;
        match host.begin_call(self.id, call) {
            Ok(result) => self.answered(op, result).map_err(|place| ("answers", place)),
            Err(pending) => {
                self.blocked = Some((pending, op));
                Ok(())
            }
        }
    }

    /// Takes its answer, if it has come.
    pub fn take_answer(&mut self, host: &Host) -> Result<(), Broken> {
        let Some((pending, _)) = &self.blocked else { return Ok(()) };
        let Some(result) = host.take_answer(*pending) else { return Ok(()) };
        let (_, op) = self.blocked.take().expect("just seen");
        self.answered(op, result).map_err(|place| ("answers", place))
    }

    /// The value that a context has got to.
    pub(super) fn reached(&self, at: usize) -> u64 {
        let progress = self.contexts[at].progress.expect("set up");
        Word::load(self.link().system_memory().word(progress.value.0))
    }

    pub(super) fn paging_reached(&self) -> u64 {
        Word::load(self.link().system_memory().word(self.paging.expect("set up").fence.current.0))
    }

    pub(super) fn surface(&self, slot: usize) -> &Surface {
        self.surfaces[slot].as_ref().expect("the plan names surfaces that there are")
    }

    pub(super) fn surface_mut(&mut self, slot: usize) -> &mut Surface {
        self.surfaces[slot].as_mut().expect("the plan names surfaces that there are")
    }

    pub(super) fn link(&self) -> &Arc<ProcessLink> {
        self.link.as_ref().expect("who acts is alive")
    }

    pub(super) fn handles(&self, slots: &[usize]) -> Vec<RawHandle> {
        slots.iter().map(|slot| self.surface(*slot).handle).collect()
    }

    pub(super) fn die(&mut self) {
        self.surfaces.clear();
        self.plan.clear();
        self.link = None;
    }
}
