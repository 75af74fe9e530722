//! From the command line to a command, and from its end to an exit code. `main` calls it.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;

use crate::adapters::adapters;
use crate::arguments::{Arguments, Command, default_run};
use crate::connected;
use crate::error::RunError;
use crate::present;
use crate::progress::Progress;
use crate::run;
use crate::run_command;
use crate::serve::serve;
use crate::top::top;

/// Exit code after Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Does what the command line says.
pub fn enter() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        None => run_command::prepare_default_folder().and_then(|()| run_here(default_run())),
        Some(Command::Run(mut run)) => match run.connect.take() {
            None => run.options().and_then(run_here),
            Some(socket) => run.options().and_then(|options| run_there(&options, &socket)),
        },
        Some(Command::Serve(arguments)) => serve(&arguments),
        Some(Command::Top(arguments)) => top(&arguments, &cancel()),
        Some(Command::Adapters(asked)) => adapters(asked.profile.as_deref(), asked.json).map(print),
        Some(Command::Fences(fences)) => run::fence_paths(fences.smoke).map(|()| 0),
        Some(Command::Present(wanted)) => wanted.options().and_then(|options| present::present(&options)).map(told),
        Some(Command::Bench(bench)) => run::measure(bench).map(|()| 0),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn run_here(options: run::RunOptions) -> Result<u8, RunError> {
    let cancel = cancel();
    run_command::run(&options, &Progress::on_stderr(), &cancel, &mut std::io::stdout())
}

fn run_there(options: &run::RunOptions, socket: &Path) -> Result<u8, RunError> {
    let (text, code) = connected::run(options, socket, &Progress::on_stderr(), &cancel())?;
    print!("{text}");
    Ok(code)
}

/// What Ctrl-C raises.
fn cancel() -> Arc<AtomicBool> {
    let cancel = Arc::new(AtomicBool::new(false));
    let raised = cancel.clone();
    // The first Ctrl-C asks for an end with what was reached; the second ends at once.
    let set = ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    });
    if let Err(error) = set {
        eprintln!("note: Ctrl-C will end the run without a result: {error}");
    }
    cancel
}

/// Pictures that were torn although everybody kept the rules are a fault.
fn told(shown: present::Shown) -> u8 {
    print!("{}", shown.text());
    u8::from(!shown.is_as_promised())
}

fn print(text: String) -> u8 {
    print!("{text}");
    0
}
