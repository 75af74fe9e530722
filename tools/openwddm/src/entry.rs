//! From the command line to a command, and from its end to an exit code. `main` calls it.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::adapters::{adapters, described};
use crate::arguments::{Arguments, Command, default_run};
use crate::bench_command;
use crate::bound_command::bound;
use crate::connected;
use crate::console::{Out, complain};
use crate::error::RunError;
use crate::interruption::{self, INTERRUPTED};
use crate::pages;
use crate::present;
use crate::progress::Progress;
use crate::replay_calls::replay_calls;
use crate::run;
use crate::run_command;
use crate::serve::outside::outside;
use crate::serve::serve;
use crate::sweep_command;
use crate::top::top;

/// Runs the command of the command line.
pub fn enter() -> ExitCode {
    let mut out = Out::standard();
    let done = match Arguments::try_parse() {
        Ok(arguments) => command(arguments.command, &mut out),
        Err(said) => Ok(parsed_no_further(&said, &mut out)),
    };
    let (code, error) = match done {
        Ok(code) => (code, None),
        Err(error) => (error.exit_code(), Some(error.as_typed(std::env::args_os()))),
    };
    let lost = out.end();
    for error in error.iter().chain(&lost) {
        complain(&format!("error: {error}\n"));
    }
    match code {
        // An output that got lost fails a command that has not failed by itself.
        0 | INTERRUPTED if !lost.is_empty() => ExitCode::FAILURE,
        code => ExitCode::from(interruption::exit_code(code)),
    }
}

fn command(command: Option<Command>, out: &mut Out) -> Result<u8, RunError> {
    match command {
        None => {
            run_command::prepare_default_folder()?;
            run_here(&default_run(), out)
        }
        Some(Command::Run(mut run)) => match run.connect.take() {
            None => run_here(&run.options()?, out),
            Some(socket) => run_there(&run.options()?, &socket, out),
        },
        Some(Command::Bound(arguments)) => {
            out.print(&bound(&arguments)?);
            Ok(0)
        }
        Some(Command::Sweep(arguments)) => {
            sweep_command::run(&arguments, &Progress::on_stderr(), &interruption::flag(), out)
        }
        Some(Command::Serve(arguments)) => serve(&arguments, out),
        Some(Command::ServeOutside(arguments)) => outside(&arguments),
        Some(Command::Top(arguments)) => top(&arguments, &interruption::flag(), out),
        Some(Command::Adapters(asked)) => {
            let text = match &asked.profile {
                Some(profile) if asked.toml => described(profile)?,
                profile => adapters(profile.as_deref(), asked.json)?,
            };
            out.print(&text);
            Ok(0)
        }
        Some(Command::Faults(faults)) => {
            out.print(&faults.text());
            Ok(0)
        }
        Some(Command::ReplayCalls(arguments)) => replay_calls(&arguments, out),
        Some(Command::Fences(fences)) => bench_command::fence_paths(fences.smoke, out).map(|()| 0),
        Some(Command::Present(wanted)) => {
            let shown = present::present(&wanted.options()?, out)?;
            out.print(&shown.text());
            // Pictures that were torn although the drawings said what they write are a fault.
            Ok(u8::from(!shown.is_as_promised()))
        }
        Some(Command::Man(asked)) => pages::manual(&asked, out).map(|()| 0),
        Some(Command::Completions(asked)) => {
            pages::completions(&asked, out);
            Ok(0)
        }
        Some(Command::Bench(bench)) => bench_command::measure(bench, out).map(|()| 0),
    }
}

/// Prints the parser's result: the help, or the fault in the arguments.
fn parsed_no_further(said: &clap::Error, out: &mut Out) -> u8 {
    if said.use_stderr() {
        complain(&said.render().to_string());
    } else {
        out.print_help(&said.render());
    }
    // CAST: 0 or 2.
    said.exit_code() as u8
}

fn run_here(options: &run::RunOptions, out: &mut Out) -> Result<u8, RunError> {
    run_command::run(options, &Progress::on_stderr(), &interruption::flag(), out)
}

fn run_there(options: &run::RunOptions, socket: &Path, out: &mut Out) -> Result<u8, RunError> {
    connected::run(options, socket, &Progress::on_stderr(), &interruption::flag(), out)
}
