//! The files of the house: where its root is, which files belong to it, their text.
//!
//! The program finds the files by walking, not by asking a version control tool, so that the checks also run in
//! an unpacked archive. It leaves out build outputs and the paths that `.gitignore` names at the root.

use std::fs;
use std::path::{Path, PathBuf};

/// The checked-out project.
pub struct House {
    root: PathBuf,
}

impl House {
    /// The house around the current folder: the nearest folder upwards whose manifest has a `[workspace]`.
    pub fn here() -> Result<House, String> {
        let start = std::env::current_dir().map_err(|error| format!("no current folder: {error}"))?;
        let is_root = |folder: &&Path| {
            fs::read_to_string(folder.join("Cargo.toml")).is_ok_and(|text| text.contains("[workspace]"))
        };
        let root = start.ancestors().find(is_root).ok_or("no workspace manifest in this folder or above it")?;
        Ok(House { root: root.to_path_buf() })
    }

    /// The house at this folder.
    pub fn at(root: &Path) -> House {
        House { root: root.to_path_buf() }
    }

    /// The root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a file or folder exists.
    pub fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// The text of a file.
    pub fn read(&self, path: &str) -> Result<String, String> {
        fs::read_to_string(self.root.join(path)).map_err(|error| format!("{path}: {error}"))
    }

    /// Every text file with its path below the root, sorted by path. Files that are not UTF-8 are no text.
    pub fn texts(&self) -> Result<Vec<(String, String)>, String> {
        let text = |path: String| {
            let bytes = fs::read(self.root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
            Ok(String::from_utf8(bytes).ok().map(|text| (path, text)))
        };
        self.files()?.into_iter().filter_map(|path| text(path).transpose()).collect()
    }

    /// The path of every file below the root, sorted.
    pub fn files(&self) -> Result<Vec<String>, String> {
        let ignored = self.read(".gitignore").unwrap_or_default();
        let ignored: Vec<&str> = ignored.lines().map(|line| line.trim().trim_matches('/')).collect();
        let mut paths = Vec::new();
        self.walk("", &ignored, &mut paths)?;
        paths.sort();
        Ok(paths)
    }

    /// Begins the lockfile of a package outside the workspace, which has this manifest, as a copy of the workspace's: it then has the versions
    /// that the programs have. Returns where it is.
    pub fn copy_lockfile(&self, manifest: &str) -> Result<PathBuf, String> {
        let lock = self.root.join(manifest).with_file_name("Cargo.lock");
        let copied = fs::copy(self.root.join("Cargo.lock"), &lock);
        copied.map(|_| lock.clone()).map_err(|error| format!("{}: {error}", lock.display()))
    }

    /// Writes a file, and the folders that it needs.
    pub fn write(&self, path: &str, text: &str) -> Result<(), String> {
        let place = self.root.join(path);
        let made = place.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&place, text));
        made.map_err(|error| format!("{path}: {error}"))
    }

    fn walk(&self, folder: &str, ignored: &[&str], paths: &mut Vec<String>) -> Result<(), String> {
        let entries = fs::read_dir(self.root.join(folder)).map_err(|error| format!("{folder}: {error}"))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("{folder}: {error}"))?;
            let kind = entry.file_type().map_err(|error| format!("{folder}: {error}"))?;
            let Some(name) = entry.file_name().to_str().map(str::to_string) else { continue };
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if name == ".git" || ignored.contains(&path.as_str()) {
                continue;
            }
            if kind.is_dir() {
                self.walk(&path, ignored, paths)?;
            } else if kind.is_file() {
                paths.push(path);
            }
        }
        Ok(())
    }
}
