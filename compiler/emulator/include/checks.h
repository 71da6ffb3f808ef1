// What is known of each piece of memory, and what an access of it does wrong.
#pragma once
#include "faults.h"

namespace whet_emulator {

// Who touched a granule of memory last. Numbers of intervals grow over all launches, so that what is
// older than a launch, or than a block, needs no clearing.
struct Cell {
    uint32_t written, read;  // the interval; 0: never
    union {
        uint32_t foreign;  // of global memory: an interval in which a thread of an earlier block read
        uint32_t owner;    // of shared memory: the buffer that wrote, of those that take turns there
    };
    // a thread's number + 1, its top bit set by a volatile access; its count of its warp's barriers
    uint16_t writer, writer_epoch;
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
    bool single = false;  // one variable, and no array
};

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
    if (who == ATOMIC) return false;
    who &= ATOMIC;
    if (who == own + 1) return true;
    return (who - 1) / 32 == own / 32 && epoch < current->warp->seen[own & 31][(who - 1) & 31];
}

// Whether a thread of this block did something last before its warp returned: the barriers behind
// that were not its own.
inline bool left_behind(uint32_t when, uint16_t who) {
    if (block.gone == 0 || when < block_first || who == 0 || who == ATOMIC) return false;
    const Thread &t = block.threads[(who & ATOMIC) - 1];
    return t.state == ENDED && t.ended == when;
}

inline bool in_another_block(uint32_t when) { return when >= launch_first && when < block_first; }

struct Conflict {
    bool found;
    uint32_t when;
    uint16_t who;
};

// How memory is used: what is volatile or atomic races with no other such access of another block,
// and what is volatile with no atomic operation at all.
enum Use : int { PLAIN, STRONG, COUNTED };  // COUNTED: by an atomic operation

inline bool strong(uint16_t who) { return who == ATOMIC || who & VOLATILE; }

inline Conflict conflict_with_write(const Cell &cell, Scope scope, Use use) {
    const uint16_t who = cell.writer == ATOMIC ? ATOMIC : cell.writer & ATOMIC;
    const bool another = in_another_block(cell.written);
    if (scope == GLOBAL && use != PLAIN && strong(cell.writer) && (another || (who == ATOMIC) != (use == COUNTED)))
        return {false, cell.written, who};
    if (cell.written == interval) return {!ordered(cell.writer, cell.writer_epoch), interval, who};
    if (left_behind(cell.written, cell.writer)) return {true, cell.written, who};
    const bool found =
        scope == GLOBAL && another && !handed_over(cell.written, who, cell.writer_epoch);
    return {found, cell.written, who};
}

// Of a store: conflicts with reads; those by volatile accesses are none to one that is strong, too.
inline Conflict conflict_with_reads(const Cell &cell, Scope scope, Use use) {
    const bool another = in_another_block(cell.read);
    const bool excused = scope == GLOBAL && use != PLAIN && (another || use == COUNTED);
    const bool reader = !(excused && cell.reader & VOLATILE);
    const bool second = cell.second != 0 && !(excused && cell.second & VOLATILE);
    if (cell.read == interval) {
        if (reader && !ordered(cell.reader, cell.reader_epoch))
            return {true, interval, uint16_t(cell.reader & ATOMIC)};
        if (second && !ordered(cell.second, cell.second_epoch))
            return {true, interval, uint16_t(cell.second & ATOMIC)};
    } else if (reader && left_behind(cell.read, cell.reader)) {
        return {true, cell.read, uint16_t(cell.reader & ATOMIC)};
    } else if (second && left_behind(cell.read, cell.second)) {
        return {true, cell.read, uint16_t(cell.second & ATOMIC)};
    } else if (
        scope == GLOBAL && another && reader &&
        !handed_over(cell.read, cell.reader & ATOMIC, cell.reader_epoch)) {
        return {true, cell.read, uint16_t(cell.reader & ATOMIC)};
    }
    const bool found = scope == GLOBAL && in_another_block(cell.foreign) &&
                       !handed_over(cell.foreign, 0, 0);
    return {found, cell.foreign, 0};
}

inline void note_read(Cell &cell, Scope scope, Use use) {
    const uint16_t own = uint16_t(current->number + 1), epoch = own_epoch();
    if (cell.read != interval) {
        // a read by one thread that this one surely comes after, it stands for
        if (scope == GLOBAL && in_another_block(cell.read) && !(cell.reader & VOLATILE) &&
            !(cell.second == 0 && handed_over(cell.read, cell.reader, cell.reader_epoch)))
            cell.foreign = cell.read;
        cell.read = interval;
        cell.second = 0;
    } else if (!ordered(cell.reader, cell.reader_epoch)) {
        // of two other readers, one of another warp is worth more: no barrier of a warp excuses it
        if (cell.second == 0 || ordered(cell.second, cell.second_epoch) ||
            ((cell.reader & ATOMIC) - 1) / 32 != (own - 1) / 32) {
            cell.second = cell.reader;
            cell.second_epoch = cell.reader_epoch;
        }
    }
    cell.reader = scope == GLOBAL && use == STRONG ? own | VOLATILE : own;
    cell.reader_epoch = epoch;
}

inline void note_write(Cell &cell, const Buffer *b, Use use) {
    cell.written = interval;
    cell.writer = use == COUNTED ? ATOMIC : uint16_t(current->number + 1);
    if (use == STRONG && b->scope == GLOBAL) cell.writer |= VOLATILE;
    cell.writer_epoch = own_epoch();
    if (b->scope == SHARED) cell.owner = b->owner;
}

// Whether a buffer's place in shared memory holds nothing, or what another buffer has left there.
inline bool is_unwritten(const Cell &cell, const Buffer *b) {
    return b->scope == SHARED && (cell.written < block_first || cell.owner != b->owner);
}

// Plain reads of what others change atomically: a loop of atomicCAS() may begin by one, which is
// known when some thread comes from that read to that. Of each place in the code the first such
// read, until then.
struct Suspect {
    const void *place;
    bool excused;
    Report report;
};
constexpr int MOST_SUSPECTS = 16;
static Suspect suspects[MOST_SUSPECTS];
static int suspect_count;

// Of a place in the code; null: there are too many.
inline Suspect *suspect_at(const void *place) {
    for (int k = 0; k < suspect_count; ++k)
        if (suspects[k].place == place) return &suspects[k];
    if (suspect_count == MOST_SUSPECTS) return nullptr;
    Suspect &added = suspects[suspect_count++];
    added.place = place;
    added.excused = false;
    added.report.fault = NONE;
    return &added;
}

inline void keep_read(const void *at, const void *place) {
    const unsigned k = current->reads++ % 4;
    current->read_at[k] = at;
    current->read_by[k] = place;
}

// An atomicCAS(): whether its thread has read there before, which then is a race nowhere.
inline bool begins_with_read(const void *at) {
    for (unsigned k = 1; k <= 4; ++k) {
        const unsigned last = (current->reads - k) % 4;
        if (current->read_at[last] != at) continue;
        if (Suspect *own = suspect_at(current->read_by[last])) own->excused = true;
        return true;
    }
    return false;
}

// The first plain read behind which no atomicCAS() came.
inline const Report *race_of_suspects() {
    for (int k = 0; k < suspect_count; ++k)
        if (!suspects[k].excused && suspects[k].report.fault != NONE) return &suspects[k].report;
    return nullptr;
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
    void put_race(Report *to, const Conflict &with, bool other_wrote) const {
        put_access(to, RACE, buffer->scope, buffer->name, access(), place);
        to->other_wrote = other_wrote;
        to->has_other = with.who != 0 && with.who != ATOMIC;
        put_index(to->other_block, with.when == interval ? block.index : block_of(with.when));
        if (!to->has_other) return;
        put_index(to->other_thread, thread_index(with.who - 1));
        to->reason = with.when >= block_first && (with.who - 1) / 32 == current->number / 32;
    }
    void race(const Conflict &with, bool other_wrote) const {
        if (pending.fault != RACE) put_race(&pending, with, other_wrote);
    }
    // A plain read of what an atomic operation has changed.
    void suspect(const Conflict &with) const {
        Suspect *own = suspect_at(place);
        if (own == nullptr) return race(with, true);
        if (own->report.fault == NONE) put_race(&own->report, with, true);
    }
};

// A volatile read of what another block has stored as a flag, or beside one.
inline void take_over(const Look &look, const Cell &cell, const void *at) {
    const uint16_t who = cell.writer == ATOMIC ? ATOMIC : cell.writer & ATOMIC;
    if (who != ATOMIC && !handed_over(cell.written, who, cell.writer_epoch) &&
        beside_another_flag(cell.written, at))
        look.race({true, cell.written, who}, true);
    acquire();
}

template <int BYTES, int ALIGNMENT, Use USE = PLAIN>
__attribute__((noinline)) static void check_read(const Buffer *b, const void *p) {
    if (b == nullptr) return;
    const ptrdiff_t offset = static_cast<const unsigned char *>(p) - b->base;
    const Look look = {b, offset, BYTES, false, __builtin_return_address(0)};
    if (look.outside()) look.fail(OUT_OF_BOUNDS);
    if (reinterpret_cast<uintptr_t>(p) % ALIGNMENT != 0) look.misaligned(ALIGNMENT);
    if (b->defined != nullptr && !all_set<BYTES>(b->defined + offset)) look.unwritten();
    if (!b->watched) return;
    if constexpr (USE == PLAIN && (BYTES == 2 || BYTES == 4 || BYTES == 8)) keep_read(p, look.place);
    const ptrdiff_t last = (offset + BYTES - 1) / WHET_EMULATOR_GRANULE;
    for (ptrdiff_t k = offset / WHET_EMULATOR_GRANULE; k <= last; ++k) {
        Cell &cell = b->cells[k];
        if (is_unwritten(cell, b)) look.unwritten();
        const Conflict found = conflict_with_write(cell, b->scope, USE);
        if (found.found && found.who == ATOMIC) look.suspect(found);
        else if (found.found) look.race(found, true);
        if constexpr (USE == STRONG)
            if (b->scope == GLOBAL && strong(cell.writer) && in_another_block(cell.written))
                take_over(look, cell, p);
        note_read(cell, b->scope, USE);
    }
}

// value: what is about to be written; two threads that write the same are no race.
template <int BYTES, int ALIGNMENT, Use USE = PLAIN>
__attribute__((noinline)) static void check_write(
    const Buffer *b, void *p, const void *value, bool compares = false) {
    if (b == nullptr) return;
    const ptrdiff_t offset = static_cast<unsigned char *>(p) - b->base;
    const Look look = {b, offset, BYTES, true, __builtin_return_address(0)};
    if (look.outside()) look.fail(OUT_OF_BOUNDS);
    if (reinterpret_cast<uintptr_t>(p) % ALIGNMENT != 0) look.misaligned(ALIGNMENT);
    constexpr bool atomic = USE == COUNTED;
    if (atomic && b->defined != nullptr && !all_set<BYTES>(b->defined + offset)) look.unwritten();
    if (b->defined != nullptr) memset(b->defined + offset, 1, BYTES);
    if (b->cells == nullptr) return;
    if (USE == STRONG && b->scope == GLOBAL) hand_over(false);
    const bool suspected = compares && begins_with_read(p);
    const ptrdiff_t last = (offset + BYTES - 1) / WHET_EMULATOR_GRANULE;
    for (ptrdiff_t k = offset / WHET_EMULATOR_GRANULE; k <= last; ++k) {
        Cell &cell = b->cells[k];
        if (atomic && is_unwritten(cell, b)) look.unwritten();
        const Conflict wrote = conflict_with_write(cell, b->scope, USE);
        const bool same = atomic ? wrote.who == ATOMIC : memcmp(p, value, BYTES) == 0;
        // a loop of atomicCAS() whose thread has read the place; others have done as it did
        const bool loop = compares && (suspected || (cell.read == interval && cell.reader == current->number + 1));
        const Conflict read = loop ? Conflict{} : conflict_with_reads(cell, b->scope, USE);
        if (loop) cell.read = cell.foreign = cell.second = 0;
        if (wrote.found && !same) look.race(wrote, true);
        else if (read.found) look.race(read, false);
        note_write(cell, b, USE);
    }
}

}  // namespace whet_emulator
