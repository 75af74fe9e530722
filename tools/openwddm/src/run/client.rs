//! The outcome of a run at a served kernel, made of the events that its processes have of their own: the same kinds of files as of a run in
//! this program, by the same recorder. What only the daemon has stays out: the device, other processes, the content of the kernel's memory. Called by
//! `connected`.

use std::sync::Arc;

use events::Event;
use kmt_link::OwnEvent;

use super::numbers::Numbers;
use super::recorder::Recorder;
use crate::outcome::{Displaced, Outcome, Recording, Summary};

/// The list of moves is not compared with what the kernel has, because no client may look there.
const NOT_COMPARED: &str = "not compared: a client sees its own moves alone";

/// The outcome of the events of all processes of a run. `lost`: how many events their rings had no room for. `known` has what the replay
/// tells, and which figures of it are the kernel's.
pub fn outcome(events: Vec<OwnEvent>, lost: u64, keeps_demotions: bool, known: Summary, interrupted: bool) -> Outcome {
    let mut adapters: Vec<(String, u64)> = Vec::new();
    for OwnEvent { event, .. } in &events {
        match event {
            Event::AdapterStarted { adapter, name, .. } if *adapter as usize == adapters.len() => {
                adapters.push((name.clone(), 0));
            }
            _ => {}
        }
    }
    let several = adapters.len() > 1;
    let recorders: Vec<Arc<Recorder>> =
        (0..adapters.len()).map(|number| Recorder::new(number, true, keeps_demotions)).collect();
    for OwnEvent { adapter, now_ns, event } in &events {
        if let Event::SegmentAdded { adapter, aperture: false, capacity_bytes, .. } = event
            && let Some((_, vram_bytes)) = adapters.get_mut(*adapter as usize)
        {
            *vram_bytes += capacity_bytes;
        }
        match adapter {
            Some(adapter) => recorders.get(*adapter as usize).into_iter().for_each(|heard| heard.event(*now_ns, event)),
            None => recorders.iter().for_each(|heard| heard.event(*now_ns, event)),
        }
    }
    let displaced: Vec<Displaced> = recorders.iter().flat_map(|recorder| recorder.displaced()).collect();
    let taken = recorders.iter().zip(&adapters);
    let (numbers, mut recordings): (Vec<Numbers>, Vec<Recording>) =
        taken.map(|(recorder, (name, vram_bytes))| recorder.take_heard(name.clone(), *vram_bytes)).unzip();
    if let Some(first) = recordings.first_mut() {
        first.dropped += lost;
    }
    if several {
        for (number, recording) in (0..).zip(&mut recordings) {
            recording.demotions.iter_mut().for_each(|demotion| demotion.adapter = Some(number));
        }
    }
    let names: Vec<&str> = adapters.iter().map(|(name, _)| name.as_str()).collect();
    let profile = names.join(" + ");
    let counted = Numbers::into_summary(numbers);
    let summary = Summary {
        adapter: profile.clone(),
        seen_by: Some("client"),
        vram_bytes: adapters.iter().map(|(_, bytes)| bytes).sum(),
        displaced,
        demotion_log: if keeps_demotions { NOT_COMPARED } else { "off" }.to_owned(),
        page_in_by_cause: counted.page_in_by_cause,
        page_out_by_cause: counted.page_out_by_cause,
        tables_converted_by_cause: counted.tables_converted_by_cause,
        stood_still_by_cause: counted.stood_still_by_cause,
        recoveries: counted.recoveries,
        log_faults: counted.log_faults,
        paged_in_bytes: counted.paged_in_bytes,
        paged_out_bytes: counted.paged_out_bytes,
        discarded_bytes: counted.discarded_bytes,
        filled_bytes: counted.filled_bytes,
        relocated_bytes: counted.relocated_bytes,
        mapped_bytes: counted.mapped_bytes,
        unmapped_bytes: counted.unmapped_bytes,
        ..known
    };
    Outcome { summary, recordings, profile, interrupted }
}
