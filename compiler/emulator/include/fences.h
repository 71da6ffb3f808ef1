// What blocks hand to each other within a launch: by __threadfence() and an atomic operation, or a
// volatile one, which to another block is as good (PTX: a volatile access is a relaxed one).
//
// A fence covers what its thread did before it, and what had come before that by barriers. When a
// thread changes a counter atomically, or stores to a volatile flag, it releases what the fences
// before that cover; a block that comes by it later acquires what was released until then.
#pragma once
#include "fibers.h"

namespace whet_emulator {

static uint32_t launch_first, block_first;
static uint32_t *block_starts;  // the first interval of each block of this launch, in its order
static uint32_t blocks_started;

// What fences of one interval of a block cover: all that was done in earlier intervals, and in this
// one what each thread did before that count of its warp's barriers and fences.
struct Covered {
    uint32_t when;  // 0: there was no fence
    uint16_t before[MOST_THREADS];
};
static Covered covered, covered_before;  // of the last interval with fences, and of the one before

// What a block of this launch has released so far, in the same terms; zeros: nothing.
struct Released {
    uint32_t when;
    uint16_t *before;
};
static Released *releases;
static uint32_t acquired_at;  // the interval in which this block has acquired first; 0: not yet

// The number of the block to which an interval of this launch belongs.
inline uint32_t block_number(uint32_t when) {
    uint32_t low = 0, high = blocks_started;
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        (block_starts[middle] <= when ? low : high) = middle;
    }
    return low;
}

inline void raise_each(uint16_t *counts, const uint16_t *others, int many) {
    for (int k = 0; k < many; ++k)
        if (counts[k] < others[k]) counts[k] = others[k];
}

inline void fence() {
    const int own = current->number & 31;
    uint16_t *seen = current->warp->seen[own];
    ++seen[own];
    current->fenced = interval;
    memcpy(current->fenced_seen, seen, sizeof current->fenced_seen);
    if (covered.when != interval) {
        covered_before = covered;
        covered = {interval, {}};
    }
    raise_each(covered.before + (current->number - own), seen, 32);
}

// What fences of this interval cover that came before what the current thread does now: its own,
// and those of lanes that a barrier of the warp has joined with it.
inline bool covered_now(uint16_t *before) {
    const int own = current->number & 31, first = current->number - own;
    bool any = false;
    for (int k = 0; k < 32 && first + k < block.count; ++k) {
        const Thread &t = block.threads[first + k];
        if (t.fenced != interval) continue;
        if (k != own && current->warp->seen[own][k] <= t.fenced_seen[k]) continue;
        raise_each(before + first, t.fenced_seen, 32);
        any = true;
    }
    return any;
}

inline void release(const Covered &what) {
    Released &r = releases[blocks_started - 1];
    if (what.when == 0 || what.when < r.when) return;
    if (r.before == nullptr) r.before = static_cast<uint16_t *>(calloc(MOST_THREADS, 2));
    if (r.before == nullptr) __builtin_trap();
    if (r.when != what.when) memset(r.before, 0, MOST_THREADS * 2);
    r.when = what.when;
    raise_each(r.before, what.before, MOST_THREADS);
}

inline void acquire() {
    current->acquired = true;
    if (acquired_at == 0) acquired_at = interval;
}

// An atomic operation on the device's memory, or a volatile store; before: whether another block
// came by that place, or last this one, after it had come by others.
inline void hand_over(bool before) {
    if (before) acquire();
    if (current->fenced == 0) return;
    Covered now = {interval, {}};
    release(covered.when == interval ? covered_before : covered);
    if (covered.when == interval && covered_now(now.before)) release(now);
}

constexpr uint16_t ATOMIC = 0x7fff;  // the writer, where it was an atomic operation
constexpr uint16_t VOLATILE = 0x8000;  // set beside a thread's number, where its access was one

// Whether what another block did in an interval surely came before what the current thread does.
inline bool handed_over(uint32_t when, uint16_t who, uint16_t epoch) {
    if (acquired_at == 0 || !(current->acquired || acquired_at < interval)) return false;
    const Released &r = releases[block_number(when)];
    if (when != r.when || who == ATOMIC) return when <= r.when;
    if (who != 0) return epoch < r.before[who - 1];
    for (int k = 0; k < block.count; ++k)  // any thread may have been it
        if (r.before[k] == 0) return false;
    return true;
}

// Which flag of each block the current block has read, that was stored to behind no fence of its own
// thread that covers all before it: two such places of one block have no order.
struct Flag {
    uint32_t reader;  // the number of the block that read, from 1
    const void *at;
};
static Flag *flags;

// Whether a volatile value of another block, which no fence covers, comes beside another such one.
inline bool beside_another_flag(uint32_t when, const void *at) {
    Flag &flag = flags[block_number(when)];
    if (flag.reader == blocks_started) return flag.at != at;
    flag = {blocks_started, at};
    return false;
}

}  // namespace whet_emulator
