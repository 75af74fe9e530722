//! Hosts whose driver has whims.

use std::sync::Arc;

use dxgk_host::{Host, HostConfig, Mode, Profile};

use super::{Whims, wrapped};
use stack::world::MIB;

/// A host in virtual time whose driver has these whims.
pub fn host_with(vram_bytes: u64, whims: Whims) -> Arc<Host> {
    host_in(Mode::Virtual { stored: true }, vram_bytes, whims)
}

/// The same in another mode.
pub fn host_in(mode: Mode, vram_bytes: u64, whims: Whims) -> Arc<Host> {
    let profile = Profile::named("discrete-4k").expect("a built-in profile");
    let mut config = HostConfig {
        vram_bytes,
        page_table_bytes: 16 * MIB,
        system_bytes: 2 * vram_bytes + 6 * MIB,
        ..HostConfig::new(profile, mode)
    };
    config.wrap_miniport = Some(wrapped(whims));
    Host::start(config).expect("the host starts")
}
