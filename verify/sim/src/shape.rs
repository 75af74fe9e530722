//! Which device a world has, beside its memory. Called by the world at its start.

use softgpu_spec::page_table::Shape;

/// How the device of a world cuts addresses. The seed says it and not the world's random numbers, so that the first worlds
/// are the same with one shape more.
pub fn shape_of(seed: u64) -> Shape {
    match seed % 8 {
        4 => Shape::new(&[9, 9, 12]),
        5 => Shape::new(&[9, 9, 9, 9, 9]),
        6 => Shape::new(&[8, 9, 9, 9, 9, 4]),
        7 => Shape::new(&[6, 6, 16]),
        _ => Shape::FOUR_LEVELS,
    }
}
