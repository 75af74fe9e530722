//! The object that a function names which refuses each use: a request that names none is at fault itself, and is refused for that before
//! the function is refused for what it is.

use std::ffi::c_void;

use kmt_calls::{AdapterCall, Call, DeviceCall, PriorityCall, Refusal, Reply, StatisticsCall};
use wddm_types::{Luid, NtStatus, RawHandle};

use crate::border::Caller;
use crate::event::handle::{nt_handle, process_handle};
use crate::refusal::{invalid, refuse};

/// The lowest bits of each handle of the kernel, which are 0.
const HANDLE_STEP: u32 = 0x40;

/// The kind of the object, which a function's structure names somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `hAdapter`.
    Adapter,
    /// `hAdapter`, which is the first parameter itself.
    AdapterItself,
    /// The LUID of an adapter.
    Luid,
    /// `hDevice`.
    Device,
    /// `hContext`, or `hDevice` of the older form.
    Context,
    /// A resource, an allocation or a queue: the kernel has no call that only looks at one, so a handle does that may be one.
    Other,
    /// An NT handle.
    NtHandle,
    /// A handle of a process.
    Process,
    /// An object of another component, such as GDI, or of a kind that the kernel makes none of: no request names one.
    Nowhere,
    /// None: the function looks at nothing.
    Nothing,
}

impl Subject {
    /// The bytes of the name.
    pub const fn size(self) -> usize {
        match self {
            Subject::Adapter | Subject::Device | Subject::Context | Subject::Other => 4,
            Subject::Luid | Subject::NtHandle | Subject::Process => 8,
            Subject::AdapterItself | Subject::Nowhere | Subject::Nothing => 0,
        }
    }

    /// Whether the parameter is a pointer that may not be NULL.
    pub const fn is_in_structure(self) -> bool {
        !matches!(self, Subject::AdapterItself | Subject::Nothing)
    }

    /// Judges the name of an object.
    ///
    /// # Errors
    /// `INVALID_PARAMETER`, or `INVALID_HANDLE` for a handle of the operating system: no such object is there.
    // spec: memory §9.3
    pub fn judge(self, caller: &Caller<'_>, name: u64) -> Result<(), Refusal> {
        // CAST: a handle of the kernel has 32 bits.
        let handle = RawHandle(name as u32);
        let asks = |call| caller.process.call(call).map(drop);
        let adapter = |adapter| Call::Priority(PriorityCall::GetProcessSchedulingPriorityClass { adapter });
        let device = |device| Call::Device(DeviceCall::GetDeviceState { device });
        match self {
            Subject::Adapter | Subject::AdapterItself => asks(adapter(handle)),
            Subject::Device => asks(device(handle)),
            Subject::Context => asks(Call::Priority(PriorityCall::GetContextSchedulingPriority { context: handle }))
                .or_else(|_| asks(device(handle))),
            Subject::Luid => match caller.process.call(Call::Adapter(AdapterCall::EnumAdapters))? {
                Reply::Adapters(adapters) if adapters.iter().any(|(luid, _)| *luid == Luid(name)) => Ok(()),
                _ => Err(invalid(format!("no adapter has the LUID {name:#x}"))),
            },
            Subject::Other if handle != RawHandle::NONE && handle.0.is_multiple_of(HANDLE_STEP) => Ok(()),
            Subject::Other => Err(invalid(format!("{name:#x} is no handle"))),
            Subject::NtHandle => nt_handle(caller, std::ptr::without_provenance_mut(name as usize)).map(drop),
            Subject::Process if name == 0 => Err(refuse(NtStatus::INVALID_HANDLE, "NULL for a handle of a process")),
            Subject::Process => {
                let process = process_handle(caller, std::ptr::without_provenance_mut(name as usize))?;
                asks(Call::Statistics(StatisticsCall::QueryProcessOfferInfo { process }))
            }
            Subject::Nowhere => Err(invalid("the structure names an object that no component here has made")),
            Subject::Nothing => Ok(()),
        }
    }
}

/// Where a function's structure names its object.
///
/// # Safety
/// `arguments` is not NULL, and readable up to the end of the name.
#[allow(unsafe_code)]
pub unsafe fn name_at(arguments: *const c_void, offset: usize, size: usize) -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: readable, as the caller vouches; the bytes are copied, so that no alignment is needed.
    unsafe { std::ptr::copy_nonoverlapping(arguments.cast::<u8>().add(offset), bytes.as_mut_ptr(), size) };
    u64::from_le_bytes(bytes)
}
