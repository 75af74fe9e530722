//! The functions that a replay registers in place of a program's, which no recording has.

use d3dkmt_abi::{D3DKMT_BUDGETCHANGENOTIFICATION, D3DKMT_TRIMNOTIFICATION};

extern "C" fn ignore_trim(_: *mut D3DKMT_TRIMNOTIFICATION) {}

extern "C" fn ignore_budget(_: *mut D3DKMT_BUDGETCHANGENOTIFICATION) {}

/// Where a function of a type is that does nothing.
pub fn of_type(of: &str) -> usize {
    match of {
        "PFND3DKMT_BUDGETCHANGENOTIFICATIONCALLBACK" => ignore_budget as *const () as usize,
        _ => ignore_trim as *const () as usize,
    }
}
