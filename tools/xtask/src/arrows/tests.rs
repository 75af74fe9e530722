//! The law as a table, and a made-up workspace with each way to break it.

use std::collections::BTreeMap;

use super::*;

#[test]
fn the_law_as_a_table() {
    let allowed = [
        ("kernel/vidmm", "contract/ddi"),
        ("kernel/dxgkrnl", "kernel/vidmm"),
        ("kmd/softgpu_kmd", "hardware/device_port"),
        ("umd/softgpu_umd", "client/d3dkmt"),
        ("host/dxgk_host", "kmd/softgpu_kmd"),
        ("verify/sim", "kernel/dxgkrnl"),
        ("verify/sim", "verify/models"),
        ("tools/openwddm", "verify/bench"),
        ("contract/ddi", "contract/wddm_types"),
    ];
    for (from, to) in allowed {
        assert_eq!(law::judge(from, to), Ok(()), "{from} -> {to}");
    }
    let forbidden = [
        ("contract/ddi", "kernel/vidmm"),
        ("kernel/vidmm", "hardware/device_port"),
        ("hardware/softgpu", "kernel/vidmm"),
        ("client/d3dkmt", "kernel/dxgkrnl"),
        ("kmd/softgpu_kmd", "umd/softgpu_umd"),
        ("kmd/softgpu_kmd", "hardware/softgpu"),
        ("host/dxgk_host", "workload/replay"),
        ("workload/replay", "verify/sim"),
        ("tools/xtask", "verify/sim"),
        ("kernel/vidmm", "attic/box"),
        ("attic/box", "contract/ddi"),
    ];
    for (from, to) in forbidden {
        assert!(law::judge(from, to).is_err(), "{from} -> {to}");
    }
}

const ROOT: &str = r#"
[workspace]
members = ["contract/a", "hardware/device_port", "hardware/softgpu", "kernel/k", "kmd/softgpu_kmd"]
[workspace.dependencies]
a = { package = "x-a", path = "contract/a" }
device_port = { path = "hardware/device_port" }
softgpu = { path = "hardware/softgpu" }
k = { path = "kernel/k" }
serde = { version = "1" }
"#;

/// Checks the workspace above with these manifests; the other members are empty.
fn faults(manifests: &[(&str, &str)]) -> (usize, Vec<String>) {
    let manifests: BTreeMap<&str, &str> = manifests.iter().copied().collect();
    let read = |path: &str| match path.strip_suffix("/Cargo.toml") {
        Some(folder) => Ok(manifests.get(folder).copied().unwrap_or("[package]\nname = 'm'\n").to_string()),
        None => Ok(ROOT.to_string()),
    };
    let report = check(&Workspace::read(read).expect("the made-up workspace is well formed"));
    let edges = report.summary.split(' ').nth(3).and_then(|word| word.parse().ok()).expect("a count of edges");
    (edges, report.faults.iter().map(ToString::to_string).collect())
}

#[test]
fn a_lawful_workspace_has_no_fault() {
    let (edges, faults) = faults(&[
        ("kernel/k", "[dependencies]\na.workspace = true\nserde = { workspace = true, features = ['derive'] }\n"),
        ("kmd/softgpu_kmd", "[dependencies]\ndevice_port.workspace = true\n[dev-dependencies]\na.workspace = true\n"),
    ]);
    assert_eq!((edges, faults), (3, vec![]));
}

#[test]
fn each_way_to_break_the_law_is_seen() {
    let table = [
        ("kernel/k", "[dependencies]\nsoftgpu.workspace = true", "know nothing of each other"),
        ("kernel/k", "[dev-dependencies]\nsoftgpu.workspace = true", "(dev-dependency)"),
        ("kernel/k", "[build-dependencies]\nsoftgpu.workspace = true", "(build-dependency)"),
        ("kernel/k", "[target.'cfg(unix)'.dependencies]\nsoftgpu.workspace = true", "know nothing"),
        ("kernel/k", "[dependencies]\nsilicon = { path = '../../hardware/softgpu' }", "know nothing"),
        ("contract/a", "[dependencies]\nk.workspace = true", "points upwards, from contract to kernel"),
        ("kmd/softgpu_kmd", "[dependencies]\nsoftgpu.workspace = true", "must not see"),
        ("kmd/softgpu_kmd", "[dev-dependencies]\nsoftgpu.workspace = true", "must not see"),
        ("kernel/k", "[dependencies]\nserde = '1'", "states its own version"),
    ];
    for (folder, manifest, expected) in table {
        let (_, faults) = faults(&[(folder, manifest)]);
        assert_eq!(faults.len(), 1, "{folder} {manifest}: {faults:?}");
        assert!(faults[0].contains(expected) && faults[0].starts_with(folder), "{faults:?}");
    }
}

#[test]
fn a_driver_does_not_see_its_device_through_a_third_crate() {
    let (_, faults) = faults(&[
        ("kmd/softgpu_kmd", "[dependencies]\ndevice_port.workspace = true"),
        ("hardware/device_port", "[dependencies]\nsoftgpu.workspace = true"),
    ]);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("kmd/softgpu_kmd -> hardware/device_port -> hardware/softgpu"), "{faults:?}");
}

#[test]
fn an_unknown_workspace_dependency_is_an_error() {
    let read = |path: &str| match path {
        "Cargo.toml" => Ok("[workspace]\nmembers = ['kernel/k']".to_string()),
        _ => Ok("[dependencies]\nghost.workspace = true".to_string()),
    };
    assert!(Workspace::read(read).is_err_and(|reason| reason.contains("ghost")));
}
