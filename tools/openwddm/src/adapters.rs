//! `openwddm adapters`: the profiles in a line each, or one adapter in full, started and asked: segments, totals, address
//! translation, engines, capabilities. It runs nothing on it. Called by `entry`; `text` and `json` are its two forms.

mod json;
mod text;

use dxgk_host::{Host, HostConfig, Mode, PROFILES, Profile, ProfileError};
use dxgkrnl::AdapterDescription;

use crate::error::RunError;

/// The adapter that an argument (`argument`: its name, as `--adapter`) asks for: a profile by name, or a file that describes one.
///
/// # Errors
/// [`RunError::Argument`] for a profile that there is not, [`RunError::File`] for a file that describes none, with the line.
pub fn asked(argument: &str, text: &str) -> Result<&'static Profile, RunError> {
    let wrong = |path: String, problem: String, remedy: &str| RunError::File {
        role: argument.to_owned(),
        path: path.into(),
        problem,
        remedy: remedy.to_owned(),
    };
    Profile::asked(text).map_err(|error| match error {
        ProfileError::Unknown(_) => unknown(argument, text),
        ProfileError::Unread { path, problem } => wrong(path, problem, "give a file that can be read"),
        ProfileError::Wrong { path, wrong: at } => wrong(
            path,
            at.to_string(),
            "`openwddm adapters PROFILE --toml` prints a file with every name and what it means",
        ),
    })
}

/// The file that describes a profile: `adapters --toml`.
///
/// # Errors
/// As [`asked`].
pub fn described(profile: &str) -> Result<String, RunError> {
    Ok(asked("PROFILE", profile)?.to_toml())
}

/// The output of `adapters`.
///
/// # Errors
/// As [`asked`]; [`RunError::Kernel`] for one that does not start.
pub fn adapters(profile: Option<&str>, as_json: bool) -> Result<String, RunError> {
    let Some(name) = profile else {
        return Ok(if as_json { json::list(PROFILES) } else { text::list(PROFILES) });
    };
    let profile = asked("PROFILE", name)?;
    let described = describe(profile)?;
    Ok(if as_json { json::adapter(profile, &described) } else { text::adapter(profile, &described) })
}

/// Starts the adapter without storing a byte and asks the kernel what it is.
fn describe(profile: &Profile) -> Result<AdapterDescription, RunError> {
    let host = Host::start(HostConfig::new(profile, Mode::Virtual { stored: false }));
    let host = host.map_err(|error| RunError::Kernel {
        problem: format!("the adapter {} did not start: {error}", profile.name),
        remedy: "choose another one; `openwddm adapters` lists them".to_owned(),
    })?;
    Ok(host.describe())
}

/// No profile has this name.
fn unknown(argument: &str, name: &str) -> RunError {
    let known: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
    RunError::Argument {
        argument: format!("{argument} {name}"),
        problem: "no profile has this name".to_owned(),
        remedy: format!(
            "give a file that describes an adapter, FILE.toml, or one of {}; `openwddm adapters` says what they are",
            known.join(", ")
        ),
    }
}

/// Names of flags in the order of their bits.
fn names<F: bitflags::Flags>(flags: F) -> Vec<&'static str> {
    flags.iter_names().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_says_what_it_is_or_why_it_does_not_start() {
        // spec: memory §1.1, memory §1.12
        // seed: M01, M02
        let list = adapters(None, false).unwrap();
        for profile in PROFILES {
            assert!(list.contains(profile.name) && list.contains(profile.description));
            match (adapters(Some(profile.name), false), adapters(Some(profile.name), true)) {
                (Ok(text), Ok(json)) => {
                    for word in ["segments", "memory", "engines", "flags", "page", "CPU", "budget"] {
                        assert!(text.contains(word), "{word} in\n{text}");
                    }
                    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
                    assert_eq!(value["profile"], profile.name);
                    assert!(!value["segments"].as_array().unwrap().is_empty());
                }
                (Err(text), Err(json)) => {
                    assert_eq!(text.to_string(), json.to_string());
                    assert!(text.to_string().contains("not supported"), "{text}");
                }
                (text, json) => panic!("both or neither: {text:?} {json:?}"),
            }
        }
    }

    #[test]
    fn an_adapter_has_the_video_memory_that_its_profile_says() {
        let text = adapters(Some("discrete-4k"), false).unwrap();
        let row = text.lines().find(|line| line.contains("dedicated video")).expect("a row");
        assert!(
            text.contains("a mid-size discrete GPU: 8 GiB") && row.contains("8.00 GiB (8,589,934,592 bytes) for"),
            "{row}"
        );
        assert!(row.contains("beside them, for page tables"), "{row}");
        let without = adapters(Some("integrated"), false).unwrap();
        let row = without.lines().find(|line| line.contains("dedicated video")).expect("a row");
        assert!(row.ends_with(" 0 bytes"), "{row}");
    }

    #[test]
    fn an_adapter_shows_its_page_table_levels() {
        // spec: memory §4.2, memory §4.3
        for (name, count, bits) in [
            ("levels-2", 2, 39),
            ("levels-3", 3, 42),
            ("discrete-64k", 4, 48),
            ("levels-5", 5, 57),
            ("levels-6", 6, 60),
        ] {
            let text = adapters(Some(name), false).unwrap();
            assert!(text.contains(&format!("{bits} bits, {count} levels")), "{text}");
            assert!(text.contains(&format!("level {} (root)", count - 1)), "{text}");
            assert_eq!(text.contains("lengthened and shortened"), count == 2, "{text}");
        }
        for (name, mode) in [("tables-by-cpu", "CpuVirtual"), ("tables-by-address", "GpuVirtual")] {
            let text = adapters(Some(name), false).unwrap();
            assert!(text.contains(mode), "{text}");
        }
        let text = adapters(Some("levels-apart"), false).unwrap();
        for place in ["in system memory", "in segment 1, the paging process's in segment 3", "in segment 3"] {
            assert!(text.contains(place), "{place} in\n{text}");
        }
    }

    #[test]
    fn an_adapter_shows_its_64_kb_leaf_tables() {
        // spec: memory §4.2, memory §4.5
        let dual = adapters(Some("dual-entries"), false).unwrap();
        assert!(dual.contains("and 32 entries of 64.00 KiB, tables of 4.00 KiB, beside each"), "{dual}");
        assert!(dual.contains("DUAL_PTE_SUPPORTED") && dual.contains("tables of 8.00 KiB"), "{dual}");
        for (name, leaves, idle) in
            [("leaves-64k", true, false), ("idle-spaces", true, true), ("discrete-64k", false, false)]
        {
            let text = adapters(Some(name), false).unwrap();
            assert_eq!(text.contains("or 32 entries of 64.00 KiB, tables of 4.00 KiB"), leaves, "{text}");
            assert_eq!(text.contains("PAGE_TABLE_UPDATE_REQUIRE_ADDRESS_SPACE_IDLE"), idle, "{text}");
            let json: serde_json::Value = serde_json::from_str(&adapters(Some(name), true).unwrap()).unwrap();
            assert_eq!(json["leaf_table_64kb_bytes"], if leaves { 4096 } else { 0 });
        }
    }

    #[test]
    fn a_profile_that_there_is_not_is_refused_with_those_that_there_are() {
        let error = adapters(Some("nonsense"), false).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        assert!(PROFILES.iter().all(|profile| text.contains(profile.name)) && !text.contains('…'), "{text}");
    }

    #[test]
    fn the_integrated_gpu_has_no_memory_of_its_own_and_the_small_bar_a_window() {
        // spec: memory §1.6, memory §1.7
        let integrated = adapters(Some("integrated"), false).unwrap();
        assert!(integrated.contains("APERTURE") && integrated.contains("system memory"), "{integrated}");
        let iommu = adapters(Some("iommu"), false).unwrap();
        assert!(iommu.contains("IO_MMU_SUPPORTED") && iommu.contains("the CPU's, translated by the IOMMU"), "{iommu}");
        assert!(!iommu.contains("GPU_MMU_SUPPORTED") && !iommu.contains("GPU virtual addresses"), "{iommu}");
        let window = adapters(Some("small-bar"), false).unwrap();
        assert!(window.contains("SUPPORTS_CPU_HOST_APERTURE") && window.contains("window of 4,096 pages"), "{window}");
    }
}
