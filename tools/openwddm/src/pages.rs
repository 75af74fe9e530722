//! `openwddm man` and `openwddm completions`: the pages of the manual and the completions of shells, made from the arguments' own
//! descriptions. Packages install them; called by `entry`.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::console::Out;
use crate::error::RunError;

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
/// A folder that cannot be made or written; [`RunError::Output`].
pub fn manual(arguments: &ManArguments, out: &mut Out) -> Result<(), RunError> {
    let command = Arguments::command();
    let Some(folder) = &arguments.folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).expect("memory takes everything");
        return out.print(&String::from_utf8(page).expect("the descriptions are text"));
    };
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    written.map_err(|error| RunError::File {
        role: "--folder".to_owned(),
        path: folder.clone(),
        problem: format!("the pages cannot be written: {error}"),
        remedy: "name a folder that can be made and written".to_owned(),
    })
}

/// Prints what a shell reads to complete the words of a command line.
///
/// # Errors
/// [`RunError::Output`].
pub fn completions(arguments: &CompletionsArguments, out: &mut Out) -> Result<(), RunError> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "openwddm", &mut text);
    out.print(&String::from_utf8(text).expect("the descriptions are text"))
}
