/* The flavour of the Linux subsystem: events are eventfd descriptors of the program, NT handles are descriptors that it closes, inherits and
 * passes on. Where OPENWDDM_SOCKET names a kernel, they go from process to process. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "steps.h"

#define GENERIC_ALL 0x10000000

static HANDLE in_handle(int descriptor) {
    return (HANDLE)(uintptr_t)descriptor;
}

static int is_set(int event, int milliseconds) {
    struct pollfd polled = {.fd = event, .events = POLLIN};
    return poll(&polled, 1, milliseconds) == 1;
}

static uint64_t taken(int event) {
    uint64_t count = 0;
    CHECK(read(event, &count, sizeof count) == sizeof count);
    return count;
}

static D3DKMT_HANDLE create_fence(D3DKMT_HANDLE device) {
    D3DKMT_CREATENATIVEFENCE create = {
        .hDevice = device,
        .Info = {.InitialFenceValue = 3, .Flags = {.Shared = 1, .NtSecuritySharing = 1}},
    };
    OK(D3DKMTCreateNativeFence(&create));
    return create.hSyncObject;
}

static void signal_to(D3DKMT_HANDLE device, D3DKMT_HANDLE fence, uint64_t value) {
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &fence,
        .FenceValueArray = &value,
    };
    OK(D3DKMTSignalSynchronizationObjectFromCpu(&signal));
}

static NTSTATUS wait_with(D3DKMT_HANDLE device, D3DKMT_HANDLE fence, uint64_t value, int event) {
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &fence,
        .FenceValueArray = &value,
        .hAsyncEvent = in_handle(event),
    };
    return D3DKMTWaitForSynchronizationObjectFromCpu(&wait);
}

static void events(D3DKMT_HANDLE device) {
    int event = eventfd(0, EFD_CLOEXEC), other = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(event > 0 && other > 0);
    D3DKMT_HANDLE fence = create_fence(device);
    OK(wait_with(device, fence, 3, event));
    CHECK(is_set(event, 120000) && taken(event) == 1);
    /* Several waits may have one event; each is heard. */
    OK(wait_with(device, fence, 5, event));
    OK(wait_with(device, fence, 6, event));
    OK(wait_with(device, fence, 9, other));
    CHECK(!is_set(event, 30));
    signal_to(device, fence, 5);
    CHECK(is_set(event, 120000) && taken(event) == 1);
    signal_to(device, fence, 7);
    CHECK(is_set(event, 120000) && taken(event) == 1);
    CHECK(!is_set(other, 30));
    /* The program may close its copy before: the wait keeps one of its own. */
    int copy = fcntl(other, F_DUPFD_CLOEXEC, 0);
    close(other);
    signal_to(device, fence, 9);
    CHECK(is_set(copy, 120000) && taken(copy) == 1);
    /* A descriptor that is no event of the operating system is refused, and nothing waits. */
    EXPECT(STATUS_INVALID_HANDLE, wait_with(device, fence, 10, other));
    int ends[2];
    CHECK(pipe(ends) == 0);
    EXPECT(STATUS_INVALID_HANDLE, wait_with(device, fence, 10, ends[0]));
    EXPECT(STATUS_INVALID_PARAMETER, wait_with(device, 0x1234, 10, event));
    CHECK(!is_set(event, 30));
    close(ends[0]);
    close(ends[1]);

    /* A CPU notification sets its event as often as it is signalled. */
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 notification = {
        .hDevice = device,
        .Info = {.Type = D3DDDI_CPU_NOTIFICATION, .CPUNotification = {.Event = in_handle(event)}},
    };
    OK(D3DKMTCreateSynchronizationObject2(&notification));
    D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = device, .EngineAffinity = 1};
    OK(D3DKMTCreateContextVirtual(&context));
    for (int round = 0; round < 3; round++) {
        D3DKMT_SIGNALSYNCHRONIZATIONOBJECT signal = {.hContext = context.hContext, .ObjectCount = 1};
        signal.ObjectHandleArray[0] = notification.hSyncObject;
        OK(D3DKMTSignalSynchronizationObject(&signal));
        CHECK(is_set(event, 120000) && taken(event) == 1);
    }
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy = {.hSyncObject = notification.hSyncObject};
    OK(D3DKMTDestroySynchronizationObject(&destroy));
    /* The device goes: its waits end. */
    D3DKMT_HANDLE short_lived = create_device(first_adapter());
    D3DKMT_HANDLE lost = create_fence(short_lived);
    OK(wait_with(short_lived, lost, 100, event));
    D3DKMT_DESTROYDEVICE gone = {.hDevice = short_lived};
    OK(D3DKMTDestroyDevice(&gone));
    CHECK(is_set(event, 120000));
    close(event);
    close(copy);
}

static void send_descriptor(int socket, int descriptor) {
    char byte = 0, space[CMSG_SPACE(sizeof descriptor)] = {0};
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    CHECK(sendmsg(socket, &message, 0) == 1);
}

static int receive_descriptor(int socket) {
    char byte = 0, space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    CHECK(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1);
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    CHECK(header != NULL && header->cmsg_type == SCM_RIGHTS);
    int descriptor = -1;
    memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    return descriptor;
}

/* A name, as the functions take it. */
static OBJECT_ATTRIBUTES* named(void) {
    static WCHAR text[] = {'f', 'e', 'n', 'c', 'e'};
    static UNICODE_STRING name = {.Length = sizeof text, .MaximumLength = sizeof text, .Buffer = text};
    static OBJECT_ATTRIBUTES attributes = {.Length = sizeof attributes, .ObjectName = &name};
    return &attributes;
}

static int share(D3DKMT_HANDLE fence) {
    HANDLE shared = NULL;
    OK(D3DKMTShareObjects(1, &fence, named(), D3DDDI_SYNC_OBJECT_ALL_ACCESS, &shared));
    int descriptor = (int)(uintptr_t)shared;
    CHECK(fcntl(descriptor, F_GETFD) == FD_CLOEXEC);
    return descriptor;
}

static NTSTATUS open_by(D3DKMT_HANDLE device, int descriptor, D3DKMT_HANDLE* fence) {
    D3DKMT_OPENNATIVEFENCEFROMNTHANDLE open = {.hNtHandle = in_handle(descriptor), .hDevice = device};
    NTSTATUS status = D3DKMTOpenNativeFenceFromNtHandle(&open);
    *fence = open.hSyncObject;
    return status;
}

/* The other process has a fence, and goes when its descriptor has been sent. */
static int makes(int socket) {
    D3DKMT_HANDLE device = create_device(first_adapter());
    send_descriptor(socket, share(create_fence(device)));
    char byte;
    CHECK(read(socket, &byte, 1) == 1);
    return 0;
}

/* The kernel hears a moment later that a descriptor was closed. */
static void until_the_name_is_free(void) {
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME by_name = {.dwDesiredAccess = GENERIC_ALL, .pObjAttrib = named()};
    NTSTATUS found = STATUS_SUCCESS;
    for (int tries = 0; tries < 12000 && found != STATUS_OBJECT_NAME_NOT_FOUND; tries++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        found = D3DKMTOpenSyncObjectNtHandleFromName(&by_name);
        if (found == STATUS_SUCCESS) {
            close((int)(uintptr_t)by_name.hNtHandle);
        }
    }
    CHECK(found == STATUS_OBJECT_NAME_NOT_FOUND);
}

static void nt_handles(D3DKMT_HANDLE device) {
    D3DKMT_HANDLE fence = create_fence(device), opened;
    int shared = share(fence), sockets[2];
    OK(open_by(device, shared, &opened));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    EXPECT(STATUS_INVALID_HANDLE, open_by(device, sockets[0], &opened));
    send_descriptor(sockets[0], shared);
    close(shared);
    EXPECT(STATUS_INVALID_HANDLE, open_by(device, shared, &opened));
    int arrived = receive_descriptor(sockets[1]);
    OK(open_by(device, arrived, &opened));
    /* By its name there are more descriptors of it; the name goes with the last. */
    D3DKMT_OPENSYNCOBJECTNTHANDLEFROMNAME by_name = {.dwDesiredAccess = GENERIC_ALL, .pObjAttrib = named()};
    OK(D3DKMTOpenSyncObjectNtHandleFromName(&by_name));
    close(arrived);
    OK(open_by(device, (int)(uintptr_t)by_name.hNtHandle, &opened));
    OPENWDDM_CLOSEHANDLE close_it = {.hObject = by_name.hNtHandle};
    OK(OpenWddmCloseHandle(&close_it));
    EXPECT(STATUS_INVALID_HANDLE, OpenWddmCloseHandle(&close_it));
    until_the_name_is_free();
    close(sockets[0]);
    close(sockets[1]);
}

static void two_processes(D3DKMT_HANDLE device, pid_t child, int socket) {
    int sent = receive_descriptor(socket);
    D3DKMT_HANDLE theirs, again;
    OK(open_by(device, sent, &theirs));
    CHECK(write(socket, "", 1) == 1);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    /* The descriptor is as good without the process that made it. */
    OK(open_by(device, sent, &again));
    signal_to(device, again, 8);
    EXPECT(STATUS_INVALID_PARAMETER, D3DKMTDestroySynchronizationObject(&(D3DKMT_DESTROYSYNCHRONIZATIONOBJECT){.hSyncObject = 0}));
    close(sent);
    until_the_name_is_free();
}

int main(void) {
    int served = getenv("OPENWDDM_SOCKET") != NULL, sockets[2] = {-1, -1};
    pid_t child = 0;
    if (served) {
        /* Before this process has a link of its own. */
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            return makes(sockets[1]);
        }
        close(sockets[1]);
    }
    D3DKMT_HANDLE device = create_device(first_adapter());
    if (served) {
        two_processes(device, child, sockets[0]);
    }
    events(device);
    nt_handles(device);
    puts(served ? "descriptors between processes" : "descriptors");
    return 0;
}
