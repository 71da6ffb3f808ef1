// How buffers are declared, and how vectors of their elements are moved.
#pragma once
#include "memory.h"

#define WHET_EMULATOR_STATIC __attribute__((section("whet_shared_static"), aligned(16))) static

#define WHET_EMULATOR_COUNTED(name, bytes)                                                         \
    static uint32_t name##_counted;                                                                \
    whet_emulator::count_shared(&name##_counted, bytes, __LINE__)

// One that functions know as a whole; it is not looked at.
#define WHET_SHARED_PLAIN(type, name, sizes)                                                       \
    typedef type name##_whole sizes;                                                               \
    WHET_EMULATOR_STATIC unsigned char name##_memory[sizeof(name##_whole)];                        \
    WHET_EMULATOR_COUNTED(name, sizeof(name##_whole));                                             \
    name##_whole &name = *reinterpret_cast<name##_whole *>(name##_memory)

#if WHET_EMULATOR_CHECKS
#define WHET_GLOBAL(...) whet_emulator::Checked<__VA_ARGS__>
#define WHET_POINTER(...) whet_emulator::Checked<__VA_ARGS__>
#define WHET_SEEN_AS(...) whet_emulator::seen_as<__VA_ARGS__>
#define WHET_SHARED_BUFFER(type, name, offset, count)                                              \
    const whet_emulator::Buffer name##_buffer = whet_emulator::shared_buffer(                      \
        #name, offset, sizeof(type) * (count));                                                    \
    const whet_emulator::Checked<type> name(                                                       \
        &name##_buffer, reinterpret_cast<type *>(name##_buffer.base))
#define WHET_SHARED_ARENA(type, name)                                                              \
    const whet_emulator::Buffer name##_buffer = whet_emulator::shared_arena(#name, sizeof(type));  \
    const whet_emulator::Checked<type> name(                                                       \
        &name##_buffer, reinterpret_cast<type *>(name##_buffer.base))
#define WHET_SHARED_FILE_ARENA(type, name)                                                         \
    static whet_emulator::Buffer name##_buffer;                                                    \
    static whet_emulator::Checked<type> name(&name##_buffer, nullptr);                             \
    static const whet_emulator::FileArena name##_arena([] {                                        \
        name##_buffer = whet_emulator::shared_arena(#name, sizeof(type));                          \
        name.at = reinterpret_cast<type *>(name##_buffer.base);                                    \
    })
#define WHET_EMULATOR_SHARED(type, name, single, ...)                                              \
    typedef whet_emulator::Rows<type, __VA_ARGS__> name##_rows;                                    \
    WHET_EMULATOR_STATIC unsigned char name##_memory[name##_rows::bytes];                          \
    __attribute__((section("whet_shared_cells"))) static whet_emulator::Cell                       \
        name##_cells[name##_rows::bytes / WHET_EMULATOR_GRANULE + 1];                              \
    static const whet_emulator::Buffer name##_buffer = {                                           \
        #name, name##_memory, name##_rows::bytes, name##_cells, nullptr,                           \
        whet_emulator::SHARED, true, 0, single};                                                   \
    WHET_EMULATOR_COUNTED(name, name##_rows::bytes)
#define WHET_SHARED_ROWS(type, name, ...)                                                          \
    WHET_EMULATOR_SHARED(type, name, false, __VA_ARGS__);                                          \
    const name##_rows name(&name##_buffer, reinterpret_cast<type *>(name##_memory))
#define WHET_SHARED_ONE(type, name)                                                                \
    WHET_EMULATOR_SHARED(type, name, true, 1);                                                     \
    const whet_emulator::Ref<type> name(&name##_buffer, reinterpret_cast<type *>(name##_memory))
#define WHET_REFERENCE(...) const whet_emulator::Reference<__VA_ARGS__>
#define WHET_MEMBER(name, ...)                                                                     \
    whet_emulator::member((__VA_ARGS__), [](auto *element) { return &element->name; })
#define WHET_ROWS_POINTER(type, name, ...) whet_emulator::RowsPointer<type, __VA_ARGS__> name
#define WHET_ROWS_REFERENCE(type, name, ...) whet_emulator::Rows<type, __VA_ARGS__> name
#define WHET_CONSTANT(type, name, sizes, ...)                                                      \
    static const type name##_held sizes __VA_ARGS__;                                               \
    static const whet_emulator::Buffer name##_buffer = {                                           \
        #name, (unsigned char *)name##_held, sizeof name##_held, nullptr, nullptr,                 \
        whet_emulator::CONSTANT, false};                                                           \
    static const whet_emulator::rows_of<decltype(name##_held)> name(                 \
        &name##_buffer, (const type *)name##_held)
#define WHET_LOCAL(type, name, count) whet_emulator::Local<type, count> name(#name)
#define WHET_LOCAL_ROWS(type, name, ...) whet_emulator::LocalRows<type, __VA_ARGS__> name(#name)
#define WHET_LOCAL_ZEROS(type, name, ...)                                                          \
    whet_emulator::LocalRows<type, __VA_ARGS__> name(#name, true)
#define WHET_EXTENT(name, count) whet_emulator::limit(name, count)
#else
#define WHET_GLOBAL(...) __VA_ARGS__ *__restrict
#define WHET_POINTER(...) __VA_ARGS__ *
#define WHET_SEEN_AS(...) whet_emulator::plainly_seen_as<__VA_ARGS__>
#define WHET_SHARED_BUFFER(type, name, offset, count)                                              \
    type *const name = reinterpret_cast<type *>(whet_emulator::arena + (offset))
#define WHET_SHARED_ARENA(type, name) WHET_SHARED_BUFFER(type, name, 0, 0)
#define WHET_SHARED_FILE_ARENA(type, name)                                                         \
    static type *name;                                                                             \
    static const whet_emulator::FileArena name##_arena([] {                                        \
        name = reinterpret_cast<type *>(whet_emulator::arena);                                     \
    })
#define WHET_SHARED_ROWS(type, name, first, ...)                                                   \
    typedef whet_emulator::Rows<type, first __VA_OPT__(, ) __VA_ARGS__> name##_rows;               \
    WHET_EMULATOR_STATIC unsigned char name##_memory[name##_rows::bytes];                          \
    WHET_EMULATOR_COUNTED(name, name##_rows::bytes);                                               \
    typename name##_rows::plain(&name)[first] =                                                    \
        *reinterpret_cast<typename name##_rows::plain(*)[first]>(name##_memory)
#define WHET_SHARED_ONE(type, name)                                                                \
    WHET_EMULATOR_STATIC type name;                                                                \
    WHET_EMULATOR_COUNTED(name, sizeof(type))
#define WHET_REFERENCE(...) __VA_ARGS__ &
#define WHET_MEMBER(name, ...) ((__VA_ARGS__).name)
#define WHET_ROWS_POINTER(type, name, ...)                                                         \
    typename whet_emulator::RowsPointer<type, __VA_ARGS__>::plain *name
#define WHET_ROWS_REFERENCE(type, name, first, ...)                                                \
    typename whet_emulator::Rows<type, first __VA_OPT__(, ) __VA_ARGS__>::plain(&name)[first]
#define WHET_CONSTANT(type, name, sizes, ...) static const type name sizes __VA_ARGS__
#define WHET_LOCAL(type, name, count) type name[count]
#define WHET_LOCAL_ROWS(type, name, first, ...)                                                    \
    typename whet_emulator::Rows<type, first __VA_OPT__(, ) __VA_ARGS__>::plain name[first]
#define WHET_LOCAL_ZEROS(type, name, first, ...)                                                   \
    WHET_LOCAL_ROWS(type, name, first __VA_OPT__(, ) __VA_ARGS__) = {}
#define WHET_EXTENT(name, count)
#endif

namespace whet_emulator {

inline Buffer shared_buffer(const char *name, size_t offset, size_t bytes) {
    const size_t room = offset < dynamic_bytes ? dynamic_bytes - offset : 0;
    return {name, arena + offset, bytes < room ? bytes : room,
            shared_cells + offset / WHET_EMULATOR_GRANULE, nullptr, SHARED, true,
            uint32_t(name - __ehdr_start)};
}

// All dynamic shared memory, which functions may know by several names.
inline Buffer shared_arena(const char *name, size_t element) {
    return {name, arena, dynamic_bytes / element * element, shared_cells, nullptr, SHARED, true};
}

// A pointer to other elements; a function, whose result subscripts bind to.
template <class U, class T>
inline Checked<U> seen_as(const T &p) { return Checked<U>(p); }

template <class U, class T>
inline U *plainly_seen_as(T *p) { return (U *)p; }

// A parameter's elements are those of its array, which may be a part of its allocation.
template <class T>
inline void limit(const Checked<T> &p, long long count) {
    Buffer *own = const_cast<Buffer *>(p.buffer);
    const size_t bytes = count > 0 ? size_t(count) * sizeof(T) : 0;
    if (own->bytes > bytes) own->bytes = bytes;
}

}  // namespace whet_emulator

// A vector V of elements from index on; its address is a multiple of its size.
template <class V, class T, class I>
inline V whet_load(const T *p, I index) {
    V value;
    memcpy(static_cast<void *>(&value), p + index, sizeof value);
    return value;
}
template <class V, class T, class I>
inline void whet_store(T *p, I index, V value) {
    memcpy(static_cast<void *>(p + index), &value, sizeof value);
}
template <class V, class T, class I>
WHET_EMULATOR_INLINE inline V whet_load(const whet_emulator::Checked<T> &p, I index) {
    whet_emulator::check_read<sizeof(V), sizeof(V)>(p.buffer, p.at + index);
    return whet_load<V>(static_cast<const T *>(p.at), index);
}
template <class V, class T, class I>
WHET_EMULATOR_INLINE inline void whet_store(const whet_emulator::Checked<T> &p, I index, V value) {
    whet_emulator::check_write<sizeof(V), sizeof(V)>(p.buffer, p.at + index, &value);
    whet_store<V>(p.at, index, value);
}
template <class V, class T, size_t COUNT, class I>
inline V whet_load(whet_emulator::Local<T, COUNT> &p, I index) {
    V value;
    for (int k = 0; k < int(sizeof(V) / sizeof(T)); ++k)
        reinterpret_cast<T *>(&value)[k] = p[index + k];
    return value;
}
template <class V, class T, size_t COUNT, class I>
inline void whet_store(whet_emulator::Local<T, COUNT> &p, I index, V value) {
    for (int k = 0; k < int(sizeof(V) / sizeof(T)); ++k)
        p[index + k] = reinterpret_cast<const T *>(&value)[k];
}
