//! The kernel that the program comes to, from the environment: one in this process with the adapters that are named there, or the one that
//! a daemon serves. Reached by the program's first call, and left when the program ends.

use std::env;
use std::path::Path;
use std::sync::Arc;

use dxgk_host::{AdapterSetup, FaultPlan, Host, HostConfig, Mode, PROFILES, ProcessLink, Profile, parse_bytes};
use kmt_calls::Refusal;
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use wddm_types::{Blame, NtStatus};

/// Comes to a kernel as its process.
pub fn open() -> Result<Arc<dyn Link>, Refusal> {
    // A program that has the library inside gets its end from here, too.
    std::hint::black_box(&crate::AT_END);
    if let Some(socket) = env::var_os("OPENWDDM_SOCKET") {
        let link = SocketLink::connect(Path::new(&socket));
        return Ok(link.map_err(|error| said(format!("OPENWDDM_SOCKET: {error}")))?);
    }
    let (vram, system) = (variable("OPENWDDM_VRAM")?, variable("OPENWDDM_SYSTEM")?);
    let faults = faults(&variable("OPENWDDM_FAULTS")?).map_err(said)?;
    let config = config(&variable("OPENWDDM_ADAPTER")?, &vram, &system).map_err(said)?;
    let config = HostConfig { faults, ..config };
    let host = Host::start(config).map_err(|error| said(error.to_string()))?;
    Ok(ProcessLink::new(host))
}

/// A refusal whose reason this also prints, for a program that was started wrongly.
fn said(reason: String) -> Refusal {
    eprintln!("openwddm: {reason}");
    refuse(NtStatus::UNSUCCESSFUL, reason)
}

/// A variable of the environment; empty: nothing is said.
fn variable(name: &str) -> Result<String, Refusal> {
    match env::var(name) {
        Ok(value) => Ok(value),
        Err(env::VarError::NotPresent) => Ok(String::new()),
        Err(env::VarError::NotUnicode(_)) => Err(refuse(NtStatus::UNSUCCESSFUL, format!("{name} is no text"))),
    }
}

fn config(adapters: &str, vram: &str, system: &str) -> Result<HostConfig, String> {
    let (vram, system) = (amount("OPENWDDM_VRAM", vram)?, amount("OPENWDDM_SYSTEM", system)?);
    let names: Vec<&str> = if adapters.is_empty() { vec![PROFILES[0].name] } else { adapters.split(',').collect() };
    let mut setups = Vec::with_capacity(names.len());
    for name in names {
        let profile = Profile::asked(name).map_err(|error| format!("OPENWDDM_ADAPTER: {error}"))?;
        setups.push(AdapterSetup::sized(profile, Mode::Real, vram, system));
    }
    let first = setups.remove(0);
    // Memory files: locks have addresses, and the host can show fence words for reading only.
    Ok(HostConfig { memory_files: true, others: setups, ..HostConfig::of(first, Mode::Real) })
}

/// Failures on demand; empty: none.
fn faults(text: &str) -> Result<Option<FaultPlan>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| format!("OPENWDDM_FAULTS: {error}"))
}

/// An amount of memory, as the command line reads it; empty: nothing is said.
fn amount(name: &str, text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let bytes = parse_bytes(text);
    bytes
        .map(Some)
        .map_err(|error| format!("{name}={text:?}: {error}; give bytes, or a number with a unit, as 6GiB or 1.5GB"))
}

fn refuse(status: NtStatus, reason: String) -> Refusal {
    Refusal { status, blame: Blame::Caller, reason: reason.into(), bytes_to_trim: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(adapters: &str, vram: &str) -> HostConfig {
        config(adapters, vram, "").unwrap_or_else(|reason| panic!("{reason}"))
    }

    #[test]
    fn adapters_are_named_in_order_and_sizes_are_for_each() {
        let config = built("wddm1-banks,discrete-64k", "33554432");
        assert_eq!((config.profile.name, config.vram_bytes), ("wddm1-banks", 32 << 20));
        assert_eq!(config.others.len(), 1);
        assert_eq!((config.others[0].profile.name, config.others[0].vram_bytes), ("discrete-64k", 32 << 20));
        assert_eq!(built("", "").profile.name, "discrete-4k");
    }

    #[test]
    fn what_is_no_profile_and_no_number_is_said() {
        assert!(config("discrete", "", "").err().expect("no such profile").contains("discrete"));
        for (vram, system, name) in
            [("1 GoB", "", "OPENWDDM_VRAM"), ("", "60%", "OPENWDDM_SYSTEM"), ("", "0", "OPENWDDM_SYSTEM")]
        {
            let said = config("", vram, system).err().expect("no amount");
            assert!(
                said.contains(name) && said.contains(vram) && said.contains(system) && said.contains("6GiB"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_file_describes_an_adapter_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, wrong] = ["mine.toml", "wrong.toml"].map(|name| folder.path().join(name).display().to_string());
        std::fs::write(&file, "name = \"mine\"\nmemory.vram = \"64MiB\"\n").expect("a file");
        std::fs::write(&wrong, "name = \"mine\"\nmemory.banks = 4\n").expect("a file");
        let built = built(&format!("discrete-64k,{file}"), "");
        let other = &built.others[0];
        assert_eq!((other.profile.name, other.vram_bytes), ("mine", 64 << 20));
        let said = config(&wrong, "", "").err().expect("a rule is broken");
        assert!(said.contains("OPENWDDM_ADAPTER") && said.contains("wrong.toml: line 2, column 8"), "{said}");
        assert!(said.contains("only the first generation has banks"), "{said}");
    }

    #[test]
    fn faults_are_read_or_refused_with_their_place() {
        assert_eq!(faults(" "), Ok(None));
        assert!(faults("MakeResident#3=NO_MEMORY").expect("a plan").is_some());
        let said = faults("seed=1; MakeResident#3=NO_MEM").expect_err("no such status");
        assert!(said.starts_with("OPENWDDM_FAULTS: clause 2") && said.contains("openwddm faults --list"), "{said}");
    }

    #[test]
    fn sizes_are_read_as_the_command_line_reads_them() {
        let config = config("discrete-4k,wddm1-banks", "128MiB", "1.5 GB").expect("two amounts");
        let second = &config.others[0];
        assert_eq!((config.vram_bytes, config.system_bytes), (128 << 20, 1_500_000_000));
        assert_eq!((second.vram_bytes, second.system_bytes), (128 << 20, 1_500_000_000));
        assert!(config.page_table_bytes >= dxgk_host::page_table_bytes(config.vram_bytes + config.system_bytes));
    }

    #[test]
    fn system_memory_is_what_the_computer_has_whatever_the_video_memory() {
        let [small, large] = ["1MiB", "4GiB"].map(|vram| built("", vram).system_bytes);
        assert_eq!((small, large), (dxgk_host::system_bytes(Mode::Real), small));
    }
}
