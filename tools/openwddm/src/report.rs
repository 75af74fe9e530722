//! The report: one HTML file that needs nothing but a browser, and no network.
//!
//! The page is fixed text; the data of a run are one block of JSON in it. The script builds everything from that block
//! with text nodes only, and the page's own policy forbids it to fetch anything, so a name from a workload file can
//! neither break the page nor run. `data` chooses and counts, `thin` merges marks that are too many to draw, and the page says so.
//! Called by `run_command`.

mod data;
mod memory;
mod movers;
mod thin;

use crate::outcome::Outcome;
use crate::timeline::Timeline;

/// The whole file.
pub fn page(outcome: &Outcome, timelines: &[(String, Timeline)]) -> String {
    let data = data::Data::of(outcome, timelines);
    let json = serde_json::to_string(&data).expect("numbers and texts are always JSON");
    let parts = [
        ("{{style}}", include_str!("report/page.css").to_string()),
        ("{{data}}", harmless(&json)),
        ("{{chart}}", include_str!("report/chart.js").to_string()),
        ("{{map}}", include_str!("report/map.js").to_string()),
        ("{{script}}", include_str!("report/page.js").to_string()),
    ];
    fill(include_str!("report/page.html"), &parts)
}

/// JSON that cannot end the block around it: no tag can begin in it. The two separators are line ends to old scripts.
pub(crate) fn harmless(json: &str) -> String {
    let dangerous =
        [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];
    dangerous.iter().fold(json.to_string(), |json, (sign, escape)| json.replace(*sign, escape))
}

/// Puts each part at its place, once, in the order of the page; it never searches inserted text for places.
pub(crate) fn fill(page: &str, parts: &[(&str, String)]) -> String {
    let mut text = String::new();
    let mut rest = page;
    for (place, part) in parts {
        let (before, after) = rest.split_once(place).expect("the page has a place for each part, in order");
        text.push_str(before);
        text.push_str(part);
        rest = after;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use events::Event;

    use super::*;
    use crate::synthetic;

    fn page_of(steps: u32, operations: u32) -> String {
        let outcome = synthetic::outcome(steps, operations);
        page(&outcome, &Timeline::of_all(&outcome))
    }

    fn data(page: &str) -> serde_json::Value {
        let begin = page.split_once("<script type=\"application/json\" id=\"data\">").expect("the data block").1;
        serde_json::from_str(begin.split_once("</script>").expect("its end").0).expect("JSON")
    }

    #[test]
    fn names_cannot_leave_the_data_block() {
        let page = page_of(1, 20);
        assert!(!page.contains("</script> gpt") && !page.contains("<b>&\""));
        assert_eq!(data(&page)["summary"]["workload"], "synthetic </script> gpt");
        assert_eq!(page.matches("</script>").count(), 4);
    }

    #[test]
    fn nothing_is_fetched_and_no_markup_is_made_from_data() {
        let page = page_of(1, 20);
        let code = page.split_once("<script type=\"application/json\"").expect("the data block").0.to_string()
            + include_str!("report/page.js")
            + include_str!("report/chart.js")
            + include_str!("report/map.js");
        for word in
            ["http://", "https://", "innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "src="]
        {
            let code = code.replace("http://www.w3.org/2000/svg", "");
            assert!(!code.contains(word), "{word}");
        }
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn a_long_run_stays_small_and_says_what_was_merged() {
        let page = page_of(30, 1500);
        assert!(page.len() < 5_000_000, "{} bytes", page.len());
        let timeline = &data(&page)["views"][0]["timeline"];
        let (shown, total) = (timeline["shown"].as_u64().unwrap(), timeline["total"].as_u64().unwrap());
        assert!(shown <= 20_000 && shown < total);
        assert!(timeline["merged_ns"].as_u64().unwrap() > 0);
    }

    #[test]
    fn what_the_adapter_recovered_from_is_marked_when_it_was() {
        // spec: sync §4.4
        let mut outcome = synthetic::outcome(1, 30);
        let recording = &mut outcome.recordings[0];
        let begin_ns = Timeline::of(recording).begin_ns;
        let (adapter, reason) = (0, "an engine does not let go".to_owned());
        for (nth, event) in [
            Event::EngineReset { adapter, node: 1, device: 4 },
            Event::AdapterReset { adapter, reason: reason.clone() },
            Event::ProcessBlocked { adapter, process: 3 },
            Event::AdapterStopped { adapter, reason },
        ]
        .into_iter()
        .enumerate()
        {
            recording.events.push((begin_ns + 100 * (nth as u64 + 1), event));
        }
        let marks = &data(&page(&outcome, &Timeline::of_all(&outcome)))["views"][0]["timeline"]["recoveries"];
        let words = ["engine 1 reset", "adapter reset", "process 3 kept away", "adapter stopped"];
        let expected: Vec<_> = (1..).zip(words).map(|(nth, words)| serde_json::json!([100 * nth, words])).collect();
        assert_eq!(marks, &serde_json::Value::Array(expected));
        assert_eq!(data(&page_of(1, 30))["views"][0]["timeline"]["recoveries"], serde_json::json!([]));
    }

    /// The page marks the places where a timeline lacks entries of logs.
    #[test]
    fn what_is_missing_of_the_logs_is_marked_and_counted() {
        // spec: sync §3.14 (overrun)
        // seed: N106, N108, N128
        let mut outcome = synthetic::outcome(1, 30);
        let recording = &mut outcome.recordings[0];
        let begin_ns = Timeline::of(recording).begin_ns;
        for (nth, event) in [
            Event::FenceLogOverrun { queue: 2, waits: false, lost: 40 },
            Event::SubmissionLogOverrun { queue: 2, lost: 3 },
            Event::SchedulingLogOverrun { node: 1, lost: 5 },
            Event::FenceLogTimeReversed { queue: 2, waits: false, before: 9, end: 8 },
            Event::FenceLogEntryIgnored { queue: 2, waits: false, position: 8 },
            Event::FenceLogOverrun { queue: 3, waits: true, lost: 2 },
        ]
        .into_iter()
        .enumerate()
        {
            recording.events.push((begin_ns + 100 * (nth as u64 + 1), event));
        }
        outcome.summary.log_faults = [("entries of fence logs were lost".to_owned(), 42)].into();
        let data = data(&page(&outcome, &Timeline::of_all(&outcome)));
        let marks = &data["views"][0]["timeline"]["recoveries"];
        let expected = serde_json::json!([
            [100, "40 log entries of queue 2 lost"],
            [200, "3 log entries of queue 2 lost"],
            [300, "5 log entries of engine 1 lost"],
            [400, "times in a log of queue 2 go back"],
            [600, "2 log entries of queue 3 lost"],
        ]);
        assert_eq!(marks, &expected);
        assert_eq!(data["summary"]["log_faults"], serde_json::json!({ "entries of fence logs were lost": 42 }));
        assert!(include_str!("report/page.js").contains("Object.entries(data.summary.log_faults)"), "the page warns");
        let table = crate::table::table(&outcome, &[]);
        assert!(table.contains("entries of fence logs were lost: 42"), "{table}");
        assert!(!crate::table::table(&synthetic::outcome(1, 30), &[]).contains("entries of"), "of a whole one nothing");
    }

    #[test]
    fn a_short_run_is_shown_whole() {
        let timeline = &data(&page_of(1, 30))["views"][0]["timeline"];
        assert_eq!(timeline["shown"], timeline["total"]);
        assert_eq!(timeline["merged_ns"], 0);
    }
}
