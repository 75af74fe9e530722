//! A Debian package of the command, the C library and everything around them: `cargo xtask deb`. The files are staged below a folder as they
//! will lie below `/`, and `dpkg-deb` packs them.
//!
//! One package has all: the command with its manual and completions, the shared library under its versioned name, the static one, headers,
//! the file for pkg-config, the units of the service manager and the daemon's configuration, copyright and changes.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::install::{self, Layout};
use crate::tree::House;

#[cfg(test)]
mod tests;

const UNITS: [&str; 2] = ["openwddm.service", "openwddm.socket"];
const LICENSES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];
/// Where shells look for completions: the shell, and the file.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/openwddm"),
    ("zsh", "usr/share/zsh/vendor-completions/_openwddm"),
    ("fish", "usr/share/fish/vendor_completions.d/openwddm.fish"),
];

/// Options of the command.
struct Options {
    /// The folder that gets the package.
    out: PathBuf,
    /// Cargo's profile.
    profile: String,
}

impl Options {
    fn parse(words: &[String]) -> Result<Options, String> {
        let mut options = Options { out: PathBuf::from("target/debian"), profile: "release".to_owned() };
        for pair in words.chunks(2) {
            match pair {
                [name, value] if name == "--out" => options.out = PathBuf::from(value),
                [name, value] if name == "--profile" => options.profile = value.clone(),
                words => {
                    let words = words.join(" ");
                    return Err(format!("deb: `{words}` is no option; write deb [--out FOLDER] [--profile PROFILE]"));
                }
            }
        }
        Ok(options)
    }
}

/// Builds the package, and prints its path.
///
/// # Errors
/// Wrong options; a system without dpkg-deb; a file that could not be written.
pub fn run(house: &House, words: &[String]) -> Result<bool, String> {
    let options = Options::parse(words)?;
    let architecture = architecture().ok_or(
        "there is no dpkg here: a package is built on Debian, Ubuntu and their kin; `cargo xtask install` needs none",
    )?;
    // A build takes minutes: a packer that is not there and a folder that cannot be written are found before it.
    tool("dpkg-deb", "dpkg")?;
    tool("strip", "binutils")?;
    let folder = house.root().join(&options.out);
    can_be_written(&folder)?;
    let Some(built) = install::build(house, &options.profile, &["openwddm"])? else { return Ok(false) };
    install::names_itself(&built.join("libopenwddm.so"))?;
    let root = folder.join("root");
    if root.exists() {
        std::fs::remove_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    }
    stage(house, &built, &built.join("openwddm"), &root, &architecture)?;
    println!("{}", pack(&root, &folder, &architecture, "xz")?.display());
    Ok(true)
}

/// Whether a program that packs can be started; `package` is Debian's that has it.
fn tool(name: &str, package: &str) -> Result<(), String> {
    let started = Command::new(name).arg("--version").output();
    started.map(drop).map_err(|error| {
        format!("{name} cannot be started: {error}; install Debian's package {package}, or put {name} on PATH")
    })
}

/// Makes the folder that gets the package, and tries to write there.
fn can_be_written(folder: &Path) -> Result<(), String> {
    let probe = folder.join(".written");
    let tried = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&probe, ""));
    tried.and_then(|()| std::fs::remove_file(&probe)).map_err(|error| {
        format!("--out {}: the package cannot be written there: {error}; name a folder that can be", folder.display())
    })
}

/// The architecture of this system's packages; `None` where there is no dpkg.
fn architecture() -> Option<String> {
    let output = Command::new("dpkg").arg("--print-architecture").output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| name.trim().to_owned())
}

/// The folder of libraries of an architecture, below `usr/lib`.
fn multiarch(architecture: &str) -> &str {
    match architecture {
        "amd64" => "x86_64-linux-gnu",
        "arm64" => "aarch64-linux-gnu",
        "riscv64" => "riscv64-linux-gnu",
        other => other,
    }
}

/// Puts all files below `root`, from the libraries in `built` and the command.
fn stage(house: &House, built: &Path, command: &Path, root: &Path, architecture: &str) -> Result<(), String> {
    let libraries = format!("lib/{}", multiarch(architecture));
    let layout = Layout { prefix: root.join("usr"), shown: "/usr".to_owned(), libraries };
    install::place(house, built, &layout)?;
    install::copy(command, &root.join("usr/bin/openwddm"))?;
    let library = root.join("usr").join(&layout.libraries);
    strip("--strip-unneeded", &[&root.join("usr/bin/openwddm"), &library.join(install::REAL_NAME)])?;
    strip("--strip-debug", &[&library.join("libopenwddm.a")])?;
    for unit in UNITS {
        let from = house.root().join("host/dxgkd/systemd").join(unit);
        install::copy(&from, &root.join("usr/lib/systemd/system").join(unit))?;
    }
    let configuration = said(command, &["serve", "--write-config"])?;
    write(&root.join("etc/openwddm/serve.toml"), configuration.as_bytes())?;
    write(&root.join("DEBIAN/conffiles"), b"/etc/openwddm/serve.toml\n")?;
    // The loader's cache knows the library behind the installation.
    write(&root.join("DEBIAN/triggers"), b"activate-noawait ldconfig\n")?;
    for (shell, file) in COMPLETIONS {
        write(&root.join(file), said(command, &["completions", shell])?.as_bytes())?;
    }
    manual(command, &root.join("usr/share/man/man1"))?;
    let documents = root.join("usr/share/doc/openwddm");
    write(&documents.join("copyright"), copyright(house)?.as_bytes())?;
    let changes = read(&house.root().join("CHANGELOG.md"))?;
    write(&documents.join("changelog.gz"), &gzipped(changes.as_bytes()))?;
    let needs = needed_c_library(&[command, &library.join(install::REAL_NAME)])?;
    write(&root.join("DEBIAN/control"), control(architecture, &needs, kibibytes(root)?).as_bytes())?;
    modes(root)
}

fn control(architecture: &str, needs: &str, kibibytes: u64) -> String {
    format!(
        "Package: openwddm\nVersion: {}\nArchitecture: {architecture}\nMaintainer: The openwddm authors <authors@openwddm.invalid>\n\
         Installed-Size: {kibibytes}\nDepends: libc6 (>= {needs}), libgcc-s1\nSection: libs\nPriority: optional\n\
         Description: open WDDM graphics kernel in user space\n \
         A video memory manager, a GPU scheduler, native GPU fences and a software GPU, as a\n \
         command, as a daemon, and as a C library with the D3DKMT interface.\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// The page of each command, packed as Debian's are.
fn manual(command: &Path, folder: &Path) -> Result<(), String> {
    let shown = folder.to_str().ok_or("a folder whose name is no text")?;
    said(command, &["man", "--folder", shown])?;
    for entry in std::fs::read_dir(folder).map_err(|error| format!("{shown}: {error}"))? {
        let page = entry.map_err(|error| format!("{shown}: {error}"))?.path();
        let packed = PathBuf::from(format!("{}.gz", page.display()));
        write(&packed, &gzipped(read(&page)?.as_bytes()))?;
        std::fs::remove_file(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    }
    Ok(())
}

/// The licences, in the form that Debian's tools read.
fn copyright(house: &House) -> Result<String, String> {
    let mut text = String::from(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: openwddm\n\n\
         Files: *\nCopyright: The openwddm authors\nLicense: Expat or Apache-2.0\n",
    );
    for (name, file) in ["Expat", "Apache-2.0"].iter().zip(LICENSES) {
        text.push_str(&format!("\nLicense: {name}\n"));
        for line in read(&house.root().join(file))?.lines() {
            let line = line.trim_end();
            text.push_str(&if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") });
        }
    }
    Ok(text)
}

/// The newest version of the C library that one of these files names a symbol of.
fn needed_c_library(files: &[&Path]) -> Result<String, String> {
    const MARK: &[u8] = b"GLIBC_";
    let mut newest = (2, 0);
    for file in files {
        let bytes = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        for at in bytes.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK).map(|(at, _)| at) {
            let rest = &bytes[at + MARK.len()..];
            let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(rest.len());
            let mut numbers =
                rest[..end].split(|byte| *byte == b'.').map(|part| str::from_utf8(part).ok()?.parse().ok());
            if let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) {
                newest = newest.max((major, minor));
            }
        }
    }
    let (major, minor): (u32, u32) = newest;
    Ok(format!("{major}.{minor}"))
}

/// Packs what is staged, by a compression of dpkg-deb. Answers with the package.
fn pack(root: &Path, folder: &Path, architecture: &str, compression: &str) -> Result<PathBuf, String> {
    let package = folder.join(format!("openwddm_{}_{architecture}.deb", env!("CARGO_PKG_VERSION")));
    let mut packer = Command::new("dpkg-deb");
    packer.args(["--root-owner-group", "-Z", compression, "--build"]).arg(root).arg(&package);
    let output = packer.output().map_err(|error| format!("dpkg-deb: {error}"))?;
    if !output.status.success() {
        return Err(format!("dpkg-deb: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(package)
}

/// Takes away what only debuggers read, as packages have it.
fn strip(option: &str, files: &[&Path]) -> Result<(), String> {
    let output = Command::new("strip").arg(option).args(files).output().map_err(|error| format!("strip: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(format!("strip: {}", String::from_utf8_lossy(&output.stderr))) }
}

/// What the command prints.
fn said(command: &Path, words: &[&str]) -> Result<String, String> {
    let shown = command.display();
    let output = Command::new(command).args(words).output().map_err(|error| format!("{shown}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{shown} {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{shown} {} prints no text", words.join(" ")))
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(bytes).expect("memory takes everything");
    packer.finish().expect("memory takes everything")
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn write(file: &Path, bytes: &[u8]) -> Result<PathBuf, String> {
    install::written(file, |file| std::fs::write(file, bytes))
}

/// Every file below a folder, links as themselves.
fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.is_dir() && !path.is_symlink() {
            found.push(path.clone());
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

fn kibibytes(root: &Path) -> Result<u64, String> {
    let sizes = files(root)?.into_iter().map(|file| file.symlink_metadata().map_or(0, |data| data.len()));
    Ok(sizes.sum::<u64>().div_ceil(1024))
}

/// Modes that do not depend on this user's: folders and the command 755, all else 644.
fn modes(root: &Path) -> Result<(), String> {
    for file in files(root)?.into_iter().filter(|file| !file.is_symlink()) {
        let runs = file.is_dir() || file.starts_with(root.join("usr/bin"));
        let mode = PermissionsExt::from_mode(if runs { 0o755 } else { 0o644 });
        std::fs::set_permissions(&file, mode).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}
