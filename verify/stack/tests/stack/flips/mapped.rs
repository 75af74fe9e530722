//! Primaries in system memory that only page tables reach: an aperture shows them from the flip to them until another one has replaced
//! them, on GPUs with page tables and on those that use the CPU's addresses.

use std::collections::BTreeSet;

use ddi::{KmdAllocation, PagingOp};
use wddm_types::NtStatus;

use super::*;
use crate::stubborn::{Whims, wrapped};

/// Primaries that an aperture shows now, and how often it has begun to show one.
#[derive(Clone, Default)]
struct Mapped(Arc<Mutex<(BTreeSet<KmdAllocation>, usize)>>);

impl Mapped {
    fn counts(&self) -> (usize, usize) {
        let known = self.0.lock().unwrap();
        (known.0.len(), known.1)
    }
}

fn watched(name: &str) -> (Arc<Host>, Heard, Mapped) {
    let mapped = Mapped::default();
    let known = mapped.clone();
    let build = Box::new(move |driver: &mut dyn ddi::Miniport, build: &mut ddi::BuildPagingBuffer<'_>| {
        let mut known = known.0.lock().unwrap();
        // Of a primary no device is named.
        match build.operation {
            PagingOp::MapApertureSegment { device: None, allocation: Some(allocation), .. } => {
                assert!(known.0.insert(allocation), "it was shown already");
                known.1 += 1;
            }
            PagingOp::UnmapApertureSegment { device: None, allocation: Some(allocation), .. } => {
                assert!(known.0.remove(&allocation), "it was not shown");
            }
            _ => {}
        }
        drop(known);
        driver.build_paging_buffer(build)
    });
    let heard = Heard::default();
    let profile = Profile { aperture_bytes: 64 * MIB, ..*Profile::named(name).unwrap() };
    let config = HostConfig {
        system_bytes: 256 * MIB,
        tracer: Box::new(heard.clone()),
        wrap_miniport: Some(wrapped(Whims { packets: true, build, ..Whims::default() })),
        ..HostConfig::new(&profile, VIRTUAL)
    };
    (Host::start(config).unwrap(), heard, mapped)
}

#[test]
fn an_aperture_shows_a_primary_only_while_it_is_displayed() {
    // spec: memory §1.6, memory §4.1
    for name in ["maps-displayed", "iommu"] {
        let (host, heard, mapped) = watched(name);
        let mut game = Game::without_display(&host, 2);
        assert_eq!(mapped.counts(), (0, 0), "{name}: it is resident, and engines reach it by its address");
        let screen = Arc::new(Screen::default());
        host.adapter(0).connect_monitor(0, Arc::clone(&screen) as Arc<dyn Monitor>);
        let drawn = game.draw(0, 1, 1);
        game.stream.wait(&game.gpu, drawn).unwrap();
        game.gpu.device().own_sources(&[SOURCE]).unwrap();
        game.gpu.device().set_display_mode(game.primaries[0].allocation()).unwrap();
        assert_eq!(mapped.counts(), (1, 1), "{name}");
        game.blank();
        for picture in 2..=6u32 {
            let primary = (picture as usize - 1) % 2;
            let drawn = game.draw(primary, picture, 1);
            game.stream.wait(&game.gpu, drawn).unwrap();
            assert_eq!(mapped.counts(), (1, picture as usize - 1), "{name}: drawing does not need it there");
            game.flip(primary, 1).unwrap();
            assert_eq!(mapped.counts(), (2, picture as usize), "{name}: it is there before it is displayed");
            while heard.shown().len() < picture as usize - 1 {
                game.blank();
            }
            assert_eq!(mapped.counts().0, 1, "{name}: the replaced primary is not there");
            host.check_invariants().unwrap();
        }
        game.blank();
        screen.has_seen_each(6);
        game.gpu.device().own_sources(&[]).unwrap();
        assert_eq!(mapped.counts().0, 0, "{name}: it is dark");
        drop(game);
        host.check_invariants().unwrap();
    }
}

#[test]
fn several_flips_to_one_primary_show_it_once() {
    // spec: memory §1.6
    let (host, heard, mapped) = watched("maps-displayed");
    let game = Game::new(&host, 2);
    game.gpu.device().set_queued_limit(16).unwrap();
    for nth in 0..6 {
        game.flip(1 - nth % 2, 1).unwrap();
    }
    assert_eq!(mapped.counts(), (2, 2));
    while heard.shown().len() < 6 {
        game.blank();
        host.check_invariants().unwrap();
    }
    assert_eq!(mapped.counts(), (1, 2), "there was always another flip to it");
}

#[test]
fn a_display_is_refused_what_the_aperture_has_no_room_for() {
    // spec: memory §9.2
    let (host, heard, mapped) = watched("maps-displayed");
    let game = Game::without_display(&host, 1);
    let device = game.gpu.device();
    // Each is more than half of the aperture.
    let [first, second] = [(); 2].map(|()| {
        let primary = game.gpu.create_primary(SOURCE, 4096, 2304).unwrap();
        game.gpu.pin(&primary).unwrap();
        primary
    });
    device.own_sources(&[SOURCE]).unwrap();
    device.set_display_mode(first.allocation()).unwrap();
    for _ in 0..2 {
        assert_eq!(game.flip_to(&second, 1).unwrap_err().status, NtStatus::NO_MEMORY);
        assert_eq!(device.set_display_mode(second.allocation()).unwrap_err().status, NtStatus::NO_MEMORY);
    }
    assert_eq!((mapped.counts(), heard.dropped()), ((1, 1), 0));
    assert!(host.device_register(display::DISPLAY_ADDRESS) != 0, "nothing has changed");
    device.own_sources(&[]).unwrap();
    device.own_sources(&[SOURCE]).unwrap();
    device.set_display_mode(second.allocation()).unwrap();
    assert_eq!(mapped.counts(), (1, 2));
    host.check_invariants().unwrap();
    drop((first, second));
    assert_eq!(mapped.counts().0, 0);
    host.check_invariants().unwrap();
}
