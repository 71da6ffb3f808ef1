// Fibers: one a CUDA thread, on a stack of its own, switched by hand where a thread has to wait.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct uint3 { unsigned x, y, z; };
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace whet_emulator {

// One switch: what the calling convention keeps is pushed, the stack exchanged, and popped again.
#if defined(__x86_64__) && defined(__ELF__)
extern "C" void whet_emulator_switch(void **save, void *load);
__asm__(R"(
    .text
    .p2align 4
    .hidden whet_emulator_switch
    .type whet_emulator_switch, @function
whet_emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size whet_emulator_switch, .-whet_emulator_switch
)");
inline void *fresh_stack(unsigned char *top, void (*body)()) {
    void **at = reinterpret_cast<void **>(top) - 8;
    *--at = nullptr;  // where body would return to
    *--at = reinterpret_cast<void *>(body);
    for (int k = 0; k < 6; ++k) *--at = nullptr;
    return at;
}
#elif defined(__aarch64__) && defined(__ELF__)
extern "C" void whet_emulator_switch(void **save, void *load);
__asm__(R"(
    .text
    .p2align 4
    .hidden whet_emulator_switch
    .type whet_emulator_switch, %function
whet_emulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size whet_emulator_switch, .-whet_emulator_switch
)");
inline void *fresh_stack(unsigned char *top, void (*body)()) {
    void **at = reinterpret_cast<void **>(top) - 20;
    memset(at, 0, 160);
    at[11] = reinterpret_cast<void *>(body);  // x30, where the switch returns to
    return at;
}
#else
}  // namespace whet_emulator
#include <ucontext.h>
namespace whet_emulator {
inline void whet_emulator_switch(void **save, void *load) {
    ucontext_t own;
    *save = &own;
    swapcontext(&own, static_cast<ucontext_t *>(load));
}
inline void *fresh_stack(unsigned char *top, void (*body)()) {
    // The first context of a fiber lies at the top of its own stack.
    ucontext_t *first = reinterpret_cast<ucontext_t *>(top - 16 - sizeof(ucontext_t));
    getcontext(first);
    first->uc_stack.ss_sp = top - 131072;
    first->uc_stack.ss_size = 131072 - 16 - sizeof(ucontext_t);
    first->uc_link = nullptr;
    makecontext(first, body, 0);
    return first;
}
#endif

enum State : unsigned char { READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, ENDED };

struct Warp {
    uint32_t alive, arrived;  // a bit a lane
    // Of each lane, how many barriers of each lane of the warp it has seen behind it: its own so far,
    // and of another one those up to where a barrier joined the two.
    uint16_t seen[32][32];
    alignas(16) unsigned char slots[32][16];  // what the lanes give each other
};

struct Thread {
    void *stack;
    uint3 index;
    int number;  // in the block
    int line;    // of the barrier at which it waits
    uint32_t mask;  // of the lanes it waits for
    bool orders;    // whether the warp's barrier at which it waits orders memory
    State state;
    Warp *warp;
    uint32_t ended;  // the interval in which it returned
    uint32_t fenced;           // the interval of its last __threadfence() in this block; 0: none
    uint16_t fenced_seen[32];  // what it had seen of its warp's lanes by then, as in Warp
    bool acquired;  // whether it came by a counter that other blocks change atomically
};

constexpr int MOST_THREADS = 1024;
constexpr size_t STACK_BYTES = 256 << 10;

struct Block {
    uint3 index;
    dim3 extent, grid;
    int count;    // threads
    int gone;     // threads of warps that have returned as a whole
    int ready;    // threads that could run
    int arrived;  // threads at the block's barrier
    int line;     // of that barrier
    int direction;  // in which a warp's lanes take turns
    int order[MOST_THREADS], place[MOST_THREADS];  // the n-th to run; when a thread runs
    void *home;  // the scheduler's stack
    Thread threads[MOST_THREADS];
    Warp warps[MOST_THREADS / 32];
};

static Block block;
static Thread *current;
static uint32_t interval;     // numbers the spans between barriers, over all launches
static unsigned char *stacks;

inline uint32_t lane_bit(const Thread *t) { return 1u << (t->number & 31); }

// The thread that runs after this one; in a warp's barrier, one of the same warp where there is one:
// lanes then run as far apart from other warps as they can, and a missing barrier shows.
inline Thread *next_ready(const Thread *from) {
    if (block.ready == 0) return nullptr;
    if (from->state == AT_WARP_BARRIER) {
        const int first = from->number & ~31, own = from->number & 31;
        for (int k = 1; k < 32; ++k) {
            const int number = first + ((own + block.direction * k) & 31);
            if (number < block.count && block.threads[number].state == READY)
                return &block.threads[number];
        }
    }
    int place = block.place[from->number];
    for (;;) {
        place = place + 1 == block.count ? 0 : place + 1;
        Thread *t = &block.threads[block.order[place]];
        if (t->state == READY) return t;
    }
}

// Gives up the processor; the thread's state says until when.
inline void leave() {
    Thread *from = current, *to = next_ready(from);
    if (to == nullptr) {
        whet_emulator_switch(&from->stack, block.home);
        return;
    }
    if (to == from) return;
    current = to;
    whet_emulator_switch(&from->stack, to->stack);
}

inline void wait(State why, int line) {
    current->state = why;
    current->line = line;
    --block.ready;
    leave();
}

[[noreturn]] static void fail_diverged(int line);
static void settle();

// Releases the threads at the block's barrier where none is missing. A warp that has returned as a
// whole is not (PTX ISA, barrier and exit); what is left of one that has lost some threads waits:
// GPUs before Volta count warps, and never let it go on.
inline bool release_block() {
    const int awaited = block.count - block.gone;
    if (block.arrived == 0 || block.arrived < awaited) return false;
    settle();
    block.arrived = 0;
    ++interval;
    for (int k = 0; k < block.count; ++k)
        if (block.threads[k].state == AT_BLOCK_BARRIER) block.threads[k].state = READY;
    block.ready = awaited;
    return true;
}

__attribute__((noinline)) static void block_barrier(int line) {
    if (block.arrived != 0 && block.line != line) fail_diverged(line);
    block.line = line;
    ++block.arrived;
    if (!release_block()) wait(AT_BLOCK_BARRIER, line);
}

// What the lanes of a mask did so far comes before what they do from here on.
inline void join_lanes(Warp *warp, uint32_t mask) {
    uint16_t joined[32] = {};
    Thread *lanes = &block.threads[(warp - block.warps) * 32];
    bool acquired = false;
    for (uint32_t rest = mask & warp->alive; rest != 0; rest &= rest - 1)
        acquired |= lanes[__builtin_ctz(rest)].acquired;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        lanes[lane].acquired = acquired;
        ++warp->seen[lane][lane];
        for (int k = 0; k < 32; ++k)
            if (joined[k] < warp->seen[lane][k]) joined[k] = warp->seen[lane][k];
    }
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1)
        memcpy(warp->seen[__builtin_ctz(rest)], joined, sizeof joined);
}

// Releases a warp's lanes where all of a mask that still run have come.
inline bool release(Warp *warp, uint32_t mask, bool orders) {
    const uint32_t awaited = mask & warp->alive;
    if ((warp->arrived & awaited) != awaited) return false;
    Thread *lanes = &block.threads[(warp - block.warps) * 32];
    for (uint32_t rest = awaited; rest != 0; rest &= rest - 1)  // one may wait for other lanes
        if ((lanes[__builtin_ctz(rest)].mask & warp->alive) != awaited) return false;
    for (uint32_t rest = warp->arrived & mask; rest != 0; rest &= rest - 1) {
        Thread *t = &lanes[__builtin_ctz(rest)];
        if (t->state == AT_WARP_BARRIER) {
            t->state = READY;
            ++block.ready;
        }
    }
    warp->arrived &= ~mask;
    if (orders) join_lanes(warp, mask);
    return true;
}

// orders: whether it is a barrier of memory, too, as __syncwarp() is and no shuffle is.
__attribute__((noinline)) static void warp_barrier(
    int line, uint32_t mask = 0xffffffffu, bool orders = true) {
    Warp *warp = current->warp;
    warp->arrived |= lane_bit(current);
    current->mask = mask;
    current->orders = orders;
    if (!release(warp, mask, orders)) wait(AT_WARP_BARRIER, line);
}

static void (*thread_body)();

static void fiber_main() {
    thread_body();
    Thread *own = current;
    own->state = ENDED;
    own->ended = interval;
    --block.ready;
    own->warp->alive &= ~lane_bit(own);
    if (own->warp->alive == 0) {
        const int rest = block.count - (own->number & ~31);
        block.gone += rest < 32 ? rest : 32;
        release_block();
    }
    const Thread *lanes = &block.threads[own->number & ~31];
    for (uint32_t rest = own->warp->arrived; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        if (own->warp->arrived >> lane & 1)
            release(own->warp, lanes[lane].mask, lanes[lane].orders);
    }
    leave();
    __builtin_trap();  // an ended thread never runs again
}

// Takes the caller's memory for stacks, or makes some once.
inline bool take_stacks(unsigned char *given) {
    static unsigned char *own;
    if (given == nullptr && own == nullptr) {
        void *made = mmap(nullptr, STACK_BYTES * MOST_THREADS, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        own = made == MAP_FAILED ? nullptr : static_cast<unsigned char *>(made);
    }
    stacks = given != nullptr ? given : own;
    return stacks != nullptr;
}

// Makes the threads of a block; a stack's top is moved by some lines, or all tops would share a
// few sets of the processor's cache.
inline void make_threads() {
    block.arrived = block.gone = 0;
    block.ready = block.count;
    const int warps = (block.count + 31) / 32;
    for (int w = 0; w < warps; ++w) {
        const int lanes = block.count - 32 * w < 32 ? block.count - 32 * w : 32;
        block.warps[w].alive = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
        block.warps[w].arrived = 0;
        memset(block.warps[w].seen, 0, sizeof block.warps[w].seen);
    }
    for (int k = 0; k < block.count; ++k) {
        Thread *t = &block.threads[k];
        const unsigned n = unsigned(k), x = block.extent.x, y = block.extent.y;
        t->index = {n % x, n / x % y, n / (x * y)};
        t->number = k;
        t->state = READY;
        t->warp = &block.warps[k / 32];
        t->fenced = 0;
        t->acquired = false;
        unsigned char *top = stacks + STACK_BYTES * (size_t(k) + 1) - size_t(k % 48) * 320;
        t->stack = fresh_stack(top, fiber_main);
    }
}

// 0: forwards, 1: backwards, other numbers: an order drawn from that seed.
inline void choose_order(unsigned seed) {
    const int n = block.count;
    for (int k = 0; k < n; ++k) block.order[k] = seed == 1 ? n - 1 - k : k;
    for (int k = n - 1; seed > 1 && k > 0; --k) {
        seed = seed * 1664525u + 1013904223u;
        const int other = int((seed >> 8) % unsigned(k + 1)), held = block.order[k];
        block.order[k] = block.order[other];
        block.order[other] = held;
    }
    for (int k = 0; k < n; ++k) block.place[block.order[k]] = k;
    block.direction = seed == 1 ? -1 : 1;
}

}  // namespace whet_emulator

#define threadIdx (static_cast<const uint3 &>(whet_emulator::current->index))
#define blockIdx (static_cast<const uint3 &>(whet_emulator::block.index))
#define blockDim (static_cast<const dim3 &>(whet_emulator::block.extent))
#define gridDim (static_cast<const dim3 &>(whet_emulator::block.grid))
#define warpSize 32
#define __syncthreads() whet_emulator::block_barrier(__LINE__)
#define __syncwarp(...) whet_emulator::warp_barrier(__LINE__ __VA_OPT__(, ) __VA_ARGS__)
