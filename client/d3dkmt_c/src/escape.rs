//! Private calls to a driver.

use d3dkmt_abi::*;
use kmt_calls::{Call, ESCAPE_BYTES_MAX, EscapeCall, EscapeFlags, Reply};
use wddm_types::{NtStatus, RawHandle};

use crate::border::{Answer, Caller};
use crate::refusal::{expect_reply, invalid};

/// Reads the caller's data once, and writes their place once, when the driver has succeeded.
pub fn escape(caller: &Caller<'_>, arguments: &D3DKMT_ESCAPE) -> Answer {
    let bytes = arguments.PrivateDriverDataSize;
    if bytes as usize > ESCAPE_BYTES_MAX {
        return Err(invalid(format!("PrivateDriverDataSize is {bytes}; give at most {ESCAPE_BYTES_MAX}")));
    }
    let room = caller.room(arguments.pPrivateDriverData.cast::<u8>(), bytes)?;
    let call = EscapeCall {
        adapter: RawHandle(arguments.hAdapter),
        device: RawHandle(arguments.hDevice),
        context: RawHandle(arguments.hContext),
        // CAST: the numbers of C's enumeration are none of them negative; one that is has no meaning either way.
        kind: arguments.Type as u32,
        flags: EscapeFlags::from_bits_retain(arguments.Flags.Value),
        private_data: caller.bytes(arguments.pPrivateDriverData, bytes)?,
    };
    let answer = expect_reply!(caller.process.call(Call::Escape(call))?, Reply::Escaped(answer) => answer);
    if answer.len() != room.count() {
        return Err(invalid(format!("the driver answered {} bytes to a private call of {bytes} bytes", answer.len())));
    }
    room.write(&answer);
    Ok(NtStatus::SUCCESS)
}
