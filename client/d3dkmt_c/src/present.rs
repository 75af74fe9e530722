//! Presents: surfaces that go to a display or to another surface, modes, vertical blanks, and how many flips may be queued.
//!
//! A flip goes from a packet context or a hardware queue to the display whose primary it names; a blt copies one surface to another. There
//! is no compositor, so that all members about windows, regions and history tokens must say nothing.

use d3dkmt_abi::*;
use kmt_calls::{Call, DisplayCall, PacketCall, Refusal};
use wddm_types::{NtStatus, RawHandle, VidPnSourceId};

use crate::border::{Answer, Caller};
use crate::refusal::{invalid, not_supported};

/// Defined bits of the flags.
const DEFINED: u32 = (D3DKMT_PRESENTFLAGS::PresentHMD << 1) - 1;

/// The way of a present.
enum Way {
    Flip { interval: u32 },
    Blt,
}

pub fn present(caller: &Caller<'_>, arguments: &mut D3DKMT_PRESENT) -> Answer {
    let context = RawHandle(arguments.Anonymous1.hContext());
    let call = match way(arguments)? {
        Way::Flip { interval } => {
            Call::Display(DisplayCall::Flip { context, primary: RawHandle(arguments.hSource), interval })
        }
        Way::Blt => Call::Packet(PacketCall::Present {
            context,
            source: RawHandle(arguments.hSource),
            destination: RawHandle(arguments.hDestination),
        }),
    };
    caller.process.call(call)?;
    Ok(NtStatus::SUCCESS)
}

/// The list of queues has one: the queue behind whose work the display shows the surface.
pub fn submit_present_to_hw_queue(caller: &Caller<'_>, arguments: &mut D3DKMT_SUBMITPRESENTTOHWQUEUE) -> Answer {
    let Way::Flip { interval } = way(&arguments.PrivatePresentData)? else {
        return Err(not_supported("a blt on a hardware queue: the queue's own commands copy surfaces"));
    };
    let queue = RawHandle(caller.array(arguments.hHwQueues.cast_const(), 1)?[0]);
    let primary = RawHandle(arguments.PrivatePresentData.hSource);
    caller.process.call(Call::Display(DisplayCall::FlipOnHwQueue { queue, primary, interval }))?;
    Ok(NtStatus::SUCCESS)
}

/// The way of a present that asks for nothing that the kernel does not do.
fn way(of: &D3DKMT_PRESENT) -> Result<Way, Refusal> {
    let flags = of.Flags.Value;
    if flags & !DEFINED != 0 {
        return Err(invalid(format!("flags {:#x} of a present are reserved", flags & !DEFINED)));
    }
    let elsewhere = [
        (!of.hWindow.is_null(), "hWindow: the kernel has no window system"),
        (of.SubRectCnt != 0, "SubRectCnt: a present takes the whole surface"),
        (of.BroadcastContextCount != 0, "BroadcastContextCount: a present runs on one context"),
        (!of.PresentLimitSemaphore.is_null(), "PresentLimitSemaphore: SetQueuedLimit bounds the queue"),
        (of.PresentHistoryToken.Model != D3DKMT_PM_UNINITIALIZED, "PresentHistoryToken: there is no compositor"),
        (!of.pPresentRegions.is_null(), "pPresentRegions: a present takes the whole surface"),
        (of.PrivateDriverDataSize != 0, "PrivateDriverDataSize: the driver contract has no data of a present"),
    ];
    if let Some((_, why)) = elsewhere.iter().find(|(is_given, _)| *is_given) {
        return Err(not_supported(format!("a present with {why}")));
    }
    match flags {
        // CAST: a negative number is as little an interval as a large one.
        D3DKMT_PRESENTFLAGS::Flip => Ok(Way::Flip { interval: of.FlipInterval as u32 }),
        D3DKMT_PRESENTFLAGS::Blt => Ok(Way::Blt),
        0 => Err(invalid("Flags of the present are 0; give Flip or Blt")),
        _ => Err(not_supported(format!("flags {flags:#x} of a present; give Flip or Blt alone"))),
    }
}

/// The kernel keeps a limit for all displays of a device.
pub fn set_queued_limit(caller: &Caller<'_>, arguments: &mut D3DKMT_SETQUEUEDLIMIT) -> Answer {
    let device = RawHandle(arguments.hDevice);
    match arguments.Type {
        D3DKMT_SET_QUEUEDLIMIT_PRESENT => {
            let limit = arguments.Anonymous.QueuedPresentLimit();
            caller.process.call(Call::Display(DisplayCall::SetQueuedLimit { device, limit }))?;
            Ok(NtStatus::SUCCESS)
        }
        D3DKMT_GET_QUEUEDLIMIT_PRESENT => {
            let reply = caller.process.call(Call::Display(DisplayCall::GetQueuedLimit { device }))?;
            arguments.Anonymous.QueuedPresentLimit = expect_reply!(reply, Reply::QueuedLimit(limit) => limit);
            Ok(NtStatus::SUCCESS)
        }
        other => Err(invalid(format!("no limit has the type {other}; give D3DKMT_SET_QUEUEDLIMIT_PRESENT"))),
    }
}

/// The display has the primary's mode and shows the primary.
pub fn set_display_mode(caller: &Caller<'_>, arguments: &mut D3DKMT_SETDISPLAYMODE) -> Answer {
    let D3DKMT_SETDISPLAYMODE { hDevice, hPrimaryAllocation, Flags, .. } = *arguments;
    if !matches!(arguments.ScanLineOrdering, D3DDDI_VSSLO_UNINITIALIZED | D3DDDI_VSSLO_PROGRESSIVE) {
        return Err(not_supported(format!(
            "ScanLineOrdering {}: displays are progressive",
            arguments.ScanLineOrdering
        )));
    }
    if !matches!(arguments.DisplayOrientation, 0 | D3DDDI_ROTATION_IDENTITY) {
        return Err(not_supported(format!("DisplayOrientation {}: no display turns", arguments.DisplayOrientation)));
    }
    if arguments.PrivateDriverFormatAttribute != 0 || Flags.PreserveVidPn != 0 || Flags.Reserved != 0 {
        return Err(not_supported("PrivateDriverFormatAttribute and Flags of a mode: both must be 0"));
    }
    let (device, primary) = (RawHandle(hDevice), RawHandle(hPrimaryAllocation));
    caller.process.call(Call::Display(DisplayCall::SetDisplayMode { device, primary }))?;
    Ok(NtStatus::SUCCESS)
}

/// The calling thread waits for the next vertical blank.
pub fn wait_for_vertical_blank_event(caller: &Caller<'_>, arguments: &D3DKMT_WAITFORVERTICALBLANKEVENT) -> Answer {
    wait_for_blank(caller, arguments.hAdapter, arguments.hDevice, arguments.VidPnSourceId)
}

pub fn wait_for_vertical_blank_event2(caller: &Caller<'_>, arguments: &D3DKMT_WAITFORVERTICALBLANKEVENT2) -> Answer {
    if arguments.NumObjects != 0 {
        return Err(not_supported("NumObjects: the call waits for the vertical blank alone"));
    }
    wait_for_blank(caller, arguments.hAdapter, arguments.hDevice, arguments.VidPnSourceId)
}

/// The kernel waits by a device; the adapter must be one that the process has opened, and have the source.
fn wait_for_blank(caller: &Caller<'_>, adapter: D3DKMT_HANDLE, device: D3DKMT_HANDLE, source: u32) -> Answer {
    if device == 0 {
        return Err(not_supported("waits without a device: hDevice is 0; give a device of the adapter"));
    }
    let (adapter, device, source) = (RawHandle(adapter), RawHandle(device), VidPnSourceId(source));
    let asked = Call::Display(DisplayCall::CheckVidPnExclusiveOwnership { adapter, source });
    // A source that a device owns has vertical blanks, too.
    if let Err(refusal) = caller.process.call(asked)
        && refusal.status != NtStatus::GRAPHICS_PRESENT_OCCLUDED
    {
        return Err(refusal);
    }
    caller.process.call(Call::Display(DisplayCall::WaitForVerticalBlankEvent { device, source }))?;
    Ok(NtStatus::SUCCESS)
}

/// The flags about a compositor mean nothing: there is none.
pub fn set_vidpn_source_owner1(caller: &Caller<'_>, arguments: &D3DKMT_SETVIDPNSOURCEOWNER1) -> Answer {
    const MEANINGLESS: u32 =
        D3DKMT_VIDPNSOURCEOWNER_FLAGS::AllowOutputDuplication | D3DKMT_VIDPNSOURCEOWNER_FLAGS::DisableDWMVirtualMode;
    let flags = arguments.Flags.Value & !MEANINGLESS;
    if flags == D3DKMT_VIDPNSOURCEOWNER_FLAGS::UseNtHandles {
        return Err(not_supported("UseNtHandles: displays go by their numbers"));
    }
    if flags != 0 {
        return Err(invalid(format!("flags {flags:#x} of SetVidPnSourceOwner1 are reserved")));
    }
    crate::display::set_vidpn_source_owner(caller, &arguments.Version0)
}

pub fn set_vidpn_source_owner2(caller: &Caller<'_>, arguments: &D3DKMT_SETVIDPNSOURCEOWNER2) -> Answer {
    if !arguments.pVidPnSourceNtHandles.is_null() {
        return Err(not_supported("pVidPnSourceNtHandles: displays go by their numbers"));
    }
    set_vidpn_source_owner1(caller, &arguments.Version1)
}
