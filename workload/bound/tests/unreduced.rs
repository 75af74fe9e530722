//! The reduced program against the whole one, written down anew from the events, and against Belady's rule, on drawn workloads.

use std::collections::BTreeMap;

use bound::fewest_bytes;
use good_lp::{Expression, SolverModel, Variable, constraint, variable, variables};
use replay::{Event, SourceKind, StepEvent, Storage, StorageId, Workload, lru_bytes};

/// Numbers that look random and repeat (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }
}

/// Some storages, some before the step, some that die, operations that read and perhaps write.
fn draw(seed: u64, writes: bool) -> Workload {
    let mut draw = Draw(seed);
    let count = 3 + draw.below(8) as usize;
    let storages: Vec<Storage> =
        (0..count).map(|_| Storage { bytes: 1 + draw.below(9), persistent: !writes || draw.below(2) == 0 }).collect();
    let mut dead = vec![false; count];
    let mut used = vec![false; count];
    let mut events = Vec::new();
    for _ in 0..4 + draw.below(24) {
        let (mut reads, mut written) = (Vec::new(), Vec::new());
        for at in (0..count).filter(|at| !dead[*at]) {
            match draw.below(8) {
                0 => reads.push(at as u32),
                1 if writes => written.push(at as u32),
                2 if writes && (used[at] || storages[at].persistent) => {
                    reads.push(at as u32);
                    written.push(at as u32);
                }
                1 | 2 => reads.push(at as u32),
                _ => {}
            }
        }
        if reads.is_empty() && written.is_empty() {
            continue;
        }
        reads.iter().chain(&written).for_each(|at| used[*at as usize] = true);
        events.push(Event::Op { adapter: None, name: 0, reads, writes: written });
        let dies = draw.below(count as u64) as usize;
        if used[dies] && !dead[dies] && writes && draw.below(6) == 0 {
            dead[dies] = true;
            events.push(Event::Death(dies as u32));
        }
    }
    if events.is_empty() {
        events.push(Event::Op { adapter: None, name: 0, reads: vec![0], writes: vec![] });
    }
    Workload::new("drawn".into(), SourceKind::ReferenceString, storages, vec!["op".into()], events).unwrap()
}

/// Everything alive at each operation, with the variable that says how much of it is out, if any may be.
fn whole_program(workload: &Workload, steps: u32, capacity: u64) -> f64 {
    let events: Vec<StepEvent> = workload.steps(steps).collect();
    // Uses of each storage (operation, reads, writes), and where it dies.
    let mut uses: BTreeMap<StorageId, Vec<(usize, bool, bool)>> = BTreeMap::new();
    let mut deaths: BTreeMap<StorageId, usize> = BTreeMap::new();
    let mut needs: Vec<u64> = Vec::new();
    let size = |id: &StorageId| workload.storages()[id.storage as usize].bytes;
    for event in &events {
        match event {
            StepEvent::Death(id) => _ = deaths.insert(*id, needs.len()),
            StepEvent::Op { reads, writes, .. } => {
                let mut all: Vec<StorageId> = reads.iter().chain(writes).copied().collect();
                all.sort_unstable();
                all.dedup();
                for id in &all {
                    let used = (needs.len(), reads.contains(id), writes.contains(id));
                    uses.entry(*id).or_default().push(used);
                }
                needs.push(all.iter().map(size).sum());
            }
        }
    }
    let mut variables = variables!();
    let (mut cost, mut ties): (Expression, Vec<(Variable, Variable)>) = (0.0.into(), Vec::new());
    let mut alive: Vec<Expression> = needs.iter().map(|need| (*need as f64).into()).collect();
    for (id, uses) in &uses {
        let (bytes, persistent) = (size(id) as f64, workload.storages()[id.storage as usize].persistent);
        if persistent && uses[0].1 {
            cost += bytes;
        }
        let (mut is_dirty, mut epoch) = (false, None);
        for (at, (op, _, writes)) in uses.iter().enumerate() {
            if *writes {
                (is_dirty, epoch) = (true, None);
            }
            let next = uses.get(at + 1);
            let end = next.map_or(deaths.get(id).copied().unwrap_or(needs.len()), |next| next.0);
            if !(is_dirty || persistent && next.is_some()) || end <= op + 1 {
                continue;
            }
            let out = variables.add(variable().min(0.0).max(bytes));
            if next.is_some_and(|next| next.1) {
                cost += out;
            }
            if is_dirty {
                let epoch = *epoch.get_or_insert_with(|| {
                    let epoch = variables.add(variable().min(0.0).max(bytes));
                    cost += epoch;
                    epoch
                });
                ties.push((out, epoch));
            }
            alive[op + 1..end].iter_mut().for_each(|alive| *alive += bytes - out);
        }
    }
    let mut model = variables.minimise(cost.clone()).using(good_lp::microlp);
    alive.into_iter().for_each(|alive| _ = model.add_constraint(constraint!(alive <= capacity as f64)));
    ties.into_iter().for_each(|(out, epoch)| _ = model.add_constraint(constraint!(out <= epoch)));
    cost.eval_with(&model.solve().expect("a capacity above the largest operation can be kept"))
}

#[test]
fn the_reduced_program_has_the_optimum_of_the_whole_one() {
    let mut with_program = 0;
    for seed in 0..400 {
        let workload = draw(seed, true);
        let (low, high) = (workload.largest_op_bytes(), workload.peak_bytes(2));
        for capacity in [low, low + (high - low) / 3, low + (high - low) * 2 / 3] {
            let found = fewest_bytes(&workload, 2, capacity, &mut || f64::INFINITY).unwrap();
            let whole = whole_program(&workload, 2, capacity);
            assert!(
                (found.moved_bytes as f64 - whole).abs() <= 0.5 + 1e-6,
                "seed {seed}, {capacity}: {found:?}, {whole}"
            );
            with_program += usize::from(found.effort.variables > 0);
        }
    }
    assert!(with_program > 400, "only {with_program} had write-backs to choose");
}

/// Page-ins where nothing is written and whole bytes move: the furthest next use leaves first.
fn belady(workload: &Workload, capacity: u64) -> u64 {
    let sets: Vec<Vec<u32>> = workload
        .events()
        .iter()
        .map(|event| match event {
            Event::Op { reads, .. } => reads.clone(),
            Event::Death(_) => unreachable!("nothing dies"),
        })
        .collect();
    let size = |storage: u32| workload.storages()[storage as usize].bytes;
    let mut held: BTreeMap<u32, u64> = BTreeMap::new();
    let mut paged_in = 0;
    for (op, set) in sets.iter().enumerate() {
        let missing: u64 = set.iter().map(|storage| size(*storage) - held.get(storage).unwrap_or(&0)).sum();
        let mut over = (held.values().sum::<u64>() + missing).saturating_sub(capacity);
        while over > 0 {
            let next = |storage: u32| sets[op..].iter().position(|set| set.contains(&storage)).unwrap_or(usize::MAX);
            let others = held.iter().filter(|(storage, bytes)| **bytes > 0 && !set.contains(storage));
            let victim = *others.max_by_key(|(storage, _)| next(**storage)).expect("the set fits").0;
            let taken = over.min(held[&victim]);
            *held.get_mut(&victim).unwrap() -= taken;
            over -= taken;
        }
        paged_in += missing;
        set.iter().for_each(|storage| _ = held.insert(*storage, size(*storage)));
    }
    paged_in
}

#[test]
fn where_nothing_is_written_belady_reaches_the_bound_and_lru_moves_no_less() {
    let mut apart = 0;
    for seed in 0..400 {
        let workload = draw(seed, false);
        let (low, high) = (workload.largest_op_bytes(), workload.peak_bytes(1));
        let mut before = u64::MAX;
        for capacity in low..=high {
            let found = fewest_bytes(&workload, 1, capacity, &mut || f64::INFINITY).unwrap();
            let lru = lru_bytes(&workload, 1, capacity, 1).unwrap();
            assert_eq!(found.moved_bytes, belady(&workload, capacity), "seed {seed}, {capacity}");
            assert!(found.moved_bytes <= lru.paged_in && lru.paged_out == 0, "seed {seed}, {capacity}");
            assert!(found.moved_bytes <= before, "seed {seed}: more memory never moves more");
            (before, apart) = (found.moved_bytes, apart + usize::from(found.moved_bytes < lru.paged_in));
        }
    }
    assert!(apart > 100, "LRU was as good but {apart} times");
}
