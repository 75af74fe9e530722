//! Trace packets: which field of Perfetto's messages has which number, and nothing else.

use super::protobuf::Message;

/// Field numbers, as `trace.proto`, `trace_packet.proto`, `track_event.proto`, `track_descriptor.proto`,
/// `interned_data.proto` and `debug_annotation.proto` give them.
pub(super) mod field {
    pub const TRACE_PACKET: u32 = 1;

    pub const PACKET_TIMESTAMP: u32 = 8;
    pub const PACKET_SEQUENCE: u32 = 10;
    pub const PACKET_TRACK_EVENT: u32 = 11;
    pub const PACKET_INTERNED: u32 = 12;
    pub const PACKET_SEQUENCE_FLAGS: u32 = 13;
    pub const PACKET_TRACK: u32 = 60;

    pub const INTERNED_EVENT_NAMES: u32 = 2;
    pub const NAME_NUMBER: u32 = 1;
    pub const NAME_TEXT: u32 = 2;

    pub const EVENT_ANNOTATION: u32 = 4;
    pub const EVENT_TYPE: u32 = 9;
    pub const EVENT_NAME_NUMBER: u32 = 10;
    pub const EVENT_TRACK: u32 = 11;
    pub const EVENT_COUNTER_VALUE: u32 = 30;
    pub const EVENT_FLOW: u32 = 47;
    pub const EVENT_FLOW_END: u32 = 48;

    pub const ANNOTATION_UINT: u32 = 3;
    pub const ANNOTATION_TEXT: u32 = 6;
    pub const ANNOTATION_NAME: u32 = 10;

    pub const TRACK_NUMBER: u32 = 1;
    pub const TRACK_NAME: u32 = 2;
    pub const TRACK_PARENT: u32 = 5;
    pub const TRACK_COUNTER: u32 = 8;
    pub const TRACK_CHILD_ORDER: u32 = 11;
    pub const TRACK_RANK: u32 = 12;
    pub const COUNTER_UNIT: u32 = 3;
}

/// Kinds of track events.
pub(super) mod kind {
    pub const SLICE_BEGIN: u64 = 1;
    pub const SLICE_END: u64 = 2;
    pub const INSTANT: u64 = 3;
    pub const COUNTER: u64 = 4;
}

const FLAG_STATE_CLEARED: u64 = 1;
const FLAG_NEEDS_STATE: u64 = 2;
/// Children of a track stand in order of their rank.
const ORDER_EXPLICIT: u64 = 3;
const UNIT_BYTES: u64 = 3;

/// The unit of a counter.
#[derive(Clone, Copy)]
pub enum Unit {
    /// It counts bytes.
    Bytes,
}

/// Where a track stands.
#[derive(Clone, Copy)]
pub struct TrackPlace {
    /// Number of the track that it belongs to.
    pub parent: Option<u64>,
    /// Place among its siblings; smaller is higher.
    pub rank: u32,
}

/// Details of an event.
#[derive(Clone, Default)]
pub struct Annotations {
    list: Vec<Message>,
}

impl Annotations {
    /// A number.
    pub fn number(&mut self, name: &str, value: u64) {
        self.add(name, |message| message.number(field::ANNOTATION_UINT, value));
    }

    /// A text.
    pub fn text(&mut self, name: &str, text: &str) {
        self.add(name, |message| message.text(field::ANNOTATION_TEXT, text));
    }

    fn add(&mut self, name: &str, value: impl FnOnce(&mut Message)) {
        let mut message = Message::default();
        message.text(field::ANNOTATION_NAME, name);
        value(&mut message);
        self.list.push(message);
    }
}

/// Begins the sequence and gives every event name its number (counted from 1: 0 would mean none).
pub fn sequence_start(sequence: u64, at_ns: u64, names: &[String]) -> Vec<u8> {
    let mut interned = Message::default();
    for (number, name) in (1..).zip(names) {
        let mut entry = Message::default();
        entry.number(field::NAME_NUMBER, number);
        entry.text(field::NAME_TEXT, name);
        interned.message(field::INTERNED_EVENT_NAMES, &entry);
    }
    let mut packet = Message::default();
    packet.number(field::PACKET_TIMESTAMP, at_ns);
    packet.number(field::PACKET_SEQUENCE, sequence);
    packet.number(field::PACKET_SEQUENCE_FLAGS, FLAG_STATE_CLEARED);
    packet.message(field::PACKET_INTERNED, &interned);
    in_trace(&packet)
}

/// A track; with a unit, a counter.
pub fn track(sequence: u64, number: u64, name: &str, place: TrackPlace, unit: Option<Unit>) -> Vec<u8> {
    let mut track = Message::default();
    track.number(field::TRACK_NUMBER, number);
    track.text(field::TRACK_NAME, name);
    if let Some(parent) = place.parent {
        track.number(field::TRACK_PARENT, parent);
        track.number(field::TRACK_RANK, u64::from(place.rank));
    }
    match unit {
        None => track.number(field::TRACK_CHILD_ORDER, ORDER_EXPLICIT),
        Some(Unit::Bytes) => {
            let mut counter = Message::default();
            counter.number(field::COUNTER_UNIT, UNIT_BYTES);
            track.message(field::TRACK_COUNTER, &counter);
        }
    }
    let mut packet = Message::default();
    packet.number(field::PACKET_SEQUENCE, sequence);
    packet.message(field::PACKET_TRACK, &track);
    in_trace(&packet)
}

/// A slice begins.
pub fn slice_begin(sequence: u64, at_ns: u64, track: u64, name: u32, notes: &Annotations) -> Vec<u8> {
    let mut event = named(kind::SLICE_BEGIN, track, name);
    notes.list.iter().for_each(|note| event.message(field::EVENT_ANNOTATION, note));
    event_packet(sequence, at_ns, &event)
}

/// The innermost slice of the track ends.
pub fn slice_end(sequence: u64, at_ns: u64, track: u64) -> Vec<u8> {
    event_packet(sequence, at_ns, &event(kind::SLICE_END, track))
}

/// Something happened at once; arrows leave it and end at it.
pub fn instant(
    sequence: u64,
    at_ns: u64,
    track: u64,
    name: u32,
    notes: &Annotations,
    (from, to): (&[u64], &[u64]),
) -> Vec<u8> {
    let mut event = named(kind::INSTANT, track, name);
    notes.list.iter().for_each(|note| event.message(field::EVENT_ANNOTATION, note));
    from.iter().for_each(|flow| event.fixed(field::EVENT_FLOW, *flow));
    to.iter().for_each(|flow| event.fixed(field::EVENT_FLOW_END, *flow));
    event_packet(sequence, at_ns, &event)
}

/// A counter has this value from now on.
pub fn counter(sequence: u64, at_ns: u64, track: u64, value: u64) -> Vec<u8> {
    let mut event = event(kind::COUNTER, track);
    // The field is signed; more bytes than 2^63 exist nowhere.
    event.number(field::EVENT_COUNTER_VALUE, value.min(i64::MAX as u64));
    event_packet(sequence, at_ns, &event)
}

fn event(kind: u64, track: u64) -> Message {
    let mut event = Message::default();
    event.number(field::EVENT_TYPE, kind);
    event.number(field::EVENT_TRACK, track);
    event
}

fn named(kind: u64, track: u64, name: u32) -> Message {
    let mut event = event(kind, track);
    event.number(field::EVENT_NAME_NUMBER, u64::from(name) + 1);
    event
}

fn event_packet(sequence: u64, at_ns: u64, event: &Message) -> Vec<u8> {
    let mut packet = Message::default();
    packet.number(field::PACKET_TIMESTAMP, at_ns);
    packet.number(field::PACKET_SEQUENCE, sequence);
    packet.number(field::PACKET_SEQUENCE_FLAGS, FLAG_NEEDS_STATE);
    packet.message(field::PACKET_TRACK_EVENT, event);
    in_trace(&packet)
}

fn in_trace(packet: &Message) -> Vec<u8> {
    let mut trace = Message::default();
    trace.message(field::TRACE_PACKET, packet);
    trace.into_bytes()
}
