//! Doorbells from GPU to GPU (sync §3.18): the addresses of the inboxes, and the words whose signals each peer gets. The device does the rest.

use ddi::{DriverStatus, KmdGlobalFence, PeerDoorbellCaps, PeerDoorbells};
use softgpu_spec::bus::SYSTEM_BASE;
use softgpu_spec::register::{self, cmp, cmp_result};

use crate::config::PeerMode;
use crate::driver::SoftGpuKmd;
use crate::fences::NO_FENCE;

impl PeerDoorbells for SoftGpuKmd {
    fn peer_doorbell_caps(&self) -> PeerDoorbellCaps {
        PeerDoorbellCaps { linear_storage: self.config.peers == PeerMode::LinearStorage }
    }

    fn set_inbox(&mut self, own: u32, inbox: u64) {
        self.port.write_register(register::PEER_SELF, u64::from(own));
        self.port.write_register(register::PEER_INBOX, SYSTEM_BASE + inbox);
    }

    fn connect_peer(&mut self, peer: u32, inbox: u64) {
        self.port.write_register(register::PEER_SELECT, u64::from(peer));
        self.port.write_register(register::PEER_ADDRESS, SYSTEM_BASE + inbox);
    }

    // spec: sync §3.18
    fn share_with_peers(&mut self, fence: KmdGlobalFence, id: u64, peers: u64) -> Result<(), DriverStatus> {
        let word = self.fences.current_system_va(fence).ok_or(NO_FENCE)?;
        if self.cmp_command(cmp::SHARE, [word.0, id, peers]) != cmp_result::DONE {
            return Err(DriverStatus::Unsuccessful("the CMP has no translation of a fence's words"));
        }
        self.fences.set_shared(fence, peers != 0);
        Ok(())
    }
}
