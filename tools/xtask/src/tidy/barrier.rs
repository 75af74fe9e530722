//! The software GPU has one place for its barriers, [`ORDER`], where a test can give each of its units a store buffer. A barrier elsewhere would
//! not be one of the device's: no test could see it missing, and a protocol that relied on it would be proven by nothing.

use crate::report::Finding;
use crate::rust_text::Line;

/// The device.
const CRATE: &str = "hardware/softgpu/src/";
/// The file that may have barriers.
const ORDER: &str = "hardware/softgpu/src/order.rs";
/// Code that orders the stores and loads of other threads by itself.
const BARRIERS: [&str; 7] = [
    "fence(Ordering",
    "compiler_fence",
    "HardwareBarrier",
    "RareBarrier",
    "FrequentBarrier",
    "FrequentAcross",
    "membarrier",
];

/// Judges one source file.
pub fn check(path: &str, lines: &[Line]) -> Vec<Finding> {
    let concerns = path.starts_with(CRATE) && path != ORDER;
    let barrier = |line: &Line| BARRIERS.iter().find(|barrier| line.code.contains(**barrier));
    (1..)
        .zip(lines.iter().filter(|_| concerns))
        .filter_map(|(number, line)| barrier(line).map(|barrier| (number, barrier)))
        .map(|(number, barrier)| Finding::new(path, number, format!("{barrier}: the device's barriers are in {ORDER}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust_text::split;

    #[test]
    fn the_device_has_its_barriers_in_one_file() {
        // seed: N27
        let found = |path: &str, code: &str| check(path, &split(code)).len();
        for code in ["fence(Ordering::SeqCst);", "HardwareBarrier::full();", "use shared_words::{RareBarrier, Word};"] {
            assert_eq!(found("hardware/softgpu/src/cmp.rs", code), 1, "{code}");
            assert_eq!((found(ORDER, code), found("kmd/softgpu_kmd/src/fences.rs", code)), (0, 0), "{code}");
            assert_eq!(found("hardware/softgpu/tests/device/order.rs", code), 0, "{code}");
        }
        for code in
            ["self.barrier(Unit::Cmp);", "// fence(Ordering::SeqCst)", "fence::signal(|| gpu.barrier(unit), a, b)"]
        {
            assert_eq!(found("hardware/softgpu/src/cmp.rs", code), 0, "{code}");
        }
    }
}
