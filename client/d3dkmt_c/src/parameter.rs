//! The members or parameters of each function, as traces and replays know them: of a function with one structure the structure's, of
//! another one its parameters, each in a slot of 8 bytes.

use d3dkmt_abi::Field;

use crate::function::FUNCTIONS;
use crate::subject::Subject;
use crate::trace::{fields, item};
use crate::unsupported::SUBJECTS;

/// The bytes that a parameter takes here.
const SLOT: usize = 8;

const fn slot(nth: usize, name: &'static str, of: &'static str) -> Field {
    Field { name, of, offset: nth * SLOT, size: SLOT, says: "" }
}

/// Functions whose parameters are no one structure.
const PARAMETERS: &[(&str, &[Field])] = &[
    (
        "D3DKMTShareObjects",
        &[
            slot(0, "cObjects", "UINT"),
            slot(1, "hObjects", "*const D3DKMT_HANDLE"),
            slot(2, "pObjectAttributes", "*const OBJECT_ATTRIBUTES"),
            slot(3, "dwDesiredAccess", "DWORD"),
            slot(4, "phSharedNtHandle", "*mut HANDLE"),
        ],
    ),
    (
        "D3DKMTSetProcessSchedulingPriorityClass",
        &[slot(0, "hProcess", "HANDLE"), slot(1, "Class", "D3DKMT_SCHEDULINGPRIORITYCLASS")],
    ),
    (
        "D3DKMTGetProcessSchedulingPriorityClass",
        &[slot(0, "hProcess", "HANDLE"), slot(1, "pClass", "*mut D3DKMT_SCHEDULINGPRIORITYCLASS")],
    ),
    ("D3DKMTReleaseProcessVidPnSourceOwners", &[slot(0, "hProcess", "HANDLE")]),
    ("D3DKMTRegisterVailProcess", &[slot(0, "pVailGuid", "UINT64")]),
];

impl Subject {
    /// What a trace has of a function that refuses each use: the object that the structure names. `None`: it names none.
    fn parameter(self) -> Option<&'static [Field]> {
        match self {
            Subject::Adapter | Subject::AdapterItself | Subject::Device | Subject::Context | Subject::Other => {
                Some(const { &[slot(0, "Named", "D3DKMT_HANDLE")] })
            }
            Subject::NtHandle | Subject::Process => Some(const { &[slot(0, "Named", "HANDLE")] }),
            Subject::Luid | Subject::Nowhere => Some(const { &[slot(0, "Named", "UINT64")] }),
            Subject::Nothing => None,
        }
    }
}

/// What the arguments of a function have, and how many bytes they are; `None`: the function looks at none.
pub fn arguments_of(function: &str) -> Option<(&'static [Field], usize)> {
    if let Some((_, parameters)) = PARAMETERS.iter().find(|(name, _)| *name == function) {
        return Some((parameters, parameters.len() * SLOT));
    }
    if let Some((_, subject, _)) = SUBJECTS.iter().find(|(name, ..)| *name == function) {
        return subject.parameter().map(|named| (named, SLOT));
    }
    let known = FUNCTIONS.iter().find(|known| known.name == function)?;
    let of = item(known.parameters.trim_start_matches("CONST ").trim_end_matches('*'))?;
    Some((fields(of), of.size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::PLAIN;

    #[test]
    fn every_function_of_the_list_has_its_arguments() {
        for function in FUNCTIONS {
            let (_, size) = arguments_of(function.name).expect(function.name);
            assert!(size > 0, "{}", function.name);
        }
        for function in PLAIN.iter().filter(|function| function.parameters != "VOID") {
            let (parameters, _) = arguments_of(function.name).expect(function.name);
            assert_eq!(parameters.len(), function.parameters.split(", ").count(), "{}", function.name);
        }
    }
}
