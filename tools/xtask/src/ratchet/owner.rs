//! How widely a type of the kernel is open: the files that add methods to it, and the fields that others reach into.

use super::source::{Sources, end_of, identifier, line_of, words};
use super::{Measure, Measured};
use crate::report::Finding;

/// The files of a crate that have an `impl` of the type itself.
pub fn files_of_methods(sources: &Sources<'_>, folder: &str, owner: &str) -> Measured {
    struct_of(sources, folder, owner)?;
    let mut places = Vec::new();
    for source in sources.of_crate(folder) {
        let code = source.code();
        let of_owner = words(&code, "impl").find(|at| is_of(&code[at + 4..], owner));
        places.extend(
            of_owner.map(|at| Finding::new(source.path, line_of(&code, at), format!("adds methods to {owner}"))),
        );
    }
    Ok(Measure::of(places))
}

/// Whether what stands behind `impl` is the type, with or without parameters; a trait for it begins with the trait's name.
fn is_of(code: &str, owner: &str) -> bool {
    let named = match code.strip_prefix('<') {
        Some(generics) => end_of(generics, 0, &['>']).map_or("", |end| &generics[end + 1..]),
        None => code,
    };
    identifier(named.trim_start()) == owner
}

/// The fields of a type that code outside its module may touch, `pub(crate)` ones too.
pub fn open_fields(sources: &Sources<'_>, folder: &str, owner: &str) -> Measured {
    let (path, code, body) = struct_of(sources, folder, owner)?;
    let end = end_of(&code, body, &['}']).unwrap_or(code.len());
    let mut places = Vec::new();
    for at in words(&code[body..end], "pub") {
        let field = code[body + at + 3..].trim_start();
        let field =
            field.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(field, |(_, rest)| rest.trim_start());
        places.push(Finding::new(&path, line_of(&code, body + at), format!("{owner}::{} is open", identifier(field))));
    }
    Ok(Measure::of(places))
}

/// Path and code of the file that declares the type, and where in it the fields begin.
fn struct_of(sources: &Sources<'_>, folder: &str, owner: &str) -> Result<(String, String, usize), String> {
    for source in sources.of_crate(folder) {
        let code = source.code();
        let declared = words(&code, "struct").find(|at| identifier(code[at + 6..].trim_start()) == owner);
        if let Some(body) = declared.and_then(|at| end_of(&code, at, &['{'])) {
            return Ok((source.path.to_string(), code, body + 1));
        }
    }
    Err(format!("no struct {owner} in {folder}/src; tell the ratchet what took its place"))
}
