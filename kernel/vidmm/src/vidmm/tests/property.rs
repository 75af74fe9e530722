//! Properties that change while content is on lists (memory §2.8).

use wddm_types::PAGE_BYTES;

use super::world::*;
use crate::{Cause, EvictFlags, MoveKind, NextResume, PinError, PropertyError, PropertyUpdate, SpaceKind};

const LAZY: EvictFlags = EvictFlags { only_if_necessary: true, not_written_to: false };

fn to(segments: &[wddm_types::SegmentId]) -> PropertyUpdate {
    let preferred_segment = Some(ddi::SegmentPreference::default());
    PropertyUpdate { supported_segments: Some(set(segments)), preferred_segment, ..PropertyUpdate::default() }
}

#[test]
fn listed_content_that_may_not_stay_comes_with_the_next_turn_of_its_device() {
    // spec: memory §2.8
    let mut mm = adapter_of_two(64, Default::default());
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let [device, idle] = [(); 2].map(|()| mm.create_device(space));
    let [x, rest] = [8, 4].map(|pages| create(&mut mm, device, pages, &[VRAM]));
    mm.make_resident(device, &[x, rest]).expect("room");
    assert_eq!(mm.update_property(x, to(&[VRAM, EXTRA])), Ok(None), "it may stay");
    let pinned = PropertyUpdate { unmoveable: Some(true), ..to(&[EXTRA]) };
    assert_eq!(mm.update_property(x, pinned), Err(PropertyError::SegmentFull), "pinned where it is, and gone?");
    mm.check_property(x, &to(&[EXTRA])).expect("there is room");
    let work = mm.update_property(x, to(&[EXTRA])).expect("there is room").expect("it moves");
    assert_eq!(work.suspends, [device], "{idle:?} lists nothing");
    let moved: Vec<_> = work.moves.iter().map(|m| (m.allocation, m.kind, m.cause, m.segment)).collect();
    assert_eq!(moved, [(x, MoveKind::PageOut, Cause::Property, VRAM)]);
    assert_eq!(mm.next_to_resume(0), NextResume::Resume(device), "at once: no other device took its place");
    let work = mm.resume(device).expect("room").expect("it moves");
    let moved: Vec<_> = work.moves.iter().map(|m| (m.allocation, m.kind, m.segment)).collect();
    assert_eq!(moved, [(x, MoveKind::PageIn, EXTRA)]);
    assert_eq!((mm.resident_bytes(VRAM), mm.resident_bytes(EXTRA)), (4 * PAGE_BYTES, 8 * PAGE_BYTES));
}

#[test]
fn a_list_that_would_not_fit_any_more_refuses_the_change() {
    // spec: memory §2.8, §9.2
    let mut mm = adapter_of_two(64, Default::default());
    let (space, _) = mm.create_space(SpaceKind::Process).expect("tables");
    let device = mm.create_device(space);
    let [x, y] = [(8, VRAM), (30, EXTRA)].map(|(pages, segment)| create(&mut mm, device, pages, &[segment]));
    mm.make_resident(device, &[x, y]).expect("room");
    assert_eq!(mm.check_property(x, &to(&[EXTRA])), Err(PropertyError::SegmentFull));
    assert_eq!(mm.update_property(x, to(&[EXTRA])), Err(PropertyError::SegmentFull));
    assert!(mm.is_resident(x) && !mm.is_suspended(device) && mm.info(x).supported_segments == set(&[VRAM]));
    mm.pin(y).expect("resident");
    assert_eq!(mm.update_property(y, to(&[VRAM])), Err(PropertyError::SegmentFull), "what is displayed stays");
    mm.unpin(y);
    mm.evict(device, &[y], LAZY, &[]).expect("counted");
    mm.update_property(x, to(&[EXTRA])).expect("there is room now");
    assert_eq!(mm.next_to_resume(0), NextResume::Resume(device));
    let pinned = PropertyUpdate { unmoveable: Some(true), ..PropertyUpdate::default() };
    let nowhere = Err(PropertyError::Pin(PinError::NotResident));
    assert_eq!(mm.update_property(x, pinned), nowhere, "it has not come yet");
}
