/* Calls every function of the list with memory that is not there, too short, or for reading only (the test writes `rows.h` from the list).
 * A fault in the caller's memory comes back here as an answer: the handler jumps out of the call, which must not have changed anything or hold
 * a lock. The program prints each pointer within a structure that a call followed, and ends with 1 if an answer was not the documented one. */
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <openwddm/d3dkmt.h>

#define PAGE 4096
#define ROOM (16 * PAGE)

struct row {
    const char* name;
    NTSTATUS (*call)(void*);
    size_t size, align;
    int writes;
};
struct pointer {
    int row;
    const char* member;
    size_t offset;
    int is_result;
};
struct count {
    int row;
    size_t offset, size;
};

#include "rows.h"

static sigjmp_buf back;
static char* volatile fault_at;
static int failures;

/* Readable and writable; the page behind it is neither. */
static char* room;
static char* wall;
/* As large, for reading only where `protect` says so. */
static char* fixed;
/* Zeros for the pointers that are not on trial. */
static char* spare;

static void faulted(int signal, siginfo_t* information, void* context) {
    (void)signal, (void)context;
    fault_at = information->si_addr;
    siglongjmp(back, 1);
}

static void failed(const char* function, const char* what, NTSTATUS status) {
    printf("! %s with %s: status %#010x, fault at %p\n", function, what, (unsigned)status, (void*)fault_at);
    failures++;
}

/* The status of a call; `fault_at` is NULL unless it faulted. */
static NTSTATUS try(const struct row* row, void* arguments) {
    fault_at = NULL;
    return sigsetjmp(back, 1) ? 0 : row->call(arguments);
}

static void expect_fault(const struct row* row, const char* what, char* arguments, const char* first, const char* end) {
    NTSTATUS status = try(row, arguments);
    if (fault_at < first || fault_at >= end) failed(row->name, what, status);
}

static void expect_none(const struct row* row, const char* what, void* arguments, NTSTATUS wanted) {
    NTSTATUS status = try(row, arguments);
    if (fault_at || status != wanted) failed(row->name, what, status);
}

static void protect(int protection) {
    if (mprotect(fixed, ROOM, protection)) abort();
}

static void structure(const struct row* row) {
    int finds = strcmp(row->name, "D3DKMTOpenAdapterFromGdiDisplayName") == 0;
    expect_none(row, "NULL", NULL, finds ? STATUS_UNSUCCESSFUL : STATUS_INVALID_PARAMETER);
    memset(room, 0, ROOM);
    for (size_t off = 1; off < row->align; off *= 2) expect_none(row, "a misaligned structure", room + off, STATUS_INVALID_PARAMETER);
    memset(room, 0, ROOM);
    expect_fault(row, "memory that is not there", wall, wall, wall + 1);
    expect_fault(row, "a structure that is too short", wall - row->size + row->align, wall, wall + row->align);
    /* None of its bytes changes in a call that faults. */
    for (char* at = room; at < wall; at++)
        if (*at) {
            failed(row->name, "a short structure that was written", 0);
            break;
        }
    protect(PROT_READ | PROT_WRITE);
    memset(fixed, 0, ROOM);
    protect(PROT_READ);
    if (row->writes) {
        expect_fault(row, "a structure for reading only", fixed, fixed, fixed + 1);
    } else {
        NTSTATUS status = try(row, fixed);
        if (fault_at) failed(row->name, "a structure that it only reads", status);
    }
    /* A structure that ends where the memory ends is whole. */
    NTSTATUS status = try(row, wall - row->size);
    if (fault_at) failed(row->name, "a structure at the end of the memory", status);
}

/* A structure whose counts are 1 and whose pointers lead to zeros, but for one. */
static char* arguments_with(const struct pointer* on_trial, char* value) {
    memset(room, 0, ROOM);
    memset(spare, 0, ROOM);
    for (size_t at = 0; at < sizeof counts / sizeof *counts; at++)
        if (counts[at].row == on_trial->row) room[counts[at].offset] = 1;
    for (size_t at = 0; at < sizeof pointers / sizeof *pointers; at++)
        if (pointers[at].row == on_trial->row && pointers[at].offset != on_trial->offset) memcpy(room + pointers[at].offset, &spare, sizeof spare);
    memcpy(room + on_trial->offset, &value, sizeof value);
    return room;
}

static void member(const struct pointer* pointer) {
    const struct row* row = &rows[pointer->row];
    NTSTATUS status = try(row, arguments_with(pointer, wall));
    if (fault_at == NULL) return;
    printf("%s.%s\n", row->name, pointer->member);
    if (fault_at != wall) failed(row->name, pointer->member, status);
    char given[ROOM];
    memcpy(given, room, row->size);
    expect_fault(row, pointer->member, arguments_with(pointer, wall), wall, wall + 1);
    if (memcmp(given, room, row->size)) failed(row->name, "a structure that was written before a fault", 0);
    status = try(row, arguments_with(pointer, NULL));
    if (fault_at) failed(row->name, "NULL in a member", status);
    status = try(row, arguments_with(pointer, spare + 1));
    if (fault_at) failed(row->name, "a misaligned member", status);
    if (pointer->is_result) {
        status = try(row, arguments_with(pointer, fixed));
        if (fault_at != fixed) failed(row->name, "a result in memory for reading only", status);
    }
}

/* Functions whose parameters are no one structure, each with one pointer on trial. */
static D3DKMT_HANDLE no_object;
static HANDLE taken;
static NTSTATUS share_list(void* at) { return D3DKMTShareObjects(1, at, NULL, 0, &taken); }
static NTSTATUS share_attributes(void* at) { return D3DKMTShareObjects(1, &no_object, at, 0, &taken); }
static NTSTATUS share_room(void* at) { return D3DKMTShareObjects(1, &no_object, NULL, 0, at); }
static NTSTATUS class_room(void* at) { return D3DKMTGetProcessSchedulingPriorityClass(NULL, at); }

static const struct row parameters[] = {
    {"D3DKMTShareObjects, hObjects", share_list, sizeof(D3DKMT_HANDLE), sizeof(D3DKMT_HANDLE), 0},
    {"D3DKMTShareObjects, pObjectAttributes", share_attributes, sizeof(OBJECT_ATTRIBUTES), sizeof(void*), 0},
    {"D3DKMTShareObjects, phSharedNtHandle", share_room, sizeof(HANDLE), sizeof(HANDLE), 1},
    {"D3DKMTGetProcessSchedulingPriorityClass", class_room, sizeof(int), sizeof(int), 1},
};

static void parameter(const struct row* row) {
    expect_fault(row, "memory that is not there", wall, wall, wall + 1);
    expect_none(row, "a misaligned pointer", room + 1, STATUS_INVALID_PARAMETER);
    if (row->writes) expect_fault(row, "memory for reading only", fixed, fixed, fixed + 1);
    try(row, wall - row->size);
    if (fault_at) failed(row->name, "a place at the end of the memory", 0);
}

static const struct row* named(const char* name) {
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++)
        if (strcmp(rows[at].name, name) == 0) return &rows[at];
    abort();
}

/* The handles of objects that a call makes rise by the same steps, whatever calls faulted between them. */
static void nothing_is_made(const char* name, size_t handle) {
    const struct row* row = named(name);
    unsigned seen[4];
    protect(PROT_READ | PROT_WRITE);
    memset(fixed, 0, ROOM);
    protect(PROT_READ);
    for (int at = 0; at < 4; at++) {
        if (at >= 2) expect_fault(row, "memory for reading only", fixed, fixed, fixed + 1);
        memset(room, 0, ROOM);
        expect_none(row, "good memory", room, STATUS_SUCCESS);
        memcpy(&seen[at], room + handle, sizeof seen[at]);
    }
    unsigned step = seen[1] - seen[0];
    if (step == 0 || seen[2] - seen[1] != step || seen[3] - seen[2] != step) {
        printf("! %s made %#x %#x %#x %#x\n", name, seen[0], seen[1], seen[2], seen[3]);
        failures++;
    }
}

static char* mapped(size_t bytes) {
    char* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) abort();
    return at;
}

int main(void) {
    room = mapped(ROOM + PAGE), fixed = mapped(ROOM), spare = mapped(ROOM);
    wall = room + ROOM;
    if (mprotect(wall, PAGE, PROT_NONE)) abort();
    struct sigaction action = {.sa_sigaction = faulted, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSEGV, &action, NULL)) abort();
    for (size_t at = 0; at < sizeof rows / sizeof *rows; at++) structure(&rows[at]);
    for (size_t at = 0; at < sizeof pointers / sizeof *pointers; at++) member(&pointers[at]);
    for (size_t at = 0; at < sizeof parameters / sizeof *parameters; at++) parameter(&parameters[at]);
#ifndef OPENWDDM_WSL
    /* There an event is a descriptor: the lowest free number, not the next one. */
    nothing_is_made("OpenWddmCreateEvent", offsetof(OPENWDDM_CREATEEVENT, hEvent));
#endif
    nothing_is_made("D3DKMTCreateKeyedMutex", offsetof(D3DKMT_CREATEKEYEDMUTEX, hKeyedMutex));
    nothing_is_made("D3DKMTEnumAdapters", offsetof(D3DKMT_ENUMADAPTERS, Adapters) + offsetof(D3DKMT_ADAPTERINFO, hAdapter));
    return failures != 0;
}
