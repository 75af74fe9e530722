/* Measures the cost of calls beside ever more objects: one line for each call, with its cost at each size in microseconds and, for the
 * last two, how many times as much it is. `growth 1000 10000 100000`; without arguments few objects, to see that it runs. It wants
 * video memory for as many pages as there are objects (OPENWDDM_VRAM). */
#include <time.h>

#include "steps.h"

enum { SIZES_MAX = 8, BATCHES = 9 };

static D3DKMT_HANDLE adapter;
static D3DKMT_HANDLE device;
static D3DKMT_CREATEPAGINGQUEUE paging;
static D3DKMT_HANDLE* objects;
static D3DGPU_VIRTUAL_ADDRESS* addresses;

static void make_device(size_t at) { objects[at] = create_device(adapter); }

static void end_device(size_t at) {
    D3DKMT_DESTROYDEVICE destroy = {.hDevice = objects[at]};
    OK(D3DKMTDestroyDevice(&destroy));
}

static void make_allocation(size_t at) {
    SOFTGPU_ALLOCATION data = softgpu_allocation(LOCAL_THEN_SYSTEM, CPU_VISIBLE, 4096);
    D3DDDI_ALLOCATIONINFO2 info = {.pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data};
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    OK(D3DKMTCreateAllocation2(&create));
    objects[at] = info.hAllocation;
}

static void end_allocation(size_t at) {
    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .phAllocationList = &objects[at], .AllocationCount = 1};
    OK(D3DKMTDestroyAllocation2(&destroy));
}

static void make_listed(size_t at) {
    make_allocation(at);
    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = paging.hPagingQueue,
        .NumAllocations = 1,
        .AllocationList = &objects[at],
    };
    NTSTATUS status = D3DKMTMakeResident(&resident);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
}

static void list_again(size_t at) {
    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = paging.hPagingQueue,
        .NumAllocations = 1,
        .AllocationList = &objects[at],
    };
    NTSTATUS status = D3DKMTMakeResident(&resident);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    D3DKMT_EVICT evict = {.hDevice = device, .NumAllocations = 1, .AllocationList = &objects[at]};
    OK(D3DKMTEvict(&evict));
}

static D3DKMT_HANDLE shown;

static void make_mapping(size_t at) {
    D3DDDI_MAPGPUVIRTUALADDRESS map = {
        .hPagingQueue = paging.hPagingQueue,
        .hAllocation = shown,
        .SizeInPages = 1,
        .Protection = {.Write = 1},
    };
    NTSTATUS status = D3DKMTMapGpuVirtualAddress(&map);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    addresses[at] = map.VirtualAddress;
}

static void end_mapping(size_t at) {
    D3DKMT_FREEGPUVIRTUALADDRESS release = {.hAdapter = adapter, .BaseAddress = addresses[at], .Size = 4096};
    OK(D3DKMTFreeGpuVirtualAddress(&release));
}

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static int ascending(const void* left, const void* right) {
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* The middle of so many batches of a call on objects from `first` on, each `step` behind the one before. */
static double each_us(void (*call)(size_t), size_t first, size_t step, size_t batch) {
    double us[BATCHES];
    for (size_t nth = 0; nth < BATCHES; nth++) {
        double began = now_us();
        for (size_t at = nth * batch; at < (nth + 1) * batch; at++) {
            call(first + at * step);
        }
        us[nth] = (now_us() - began) / batch;
    }
    qsort(us, BATCHES, sizeof *us, ascending);
    return us[BATCHES / 2];
}

typedef struct {
    const char* name;
    void (*make)(size_t);
    const char* used;
    void (*use)(size_t);
    const char* ended;
    void (*end)(size_t);
} KIND;

static const KIND KINDS[] = {
    {"CreateDevice", make_device, NULL, NULL, "DestroyDevice", end_device},
    {"CreateAllocation2", make_allocation, NULL, NULL, "DestroyAllocation2", end_allocation},
    {"CreateAllocation2, MakeResident", make_listed, "MakeResident, Evict", list_again, "DestroyAllocation2", end_allocation},
    {"MapGpuVirtualAddress", make_mapping, NULL, NULL, "FreeGpuVirtualAddress", end_mapping},
};

static void print_row(const char* name, const double* us, size_t count) {
    printf("%-34s", name);
    for (size_t size = 0; size < count; size++) {
        printf(" %9.1f", us[size]);
    }
    printf("   %5.2f\n", count > 1 ? us[count - 1] / us[count - 2] : 1.0);
}

int main(int count, char** arguments) {
    size_t sizes[SIZES_MAX] = {100, 1000}, many = 2;
    if (count > 1) {
        many = 0;
        for (int at = 1; at < count && many < SIZES_MAX; at++) {
            sizes[many] = strtoul(arguments[at], NULL, 10);
            /* Of each size a half is timed at most. */
            CHECK(sizes[many] >= 2 * BATCHES && (many == 0 || sizes[many] > sizes[many - 1]));
            many++;
        }
    }
    adapter = first_adapter();
    device = create_device(adapter);
    paging = create_paging_queue(device);
    objects = calloc(sizes[many - 1], sizeof *objects);
    addresses = calloc(sizes[many - 1], sizeof *addresses);
    CHECK(objects != NULL && addresses != NULL);
    make_allocation(0);
    shown = objects[0];

    printf("%-34s", "microseconds beside");
    for (size_t size = 0; size < many; size++) {
        printf(" %9zu", sizes[size]);
    }
    puts("   ratio");
    for (size_t kind = 0; kind < sizeof KINDS / sizeof *KINDS; kind++) {
        const KIND* of = &KINDS[kind];
        double made[SIZES_MAX], used[SIZES_MAX], ended[SIZES_MAX];
        for (size_t size = 0; size < many; size++) {
            size_t all = sizes[size], batch = all / (2 * BATCHES);
            batch = batch > 32 ? 32 : batch;
            size_t last = all - BATCHES * batch;
            for (size_t at = 0; at < last; at++) {
                of->make(at);
            }
            made[size] = each_us(of->make, last, 1, batch);
            used[size] = of->use == NULL ? 0 : each_us(of->use, 0, all / (BATCHES * batch), batch);
            ended[size] = each_us(of->end, last, 1, batch);
            for (size_t at = 0; at < last; at++) {
                of->end(at);
            }
        }
        print_row(of->name, made, many);
        if (of->use != NULL) {
            print_row(of->used, used, many);
        }
        print_row(of->ended, ended, many);
    }
    return 0;
}
