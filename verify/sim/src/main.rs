//! `openwddm-sim --seed N --count K`: runs the worlds of K seeds from N on; says what each came to, and fails with the
//! first rule that one of them breaks.

use std::process::ExitCode;

fn main() -> ExitCode {
    let (mut seed, mut count) = (1u64, 1u64);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let number = words.next().and_then(|number| number.parse().ok());
        match (word.as_str(), number) {
            ("--seed", Some(number)) => seed = number,
            ("--count", Some(number)) => count = number,
            _ => {
                eprintln!("usage: openwddm-sim [--seed N] [--count K]");
                return ExitCode::from(2);
            }
        }
    }
    for seed in (0..count).map(|at| seed.wrapping_add(at)) {
        match sim::run(seed) {
            Ok(report) => println!("{report}"),
            Err(violation) => {
                eprintln!("{violation}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
