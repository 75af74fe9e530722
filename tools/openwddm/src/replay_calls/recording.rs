//! The lines of a recording, judged before the first call is made.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use d3dkmt_c::{FLAVOUR, PlayError, Playback, TRACE_VERSION, Value, from_wsl};
use kmt_link::CallOrder;
use wddm_types::NtStatus;

use super::memory::{self, Record};
use super::order;
use crate::error::RunError;

/// The flavour of the Linux subsystem.
const WSL: &str = "wsl";
/// Most bytes of a recording.
const BYTES_MAX: u64 = 1 << 30;

/// A recording.
#[derive(Debug)]
pub struct Recording {
    /// The variables by which the program came to its kernel.
    pub environment: BTreeMap<String, String>,
    /// Its events and NT handles are descriptors: the program makes and closes them without a call.
    pub has_descriptors: bool,
    /// The lines have what engines read.
    pub has_memory: bool,
    /// In the order in which their kernel took them; without that, in the order in which they returned.
    pub calls: Vec<RecordedCall>,
}

/// One line.
#[derive(Debug)]
pub struct RecordedCall {
    /// Counted from 1.
    pub line: usize,
    pub function: &'static str,
    /// Which end of a call of its program it was.
    pub number: Option<u64>,
    /// Where its kernel took and answered it, where the recording says so.
    pub order: Option<CallOrder>,
    pub thread: String,
    pub given: Value,
    pub answered: Value,
    pub status: NtStatus,
    /// What the line does not have of the call.
    pub lacks: Option<String>,
    /// What engines read in memory, and the program wrote there since the last such line.
    pub memory: Vec<Record>,
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    /// [`RunError::File`], with the line.
    pub fn open(path: &Path) -> Result<Recording, RunError> {
        let wrong = |problem: String, remedy: &str| RunError::File {
            role: "recording".to_owned(),
            path: path.to_path_buf(),
            problem,
            remedy: remedy.to_owned(),
        };
        let about =
            std::fs::metadata(path).map_err(|error| wrong(error.to_string(), "give a file that can be read"))?;
        if about.len() > BYTES_MAX {
            let problem = format!("it has {} bytes, and a recording has at most {BYTES_MAX}", about.len());
            return Err(wrong(problem, "record a shorter run"));
        }
        let text =
            std::fs::read_to_string(path).map_err(|error| wrong(error.to_string(), "give a file that can be read"))?;
        Recording::read(&text).map_err(|(line, problem)| {
            let remedy = "give a file that OPENWDDM_TRACE=calls:FILE.jsonl wrote, whole; docs/calls.md has its form";
            wrong(format!("line {line}: {problem}"), remedy)
        })
    }

    /// The same from text; an error is a line and what is wrong with it.
    fn read(text: &str) -> Result<Recording, (usize, String)> {
        let mut lines = text.split_inclusive('\n').enumerate().map(|(nth, line)| (nth + 1, line));
        let (_, head) = lines.next().ok_or((1, "it is empty".to_owned()))?;
        let head = json(head).map_err(|why| (1, why))?;
        let (environment, flavour) = head_of(&head).map_err(|why| (1, why))?;
        let has_memory = head.member("memory_bytes_max").is_some();
        let (has_descriptors, is_other) = (flavour == WSL, flavour != FLAVOUR);
        let call = |(line, text): (usize, &str)| {
            let parsed = json(text).and_then(|value| match value.member("fidelity") {
                // The table at the end of a program.
                Some(_) => Ok(None),
                None => RecordedCall::of(line, &value, is_other).map(Some),
            });
            parsed.map_err(|why| (line, why)).transpose()
        };
        let mut calls = lines.filter_map(call).collect::<Result<_, _>>()?;
        order::by_kernel(&mut calls);
        Ok(Recording { environment, has_descriptors, has_memory, calls })
    }
}

/// The JSON of a line.
pub(super) fn json(line: &str) -> Result<Value, String> {
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
    match parsed {
        Ok(value) => Ok(decoded(value)),
        Err(error) if error.is_eof() && !line.ends_with('\n') => {
            Err(format!("the line is cut behind {} bytes", line.len()))
        }
        Err(error) => Err(format!("it is no JSON: {error}")),
    }
}

fn decoded(value: serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Number(value.into()),
        // A fraction is no number of a structure: the text of it fits no member.
        serde_json::Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Value::Number(number.into()),
            (None, Some(number)) => Value::Number(number.into()),
            (None, None) => Value::Text(number.to_string()),
        },
        serde_json::Value::String(text) => Value::Text(text),
        serde_json::Value::Array(all) => Value::List(all.into_iter().map(decoded).collect()),
        serde_json::Value::Object(all) => {
            Value::Members(all.into_iter().map(|(name, value)| (Cow::Owned(name), decoded(value))).collect())
        }
    }
}

/// The environment and the flavour of a first line that this program can replay.
fn head_of(head: &Value) -> Result<(BTreeMap<String, String>, String), String> {
    let version = head.member("openwddm_calls").and_then(Value::number);
    if version != Some(TRACE_VERSION) {
        return Err(match version {
            None => "\"openwddm_calls\" is missing: it is no trace of calls".to_owned(),
            Some(other) => format!("openwddm_calls is {other}; this program reads {TRACE_VERSION}"),
        });
    }
    let text = |name: &str| head.member(name).and_then(Value::text).unwrap_or_default();
    if text("flavour") != WSL && text("flavour") != FLAVOUR {
        return Err(format!(
            "flavour is \"{}\": this program makes calls of the flavours {FLAVOUR} and {WSL} again",
            text("flavour")
        ));
    }
    if text("calls") != "all" {
        return Err("the trace has failed calls alone (calls,errors); record with OPENWDDM_TRACE=calls".to_owned());
    }
    let Some(Value::Members(environment)) = head.member("environment") else {
        return Err("\"environment\" is missing".to_owned());
    };
    let pairs = environment.iter().filter_map(|(name, value)| Some((name.to_string(), value.text()?.to_owned())));
    Ok((pairs.collect(), text("flavour").to_owned()))
}

impl RecordedCall {
    fn of(line: usize, value: &Value, is_other: bool) -> Result<RecordedCall, String> {
        let member = |name: &str| value.member(name).ok_or_else(|| format!("\"{name}\" is missing"));
        let text = |name: &str| {
            let text = member(name)?.text().map(str::to_owned);
            text.ok_or_else(|| format!("\"{name}\" is no text"))
        };
        let (function, status) = (text("call")?, text("status")?);
        let status = status.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let status = status.map(NtStatus).ok_or("\"status\" is no status, as 0xc000000d is one")?;
        let given = match is_other {
            true => from_wsl(&function, member("in")?),
            false => member("in")?.clone(),
        };
        Playback::check(&function, &given).map_err(|error| match error {
            PlayError::Argument(why) => format!("{function}: {why}"),
            error => error.to_string(),
        })?;
        let known = d3dkmt_c::functions().find(|known| known.name == function);
        let lacks = [value.member("not_carried").and_then(Value::text).map(str::to_owned), cut(&given)];
        let lacks: Vec<String> = lacks.into_iter().flatten().collect();
        Ok(RecordedCall {
            line,
            // PANIC: the check has found it.
            function: known.expect("a function of the list").name,
            number: value.member("number").and_then(count),
            order: value.member("order").map(place).transpose()?,
            thread: text("thread")?,
            answered: member("out")?.clone(),
            given,
            status,
            lacks: (!lacks.is_empty()).then(|| lacks.join("; ")),
            memory: memory::records(value)?,
        })
    }
}

fn count(value: &Value) -> Option<u64> {
    value.number().and_then(|number| u64::try_from(number).ok())
}

/// Where a kernel took a call, and where it answered.
fn place(value: &Value) -> Result<CallOrder, String> {
    let numbers: Option<Vec<u64>> = match value {
        Value::List(all) => all.iter().map(count).collect(),
        _ => None,
    };
    match numbers.as_deref() {
        Some(&[taken, answered]) if taken <= answered => Ok(CallOrder { taken, answered }),
        _ => Err("\"order\" is no two numbers that rise".to_owned()),
    }
}

/// A list that is longer than its line has.
fn cut(value: &Value) -> Option<String> {
    match value {
        Value::Members(members) => members.iter().find_map(|(name, value)| match value.member("of") {
            Some(Value::Number(of)) => Some(format!("the end of {name}, which has {of} elements")),
            _ => cut(value),
        }),
        Value::List(all) => all.iter().find_map(cut),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        r#"{"openwddm_calls":1,"flavour":"windows","calls":"all","environment":{"OPENWDDM_VRAM":"1GiB"}}"#;
    const TABLE: &str = r#"{"fidelity":[]}"#;
    const CLOSE: &str = r#"{"number":1,"call":"D3DKMTCloseAdapter","thread":"7","in":{"hAdapter":"adapter 0x40000000"},"out":{},"status":"0x00000000"}"#;

    #[test]
    fn a_recording_has_its_environment_and_its_calls() {
        let long = CLOSE.replace("D3DKMTCloseAdapter", "D3DKMTEvict").replace(
            r#""hAdapter":"adapter 0x40000000""#,
            r#""AllocationList":{"at":"0x10","list":["allocation 0x1"],"of":5000}"#,
        );
        let read = Recording::read(&format!("{HEAD}\n{CLOSE}\n{long}\n{TABLE}\n")).expect("good");
        assert_eq!(read.calls.len(), 2);
        assert_eq!(read.environment["OPENWDDM_VRAM"], "1GiB");
        let call = &read.calls[0];
        assert_eq!((call.line, call.function, &*call.thread), (2, "D3DKMTCloseAdapter", "7"));
        assert_eq!((call.status, &call.lacks), (NtStatus::SUCCESS, &None));
        assert_eq!(read.calls[1].lacks.as_deref(), Some("the end of AllocationList, which has 5000 elements"));
    }

    #[test]
    fn calls_that_overlapped_stand_as_their_kernel_took_them() {
        let line = |number: u64, order: &str| CLOSE.replace("\"number\":1", &format!("\"number\":{number}{order}"));
        let numbers = |lines: &[String]| {
            let read = Recording::read(&format!("{HEAD}\n{}\n", lines.join("\n"))).expect("good");
            read.calls.iter().filter_map(|call| call.number).collect::<Vec<_>>()
        };
        // The call that waited was taken first; the one that its kernel did not take had ended behind the answer 6.
        let lines =
            [line(2, ",\"order\":[6,6]"), line(4, ",\"order\":[3,9]"), line(1, ",\"order\":[7,7]"), line(3, "")];
        assert_eq!(numbers(&lines), [4, 2, 1, 3]);
        assert_eq!(numbers(&[2, 4, 1, 3].map(|number| line(number, ""))), [1, 2, 3, 4]);
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_line() {
        let with = |line: &str| format!("{HEAD}\n{CLOSE}\n{line}\n");
        let cut = format!("{HEAD}\n{CLOSE}\n{}", &CLOSE[..40]);
        for (text, line, words) in [
            (String::new(), 1, "it is empty"),
            ("{}\n".to_owned(), 1, "\"openwddm_calls\" is missing"),
            (HEAD.replace("calls\":1", "calls\":9"), 1, "openwddm_calls is 9; this program reads 1"),
            (HEAD.replace("windows", "os/2"), 1, "flavour is \"os/2\""),
            (HEAD.replace("\"all\"", "\"failed\""), 1, "failed calls alone"),
            (cut, 3, "the line is cut behind 40 bytes"),
            (with("{\"call\" 1}"), 3, "it is no JSON: expected `:`"),
            (with(&CLOSE.replace("CloseAdapter", "ShutAdapter")), 3, "no function has the name \"D3DKMTShutAdapter\""),
            (with(&CLOSE.replace("hAdapter", "hDevise")), 3, "D3DKMTCloseAdapter: hDevise: the structure has no such"),
            (with(&CLOSE.replace("0x00000000", "fine")), 3, "\"status\" is no status"),
            (with(&CLOSE.replace("\"in\"", "\"order\":[9,8],\"in\"")), 3, "\"order\" is no two numbers"),
            (with(&CLOSE.replace("\"in\"", "\"inn\"")), 3, "\"in\" is missing"),
            (with(&CLOSE.replace("\"adapter 0x40000000\"", "1.5")), 3, "\"1.5\" is no number"),
        ] {
            let (at, why) = Recording::read(&text).map(|_| ()).expect_err(words);
            assert!(at == line && why.contains(words), "{at}: {why}; {words}");
        }
    }
}
