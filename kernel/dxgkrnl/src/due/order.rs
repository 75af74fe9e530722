//! The order in which an adapter settles (decision 0038): [`SettleStep`] has a row for each step with the reason for its place, and
//! [`settle_in_order`] walks through them; the adapter carries out each step and says what came of it. So the order is here alone, and a test
//! walks through it without an adapter.
//!
//! The walk is code and not data, because each turn of the machine goes through all of it: with a table to read, the jumps to the steps
//! cost a call that finds nothing due as much as the steps themselves.
//!
//! Where the reason of a place is not known to be needed, it still is the place: the pinned runs of the simulator hold it. A change
//! that wants another order changes the walk first and sees what fails.

/// A step of settling, with the reason for its place. One that occurs in several places has a name for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleStep {
    /// The kernel learns of works and paging fences that the hardware has finished before any rule asks for them.
    ReapPaging,
    /// Destroyed and evicted allocations whose last use is over give their memory back by works and deferred ends, which the pump behind
    /// carries out.
    BuryDead,
    /// Packets need memory in place, so the ring comes first.
    PumpPaging,
    /// Contexts whose waits are over compete for the nodes before anything else is let go on.
    PumpPackets,
    /// A packet may wait for a flip that the hardware shows already, and no interrupt is to come. Answer: such a flip ended.
    ReadAwaitedFlips,
    /// The packets that waited for such a flip.
    PacketsAfterFlip,
    /// A mode that begins now shows its primary; only then its source is given flips.
    BeginModes,
    /// Sources are given flips. Answer: there are displays.
    PumpDisplays,
    /// Paging work brings a primary in.
    PagingForDisplays,
    /// A flip that went frees a primary for packets that write it.
    PacketsForDisplays,
    /// The ring tells of no work by itself: where a display waits for one, the kernel asks to be told.
    WatchForDisplays,
    /// The wait that has been over for longest lets its waiter go on. Answer: there was one.
    CarryNews,
    /// What the waiter did may have seen that the ring is further on, and this must not depend on the waiters behind it.
    ReapAfterNews,
    /// Likewise for paging work that the waiter has queued.
    PagingAfterNews,
    /// Likewise for packets, and for contexts that stand behind the waiter.
    PacketsAfterNews,
    /// All other work is done: a turn that has just begun, and memory that has just come free, may allow the next, and no interrupt tells of a
    /// turn for which nothing had to move. Answer: no turn is outstanding, and a device is suspended.
    AskForTurns,
    /// Suspended devices get their turns. Answer: a turn is outstanding.
    TakeTurns,
    /// Buffers with lists that waited for the turn that has come.
    BeginRenders,
    /// The work of the turns and of those buffers; then all that packets, displays and waiters make of it.
    PagingAfterTurns,
    /// Everything is done that could make a flip unneeded to hear of.
    AskForAwaitedFlips,
    /// A reset, or else a connect that wakes the adapter, changes what every rule above saw. Answer: there was one.
    Reset,
    /// A rank is lent for the waits that are left.
    LendRanks,
    /// Whether there is something to look for is known only at rest.
    ArmTimeouts,
    /// The last object may have gone in any step above.
    StopDriver,
    /// Pages of the kernel that no step above took.
    ShrinkKernelPages,
    /// Whose work each node has from now on.
    MeterNodes,
    /// Moves that no call caused, after everything that could cause one.
    TellMoves,
}

/// The adapter, as the walk knows it.
pub trait Settles {
    /// Carries a step out. The answer is the one that the step asks for; `false` where it asks for none.
    fn carry_out(&mut self, step: SettleStep) -> bool;
}

/// Carries out all steps in their order until nothing is due.
#[inline]
pub fn settle_in_order(adapter: &mut impl Settles) {
    settle_until_no_reset(adapter);
    adapter.carry_out(SettleStep::LendRanks);
    adapter.carry_out(SettleStep::ArmTimeouts);
    adapter.carry_out(SettleStep::StopDriver);
    adapter.carry_out(SettleStep::ShrinkKernelPages);
    adapter.carry_out(SettleStep::MeterNodes);
    adapter.carry_out(SettleStep::TellMoves);
}

/// It ends: the limit on resets stops the adapter, and a connect acts only once for each power-down.
#[inline(always)]
fn settle_until_no_reset(adapter: &mut impl Settles) {
    loop {
        adapter.carry_out(SettleStep::ReapPaging);
        adapter.carry_out(SettleStep::BuryDead);
        adapter.carry_out(SettleStep::PumpPaging);
        settle_work(adapter);
        // Turns are taken once in any case, and again only if one was given and has begun by now.
        let mut may_take_turns = true;
        adapter.carry_out(SettleStep::AskForTurns);
        while may_take_turns {
            let given = adapter.carry_out(SettleStep::TakeTurns);
            adapter.carry_out(SettleStep::BeginRenders);
            adapter.carry_out(SettleStep::PagingAfterTurns);
            settle_work(adapter);
            may_take_turns = adapter.carry_out(SettleStep::AskForTurns) && given;
        }
        adapter.carry_out(SettleStep::AskForAwaitedFlips);
        if !adapter.carry_out(SettleStep::Reset) {
            return;
        }
    }
}

/// More waits than one turn ends.
const WAITS_MAX: u32 = 1 << 20;

/// The steps of packets, displays and waiters.
#[inline(always)]
fn settle_work(adapter: &mut impl Settles) {
    adapter.carry_out(SettleStep::PumpPackets);
    if adapter.carry_out(SettleStep::ReadAwaitedFlips) {
        adapter.carry_out(SettleStep::PacketsAfterFlip);
    }
    adapter.carry_out(SettleStep::BeginModes);
    if adapter.carry_out(SettleStep::PumpDisplays) {
        adapter.carry_out(SettleStep::PagingForDisplays);
        adapter.carry_out(SettleStep::PacketsForDisplays);
    }
    adapter.carry_out(SettleStep::WatchForDisplays);
    let mut waits = 0;
    while adapter.carry_out(SettleStep::CarryNews) {
        waits += 1;
        debug_assert!(waits < WAITS_MAX, "a turn of the kernel does not end: each wait that is over begins another");
        adapter.carry_out(SettleStep::ReapAfterNews);
        adapter.carry_out(SettleStep::PagingAfterNews);
        adapter.carry_out(SettleStep::PacketsAfterNews);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An adapter that answers yes to these steps, each as often as it is named, and no to all others.
    struct Walk {
        yes: Vec<SettleStep>,
        steps: Vec<SettleStep>,
    }

    impl Settles for Walk {
        fn carry_out(&mut self, step: SettleStep) -> bool {
            self.steps.push(step);
            let named = self.yes.iter().position(|named| *named == step);
            named.map(|at| self.yes.remove(at));
            named.is_some()
        }
    }

    /// The steps of a walk in which these steps answer yes.
    fn walk(yes: &[SettleStep]) -> Vec<SettleStep> {
        let mut walk = Walk { yes: yes.to_vec(), steps: Vec::new() };
        settle_in_order(&mut walk);
        assert_eq!(walk.yes, [], "each was asked");
        walk.steps
    }

    /// Steps 1 to 3 of the decision's table.
    const MEMORY: [SettleStep; 3] = [SettleStep::ReapPaging, SettleStep::BuryDead, SettleStep::PumpPaging];
    /// Step 4 where nothing has happened.
    const WORK: [SettleStep; 6] = [
        SettleStep::PumpPackets,
        SettleStep::ReadAwaitedFlips,
        SettleStep::BeginModes,
        SettleStep::PumpDisplays,
        SettleStep::WatchForDisplays,
        SettleStep::CarryNews,
    ];
    /// The head of step 5.
    const TURNS: [SettleStep; 3] = [SettleStep::TakeTurns, SettleStep::BeginRenders, SettleStep::PagingAfterTurns];
    const ASK: [SettleStep; 1] = [SettleStep::AskForTurns];
    /// Steps 6 and 7.
    const RESETS: [SettleStep; 2] = [SettleStep::AskForAwaitedFlips, SettleStep::Reset];
    /// Steps 8 to 13.
    const REST: [SettleStep; 6] = [
        SettleStep::LendRanks,
        SettleStep::ArmTimeouts,
        SettleStep::StopDriver,
        SettleStep::ShrinkKernelPages,
        SettleStep::MeterNodes,
        SettleStep::TellMoves,
    ];

    #[test]
    fn where_nothing_is_due_each_step_comes_in_its_order_and_turns_are_taken_once() {
        let wanted: &[&[SettleStep]] = &[&MEMORY, &WORK, &ASK, &TURNS, &WORK, &ASK, &RESETS, &REST];
        assert_eq!(walk(&[]), wanted.concat());
        // A turn that does not begin is waited for.
        assert_eq!(walk(&[SettleStep::TakeTurns]), wanted.concat());
    }

    #[test]
    fn news_are_carried_out_one_by_one_and_paging_and_packets_go_on_behind_each() {
        let steps = walk(&[SettleStep::CarryNews, SettleStep::CarryNews]);
        let from = steps.iter().position(|step| *step == SettleStep::CarryNews).unwrap();
        let behind = [
            SettleStep::CarryNews,
            SettleStep::ReapAfterNews,
            SettleStep::PagingAfterNews,
            SettleStep::PacketsAfterNews,
        ];
        let wanted: &[&[SettleStep]] = &[&behind, &behind, &[SettleStep::CarryNews, SettleStep::AskForTurns]];
        assert_eq!(steps[from..from + 10], wanted.concat());
    }

    #[test]
    fn flips_and_displays_have_packets_go_on_before_any_news() {
        let steps = walk(&[SettleStep::ReadAwaitedFlips, SettleStep::PumpDisplays]);
        let wanted = [
            SettleStep::PumpPackets,
            SettleStep::ReadAwaitedFlips,
            SettleStep::PacketsAfterFlip,
            SettleStep::BeginModes,
            SettleStep::PumpDisplays,
            SettleStep::PagingForDisplays,
            SettleStep::PacketsForDisplays,
            SettleStep::WatchForDisplays,
            SettleStep::CarryNews,
        ];
        assert_eq!(steps[MEMORY.len()..MEMORY.len() + wanted.len()], wanted);
    }

    #[test]
    fn turns_are_taken_again_when_one_was_given_and_has_begun() {
        // The first answer of AskForTurns does not matter; the second says that the turn which was given has begun.
        let wanted: &[&[SettleStep]] =
            &[&MEMORY, &WORK, &ASK, &TURNS, &WORK, &ASK, &TURNS, &WORK, &ASK, &RESETS, &REST];
        assert_eq!(walk(&[SettleStep::AskForTurns, SettleStep::TakeTurns, SettleStep::AskForTurns]), wanted.concat());
        // A device that stays suspended is given no turn over and over.
        let wanted: &[&[SettleStep]] = &[&MEMORY, &WORK, &ASK, &TURNS, &WORK, &ASK, &RESETS, &REST];
        assert_eq!(walk(&[SettleStep::AskForTurns, SettleStep::AskForTurns]), wanted.concat());
    }

    #[test]
    fn behind_a_reset_all_begins_anew_with_turns_that_are_taken_in_any_case() {
        let once: &[&[SettleStep]] = &[&MEMORY, &WORK, &ASK, &TURNS, &WORK, &ASK, &RESETS];
        assert_eq!(walk(&[SettleStep::Reset]), [once.concat(), once.concat(), REST.to_vec()].concat());
    }
}
