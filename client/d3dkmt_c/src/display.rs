//! Ownership of video present sources; and the names of windows, device contexts and devices, by which programs ask for adapters and
//! occlusion. The kernel has no window system and no bus: it knows no such name, and each is refused as one that names nothing.

use d3dkmt_abi::*;
use kmt_calls::{Call, DisplayCall, Refusal, Reply, SourceOwnerType};
use wddm_types::{NtStatus, RawHandle, VidPnSourceId};

use crate::border::{Answer, Caller};
use crate::refusal::{expect_reply, invalid};

/// Longest name of a device that is read, in characters.
const DEVICE_NAME_MAX: u32 = 512;

/// The device gives up each source that the list does not name, or names UNOWNED. A list without sources gives up all.
pub fn set_vidpn_source_owner(caller: &Caller<'_>, arguments: &D3DKMT_SETVIDPNSOURCEOWNER) -> Answer {
    let types = caller.array(arguments.pType, arguments.VidPnSourceCount)?;
    let sources = caller.array(arguments.pVidPnSourceId, arguments.VidPnSourceCount)?;
    let mut owned = Vec::with_capacity(sources.len());
    for (of, source) in types.into_iter().zip(sources) {
        let way = match of {
            D3DKMT_VIDPNSOURCEOWNER_UNOWNED => continue,
            D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVE => SourceOwnerType::Exclusive,
            D3DKMT_VIDPNSOURCEOWNER_SHARED => SourceOwnerType::Shared,
            D3DKMT_VIDPNSOURCEOWNER_EXCLUSIVEGDI => SourceOwnerType::ExclusiveGdi,
            D3DKMT_VIDPNSOURCEOWNER_EMULATED => SourceOwnerType::Emulated,
            _ => return Err(invalid(format!("no owner of a source has the type {of}"))),
        };
        owned.push((VidPnSourceId(source), way));
    }
    let device = RawHandle(arguments.hDevice);
    caller.process.call(Call::Display(DisplayCall::SetVidPnSourceOwner { device, sources: owned }))?;
    Ok(NtStatus::SUCCESS)
}

pub fn check_vidpn_exclusive_ownership(caller: &Caller<'_>, arguments: &D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP) -> Answer {
    let (adapter, source) = (RawHandle(arguments.hAdapter), VidPnSourceId(arguments.VidPnSourceId));
    caller.process.call(Call::Display(DisplayCall::CheckVidPnExclusiveOwnership { adapter, source }))?;
    Ok(NtStatus::SUCCESS)
}

/// A source without a shared primary has the handle 0, and that is a success.
// spec: memory §2.7
pub fn get_shared_primary_handle(caller: &Caller<'_>, arguments: &mut D3DKMT_GETSHAREDPRIMARYHANDLE) -> Answer {
    let (adapter, source) = (RawHandle(arguments.hAdapter), VidPnSourceId(arguments.VidPnSourceId));
    let call = Call::Display(DisplayCall::GetSharedPrimaryHandle { adapter, source });
    arguments.hSharedPrimary = expect_reply!(caller.process.call(call)?, Reply::Handle(primary) => primary.0);
    Ok(NtStatus::SUCCESS)
}

/// The name is read, so that a refusal says which one it was.
pub fn open_adapter_from_device_name(caller: &Caller<'_>, arguments: &mut D3DKMT_OPENADAPTERFROMDEVICENAME) -> Answer {
    let name = device_name(caller, arguments.pDeviceName)?;
    Err(invalid(format!(
        "no adapter is the device {name:?}: adapters stand on no bus of the machine, and go by their LUIDs"
    )))
}

fn device_name(caller: &Caller<'_>, place: *const WCHAR) -> Result<String, Refusal> {
    let mut name = String::new();
    // Character by character: behind the 0 there may be nothing to read.
    for at in 0..DEVICE_NAME_MAX {
        let unit = caller.array(place.wrapping_add(at as usize), 1)?[0];
        if unit == 0 {
            return Ok(name);
        }
        name.push(char::from_u32(unit.into()).unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    Err(invalid(format!("a name of a device with more than {DEVICE_NAME_MAX} characters")))
}

pub fn open_adapter_from_hdc(_caller: &Caller<'_>, arguments: &mut D3DKMT_OPENADAPTERFROMHDC) -> Answer {
    let context = arguments.hDc.addr();
    Err(invalid(format!("no device context has the handle {context:#x}: the kernel has no window system")))
}

pub fn check_occlusion(_caller: &Caller<'_>, arguments: &D3DKMT_CHECKOCCLUSION) -> Answer {
    let window = arguments.hWindow.addr();
    Err(invalid(format!("no window has the handle {window:#x}: the kernel has no window system")))
}
