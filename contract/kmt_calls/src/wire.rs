//! Calls and what they answer as bytes: the one encoding for whatever carries them between processes.
//!
//! Bytes that come in are an allegation like the call that they may hold: they decode to exactly one value with nothing behind it, or
//! are refused. A length that lies allocates nothing, and bits that no flag has stay in the value, so that the kernel refuses them as
//! it does in its own process.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why bytes are no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// They end too early, or say what no value says.
    #[error("malformed: {0}")]
    Malformed(postcard::Error),
    /// There are more of them than the value has.
    #[error("{0} bytes behind the value")]
    Rest(usize),
}

/// A value as bytes, behind those that `into` has.
///
/// # Panics
/// Never: every call and answer can be told in bytes.
pub fn encode(value: &impl Serialize, into: Vec<u8>) -> Vec<u8> {
    postcard::to_extend(value, into).expect("a value without borrowed or unsized parts")
}

/// The value that these bytes are.
///
/// # Errors
/// When they are none, or more than one.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(WireError::Rest(rest.len())),
        Err(error) => Err(WireError::Malformed(error)),
    }
}

#[cfg(test)]
mod tests {
    use wddm_types::{Blame, NtStatus, RawHandle};

    use super::*;
    use crate::{Call, FencePrivateData, NativeFenceRequest, Refusal, Reply, ShareCall, SyncCall, SyncObjectAccess};

    fn call() -> Call {
        let private_data = FencePrivateData(std::array::from_fn(|at| at as u8));
        let request = NativeFenceRequest { private_data, ..NativeFenceRequest::default() };
        Call::Sync(SyncCall::CreateNativeFence { device: RawHandle(0xc000_0040), request })
    }

    #[test]
    fn a_call_comes_back_as_it_was_sent() {
        assert_eq!(decode(&encode(&call(), Vec::new())), Ok(call()));
        let refusal = Refusal {
            status: NtStatus::NO_MEMORY,
            blame: Blame::Scarcity,
            reason: "full".into(),
            bytes_to_trim: 1 << 40,
        };
        let answer: Result<Reply, Refusal> = Err(refusal);
        assert_eq!(decode(&encode(&answer, Vec::new())), Ok(answer));
    }

    #[test]
    fn bits_that_no_flag_has_reach_the_kernel() {
        let objects = vec![RawHandle(1)];
        let access = SyncObjectAccess::from_bits_retain(0x8000_0001);
        let call = Call::Share(ShareCall::ShareObjects { objects, access, name: None });
        assert_eq!(decode(&encode(&call, Vec::new())), Ok(call));
    }

    #[test]
    fn whatever_is_cut_or_too_long_is_refused() {
        let mut bytes = encode(&call(), Vec::new());
        for length in 0..bytes.len() {
            assert!(decode::<Call>(&bytes[..length]).is_err(), "{length} of {} bytes", bytes.len());
        }
        bytes.push(0);
        assert_eq!(decode::<Call>(&bytes), Err(WireError::Rest(1)));
    }

    #[test]
    fn a_length_that_lies_is_refused() {
        let objects = vec![RawHandle(7); 3];
        let call = Call::Share(ShareCall::ShareObjects { objects, access: SyncObjectAccess::ALL_ACCESS, name: None });
        let mut bytes = encode(&call, Vec::new());
        // The number of objects stands behind those of the call and of its kind.
        assert_eq!(bytes[2], 3);
        bytes.splice(2..3, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        assert!(decode::<Call>(&bytes).is_err());
    }
}
