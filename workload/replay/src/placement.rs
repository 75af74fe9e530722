//! Places operations on adapters, when there are several. Called by programs before they drive a workload.

use crate::workload::{Event, Workload};

/// The rule by which operations are placed on adapters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Each runs on the adapter that it names, and on the first if it names none.
    Recorded,
    /// All run on the first, whatever they name.
    First,
    /// The step is cut into as many parts as there are adapters, one behind the other, that use about as many bytes each.
    Split,
    /// One behind the other they take turns: as much content crosses as can.
    InTurn,
}

impl Workload {
    /// The same workload, each operation with the adapter of `adapters` that runs it.
    ///
    /// # Errors
    /// With [`Placement::Recorded`]: the highest adapter that an operation names, if there is none of that number.
    ///
    /// # Panics
    /// Without any adapter.
    pub fn placed(mut self, placement: Placement, adapters: u32) -> Result<Workload, u32> {
        assert!(adapters > 0, "there is an adapter");
        let named = self.adapters_named();
        if placement == Placement::Recorded && named > adapters {
            return Err(named - 1);
        }
        let sizes: Vec<u64> = self.storages().iter().map(|storage| storage.bytes).collect();
        let used = |reads: &[u32], writes: &[u32]| -> u128 {
            reads.iter().chain(writes).map(|storage| u128::from(sizes[*storage as usize])).sum()
        };
        let op_bytes = |event: &Event| match event {
            Event::Op { reads, writes, .. } => used(reads, writes),
            Event::Death(_) => 0,
        };
        let total: u128 = self.events().iter().map(op_bytes).sum();
        let (mut before, mut op_index) = (0u128, 0u32);
        for event in self.events_mut() {
            let Event::Op { adapter, reads, writes, .. } = event else { continue };
            let part = (before * u128::from(adapters) / total.max(1)).min(u128::from(adapters) - 1);
            *adapter = Some(match placement {
                Placement::Recorded => adapter.unwrap_or(0),
                Placement::First => 0,
                // CAST: below the number of adapters.
                Placement::Split => part as u32,
                Placement::InTurn => op_index % adapters,
            });
            before += used(reads, writes);
            op_index += 1;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SourceKind, Storage};

    fn workload(adapters: &[Option<u32>]) -> Workload {
        let storages = [10, 10, 20, 40].map(|bytes| Storage { bytes, persistent: true });
        // CAST: there are four.
        let op = |(at, adapter): (usize, &Option<u32>)| {
            let (adapter, reads) = (*adapter, vec![at as u32]);
            Event::Op { adapter, name: 0, reads, writes: Vec::new() }
        };
        let events = adapters.iter().enumerate().map(op).collect();
        let names = vec!["op".to_owned()];
        Workload::new("w".into(), SourceKind::ReferenceString, storages.to_vec(), names, events).unwrap()
    }

    fn placed(adapters: &[Option<u32>], placement: Placement, count: u32) -> Vec<u32> {
        let workload = workload(adapters).placed(placement, count).unwrap();
        let of = |event: &Event| match event {
            Event::Op { adapter, .. } => adapter.expect("each has one"),
            Event::Death(_) => unreachable!("nothing dies"),
        };
        workload.events().iter().map(of).collect()
    }

    #[test]
    fn each_placement_gives_every_operation_an_adapter() {
        let none = [None; 4];
        assert_eq!(placed(&none, Placement::First, 2), [0, 0, 0, 0]);
        assert_eq!(placed(&none, Placement::InTurn, 3), [0, 1, 2, 0]);
        // 10 + 10 + 20 of 80 bytes are the first half.
        assert_eq!(placed(&none, Placement::Split, 2), [0, 0, 0, 1]);
        assert_eq!(placed(&none, Placement::Split, 4), [0, 0, 1, 2]);
        let named = [Some(1), None, Some(0), Some(1)];
        assert_eq!(placed(&named, Placement::Recorded, 2), [1, 0, 0, 1]);
        assert_eq!(placed(&named, Placement::First, 1), [0, 0, 0, 0]);
        assert_eq!((workload(&named).adapters_named(), workload(&none).adapters_named()), (2, 0));
    }

    #[test]
    fn an_adapter_that_is_not_there_is_named() {
        assert_eq!(workload(&[Some(0), Some(2), None, None]).placed(Placement::Recorded, 2).unwrap_err(), 2);
    }
}
