//! Which crates are broken, how many breaks their tests have to see, and which packages have these tests.

use serde::{Deserialize, Serialize};

/// Whose tests look at a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Those of the crate itself, and of small ones that test it alone.
    Own,
    /// Those of the crates above it, through the whole stack.
    Above,
}

impl Stage {
    /// The packages of these tests.
    pub fn packages(self, target: &Target) -> &'static [&'static str] {
        match self {
            Stage::Own => target.own,
            Stage::Above => target.above,
        }
    }
}

/// One crate.
#[derive(Debug)]
pub struct Target {
    /// Its name in commands and on the page.
    pub name: &'static str,
    /// Its package.
    pub package: &'static str,
    /// The files that are broken, as globs below the root.
    pub files: &'static [&'static str],
    /// Packages whose tests look first.
    pub own: &'static [&'static str],
    /// Packages whose tests look at what is left.
    pub above: &'static [&'static str],
    /// Per cent of the viable breaks that the tests have to see, excused ones aside.
    pub goal: u32,
}

/// The tests through the whole stack.
const STACK: &[&str] = &["openwddm-dxgkrnl", "openwddm-stack", "openwddm-conformance"];

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "gpu_fence",
        package: "openwddm-gpu-fence",
        files: &["kernel/gpu_fence/src/**/*.rs"],
        own: &["openwddm-gpu-fence"],
        above: STACK,
        goal: 95,
    },
    Target {
        name: "shared_words",
        package: "openwddm-shared-words",
        files: &["contract/shared_words/src/**/*.rs"],
        own: &["openwddm-shared-words"],
        above: &[
            "openwddm-models",
            "openwddm-kmt-link",
            "openwddm-dxgk-host",
            "openwddm-stack",
            "openwddm-dxgkd",
            "openwddm-libopenwddm",
        ],
        goal: 95,
    },
    Target {
        name: "engine_time",
        package: "openwddm-engine-time",
        files: &["*/engine_time/src/**/*.rs"],
        own: &["openwddm-engine-time"],
        above: &["openwddm-softgpu", "openwddm-softgpu-kmd", "openwddm-stack"],
        goal: 95,
    },
    Target {
        name: "vidsch",
        package: "openwddm-vidsch",
        files: &["kernel/vidsch/src/**/*.rs"],
        own: &["openwddm-vidsch"],
        above: STACK,
        goal: 95,
    },
    Target {
        name: "vidmm",
        package: "openwddm-vidmm",
        files: &["kernel/vidmm/src/**/*.rs"],
        own: &["openwddm-vidmm"],
        above: STACK,
        goal: 85,
    },
    Target {
        name: "softgpu",
        package: "openwddm-softgpu",
        files: &["*/softgpu/src/**/*.rs"],
        own: &["openwddm-softgpu"],
        above: &["openwddm-softgpu-kmd", "openwddm-softgpu-umd", "openwddm-stack"],
        goal: 85,
    },
    Target {
        name: "softgpu_kmd",
        package: "openwddm-softgpu-kmd",
        files: &["*/softgpu_kmd/src/**/*.rs"],
        own: &["openwddm-softgpu-kmd"],
        above: &["openwddm-softgpu-umd", "openwddm-stack", "openwddm-conformance"],
        goal: 85,
    },
    Target {
        name: "dxgkrnl",
        package: "openwddm-dxgkrnl",
        files: &[
            "kernel/dxgkrnl/src/adapter/fence.rs",
            "kernel/dxgkrnl/src/adapter/fence/**/*.rs",
            "kernel/dxgkrnl/src/sync/local.rs",
            "kernel/dxgkrnl/src/sync/packed.rs",
            "kernel/dxgkrnl/src/sync/tell.rs",
            "kernel/dxgkrnl/src/adapter/fence_log.rs",
            "kernel/dxgkrnl/src/adapter/fence_log/**/*.rs",
            "kernel/dxgkrnl/src/fence_log.rs",
            "kernel/dxgkrnl/src/fence_log/**/*.rs",
            "kernel/dxgkrnl/src/adapter/queue.rs",
            "kernel/dxgkrnl/src/adapter/queue/**/*.rs",
            "kernel/dxgkrnl/src/queue.rs",
            "kernel/dxgkrnl/src/queue/**/*.rs",
            "kernel/dxgkrnl/src/packet.rs",
            "kernel/dxgkrnl/src/packet/**/*.rs",
            "kernel/dxgkrnl/src/sync.rs",
            "kernel/dxgkrnl/src/sync/**/*.rs",
            "kernel/dxgkrnl/src/adapter/doorbell.rs",
            "kernel/dxgkrnl/src/adapter/interrupt.rs",
            "kernel/dxgkrnl/src/adapter/packets.rs",
            "kernel/dxgkrnl/src/adapter/packets/**/*.rs",
            "kernel/dxgkrnl/src/adapter/sync.rs",
        ],
        own: &["openwddm-dxgkrnl"],
        above: &["openwddm-stack", "openwddm-conformance", "openwddm-softgpu-umd"],
        goal: 80,
    },
];
