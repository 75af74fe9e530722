//! The window as the kernel uses it.

use ddi::{CpuAccess, HostAperture, MapCpuHostAperture, Miniport, UnmapCpuHostAperture};
use softgpu_spec::bus::window_entry;
use softgpu_spec::register::{CPU_WINDOW_ENTRY, CPU_WINDOW_PAGE};
use wddm_types::SegmentId;

use crate::config::KmdConfig;
use crate::fake_port::{FakeHost, stopped};

const LOCAL: SegmentId = SegmentId(1);

fn map<'a>(window_pages: &'a [u32], memory_pages: &'a [u64]) -> MapCpuHostAperture<'a> {
    MapCpuHostAperture { allocation: None, segment: LOCAL, physical_adapter: 0, window_pages, memory_pages }
}

// spec: memory §6.6
// seed: U21
// seed: U22
// seed: U23
#[test]
fn scattered_pages_of_the_window_show_scattered_pages_of_the_segment() {
    let config = KmdConfig { cpu_visible: false, cpu_window_pages: 8, ..KmdConfig::default() };
    let (mut kmd, port) = stopped(config);
    kmd.start_device(&mut FakeHost::default()).expect("it starts");
    port.writes();
    kmd.map_cpu_host_aperture(map(&[5, 2], &[1, 3])).expect("inside");
    let written = port.writes();
    let programmed: Vec<(u64, u64)> = written
        .chunks(2)
        .map(|pair| {
            assert_eq!([pair[0].0, pair[1].0], [CPU_WINDOW_PAGE, CPU_WINDOW_ENTRY]);
            (pair[0].1, pair[1].1)
        })
        .collect();
    // spec: memory §6.6, a page of 64 KB is sixteen of the device's
    assert_eq!(programmed.len(), 32);
    assert_eq!(programmed[0], (5 * 16, window_entry::to(65536)));
    assert_eq!(programmed[31], (2 * 16 + 15, window_entry::to(3 * 65536 + 15 * 4096)));
    kmd.unmap_cpu_host_aperture(UnmapCpuHostAperture { window_pages: &[2], segment: LOCAL, physical_adapter: 0 });
    assert_eq!(port.writes().last(), Some(&(CPU_WINDOW_ENTRY, 0)));
}

// spec: memory §6.6, memory §10.1
#[test]
fn what_is_outside_is_refused_and_nothing_is_programmed() {
    let config = KmdConfig { cpu_visible: false, cpu_window_pages: 8, ..KmdConfig::default() };
    let (mut kmd, port) = stopped(config);
    kmd.start_device(&mut FakeHost::default()).expect("it starts");
    port.writes();
    let other = MapCpuHostAperture { segment: SegmentId(2), ..map(&[0], &[0]) };
    for wrong in [map(&[8], &[0]), map(&[0], &[u64::MAX]), map(&[0], &[1 << 20]), map(&[0, 1], &[0]), other] {
        assert!(kmd.map_cpu_host_aperture(wrong).is_err(), "{wrong:?}");
    }
    assert!(port.writes().is_empty());
}

#[test]
fn a_resized_bar_needs_no_window() {
    let (mut kmd, _) = stopped(KmdConfig::default());
    assert!(kmd.cpu_host_aperture().is_none());
    assert_eq!(CpuAccess::default(), CpuAccess::Translated(0));
}
