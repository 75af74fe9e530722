//! Private calls to a driver (`D3DKMTEscape`). The kernel names the calling process to the driver and calls it only when it may be
//! called; it does not interpret the bytes. The driver gets a copy of the caller's, and the caller a copy of the driver's when the driver
//! has succeeded.

use kmt_calls::{ESCAPE_BYTES_MAX, ESCAPE_DRIVER_PRIVATE, EscapeCall, EscapeFlags, Refusal, Reply};
use wddm_types::{AdapterIndex, RawHandle};

use crate::call::{Turn, done};
use crate::effect::{Answer, Cx};
use crate::number::DeviceNumber;
use crate::object::Object;
use crate::refusal::{invalid, not_supported};
use crate::scheduling::AnyContext;

/// `D3DKMT_ESCAPETYPE`: the last number that has a meaning, and those of the window manager.
const KIND_LAST: u32 = 39;
const WINDOW_MANAGERS: std::ops::RangeInclusive<u32> = 1024..=1038;

impl Turn<'_> {
    pub(super) fn escape(&mut self, cx: &Cx<'_>, call: EscapeCall) -> Result<Answer, Refusal> {
        check_kind(call.kind)?;
        let flags = check_flags(call.flags)?;
        let mut private_data = call.private_data;
        if private_data.len() > ESCAPE_BYTES_MAX {
            return Err(invalid(format!("{} bytes of a private call; at most {ESCAPE_BYTES_MAX}", private_data.len())));
        }
        let index = self.adapter(call.adapter)?;
        let device = self.escaping_device(index, call.device)?;
        let context = self.escaping_context(index, device, call.context)?;
        let adapter = &mut self.adapters[index];
        adapter.may_escape(device, flags)?;
        self.about = Some(index);
        adapter.escape(cx, self.from, (device, context), flags, &mut private_data)?;
        done(Reply::Escaped(private_data))
    }

    fn escaping_device(&self, index: AdapterIndex, handle: RawHandle) -> Result<Option<DeviceNumber>, Refusal> {
        if handle == RawHandle::NONE {
            return Ok(None);
        }
        let (on, device) = self.device(handle)?;
        if on == index { Ok(Some(device)) } else { Err(invalid("a device of another adapter")) }
    }

    fn escaping_context(
        &self,
        index: AdapterIndex,
        device: Option<DeviceNumber>,
        handle: RawHandle,
    ) -> Result<Option<AnyContext>, Refusal> {
        if handle == RawHandle::NONE {
            return Ok(None);
        }
        let context = match self.process.handles.get(handle) {
            Some(Object::Context(on, number)) if *on == index => AnyContext::Hardware(*number),
            Some(Object::PacketContext(on, number)) if *on == index => AnyContext::Packets(*number),
            _ => return Err(invalid(format!("{handle:?} names no context of the adapter"))),
        };
        // A context is told with the device that it belongs to.
        let owner = self.adapters[index].device_of_context(context);
        if device == Some(owner) { Ok(Some(context)) } else { Err(invalid("a context of another device")) }
    }
}

fn check_kind(kind: u32) -> Result<(), Refusal> {
    match kind {
        ESCAPE_DRIVER_PRIVATE => Ok(()),
        // They steer the components of Windows' own kernel and are for its tests; users have calls of their own for the rest.
        1..=KIND_LAST => {
            Err(not_supported(format!("type {kind} of a private call is for the tests of another kernel")))
        }
        kind if WINDOW_MANAGERS.contains(&kind) => {
            Err(not_supported(format!("type {kind} of a private call is a window manager's, and there is none")))
        }
        kind => Err(invalid(format!("there is no type {kind} of a private call"))),
    }
}

fn check_flags(flags: EscapeFlags) -> Result<ddi::EscapeFlags, Refusal> {
    if !EscapeFlags::all().contains(flags) {
        return Err(invalid(format!("reserved flags of a private call: {:#x}", flags.bits())));
    }
    // Two are the runtime's and never come to a kernel; here all calls of a driver are one after the other, and no guest is behind them.
    if !EscapeFlags::HARDWARE_ACCESS.contains(flags) {
        return Err(not_supported(format!("{flags:?} of a private call")));
    }
    Ok(ddi::EscapeFlags::from_bits_retain(flags.bits()))
}
