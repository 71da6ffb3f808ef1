// What blocks hand to each other within a launch: by __threadfence() and an atomic operation.
//
// A block releases what it did before a fence when, behind that fence, it changes a counter
// atomically; a block that comes by such a counter later acquires what was released until then.
#pragma once
#include "fibers.h"

namespace whet_emulator {

static uint32_t launch_first, block_first;
static uint32_t *block_starts;  // the first interval of each block of this launch, in its order
static uint32_t blocks_started;

// What a block of this launch has released so far; zeros: nothing.
struct Released {
    uint32_t before;      // all that was done in earlier intervals than this one
    uint32_t at;          // and in this one what one thread did,
    uint16_t who, epoch;  // its number + 1, before this count of its warp's barriers and fences
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

inline void fence() {
    const int lane = current->number & 31;
    current->fenced = interval;
    current->fenced_epoch = ++current->warp->seen[lane][lane];
}

// An atomic operation on the device's memory; before: whether another block came by that place.
inline void hand_over(bool before) {
    if (before) {
        current->acquired = true;
        if (acquired_at == 0) acquired_at = interval;
    }
    if (current->fenced == 0) return;
    const bool here = current->fenced == interval;
    releases[blocks_started - 1] = {
        here ? interval : current->fenced + 1, interval, uint16_t(current->number + 1),
        here ? current->fenced_epoch : uint16_t(0)};
}

constexpr uint16_t ATOMIC = 0xffff;  // the writer, where it was an atomic operation

// Whether what another block did in an interval surely came before what the current thread does.
inline bool handed_over(uint32_t when, uint16_t who, uint16_t epoch) {
    if (acquired_at == 0 || !(current->acquired || acquired_at < interval)) return false;
    const Released &r = releases[block_number(when)];
    return when < r.before ||
           (when == r.at && (who == ATOMIC || (who == r.who && epoch < r.epoch)));
}

}  // namespace whet_emulator
