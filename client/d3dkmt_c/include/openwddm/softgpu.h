/* The software GPU of openwddm for user-mode drivers: the private data of its allocations, contexts, hardware queues and private calls, and
 * its commands as 64-bit words. Written from the device's data sheet (contract/softgpu_spec); do not edit. C11 or C++17, little-endian.
 *
 * A command's first word has the opcode in bits 0-7, the number of the command's words in bits 8-31, and an operand in bits 32-63. An
 * encoder writes a command at `at` and returns the place behind it. Operands named `va` are GPU virtual addresses, those named `bus`
 * are bus addresses and make a command privileged: D3DKMTRender takes copy_physical, copy_tiled and fill_physical, whose addresses the kernel
 * writes, and refuses the other privileged commands; they are the kernel-mode driver's.
 */
#ifndef OPENWDDM_SOFTGPU_H
#define OPENWDDM_SOFTGPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOFTGPU_ID UINT64_C(0x534f465447505531) /* the name of this kind of device */
#define SOFTGPU_NODE_COMPUTE 0 /* NodeOrdinal of the compute engine */
#define SOFTGPU_NODE_COPY 1 /* NodeOrdinal of the copy engine */
#define SOFTGPU_NODES 2 /* engines of the device */
#define SOFTGPU_QUEUES 256 /* hardware queues of the device */
#define SOFTGPU_LOCAL 1 /* kind: video memory and nothing else */
#define SOFTGPU_SYSTEM 2 /* kind: system memory */
#define SOFTGPU_LOCAL_THEN_SYSTEM 3 /* kind: video memory, else system memory */
#define SOFTGPU_CPU_VISIBLE 1 /* flag: the CPU may lock the allocation */
#define SOFTGPU_CACHED 2 /* flag: the CPU's caches hold its system pages */
#define SOFTGPU_ACCESSED_PHYSICALLY 4 /* flag: commands name it by bus address */
#define SOFTGPU_ALLOCATION_MAGIC 1279346515 /* "SGAL" */
#define SOFTGPU_ALLOCATION_VERSION 1 /* an allocation without details */
#define SOFTGPU_ALLOCATION_VERSION_DETAILED 2 /* an allocation with details */
#define SOFTGPU_ALLOCATION_SIZE_MAX UINT64_C(0x800000000000) /* most bytes of an allocation */
#define SOFTGPU_DMA_CONTIGUOUS 0 /* DMA buffers in contiguous system memory */
#define SOFTGPU_DMA_APERTURE 1 /* DMA buffers behind the aperture */
#define SOFTGPU_DMA_LOCAL 2 /* DMA buffers in video memory; the kernel refuses them */
#define SOFTGPU_CONTEXT_MAGIC 1480804179 /* "SGCX" */
#define SOFTGPU_CONTEXT_VERSION 1 /* the version of SOFTGPU_CONTEXT */
#define SOFTGPU_QUEUE_MAGIC 1431390035 /* "SGQU" */
#define SOFTGPU_QUEUE_VERSION 1 /* the version of SOFTGPU_QUEUE */
#define SOFTGPU_QUESTION_MAGIC 1397049171 /* "SGES" */
#define SOFTGPU_QUESTION_VERSION 1 /* the version of SOFTGPU_QUESTION */
#define SOFTGPU_ASK_HARDWARE 1 /* question: SOFTGPU_HARDWARE; needs Flags.HardwareAccess */
#define SOFTGPU_ASK_USAGE 2 /* question: SOFTGPU_USAGE */
#define SOFTGPU_SUBMISSION_DATA_MAX 16384 /* most bytes of private data with a command buffer at a GPU address; the driver takes them and they mean nothing */
#define SOFTGPU_PATCHED_DATA_MAX 1024 /* most bytes of private data with a command buffer of D3DKMTRender */
#define SOFTGPU_DOORBELL_BYTES 128 /* bytes at DoorbellCPUVirtualAddress: first the write pointer in bytes */
#define SOFTGPU_DOORBELL_ASLEEP 64 /* byte offset in the doorbell of the word that is not 0 while the engine sleeps */
#define SOFTGPU_COMMAND_WORDS_MAX 515 /* most words of a command */
#define SOFTGPU_ENTRIES_GIVEN_MAX 512 /* most entries of write_entries */
#define SOFTGPU_TABLE_ENTRIES_MAX 1048576 /* most entries of a page table, and most words of a run */
#define SOFTGPU_TOUCH_WRITE 1 /* flag: the touch writes back changed what it read */
#define SOFTGPU_TOUCH_WITHIN 2 /* flag: the touch is part of a work command, and takes no time */
#define SOFTGPU_TILE_ROW_BYTES 512 /* bytes of a tile's row; a tiled surface's pitch is a multiple */
#define SOFTGPU_TILE_ROWS 8 /* rows of a tile; a tiled surface has a multiple of them */
#define SOFTGPU_TILE_PITCH_MAX 1048576 /* most bytes of a tiled surface's row */
#define SOFTGPU_DISPLAY_PITCH_ALIGNMENT 64 /* a primary's rows begin at multiples of so many bytes */
#define SOFTGPU_DISPLAY_TEXEL_BYTES 4 /* bytes of a texel: blue, green, red, and one that is not shown */

#define SOFTGPU_OP_NOP 0x00
#define SOFTGPU_NOP_WORDS 1
#define SOFTGPU_OP_WAIT 0x01
#define SOFTGPU_WAIT_WORDS 3
#define SOFTGPU_WAIT_LOGGED_WORDS 6
#define SOFTGPU_OP_SIGNAL 0x02
#define SOFTGPU_SIGNAL_WORDS 4
#define SOFTGPU_SIGNAL_LOGGED_WORDS 7
#define SOFTGPU_OP_BRANCH 0x03
#define SOFTGPU_BRANCH_WORDS 2
#define SOFTGPU_OP_TIMESTAMP 0x04
#define SOFTGPU_TIMESTAMP_WORDS 2
#define SOFTGPU_OP_SIGNAL_ALWAYS 0x05
#define SOFTGPU_SIGNAL_ALWAYS_WORDS 3
#define SOFTGPU_OP_LOG 0x06
#define SOFTGPU_LOG_WORDS 5
#define SOFTGPU_OP_COPY 0x10
#define SOFTGPU_COPY_WORDS 4
#define SOFTGPU_OP_FILL 0x11
#define SOFTGPU_FILL_WORDS 3
#define SOFTGPU_OP_STORE 0x12
#define SOFTGPU_STORE_WORDS 2 /* and the words given */
#define SOFTGPU_OP_STORE_RUN 0x13
#define SOFTGPU_STORE_RUN_WORDS 4
#define SOFTGPU_OP_COPY_RUN 0x14
#define SOFTGPU_COPY_RUN_WORDS 3
#define SOFTGPU_OP_TOUCH 0x20
#define SOFTGPU_TOUCH_WORDS 3
#define SOFTGPU_OP_PATTERN 0x21
#define SOFTGPU_PATTERN_WORDS 4
#define SOFTGPU_OP_CHECK 0x22
#define SOFTGPU_CHECK_WORDS 6
#define SOFTGPU_OP_CHECKSUM 0x23
#define SOFTGPU_CHECKSUM_WORDS 4
#define SOFTGPU_OP_SAXPY 0x24
#define SOFTGPU_SAXPY_WORDS 4
#define SOFTGPU_OP_WORK 0x25
#define SOFTGPU_WORK_WORDS 2
#define SOFTGPU_OP_COPY_PHYSICAL 0x80
#define SOFTGPU_COPY_PHYSICAL_WORDS 4
#define SOFTGPU_OP_FILL_PHYSICAL 0x81
#define SOFTGPU_FILL_PHYSICAL_WORDS 3
#define SOFTGPU_OP_WRITE_ENTRIES 0x82
#define SOFTGPU_WRITE_ENTRIES_WORDS 3 /* and the words given */
#define SOFTGPU_OP_WRITE_ENTRY_RUN 0x83
#define SOFTGPU_WRITE_ENTRY_RUN_WORDS 5
#define SOFTGPU_OP_MAP_APERTURE 0x84
#define SOFTGPU_MAP_APERTURE_WORDS 5
#define SOFTGPU_OP_FLUSH_TLB 0x85
#define SOFTGPU_FLUSH_TLB_WORDS 4
#define SOFTGPU_OP_TOUCH_PHYSICAL 0x86
#define SOFTGPU_TOUCH_PHYSICAL_WORDS 2
#define SOFTGPU_OP_COPY_TILED 0x87
#define SOFTGPU_COPY_TILED_WORDS 6
#define SOFTGPU_OP_BRANCH_PHYSICAL 0x90
#define SOFTGPU_BRANCH_PHYSICAL_WORDS 2
#define SOFTGPU_OP_COMPLETE 0x91
#define SOFTGPU_COMPLETE_WORDS 2

/* pPrivateDriverData of an allocation (D3DDDI_ALLOCATIONINFO, D3DDDI_ALLOCATIONINFO2): softgpu_allocation fills it
 * in. */
typedef struct {
    uint32_t magic; /* in: SOFTGPU_ALLOCATION_MAGIC */
    uint16_t version; /* in: SOFTGPU_ALLOCATION_VERSION; SOFTGPU_ALLOCATION_VERSION_DETAILED in a SOFTGPU_DETAILED_ALLOCATION */
    uint8_t kind; /* in: SOFTGPU_LOCAL, SOFTGPU_SYSTEM or SOFTGPU_LOCAL_THEN_SYSTEM */
    uint8_t reserved; /* in: 0 */
    uint32_t flags; /* in: bits of SOFTGPU_CPU_VISIBLE, SOFTGPU_CACHED (with the first), SOFTGPU_ACCESSED_PHYSICALLY */
    uint32_t alignment; /* in: 0; out: bytes of alignment in video memory */
    uint64_t size; /* in: bytes, 1 to SOFTGPU_ALLOCATION_SIZE_MAX */
} SOFTGPU_ALLOCATION;

/* More of an allocation's description; a member that is 0 is left to the driver, and the kernel refuses what breaks
 * its rules. */
typedef struct {
    uint32_t flags; /* in: bits of the kernel's allocation flags (DXGK_ALLOCATIONINFOFLAGS), beside those of the allocation */
    uint32_t flags2; /* in: bits of the kernel's second allocation flags */
    uint32_t preferred_segment; /* in: segments in the order of preference (DXGK_SEGMENTPREFERENCE) */
    uint32_t hinted_bank; /* in: banks of memory in the order of preference (DXGK_SEGMENTBANKPREFERENCE) */
    uint32_t supported_segments; /* in: one bit a segment that may hold it, bit 0 for segment 1 */
    uint32_t eviction_segments; /* in: one bit an aperture segment through which it may be evicted */
    uint32_t priority; /* in: starting priority */
    uint32_t tile_pitch; /* in: bytes of a row of a tiled surface; 0: the content is linear */
    uint64_t pitch_aligned_size; /* in: bytes in a segment that aligns pitches */
    uint64_t alignment; /* in: bytes, if more than the driver's own alignment */
    uint32_t row_bytes; /* in: bytes of a row of content where pitches are aligned */
    uint16_t display_width; /* in: texels of a row of a primary, 4 bytes each; 0: no display shows the surface */
    uint16_t display_height; /* in: rows of a primary */
} SOFTGPU_ALLOCATION_DETAILS;

/* pPrivateDriverData of a packet context (D3DKMT_CREATECONTEXT, D3DKMT_CREATECONTEXTVIRTUAL); without it the driver
 * chooses. */
typedef struct {
    uint32_t magic; /* in: SOFTGPU_CONTEXT_MAGIC */
    uint16_t version; /* in: SOFTGPU_CONTEXT_VERSION */
    uint8_t dma_buffers; /* in: SOFTGPU_DMA_CONTIGUOUS, SOFTGPU_DMA_APERTURE or SOFTGPU_DMA_LOCAL */
    uint8_t reserved; /* in: 0 */
} SOFTGPU_CONTEXT;

/* pPrivateDriverData of a hardware queue (D3DKMT_CREATEHWQUEUE): the answer is an operand of the signal command,
 * which D3DKMT_CREATEHWQUEUE has no member for. */
typedef struct {
    uint32_t magic; /* in: SOFTGPU_QUEUE_MAGIC */
    uint16_t version; /* in: SOFTGPU_QUEUE_VERSION */
    uint16_t reserved; /* in: 0 */
    uint64_t progress_monitored_va; /* in: 0; out: GPU address of the progress fence's MonitoredValue */
} SOFTGPU_QUEUE;

/* The answer to SOFTGPU_ASK_HARDWARE: what the device says of itself. The call needs Flags.HardwareAccess. */
typedef struct {
    uint64_t id; /* out: SOFTGPU_ID, the name of this kind of device */
    uint64_t timestamp; /* out: nanoseconds since the device was switched on */
    uint64_t local_bytes; /* out: bytes of local memory */
    uint64_t aperture_bytes; /* out: bytes of the aperture */
    uint32_t signal_bits; /* out: bits that an engine stores in one piece, 32 or 64 */
    uint32_t pasid_bits; /* out: bits of a process's number at the IOMMU; 0: the device has none */
    uint32_t doorbells; /* out: doorbells with a page of their own */
    uint32_t ranges; /* out: unswizzling ranges */
    uint64_t reserved; /* out: 0 */
} SOFTGPU_HARDWARE;

/* The answer to SOFTGPU_ASK_USAGE: what the drivers use of the device. */
typedef struct {
    uint32_t queues; /* out: hardware queues of the device */
    uint32_t queues_taken; /* out: of these, the ones in use by any process */
    uint32_t contexts; /* out: contexts of D3DKMT_ESCAPE's hDevice; 0 without hDevice */
    uint32_t reserved; /* out: 0 */
    uint64_t connections; /* out: doorbells connected so far, each again counted again */
    uint64_t reserved0; /* out: 0 */
    uint64_t reserved1; /* out: 0 */
    uint64_t reserved2; /* out: 0 */
    uint64_t reserved3; /* out: 0 */
} SOFTGPU_USAGE;

/* The report of the check command, in memory that the program has filled with 0. */
typedef struct {
    uint64_t tag; /* out: the tag of the check that failed, plus 1; 0: no check has failed */
    uint64_t offset; /* out: byte offset of the first word that differs */
    uint64_t found; /* out: the word that is there */
    uint64_t expected; /* out: the word that the seed's content has there */
} SOFTGPU_REPORT;

/* pPrivateDriverData of an allocation with details: softgpu_detailed_allocation fills it in. */
typedef struct {
    SOFTGPU_ALLOCATION allocation; /* in, out: version is SOFTGPU_ALLOCATION_VERSION_DETAILED */
    SOFTGPU_ALLOCATION_DETAILS details; /* in: what the description has beyond the usual */
} SOFTGPU_DETAILED_ALLOCATION;

/* pPrivateDriverData of D3DKMTEscape: softgpu_question fills it in. */
typedef struct {
    uint32_t magic; /* in: SOFTGPU_QUESTION_MAGIC */
    uint16_t version; /* in: SOFTGPU_QUESTION_VERSION */
    uint16_t question; /* in: SOFTGPU_ASK_HARDWARE or SOFTGPU_ASK_USAGE */
    union {
        SOFTGPU_HARDWARE hardware; /* in: 0; out: the answer to SOFTGPU_ASK_HARDWARE */
        SOFTGPU_USAGE usage; /* in: 0; out: the answer to SOFTGPU_ASK_USAGE */
    } answer;
} SOFTGPU_QUESTION;

/* The request for an allocation of `size` bytes. */
static inline SOFTGPU_ALLOCATION softgpu_allocation(uint8_t kind, uint32_t flags, uint64_t size) {
    SOFTGPU_ALLOCATION data = {SOFTGPU_ALLOCATION_MAGIC, SOFTGPU_ALLOCATION_VERSION, kind, 0, flags, 0, size};
    return data;
}

/* The same with the details of a description; their members are 0, for the program to fill in. */
static inline SOFTGPU_DETAILED_ALLOCATION softgpu_detailed_allocation(uint8_t kind, uint32_t flags, uint64_t size) {
    SOFTGPU_DETAILED_ALLOCATION data = {
        {SOFTGPU_ALLOCATION_MAGIC, SOFTGPU_ALLOCATION_VERSION_DETAILED, kind, 0, flags, 0, size},
        {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}};
    return data;
}

/* The wish of a packet context for its DMA buffers. */
static inline SOFTGPU_CONTEXT softgpu_context(uint8_t dma_buffers) {
    SOFTGPU_CONTEXT data = {SOFTGPU_CONTEXT_MAGIC, SOFTGPU_CONTEXT_VERSION, dma_buffers, 0};
    return data;
}

/* The question for a hardware queue's MonitoredValue. */
static inline SOFTGPU_QUEUE softgpu_queue(void) {
    SOFTGPU_QUEUE data = {SOFTGPU_QUEUE_MAGIC, SOFTGPU_QUEUE_VERSION, 0, 0};
    return data;
}

/* A question for D3DKMTEscape (Type D3DKMT_ESCAPE_DRIVERPRIVATE): SOFTGPU_ASK_HARDWARE or SOFTGPU_ASK_USAGE. */
static inline SOFTGPU_QUESTION softgpu_question(uint16_t question) {
    SOFTGPU_QUESTION data = {SOFTGPU_QUESTION_MAGIC, SOFTGPU_QUESTION_VERSION, question, {{0, 0, 0, 0, 0, 0, 0, 0, 0}}};
    return data;
}

/* The word that the pattern command writes at byte `offset`, a multiple of 8, of its range. */
static inline uint64_t softgpu_pattern_word(uint64_t seed, uint64_t offset) {
    return ((seed ^ offset) * UINT64_C(0x9e3779b97f4a7c15)) ^ (seed >> 32);
}

/* The first word of a command. */
static inline uint64_t softgpu_head(uint8_t opcode, uint64_t words, uint32_t operand) {
    return (uint64_t)opcode | words << 8 | (uint64_t)operand << 32;
}

/* Does nothing. */
static inline uint64_t* softgpu_nop(uint64_t* at) {
    at[0] = softgpu_head(0x00, 1, 0);
    return at + 1;
}

/* Holds the queue until the 64-bit word at va, a fence's CurrentValue, is value or greater. */
static inline uint64_t* softgpu_wait(uint64_t* at, uint64_t va, uint64_t value) {
    at[0] = softgpu_head(0x01, 3, 0);
    at[1] = va;
    at[2] = value;
    return at + 3;
}

/* As wait; the engine then writes the log entry at entry_va (48 bytes) and advances the log's header at header_va. */
static inline uint64_t* softgpu_wait_logged(uint64_t* at, uint64_t va, uint64_t value, uint64_t entry_va, uint64_t header_va, uint32_t handle) {
    at[0] = softgpu_head(0x01, 6, 0);
    at[1] = va;
    at[2] = value;
    at[3] = entry_va;
    at[4] = header_va;
    at[5] = handle;
    return at + 6;
}

/* Stores value at current_va and interrupts if it is greater than the word at monitored_va. A value never exceeds
 * itself: with current_va for monitored_va no interrupt comes, and a waiter on the CPU sleeps for ever. */
static inline uint64_t* softgpu_signal(uint64_t* at, uint64_t current_va, uint64_t monitored_va, uint64_t value) {
    at[0] = softgpu_head(0x02, 4, 0);
    at[1] = current_va;
    at[2] = monitored_va;
    at[3] = value;
    return at + 4;
}

/* As signal; the engine also writes the log entry at entry_va (48 bytes) and advances the log's header at header_va. */
static inline uint64_t* softgpu_signal_logged(uint64_t* at, uint64_t current_va, uint64_t monitored_va, uint64_t value, uint64_t entry_va, uint64_t header_va, uint32_t handle) {
    at[0] = softgpu_head(0x02, 7, 0);
    at[1] = current_va;
    at[2] = monitored_va;
    at[3] = value;
    at[4] = entry_va;
    at[5] = header_va;
    at[6] = handle;
    return at + 7;
}

/* Executes so many 64-bit words at va, then goes on behind this command. A buffer that a branch executes has no
 * branch. */
static inline uint64_t* softgpu_branch(uint64_t* at, uint64_t va, uint32_t words) {
    at[0] = softgpu_head(0x03, 2, words);
    at[1] = va;
    return at + 2;
}

/* Stores the device's time in nanoseconds at va. */
static inline uint64_t* softgpu_timestamp(uint64_t* at, uint64_t va) {
    at[0] = softgpu_head(0x04, 2, 0);
    at[1] = va;
    return at + 2;
}

/* Stores value at va, a multiple of 8, and always interrupts. A device of 32-bit atomics stores the low half. */
static inline uint64_t* softgpu_signal_always(uint64_t* at, uint64_t va, uint64_t value) {
    at[0] = softgpu_head(0x05, 3, 0);
    at[1] = va;
    at[2] = value;
    return at + 3;
}

/* Writes an entry of a fence log for which there is no wait and no signal, with the device's time. */
static inline uint64_t* softgpu_log(uint64_t* at, uint64_t value, uint64_t entry_va, uint64_t header_va, uint32_t handle, uint32_t operation) {
    at[0] = softgpu_head(0x06, 5, operation);
    at[1] = value;
    at[2] = entry_va;
    at[3] = header_va;
    at[4] = handle;
    return at + 5;
}

/* Copies bytes, a multiple of 8. */
static inline uint64_t* softgpu_copy(uint64_t* at, uint64_t source_va, uint64_t target_va, uint64_t bytes) {
    at[0] = softgpu_head(0x10, 4, 0);
    at[1] = source_va;
    at[2] = target_va;
    at[3] = bytes;
    return at + 4;
}

/* Fills bytes, a multiple of 8, with a 32-bit pattern. */
static inline uint64_t* softgpu_fill(uint64_t* at, uint64_t va, uint64_t bytes, uint32_t pattern) {
    at[0] = softgpu_head(0x11, 3, pattern);
    at[1] = va;
    at[2] = bytes;
    return at + 3;
}

/* Stores the words, one at least, from va on. */
static inline uint64_t* softgpu_store(uint64_t* at, uint64_t va, const uint64_t* words, uint32_t words_count) {
    at[0] = softgpu_head(0x12, 2 + (uint64_t)words_count, 0);
    at[1] = va;
    for (uint32_t next = 0; next < words_count; next++) {
        at[2 + (uint64_t)next] = words[next];
    }
    return at + 2 + words_count;
}

/* Stores count words from va on: first, first + step, and so on. At most SOFTGPU_TABLE_ENTRIES_MAX. */
static inline uint64_t* softgpu_store_run(uint64_t* at, uint64_t va, uint32_t count, uint64_t first, uint64_t step) {
    at[0] = softgpu_head(0x13, 4, count);
    at[1] = va;
    at[2] = first;
    at[3] = step;
    return at + 4;
}

/* Copies count 64-bit words, at most SOFTGPU_TABLE_ENTRIES_MAX; the ranges must not overlap. */
static inline uint64_t* softgpu_copy_run(uint64_t* at, uint64_t source_va, uint64_t target_va, uint32_t count) {
    at[0] = softgpu_head(0x14, 3, count);
    at[1] = source_va;
    at[2] = target_va;
    return at + 3;
}

/* Reads bytes, a multiple of 8; flags are bits of SOFTGPU_TOUCH_WRITE and SOFTGPU_TOUCH_WITHIN. */
static inline uint64_t* softgpu_touch(uint64_t* at, uint64_t va, uint64_t bytes, uint32_t flags) {
    at[0] = softgpu_head(0x20, 3, flags);
    at[1] = va;
    at[2] = bytes;
    return at + 3;
}

/* Writes bytes, a multiple of 8, of the content of seed: softgpu_pattern_word says each word. */
static inline uint64_t* softgpu_pattern(uint64_t* at, uint64_t va, uint64_t bytes, uint64_t seed) {
    at[0] = softgpu_head(0x21, 4, 0);
    at[1] = va;
    at[2] = bytes;
    at[3] = seed;
    return at + 4;
}

/* Compares bytes, a multiple of 8, with the content of seed. The first difference is written as a SOFTGPU_REPORT at
 * report_va, unless one is there. */
static inline uint64_t* softgpu_check(uint64_t* at, uint64_t va, uint64_t bytes, uint64_t seed, uint64_t report_va, uint64_t tag) {
    at[0] = softgpu_head(0x22, 6, 0);
    at[1] = va;
    at[2] = bytes;
    at[3] = seed;
    at[4] = report_va;
    at[5] = tag;
    return at + 6;
}

/* Stores the sum of the 64-bit words of bytes, a multiple of 8, at result_va; the sum wraps. */
static inline uint64_t* softgpu_checksum(uint64_t* at, uint64_t va, uint64_t bytes, uint64_t result_va) {
    at[0] = softgpu_head(0x23, 4, 0);
    at[1] = va;
    at[2] = bytes;
    at[3] = result_va;
    return at + 4;
}

/* y = a * x + y over 32-bit floats; elements is even, a_bits are the bits of the float a. */
static inline uint64_t* softgpu_saxpy(uint64_t* at, uint64_t x_va, uint64_t y_va, uint64_t elements, uint32_t a_bits) {
    at[0] = softgpu_head(0x24, 4, a_bits);
    at[1] = x_va;
    at[2] = y_va;
    at[3] = elements;
    return at + 4;
}

/* Keeps the engine busy for so many nanoseconds of virtual time; in real time it does nothing. */
static inline uint64_t* softgpu_work(uint64_t* at, uint64_t ns) {
    at[0] = softgpu_head(0x25, 2, 0);
    at[1] = ns;
    return at + 2;
}

/* Copies bytes, a multiple of 8, by bus address. Privileged. */
static inline uint64_t* softgpu_copy_physical(uint64_t* at, uint64_t source_bus, uint64_t target_bus, uint64_t bytes) {
    at[0] = softgpu_head(0x80, 4, 0);
    at[1] = source_bus;
    at[2] = target_bus;
    at[3] = bytes;
    return at + 4;
}

/* Fills bytes, a multiple of 8, with a 32-bit pattern by bus address. Privileged. */
static inline uint64_t* softgpu_fill_physical(uint64_t* at, uint64_t target_bus, uint64_t bytes, uint32_t pattern) {
    at[0] = softgpu_head(0x81, 3, pattern);
    at[1] = target_bus;
    at[2] = bytes;
    return at + 3;
}

/* Writes page-table entries from the index first on. Privileged. */
static inline uint64_t* softgpu_write_entries(uint64_t* at, uint64_t table, uint32_t first, const uint64_t* entries, uint32_t entries_count) {
    at[0] = softgpu_head(0x82, 3 + (uint64_t)entries_count, first);
    at[1] = table;
    at[2] = entries_count;
    for (uint32_t next = 0; next < entries_count; next++) {
        at[3 + (uint64_t)next] = entries[next];
    }
    return at + 3 + entries_count;
}

/* Writes count page-table entries from the index first on: entry, entry + step, and so on. Privileged. */
static inline uint64_t* softgpu_write_entry_run(uint64_t* at, uint64_t table, uint32_t first, uint32_t count, uint64_t entry, uint64_t step) {
    at[0] = softgpu_head(0x83, 5, first);
    at[1] = table;
    at[2] = count;
    at[3] = entry;
    at[4] = step;
    return at + 5;
}

/* Redirects aperture pages to system pages; step is 4096, or 0 for one page behind all. Privileged. */
static inline uint64_t* softgpu_map_aperture(uint64_t* at, uint64_t first, uint64_t count, uint64_t system_address, uint64_t step) {
    at[0] = softgpu_head(0x84, 5, 0);
    at[1] = first;
    at[2] = count;
    at[3] = system_address;
    at[4] = step;
    return at + 5;
}

/* Forgets translations of a range; root is all ones for every address space, two zeros are the whole space.
 * Privileged. */
static inline uint64_t* softgpu_flush_tlb(uint64_t* at, uint64_t root, uint64_t first_va, uint64_t last_va) {
    at[0] = softgpu_head(0x85, 4, 0);
    at[1] = root;
    at[2] = first_va;
    at[3] = last_va;
    return at + 4;
}

/* Reads the 64-bit word at a bus address, and with write writes it back. Privileged. */
static inline uint64_t* softgpu_touch_physical(uint64_t* at, uint64_t bus, uint32_t write) {
    at[0] = softgpu_head(0x86, 2, write);
    at[1] = bus;
    return at + 2;
}

/* Copies part of a surface with rows of pitch bytes, with swizzle 1 from linear to tiled order, with 0 back.
 * Privileged. */
static inline uint64_t* softgpu_copy_tiled(uint64_t* at, uint64_t linear_bus, uint64_t surface_bus, uint64_t offset, uint64_t bytes, uint32_t pitch, uint32_t swizzle) {
    at[0] = softgpu_head(0x87, 6, 0);
    at[1] = linear_bus;
    at[2] = surface_bus;
    at[3] = offset;
    at[4] = bytes;
    at[5] = pitch | (uint64_t)swizzle << 32;
    return at + 6;
}

/* As branch, with a bus address. Privileged. */
static inline uint64_t* softgpu_branch_physical(uint64_t* at, uint64_t bus, uint32_t words) {
    at[0] = softgpu_head(0x90, 2, words);
    at[1] = bus;
    return at + 2;
}

/* Raises a completion record with value. Privileged. */
static inline uint64_t* softgpu_complete(uint64_t* at, uint64_t value) {
    at[0] = softgpu_head(0x91, 2, 0);
    at[1] = value;
    return at + 2;
}

#ifdef __cplusplus
}
#endif

#endif
