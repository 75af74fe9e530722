//! Holes that moves make.

use super::super::{FramePool, Movable, Relocation, run};
use super::free_runs;

/// 100 pages with everything taken but these.
fn only_free(free: &[(u64, u64)]) -> FramePool {
    let mut pool = FramePool::new(run(0, 100));
    pool.take_exact(run(0, 100));
    free.iter().for_each(|&(first, pages)| pool.give(run(first, pages)));
    pool
}

fn part(first: u64, pages: u64) -> Movable {
    Movable { run: run(first, pages), alignment: None }
}

fn whole(first: u64, pages: u64) -> Movable {
    Movable { run: run(first, pages), alignment: Some(1) }
}

/// Carries moves out; the hole must be free then.
fn carry_out(pool: &mut FramePool, moves: &[Relocation]) {
    for relocation in moves {
        assert_eq!(relocation.from.count, relocation.to.count);
        pool.take_exact(relocation.to);
    }
    moves.iter().for_each(|relocation| pool.give(relocation.from));
}

#[test]
fn the_fewest_pages_move() {
    // spec: memory §8.1
    let mut pool = only_free(&[(0, 10), (14, 10), (60, 9), (90, 4)]);
    let movable = [part(10, 4), part(50, 10), whole(70, 20)];
    let (hole, moves) = pool.compaction(15, 1, &movable).expect("33 pages are free");
    assert_eq!(moves, [Relocation { movable: 0, from: run(10, 4), to: run(90, 4) }]);
    carry_out(&mut pool, &moves);
    pool.take_exact(hole);
}

#[test]
fn what_must_stay_whole_moves_whole_and_the_rest_in_parts() {
    // spec: memory §8.1
    let mut pool = only_free(&[(0, 10), (20, 10), (40, 6), (60, 6)]);
    assert_eq!(pool.compaction(24, 1, &[whole(10, 10)]), None, "ten pages fit nowhere else whole");
    let (hole, moves) = pool.compaction(24, 8, &[part(10, 10)]).expect("in parts they do");
    assert_eq!((hole, moves.len()), (run(0, 24), 2));
    carry_out(&mut pool, &moves);
    pool.take_exact(hole);
    assert_eq!(pool.free_pages(), 8);
}

#[test]
fn what_may_not_move_stays_and_too_few_free_pages_are_refused() {
    // spec: memory §8.1
    let pool = only_free(&[(0, 10), (14, 10), (60, 4)]);
    assert_eq!(pool.compaction(15, 1, &[]), None);
    assert_eq!(pool.compaction(25, 1, &[part(10, 4)]), None);
    assert_eq!(free_runs(&pool), [run(0, 10), run(14, 10), run(60, 4)]);
}

#[test]
fn random_pools_are_compacted_without_touching_what_stays() {
    // spec: memory §8.1
    let mut seed = 7u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % below
    };
    let mut found = 0;
    for _ in 0..300 {
        let (mut pool, mut movable, mut stays) = (FramePool::new(run(0, 400)), Vec::new(), Vec::new());
        let mut next = 0;
        while next < 380 {
            let pages = 1 + random(20);
            match random(5) {
                0 | 1 => {}
                2 => movable.push(part(next, pages)),
                3 => movable.push(whole(next, pages)),
                _ => stays.push(run(next, pages)),
            }
            next += pages;
        }
        movable.iter().for_each(|m| pool.take_exact(m.run));
        stays.iter().for_each(|r| pool.take_exact(*r));
        let (pages, alignment) = (1 + random(120), 1 << random(5));
        let free = pool.free_pages();
        let answer = pool.compaction(pages, alignment, &movable);
        if pool.clone().take_contiguous(pages, alignment, false).is_some() {
            assert_eq!(answer.as_ref().map(|(_, moves)| moves.len()), Some(0), "no move where a hole is");
        }
        if let Some((hole, moves)) = answer {
            found += usize::from(!moves.is_empty());
            assert!(moves.iter().all(|m| movable[m.movable].alignment.is_none() || m.from == movable[m.movable].run));
            carry_out(&mut pool, &moves);
            pool.take_exact(hole);
            assert!(hole.first.is_multiple_of(alignment) && pool.free_pages() == free - pages);
        }
    }
    assert!(found > 50, "{found}");
}
