//! Blts of parts of surfaces (memory §5.7): each row goes from its place to its place, and nothing beside it.

use std::sync::Arc;

use d3dkmt::{Allocation, DeviceState, VirtualContext};
use kmt_calls::Refusal;
use softgpu_spec::display::pitch_bytes;
use softgpu_spec::private_data::Details;
use wddm_types::{BltRectangle, NtStatus};

use super::*;

/// Texels of a row, and rows: of the source and of the destination, whose pitches differ.
const SOURCE: (u16, u16) = (64, 300);
const DESTINATION: (u16, u16) = (100, 400);

fn surface(client: &Client, (width, height): (u16, u16)) -> Arc<Allocation> {
    let size_bytes = (pitch_bytes(width.into()) * u64::from(height)).next_multiple_of(4096);
    let details = Details { display_width: width, display_height: height, ..Details::default() };
    let (kind, accessed_physically) = (SurfaceKind::System, true);
    let request = AllocationRequest { kind, cpu_visible: true, cached: false, accessed_physically, size_bytes };
    let made = client.gpu.device().create_allocation(request.encode_with(&details).to_vec()).unwrap();
    client.gpu.paging().make_resident(vec![made.handle()], MakeResidentFlags::empty()).unwrap();
    made
}

/// The offset of two texels that stand beside each other, the first in an even column.
fn offset((width, _): (u16, u16), column: u32, row: u32) -> u64 {
    u64::from(row) * pitch_bytes(width.into()) + u64::from(column) * 4
}

/// A context of either kind, as its presents.
type Presents = Box<dyn Fn(&Allocation, &Allocation, Vec<BltRectangle>) -> Result<u32, Refusal>>;

fn contexts(client: &Client) -> [(&'static str, Presents); 2] {
    let patched = context(client, DmaBuffers::Contiguous);
    let addressed = VirtualContext::create(client.gpu.device(), COPY, vec![]).unwrap();
    [
        ("patched", Box::new(move |from, to, parts| patched.present_parts(from, to, parts))),
        ("addresses", Box::new(move |from, to, parts| addressed.present_parts(from, to, parts))),
    ]
}

#[test]
fn parts_of_a_blt_go_where_they_are_to_go_and_nowhere_else() {
    // spec: memory §5.7, memory §7.1
    for mode in [VIRTUAL, Mode::Real] {
        let (host, _) = traced(mode, 4 * MIB);
        let client = client(&host);
        for (which, present) in contexts(&client) {
            let (source, target) = (surface(&client, SOURCE), surface(&client, DESTINATION));
            let value = |column: u32, row: u32| u64::from(row) << 32 | u64::from(column + 1);
            {
                let lock = source.lock().unwrap();
                for row in 0..u32::from(SOURCE.1) {
                    (0..u32::from(SOURCE.0)).step_by(2).for_each(|column| {
                        lock.write_words(offset(SOURCE, column, row), &[value(column, row)]);
                    });
                }
            }
            // More rows than a DMA buffer has room for, and one word in the corner.
            let tall = BltRectangle {
                source_left: 2,
                source_top: 1,
                destination_left: 10,
                destination_top: 50,
                width: 6,
                height: 290,
            };
            let corner = BltRectangle {
                source_left: 62,
                source_top: 299,
                destination_left: 98,
                destination_top: 399,
                width: 2,
                height: 1,
            };
            present(&source, &target, vec![tall, corner]).unwrap();
            while host.step() {}
            let expected = |column: u32, row: u32| match (column, row) {
                (10..16, 50..340) => value(column - 8, row - 49),
                (98, 399) => value(62, 299),
                _ => 0,
            };
            let mut waited = 0;
            while word(&target, offset(DESTINATION, 98, 399)) == 0 && waited < 2000 {
                std::thread::sleep(std::time::Duration::from_millis(5));
                waited += 1;
            }
            let lock = target.lock().unwrap();
            for row in 0..u32::from(DESTINATION.1) {
                for column in (0..u32::from(DESTINATION.0)).step_by(2) {
                    let read = lock.read_word(offset(DESTINATION, column, row));
                    assert_eq!(read, expected(column, row), "{which}, {mode:?}: column {column}, row {row}");
                }
            }
        }
        host.check_invariants().unwrap();
    }
}

#[test]
fn parts_that_no_surface_has_are_refused_and_nothing_is_copied() {
    // spec: memory §5.7, memory §9.2
    let (host, _) = traced(VIRTUAL, 4 * MIB);
    let client = client(&host);
    let (source, target) = (surface(&client, SOURCE), surface(&client, DESTINATION));
    let plain = physical(&client, SurfaceKind::System, 4096);
    let part = BltRectangle { width: 2, height: 1, ..BltRectangle::default() };
    let wrong = [
        BltRectangle { width: 0, ..part },
        BltRectangle { height: 20_000, ..part },
        BltRectangle { source_left: 1, ..part },
        BltRectangle { source_left: 64, ..part },
        BltRectangle { source_top: 300, ..part },
        BltRectangle { destination_left: u32::MAX - 1, ..part },
        BltRectangle { destination_top: 400, ..part },
    ];
    for (which, present) in contexts(&client) {
        for wrong in wrong {
            let refused = present(&source, &target, vec![part, wrong]).unwrap_err();
            assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{which}: {wrong:?}: {refused}");
        }
        let refused = present(&plain, &target, vec![part]).unwrap_err();
        assert_eq!(refused.status, NtStatus::INVALID_PARAMETER, "{which}: no rows: {refused}");
    }
    while host.step() {}
    assert_eq!(word(&target, 0), 0);
    assert_eq!(client.gpu.device().state().unwrap(), DeviceState::Active);
    host.check_invariants().unwrap();
}
