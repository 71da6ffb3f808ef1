// Launching a kernel: its arguments unpacked, its blocks one after the other, each on fresh fibers.
#pragma once
#include <sched.h>
#include "memory.h"
#include "traps.h"

namespace whet_emulator {

constexpr int MOST_PARAMETERS = 256;
static Buffer parameters[MOST_PARAMETERS];

// How a value lies among the packed arguments; pointers are addresses of 8 bytes.
template <class T>
struct Parameter {
    static constexpr size_t bytes = sizeof(T), align = alignof(T);
    static constexpr int element = 0;  // bytes behind a pointer; 0: no pointer
    static constexpr bool writes = false;
    static T get(const unsigned char *at, int) {
        T value;
        memcpy(&value, at, sizeof value);
        return value;
    }
};
template <class T>
struct Parameter<T *> {
    static constexpr size_t bytes = 8, align = 8;
    static constexpr int element = sizeof(std::conditional_t<std::is_void_v<T>, char, T>);
    static constexpr bool writes = !std::is_const_v<T>;
    static T *get(const unsigned char *at, int) {
        uint64_t address;
        memcpy(&address, at, 8);
        return reinterpret_cast<T *>(address);
    }
};
template <class T, size_t... EXTENTS>
struct Parameter<RowsPointer<T, EXTENTS...>> : Parameter<T *> {
    static RowsPointer<T, EXTENTS...> get(const unsigned char *at, int k) {
        return {&parameters[k], Parameter<T *>::get(at, k)};
    }
};
template <class T>
struct Parameter<Checked<T>> : Parameter<T *> {
    static Checked<T> get(const unsigned char *at, int k) {
        return {&parameters[k], Parameter<T *>::get(at, k)};
    }
};

struct Shape { size_t offset, bytes; int element; bool writes; };

struct Kernel {
    const char *name;
    const char *const *names;  // of the parameters
    int count;
    size_t packed_bytes;
    const Shape *shapes;
    void (*call)(const unsigned char *packed);
    long long most_threads;  // by __launch_bounds__
};

template <class... P>
struct Layout {
    static constexpr int count = sizeof...(P);
    struct Table { Shape at[count + 1]; size_t bytes; };
    static constexpr Table make() {
        Table table{};
        int k = 0;
        size_t end = 0;
        ((end = (end + Parameter<P>::align - 1) / Parameter<P>::align * Parameter<P>::align,
          table.at[k++] = {end, Parameter<P>::bytes, Parameter<P>::element, Parameter<P>::writes},
          end += Parameter<P>::bytes), ...);
        table.bytes = end;
        return table;
    }
    static constexpr Table table = make();
};

template <auto FUNCTION>
struct Caller;
template <class R, class... P, R (*FUNCTION)(P...)>
struct Caller<FUNCTION> {
    static_assert(std::is_void_v<R>, "a kernel returns void: __global__ void f(...)");
    typedef Layout<P...> layout;
    template <size_t... K>
    static void with(const unsigned char *packed, std::index_sequence<K...>) {
        FUNCTION(Parameter<P>::get(packed + layout::table.at[K].offset, int(K))...);
    }
    static void call(const unsigned char *packed) {
        with(packed, std::index_sequence_for<P...>());
    }
    static constexpr Kernel entry(const char *name, const char *const *names, long long most) {
        return {name, names, layout::count, layout::table.bytes, layout::table.at, call, most};
    }
};

static const Kernel *launched;
static const unsigned char *packed_arguments;

static void run_thread() { launched->call(packed_arguments); }

struct Launch {
    uint32_t grid[3], block[3], shared_bytes, seed;
    uint32_t first_interval;  // greater than any of an earlier launch
    uint32_t allocation_count;
    const Allocation *allocations;
    const unsigned char *packed;
    unsigned char *stacks;  // memory for them; null: the library's own
};

// Finds what each pointer points into.
inline void bind_parameters(const Launch *launch) {
    for (int k = 0; k < launched->count; ++k) {
        const Shape &shape = launched->shapes[k];
        if (shape.element == 0) continue;
        uint64_t address;
        memcpy(&address, launch->packed + shape.offset, 8);
        Buffer &own = parameters[k] = Buffer{};
        own.name = launched->names[k];
        own.base = reinterpret_cast<unsigned char *>(address);
        for (uint32_t n = 0; n < launch->allocation_count; ++n) {
            const Allocation &a = launch->allocations[n];
            if (address < a.address || address >= a.address + a.bytes) continue;
            const uint64_t offset = address - a.address;
            own.bytes = a.bytes - offset;
            own.defined = a.defined ? a.defined + offset : nullptr;
            own.cells = a.cells ? a.cells + offset / WHET_EMULATOR_GRANULE : nullptr;
            own.watched = false;
        }
    }
    // What no parameter may write is only read; there is no race to look for.
    for (int k = 0; k < launched->count; ++k)
        for (int other = 0; other < launched->count; ++other) {
            Buffer &own = parameters[k];
            const Buffer &writer = parameters[other];
            if (launched->shapes[k].element && launched->shapes[other].writes &&
                own.base < writer.base + writer.bytes && writer.base < own.base + own.bytes)
                own.watched = own.cells != nullptr;
        }
}

extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_whet_shared_static[];
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __stop_whet_shared_static[];
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __start_whet_shared_cells[];
extern "C" __attribute__((weak, visibility("hidden"))) unsigned char __stop_whet_shared_cells[];

inline bool make_shared(size_t bytes) {
    const size_t room = (bytes + 255) / 128 * 128;
    if (arena_bytes >= room) return true;
    free(arena);
    free(shared_cells);
    arena = static_cast<unsigned char *>(aligned_alloc(128, room));
    shared_cells = static_cast<Cell *>(calloc(room / WHET_EMULATOR_GRANULE + 1, sizeof(Cell)));
    arena_bytes = arena != nullptr && shared_cells != nullptr ? room : 0;
    return arena_bytes != 0;
}

// The lane that a thread waits for in vain at its warp's barrier.
inline const Thread *missing_lane(const Thread *stuck) {
    for (uint32_t rest = stuck->mask & stuck->warp->alive; rest != 0; rest &= rest - 1) {
        const Thread *t = &block.threads[(stuck->number & ~31) + __builtin_ctz(rest)];
        if (t->state != AT_WARP_BARRIER || t->mask != stuck->mask) return t;
    }
    return nullptr;
}

inline const Thread *other_than(const Thread *stuck) {
    for (int k = 0; k < block.count; ++k)
        if (block.threads[k].state != ENDED &&
            (block.threads[k].state != stuck->state || block.threads[k].site.line != stuck->site.line))
            return &block.threads[k];
    return nullptr;
}

// Where threads wait that nobody can release; the block's threads have all stopped.
inline void report_stuck() {
    const Thread *stuck = nullptr, *other = nullptr;
    for (int k = 0; k < block.count; ++k) {
        const Thread *t = &block.threads[k];
        const Thread *&found = t->state == ENDED ? other : stuck;
        const bool counts = t->state != ENDED || t->warp->alive != 0;  // others are not waited for
        if (found == nullptr && counts) found = t;
    }
    const bool lanes = stuck->state == AT_WARP_BARRIER;
    const Thread *missing = lanes ? missing_lane(stuck) : nullptr;
    other = missing != nullptr ? missing : other != nullptr ? other : other_than(stuck);
    current = const_cast<Thread *>(stuck);
    begin_report(report, UNFINISHED, stuck->site.line);
    report->write = lanes;
    if (other != nullptr) put_lanes(report, stuck, other->number & 31, other);
    report->reason = missing != nullptr;
}

inline void run_block(size_t shared_bytes) {
    block_first = ++interval;
    block_starts[blocks_started++] = interval;
    acquired_at = 0;
    covered.when = covered_before.when = 0;
    memset(arena, 0xff, shared_bytes);  // not a number
    if (__start_whet_shared_static != nullptr)
        memset(__start_whet_shared_static, 0xff,
               size_t(__stop_whet_shared_static - __start_whet_shared_static));
    make_threads();
    current = &block.threads[block.order[0]];
    whet_emulator_switch(&block.home, current->stack);
    if (report->fault != NONE) return;
    for (int k = 0; k < block.count; ++k)
        if (block.threads[k].state != ENDED) return report_stuck();
    *report = pending;  // nothing, mostly
}

// What no device would launch.
inline bool refused(const Launch *launch, uint64_t blocks, uint64_t threads) {
    report->fault = BAD_LAUNCH;
    copy_text(report->kernel, kernel_name, sizeof report->kernel);
    if (blocks == 0 || threads == 0 || threads > MOST_THREADS) return true;
    if (launched->most_threads > 0 && threads > uint64_t(launched->most_threads)) {
        report->reason = 1;
        report->index = int64_t(threads);
        report->count = launched->most_threads;
        return true;
    }
    report->fault = NONE;
    return false;
}

// Numbers of intervals begin anew, now and then: what is known of shared memory is void then.
static uint32_t last_used;

inline void begin_intervals(uint32_t first) {
    if (first <= last_used) {
        memset(static_cast<void *>(shared_cells), 0,
               (arena_bytes / WHET_EMULATOR_GRANULE + 1) * sizeof(Cell));
        if (__start_whet_shared_cells != nullptr)
            memset(__start_whet_shared_cells, 0,
                   size_t(__stop_whet_shared_cells - __start_whet_shared_cells));
    }
    launch_first = interval = first;
}

static volatile int launching;

}  // namespace whet_emulator

extern "C" __attribute__((visibility("default"))) const whet_emulator::Kernel whet_kernels[];
extern "C" const int whet_kernel_count;

// Runs a kernel; returns the fault, 0 for none. The caller gives room for a report.
extern "C" __attribute__((visibility("default"))) int whet_emulator_launch(
    int kernel, const whet_emulator::Launch *launch, whet_emulator::Report *result,
    uint32_t *last_interval) {
    using namespace whet_emulator;
    while (__sync_lock_test_and_set(&launching, 1)) sched_yield();  // the state is the library's
    memset(result, 0, sizeof *result);
    memset(&pending, 0, sizeof pending);
    report = result;
    launched = &whet_kernels[kernel];
    kernel_name = launched->name;
    const uint64_t blocks = uint64_t(launch->grid[0]) * launch->grid[1] * launch->grid[2];
    const uint64_t threads = uint64_t(launch->block[0]) * launch->block[1] * launch->block[2];
    block_starts = static_cast<uint32_t *>(malloc(sizeof(uint32_t) * (blocks + 1)));
    releases = static_cast<Released *>(calloc(blocks + 1, sizeof(Released)));
    flags = static_cast<Flag *>(calloc(blocks + 1, sizeof(Flag)));
    if (refused(launch, blocks, threads)) {
    } else if (block_starts == nullptr || releases == nullptr || flags == nullptr ||
        !take_stacks(launch->stacks) || !make_shared(launch->shared_bytes)) {
        result->fault = BAD_LAUNCH;
    } else {
        block.extent = dim3(launch->block[0], launch->block[1], launch->block[2]);
        block.grid = dim3(launch->grid[0], launch->grid[1], launch->grid[2]);
        block.count = int(threads);
        packed_arguments = launch->packed;
        thread_body = run_thread;
        dynamic_bytes = launch->shared_bytes;
        for (const FileArena *a = FileArena::first; a != nullptr; a = a->next) a->place();
        begin_intervals(launch->first_interval);
        blocks_started = 0;
        static_bytes = suspect_count = 0;
        choose_order(launch->seed);
        bind_parameters(launch);
        take_signals();
        for (uint64_t k = 0; k < blocks && result->fault == NONE; ++k) {
            block.index = block_index(uint32_t(k));
            run_block(launch->shared_bytes);
        }
        give_signals_back();
        const Report *suspect = result->fault == NONE ? race_of_suspects() : nullptr;
        if (suspect != nullptr) *result = *suspect;
        *last_interval = last_used = interval;
    }
    for (uint64_t k = 0; releases != nullptr && k < blocks; ++k) free(releases[k].before);
    free(block_starts);
    free(releases);
    free(flags);
    __sync_lock_release(&launching);
    return result->fault;
}

// For callers that know names: a kernel's number, and how many bytes its packed arguments have.
extern "C" __attribute__((visibility("default"))) int whet_emulator_find(
    const char *name, size_t *packed_bytes) {
    for (int k = 0; k < whet_kernel_count; ++k)
        if (strcmp(whet_kernels[k].name, name) == 0) {
            *packed_bytes = whet_kernels[k].packed_bytes;
            return k;
        }
    return -1;
}

#define WHET_EMULATED_KERNEL(name, names, most_threads)                                            \
    whet_emulator::Caller<static_cast<decltype(&name)>(&name)>::entry(#name, names, most_threads)
