//! The modes of displays: the one that a source has, and those that it can have. A display shows a primary of any size that its driver
//! describes; the list has the monitor's preferred mode, the one that the source has, and the sizes below the preferred one that programs
//! know.

use std::collections::BTreeSet;

use d3dkmt_abi::*;
use kmt_calls::{AdapterInfo, DisplayInfo, DisplayMode, Refusal};
use wddm_types::{NtStatus, RawHandle};

use crate::adapter::info;
use crate::border::{Answer, Caller};
use crate::refusal::{invalid, not_supported, refuse};

/// Sizes of monitors that programs look for.
const SIZES: [(u32, u32); 10] = [
    (640, 480),
    (800, 600),
    (1024, 768),
    (1280, 720),
    (1280, 1024),
    (1366, 768),
    (1600, 900),
    (1920, 1080),
    (2560, 1440),
    (3840, 2160),
];

/// `D3DKMTGetDisplayModeList`. Without an array it answers with the number of modes.
pub fn get_display_mode_list(caller: &Caller<'_>, arguments: &mut D3DKMT_GETDISPLAYMODELIST) -> Answer {
    let info = info(caller, RawHandle(arguments.hAdapter))?;
    let display = display(&info, arguments.VidPnSourceId)?;
    let modes: Vec<D3DKMT_DISPLAYMODE> = modes(display).into_iter().map(|mode| described(display, mode)).collect();
    // CAST: a handful.
    let (count, room) = (modes.len() as u32, std::mem::replace(&mut arguments.ModeCount, modes.len() as u32));
    if arguments.pModeList.is_null() {
        return Ok(NtStatus::SUCCESS);
    }
    if room < count {
        let reason = format!("ModeCount is {room}, and the display has {count} modes; give room for all");
        return Err(refuse(NtStatus::BUFFER_TOO_SMALL, reason));
    }
    caller.room(arguments.pModeList, count)?.write(&modes);
    Ok(NtStatus::SUCCESS)
}

/// `KMTQAITYPE_CURRENTDISPLAYMODE`.
pub fn current_display_mode(info: &AdapterInfo, source: UINT) -> Result<D3DKMT_CURRENTDISPLAYMODE, Refusal> {
    let display = display(info, source)?;
    let mode = described(display, display.current);
    Ok(D3DKMT_CURRENTDISPLAYMODE { VidPnSourceId: source, DisplayMode: mode })
}

fn display(info: &AdapterInfo, source: UINT) -> Result<&DisplayInfo, Refusal> {
    if info.displays.is_empty() {
        return Err(not_supported("the adapter only renders: it has no displays"));
    }
    let count = info.displays.len();
    let named = info.displays.iter().find(|display| display.source.0 == source);
    named.ok_or_else(|| invalid(format!("source {source}; the adapter has {count} sources, numbered from 0 on")))
}

/// Rising by size.
fn modes(display: &DisplayInfo) -> BTreeSet<DisplayMode> {
    let DisplayInfo { current, preferred, .. } = *display;
    let fits = |(width, height): &(u32, u32)| *width <= preferred.width && *height <= preferred.height;
    let known = SIZES.into_iter().filter(fits).map(|(width, height)| DisplayMode { width, height, ..preferred });
    known.chain([current, preferred]).collect()
}

fn described(display: &DisplayInfo, DisplayMode { width, height, format }: DisplayMode) -> D3DKMT_DISPLAYMODE {
    const NS: u64 = 1_000_000_000;
    // CAST: a period of 0 is no driver's; of a few seconds it still fits.
    let denominator = display.refresh_ns.clamp(1, u32::MAX.into()) as u32;
    let rounded = (NS + u64::from(denominator) / 2) / u64::from(denominator);
    let preferred = display.preferred == DisplayMode { width, height, format };
    let timing = if preferred { D3DKMDT_DISPLAYMODE_FLAGS::PreferredTiming } else { 0 };
    D3DKMT_DISPLAYMODE {
        Width: width,
        Height: height,
        // CAST: the numbers of formats.
        Format: format as D3DDDIFORMAT,
        // CAST: at most 10^9.
        IntegerRefreshRate: rounded as u32,
        RefreshRate: D3DDDI_RATIONAL { Numerator: NS as u32, Denominator: denominator },
        ScanLineOrdering: D3DDDI_VSSLO_PROGRESSIVE,
        DisplayOrientation: D3DDDI_ROTATION_IDENTITY,
        DisplayFixedOutput: 0,
        Flags: D3DKMDT_DISPLAYMODE_FLAGS { Value: D3DKMDT_DISPLAYMODE_FLAGS::ValidatedAgainstMonitorCaps | timing },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_rises_and_has_the_preferred_mode_and_the_current_one_once() {
        let mode = |width, height| DisplayMode { width, height, format: 22 };
        let (current, preferred) = (mode(100, 50), mode(1280, 720));
        let (source, target) = (Default::default(), Default::default());
        let display = DisplayInfo { source, target, refresh_ns: 16_666_667, current, preferred };
        let list: Vec<_> = modes(&display).into_iter().map(|mode| (mode.width, mode.height)).collect();
        assert_eq!(list, [(100, 50), (640, 480), (800, 600), (1280, 720)], "1024 by 768 is too high");
        let said = described(&display, preferred);
        assert_eq!((said.IntegerRefreshRate, said.RefreshRate.Denominator), (60, 16_666_667));
        assert_ne!(said.Flags.Value & D3DKMDT_DISPLAYMODE_FLAGS::PreferredTiming, 0);
        assert_eq!(described(&display, current).Flags.Value & D3DKMDT_DISPLAYMODE_FLAGS::PreferredTiming, 0);
    }
}
