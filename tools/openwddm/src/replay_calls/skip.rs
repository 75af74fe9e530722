//! `--skip-commands`: each submission completes, and no engine reads the recording's commands. For recordings of programs whose driver is another one,
//! and for those without commands.
//!
//! A packet context takes an empty submission in their place. A hardware queue has none of these: there the commands are one that does nothing, in
//! memory of this replay, of which each adapter has a word for as long as the replay lasts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use d3dkmt::Adapter;
use kmt_calls::{AdapterCall, Call, DeviceCall, PacketCall, QueueCall, Refusal, Reply};
use kmt_link::Link;
use softgpu_spec::Command;
use softgpu_umd::{Gpu, Surface, SurfaceKind, UmdError};
use wddm_types::{Blame, GpuVa, Luid, NtStatus, RawHandle};

/// Replaces commands.
pub struct Skip {
    link: Arc<dyn Link>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The adapters of adapter handles, devices, hardware contexts and hardware queues.
    adapters: HashMap<RawHandle, Luid>,
    /// A word of each adapter that does nothing.
    idle: HashMap<Luid, (Surface, Gpu)>,
}

/// An object on an adapter that a call makes: whose adapter it has.
pub enum Made {
    Of(RawHandle),
    On(Luid),
}

impl Skip {
    /// At the kernel behind the link.
    pub fn at(link: Arc<dyn Link>) -> Skip {
        Skip { link, state: Mutex::default() }
    }

    /// A call as it is to be made: one that submits has no commands.
    ///
    /// # Errors
    /// The kernel has no memory for commands that do nothing. An engine executes the recording's in no case.
    pub fn outgoing(&self, call: Call) -> Result<Call, Refusal> {
        Ok(match call {
            Call::Packet(PacketCall::Render { context, .. }) => {
                Call::Packet(PacketCall::SubmitNull { context, written_primaries: Vec::new() })
            }
            Call::Packet(PacketCall::SubmitCommand { context, written_primaries, .. }) => {
                Call::Packet(PacketCall::SubmitNull { context, written_primaries })
            }
            Call::Queue(QueueCall::SubmitCommandToHwQueue { queue, progress_value, written_primaries, .. }) => {
                // A queue that the replay has not made is none of the kernel's either, which refuses the call for that.
                let buffer = self.idle(queue)?.unwrap_or_default();
                let (buffer_bytes, private_data) = (8, Vec::new());
                Call::Queue(QueueCall::SubmitCommandToHwQueue {
                    queue,
                    progress_value,
                    buffer,
                    buffer_bytes,
                    written_primaries,
                    private_data,
                })
            }
            call => call,
        })
    }

    /// The object that a call makes, if it is one whose adapter matters.
    pub fn makes(call: &Call) -> Option<Made> {
        match call {
            Call::Adapter(AdapterCall::OpenAdapterFromLuid { luid }) => Some(Made::On(*luid)),
            Call::Device(DeviceCall::CreateDevice { adapter }) => Some(Made::Of(*adapter)),
            Call::Queue(QueueCall::CreateHwContext { device, .. }) => Some(Made::Of(*device)),
            Call::Queue(QueueCall::CreateHwQueue { context, .. }) => Some(Made::Of(*context)),
            // No other object leads to a hardware queue.
            _ => None,
        }
    }

    /// Hears of an object that was made.
    pub fn hear(&self, made: Option<&Made>, reply: &Reply) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let object = match reply {
            Reply::Handle(handle) => *handle,
            Reply::HwQueue(created) => created.queue,
            _ => return,
        };
        let luid = match made {
            Some(Made::On(luid)) => Some(*luid),
            Some(Made::Of(parent)) => state.adapters.get(parent).copied(),
            None => return,
        };
        // A handle that is given anew names another object.
        match luid {
            Some(luid) => drop(state.adapters.insert(object, luid)),
            None => drop(state.adapters.remove(&object)),
        }
    }

    /// The address of the word that does nothing, on the adapter of a queue that the replay has made.
    fn idle(&self, queue: RawHandle) -> Result<Option<GpuVa>, Refusal> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(luid) = state.adapters.get(&queue).copied() else { return Ok(None) };
        if let Some((surface, _)) = state.idle.get(&luid) {
            return Ok(Some(surface.va()));
        }
        let (surface, gpu) = self.idle_at(luid).map_err(|error| Refusal {
            status: NtStatus::NO_MEMORY,
            blame: Blame::Scarcity,
            reason: format!("--skip-commands has no memory for commands that do nothing: {error}").into(),
            bytes_to_trim: 0,
        })?;
        let va = surface.va();
        state.idle.insert(luid, (surface, gpu));
        Ok(Some(va))
    }

    fn idle_at(&self, luid: Luid) -> Result<(Surface, Gpu), UmdError> {
        let gpu = Gpu::on(Adapter::open(Arc::clone(&self.link), luid)?)?;
        let surface = gpu.create_lockable_surface(SurfaceKind::System, 4096, false)?;
        let mut word = Vec::new();
        Command::Nop.encode(&mut word);
        surface.lock()?.write_words(0, &word);
        gpu.pin(&surface)?;
        Ok((surface, gpu))
    }
}
