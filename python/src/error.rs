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
    match error.exit_code() {
        2 => InputError::new_err(error.to_string()),
        _ => KernelError::new_err(error.to_string()),
    }
}
