//! Structures that the functions take from the operating system's own declarations, and their replacements for C programs where it is not
//! Windows.

use crate::layout::layout;
use crate::number::*;

layout! {
    structure UNICODE_STRING { 16;
        0 Length: WORD = "in: bytes of the text, without a 0 at its end",
        2 MaximumLength: WORD = "unread: the library reads Length bytes",
        8 Buffer: *mut WCHAR = "in: the text",
    }

    structure OBJECT_ATTRIBUTES { 48;
        0 Length: ULONG = "unread: the size of the structure, as InitializeObjectAttributes sets it",
        8 RootDirectory: HANDLE = "in: NULL: names stand in no directories",
        16 ObjectName: *const UNICODE_STRING = "in, optional: the name; NULL: the object has none",
        24 Attributes: ULONG = "unread: names are compared as they are",
        32 SecurityDescriptor: *const VOID = "unread: the kernel knows processes and no users",
        40 SecurityQualityOfService: *const VOID = "unread: the kernel knows processes and no users",
    }

    structure D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME { 24;
        0 dwDesiredAccess: DWORD = "in: bits of D3DDDI_SYNC_OBJECT_..., of those that the name gives",
        8 pObjAttrib: *mut OBJECT_ATTRIBUTES = "in: the name",
        16 hNtHandle: HANDLE = "out: an NT handle of the object",
    }

    structure D3DKMT_OPENNTHANDLEFROMNAME { 24;
        0 dwDesiredAccess: DWORD = "in: bits of access, of those that the name gives",
        8 pObjAttrib: *mut OBJECT_ATTRIBUTES = "in: the name",
        16 hNtHandle: HANDLE = "out: an NT handle of the resource",
    }

    structure OPENWDDM_CREATEEVENT { 16;
        0 bManualReset: BOOL = "in: TRUE: the event stays set until OpenWddmResetEvent; FALSE: the first thread that it wakes resets it",
        8 hEvent: HANDLE = "out: the event, not set",
    }

    structure OPENWDDM_WAITEVENT { 16;
        0 hEvent: HANDLE = "in: the event",
        8 bBlock: BOOL = "in: TRUE: the calling thread waits without a limit; FALSE: STATUS_TIMEOUT if the event is not set",
    }

    structure OPENWDDM_SETEVENT { 8;
        0 hEvent: HANDLE = "in: the event",
    }

    structure OPENWDDM_RESETEVENT { 8;
        0 hEvent: HANDLE = "in: the event",
    }

    structure OPENWDDM_CLOSEHANDLE { 8;
        0 hObject: HANDLE = "in: an event, a section or an NT handle",
    }

    structure OPENWDDM_EXPORTHANDLE { 16;
        0 hObject: HANDLE = "in: an NT handle",
        8 Token: UINT64 = "out: the number by which another process imports the object",
    }

    structure OPENWDDM_IMPORTHANDLE { 16;
        0 Token: UINT64 = "in: the number that OpenWddmExportHandle gave",
        8 hObject: HANDLE = "out: an NT handle of this process",
    }

    structure OPENWDDM_OPENPROCESS { 16;
        0 ProcessId: ULONG = "in: the number of a process, as D3DKMTEnumProcesses tells",
        4 DesiredAccess: DWORD = "in: PROCESS_QUERY_INFORMATION to query figures, PROCESS_SET_INFORMATION to set those of the calling process",
        8 hProcess: HANDLE = "out: the process, for the calls that have hProcess",
    }

    structure OPENWDDM_QUERYPROCESS { 80;
        0 hProcess: HANDLE = "in: a process of OpenWddmOpenProcess; NULL or -1: the calling one",
        8 SystemProcessId: ULONG = "out: its number in the operating system; 0: not known",
        12 Name: [BYTE; 64] = "out: the name of its program as UTF-8, up to a zero; empty: not known",
    }

    structure OPENWDDM_CREATESECTION { 32;
        0 hAdapter: D3DKMT_HANDLE = "in: the adapter",
        8 Size: UINT64 = "in: bytes",
        16 hSection: HANDLE = "out: the section, for hSection of an allocation",
        24 pData: *mut VOID = "out: the section's memory",
    }
}
