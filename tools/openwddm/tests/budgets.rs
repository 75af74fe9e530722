//! `budget=` and what operations need: the least that is named is enough, a page less is refused before anything runs.

mod daemon;
mod served;

use daemon::Daemon;
use served::openwddm;

const GPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gpt.cpu.rrs.json.gz");

fn run(words: &[&str]) -> (Option<i32>, String) {
    let mut all = vec!["run"];
    all.extend(words);
    let output = openwddm(&all).output().expect("it ends");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text)
}

/// The number behind these words.
fn named(text: &str, words: &str) -> u64 {
    let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("{words} is missing in {text}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number behind {words} in {text}"))
}

#[test]
fn the_least_budget_that_is_named_runs_and_a_page_less_is_refused() {
    let small = ["--virtual-time", "--steps", "1"];
    for (adapter, page) in [
        ("discrete-4k", 4096),
        ("discrete-64k", 65536),
        ("local-monitored", 65536),
        ("two-memories", 4096),
        ("wddm1-banks", 4096),
    ] {
        for more in [&["--policy", "lru"][..], &["--policy", "kept"]] {
            let with = |budget: u64| {
                let workload = format!("{GPT},budget={budget}B");
                run(&[&[workload.as_str(), "--adapter", adapter], &small[..], more].concat())
            };
            let (code, text) = with(1);
            assert_eq!(code, Some(2), "{adapter}: {text}");
            assert!(text.contains("budget=1B of gpt") && text.contains("the largest operation needs"), "{text}");
            let least = named(&text, "give at least ");
            let (code, text) = with(least);
            assert_eq!(code, Some(0), "{adapter} with {least}: {text}");
            assert_eq!(with(least - page).0, Some(2), "{adapter} with a page less");
            assert_eq!(with(least - 1).0, Some(2), "{adapter} with a byte less");
        }
    }
}

#[test]
fn the_least_video_memory_that_is_named_runs_where_fences_lie_in_it_too() {
    for others in [&[][..], &[GPT]] {
        let with = |vram: &str| {
            let more = ["--virtual-time", "--steps", "1", "--adapter", "local-monitored", "--vram", vram];
            run(&[&[GPT], others, &more[..]].concat())
        };
        let least = named(&with("1MiB").1, "give at least ");
        let (code, text) = with(&least.to_string());
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(with(&(least - 65536).to_string()).0, Some(2));
    }
}

#[test]
fn each_workload_s_budget_is_judged_on_each_adapter() {
    let (enough, little) = (format!("{GPT},budget=50331648"), format!("{GPT},budget=50331647"));
    let both = ["--adapter", "discrete-4k", "--adapter", "discrete-64k", "--place", "in-turn", "--virtual-time"];
    let (code, text) = run(&[&[enough.as_str(), little.as_str()], &["--virtual-time"][..]].concat());
    assert_eq!((code, text.contains("budget=50331647 of gpt")), (Some(2), true), "{text}");
    assert_eq!(run(&[&[little.as_str()], &both[..]].concat()).0, Some(2));
    let (code, text) = run(&[&[enough.as_str(), "--steps", "1"], &both[..]].concat());
    assert_eq!(code, Some(0), "{text}");
    // Nothing of an integrated GPU counts in the budget of video memory.
    let (code, text) = run(&[little.as_str(), "--adapter", "integrated", "--virtual-time", "--steps", "1"]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn a_budget_that_a_daemon_gives_is_judged_too() {
    let folder = tempfile::tempdir().expect("a folder");
    for (given, code) in [(50_331_648_u64, 0), (50_331_648 - 4096, 2)] {
        let socket = folder.path().join(given.to_string());
        let limit = format!("process.budget={given}");
        let daemon = Daemon::start(
            &socket,
            &["--adapter", "discrete-4k,vram=256MiB", "--system", "2GiB", "--limit", limit.as_str()],
        );
        let (ended, text) =
            run(&[GPT, "--steps", "1", "--verify", "--connect", daemon.socket.to_str().expect("UTF-8")]);
        assert_eq!(ended, Some(code), "{text}");
        if code != 0 {
            assert!(text.contains(&format!("a budget of {given} bytes")), "{text}");
            assert!(text.contains("process.budget = 50331648"), "{text}");
        }
    }
}
