// Fibers: one a CUDA thread, on a stack of its own, switched by hand where a thread has to wait.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "switch.h"

struct uint3 { unsigned x, y, z; };
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace whet_emulator {

enum State : unsigned char { READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, AT_ACTIVE_MASK, ENDED };

// A call in the text at which lanes or threads meet; two on one line are told apart.
struct Site {
    int line, number;  // 0: any of the same function will do
    const char *what;  // the function
};

struct Warp {
    uint32_t alive, arrived;  // a bit a lane
    uint32_t asking;          // those in __activemask()
    // Of each lane, how many barriers of each lane of the warp it has seen behind it: its own so far,
    // and of another one those up to where a barrier joined the two.
    uint16_t seen[32][32];
    alignas(16) unsigned char slots[32][16];  // what the lanes give each other
};

struct Thread {
    void *stack;
    uint3 index;
    int number;  // in the block
    Site site;   // of the barrier at which it waits, or has waited last
    uint64_t visited;  // the warp's calls that it came by: a bit for each of the text's first ones
    uint64_t path;     // the calls that lead to the __activemask() it is in
    uint32_t mask;  // of the lanes it waits for; in __activemask() its result
    bool orders;    // whether the warp's barrier at which it waits orders memory
    State state;
    Warp *warp;
    uint32_t ended;  // the interval in which it returned
    uint32_t fenced;           // the interval of its last __threadfence() in this block; 0: none
    uint16_t fenced_seen[32];  // what it had seen of its warp's lanes by then, as in Warp
    bool acquired;  // whether it came by a counter that other blocks change atomically
    // its last plain reads: where to, and where in the code
    const void *read_at[4], *read_by[4];
    unsigned reads;
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
    Site site;    // of that barrier
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
    if (from->state == AT_WARP_BARRIER || from->state == AT_ACTIVE_MASK) {
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

// Where all lanes of a warp stand, those of them go on that have come to one __activemask() by the
// same calls: they are the active ones there. Of several such groups, the one whose line is first:
// the others may meet it behind.
__attribute__((noinline)) static void answer_active(Warp *warp) {
    Thread *lanes = &block.threads[(warp - block.warps) * 32], *first = nullptr;
    for (uint32_t rest = warp->alive; rest != 0; rest &= rest - 1) {
        Thread *t = &lanes[__builtin_ctz(rest)];
        if (t->state == READY) return;
        if (t->state == AT_ACTIVE_MASK && (first == nullptr || t->site.line < first->site.line)) first = t;
    }
    uint32_t active = 0;
    for (uint32_t rest = warp->asking; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        if (lanes[lane].path == first->path) active |= 1u << lane;
    }
    for (uint32_t rest = active; rest != 0; rest &= rest - 1) {
        Thread *t = &lanes[__builtin_ctz(rest)];
        t->state = READY;
        t->mask = active;
        ++block.ready;
    }
    warp->asking &= ~active;
}

// Gives up the processor; the thread's state says until when.
inline void leave() {
    if (current->warp->asking != 0) answer_active(current->warp);
    Thread *from = current, *to = next_ready(from);
    if (to == nullptr) {
        whet_emulator_switch(&from->stack, block.home);
        return;
    }
    if (to == from) return;
    current = to;
    whet_emulator_switch(&from->stack, to->stack);
}

inline void wait(State why, Site site) {
    current->state = why;
    current->site = site;
    --block.ready;
    leave();
}

// The lanes that run the same call together. What CUDA promises is less: any part of them.
__attribute__((noinline)) static uint32_t active_mask(Site site) {
    uint64_t path = 0;
    // the calls that led here, by the chain of frames on the thread's own stack
    const unsigned char *low = stacks + STACK_BYTES * size_t(current->number);
    void *const *frame = static_cast<void *const *>(__builtin_frame_address(0));
    for (;;) {
        const unsigned char *at = reinterpret_cast<const unsigned char *>(frame);
        if (at < low || at + 16 > low + STACK_BYTES || frame[1] == nullptr) break;
        path = path * 0x9e3779b97f4a7c15u + reinterpret_cast<uint64_t>(frame[1]);
        if (frame[0] <= static_cast<const void *>(frame)) break;
        frame = static_cast<void *const *>(frame[0]);
    }
    current->path = path;
    current->warp->asking |= lane_bit(current);
    wait(AT_ACTIVE_MASK, site);
    return current->mask;
}

[[noreturn]] static void fail_diverged(Site site);
[[noreturn]] static void fail_lane(int why, const Thread *own, int lane, const Thread *other);
enum LaneFault : int {  // why lanes cannot exchange what they ask for
    OWN_NOT_NAMED, LANE_NOT_NAMED, LANE_NOT_THERE, LANE_ENDED, AT_ANOTHER_CALL, FEWER_TIMES, BAD_WIDTH
};
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

__attribute__((noinline)) static void block_barrier(Site site) {
    if (block.arrived != 0 && block.site.number != site.number) fail_diverged(site);
    block.site = site;
    ++block.arrived;
    if (!release_block()) wait(AT_BLOCK_BARRIER, site);
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

// Whether a thread came by a call, of those that are counted.
inline bool came_by(const Thread &t, Site site) {
    return site.number > 0 && site.number <= 64 && (t.visited >> (site.number - 1) & 1);
}

// Lanes that have come together have come to one call; one that has ended was not there before.
inline void check_call(const Warp *warp, const Thread *lanes, uint32_t mask) {
    const Thread &first = lanes[__builtin_ctz(mask & warp->alive)];
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        const Thread &t = lanes[lane];
        if (lanes - block.threads + lane >= block.count) return;
        if (t.state != ENDED && t.site.number != first.site.number)
            fail_lane(AT_ANOTHER_CALL, &first, lane, &t);
        if (t.state == ENDED && came_by(t, first.site)) fail_lane(FEWER_TIMES, &first, lane, &t);
    }
}

// Releases a warp's lanes where all of a mask that still run have come.
inline bool release(Warp *warp, uint32_t mask, bool orders) {
    const uint32_t awaited = mask & warp->alive;
    if ((warp->arrived & awaited) != awaited) return false;
    Thread *lanes = &block.threads[(warp - block.warps) * 32];
    for (uint32_t rest = awaited; rest != 0; rest &= rest - 1)  // one may wait for other lanes
        if ((lanes[__builtin_ctz(rest)].mask & warp->alive) != awaited) return false;
    if (awaited != 0) check_call(warp, lanes, mask);
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
__attribute__((noinline)) static void warp_barrier(Site site, uint32_t mask, bool orders) {
    Warp *warp = current->warp;
    current->mask = mask;
    current->orders = orders;
    current->site = site;
    if (!(mask & lane_bit(current))) fail_lane(OWN_NOT_NAMED, current, current->number & 31, nullptr);
    warp->arrived |= lane_bit(current);
    if (site.number > 0 && site.number <= 64) current->visited |= uint64_t(1) << (site.number - 1);
    if (!release(warp, mask, orders)) wait(AT_WARP_BARRIER, site);
}
inline void sync_lanes(int line, uint32_t mask = 0xffffffffu) {
    warp_barrier({line, 0, "__syncwarp"}, mask, true);
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
        block.warps[w].arrived = block.warps[w].asking = 0;
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
        t->visited = 0;
        memset(t->read_at, 0, sizeof t->read_at);
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
#define WHET_EMULATOR_SITE(what) (whet_emulator::Site{__LINE__, __COUNTER__ + 1, what})
#define __syncthreads() whet_emulator::block_barrier(WHET_EMULATOR_SITE("__syncthreads"))
#define __syncwarp(...) whet_emulator::sync_lanes(__LINE__ __VA_OPT__(, ) __VA_ARGS__)
