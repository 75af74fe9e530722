//! `openwddm man` and `openwddm completions`: the pages of the manual and the completions of shells, made from the arguments' own
//! descriptions. Packages install them; called by `entry`.

use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::arguments::Arguments;
use crate::console::Out;
use crate::error::RunError;
use crate::output::{Output, make_folder};

/// What the folder is called in messages.
const ROLE: &str = "--folder";

/// Arguments of `man`.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// Write the page of each command into this folder [default: print the page of openwddm]
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<PathBuf>,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Prints the page of the program, or writes all pages.
///
/// # Errors
/// A folder that cannot be made or written.
pub fn manual(arguments: &ManArguments, out: &mut Out) -> Result<(), RunError> {
    let command = Arguments::command();
    let Some(folder) = &arguments.folder else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page).expect("memory takes everything");
        out.print(&String::from_utf8(page).expect("the descriptions are text"));
        return Ok(());
    };
    make_folder(ROLE, folder)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    // All places are judged before the first page is written.
    let pages = pages(&command).into_iter().map(|page| {
        let output = Output::check(ROLE, &folder.join(page.get_filename()))?;
        Ok((page, output))
    });
    for (page, output) in pages.collect::<Result<Vec<_>, RunError>>()? {
        out.file(&output, |sink| page.render(sink));
    }
    Ok(())
}

/// The pages of a command and of the commands below it.
fn pages(command: &Command) -> Vec<Man> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set()).flat_map(pages);
    below.chain([Man::new(command.clone())]).collect()
}

/// Prints what a shell reads to complete the words of a command line.
pub fn completions(arguments: &CompletionsArguments, out: &mut Out) {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "openwddm", &mut text);
    out.print(&String::from_utf8(text).expect("the descriptions are text"));
}
