//! Which device a world has, beside its memory: how it cuts addresses, where its page tables live and who writes them.
//! Called by the world at its start.

use ddi::PageTableUpdateMode;
use dxgk_host::Profile;
use softgpu_kmd::TableHome;
use softgpu_spec::page_table::Shape;

/// Builds the device of a world. The seed says how and not the world's random numbers, so that the first worlds are the
/// same with one device more.
pub fn build(profile: &mut Profile, seed: u64) {
    (profile.driver.tables, profile.driver.update_mode) = match seed / 8 % 4 {
        1 => (TableHome::System, PageTableUpdateMode::CpuVirtual),
        2 => (TableHome::Local, PageTableUpdateMode::GpuVirtual),
        3 => (TableHome::System, PageTableUpdateMode::GpuVirtual),
        _ => return profile.shape = shape_of(seed),
    };
    let shape = shape_of(seed);
    // A table in system memory is one page (memory §4.3).
    let pages = (0..shape.levels()).all(|level| shape.table_bytes(level) == 4096);
    // A window onto all tables takes more small leaf tables than there is room for.
    let wide = shape.entries(0) >= 64;
    if wide && (pages || profile.driver.tables == TableHome::Local) {
        profile.shape = shape;
    }
}

fn shape_of(seed: u64) -> Shape {
    match seed % 8 {
        // Small leaf tables: the root is lengthened again and again.
        0 => Shape::new(&[3, 18]),
        4 => Shape::new(&[9, 9, 12]),
        5 => Shape::new(&[9, 9, 9, 9, 9]),
        6 => Shape::new(&[8, 9, 9, 9, 9, 4]),
        7 => Shape::new(&[6, 6, 16]),
        _ => Shape::FOUR_LEVELS,
    }
}

/// Memory for page tables, the paging process's megabyte included. In one world of three the tables of all processes do not
/// fit beside each other: beyond their roots there are eight pages.
pub fn page_table_bytes(seed: u64, shape: Shape) -> u64 {
    let roots = 4 * shape.table_bytes(shape.root_level());
    if seed.is_multiple_of(3) { (1 << 20) + roots + (8 << 12) } else { 16 << 20 }
}
