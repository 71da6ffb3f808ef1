// What is known of each piece of memory, and what an access of it does wrong.
#pragma once
#include "fences.h"

namespace whet_emulator {

enum Fault : int {
    NONE, OUT_OF_BOUNDS, UNWRITTEN, RACE, DIVERGED, UNFINISHED, TRAP, BAD_LAUNCH, MISALIGNED
};
enum Scope : int { GLOBAL, SHARED, LOCAL };

// Who touched a granule of memory last. Numbers of intervals grow over all launches, so that what is
// older than a launch, or than a block, needs no clearing.
struct Cell {
    uint32_t written, read;  // the interval; 0: never
    union {
        uint32_t foreign;  // of global memory: an interval in which a thread of an earlier block read
        uint32_t owner;    // of shared memory: the buffer that wrote, of those that take turns there
    };
    uint16_t writer, writer_epoch;  // a thread's number + 1, and its count of its warp's barriers
    uint16_t reader, reader_epoch;
    uint16_t second, second_epoch;  // another reader of the same interval
};

// What the caller knows of a piece of the device's memory.
struct Allocation {
    uint64_t address, bytes;
    unsigned char *defined;  // one a byte: whether it was written; null: all of it
    Cell *cells;             // one a granule; null: not watched
};

struct Buffer {
    const char *name;
    unsigned char *base;
    size_t bytes;
    Cell *cells;
    unsigned char *defined;
    Scope scope;
    bool watched;  // whether any parameter of the kernel may write it
    uint32_t owner = 0;  // of shared memory: tells buffers apart that lie at one place in turns
};

// What went wrong first; plain data that the caller puts into words.
struct Report {
    int fault, scope, write, line, other_line, has_other, other_wrote;
    int element;      // bytes
    int64_t index, count;
    uint32_t block[3], thread[3], other_block[3], other_thread[3];
    uint64_t place;   // in the code
    char kernel[128], buffer[128], text[256];
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

[[noreturn]] __attribute__((noinline)) static void fail_diverged(int line) {
    begin_report(report, DIVERGED, line);
    report->other_line = block.line;
    for (int k = 0; k < block.count; ++k) {
        const Thread *t = &block.threads[k];
        if (t->state == AT_BLOCK_BARRIER && t->line != line) {
            report->has_other = 1;
            put_index(report->other_thread, t->index);
            break;
        }
    }
    end_launch();
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

#ifndef WHET_EMULATOR_GRANULE
#define WHET_EMULATOR_GRANULE 4
#endif

inline uint16_t own_epoch() {
    const int lane = current->number & 31;
    return current->warp->seen[lane][lane];
}

// Whether what a thread did in this interval surely came before what the current thread does now.
inline bool ordered(uint16_t who, uint16_t epoch) {
    const int own = current->number;
    if (who == own + 1) return true;
    return who != ATOMIC && (who - 1) / 32 == own / 32 &&
           epoch < current->warp->seen[own & 31][(who - 1) & 31];
}

// Whether a thread of this block did something last before its warp returned: the barriers behind
// that were not its own.
inline bool left_behind(uint32_t when, uint16_t who) {
    if (block.gone == 0 || when < block_first || who == 0 || who == ATOMIC) return false;
    const Thread &t = block.threads[who - 1];
    return t.state == ENDED && t.ended == when;
}

inline bool in_another_block(uint32_t when) { return when >= launch_first && when < block_first; }

struct Conflict {
    bool found;
    uint32_t when;
    uint16_t who;
};

inline Conflict conflict_with_write(const Cell &cell, Scope scope) {
    if (cell.written == interval)
        return {!ordered(cell.writer, cell.writer_epoch), interval, cell.writer};
    if (left_behind(cell.written, cell.writer)) return {true, cell.written, cell.writer};
    const bool found = scope == GLOBAL && in_another_block(cell.written) &&
                       !handed_over(cell.written, cell.writer, cell.writer_epoch);
    return {found, cell.written, cell.writer};
}

inline Conflict conflict_with_reads(const Cell &cell, Scope scope) {
    if (cell.read == interval) {
        if (!ordered(cell.reader, cell.reader_epoch)) return {true, interval, cell.reader};
        if (cell.second != 0 && !ordered(cell.second, cell.second_epoch))
            return {true, interval, cell.second};
    } else if (left_behind(cell.read, cell.reader)) {
        return {true, cell.read, cell.reader};
    } else if (left_behind(cell.read, cell.second)) {
        return {true, cell.read, cell.second};
    } else if (
        scope == GLOBAL && in_another_block(cell.read) &&
        !handed_over(cell.read, cell.reader, cell.reader_epoch)) {
        return {true, cell.read, cell.reader};
    }
    const bool found = scope == GLOBAL && in_another_block(cell.foreign) &&
                       !handed_over(cell.foreign, 0, 0);
    return {found, cell.foreign, 0};
}

inline void note_read(Cell &cell, Scope scope) {
    const uint16_t own = uint16_t(current->number + 1), epoch = own_epoch();
    if (cell.read != interval) {
        // a read by one thread that this one surely comes after, it stands for
        if (scope == GLOBAL && in_another_block(cell.read) &&
            !(cell.second == 0 && handed_over(cell.read, cell.reader, cell.reader_epoch)))
            cell.foreign = cell.read;
        cell.read = interval;
        cell.second = 0;
    } else if (!ordered(cell.reader, cell.reader_epoch)) {
        // of two other readers, one of another warp is worth more: no barrier of a warp excuses it
        if (cell.second == 0 || ordered(cell.second, cell.second_epoch) ||
            (cell.reader - 1) / 32 != (own - 1) / 32) {
            cell.second = cell.reader;
            cell.second_epoch = cell.reader_epoch;
        }
    }
    cell.reader = own;
    cell.reader_epoch = epoch;
}

inline void note_write(Cell &cell, const Buffer *b, bool atomic) {
    cell.written = interval;
    cell.writer = atomic ? ATOMIC : uint16_t(current->number + 1);
    cell.writer_epoch = own_epoch();
    if (b->scope == SHARED) cell.owner = b->owner;
}

// Whether a buffer's place in shared memory holds nothing, or what another buffer has left there.
inline bool is_unwritten(const Cell &cell, const Buffer *b) {
    return b->scope == SHARED && (cell.written < block_first || cell.owner != b->owner);
}

template <int BYTES>
inline bool all_set(const unsigned char *flags) {
    unsigned char ones[BYTES];
    memset(ones, 1, BYTES);
    return memcmp(flags, ones, BYTES) == 0;
}

// The functions that look at an access are called, never inlined: where they return to is the place
// of the access in the code.
struct Look {
    const Buffer *buffer;
    ptrdiff_t offset;
    int bytes;
    bool write;
    const void *place;

    Access access() const {
        const ptrdiff_t down = offset < 0 ? bytes - 1 : 0;  // -1 is the element before the first
        return {(offset - down) / bytes, int64_t(buffer->bytes / bytes), bytes, write};
    }
    bool outside() const { return offset < 0 || size_t(offset) + bytes > buffer->bytes; }
    [[noreturn]] void fail(Fault fault) const {
        fail_access(fault, buffer->scope, buffer->name, access(), place);
    }
    [[noreturn]] void misaligned(int alignment) const {
        fail_access(MISALIGNED, buffer->scope, buffer->name, {offset, alignment, bytes, write}, place);
    }
    void unwritten() const {
        if (pending.fault == NONE)
            put_access(&pending, UNWRITTEN, buffer->scope, buffer->name, access(), place);
    }
    void race(const Conflict &with, bool other_wrote) const {
        if (pending.fault == RACE) return;
        put_access(&pending, RACE, buffer->scope, buffer->name, access(), place);
        pending.other_wrote = other_wrote;
        pending.has_other = with.who != 0 && with.who != ATOMIC;
        put_index(pending.other_block, with.when == interval ? block.index : block_of(with.when));
        if (pending.has_other) put_index(pending.other_thread, thread_index(with.who - 1));
    }
};

template <int BYTES, int ALIGNMENT>
__attribute__((noinline)) static void check_read(const Buffer *b, const void *p) {
    if (b == nullptr) return;
    const ptrdiff_t offset = static_cast<const unsigned char *>(p) - b->base;
    const Look look = {b, offset, BYTES, false, __builtin_return_address(0)};
    if (look.outside()) look.fail(OUT_OF_BOUNDS);
    if (reinterpret_cast<uintptr_t>(p) % ALIGNMENT != 0) look.misaligned(ALIGNMENT);
    if (b->defined != nullptr && !all_set<BYTES>(b->defined + offset)) look.unwritten();
    if (!b->watched) return;
    const ptrdiff_t last = (offset + BYTES - 1) / WHET_EMULATOR_GRANULE;
    for (ptrdiff_t k = offset / WHET_EMULATOR_GRANULE; k <= last; ++k) {
        Cell &cell = b->cells[k];
        if (is_unwritten(cell, b)) look.unwritten();
        const Conflict found = conflict_with_write(cell, b->scope);
        if (found.found) look.race(found, true);
        note_read(cell, b->scope);
    }
}

// value: what is about to be written; two threads that write the same are no race.
template <int BYTES, int ALIGNMENT>
__attribute__((noinline)) static void check_write(
    const Buffer *b, void *p, const void *value, bool atomic = false) {
    if (b == nullptr) return;
    const ptrdiff_t offset = static_cast<unsigned char *>(p) - b->base;
    const Look look = {b, offset, BYTES, true, __builtin_return_address(0)};
    if (look.outside()) look.fail(OUT_OF_BOUNDS);
    if (reinterpret_cast<uintptr_t>(p) % ALIGNMENT != 0) look.misaligned(ALIGNMENT);
    if (atomic && b->defined != nullptr && !all_set<BYTES>(b->defined + offset)) look.unwritten();
    if (b->defined != nullptr) memset(b->defined + offset, 1, BYTES);
    if (b->cells == nullptr) return;
    const ptrdiff_t last = (offset + BYTES - 1) / WHET_EMULATOR_GRANULE;
    for (ptrdiff_t k = offset / WHET_EMULATOR_GRANULE; k <= last; ++k) {
        Cell &cell = b->cells[k];
        if (atomic && is_unwritten(cell, b)) look.unwritten();
        const Conflict wrote = conflict_with_write(cell, b->scope);
        const bool same = atomic ? wrote.who == ATOMIC : memcmp(p, value, BYTES) == 0;
        const Conflict read = conflict_with_reads(cell, b->scope);
        if (wrote.found && !same) look.race(wrote, true);
        else if (read.found) look.race(read, false);
        note_write(cell, b, atomic);
    }
}

}  // namespace whet_emulator
