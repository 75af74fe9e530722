//! The order in which an adapter settles, as one table (decision 0038). [`SettleOrder`] walks through it; the adapter carries out each step and
//! says what came of it. So the order is here alone, and a test walks through it without an adapter.
//!
//! Where the reason of a place is not known to be needed, it still is the place: the pinned runs of the simulator hold it. A change
//! that wants another order breaks the row first and sees what fails.

/// A step of settling, with the reason for its place. One that occurs in several places has a name for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettleStep {
    /// The kernel learns of works and paging fences that the hardware has finished before any rule asks for them.
    ReapPaging,
    /// A destroyed allocation whose last use is over gives its memory back by works and deferred ends, which the pump behind carries out.
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

/// Where settling goes on behind a step.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// With the next row.
    Next,
    /// With the next row if the answer is yes, else there.
    Else(SettleStep),
    /// There if the answer is yes, else with the next row.
    If(SettleStep),
    /// There, whatever the answer.
    Go(SettleStep),
}

/// The steps in their order.
const TABLE: [(SettleStep, Then); 27] = [
    (SettleStep::ReapPaging, Then::Next),
    (SettleStep::BuryDead, Then::Next),
    (SettleStep::PumpPaging, Then::Next),
    (SettleStep::PumpPackets, Then::Next),
    (SettleStep::ReadAwaitedFlips, Then::Else(SettleStep::BeginModes)),
    (SettleStep::PacketsAfterFlip, Then::Next),
    (SettleStep::BeginModes, Then::Next),
    (SettleStep::PumpDisplays, Then::Else(SettleStep::WatchForDisplays)),
    (SettleStep::PagingForDisplays, Then::Next),
    (SettleStep::PacketsForDisplays, Then::Next),
    (SettleStep::WatchForDisplays, Then::Next),
    (SettleStep::CarryNews, Then::Else(SettleStep::AskForTurns)),
    (SettleStep::ReapAfterNews, Then::Next),
    (SettleStep::PagingAfterNews, Then::Next),
    (SettleStep::PacketsAfterNews, Then::Go(SettleStep::CarryNews)),
    (SettleStep::AskForTurns, Then::Else(SettleStep::AskForAwaitedFlips)),
    (SettleStep::TakeTurns, Then::Next),
    (SettleStep::BeginRenders, Then::Next),
    (SettleStep::PagingAfterTurns, Then::Go(SettleStep::PumpPackets)),
    (SettleStep::AskForAwaitedFlips, Then::Next),
    // It ends: the limit on resets stops the adapter, and a connect acts only once for each power-down.
    (SettleStep::Reset, Then::If(SettleStep::ReapPaging)),
    (SettleStep::LendRanks, Then::Next),
    (SettleStep::ArmTimeouts, Then::Next),
    (SettleStep::StopDriver, Then::Next),
    (SettleStep::ShrinkKernelPages, Then::Next),
    (SettleStep::MeterNodes, Then::Next),
    (SettleStep::TellMoves, Then::Next),
];

// A step finds its row by its number.
const _: () = {
    let mut row = 0;
    while row < TABLE.len() {
        assert!(TABLE[row].0 as usize == row);
        row += 1;
    }
};

/// A walk through the table.
#[derive(Debug)]
pub struct SettleOrder {
    row: usize,
    /// Whether the turns that were taken last left one outstanding; `None`: none were taken since the last reset.
    turn_given: Option<bool>,
}

impl SettleOrder {
    /// At the first step.
    pub fn begin() -> SettleOrder {
        SettleOrder { row: 0, turn_given: None }
    }

    /// The step to carry out; `None`: the adapter is at rest.
    pub fn step(&self) -> Option<SettleStep> {
        TABLE.get(self.row).map(|(step, _)| *step)
    }

    /// The step is carried out, with this answer to what it asks.
    pub fn carried_out(&mut self, answer: bool) {
        let (step, then) = TABLE[self.row];
        let answer = match step {
            // Turns are taken once in any case; again only if one was given, and has begun by now.
            SettleStep::AskForTurns => self.turn_given.is_none_or(|given| given && answer),
            _ => answer,
        };
        match step {
            SettleStep::TakeTurns => self.turn_given = Some(answer),
            SettleStep::Reset if answer => self.turn_given = None,
            _ => {}
        }
        self.row = match then {
            Then::Go(to) => to as usize,
            Then::If(to) if answer => to as usize,
            Then::Else(to) if !answer => to as usize,
            Then::Next | Then::If(_) | Then::Else(_) => self.row + 1,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of a walk in which these steps answer yes, each as often as it is named.
    fn walk(yes: &[SettleStep]) -> Vec<SettleStep> {
        let (mut yes, mut order, mut steps) = (yes.to_vec(), SettleOrder::begin(), Vec::new());
        while let Some(step) = order.step() {
            steps.push(step);
            let named = yes.iter().position(|named| *named == step);
            named.map(|at| yes.remove(at));
            order.carried_out(named.is_some());
        }
        assert_eq!(yes, [], "each was asked");
        steps
    }

    /// Steps 1 to 3 of the decision's table.
    const MEMORY: [SettleStep; 3] = [SettleStep::ReapPaging, SettleStep::BuryDead, SettleStep::PumpPaging];
    /// SettleStep 4 where nothing has happened.
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
