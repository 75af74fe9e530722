/* The examples' checks: a call that fails ends the program and says where. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include <openwddm/d3dkmt.h>

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);        \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

/* The call's status is exactly this one. */
#define EXPECT(wanted, call)                                                               \
    do {                                                                                   \
        NTSTATUS status_ = (call);                                                         \
        if (status_ != (wanted)) {                                                         \
            fprintf(stderr, "%s:%d: %s: %#010x, not %#010x\n", __FILE__, __LINE__, #call,  \
                    (unsigned)status_, (unsigned)(wanted));                                \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

#define OK(call) EXPECT(STATUS_SUCCESS, call)

#endif
