//! What a trace decodes is what a replay encodes, for every declared structure and for pointers into memory.

use std::borrow::Cow;

use d3dkmt_abi::{ITEMS, Shape};

use super::arena::Arena;
use super::encode;
use crate::trace::{Decoder, JSON, Side, Value, Watched, fields};

fn decoder<'call>(function: &'call str, watched: &'call Watched) -> Decoder<'call> {
    Decoder { function, watched, side: Side::Given, bounds: JSON }
}

/// Bytes of a structure come back, whatever stands in them: each byte of a field has its turn.
#[test]
fn every_structure_comes_back_byte_by_byte() {
    let (mut structures, mut bytes_tried, mut padding) = (0, 0, 0);
    for item in ITEMS.iter().copied().flatten() {
        let (Shape::Struct(_) | Shape::Packed(_)) = item.shape else { continue };
        let of = fields(crate::trace::item(item.name).expect("declared"));
        structures += 1;
        for at in 0..item.size {
            let covered = of.iter().any(|field| (field.offset..field.offset + field.size).contains(&at));
            let mut given = vec![0; item.size];
            given[at] = 0x41;
            let watched = Watched::default();
            let value = decoder("D3DKMTCreateAllocation2", &watched).structure(of, &given);
            let (mut back, mut arena) = (vec![0; item.size], Arena::default());
            encode::structure(of, &value, &mut back, &mut arena)
                .unwrap_or_else(|misfit| panic!("{} byte {at}: {misfit:?} of {}", item.name, value.to_json()));
            // A byte between the members of an inner structure is in no value.
            let again = decoder("D3DKMTCreateAllocation2", &watched).structure(of, &back);
            let is_padding = (value == again || sets_nothing(&value)) && back.iter().all(|byte| *byte == 0);
            if !covered || is_padding {
                padding += 1;
            } else if !holds_callback(of, at) {
                assert_eq!(back, given, "{} byte {at}: {}", item.name, value.to_json());
                bytes_tried += 1;
            }
        }
    }
    assert!(structures > 150 && bytes_tried > 10_000 && padding < 1200, "{structures} {bytes_tried} {padding}");
}

fn sets_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => *number == 0,
        Value::Text(text) => text.is_empty() || text == "0" || text.ends_with("0x0"),
        Value::List(all) => all.iter().all(sets_nothing),
        Value::Members(all) => all.iter().all(|(_, value)| sets_nothing(value)),
    }
}

/// A program's function is never called by a replay: another one stands there.
fn holds_callback(of: &[d3dkmt_abi::Field], at: usize) -> bool {
    of.iter().any(|field| field.of.starts_with("PFN") && (field.offset..field.offset + 8).contains(&at))
}

fn members(pairs: &[(&'static str, Value)]) -> Value {
    Value::Members(pairs.iter().map(|(name, value)| (Cow::Borrowed(*name), value.clone())).collect())
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn encoded(structure: &str, value: &Value) -> Result<(Vec<u8>, Arena), String> {
    let item = crate::trace::item(structure).expect("declared");
    let (mut bytes, mut arena) = (vec![0; item.size], Arena::default());
    encode::structure(fields(item), value, &mut bytes, &mut arena).map_err(|misfit| misfit.0)?;
    Ok((bytes, arena))
}

#[test]
fn lists_lie_in_memory_of_their_own() {
    let list = members(&[
        ("at", text("0x7f0000001000")),
        ("list", Value::List(vec![text("allocation 0x40000005"), text("allocation 0x40000006")])),
        ("room", Value::Number(64)),
    ]);
    let value = members(&[("NumAllocations", Value::Number(2)), ("AllocationList", list)]);
    let (bytes, arena) = encoded("D3DDDI_MAKERESIDENT", &value).expect("good");
    assert_eq!(bytes[4], 2);
    let place = u64::from_le_bytes(bytes[8..16].try_into().expect("eight")) as usize;
    let content = arena.bytes(place);
    assert_eq!((&content[..8], content.len()), (&[5, 0, 0, 0x40, 6, 0, 0, 0x40][..], 64));
    assert_eq!((arena.ranges().len(), arena.ranges()[0].clone()), (1, place..place + 64));
    // A pointer that the call did not follow stays what it was, and leads nowhere.
    let value = members(&[("AllocationList", members(&[("at", text("0x7f0000001000"))]))]);
    let (bytes, arena) = encoded("D3DDDI_MAKERESIDENT", &value).expect("good");
    assert_eq!((bytes[9], arena.ranges().len()), (0x10, 0));
}

#[test]
fn memory_of_the_program_keeps_its_place_in_a_page() {
    let given = members(&[("at", text("0x7f0000001010")), ("given", Value::Number(8192))]);
    let (bytes, arena) = encoded("D3DDDI_ALLOCATIONINFO", &members(&[("pSystemMem", given)])).expect("good");
    let place = u64::from_le_bytes(bytes[8..16].try_into().expect("eight")) as usize;
    assert_eq!(place % 4096, 0x10);
    assert!(arena.ranges().iter().any(|range| range.start <= place && place + 8192 <= range.end));
}

#[test]
fn what_is_no_value_of_its_member_is_refused_with_the_member() {
    for (value, words) in [
        (members(&[("hDevise", Value::Number(1))]), ["hDevise", "no such member"]),
        (members(&[("hDevice", Value::Number(1 << 32))]), ["hDevice", "no room in 4 bytes"]),
        (members(&[("hDevice", text("device forty"))]), ["hDevice", "\"forty\" is no number"]),
        (members(&[("Flags", text("Shred"))]), ["flags", "\"Shred\" is no number"]),
        (members(&[("AllocationList", members(&[("list", text("x"))]))]), ["AllocationList", "no list"]),
        (members(&[("AllocationList", members(&[("room", Value::Number(1 << 40))]))]), ["AllocationList", "at most"]),
        (Value::Number(1), ["in", "no list of members"]),
    ] {
        let Err(why) = encoded("D3DKMT_EVICT", &value) else { panic!("{} is refused", value.to_json()) };
        assert!(words.iter().all(|word| why.contains(word)), "{why}");
    }
}
