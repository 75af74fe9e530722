//! How often an allocation is used, where recent uses count more: a number that orders allocations, and changes only when one is used.
//!
//! Each use is worth 1 at its time, and half as much after each half-life. The worth of an allocation is `w = Σ 2^((t_i − now) / h)`.
//! All worths fall alike, so their order stays without any upkeep: the *score* `now/h + log2 w = log2 Σ 2^(t_i / h)` has no `now` in it.
//! A use at `t` makes the score `s` into `log2 (2^s + 2^(t/h))`, which is `max(s, t/h) + log2 (1 + 2^−|s − t/h|)`.
//!
//! Scores and times are fixed-point numbers with 16 bits behind the point, and the last logarithm comes from a table: the same
//! uses give the same order on any machine.

/// One, in scores and times.
pub(crate) const ONE: u64 = 1 << 16;

/// Differences that the table knows, in sixteenths: beyond 16 the smaller term adds less than a score can tell.
const STEPS: usize = 256;

/// `log2 (1 + 2^−x)` at x = 0, 1/16, 2/16 … 16.
const GAINS: [u64; STEPS + 1] = gains();

/// The score after a use at a time, both in half-lives; without an earlier use the time itself.
pub(crate) fn scored(score: Option<u64>, time: u64) -> u64 {
    let Some(score) = score else { return time };
    score.max(time) + gain(score.abs_diff(time))
}

/// `log2 (1 + 2^−x)`, between the table's places along a line.
fn gain(x: u64) -> u64 {
    let (step, rest) = (x / (ONE / 16), x % (ONE / 16));
    // CAST: below the table's length, or not used.
    let at = step as usize;
    if at >= STEPS {
        return 0;
    }
    GAINS[at] - (GAINS[at] - GAINS[at + 1]) * rest / (ONE / 16)
}

/// The table, in whole numbers: powers of the sixteenth root of a half by squaring and taking roots, logarithms bit by bit.
const fn gains() -> [u64; STEPS + 1] {
    // 2^(−1/16) with 32 bits behind the point: four square roots of a half.
    let mut root: u64 = 1 << 31;
    let mut times = 0;
    while times < 4 {
        root = square_root((root as u128) << 32);
        times += 1;
    }
    let mut table = [0; STEPS + 1];
    let mut power: u64 = 1 << 32;
    let mut at = 0;
    while at <= STEPS {
        table[at] = log2((1 << 32) + power);
        power = ((power as u128 * root as u128) >> 32) as u64;
        at += 1;
    }
    table
}

/// The whole square root.
const fn square_root(of: u128) -> u64 {
    let mut low: u128 = 0;
    let mut high: u128 = 1 << 64;
    while high - low > 1 {
        let middle = (low + high) / 2;
        if middle * middle <= of {
            low = middle;
        } else {
            high = middle;
        }
    }
    // CAST: below 2^64.
    low as u64
}

/// The binary logarithm of a number from 1 to 2 with 32 bits behind the point; 16 bits behind the point.
const fn log2(mut x: u64) -> u64 {
    let mut log = 0;
    let mut bit = ONE;
    while bit > 0 {
        if x >= 2 << 32 {
            log += bit;
            x >>= 1;
        }
        // CAST: the square of a number below 2 is below 4.
        x = ((x as u128 * x as u128) >> 32) as u64;
        bit >>= 1;
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_the_logarithm_that_it_stands_for() {
        for x in (0..20 * ONE).step_by(997) {
            let exact = (1.0 + (-(x as f64) / ONE as f64).exp2()).log2() * ONE as f64;
            let found = gain(x) as f64;
            assert!((found - exact).abs() < 25.0, "at {x}: {found} for {exact}");
        }
        assert_eq!((gain(0), gain(16 * ONE)), (ONE, 0), "two equal ones are twice as much");
    }

    #[test]
    fn the_order_of_scores_is_that_of_decayed_counts() {
        let score = |uses: &[u64]| uses.iter().fold(None, |score, &time| Some(scored(score, time))).unwrap();
        let worth = |uses: &[u64]| uses.iter().map(|&time| (time as f64 / ONE as f64).exp2()).sum::<f64>();
        let strings: [&[u64]; 6] = [
            &[0, 10, 20, 30],
            &[3 * ONE],
            &[0, ONE, 2 * ONE],
            &[2 * ONE, 2 * ONE],
            &[0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[ONE / 2, 5 * ONE / 2, 3 * ONE],
        ];
        for one in strings {
            for other in strings {
                assert_eq!(score(one).cmp(&score(other)), worth(one).total_cmp(&worth(other)), "{one:?} {other:?}");
            }
        }
    }
}
