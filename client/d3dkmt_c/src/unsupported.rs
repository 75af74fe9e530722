//! The list of functions that are declared and exported, and refuse each use: each reason with the functions that have it, and the object that
//! each function's structure names, with its offset there. A function that comes to work moves to the list in `function`.

use crate::function::{Function, FunctionState};
use crate::subject::Subject;

/// Calls a macro with every function that refuses each use, grouped by reason.
#[doc(hidden)]
#[macro_export]
macro_rules! unsupported {
    ([$($then:tt)*] $session:expr) => {
        $($then)* ! { $session;
            "no adapter of this kernel has overlay planes" {
                D3DKMTCreateOverlay "D3DKMT_CREATEOVERLAY*" Device 4;
                D3DKMTUpdateOverlay "CONST D3DKMT_UPDATEOVERLAY*" Device 0;
                D3DKMTFlipOverlay "CONST D3DKMT_FLIPOVERLAY*" Device 0;
                D3DKMTDestroyOverlay "CONST D3DKMT_DESTROYOVERLAY*" Device 0;
                D3DKMTGetOverlayState "D3DKMT_GETOVERLAYSTATE*" Device 0;
            }
            "a display of this kernel shows one surface, and has no further planes" {
                D3DKMTCheckMultiPlaneOverlaySupport "D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT*" Device 0;
                D3DKMTCheckMultiPlaneOverlaySupport2 "D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT2*" Adapter 0;
                D3DKMTCheckMultiPlaneOverlaySupport3 "D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT3*" Adapter 0;
                D3DKMTGetMultiPlaneOverlayCaps "D3DKMT_GET_MULTIPLANE_OVERLAY_CAPS*" Adapter 0;
                D3DKMTGetPostCompositionCaps "D3DKMT_GET_POST_COMPOSITION_CAPS*" Adapter 0;
                D3DKMTPresentMultiPlaneOverlay "CONST D3DKMT_PRESENT_MULTIPLANE_OVERLAY*" Context 0;
                D3DKMTPresentMultiPlaneOverlay2 "CONST D3DKMT_PRESENT_MULTIPLANE_OVERLAY2*" Adapter 0;
                D3DKMTPresentMultiPlaneOverlay3 "CONST D3DKMT_PRESENT_MULTIPLANE_OVERLAY3*" Adapter 0;
            }
            "no compositor draws a desktop that a program could duplicate" {
                D3DKMTCreateOutputDupl "CONST D3DKMT_CREATE_OUTPUTDUPL*" Adapter 0;
                D3DKMTDestroyOutputDupl "CONST D3DKMT_DESTROY_OUTPUTDUPL*" Adapter 0;
                D3DKMTOutputDuplGetFrameInfo "D3DKMT_OUTPUTDUPL_GET_FRAMEINFO*" Adapter 0;
                D3DKMTOutputDuplGetMetaData "D3DKMT_OUTPUTDUPL_METADATA*" Adapter 0;
                D3DKMTOutputDuplGetPointerShapeData "D3DKMT_OUTPUTDUPL_GET_POINTER_SHAPE_DATA*" Adapter 0;
                D3DKMTOutputDuplPresent "CONST D3DKMT_OUTPUTDUPLPRESENT*" Context 0;
                D3DKMTOutputDuplPresentToHwQueue "CONST D3DKMT_OUTPUTDUPLPRESENTTOHWQUEUE*" Other 0;
                D3DKMTOutputDuplReleaseFrame "D3DKMT_OUTPUTDUPL_RELEASE_FRAME*" Adapter 0;
            }
            "no compositor takes presents of windows, or keeps a history of them" {
                D3DKMTCancelPresents "CONST D3DKMT_CANCEL_PRESENTS*" Device 4;
                D3DKMTChangeSurfacePointer "CONST D3DKMT_CHANGESURFACEPOINTER*" Nowhere 0;
                D3DKMTConfigureSharedResource "CONST D3DKMT_CONFIGURESHAREDRESOURCE*" Device 0;
                D3DKMTGetDWMVerticalBlankEvent "CONST D3DKMT_GETVERTICALBLANKEVENT*" Adapter 0;
                D3DKMTGetPresentHistory "D3DKMT_GETPRESENTHISTORY*" Adapter 0;
                D3DKMTGetPresentQueueEvent "D3DKMT_HANDLE, HANDLE*" AdapterItself 0;
                D3DKMTGetResourcePresentPrivateDriverData "D3DDDI_GETRESOURCEPRESENTPRIVATEDRIVERDATA*" Other 0;
                D3DKMTGetRuntimeData "D3DKMT_GETRUNTIMEDATA*" Adapter 0;
                D3DKMTPresentRedirected "CONST D3DKMT_PRESENT_REDIRECTED*" Device 4;
                D3DKMTSetSyncRefreshCountWaitTarget "CONST D3DKMT_SETSYNCREFRESHCOUNTWAITTARGET*" Adapter 0;
                D3DKMTSharedPrimaryLockNotification "CONST D3DKMT_SHAREDPRIMARYLOCKNOTIFICATION*" Luid 0;
                D3DKMTSharedPrimaryUnLockNotification "CONST D3DKMT_SHAREDPRIMARYUNLOCKNOTIFICATION*" Luid 0;
                D3DKMTSubmitPresentBltToHwQueue "CONST D3DKMT_SUBMITPRESENTBLTTOHWQUEUE*" Other 0;
            }
            "the library has no GDI, whose device contexts the function makes" {
                D3DKMTCreateDCFromMemory "D3DKMT_CREATEDCFROMMEMORY*" Nowhere 0;
                D3DKMTDestroyDCFromMemory "CONST D3DKMT_DESTROYDCFROMMEMORY*" Nowhere 0;
            }
            "no display of this kernel has a gamma ramp or a color transform" {
                D3DKMTAdjustFullscreenGamma "CONST D3DKMT_ADJUSTFULLSCREENGAMMA*" Adapter 0;
                D3DKMTSetGammaRamp "CONST D3DKMT_SETGAMMARAMP*" Device 0;
                D3DKMTSetMonitorColorSpaceTransform "CONST D3DKMT_SET_COLORSPACE_TRANSFORM*" Nothing 0;
            }
            "no adapter of this kernel protects content" {
                D3DKMTCreateProtectedSession "D3DKMT_CREATEPROTECTEDSESSION*" Device 0;
                D3DKMTDestroyProtectedSession "D3DKMT_DESTROYPROTECTEDSESSION*" Nowhere 0;
                D3DKMTOpenProtectedSessionFromNtHandle "D3DKMT_OPENPROTECTEDSESSIONFROMNTHANDLE*" NtHandle 0;
                D3DKMTQueryProtectedSessionInfoFromNtHandle "D3DKMT_QUERYPROTECTEDSESSIONINFOFROMNTHANDLE*" NtHandle 0;
                D3DKMTQueryProtectedSessionStatus "D3DKMT_QUERYPROTECTEDSESSIONSTATUS*" Nowhere 0;
                D3DKMTSetVidPnSourceHwProtection "CONST D3DKMT_SETVIDPNSOURCEHWPROTECTION*" Adapter 0;
            }
            "the driver contract of this kernel has no lists of multisampling methods" {
                D3DKMTGetMultisampleMethodList "D3DKMT_GETMULTISAMPLEMETHODLIST*" Adapter 0;
            }
            "the driver model that this kernel has gives no entry point for private formats of a display" {
                D3DKMTSetDisplayPrivateDriverFormat "CONST D3DKMT_SETDISPLAYPRIVATEDRIVERFORMAT*" Device 0;
            }
            "the monitors of this kernel have no power states, no children that come and go, and no scan line that is asked for" {
                D3DKMTCheckMonitorPowerState "CONST D3DKMT_CHECKMONITORPOWERSTATE*" Adapter 0;
                D3DKMTGetScanLine "D3DKMT_GETSCANLINE*" Adapter 0;
                D3DKMTInvalidateActiveVidPn "CONST D3DKMT_INVALIDATEACTIVEVIDPN*" Adapter 0;
                D3DKMTPollDisplayChildren "CONST D3DKMT_POLLDISPLAYCHILDREN*" Adapter 0;
            }
            "no desktop blocks exclusive modes, or shows displays of a remote session" {
                D3DKMTQueryFSEBlock "D3DKMT_QUERYFSEBLOCK*" Nothing 0;
                D3DKMTSetFSEBlock "CONST D3DKMT_SETFSEBLOCK*" Nothing 0;
                D3DKMTQueryRemoteVidPnSourceFromGdiDisplayName "D3DKMT_QUERYREMOTEVIDPNSOURCEFROMGDIDISPLAYNAME*" Nowhere 0;
            }
            "the kernel is no guest, and knows no host of virtual machines; D3DKMTShareObjects and OpenWddmExportHandle share with other processes" {
                D3DKMTShareObjectWithHost "D3DKMT_SHAREOBJECTWITHHOST*" Device 0;
            }
            "no interface of this kernel lets a program trim another one, or say that it survives the removal of a device" {
                D3DKMTGetProcessDeviceRemovalSupport "D3DKMT_GETPROCESSDEVICEREMOVALSUPPORT*" Process 0;
                D3DKMTTrimProcessCommitment "D3DKMT_TRIMPROCESSCOMMITMENT*" Process 8;
            }
            "the kernel does not say which process owns a display; D3DKMTCheckVidPnExclusiveOwnership says whether one does" {
                D3DKMTQueryVidPnExclusiveOwnership "D3DKMT_QUERYVIDPNEXCLUSIVEOWNERSHIP*" Process 0;
            }
        }
    };
}

macro_rules! list_unsupported {
    ($session:expr; $($reason:literal { $($name:ident $parameters:literal $subject:ident $offset:literal;)* })*) => {
        &[$($(Function {
            name: stringify!($name),
            returns: "NTSTATUS",
            parameters: $parameters,
            state: FunctionState::Refuses($reason),
        },)*)*]
    };
}

macro_rules! list_subjects {
    ($session:expr; $($reason:literal { $($name:ident $parameters:literal $subject:ident $offset:literal;)* })*) => {
        &[$($((stringify!($name), Subject::$subject, $offset),)*)*]
    };
}

/// The kind of the object that each function's structure names, and its offset there.
pub const SUBJECTS: &[(&str, Subject, usize)] = unsupported! { [list_subjects] () };

/// The functions that refuse each use.
pub const UNSUPPORTED: &[Function] = unsupported! { [list_unsupported] () };
