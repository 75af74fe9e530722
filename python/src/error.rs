//! Refusals and failures as exceptions of Python.

use openwddm::error::RunError;
use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};

create_exception!(
    openwddm,
    InputError,
    PyValueError,
    "A workload, a size or another argument that cannot be used: the message names the value, the place in it, and what to do."
);
create_exception!(openwddm, KernelError, PyRuntimeError, "The run itself failed, or its result found no room.");

/// The exception of an error: where the command line ends with exit code 2, the caller's input is to blame.
pub fn exception(error: &RunError) -> PyErr {
    let text = in_python(&error.to_string());
    match error.exit_code() {
        2 => InputError::new_err(text),
        _ => KernelError::new_err(text),
    }
}

/// A text of the command line in the words of Python: `--vram 5: …` becomes `vram=5: …`, and options elsewhere become arguments. Words in
/// backquotes are a command to type, and stay.
fn in_python(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    for (nth, part) in text.split('`').enumerate() {
        match nth % 2 {
            0 => options_in_python(part, nth == 0, &mut told),
            _ => told.extend(["`", part, "`"]),
        }
    }
    told
}

/// Adds a text without commands. `begins`: an option at its start comes with the value that the caller gave.
fn options_in_python(text: &str, begins: bool, told: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find("--") {
        let (before, option) = rest.split_at(at);
        let name = &option[2..];
        let end = name.find(|letter: char| !letter.is_ascii_lowercase() && letter != '-').unwrap_or(name.len());
        told.push_str(before);
        rest = &name[end..];
        if end == 0 {
            told.push_str("--");
            continue;
        }
        let is_first = begins && told.is_empty();
        // The option that keeps rows has another name than the argument.
        told.push_str(&if &name[..end] == "out" { "rows".to_owned() } else { name[..end].replace('-', "_") });
        if let Some(value) = rest.strip_prefix(' ').filter(|_| is_first) {
            told.push('=');
            rest = value;
        }
    }
    told.push_str(rest);
}
