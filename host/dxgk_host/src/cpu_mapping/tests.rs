//! The CPU's view of bus addresses at which the window leads nowhere.

use softgpu::{Config, DataMode};
use softgpu_spec::page_table::Shape;
use wddm_types::{PageRun, Pages};

use super::*;
use crate::line::Line;
use crate::profile::Profile;

/// A driver may be wrong about where its memory is, or how much of it there is.
#[test]
fn where_no_device_answers_the_cpu_reads_ones() {
    // spec: memory §1.7
    let [local, system] = [2, 1].map(|pages| Memory::reserve(pages * PAGE_BYTES).expect("addresses"));
    let config = Config {
        local_bytes: 2 * PAGE_BYTES,
        aperture_bytes: 16 * PAGE_BYTES,
        shape: Shape::FOUR_LEVELS,
        data: DataMode::Stored,
        signal_bits: 64,
        timing: Profile::named("discrete-4k").expect("a built-in profile").timing,
        poll_spins: 0,
        reset_group: 0,
        doorbells: 2,
        displays: softgpu::DisplayConfig::NONE,
    };
    let pin = Arc::new(Line::default()).pin(0);
    let device = SoftGpu::with_local(config, local, Arc::clone(&system), pin, None).expect("a device");
    let views = Views::new(system, vec![device], None, false);
    let run = PageRun { first: softgpu_spec::bus::CPU_BAR_BASE / PAGE_BYTES + 1, count: Pages(3) };
    let pieces = views.pieces(AdapterIndex(0), &[CpuRun { place: CpuPlace::Bar, run }]);
    let words = [0, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff];
    assert_eq!(pieces.iter().map(|piece| piece.bytes).collect::<Vec<_>>(), [PAGE_BYTES; 3]);
    for (piece, word) in pieces.iter().zip(words) {
        assert_eq!(shared_words::Word::load(piece.memory.word(piece.offset)), word);
    }
}
