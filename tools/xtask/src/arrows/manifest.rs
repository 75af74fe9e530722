//! Reads the manifests: which crates there are and what each depends on. It judges nothing.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Every crate of the workspace.
#[derive(Debug)]
pub struct Workspace {
    /// In the order of the root manifest.
    pub members: Vec<Member>,
}

/// One crate.
#[derive(Debug)]
pub struct Member {
    /// Its folder below the root: `room/crate`.
    pub folder: String,
    /// Everything it depends on, of every kind and for every target.
    pub dependencies: Vec<Dependency>,
}

/// One line of a manifest's dependencies.
#[derive(Debug)]
pub struct Dependency {
    /// The name by which it is imported.
    pub name: String,
    /// The table that it stands in.
    pub kind: Kind,
    /// The crate that it points to.
    pub target: Target,
}

/// The kinds of dependency that cargo knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `[dependencies]`
    Normal,
    /// `[dev-dependencies]`
    Dev,
    /// `[build-dependencies]`
    Build,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Normal => "dependency",
            Kind::Dev => "dev-dependency",
            Kind::Build => "build-dependency",
        })
    }
}

/// Where a dependency leads.
#[derive(Debug, PartialEq, Eq)]
pub enum Target {
    /// To the crate in this folder.
    Member(String),
    /// Out of the house.
    Outside {
        /// Whether the version is the root manifest's.
        inherited: bool,
    },
}

impl Workspace {
    /// Reads the root manifest and those of all members; `read` takes a path below the root.
    pub fn read(read: impl Fn(&str) -> Result<String, String>) -> Result<Workspace, String> {
        let root: Manifest = parse("Cargo.toml", &read("Cargo.toml")?)?;
        let root = root.workspace.ok_or("Cargo.toml: no [workspace]")?;
        let member = |folder: &String| {
            let path = format!("{folder}/Cargo.toml");
            let manifest: Manifest = parse(&path, &read(&path)?)?;
            Ok(Member { folder: folder.clone(), dependencies: manifest.dependencies(folder, &root)? })
        };
        Ok(Workspace { members: root.members.iter().map(member).collect::<Result<_, String>>()? })
    }

    /// Every way from one crate to another along what is linked into the product: tests are left out.
    pub fn ways(&self, from: &str, to: &str) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        let mut open = vec![vec![from.to_string()]];
        while let Some(way) = open.pop() {
            let Some(last) = way.last() else { continue };
            if last == to {
                found.push(way);
                continue;
            }
            let member = self.members.iter().find(|member| member.folder == *last);
            for dependency in member.into_iter().flat_map(|member| &member.dependencies) {
                if let (Target::Member(next), false) = (&dependency.target, dependency.kind == Kind::Dev)
                    && !way.contains(next)
                {
                    open.push(way.iter().chain([next]).cloned().collect());
                }
            }
        }
        found
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Manifest {
    workspace: Option<Root>,
    #[serde(flatten)]
    everywhere: Tables,
    #[serde(default)]
    target: BTreeMap<String, Tables>,
}

#[derive(Deserialize)]
struct Root {
    members: Vec<String>,
    #[serde(default)]
    dependencies: BTreeMap<String, Entry>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case", default)]
struct Tables {
    dependencies: BTreeMap<String, Entry>,
    dev_dependencies: BTreeMap<String, Entry>,
    build_dependencies: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Table { workspace: Option<bool>, path: Option<String> },
    Version(IgnoredAny),
}

impl Manifest {
    fn dependencies(&self, folder: &str, root: &Root) -> Result<Vec<Dependency>, String> {
        let mut all = Vec::new();
        for tables in [&self.everywhere].into_iter().chain(self.target.values()) {
            for (kind, table) in [
                (Kind::Normal, &tables.dependencies),
                (Kind::Dev, &tables.dev_dependencies),
                (Kind::Build, &tables.build_dependencies),
            ] {
                for (name, entry) in table {
                    let target = entry.target(name, folder, root)?;
                    all.push(Dependency { name: name.clone(), kind, target });
                }
            }
        }
        Ok(all)
    }
}

impl Entry {
    fn target(&self, name: &str, folder: &str, root: &Root) -> Result<Target, String> {
        match self {
            Entry::Table { workspace: Some(true), .. } => match root.dependencies.get(name) {
                Some(Entry::Table { path: Some(path), .. }) => Ok(Target::Member(joined("", path))),
                Some(_) => Ok(Target::Outside { inherited: true }),
                None => Err(format!("{folder}/Cargo.toml: the root manifest has no dependency {name}")),
            },
            Entry::Table { path: Some(path), .. } => Ok(Target::Member(joined(folder, path))),
            Entry::Table { .. } | Entry::Version(_) => Ok(Target::Outside { inherited: false }),
        }
    }
}

/// A path seen from a folder, with `.` and `..` taken out.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn parse<T: for<'a> Deserialize<'a>>(path: &str, text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| format!("{path}: {error}"))
}
