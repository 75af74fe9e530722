//! Structures that the functions take from the operating system's own declarations, and their replacements for C programs where it is not
//! Windows.

use crate::layout::layout;
use crate::number::*;

layout! {
    structure UNICODE_STRING { 16;
        0 Length: WORD,
        2 MaximumLength: WORD,
        8 Buffer: *mut WCHAR,
    }

    structure OBJECT_ATTRIBUTES { 48;
        0 Length: ULONG,
        8 RootDirectory: HANDLE,
        16 ObjectName: *const UNICODE_STRING,
        24 Attributes: ULONG,
        32 SecurityDescriptor: *const VOID,
        40 SecurityQualityOfService: *const VOID,
    }

    structure D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME { 24;
        0 dwDesiredAccess: DWORD,
        8 pObjAttrib: *mut OBJECT_ATTRIBUTES,
        16 hNtHandle: HANDLE,
    }

    structure D3DKMT_OPENNTHANDLEFROMNAME { 24;
        0 dwDesiredAccess: DWORD,
        8 pObjAttrib: *mut OBJECT_ATTRIBUTES,
        16 hNtHandle: HANDLE,
    }

    structure OPENWDDM_CREATEEVENT { 16;
        0 bManualReset: BOOL,
        8 hEvent: HANDLE,
    }

    structure OPENWDDM_WAITEVENT { 16;
        0 hEvent: HANDLE,
        8 bBlock: BOOL,
    }

    structure OPENWDDM_SETEVENT { 8;
        0 hEvent: HANDLE,
    }

    structure OPENWDDM_RESETEVENT { 8;
        0 hEvent: HANDLE,
    }

    structure OPENWDDM_CLOSEHANDLE { 8;
        0 hObject: HANDLE,
    }

    structure OPENWDDM_EXPORTHANDLE { 16;
        0 hObject: HANDLE,
        8 Token: UINT64,
    }

    structure OPENWDDM_IMPORTHANDLE { 16;
        0 Token: UINT64,
        8 hObject: HANDLE,
    }

    structure OPENWDDM_OPENPROCESS { 16;
        0 ProcessId: ULONG,
        4 DesiredAccess: DWORD,
        8 hProcess: HANDLE,
    }

    structure OPENWDDM_CREATESECTION { 32;
        0 hAdapter: D3DKMT_HANDLE,
        8 Size: UINT64,
        16 hSection: HANDLE,
        24 pData: *mut VOID,
    }
}
