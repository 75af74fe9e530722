//! Presents: surfaces that go to a display or to another surface, modes, vertical blanks, and how many flips may be queued.
//!
//! A flip goes from a packet context or a hardware queue to the display whose primary it names; a blt copies one surface to another. There
//! is no compositor, so that all members about windows, regions and history tokens must say nothing.

use d3dkmt_abi::*;
use kmt_calls::{Call, DisplayCall, PacketCall, Refusal, Reply};
use wddm_types::{BltRectangle, NtStatus, RawHandle, VidPnSourceId};

use crate::border::{Answer, Caller};
use crate::refusal::{expect_reply, invalid, not_supported};

/// Defined bits of the flags.
const DEFINED: u32 = (D3DKMT_PRESENTFLAGS::PresentHMD << 1) - 1;

/// The rectangles of a blt.
const RECTANGLES: u32 = D3DKMT_PRESENTFLAGS::SrcRectValid | D3DKMT_PRESENTFLAGS::DstRectValid;

/// The way of a present.
enum Way {
    Flip { interval: u32 },
    Blt { rectangles: Vec<BltRectangle> },
}

pub fn present(caller: &Caller<'_>, arguments: &mut D3DKMT_PRESENT) -> Answer {
    let context = RawHandle(arguments.Anonymous1.hContext());
    let call = match way(caller, arguments)? {
        Way::Flip { interval } => {
            Call::Display(DisplayCall::Flip { context, primary: RawHandle(arguments.hSource), interval })
        }
        Way::Blt { rectangles } => Call::Packet(PacketCall::Present {
            context,
            source: RawHandle(arguments.hSource),
            destination: RawHandle(arguments.hDestination),
            rectangles,
        }),
    };
    caller.process.call(call)?;
    Ok(NtStatus::SUCCESS)
}

/// The list of queues has one: the queue behind whose work the display shows the surface.
pub fn submit_present_to_hw_queue(caller: &Caller<'_>, arguments: &mut D3DKMT_SUBMITPRESENTTOHWQUEUE) -> Answer {
    let Way::Flip { interval } = way(caller, &arguments.PrivatePresentData)? else {
        return Err(not_supported("a blt on a hardware queue: the queue's own commands copy surfaces"));
    };
    let queue = RawHandle(caller.array(arguments.hHwQueues.cast_const(), 1)?[0]);
    let primary = RawHandle(arguments.PrivatePresentData.hSource);
    caller.process.call(Call::Display(DisplayCall::FlipOnHwQueue { queue, primary, interval }))?;
    Ok(NtStatus::SUCCESS)
}

/// The way of a present that asks for nothing that the kernel does not do.
fn way(caller: &Caller<'_>, of: &D3DKMT_PRESENT) -> Result<Way, Refusal> {
    let flags = of.Flags.Value;
    if flags & !DEFINED != 0 {
        return Err(invalid(format!("flags {:#x} of a present are reserved", flags & !DEFINED)));
    }
    let elsewhere = [
        (!of.hWindow.is_null(), "hWindow: the kernel has no window system"),
        (of.BroadcastContextCount != 0, "BroadcastContextCount: a present runs on one context"),
        (!of.PresentLimitSemaphore.is_null(), "PresentLimitSemaphore: SetQueuedLimit bounds the queue"),
        (of.PresentHistoryToken.Model != D3DKMT_PM_UNINITIALIZED, "PresentHistoryToken: there is no compositor"),
        (!of.pPresentRegions.is_null(), "pPresentRegions: there is no compositor"),
        (of.PrivateDriverDataSize != 0, "PrivateDriverDataSize: the driver contract has no data of a present"),
    ];
    if let Some((_, why)) = elsewhere.iter().find(|(is_given, _)| *is_given) {
        return Err(not_supported(format!("a present with {why}")));
    }
    match flags & !RECTANGLES {
        D3DKMT_PRESENTFLAGS::Flip if of.SubRectCnt != 0 || flags & RECTANGLES != 0 => {
            Err(not_supported("a flip with rectangles: a display shows the whole surface"))
        }
        // CAST: a negative number is as little an interval as a large one.
        D3DKMT_PRESENTFLAGS::Flip => Ok(Way::Flip { interval: of.FlipInterval as u32 }),
        D3DKMT_PRESENTFLAGS::Blt => Ok(Way::Blt { rectangles: rectangles(caller, of)? }),
        0 => Err(invalid("Flags of the present are 0; give Flip or Blt")),
        _ => Err(not_supported(format!("flags {flags:#x} of a present; give Flip or Blt alone"))),
    }
}

/// The parts of a blt; none: the whole surface. Both rectangles have one size; sub-rectangles lie in the source's.
// spec: memory §5.7
fn rectangles(caller: &Caller<'_>, of: &D3DKMT_PRESENT) -> Result<Vec<BltRectangle>, Refusal> {
    let parts = caller.array(of.pSrcSubRects, of.SubRectCnt)?;
    match of.Flags.Value & RECTANGLES {
        0 if parts.is_empty() => return Ok(Vec::new()),
        RECTANGLES => {}
        _ => {
            return Err(not_supported(
                "a blt with rectangles needs SrcRectValid and DstRectValid: the kernel knows no sizes",
            ));
        }
    }
    let (source, destination) = (corners(&of.SrcRect)?, corners(&of.DstRect)?);
    if (source.width, source.height) != (destination.width, destination.height) {
        return Err(not_supported(format!(
            "a blt from {} by {} texels to {} by {}: the kernel does not stretch",
            source.width, source.height, destination.width, destination.height
        )));
    }
    let part = |part: Part| {
        let (right, down) = (part.left.checked_sub(source.left), part.top.checked_sub(source.top));
        let inside = |by: u32, size: u32, room: u32| by.checked_add(size).is_some_and(|end| end <= room);
        match right.zip(down) {
            Some((right, down))
                if inside(right, part.width, source.width) && inside(down, part.height, source.height) =>
            {
                Ok(BltRectangle {
                    source_left: part.left,
                    source_top: part.top,
                    destination_left: destination.left + right,
                    destination_top: destination.top + down,
                    width: part.width,
                    height: part.height,
                })
            }
            _ => Err(invalid(format!("a sub-rectangle at column {} and row {} beyond SrcRect", part.left, part.top))),
        }
    };
    if parts.is_empty() {
        return Ok(vec![part(source)?]);
    }
    parts.iter().map(|rectangle| part(corners(rectangle)?)).collect()
}

/// A part of a surface.
#[derive(Clone, Copy)]
struct Part {
    left: u32,
    top: u32,
    width: u32,
    height: u32,
}

fn corners(&RECT { left, top, right, bottom }: &RECT) -> Result<Part, Refusal> {
    let wrong = || {
        invalid(format!(
            "the rectangle ({left}, {top}) to ({right}, {bottom}) has no texels, or begins before the surface"
        ))
    };
    let edge = |first: i32, end: i32| -> Option<(u32, u32)> {
        let first = u32::try_from(first).ok()?;
        let size = u32::try_from(end).ok()?.checked_sub(first).filter(|size| *size > 0)?;
        Some((first, size))
    };
    let ((left, width), (top, height)) = edge(left, right).zip(edge(top, bottom)).ok_or_else(wrong)?;
    Ok(Part { left, top, width, height })
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
