//! Names of displays, names that are cut, and versions of interfaces.

use super::*;

#[test]
fn names_of_displays_are_counted_from_one() {
    let number = |text: &str| display_number(&wide::<32>(text));
    assert_eq!(number(r"\\.\DISPLAY1"), Some(1));
    assert_eq!(number(r"\\.\DISPLAY12"), Some(12));
    for wrong in ["", r"\\.\DISPLAY", r"\\.\DISPLAY0", r"\\.\DISPLAY01", r"\\.\DISPLAY+1", "DISPLAY1", r"\\.\DISPLAY1x"]
    {
        assert_eq!(number(wrong), None, "{wrong}");
    }
    assert_eq!(display_number(&[WCHAR::from(b'x'); 32]), None, "it never ends");
}

#[test]
fn a_name_is_cut_before_its_room_ends() {
    assert_eq!(wide::<4>("abcdef"), [97, 98, 99, 0]);
    assert_eq!(wide::<4>("ab"), [97, 98, 0, 0]);
}

#[test]
fn each_interface_has_its_version() {
    let version = |ddi_version| driver_version(&AdapterInfo { ddi_version, ..AdapterInfo::default() });
    assert_eq!(version(0x1052), Ok(KMT_DRIVERVERSION_WDDM_1_0));
    assert_eq!(version(0xe003), Ok(KMT_DRIVERVERSION_WDDM_2_9));
    assert_eq!(version(0x1_1008), Ok(KMT_DRIVERVERSION_WDDM_3_2));
    assert_eq!(version(0x8001), Ok(KMT_DRIVERVERSION_WDDM_2_3));
    assert_eq!(version(0xd001), Ok(KMT_DRIVERVERSION_WDDM_2_8));
    assert_eq!(version(0x1_2000).map_err(|refusal| refusal.status), Err(NtStatus::NOT_SUPPORTED));
}
