//! The lies of a driver, and how often it tells them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ddi::DriverStatus;

use crate::dice::Dice;

/// The lies of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lie {
    Caps,
    Segments,
    SegmentCount,
    PagingBufferInfo,
    Nodes,
    Levels,
    MmuCaps,
    Size,
    Sets,
    AllocationFlags,
    Handles,
    Refusals,
    Busy,
    Insufficient,
    Fatal,
    Written,
    Suspend,
    Doorbell,
    Fences,
    Interrupts,
    ContextInfo,
    Render,
    Submit,
    Window,
    StandardData,
    Hardware,
    Displays,
    Flips,
    FlipLog,
    Blanks,
    Silence,
    Groups,
    Resets,
    Escapes,
}

const LIES: [Lie; 26] = [
    Lie::Caps,
    Lie::Segments,
    Lie::SegmentCount,
    Lie::PagingBufferInfo,
    Lie::Nodes,
    Lie::Levels,
    Lie::MmuCaps,
    Lie::Size,
    Lie::Sets,
    Lie::AllocationFlags,
    Lie::Handles,
    Lie::Refusals,
    Lie::Busy,
    Lie::Insufficient,
    Lie::Fatal,
    Lie::Written,
    Lie::Suspend,
    Lie::Doorbell,
    Lie::Fences,
    Lie::Interrupts,
    Lie::ContextInfo,
    Lie::Render,
    Lie::Submit,
    Lie::Window,
    Lie::StandardData,
    Lie::Hardware,
];

/// Those about displays, in worlds that have some.
const SHOWN_LIES: [Lie; 4] = [Lie::Displays, Lie::Flips, Lie::FlipLog, Lie::Blanks];

/// Lies about engines that hang, in worlds where the kernel looks for hangs. Silence makes them hang.
const HANGING_LIES: [Lie; 2] = [Lie::Groups, Lie::Resets];

/// The optional subjects of lies in a world.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// It has displays.
    pub shows: bool,
    /// The kernel looks for engines that hang.
    pub hangs: bool,
    /// Processes make private calls.
    pub escapes: bool,
}

/// The lies that a driver tells, and how often it has told them.
#[derive(Debug)]
struct Plan {
    dice: Dice,
    kinds: Vec<Lie>,
    percent: u64,
    told: std::collections::BTreeMap<String, u64>,
}

/// The plan of one driver, shared with the caller, which reads it afterwards.
#[derive(Clone, Debug)]
pub struct Lies(Arc<Mutex<Plan>>);

impl Lies {
    /// One to three kinds of lies, and one about what only such worlds have.
    pub fn new(mut dice: Dice, world: World) -> Lies {
        let World { shows, hangs, escapes } = world;
        let mut kinds: Vec<Lie> = (0..1 + dice.below(3)).filter_map(|_| dice.pick(&LIES)).collect();
        if shows {
            kinds.retain(|_| dice.chance(20));
            kinds.extend(dice.pick(&SHOWN_LIES));
        }
        if hangs {
            kinds.retain(|_| dice.chance(20));
            kinds.push(Lie::Silence);
            kinds.extend(dice.pick(&HANGING_LIES));
        }
        if escapes {
            kinds.push(Lie::Escapes);
        }
        let percent = dice.pick(&[1, 3, 10, 40, 100]).unwrap_or(10);
        Lies(Arc::new(Mutex::new(Plan { dice, kinds, percent, told: Default::default() })))
    }

    /// How often each lie was told.
    pub fn told(&self) -> std::collections::BTreeMap<String, u64> {
        self.plan().told.clone()
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this lie is told now; with chance to make it up.
    pub fn tells(&self, lie: Lie) -> Option<Dice> {
        let mut plan = self.plan();
        let percent = plan.percent;
        if !plan.kinds.contains(&lie) || !plan.dice.chance(percent) {
            return None;
        }
        *plan.told.entry(format!("{lie:?}")).or_default() += 1;
        let seed = plan.dice.below(u64::MAX);
        Some(plan.dice.seeded(seed))
    }

    /// A refusal out of the blue.
    pub fn refusal(&self, lie: Lie) -> Result<(), DriverStatus> {
        match self.tells(lie).map(|mut dice| dice.below(4)) {
            None => Ok(()),
            Some(0) => Err(DriverStatus::InvalidParameter("a lie")),
            Some(1) => Err(DriverStatus::NoMemory("a lie")),
            Some(2) => Err(DriverStatus::NotSupported("a lie")),
            Some(_) => Err(DriverStatus::Unsuccessful("a lie")),
        }
    }
}
