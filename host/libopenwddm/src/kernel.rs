//! The kernel that the program comes to, from the environment: one in this process with the adapters that are named there, or the one that
//! a daemon serves. Reached by the program's first call, and left when the program ends.

use std::env;
use std::path::Path;
use std::sync::Arc;

use dxgk_host::{AdapterSetup, Host, HostConfig, Mode, PROFILES, ProcessLink, Profile, page_table_bytes};
use kmt_calls::Refusal;
use kmt_link::Link;
use kmt_link::socket::SocketLink;
use wddm_types::{Blame, NtStatus};

/// Comes to a kernel as its process.
pub fn open() -> Result<Arc<dyn Link>, Refusal> {
    if let Some(socket) = env::var_os("OPENWDDM_SOCKET") {
        let link = SocketLink::connect(Path::new(&socket));
        return Ok(link.map_err(|error| said(format!("OPENWDDM_SOCKET: {error}")))?);
    }
    let config = config(&variable("OPENWDDM_ADAPTER")?, &variable("OPENWDDM_VRAM")?).map_err(said)?;
    let host = Host::start(config).map_err(|error| said(error.to_string()))?;
    Ok(ProcessLink::new(host))
}

/// A program that is started wrongly should not have to ask why.
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

fn config(adapters: &str, vram: &str) -> Result<HostConfig, String> {
    let vram = match vram {
        "" => None,
        bytes => Some(bytes.parse::<u64>().map_err(|_| format!("OPENWDDM_VRAM: {bytes:?} is no number of bytes"))?),
    };
    let names: Vec<&str> = if adapters.is_empty() { vec![PROFILES[0].name] } else { adapters.split(',').collect() };
    let mut setups = Vec::with_capacity(names.len());
    for name in names {
        let profile = Profile::named(name).ok_or_else(|| format!("OPENWDDM_ADAPTER: no profile is called {name:?}"))?;
        let mut setup = AdapterSetup::new(profile);
        if let Some(bytes) = vram {
            setup.vram_bytes = bytes;
            setup.page_table_bytes = page_table_bytes(bytes);
            setup.system_bytes = bytes.saturating_mul(2);
        }
        setups.push(setup);
    }
    let first = setups.remove(0);
    // Memory files: what is locked has an address, and fence words can be shown for reading only.
    Ok(HostConfig {
        vram_bytes: first.vram_bytes,
        page_table_bytes: first.page_table_bytes,
        system_bytes: first.system_bytes,
        memory_files: true,
        others: setups,
        ..HostConfig::new(&first.profile, Mode::Real)
    })
}

fn refuse(status: NtStatus, reason: String) -> Refusal {
    Refusal { status, blame: Blame::Caller, reason: reason.into(), bytes_to_trim: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(adapters: &str, vram: &str) -> HostConfig {
        config(adapters, vram).unwrap_or_else(|reason| panic!("{reason}"))
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
        assert!(config("discrete", "").err().expect("no such profile").contains("discrete"));
        assert!(config("", "1 GiB").err().expect("no number").contains("OPENWDDM_VRAM"));
    }
}
