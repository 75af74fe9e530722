//! Calls, visible: `OPENWDDM_TRACE=calls[,errors][:FILE]` has the library write each call with its decoded arguments, its results, its
//! status, its time and its thread. docs/calls.md is its page. The border asks [`is_on`] once a call and hands over what it has seen; this
//! file reads the variable and keeps the place where lines go, `line` writes them.

mod decode;
mod kind;
mod line;
mod schema;
mod value;
mod watched;

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use wddm_types::NtStatus;

use crate::session::lock;

pub use decode::{Decoder, Side};
pub use line::{JSON, VERSION};
pub use schema::{Type, fields, is_nameless, item};
pub use value::Value;
pub use watched::Watched;

/// The variable.
const VARIABLE: &str = "OPENWDDM_TRACE";
/// What the variable may say.
const FORMS: &str =
    "give calls, or calls,errors for failed calls only, and :FILE behind it for a file (FILE.jsonl: JSON lines)";

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// Whether calls are traced; read from the environment by the first call.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static TRACE: OnceLock<Option<Trace>> = OnceLock::new();

/// Whether calls are traced: one load and one branch once the first call has read the variable.
pub fn is_on() -> bool {
    match STATE.load(Ordering::Relaxed) {
        OFF => false,
        state => state == ON || open(),
    }
}

#[cold]
fn open() -> bool {
    let trace = TRACE.get_or_init(|| {
        let wanted = std::env::var_os(VARIABLE).filter(|value| !value.is_empty())?;
        let trace = wanted.to_str().ok_or_else(|| format!("it is no text; {FORMS}")).and_then(Trace::open);
        trace.inspect_err(|why| eprintln!("openwddm: {VARIABLE}={wanted:?}: {why}; no call is traced")).ok()
    });
    STATE.store(if trace.is_some() { ON } else { OFF }, Ordering::Relaxed);
    trace.is_some()
}

/// What the variable asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'text> {
    failed_only: bool,
    file: Option<&'text str>,
}

impl Wanted<'_> {
    fn of(text: &str) -> Result<Wanted<'_>, String> {
        let (kinds, file) = text.split_once(':').map_or((text, None), |(kinds, file)| (kinds, Some(file)));
        let mut wanted = Wanted { failed_only: false, file };
        for (nth, kind) in kinds.split(',').enumerate() {
            match (nth, kind.trim()) {
                (0, "calls") => {}
                (1, "errors") => wanted.failed_only = true,
                (_, kind) => return Err(format!("\"{kind}\" is not to be traced; {FORMS}")),
            }
        }
        match file {
            Some("") => Err(format!("there is no file behind the colon; {FORMS}")),
            _ => Ok(wanted),
        }
    }

    fn is_json(&self) -> bool {
        self.file.is_some_and(|file| file.ends_with(".jsonl") || file.ends_with(".json"))
    }
}

/// Where lines go, and what they have.
struct Trace {
    failed_only: bool,
    json: bool,
    begun: Instant,
    place: Mutex<Place>,
}

struct Place {
    /// `None`: the standard error output.
    file: Option<File>,
    calls: u64,
    /// A line was lost, which the program has been told.
    failed: bool,
}

impl Trace {
    fn open(text: &str) -> Result<Trace, String> {
        let wanted = Wanted::of(text)?;
        let file = wanted.file.map(|file| file.replace("%p", &std::process::id().to_string()));
        let file = file.map(|path| File::create(&path).map_err(|error| format!("{path}: {error}"))).transpose()?;
        let mut place = Place { file, calls: 0, failed: false };
        if wanted.is_json() {
            place.write(&line::head(wanted.failed_only));
        }
        let (failed_only, json) = (wanted.failed_only, wanted.is_json());
        Ok(Trace { failed_only, json, begun: Instant::now(), place: Mutex::new(place) })
    }
}

impl Place {
    /// One line, in one piece: a program that is killed leaves whole lines.
    fn write(&mut self, line: &str) {
        let Some(file) = &mut self.file else {
            eprint!("openwddm: {line}");
            return;
        };
        if let Err(error) = file.write_all(line.as_bytes())
            && !std::mem::replace(&mut self.failed, true)
        {
            eprintln!("openwddm: {VARIABLE}: a line could not be written: {error}; the trace has a gap");
        }
    }
}

/// A call that has returned.
pub struct Returned<'call> {
    pub function: &'call str,
    /// The bytes of its structure or its parameters before the call, if it has any that could be read.
    pub before: Option<Vec<u8>>,
    /// The same behind it.
    pub after: Option<Vec<u8>>,
    pub watched: &'call Watched,
    pub status: NtStatus,
    pub reason: Option<String>,
    pub begun: Instant,
}

/// Writes the line of a call.
pub fn returned(call: &Returned<'_>) {
    let duration_ns = call.begun.elapsed().as_nanos();
    let Some(Some(trace)) = TRACE.get() else { return };
    if trace.failed_only && call.status.is_success() {
        return;
    }
    let start_ns = call.begun.saturating_duration_since(trace.begun).as_nanos();
    let mut told = line::Told::of(call, trace.json, (start_ns, duration_ns));
    // Numbers rise in the order of the lines, which is that of the returns.
    let mut place = lock(&trace.place);
    place.calls += 1;
    told.number = place.calls;
    place.write(&if trace.json { told.json() } else { told.text() });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_says_what_is_traced_and_where() {
        let of = |failed_only, file| Ok(Wanted { failed_only, file });
        assert_eq!(Wanted::of("calls"), of(false, None));
        assert_eq!(Wanted::of("calls,errors"), of(true, None));
        assert_eq!(Wanted::of("calls:a:b.jsonl"), of(false, Some("a:b.jsonl")));
        for wrong in ["call", "errors", "calls,", "calls:", "calls,errors,more", "calls,error:x"] {
            let why = Wanted::of(wrong).expect_err(wrong);
            assert!(why.contains("calls,errors") && why.contains("FILE"), "{wrong}: {why}");
        }
        let json = |text| Wanted::of(text).expect("good").is_json();
        assert!(json("calls:a.jsonl") && json("calls:a.json") && !json("calls:a.txt") && !json("calls"));
    }
}
