//! The copy of the house that is broken: all its files, and no other. A file that is the same stays as it is, so that cargo
//! builds again only what has changed; one that a killed run left broken is mended here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::tree::House;

/// Makes `tree` the same as the house.
pub fn mirror(house: &House, tree: &Path) -> Result<(), String> {
    let files: BTreeSet<String> = house.files()?.into_iter().collect();
    for file in &files {
        let to = tree.join(file);
        let failed = |error: std::io::Error| format!("{}: {error}", to.display());
        let text = fs::read(house.root().join(file)).map_err(|error| format!("{file}: {error}"))?;
        if fs::read(&to).is_ok_and(|there| there == text) {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(tree)).map_err(failed)?;
        fs::write(&to, text).map_err(failed)?;
    }
    for file in House::at(tree).files()?.iter().filter(|file| !files.contains(*file)) {
        fs::remove_file(tree.join(file)).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_the_files_of_the_house_and_keeps_those_that_are_the_same() {
        let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let write = |root: &Path, name: &str, text: &str| {
            fs::create_dir_all(root.join("a")).expect("a folder");
            fs::write(root.join(name), text).expect("written");
        };
        write(from.path(), "a/same", "1");
        write(from.path(), "a/changed", "2");
        write(from.path(), "new", "3");
        write(to.path(), "a/same", "1");
        write(to.path(), "a/changed", "broken");
        write(to.path(), "gone", "4");
        let made = fs::metadata(to.path().join("a/same")).and_then(|data| data.modified()).expect("a time");
        mirror(&House::at(from.path()), to.path()).expect("mirrored");
        assert_eq!(House::at(to.path()).files().expect("files"), ["a/changed", "a/same", "new"]);
        assert_eq!(fs::read_to_string(to.path().join("a/changed")).expect("read"), "2");
        let after = fs::metadata(to.path().join("a/same")).and_then(|data| data.modified()).expect("a time");
        assert_eq!(after, made, "a file that is the same was written again");
    }
}
