//! The lines of a trace: as text for people, as JSON for `openwddm replay-calls` and for programs.

use std::borrow::Cow;
use std::fmt::Write;

use kmt_link::CallOrder;

use super::Returned;
use super::decode::{Bounds, Decoder, Side};
use super::memory::STORED_BYTES_MAX;
use super::value::{Value, quote};
use crate::parameter::arguments_of;

/// The most of a list that a JSON line tells.
pub const JSON: Bounds = Bounds { elements: 4096, bytes: 64 << 10 };
/// The same of a line of text.
const TEXT: Bounds = Bounds { elements: 16, bytes: 32 };
/// The form of the lines; a change that a reader must know of raises it.
pub const VERSION: i128 = 1;

/// The variables by which the library came to its kernel: a replay starts the same adapters.
const ENVIRONMENT: [&str; 5] =
    ["OPENWDDM_ADAPTER", "OPENWDDM_VRAM", "OPENWDDM_SYSTEM", "OPENWDDM_FAULTS", "OPENWDDM_SOCKET"];

/// The words for what no line has, and the same of a trace with memory.
const NOT_CARRIED: &str = "content of memory: what a program stores at the address of a lock, a section, a doorbell, or in the buffers of a context, and what an engine writes; functions of the program";
const NOT_CARRIED_BESIDE_MEMORY: &str = "content of memory that no lock shows: what a program stores in a section, a doorbell, or its own memory under an allocation; functions of the program";

/// Functions, and what their lines do not have.
const LACKING: &[(&str, &str)] = &[
    ("D3DKMTLock", "what the program stores at pData"),
    ("D3DKMTLock2", "what the program stores at pData"),
    ("OpenWddmCreateSection", "what the program stores at pData"),
    ("D3DKMTCreateDoorbell", "the stores by which the program rings"),
    ("D3DKMTRender", "the commands and lists that the program wrote into the buffers of its context"),
    ("D3DKMTSubmitCommand", "the commands, which are content of memory"),
    ("D3DKMTSubmitCommandToHwQueue", "the commands, which are content of memory"),
    ("D3DKMTRegisterTrimNotification", "the function that is called"),
    ("D3DKMTRegisterBudgetChangeNotification", "the function that is called"),
];

/// The functions of `LACKING` whose lines have what they lack, in a trace with memory.
const RECORDED: [&str; 5] =
    ["D3DKMTLock", "D3DKMTLock2", "D3DKMTRender", "D3DKMTSubmitCommand", "D3DKMTSubmitCommandToHwQueue"];

/// The first line of a JSON trace.
pub fn head(failed_only: bool, memory: bool) -> String {
    let set = ENVIRONMENT.iter().filter_map(|name| Some(((*name).into(), Value::Text(std::env::var(name).ok()?))));
    let calls = if failed_only { "failed" } else { "all" };
    let number = |value: usize| Value::Number(value as i128);
    let mut members: Vec<(Cow<'static, str>, Value)> = vec![
        ("openwddm_calls".into(), Value::Number(VERSION)),
        ("flavour".into(), Value::Text(crate::playback::FLAVOUR.into())),
        ("calls".into(), Value::Text(calls.into())),
        ("process".into(), Value::Number(std::process::id().into())),
        ("environment".into(), Value::Members(set.collect())),
        ("elements_max".into(), number(JSON.elements)),
        ("bytes_max".into(), number(JSON.bytes)),
    ];
    if memory {
        members.push(("memory_bytes_max".into(), Value::Number(STORED_BYTES_MAX.into())));
    }
    let lacks = if memory { NOT_CARRIED_BESIDE_MEMORY } else { NOT_CARRIED };
    members.push(("not_carried".into(), Value::Text(lacks.into())));
    Value::Members(members).to_json() + "\n"
}

/// What a line says.
pub struct Told<'call> {
    call: &'call Returned<'call>,
    thread: String,
    start_ns: u128,
    duration_ns: u128,
    given: Value,
    answered: Value,
    /// What engines read, where the trace records it.
    memory: Option<Vec<Value>>,
}

impl<'call> Told<'call> {
    pub fn of(
        call: &'call Returned<'call>,
        json: bool,
        (start_ns, duration_ns): (u128, u128),
        memory: Option<Vec<Value>>,
    ) -> Told<'call> {
        let bounds = if json { JSON } else { TEXT };
        let (given, answered) = decoded(call, bounds);
        Told { call, thread: thread(), start_ns, duration_ns, given, answered, memory }
    }

    pub fn json(&self) -> String {
        let status = self.call.status;
        let mut text = format!("{{\"number\":{},\"call\":", self.call.end.number);
        quote(self.call.function, &mut text);
        text.push_str(",\"thread\":");
        quote(&self.thread, &mut text);
        // PANIC: writing into a string does not fail.
        write!(text, ",\"start_ns\":{},\"duration_ns\":{}", self.start_ns, self.duration_ns)
            .expect("a string takes it");
        if let Some(CallOrder { taken, answered }) = self.call.end.order {
            write!(text, ",\"order\":[{taken},{answered}]").expect("a string takes it");
        }
        text.push_str(",\"in\":");
        self.given.json(&mut text);
        text.push_str(",\"out\":");
        self.answered.json(&mut text);
        write!(text, ",\"status\":\"{:#010x}\"", status.0).expect("a string takes it");
        if let Some(name) = status.name() {
            write!(text, ",\"name\":\"STATUS_{name}\"").expect("a string takes it");
        }
        for (name, value) in [("reason", self.call.reason.as_deref()), ("not_carried", self.lacks())] {
            if let Some(value) = value {
                write!(text, ",\"{name}\":").expect("a string takes it");
                quote(value, &mut text);
            }
        }
        if let Some(memory) = self.memory.as_ref().filter(|memory| !memory.is_empty()) {
            text.push_str(",\"memory\":");
            Value::List(memory.clone()).json(&mut text);
        }
        text.push_str("}\n");
        text
    }

    pub fn text(&self) -> String {
        let mut text = format!(
            "#{} thread {} at {:.6} s: {}",
            self.call.end.number,
            self.thread,
            self.start_ns as f64 / 1e9,
            self.call.function
        );
        self.given.plain(&mut text);
        if let Value::Members(members) = &self.answered
            && !members.is_empty()
        {
            text.push_str(" -> ");
            self.answered.plain(&mut text);
        }
        // PANIC: writing into a string does not fail.
        write!(text, ": {} after {:.3} us", self.call.status, self.duration_ns as f64 / 1e3)
            .expect("a string takes it");
        if let Some(reason) = &self.call.reason {
            text.push_str(", ");
            Value::Text(reason.clone()).plain(&mut text);
        }
        text.push('\n');
        text
    }

    fn lacks(&self) -> Option<&'static str> {
        let function = self.call.function;
        let has_it = self.memory.is_some() && RECORDED.contains(&function);
        LACKING.iter().find(|(lacking, _)| *lacking == function && !has_it).map(|(_, lack)| *lack)
    }
}

/// What the program gave.
pub fn given(call: &Returned<'_>) -> Value {
    let (Some((of, _)), Some(before)) = (arguments_of(call.function), &call.before) else { return Value::Null };
    let (function, watched) = (call.function, call.watched);
    Decoder { function, watched, side: Side::Given, bounds: JSON }.structure(of, before)
}

/// Both sides of a call; of a function without a structure its parameters, and what was written where they point.
fn decoded(call: &Returned<'_>, bounds: Bounds) -> (Value, Value) {
    let decoder = |side| Decoder { function: call.function, watched: call.watched, side, bounds };
    match (arguments_of(call.function), &call.before, &call.after) {
        (Some((of, _)), Some(before), Some(after)) => {
            let given = decoder(Side::Given).structure(of, before);
            let answered = decoder(Side::Answered).structure(of, after).changed_since(&given);
            (given, answered)
        }
        _ => (Value::Null, Value::Members(Vec::new())),
    }
}

/// The calling thread as the operating system counts it.
fn thread() -> String {
    thread_local! {
        static NUMBER: String = {
            let path = std::fs::read_link("/proc/thread-self").ok();
            let number = path.as_deref().and_then(|path| path.file_name()?.to_str().map(str::to_owned));
            number.unwrap_or_else(|| format!("{:?}", std::thread::current().id()))
        };
    }
    // A thread that ends may call still, when its own values are gone.
    NUMBER.try_with(Clone::clone).unwrap_or_default()
}
