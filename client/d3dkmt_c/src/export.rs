//! The macro that makes the exported functions from their list, in the library that C programs link. Called by that library only.
#![allow(unsafe_code)]

/// Makes the functions of the C interface for a [`crate::Session`], in the library that C programs link.
#[macro_export]
macro_rules! export {
    ($session:expr) => {
        $crate::functions! { [$crate::export_each] $session }
        $crate::unsupported! { [$crate::export_unsupported] $session }

        /// `D3DKMTShareObjects`.
        ///
        /// # Safety
        /// The pointers, if not NULL, are good for what the declaration says during the call.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn D3DKMTShareObjects(
            count: $crate::abi::UINT,
            objects: *const $crate::abi::D3DKMT_HANDLE,
            attributes: *const $crate::abi::OBJECT_ATTRIBUTES,
            access: $crate::abi::DWORD,
            handle: *mut $crate::abi::HANDLE,
        ) -> i32 {
            let body = |caller: &$crate::exported::Caller<'_>| {
                $crate::exported::share_objects(caller, (count, objects, access), attributes, handle)
            };
            let (listed, named) = (objects.addr() as u64, attributes.addr() as u64);
            let parameters = [count.into(), listed, named, access.into(), handle.addr() as u64];
            // SAFETY: the C caller vouches for its pointers.
            unsafe { $crate::exported::enter($session, "D3DKMTShareObjects", &parameters, body) }
        }

        /// `D3DKMTSetProcessSchedulingPriorityClass`. No pointers are followed.
        #[unsafe(no_mangle)]
        pub extern "C" fn D3DKMTSetProcessSchedulingPriorityClass(
            process: $crate::abi::HANDLE,
            class: $crate::abi::D3DKMT_SCHEDULINGPRIORITYCLASS,
        ) -> i32 {
            let body =
                |caller: &$crate::exported::Caller<'_>| $crate::exported::set_process_class(caller, process, class);
            let parameters = [process.addr() as u64, u64::from(class.cast_unsigned())];
            // SAFETY: the function follows no pointer.
            unsafe { $crate::exported::enter($session, "D3DKMTSetProcessSchedulingPriorityClass", &parameters, body) }
        }

        /// `D3DKMTGetProcessSchedulingPriorityClass`.
        ///
        /// # Safety
        /// The pointer, if not NULL, is good for what the declaration says during the call.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn D3DKMTGetProcessSchedulingPriorityClass(
            process: $crate::abi::HANDLE,
            class: *mut $crate::abi::D3DKMT_SCHEDULINGPRIORITYCLASS,
        ) -> i32 {
            let body =
                |caller: &$crate::exported::Caller<'_>| $crate::exported::get_process_class(caller, process, class);
            let parameters = [process.addr() as u64, class.addr() as u64];
            // SAFETY: the C caller vouches for its pointers.
            unsafe { $crate::exported::enter($session, "D3DKMTGetProcessSchedulingPriorityClass", &parameters, body) }
        }

        /// `D3DKMTReleaseProcessVidPnSourceOwners`. No pointers are followed.
        #[unsafe(no_mangle)]
        pub extern "C" fn D3DKMTReleaseProcessVidPnSourceOwners(process: $crate::abi::HANDLE) -> i32 {
            let body = |caller: &$crate::exported::Caller<'_>| $crate::exported::release_sources_of(caller, process);
            let parameters = [process.addr() as u64];
            // SAFETY: the function follows no pointer.
            unsafe { $crate::exported::enter($session, "D3DKMTReleaseProcessVidPnSourceOwners", &parameters, body) }
        }

        /// `D3DKMTRegisterVailProcess`. No pointer is followed.
        #[unsafe(no_mangle)]
        pub extern "C" fn D3DKMTRegisterVailProcess(identifier: *const ::std::ffi::c_void) -> i32 {
            let parameters = [identifier.addr() as u64];
            let body = $crate::exported::register_vail_process;
            // SAFETY: the function follows no pointer.
            unsafe { $crate::exported::enter($session, "D3DKMTRegisterVailProcess", &parameters, body) }
        }

        /// `D3DKMTCheckExclusiveOwnership`: whether some device owns a display for itself. No pointers.
        #[unsafe(no_mangle)]
        pub extern "C" fn D3DKMTCheckExclusiveOwnership() -> $crate::abi::BOOLEAN {
            // SAFETY: the function follows no pointer.
            let status = unsafe {
                let body = $crate::exported::no_exclusive_owner;
                $crate::exported::enter($session, "D3DKMTCheckExclusiveOwnership", &[], body)
            };
            $crate::exported::is_owned(status)
        }

        /// `D3DKMTCloseDxCoreDevice`: the library has no descriptor that a program closes; its connection lives as long as the process.
        #[unsafe(no_mangle)]
        pub extern "C" fn D3DKMTCloseDxCoreDevice() {
            $crate::exported::nothing_to_do("D3DKMTCloseDxCoreDevice");
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! export_each {
    ($session:expr; $($kind:ident $name:ident($of:ident) $body:ident $($rest:literal)? $(lacks $lack:literal)?;)*) => {
        $( $crate::export_one! { $session; $kind $name($of) $body } )*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! export_one {
    ($session:expr; reads $name:ident($of:ident) $body:ident) => {
        /// # Safety
        /// The pointer, if not NULL, and those in the structure are good for what the declaration says during the call.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(arguments: *const $crate::abi::$of) -> i32 {
            // SAFETY: the C caller vouches for its pointers.
            unsafe { $crate::exported::enter_in($session, stringify!($name), arguments, $crate::exported::$body) }
        }
    };
    ($session:expr; writes $name:ident($of:ident) $body:ident) => {
        /// # Safety
        /// The pointer, if not NULL, and those in the structure are good for what the declaration says during the call.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(arguments: *mut $crate::abi::$of) -> i32 {
            // SAFETY: the C caller vouches for its pointers.
            unsafe { $crate::exported::enter_in_out($session, stringify!($name), arguments, $crate::exported::$body) }
        }
    };
    ($session:expr; tells $name:ident($of:ident) $body:ident) => {
        /// # Safety
        /// The pointer, if not NULL, and those in the structure are good for what the declaration says during the call.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(arguments: *mut $crate::abi::$of) -> i32 {
            // SAFETY: the C caller vouches for its pointers.
            unsafe { $crate::exported::enter_telling($session, stringify!($name), arguments, $crate::exported::$body) }
        }
    };
    ($session:expr; finds $name:ident($of:ident) $body:ident) => {
        /// # Safety
        /// The pointer, if not NULL, and those in the structure are good for what the declaration says during the call.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(arguments: *mut $crate::abi::$of) -> i32 {
            // SAFETY: the C caller vouches for its pointers.
            unsafe { $crate::exported::enter_finding($session, stringify!($name), arguments, $crate::exported::$body) }
        }
    };
}

/// The caller clears away what it passes, so that these functions need not know their parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! export_unsupported {
    ($session:expr; $($reason:literal { $($name:ident $parameters:literal $subject:ident $offset:literal;)* })*) => {
        $($(
            /// Not built: answers `STATUS_NOT_SUPPORTED` to each request that names an object.
            ///
            /// # Safety
            /// The pointer, if not NULL, is good for the structure of the declaration during the call.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(arguments: *const ::std::ffi::c_void) -> i32 {
                let subject = ($crate::exported::Subject::$subject, $offset);
                // SAFETY: the C caller vouches for its pointer.
                unsafe { $crate::exported::enter_refused($session, stringify!($name), arguments, subject, $reason) }
            }
        )*)*
    };
}
