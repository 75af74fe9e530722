//! The driver's answers for each type of standard allocation, in both calls.

use ddi::{
    DriverStatus, GdiSurfaceKind as Gdi, Miniport, RefreshRate, StandardAllocation as Standard,
    StandardAllocationDriverData, Surface, SurfaceFormat,
};
use softgpu_spec::private_data::{AllocationRequest, Kind};

use crate::driver::SoftGpuKmd;
use crate::fake_port::started;

const SURFACE: Surface = Surface { width: 100, height: 7, format: SurfaceFormat::X8R8G8B8 };

fn query(wanted: Standard) -> StandardAllocationDriverData<'static> {
    StandardAllocationDriverData { wanted, allocation_bytes: 0, resource_bytes: 0, pitch_bytes: 0, buffers: None }
}

/// Both calls, as the kernel makes them.
fn described(kmd: &mut SoftGpuKmd, wanted: Standard) -> Result<(AllocationRequest, u32), DriverStatus> {
    let mut first = query(wanted);
    kmd.standard_allocation_driver_data(&mut first)?;
    assert_eq!((first.resource_bytes, first.pitch_bytes), (0, 0), "the first call is about sizes");
    let mut bytes = vec![0; first.allocation_bytes as usize];
    let mut second = StandardAllocationDriverData { buffers: Some((&mut bytes, &mut [])), ..query(wanted) };
    kmd.standard_allocation_driver_data(&mut second)?;
    let pitch = second.pitch_bytes;
    Ok((AllocationRequest::decode_with_details(&bytes).expect("its own words").0, pitch))
}

fn primary(surface: Surface) -> Standard {
    Standard::SharedPrimary { surface, refresh_rate: RefreshRate { numerator: 60, denominator: 1 }, video_source: 0 }
}

#[test]
fn each_type_has_its_place_and_rows_that_begin_at_cache_lines() {
    // spec: memory §2.7
    let (mut kmd, _, _) = started();
    let gdi = |kind| Standard::Gdi { surface: SURFACE, kind };
    for (wanted, kind, seen) in [
        (primary(SURFACE), Kind::Local, false),
        (Standard::Shadow(SURFACE), Kind::System, true),
        (gdi(Gdi::StagingCpuVisible), Kind::System, true),
        (gdi(Gdi::Texture), Kind::LocalThenSystem, false),
        (gdi(Gdi::Staging), Kind::LocalThenSystem, false),
        (gdi(Gdi::LookupTable), Kind::LocalThenSystem, false),
    ] {
        let (request, pitch) = described(&mut kmd, wanted).unwrap();
        assert_eq!((request.kind, request.cpu_visible, request.cached), (kind, seen, seen), "{wanted:?}");
        assert_eq!((pitch, request.size_bytes), (448, 7 * 448), "{wanted:?}: 400 bytes, and what is left of the line");
    }
    let (request, pitch) = described(&mut kmd, Standard::Staging { size_bytes: 8192 }).unwrap();
    assert_eq!((request.kind, request.size_bytes, pitch), (Kind::System, 8192, 0));
}

#[test]
fn what_this_device_cannot_show_is_refused() {
    // spec: memory §2.7
    let (mut kmd, _, _) = started();
    for kind in
        [Gdi::ExistingSysMem, Gdi::TextureCpuVisible, Gdi::TextureCrossAdapter, Gdi::TextureCrossAdapterCpuVisible]
    {
        let answer = described(&mut kmd, Standard::Gdi { surface: SURFACE, kind });
        assert!(matches!(answer, Err(DriverStatus::NotSupported(_))), "{kind:?}");
    }
    assert!(matches!(described(&mut kmd, Standard::VirtualGpu), Err(DriverStatus::NotSupported(_))));
    for wrong in [
        Surface { format: SurfaceFormat(0), ..SURFACE },
        Surface { width: u32::MAX, ..SURFACE },
        Surface { height: 0, ..SURFACE },
        Surface { width: 1 << 29, height: 1 << 31, ..SURFACE },
    ] {
        let answer = described(&mut kmd, primary(wrong));
        assert!(matches!(answer, Err(DriverStatus::InvalidParameter(_))), "{wrong:?}");
    }
    let mut short = [0; 3];
    let mut second =
        StandardAllocationDriverData { buffers: Some((&mut short, &mut [])), ..query(Standard::Shadow(SURFACE)) };
    let answer = kmd.standard_allocation_driver_data(&mut second);
    assert!(matches!(answer, Err(DriverStatus::InvalidParameter(_))), "another size than the driver asked for");
}
