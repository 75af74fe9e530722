//! Names of shared objects: `OBJECT_ATTRIBUTES`, and NT handles that are opened by a name.

use d3dkmt_abi::*;
use kmt_calls::{Call, Refusal, Reply, ShareCall};
use wddm_types::NtStatus;

use crate::border::{Answer, Caller};
use crate::event::handle::nt_handle_in_c;
use crate::refusal::{expect_reply, invalid, not_supported};

/// The name in an object's attributes; `None`: it has none.
pub fn object_name(caller: &Caller<'_>, attributes: *const OBJECT_ATTRIBUTES) -> Result<Option<String>, Refusal> {
    if attributes.is_null() {
        return Ok(None);
    }
    let attributes = caller.array(attributes, 1)?[0];
    if attributes.ObjectName.is_null() {
        return Ok(None);
    }
    let name = caller.array(attributes.ObjectName, 1)?[0];
    if name.Length == 0 {
        return Ok(None);
    }
    if !attributes.RootDirectory.is_null() {
        return Err(not_supported("RootDirectory is not NULL: the kernel has one set of names and no directories"));
    }
    let bytes = usize::from(name.Length);
    if !bytes.is_multiple_of(size_of::<WCHAR>()) {
        return Err(invalid(format!("a name of {bytes} bytes is no whole number of characters")));
    }
    // CAST: less than the bytes.
    let characters = caller.array(name.Buffer.cast_const(), (bytes / size_of::<WCHAR>()) as u32)?;
    text(&characters).map(Some).ok_or_else(|| invalid("the name has invalid characters"))
}

#[cfg(not(feature = "wsl"))]
fn text(characters: &[WCHAR]) -> Option<String> {
    String::from_utf16(characters).ok()
}

#[cfg(feature = "wsl")]
fn text(characters: &[WCHAR]) -> Option<String> {
    characters.iter().map(|character| char::from_u32(*character)).collect()
}

fn open(
    caller: &Caller<'_>,
    access: DWORD,
    attributes: *const OBJECT_ATTRIBUTES,
    sync_object: bool,
) -> Result<HANDLE, Refusal> {
    let name = object_name(caller, attributes)?.ok_or_else(|| invalid("ObjectName is NULL or empty"))?;
    let reply = caller.process.call(Call::Share(ShareCall::OpenNtHandleFromName { name, access, sync_object }))?;
    nt_handle_in_c(caller, expect_reply!(reply, Reply::NtHandle(token) => token))
}

// spec: sync §2.2
pub fn open_sync_object_nt_handle_from_name(
    caller: &Caller<'_>,
    arguments: &mut D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME,
) -> Answer {
    arguments.hNtHandle = open(caller, arguments.dwDesiredAccess, arguments.pObjAttrib, true)?;
    Ok(NtStatus::SUCCESS)
}

// spec: memory §2.7
pub fn open_nt_handle_from_name(caller: &Caller<'_>, arguments: &mut D3DKMT_OPENNTHANDLEFROMNAME) -> Answer {
    arguments.hNtHandle = open(caller, arguments.dwDesiredAccess, arguments.pObjAttrib, false)?;
    Ok(NtStatus::SUCCESS)
}
