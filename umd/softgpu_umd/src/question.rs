//! Private questions of this driver to the kernel-mode one ([`softgpu_spec::private_call`]).

use d3dkmt::EscapeFlags;
use softgpu_spec::private_call::{BYTES, Hardware, Question, Usage};
use wddm_types::RawHandle;

use crate::gpu::{Gpu, UmdError};

impl Gpu {
    /// The device's description of itself, which the kernel-mode driver reads from its registers during this call.
    ///
    /// # Errors
    /// `RETRY` while the adapter sleeps; `DEVICE_REMOVED` when it is gone.
    pub fn hardware(&self) -> Result<Hardware, UmdError> {
        self.ask(Question::Hardware, EscapeFlags::HARDWARE_ACCESS).map(|bytes| Hardware::read(&bytes))
    }

    /// Which resources of the device are taken, and how many of them by this device object.
    ///
    /// # Errors
    /// `DEVICE_REMOVED` when the adapter is gone.
    pub fn usage(&self) -> Result<Usage, UmdError> {
        self.ask(Question::Usage, EscapeFlags::empty()).map(|bytes| Usage::read(&bytes))
    }

    fn ask(&self, question: Question, flags: EscapeFlags) -> Result<[u8; BYTES], UmdError> {
        let asked = question.encode().to_vec();
        let answer = self.adapter().escape(Some(self.device()), RawHandle::NONE, flags, asked)?;
        answer.try_into().map_err(|_| UmdError::Lacks("private call that this driver knows"))
    }
}
