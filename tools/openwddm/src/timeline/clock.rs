//! The clocks of an adapter's nodes on the processor's line: the kernel sets them beside its own at some moments.

use std::collections::BTreeMap;

use events::Event;

/// The clocks, by node.
pub struct Clocks {
    nodes: BTreeMap<u16, Vec<Set>>,
}

/// One calibration: at `ns` of the processor's clock, the node's clock of `hz` showed `counter`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Set {
    counter: u64,
    ns: u64,
    hz: u64,
}

impl Clocks {
    /// The clocks of all nodes, from the events that calibrated them.
    pub fn of(events: &[(u64, Event)]) -> Clocks {
        let mut nodes: BTreeMap<u16, Vec<Set>> = BTreeMap::new();
        for (ns, event) in events {
            if let Event::GpuClockCalibrated { node, frequency_hz, counter } = *event {
                nodes.entry(node).or_default().push(Set { counter, ns: *ns, hz: frequency_hz.max(1) });
            }
        }
        nodes.values_mut().for_each(|sets| sets.sort_unstable());
        Clocks { nodes }
    }

    /// Nanoseconds at which a node's clock showed `counter`; `None` for 0 or a node without calibration.
    pub fn ns(&self, node: u16, counter: u64) -> Option<u64> {
        let sets = self.nodes.get(&node)?;
        let nth = sets.partition_point(|set| set.counter <= counter);
        let set = *sets.get(nth.saturating_sub(1)).filter(|_| counter != 0)?;
        let since = i128::from(counter) - i128::from(set.counter);
        u64::try_from(i128::from(set.ns) + since * 1_000_000_000 / i128::from(set.hz)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_has_its_own_clock_and_the_setting_before_counts() {
        // spec: sync §3.14
        let set = |node, frequency_hz, counter| Event::GpuClockCalibrated { node, frequency_hz, counter };
        let events = [
            (1_000, set(0, 1_000_000_000, 70)),
            (1_000, set(1, 500_000_000, 1_000_000)),
            (3_000, set(0, 1_000_000_000, 2_080)),
        ];
        let clocks = Clocks::of(&events);
        assert_eq!(
            [70, 170, 2_079, 2_080, 2_081].map(|at| clocks.ns(0, at)),
            [1_000, 1_100, 3_009, 3_000, 3_001].map(Some)
        );
        assert_eq!(clocks.ns(1, 1_000_050), Some(1_100));
        assert_eq!(clocks.ns(1, 999_900), Some(800), "before it was set");
        assert_eq!((clocks.ns(0, 0), clocks.ns(2, 70), clocks.ns(1, 1)), (None, None, None));
    }
}
