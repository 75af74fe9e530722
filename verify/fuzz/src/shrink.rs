//! From a world that failed to a short one that fails in the same way: pieces of its steps are left out as long as it still
//! does. Each step draws from a seed of its own, so what is left stays what it was.

/// Runs to spend.
const RUNS_MAX: usize = 150;

/// The shortest list of steps found for which `fails` still holds.
pub fn shrink(mut steps: Vec<u64>, fails: impl Fn(&[u64]) -> bool) -> Vec<u64> {
    let mut piece = steps.len().div_ceil(2).max(1);
    let mut runs = 0;
    loop {
        let mut at = 0;
        let mut shorter = false;
        while at < steps.len() {
            if runs == RUNS_MAX {
                return steps;
            }
            let mut left = steps[..at].to_vec();
            left.extend(&steps[(at + piece).min(steps.len())..]);
            runs += 1;
            if fails(&left) {
                steps = left;
                shorter = true;
            } else {
                at += piece;
            }
        }
        if piece == 1 && !shorter {
            return steps;
        }
        piece = (piece / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::shrink;

    #[test]
    fn only_what_is_needed_stays() {
        let fails = |steps: &[u64]| steps.contains(&17) && steps.contains(&63);
        assert_eq!(shrink((0..100).collect(), fails), [17, 63]);
    }
}
