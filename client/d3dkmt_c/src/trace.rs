//! Calls, visible: `OPENWDDM_TRACE=calls[+memory][,errors][:FILE]` has the library write each call with its decoded arguments, its results, its
//! status, its time and its thread, and with `memory` what engines read ([`memory`]). docs/calls.md is its page. The border asks [`is_on`] once a call and hands over what it has seen; this
//! file reads the variables and keeps the places where lines go, `line` writes them. `OPENWDDM_FIDELITY=FILE` has the table of
//! [`crate::fidelity`] written, which is also the end of a trace.

mod decode;
mod kind;
mod line;
mod memory;
mod order;
mod schema;
mod value;
mod watched;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use kmt_link::{CallOrder, Link};
use wddm_types::NtStatus;

use crate::fidelity::{Fidelity, Use};
use crate::session::lock;
use memory::Memory;

pub use decode::{Decoder, Side};
pub use line::{JSON, VERSION};
pub use memory::Same;
pub use schema::{Type, fields, is_nameless, item};
pub use value::{Value, quote};
pub use watched::Watched;

/// The variable of traces.
const VARIABLE: &str = "OPENWDDM_TRACE";
/// The variable of the table of fidelity.
const TABLE: &str = "OPENWDDM_FIDELITY";
/// What the variable may say.
const FORMS: &str = "give calls, calls,errors for failed calls only, or calls+memory for what engines read, too, and :FILE behind it for a file (FILE.jsonl: JSON lines)";

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

/// Whether calls are traced; read from the environment by the first call.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static WATCH: OnceLock<Option<Watch>> = OnceLock::new();

/// What the calls of this program are watched for.
struct Watch {
    /// The process that they are made by: a forked child has a copy, and its end is not this one's.
    process: u32,
    begun: Instant,
    /// Calls that have ended: the next end takes its number and its time under one lock, so that numbers rise with time.
    ends: Mutex<u64>,
    trace: Option<Trace>,
    fidelity: Fidelity,
    /// Where the table goes, if the program wants it in a file of its own.
    table: Option<Table>,
    /// The way to the program's kernel, once there is one.
    kernel: OnceLock<Arc<dyn Link>>,
}

struct Table {
    path: String,
    /// One thread writes at a time; true: the program has been told that the file cannot be written.
    failed: Mutex<bool>,
}

/// Whether calls are traced: one load and one branch once the first call has read the variable.
pub fn is_on() -> bool {
    match STATE.load(Ordering::Relaxed) {
        OFF => false,
        state => state == ON || open(),
    }
}

#[cold]
fn open() -> bool {
    let watch = WATCH.get_or_init(|| {
        let trace = value_of(VARIABLE, "no call is traced", Trace::open);
        let table = value_of(TABLE, "no table is written", Table::open);
        let watch = Watch {
            process: std::process::id(),
            begun: Instant::now(),
            ends: Mutex::new(0),
            trace,
            fidelity: Fidelity::default(),
            table,
            kernel: OnceLock::new(),
        };
        (watch.trace.is_some() || watch.table.is_some()).then_some(watch)
    });
    STATE.store(if watch.is_some() { ON } else { OFF }, Ordering::Relaxed);
    watch.is_some()
}

/// What a variable asks for; a wrong value is told once.
fn value_of<T>(name: &str, otherwise: &str, open: fn(&str) -> Result<T, String>) -> Option<T> {
    let wanted = std::env::var_os(name).filter(|value| !value.is_empty())?;
    let opened = wanted.to_str().ok_or_else(|| "it is no text".to_owned()).and_then(open);
    opened.inspect_err(|why| eprintln!("openwddm: {name}={wanted:?}: {why}; {otherwise}")).ok()
}

fn watch() -> Option<&'static Watch> {
    WATCH.get().and_then(Option::as_ref)
}

/// The link of a program whose calls are traced notes where the kernel makes them.
pub fn noted(link: Arc<dyn Link>) -> Arc<dyn Link> {
    if !is_on() {
        return link;
    }
    let wants_memory = watch().and_then(|watch| watch.trace.as_ref()).is_some_and(|trace| trace.memory);
    order::noted(link, wants_memory.then(Memory::default))
}

/// The program has come to its kernel, which counts the commands of its engines for the program from now on, if this one wants that.
pub fn came_to(link: &Arc<dyn Link>) {
    if let Some(watch) = is_on().then(watch).flatten() {
        watch.kernel.get_or_init(|| Arc::clone(link));
        watch.ask_for_commands();
    }
}

impl Watch {
    /// Asks the kernel for the commands of its engines. A kernel that has gone tells nothing, and the table keeps what it has.
    fn ask_for_commands(&self) {
        if let Some(link) = self.kernel.get().filter(|_| self.process == std::process::id())
            && let Ok(commands) = link.own_commands()
        {
            self.fidelity.commands_are(commands, self.begun.elapsed().as_nanos());
        }
    }
}

/// The program ends: writes the table of fidelity behind its trace, and into its file.
pub fn program_ends() {
    let Some(watch) = watch().filter(|watch| watch.process == std::process::id()) else { return };
    watch.ask_for_commands();
    if let Some(table) = &watch.table {
        table.write(&watch.fidelity);
    }
    if let Some(trace) = &watch.trace
        // A thread that was ended with the lock leaves the trace without its end.
        && let Ok(mut place) = trace.place.try_lock()
    {
        match trace.json {
            true => place.write(&watch.fidelity.json()),
            false => watch.fidelity.text().lines().for_each(|line| place.write(&format!("{line}\n"))),
        }
    }
}

impl Table {
    fn open(path: &str) -> Result<Table, String> {
        let path = path.replace("%p", &std::process::id().to_string());
        whole_file::write_again(Path::new(&path), b"").map_err(|error| format!("{path}: {error}"))?;
        Ok(Table { path, failed: Mutex::new(false) })
    }

    /// Anew as a whole: a table that finds no room leaves the one before.
    fn write(&self, fidelity: &Fidelity) {
        let mut failed = lock(&self.failed);
        let text = if self.path.ends_with(".json") { fidelity.json() } else { fidelity.text() };
        if let Err(error) = whole_file::write_again(Path::new(&self.path), text.as_bytes())
            && !std::mem::replace(&mut *failed, true)
        {
            eprintln!("openwddm: {TABLE}: {}: {error}", self.path);
        }
    }
}

/// What the variable asks for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted<'text> {
    failed_only: bool,
    /// What engines read is recorded, too.
    memory: bool,
    file: Option<&'text str>,
}

impl Wanted<'_> {
    fn of(text: &str) -> Result<Wanted<'_>, String> {
        let (kinds, file) = text.split_once(':').map_or((text, None), |(kinds, file)| (kinds, Some(file)));
        let mut wanted = Wanted { failed_only: false, memory: false, file };
        for (nth, kind) in kinds.split(',').enumerate() {
            match (nth, kind.trim()) {
                (0, "calls") => {}
                (0, "calls+memory") => wanted.memory = true,
                (1, "errors") if !wanted.memory => wanted.failed_only = true,
                (1, "errors") => {
                    return Err(format!("memory is recorded with all calls, not with failed ones; {FORMS}"));
                }
                (_, kind) => return Err(format!("\"{kind}\" is not to be traced; {FORMS}")),
            }
        }
        match file {
            Some("") => Err(format!("there is no file behind the colon; {FORMS}")),
            _ if wanted.memory && !wanted.is_json() => {
                Err(format!("memory is recorded in JSON lines alone: write calls+memory:FILE.jsonl; {FORMS}"))
            }
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
    memory: bool,
    json: bool,
    place: Mutex<Place>,
}

struct Place {
    /// `None`: the standard error output.
    file: Option<File>,
    /// A line was lost, which the program has been told.
    failed: bool,
}

impl Trace {
    fn open(text: &str) -> Result<Trace, String> {
        let wanted = Wanted::of(text)?;
        let file = wanted.file.map(|file| file.replace("%p", &std::process::id().to_string()));
        let open = |path: String| {
            let place = whole_file::Place::of(Path::new(&path));
            let place = place.map_err(|unfit| format!("{path}: {}; {}", unfit.problem, unfit.remedy));
            place?.stream().map_err(|error| format!("{path}: {error}"))
        };
        let file = file.map(open).transpose()?;
        let mut place = Place { file, failed: false };
        if wanted.is_json() {
            place.write(&line::head(wanted.failed_only, wanted.memory));
        }
        let (failed_only, memory, json) = (wanted.failed_only, wanted.memory, wanted.is_json());
        Ok(Trace { failed_only, memory, json, place: Mutex::new(place) })
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
    pub end: End,
}

/// The end of a call.
#[derive(Clone, Copy)]
pub struct End {
    /// Which end of the program's calls it is, from 1 on.
    number: u64,
    at: Instant,
    /// Where the kernel made it.
    order: Option<CallOrder>,
}

/// A call of this thread begins.
pub fn begins() -> Instant {
    order::begins();
    memory::begins();
    Instant::now()
}

/// The call of this thread ends.
pub fn ends() -> End {
    let order = order::place();
    let mut ends = watch().map(|watch| lock(&watch.ends));
    let number = ends.as_mut().map_or(0, |ends| {
        **ends += 1;
        **ends
    });
    End { number, at: Instant::now(), order }
}

/// Counts a call, and writes its line. Another thread whose call has ended later may write its line before.
pub fn returned(call: &Returned<'_>) {
    let duration_ns = call.end.at.saturating_duration_since(call.begun).as_nanos();
    let Some(watch) = watch().filter(|watch| watch.process == std::process::id()) else { return };
    let start_ns = call.begun.saturating_duration_since(watch.begun).as_nanos();
    let used = Use {
        function: call.function,
        given: &line::given(call),
        status: call.status,
        reason: call.reason.as_deref(),
        number: call.end.number,
        at_ns: start_ns,
    };
    if watch.fidelity.count(&used)
        && let Some(table) = &watch.table
    {
        watch.ask_for_commands();
        table.write(&watch.fidelity);
    }
    let Some(trace) = &watch.trace else { return };
    if trace.failed_only && call.status.is_success() {
        return;
    }
    let memory = trace.memory.then(memory::taken);
    let told = line::Told::of(call, trace.json, (start_ns, duration_ns), memory);
    let line = if trace.json { told.json() } else { told.text() };
    lock(&trace.place).write(&line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_says_what_is_traced_and_where() {
        let of = |failed_only, file| Ok(Wanted { failed_only, memory: false, file });
        assert_eq!(Wanted::of("calls"), of(false, None));
        assert_eq!(Wanted::of("calls,errors"), of(true, None));
        assert_eq!(Wanted::of("calls:a:b.jsonl"), of(false, Some("a:b.jsonl")));
        let memory = Wanted { failed_only: false, memory: true, file: Some("b.jsonl") };
        assert_eq!(Wanted::of("calls+memory:b.jsonl"), Ok(memory));
        for (wrong, why) in [
            ("calls+memory", "JSON lines alone"),
            ("calls+memory:b.txt", "JSON lines alone"),
            ("calls+memory,errors:b.jsonl", "not with failed ones"),
            ("calls+memries:b.jsonl", "\"calls+memries\" is not to be traced"),
        ] {
            let told = Wanted::of(wrong).expect_err(wrong);
            assert!(told.contains(why) && told.contains("calls+memory"), "{wrong}: {told}");
        }
        for wrong in ["call", "errors", "calls,", "calls:", "calls,errors,more", "calls,error:x"] {
            let why = Wanted::of(wrong).expect_err(wrong);
            assert!(why.contains("calls,errors") && why.contains("FILE"), "{wrong}: {why}");
        }
        let json = |text| Wanted::of(text).expect("good").is_json();
        assert!(json("calls:a.jsonl") && json("calls:a.json") && !json("calls:a.txt") && !json("calls"));
    }
}
