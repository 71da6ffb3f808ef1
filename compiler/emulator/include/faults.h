// What went wrong in a launch, as the caller is told.
#pragma once
#include "fences.h"

namespace whet_emulator {

enum Fault : int {
    NONE, OUT_OF_BOUNDS, UNWRITTEN, RACE, DIVERGED, UNFINISHED, TRAP, BAD_LAUNCH, MISALIGNED,
    LANES, ARITHMETIC, CRASH
};
enum Scope : int { GLOBAL, SHARED, LOCAL, CONSTANT };

// What went wrong first; plain data that the caller puts into words.
struct Report {
    int fault, scope, write, line, other_line, has_other, other_wrote;
    int element;      // bytes
    int reason;       // a LaneFault; of a race: whether both are lanes of one warp
    int64_t index, count;
    uint32_t block[3], thread[3], other_block[3], other_thread[3];
    uint64_t place;   // in the code
    uint64_t other_count;
    char kernel[128], buffer[128], text[256], other_text[64];
};

// where the linker puts the beginning of this library
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];

static Report *report;
static const char *kernel_name;

inline void copy_text(char *to, const char *text, size_t room) {
    size_t k = 0;
    for (; text != nullptr && text[k] != 0 && k + 1 < room; ++k) to[k] = text[k];
    to[k] = 0;
}

inline void put_index(uint32_t *to, uint3 from) { to[0] = from.x, to[1] = from.y, to[2] = from.z; }

inline uint3 block_index(uint32_t number) {
    const uint32_t x = block.grid.x, y = block.grid.y;
    return {number % x, number / x % y, number / (x * y)};
}

// The block to which an interval of this launch belongs.
inline uint3 block_of(uint32_t when) { return block_index(block_number(when)); }

inline uint3 thread_index(int number) {
    const unsigned n = unsigned(number), x = block.extent.x, y = block.extent.y;
    return {n % x, n / x % y, n / (x * y)};
}

// A race and a read of unwritten memory do not end the launch at once: a barrier that some threads
// miss is what lies behind them, where there is one, and a race lies behind an unwritten read.
static Report pending;

inline void begin_report(Report *to, Fault fault, int line) {
    memset(to, 0, sizeof *to);
    to->fault = fault;
    to->line = line;
    copy_text(to->kernel, kernel_name, sizeof to->kernel);
    put_index(to->block, block.index);
    put_index(to->thread, current->index);
}

// Ends the launch: the other threads stay where they are, and their stacks are used anew.
[[noreturn]] inline void end_launch() {
    void *unused;
    whet_emulator_switch(&unused, block.home);
    __builtin_trap();
}

// Called where all threads have come to a barrier.
__attribute__((noinline)) static void settle() {
    if (pending.fault == NONE) return;
    *report = pending;
    end_launch();
}

[[noreturn]] __attribute__((noinline)) static void fail_diverged(Site site) {
    begin_report(report, DIVERGED, site.line);
    report->other_line = block.site.line;
    for (int k = 0; k < block.count; ++k) {
        const Thread *t = &block.threads[k];
        if (t->state == AT_BLOCK_BARRIER && t->site.number != site.number) {
            report->has_other = 1;
            put_index(report->other_thread, t->index);
            break;
        }
    }
    end_launch();
}

// Shared memory that is declared with its size, of the kernel that is launched: what each
// declaration adds when a thread first comes by it. Beyond 48 KB, ptxas refuses the kernel.
static uint32_t static_bytes;
constexpr uint32_t MOST_STATIC_BYTES = 48 << 10;

[[noreturn]] __attribute__((noinline)) static void fail_static(int line) {
    begin_report(report, BAD_LAUNCH, line);
    report->reason = 2;
    report->index = static_bytes;
    report->count = MOST_STATIC_BYTES;
    end_launch();
}
inline void count_shared(uint32_t *counted, size_t bytes, int line) {
    if (*counted == launch_first) return;
    *counted = launch_first;
    static_bytes += uint32_t(bytes);
    if (static_bytes > MOST_STATIC_BYTES) fail_static(line);
}

// Lanes cannot exchange what they ask for; other: the lane in question, where it is there.
inline void put_lanes(Report *to, const Thread *own, int lane, const Thread *other) {
    to->line = own->site.line;
    put_index(to->thread, own->index);
    to->index = lane;
    to->count = own->mask;
    copy_text(to->text, own->site.what, sizeof to->text);
    to->has_other = other != nullptr;
    if (other == nullptr) return;
    put_index(to->other_thread, other->index);
    to->other_line = other->site.line;
    to->other_wrote = other->state == ENDED;
    to->other_count = other->state == AT_WARP_BARRIER ? other->mask : own->mask;
    copy_text(to->other_text, other->site.what, sizeof to->other_text);
}
[[noreturn]] __attribute__((noinline)) static void fail_lane(
    int why, const Thread *own, int lane, const Thread *other) {
    begin_report(report, LANES, 0);
    report->reason = why;
    put_lanes(report, own, lane, other);
    end_launch();
}
// A lane that a thread reads is not among those that give something.
[[noreturn]] __attribute__((noinline)) static void fail_absent(uint32_t mask, int lane) {
    const int number = (current->number & ~31) + lane;
    const bool there = number < block.count;
    const int why = !(mask >> lane & 1) ? LANE_NOT_NAMED : there ? LANE_ENDED : LANE_NOT_THERE;
    fail_lane(why, current, lane, there ? &block.threads[number] : nullptr);
}

[[noreturn]] __attribute__((noinline, unused)) static void fail_trap(const char *text, int line) {
    settle();
    begin_report(report, TRAP, line);
    copy_text(report->text, text, sizeof report->text);
    end_launch();
}

struct Access {
    int64_t index, count;  // in elements of so many bytes
    int element;
    bool write;
};

inline void put_access(
    Report *to, Fault fault, Scope scope, const char *name, Access access, const void *place) {
    begin_report(to, fault, 0);
    to->place = static_cast<const char *>(place) - __ehdr_start;
    to->scope = scope;
    to->write = access.write;
    to->element = access.element;
    to->index = access.index;
    to->count = access.count;
    copy_text(to->buffer, name, sizeof to->buffer);
}

[[noreturn]] __attribute__((noinline, unused)) static void fail_access(
    Fault fault, Scope scope, const char *name, Access access, const void *place) {
    settle();
    put_access(report, fault, scope, name, access, place);
    end_launch();
}

}  // namespace whet_emulator
