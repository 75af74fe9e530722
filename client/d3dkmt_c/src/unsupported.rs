//! The list of functions that are declared and exported, and refuse each use: each reason with the functions that have it. A function that
//! comes to work moves to the list in `function`.

use crate::function::{Function, FunctionState};

/// Calls a macro with every function that refuses each use, grouped by reason.
#[doc(hidden)]
#[macro_export]
macro_rules! unsupported {
    ($($then:tt)*) => {
        $($then)* ! {
            "no adapter of this kernel has overlay planes" {
                D3DKMTCreateOverlay "D3DKMT_CREATEOVERLAY*";
                D3DKMTUpdateOverlay "CONST D3DKMT_UPDATEOVERLAY*";
                D3DKMTFlipOverlay "CONST D3DKMT_FLIPOVERLAY*";
                D3DKMTDestroyOverlay "CONST D3DKMT_DESTROYOVERLAY*";
                D3DKMTGetOverlayState "D3DKMT_GETOVERLAYSTATE*";
            }
            "a display of this kernel shows one surface, and has no further planes" {
                D3DKMTCheckMultiPlaneOverlaySupport "D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT*";
                D3DKMTCheckMultiPlaneOverlaySupport2 "D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT2*";
                D3DKMTCheckMultiPlaneOverlaySupport3 "D3DKMT_CHECKMULTIPLANEOVERLAYSUPPORT3*";
                D3DKMTGetMultiPlaneOverlayCaps "D3DKMT_GET_MULTIPLANE_OVERLAY_CAPS*";
                D3DKMTGetPostCompositionCaps "D3DKMT_GET_POST_COMPOSITION_CAPS*";
                D3DKMTPresentMultiPlaneOverlay "CONST D3DKMT_PRESENT_MULTIPLANE_OVERLAY*";
                D3DKMTPresentMultiPlaneOverlay2 "CONST D3DKMT_PRESENT_MULTIPLANE_OVERLAY2*";
                D3DKMTPresentMultiPlaneOverlay3 "CONST D3DKMT_PRESENT_MULTIPLANE_OVERLAY3*";
            }
            "no compositor draws a desktop that a program could duplicate" {
                D3DKMTCreateOutputDupl "CONST D3DKMT_CREATE_OUTPUTDUPL*";
                D3DKMTDestroyOutputDupl "CONST D3DKMT_DESTROY_OUTPUTDUPL*";
                D3DKMTOutputDuplGetFrameInfo "D3DKMT_OUTPUTDUPL_GET_FRAMEINFO*";
                D3DKMTOutputDuplGetMetaData "D3DKMT_OUTPUTDUPL_METADATA*";
                D3DKMTOutputDuplGetPointerShapeData "D3DKMT_OUTPUTDUPL_GET_POINTER_SHAPE_DATA*";
                D3DKMTOutputDuplPresent "CONST D3DKMT_OUTPUTDUPLPRESENT*";
                D3DKMTOutputDuplPresentToHwQueue "CONST D3DKMT_OUTPUTDUPLPRESENTTOHWQUEUE*";
                D3DKMTOutputDuplReleaseFrame "D3DKMT_OUTPUTDUPL_RELEASE_FRAME*";
            }
            "no compositor takes presents of windows, or keeps a history of them" {
                D3DKMTCancelPresents "CONST D3DKMT_CANCEL_PRESENTS*";
                D3DKMTChangeSurfacePointer "CONST D3DKMT_CHANGESURFACEPOINTER*";
                D3DKMTConfigureSharedResource "CONST D3DKMT_CONFIGURESHAREDRESOURCE*";
                D3DKMTGetDWMVerticalBlankEvent "CONST D3DKMT_GETVERTICALBLANKEVENT*";
                D3DKMTGetPresentHistory "D3DKMT_GETPRESENTHISTORY*";
                D3DKMTGetPresentQueueEvent "D3DKMT_HANDLE, HANDLE*";
                D3DKMTGetResourcePresentPrivateDriverData "D3DDDI_GETRESOURCEPRESENTPRIVATEDRIVERDATA*";
                D3DKMTGetRuntimeData "D3DKMT_GETRUNTIMEDATA*";
                D3DKMTPresentRedirected "CONST D3DKMT_PRESENT_REDIRECTED*";
                D3DKMTSetSyncRefreshCountWaitTarget "CONST D3DKMT_SETSYNCREFRESHCOUNTWAITTARGET*";
                D3DKMTSharedPrimaryLockNotification "CONST D3DKMT_SHAREDPRIMARYLOCKNOTIFICATION*";
                D3DKMTSharedPrimaryUnLockNotification "CONST D3DKMT_SHAREDPRIMARYUNLOCKNOTIFICATION*";
                D3DKMTSubmitPresentBltToHwQueue "CONST D3DKMT_SUBMITPRESENTBLTTOHWQUEUE*";
            }
            "the library has no GDI, whose device contexts the function makes" {
                D3DKMTCreateDCFromMemory "D3DKMT_CREATEDCFROMMEMORY*";
                D3DKMTDestroyDCFromMemory "CONST D3DKMT_DESTROYDCFROMMEMORY*";
            }
            "no display of this kernel has a gamma ramp or a color transform" {
                D3DKMTAdjustFullscreenGamma "CONST D3DKMT_ADJUSTFULLSCREENGAMMA*";
                D3DKMTSetGammaRamp "CONST D3DKMT_SETGAMMARAMP*";
                D3DKMTSetMonitorColorSpaceTransform "CONST D3DKMT_SET_COLORSPACE_TRANSFORM*";
            }
            "no adapter of this kernel protects content" {
                D3DKMTCreateProtectedSession "D3DKMT_CREATEPROTECTEDSESSION*";
                D3DKMTDestroyProtectedSession "D3DKMT_DESTROYPROTECTEDSESSION*";
                D3DKMTOpenProtectedSessionFromNtHandle "D3DKMT_OPENPROTECTEDSESSIONFROMNTHANDLE*";
                D3DKMTQueryProtectedSessionInfoFromNtHandle "D3DKMT_QUERYPROTECTEDSESSIONINFOFROMNTHANDLE*";
                D3DKMTQueryProtectedSessionStatus "D3DKMT_QUERYPROTECTEDSESSIONSTATUS*";
                D3DKMTSetHwProtectionTeardownRecovery "CONST D3DKMT_SETHWPROTECTIONTEARDOWNRECOVERY*";
                D3DKMTSetVidPnSourceHwProtection "CONST D3DKMT_SETVIDPNSOURCEHWPROTECTION*";
            }
            "the driver contract of this kernel has no lists of multisampling methods" {
                D3DKMTGetMultisampleMethodList "D3DKMT_GETMULTISAMPLEMETHODLIST*";
            }
            "the driver model that this kernel has gives no entry point for private formats of a display" {
                D3DKMTSetDisplayPrivateDriverFormat "CONST D3DKMT_SETDISPLAYPRIVATEDRIVERFORMAT*";
            }
            "the monitors of this kernel have no power states, no children that come and go, and no scan line that is asked for" {
                D3DKMTCheckMonitorPowerState "CONST D3DKMT_CHECKMONITORPOWERSTATE*";
                D3DKMTGetScanLine "D3DKMT_GETSCANLINE*";
                D3DKMTInvalidateActiveVidPn "CONST D3DKMT_INVALIDATEACTIVEVIDPN*";
                D3DKMTPollDisplayChildren "CONST D3DKMT_POLLDISPLAYCHILDREN*";
            }
            "the library does not list the modes of a display, which the program that embeds the kernel knows" {
                D3DKMTGetDisplayModeList "D3DKMT_GETDISPLAYMODELIST*";
            }
            "no desktop blocks exclusive modes, or shows displays of a remote session" {
                D3DKMTQueryFSEBlock "D3DKMT_QUERYFSEBLOCK*";
                D3DKMTSetFSEBlock "CONST D3DKMT_SETFSEBLOCK*";
                D3DKMTQueryRemoteVidPnSourceFromGdiDisplayName "D3DKMT_QUERYREMOTEVIDPNSOURCEFROMGDIDISPLAYNAME*";
            }
            "the kernel is no guest, and knows no host of virtual machines; D3DKMTShareObjects and OpenWddmExportHandle share with other processes" {
                D3DKMTShareObjectWithHost "D3DKMT_SHAREOBJECTWITHHOST*";
            }
            "the kernel is no guest, and knows no host of virtual machines" {
                D3DKMTRegisterVailProcess "CONST GUID*";
            }
            "no interface of this kernel lets a program trim another one, or say that it survives the removal of a device" {
                D3DKMTGetProcessDeviceRemovalSupport "D3DKMT_GETPROCESSDEVICEREMOVALSUPPORT*";
                D3DKMTTrimProcessCommitment "D3DKMT_TRIMPROCESSCOMMITMENT*";
            }
            "the kernel does not say which process owns a display; D3DKMTCheckVidPnExclusiveOwnership says whether one does" {
                D3DKMTQueryVidPnExclusiveOwnership "D3DKMT_QUERYVIDPNEXCLUSIVEOWNERSHIP*";
            }
        }
    };
}

macro_rules! list_unsupported {
    ($($reason:literal { $($name:ident $parameters:literal;)* })*) => {
        &[$($(Function {
            name: stringify!($name),
            returns: "NTSTATUS",
            parameters: $parameters,
            state: FunctionState::Refuses($reason),
        },)*)*]
    };
}

/// Those that refuse each use.
pub const UNSUPPORTED: &[Function] = unsupported! { list_unsupported };
