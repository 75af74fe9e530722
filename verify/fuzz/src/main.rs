//! `openwddm-fuzz [--seed N] [--calls N] [--messages N] [--reasons]`: hostile calls, a lying driver and messages that no client sends,
//! from a seed; says what was tried, and fails with the first rule that was broken.

use std::process::ExitCode;

fn main() -> ExitCode {
    let (mut seed, mut calls, mut messages) = (1u64, 100_000u64, None);
    let mut words = std::env::args().skip(1);
    let mut reasons = false;
    while let Some(word) = words.next() {
        if word == "--reasons" {
            reasons = true;
            continue;
        }
        let number = words.next().and_then(|number| number.parse().ok());
        match (word.as_str(), number) {
            ("--seed", Some(number)) => seed = number,
            ("--calls", Some(number)) => calls = number,
            ("--messages", Some(number)) => messages = Some(number),
            _ => {
                eprintln!("usage: openwddm-fuzz [--seed N] [--calls N] [--messages N] [--reasons]");
                return ExitCode::from(2);
            }
        }
    }
    // A message takes a connection now and then, which costs more than a call.
    match fuzz::run_messages(seed, messages.unwrap_or(calls / 10)) {
        Ok(report) => println!("messages: {report}"),
        Err(reason) => {
            eprintln!("messages of seed {seed}: {reason}");
            return ExitCode::FAILURE;
        }
    }
    // A world with a driver that lies takes some hundred calls.
    let both = fuzz::run_lies(seed, calls / 1000).and_then(|lies| Ok((lies, fuzz::run(seed, calls)?)));
    match both {
        Ok((lies, report)) => {
            println!("lies: {lies}");
            lies.lies.iter().for_each(|(lie, count)| println!("{count:>8} {lie}"));
            for (call, [answered, refused]) in &report.by_call {
                println!("{answered:>8} answered {refused:>8} refused  {call}");
            }
            for (reason, count) in report.reasons.iter().filter(|_| reasons) {
                println!("{count:>8} {reason}");
            }
            println!("seed {seed}: {report}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}
