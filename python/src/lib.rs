//! `openwddm._native`: the sweep of the command line as a function of Python. Rows cross as JSON; the package's Python half makes
//! records of them.
//!
//! The boundary's law: the Python half names sizes, policies and rates in the words of the command line, and the functions of the
//! command line judge them; a refusal for which `openwddm` ends with exit code 2 is an [`InputError`] here, any other failure a
//! [`KernelError`]. While runs are made, other threads of Python go on, and Ctrl-C ends the sweep.

mod error;
mod patience;
mod request;

use pyo3::prelude::*;

use crate::error::{InputError, KernelError};
use crate::request::Source;

/// Replays workloads and gives the rows of all runs as JSON: `{"rows": […], "asked_bytes": […], "left_out": […], "lost": […]}`; `asked_bytes` has the
/// sizes for the first workload in the order of `sizes`, and `lost` names what could not be written.
#[pyfunction]
#[pyo3(signature = (workloads, *, sizes, policies=None, processes=None, steps=None, adapter=None, link=None, jobs=None, time_limit=None, rows=None, page=None, target_millionths=950_000))]
#[expect(clippy::too_many_arguments, reason = "the options of a sweep, each under its name")]
fn sweep(
    py: Python<'_>,
    workloads: Vec<Source>,
    sizes: Vec<String>,
    policies: Option<Vec<String>>,
    processes: Option<Vec<u32>>,
    steps: Option<u32>,
    adapter: Option<String>,
    link: Option<String>,
    jobs: Option<usize>,
    time_limit: Option<u32>,
    rows: Option<std::path::PathBuf>,
    page: Option<std::path::PathBuf>,
    target_millionths: u64,
) -> PyResult<String> {
    let request =
        request::Request { workloads, sizes, policies, processes, steps, adapter, link, jobs, time_limit, rows };
    let options = request.options()?;
    // A place that takes no file is told before the runs.
    let page = page.as_deref().map(request::page_at).transpose()?;
    let swept = patience::sweep(py, &options)?;
    let unkept = swept.unkept.as_ref().map(|unkept| unkept.error.to_string());
    let undrawn = page.and_then(|page| request::write_page(&page, &swept, target_millionths).err());
    let lost: Vec<String> = unkept.into_iter().chain(undrawn.map(|error| error.to_string())).collect();
    let peak_bytes = swept.rows.first().map_or(0, |row| row.peak_bytes);
    let asked: Vec<u64> =
        options.sizes.iter().flat_map(|sizes| sizes.each()).map(|size| size.bytes(peak_bytes)).collect();
    let value =
        serde_json::json!({ "rows": swept.rows, "asked_bytes": asked, "left_out": swept.unfit, "lost": lost });
    Ok(value.to_string())
}

/// The module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("InputError", module.py().get_type::<InputError>())?;
    module.add("KernelError", module.py().get_type::<KernelError>())?;
    module.add_function(wrap_pyfunction!(sweep, module)?)
}
