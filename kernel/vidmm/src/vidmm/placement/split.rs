//! Lists that are residency (memory §6.1, §7.3, §7.4): VidMm brings in the allocations that a command buffer of a first-generation driver
//! names, and no device lists them before or after. If not all of them fit at once, VidMm *splits* the buffer: it goes through the patch
//! locations in the order of use, and where it cannot bring one in beside the others, a portion ends. Allocations bound to a slot there
//! stay for the next portion; the rest may go.
//!
//! ```text
//! split offsets   0        s1        s2        s3       end
//! names           a b      c         a d       b
//!                 ├─ a, b, c fit ─────┤─ a, d, what is bound, b fit ─┤
//! ```
//! A portion's needs are on the device's list while it is decided, and leave it, lazily and behind the portion, when the caller says behind
//! which point ([`VidMm::portion_queued`]). So nothing moves under it, and the needs of the next one may take its place.
//!
//! VidMm suspends no device to make a portion longer (memory §8.1 step 3: split comes before suspend); only when the first command of a
//! portion does not fit otherwise do others give way, as for a device whose turn it is. A buffer is begun only if each of its commands has
//! room; VidMm finishes a begun buffer even if that suspends devices of the same or lower protection. Its first portions may lie where a
//! later one was found room: then the device's own listed content is placed anew around that. Content that other devices list moves within its
//! segment only where no portion follows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use wddm_types::FencePoint;

use crate::device::EvictFlags;
use crate::paging::{Cause, Work};
use crate::slab::{AllocationId, DeviceId};
use crate::vidmm::VidMm;
use crate::vidmm::placement::plan::{Claim, Limit, Plan, Takes};
use crate::vidmm::placement::residency::MakeResidentError;

/// A patch location, as far as residency goes (memory §7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The slot that is bound.
    pub slot: u32,
    /// The buffer can run up to here without it. Never falls along a list.
    pub split_offset: u32,
    /// The allocation that is bound; `None`: the slot is unbound.
    pub allocation: Option<AllocationId>,
}

/// Where a portion begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The first patch location that belongs to it.
    pub next: usize,
    /// Its first byte.
    pub offset: u32,
    /// The allocations that are bound there, by slot.
    bound: BTreeMap<u32, AllocationId>,
}

/// A part of a buffer whose needs fit together.
#[derive(Debug)]
pub struct Portion<F> {
    /// Its patch locations.
    pub uses: Range<usize>,
    /// Everything that is there while it runs, each once.
    pub needs: Vec<AllocationId>,
    /// The works that it waits for, in this order; empty: everything was resident.
    pub work: Vec<Work<F>>,
    /// Where the next one begins; `None`: it goes to the end of the buffer.
    pub cut: Option<Cut>,
}

/// Why a portion could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortionError {
    /// The allocations that the command at this offset needs at once never fit beside the device's own list.
    #[error("what the command at {split_offset:#x} needs does not fit into memory at once")]
    Unsplittable {
        /// Where it begins.
        split_offset: u32,
        /// As of MakeResident.
        bytes_to_trim: u64,
    },
    /// Others have the room, and do not give way now.
    #[error("what the command at {split_offset:#x} needs has no room beside what others hold")]
    Held {
        /// Where it begins.
        split_offset: u32,
        /// As of MakeResident.
        bytes_to_trim: u64,
    },
    /// It is locked, and may be nowhere but where the GPU cannot reach it.
    #[error("a locked allocation cannot be rendered from")]
    Locked,
    /// It is to be reclaimed first.
    #[error("an offered allocation is to be reclaimed first")]
    Offered,
}

/// How a command may come to its room, the cheapest way first. The last is only for buffers that were begun.
const WAYS: [Takes; 4] = [Takes::Victims, Takes::Ranked, Takes::Turn, Takes::Any];

/// How a command comes to its room.
struct Way {
    takes: Takes,
    /// Unneeded content lies in the way, perhaps some that the command names: all of it leaves first.
    clears: bool,
    /// The device's own listed content lies in the way: it is placed anew.
    anew: bool,
}

/// How far a portion goes.
struct Reach {
    next: usize,
    bound: BTreeMap<u32, AllocationId>,
    needs: BTreeSet<AllocationId>,
    plan: Plan,
}

impl<F: Copy + Eq> VidMm<F> {
    /// Brings in what the next portion of a buffer needs, and says how far that goes. The portion at the beginning of a
    /// buffer is made only if every later one can be: an error leaves everything as it was.
    ///
    /// # Errors
    /// See [`PortionError`]; the device must not be suspended.
    // spec: memory §7.3, memory §7.4, memory §8.1
    pub fn bring_in(&mut self, device: DeviceId, uses: &[Use], from: &Cut) -> Result<Portion<F>, PortionError> {
        assert!(!self.is_suspended(device), "a suspended device brings nothing in");
        let rest = &uses[from.next..];
        if rest.iter().filter_map(|u| u.allocation).any(|id| self.allocations[id].is_offered()) {
            return Err(PortionError::Offered);
        }
        if self.withholds(device) {
            return self.bring_in_behind(device, uses);
        }
        let (reach, cleared) = match self.reach(device, uses, from) {
            Some(reach) if reach.next == uses.len() => (reach, None),
            short => {
                if from.next == 0 {
                    self.check_commands(device, uses)?;
                }
                match short {
                    Some(reach) => (reach, None),
                    None => self.first_command(device, uses, from)?,
                }
            }
        };
        Ok(self.carry_portion_out(device, uses, from, reach, cleared))
    }

    /// Whether a device that withholds content may withhold this as well, for a buffer that uses all of it at once.
    pub fn may_bring_in_behind(&self, device: DeviceId, content: &[AllocationId]) -> bool {
        self.plan_behind(claim_of(device, Takes::Lower), content).is_ok()
    }

    /// A device that withholds content withholds what a buffer needs as well, all at once: the content comes with a turn after what the device
    /// withholds already.
    fn bring_in_behind(&mut self, device: DeviceId, uses: &[Use]) -> Result<Portion<F>, PortionError> {
        let (_, _, needs) = commands(uses, &Cut::default()).last().unwrap_or_default();
        let needs = list_of(&needs);
        self.withhold_more(claim_of(device, Takes::Lower), &needs)
            .map_err(|error| self.portion_error(device, &needs, 0, error))?;
        Ok(Portion { uses: 0..uses.len(), needs, work: Vec::new(), cut: None })
    }

    /// The portion is queued: its needs leave the list behind this point. Allocations that it does not write stay clean.
    // spec: memory §7.3, memory §8.3
    pub fn portion_queued(
        &mut self,
        device: DeviceId,
        needs: &[AllocationId],
        writes: impl Fn(AllocationId) -> bool,
        point: FencePoint<F>,
    ) -> Vec<Work<F>> {
        let (written, read): (Vec<_>, Vec<_>) = needs.iter().copied().partition(|id| writes(*id));
        let mut leave = |list: &[AllocationId], not_written_to| {
            let flags = EvictFlags { only_if_necessary: true, not_written_to };
            self.evict(device, list, flags, &[point]).expect("they were counted when the portion was made")
        };
        [leave(&written, false), leave(&read, true)].into_iter().flatten().collect()
    }

    /// The longest portion from a cut that fits without another device being stopped; `None`: not even its first command does.
    fn reach(&self, device: DeviceId, uses: &[Use], from: &Cut) -> Option<Reach> {
        let plan = |next: usize, needs: &BTreeSet<AllocationId>| {
            self.plan(portion_claim(device, Takes::Victims, next == uses.len()), &list_of(needs)).ok()
        };
        // A buffer without addresses is one command that needs nothing.
        let nothing = || (from.next, from.bound.clone(), BTreeSet::new());
        let all = commands(uses, from).last().or_else(|| Some(nothing()));
        if let Some((next, bound, needs)) = all
            && let Some(plan) = plan(next, &needs)
        {
            return Some(Reach { next, bound, needs, plan });
        }
        let mut longest = None;
        for (next, bound, needs) in commands(uses, from) {
            let Some(plan) = plan(next, &needs) else { break };
            longest = Some(Reach { next, bound, needs, plan });
        }
        longest
    }

    /// The first command of a portion: unneeded content in its way leaves first; then others give way.
    fn first_command(
        &mut self,
        device: DeviceId,
        uses: &[Use],
        from: &Cut,
    ) -> Result<(Reach, Option<Work<F>>), PortionError> {
        let (next, bound, needs) = commands(uses, from).next().expect("what needs nothing fits");
        // Devices that were to give way may run or be within budget by now: a begun buffer suspends them all the same.
        let ways = if from.next == 0 { &WAYS[..3] } else { &WAYS };
        let is_whole = next - from.next == uses.len();
        let way = self.way(device, &needs, uses[from.next].split_offset, ways, is_whole)?;
        let cleared = way.clears.then(|| {
            let mut batch = self.works.begin();
            self.clear_victims(device, *needs.first().expect("what needs nothing fits"), &mut batch);
            self.finish(batch, false)
        });
        let (claim, list) = (portion_claim(device, way.takes, is_whole), list_of(&needs));
        let plan = if way.anew { self.plan_anew(claim, &list) } else { self.plan(claim, &list) };
        let plan = plan.expect("it was just planned for the same room");
        Ok((Reach { next, bound, needs, plan }, cleared.flatten()))
    }

    /// Whether each command with what is bound at it fits by itself: then a buffer that was begun can be finished.
    fn check_commands(&self, device: DeviceId, uses: &[Use]) -> Result<(), PortionError> {
        let mut at = Cut::default();
        while at.next < uses.len() {
            let (next, bound, needs) = commands(uses, &at).next().expect("there are more");
            let split_offset = uses[at.next].split_offset;
            let is_whole = next - at.next == uses.len();
            self.way(device, &needs, split_offset, &WAYS[..3], is_whole)?;
            if at.next > 0 {
                // Where its portion finds room now something else may lie when its turn comes.
                let finished = self.plan_emptied_anew(portion_claim(device, Takes::Any, is_whole), &list_of(&needs));
                finished.map_err(|error| self.portion_error(device, &list_of(&needs), split_offset, error))?;
            }
            at = Cut { next, offset: 0, bound };
        }
        Ok(())
    }

    /// The cheapest way to have these at once.
    fn way(
        &self,
        device: DeviceId,
        needs: &BTreeSet<AllocationId>,
        split_offset: u32,
        ways: &[Takes],
        is_whole: bool,
    ) -> Result<Way, PortionError> {
        let list = list_of(needs);
        let mut refused = None;
        for &takes in ways {
            let claim = portion_claim(device, takes, is_whole);
            match self.plan(claim, &list) {
                Ok(_) => return Ok(Way { takes, clears: false, anew: false }),
                Err(error) => refused = refused.or(Some(error)),
            }
            if self.plan_emptied(claim, &list).is_ok() {
                return Ok(Way { takes, clears: true, anew: false });
            }
            let is_last_way = ways.last() == Some(&takes);
            if is_last_way && !is_whole && self.plan_emptied_anew(claim, &list).is_ok() {
                return Ok(Way { takes, clears: true, anew: true });
            }
        }
        Err(self.portion_error(device, &list, split_offset, refused.expect("there are some ways")))
    }

    fn portion_error(
        &self,
        device: DeviceId,
        list: &[AllocationId],
        split_offset: u32,
        error: MakeResidentError,
    ) -> PortionError {
        let bytes_to_trim = match error {
            MakeResidentError::Locked { .. } => return PortionError::Locked,
            MakeResidentError::Offered { .. } => return PortionError::Offered,
            MakeResidentError::OutOfMemory { bytes_to_trim } => bytes_to_trim,
        };
        match self.plan_alone(claim_of(device, Takes::Victims), list) {
            Ok(_) => PortionError::Held { split_offset, bytes_to_trim },
            Err(_) => PortionError::Unsplittable { split_offset, bytes_to_trim },
        }
    }

    fn carry_portion_out(
        &mut self,
        device: DeviceId,
        uses: &[Use],
        from: &Cut,
        reach: Reach,
        cleared: Option<Work<F>>,
    ) -> Portion<F> {
        let Reach { next, bound, needs, mut plan } = reach;
        let (begin, all) = (from.next, uses.len());
        debug_assert!(
            begin < next && next <= all || next == all,
            "a portion goes from {begin} to {next} of {all} uses"
        );
        let needs: Vec<AllocationId> = needs.into_iter().collect();
        self.foresee_use(device, &needs);
        for &id in &needs {
            self.count_up(device, id);
        }
        let mut batch = self.works.begin();
        let coming: Vec<AllocationId> = needs.iter().copied().filter(|id| !self.is_resident(*id)).collect();
        self.begin(&mut plan, device, &mut batch);
        self.carry_out(plan, Cause::MakeResident, &mut batch);
        let came = self.finish(batch, false);
        self.come_with(came.as_ref(), coming);
        let work = cleared.into_iter().chain(came).collect();
        let cut = uses.get(next).map(|first| Cut { next, offset: first.split_offset, bound });
        Portion { uses: from.next..next, needs, work, cut }
    }
}

/// The claim of a portion. Content moves within its segment only if no portion follows: where it goes, it may stand in the way of a later one.
fn portion_claim(device: DeviceId, takes: Takes, moves: bool) -> Claim {
    Claim { moves, ..claim_of(device, takes) }
}

fn claim_of(device: DeviceId, takes: Takes) -> Claim {
    Claim { device, takes, limit: Limit::Maximum, for_holders: false, moves: true }
}

fn list_of(needs: &BTreeSet<AllocationId>) -> Vec<AllocationId> {
    needs.iter().copied().collect()
}

/// Portions that begin at a cut, each a command longer: where each ends, what is bound there, what it needs. A command is the
/// patch locations of one split offset: what they replace is not needed by a portion that begins with them.
fn commands<'a>(
    uses: &'a [Use],
    from: &Cut,
) -> impl Iterator<Item = (usize, BTreeMap<u32, AllocationId>, BTreeSet<AllocationId>)> + 'a {
    let (mut next, mut bound, mut needs) = (from.next, from.bound.clone(), None);
    uses[from.next..].chunk_by(|one, other| one.split_offset == other.split_offset).map(move |command| {
        for of in command {
            match of.allocation {
                Some(id) => bound.insert(of.slot, id),
                None => bound.remove(&of.slot),
            };
        }
        let needs: &mut BTreeSet<AllocationId> = needs.get_or_insert_with(|| bound.values().copied().collect());
        needs.extend(command.iter().filter_map(|of| of.allocation));
        next += command.len();
        (next, bound.clone(), needs.clone())
    })
}
