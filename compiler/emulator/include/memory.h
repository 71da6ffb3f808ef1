// Pointers that know their buffer: each access is looked at, in the checked build; plain otherwise.
#pragma once
#include <type_traits>
#include "checks.h"

#define WHET_EMULATOR_INLINE __attribute__((always_inline))

namespace whet_emulator {

// The address of the code that runs; inlined, it is that of the access in the kernel.
__attribute__((noinline)) static const void *here() { return __builtin_return_address(0); }
#define WHET_EMULATOR_HERE whet_emulator::here()

// What stands on the right of `+=`: numbers as they are, or `x *= 0.5f` of an int would be 0.
template <class T, class V>
WHET_EMULATOR_INLINE inline auto operand(const V &value) {
    if constexpr (std::is_arithmetic_v<T> && std::is_arithmetic_v<V>) return value;
    else if constexpr (requires { typename V::value_type; })
        return operand<T>(static_cast<typename V::value_type>(value));
    else return static_cast<T>(value);
}

// What is done with a place in memory: reading and writing it are told apart.
template <class Own, class T>
struct Place {
    typedef T value_type;
    WHET_EMULATOR_INLINE const Own &own() const { return *static_cast<const Own *>(this); }
    WHET_EMULATOR_INLINE operator T() const { return own().get(); }
    // a 16-bit float as a number
    template <class U, class = std::enable_if_t<std::is_arithmetic_v<U> && std::is_class_v<T>>>
    WHET_EMULATOR_INLINE explicit operator U() const { return static_cast<U>(own().get()); }
    WHET_EMULATOR_INLINE const Own &operator=(T value) const {
        own().set(value);
        return own();
    }
#define WHET_EMULATOR_CHANGE(op)                                                                   \
    template <class V>                                                                             \
    WHET_EMULATOR_INLINE const Own &operator op##=(const V &value) const {                         \
        return *this = static_cast<T>(own().get() op operand<T>(value));                           \
    }
    WHET_EMULATOR_CHANGE(+)
    WHET_EMULATOR_CHANGE(-)
    WHET_EMULATOR_CHANGE(*)
    WHET_EMULATOR_CHANGE(/)
    WHET_EMULATOR_CHANGE(%)
    WHET_EMULATOR_CHANGE(|)
    WHET_EMULATOR_CHANGE(&)
    WHET_EMULATOR_CHANGE(^)
    WHET_EMULATOR_CHANGE(<<)
    WHET_EMULATOR_CHANGE(>>)
#undef WHET_EMULATOR_CHANGE
    WHET_EMULATOR_INLINE const Own &operator++() const { return *this += T(1); }
    WHET_EMULATOR_INLINE const Own &operator--() const { return *this -= T(1); }
    WHET_EMULATOR_INLINE T operator++(int) const {
        const T old = own().get();
        own().set(old + T(1));
        return old;
    }
    WHET_EMULATOR_INLINE T operator--(int) const {
        const T old = own().get();
        own().set(old - T(1));
        return old;
    }
};

template <class T>
struct OwnedRef;

template <class T>
constexpr Use use_of = std::is_volatile_v<T> ? STRONG : PLAIN;

// A place in a buffer.
template <class T>
struct Ref : Place<Ref<T>, std::remove_cv_t<T>> {
    typedef std::remove_cv_t<T> V;
    const Buffer *buffer;
    T *at;
    template <class U, class = std::enable_if_t<
                           std::is_same_v<std::remove_cv_t<U>, V> && !std::is_same_v<U, T> &&
                           std::is_convertible_v<U *, T *>>>
    Ref(const Ref<U> &other) : buffer(other.buffer), at(other.at) {}
    Ref(const Buffer *buffer, T *at) : buffer(buffer), at(at) {}
    Ref(const Ref &) = default;
    using Place<Ref<T>, V>::operator=;
    WHET_EMULATOR_INLINE const Ref &operator=(const Ref &other) const { return *this = other.get(); }
    WHET_EMULATOR_INLINE const Ref &operator=(const OwnedRef<V> &other) const {
        return *this = other.get();
    }
    WHET_EMULATOR_INLINE V get() const {
        check_read<sizeof(T), alignof(T), use_of<T>>(buffer, const_cast<V *>(at));
        return *const_cast<V *>(at);
    }
    WHET_EMULATOR_INLINE void set(V value) const {
        check_write<sizeof(T), alignof(T), use_of<T>>(buffer, const_cast<V *>(at), &value);
        *const_cast<V *>(at) = value;
    }
    auto operator&() const;
};

// What a text calls a reference: of an element, or of a thread's own variable. An element itself is
// not made of such a variable, or `c ? p[i] : k` would have two types.
template <class T>
struct Reference : Ref<T> {
    Reference(T &own) : Ref<T>(nullptr, &own) {}
    Reference(const Ref<T> &element) : Ref<T>(element) {}
    template <class U, class = std::enable_if_t<std::is_constructible_v<Ref<T>, const Ref<U> &>>>
    Reference(const Ref<U> &element) : Ref<T>(element) {}
    Reference(const Reference &) = default;
    using Ref<T>::operator=;
    WHET_EMULATOR_INLINE const Reference &operator=(const Reference &other) const {
        Ref<T>::operator=(static_cast<const Ref<T> &>(other));
        return *this;
    }
};

// A pointer that knows its buffer; null where it points to a thread's own variables.
template <class T>
struct Checked {
    const Buffer *buffer;
    T *at;
    Checked() = default;
    Checked(const Buffer *buffer, T *at) : buffer(buffer), at(at) {}
    Checked(T *at) : buffer(nullptr), at(at) {}
    template <class U, class = std::enable_if_t<
                           std::is_same_v<std::remove_cv_t<U>, std::remove_cv_t<T>> &&
                           !std::is_same_v<U, T> && std::is_convertible_v<U *, T *>>>
    Checked(const Checked<U> &other) : buffer(other.buffer), at(other.at) {}
    // seen as elements of another type, e.g. float4
    template <class U, class = std::enable_if_t<!std::is_convertible_v<U *, T *>>, class = void>
    explicit Checked(const Checked<U> &other)
        : buffer(other.buffer), at(reinterpret_cast<T *>(const_cast<std::remove_cv_t<U> *>(other.at))) {}
    template <class U, class = std::enable_if_t<!std::is_convertible_v<U *, T *>>>
    explicit Checked(U *at)
        : buffer(nullptr), at(reinterpret_cast<T *>(const_cast<std::remove_cv_t<U> *>(at))) {}
    template <class I>
    WHET_EMULATOR_INLINE decltype(auto) operator[](I index) const {
        if constexpr (std::is_const_v<T>) {
            typedef std::remove_cv_t<T> V;
            V *own = const_cast<V *>(at + index);
            check_read<sizeof(T), alignof(T), use_of<T>>(buffer, own);
            return V(*own);
        } else {
            return Ref<T>(buffer, at + index);
        }
    }
    decltype(auto) operator*() const { return (*this)[0]; }
    template <class I, class = std::enable_if_t<std::is_integral_v<I>>>
    Checked operator+(I n) const { return {buffer, at + n}; }
    template <class I, class = std::enable_if_t<std::is_integral_v<I>>>
    Checked operator-(I n) const { return {buffer, at - n}; }
    ptrdiff_t operator-(const Checked &other) const { return at - other.at; }
    Checked &operator+=(long long n) { return at += n, *this; }
    Checked &operator-=(long long n) { return at -= n, *this; }
    Checked &operator++() { return ++at, *this; }
    // for what takes plain pointers: unwatched from there on
    operator T *() const { return at; }
    template <class I, class = std::enable_if_t<std::is_integral_v<I> && sizeof(I) == 8>>
    explicit operator I() const { return reinterpret_cast<I>(at); }
};

template <class T>
auto Ref<T>::operator&() const { return Checked<T>(buffer, at); }

WHET_EMULATOR_INLINE inline void check_row(
    const Buffer *buffer, long long index, long long count, int bytes) {
    if (__builtin_expect(index < 0 || index >= count, 0))
        fail_access(OUT_OF_BOUNDS, buffer->scope, buffer->name, {index, count, bytes, false},
                    WHET_EMULATOR_HERE);
}

// Shared memory as it is declared in CUDA C, T name[8] or T name[8][9].
template <class T, size_t... EXTENTS>
struct Rows;
template <class T, size_t COUNT>
struct Rows<T, COUNT> : Checked<T> {
    static constexpr size_t bytes = sizeof(T) * COUNT;
    typedef T plain;
    using Checked<T>::Checked;
    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *> && !std::is_same_v<U, T>>>
    Rows(const Rows<U, COUNT> &other) : Checked<T>(other.buffer, other.at) {}
    template <class I>
    WHET_EMULATOR_INLINE decltype(auto) operator[](I index) const {
        check_row(this->buffer, static_cast<long long>(index), COUNT, sizeof(T));
        return Checked<T>::operator[](index);
    }
};
template <class T, size_t FIRST, size_t SECOND, size_t... REST>
struct Rows<T, FIRST, SECOND, REST...> {
    typedef Rows<T, SECOND, REST...> row;
    typedef typename std::conditional_t<sizeof...(REST) == 0, T[SECOND], typename row::plain[SECOND]>
        plain;
    static constexpr size_t bytes = FIRST * row::bytes;
    const Buffer *buffer;
    T *at;
    Rows(const Buffer *buffer, T *at) : buffer(buffer), at(at) {}
    Rows(plain (&own)[FIRST]) : buffer(nullptr), at(reinterpret_cast<T *>(own)) {}
    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *> && !std::is_same_v<U, T>>>
    Rows(const Rows<U, FIRST, SECOND, REST...> &other) : buffer(other.buffer), at(other.at) {}
    template <class I>
    WHET_EMULATOR_INLINE row operator[](I index) const {
        check_row(buffer, static_cast<long long>(index), FIRST, row::bytes);
        return row(buffer, at + index * (row::bytes / sizeof(T)));
    }
};

// A pointer to rows, float (*t)[33].
template <class T, size_t... EXTENTS>
struct RowsPointer {
    typedef Rows<T, EXTENTS...> row;
    typedef typename Rows<T, 1, EXTENTS...>::plain plain;
    static constexpr size_t size = row::bytes / sizeof(T);
    const Buffer *buffer;
    T *at;
    RowsPointer() = default;
    RowsPointer(const Buffer *buffer, T *at) : buffer(buffer), at(at) {}
    RowsPointer(plain *own) : buffer(nullptr), at(reinterpret_cast<T *>(own)) {}
    template <class U, size_t FIRST, class = std::enable_if_t<std::is_convertible_v<U *, T *>>>
    RowsPointer(const Rows<U, FIRST, EXTENTS...> &rows) : buffer(rows.buffer), at(rows.at) {}
    template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *>>>
    RowsPointer(const RowsPointer<U, EXTENTS...> &other) : buffer(other.buffer), at(other.at) {}
    template <class I>
    WHET_EMULATOR_INLINE row operator[](I index) const {
        return row(buffer, at + static_cast<long long>(index) * static_cast<long long>(size));
    }
    row operator*() const { return (*this)[0]; }
    template <class I>
    RowsPointer operator+(I n) const { return {buffer, at + n * static_cast<long long>(size)}; }
    RowsPointer &operator++() { return at += size, *this; }
};

// The watched form of an array's type: T[4][2].
template <class A>
struct RowsOf;
template <class T, size_t N>
struct RowsOf<T[N]> { typedef Rows<T, N> type; };
template <class T, size_t N, size_t M>
struct RowsOf<T[N][M]> { typedef Rows<T, N, M> type; };
template <class T, size_t N, size_t M, size_t K>
struct RowsOf<T[N][M][K]> { typedef Rows<T, N, M, K> type; };
template <class A>
using rows_of = typename RowsOf<A>::type;

// A member of an element: a place of its own where the element is one.
template <class M>
WHET_EMULATOR_INLINE inline auto place_of(const Buffer *buffer, M *at) {
    if constexpr (std::is_array_v<M>)
        return rows_of<M>(buffer, reinterpret_cast<std::remove_all_extents_t<M> *>(at));
    else
        return Ref<M>(buffer, at);
}
template <class T>
constexpr bool is_place = false;
template <class T>
constexpr bool is_place<Ref<T>> = true;
template <class T>
constexpr bool is_place<Reference<T>> = true;
template <class V, class F>
WHET_EMULATOR_INLINE inline decltype(auto) member(V &&element, F address) {
    if constexpr (is_place<std::remove_cvref_t<V>>)
        return place_of(element.buffer, address(element.at));
    else if constexpr (std::is_lvalue_reference_v<V>)
        return *address(__builtin_addressof(element));
    else
        return std::remove_cvref_t<decltype(*address(__builtin_addressof(element)))>(
            *address(__builtin_addressof(element)));
}

// As of references: the two elements' values.
template <class T>
inline void swap(const Ref<T> &a, const Ref<T> &b) {
    const T held = a.get();
    a.set(b.get());
    b.set(held);
}

// A thread's own array, which forgets nothing: what was not written is not read.
template <class T>
struct Owned {
    const char *name;
    T *data;
    bool *written;
    long long count;
};

// A place in one. Where a condition chooses between it and a place elsewhere, it is read.
template <class T>
struct OwnedRef : Place<OwnedRef<T>, T> {
    const Owned<T> *array;
    long long index;
    OwnedRef(const Owned<T> *array, long long index) : array(array), index(index) {}
    OwnedRef(const OwnedRef &) = default;
    using Place<OwnedRef<T>, T>::operator=;
    WHET_EMULATOR_INLINE const OwnedRef &operator=(const OwnedRef &other) const {
        return *this = other.get();
    }
    operator Ref<T>() const { return get(), Ref<T>(nullptr, array->data + index); }
    WHET_EMULATOR_INLINE T get() const {
        if (__builtin_expect(!array->written[index], 0))
            fail_access(UNWRITTEN, LOCAL, array->name, {index, array->count, sizeof(T), false},
                        WHET_EMULATOR_HERE);
        return array->data[index];
    }
    WHET_EMULATOR_INLINE void set(T value) const {
        array->written[index] = true;
        array->data[index] = value;
    }
};

template <class T, class I>
WHET_EMULATOR_INLINE inline void check_local_row(
    const Owned<T> *array, long long first, I index, size_t rows, size_t each) {
    const long long at = static_cast<long long>(index), size = static_cast<long long>(each);
    if (__builtin_expect(at < 0 || at >= static_cast<long long>(rows), 0))
        fail_access(OUT_OF_BOUNDS, LOCAL, array->name,
                    {first + at * size, array->count, sizeof(T), false}, WHET_EMULATOR_HERE);
}

template <class T, size_t COUNT>
struct Local : Owned<T> {
    T values[COUNT];
    bool known[COUNT];
    explicit Local(const char *name, bool zeros = false) : Owned<T>{name, values, known, COUNT} {
        memset(static_cast<void *>(values), zeros ? 0 : 0xff, sizeof values);
        memset(known, zeros, sizeof known);
    }
    template <class I>
    WHET_EMULATOR_INLINE OwnedRef<T> operator[](I index) {
        if (__builtin_expect(index < 0 || static_cast<long long>(index) >= static_cast<long long>(COUNT), 0))
            fail_access(OUT_OF_BOUNDS, LOCAL, this->name,
                        {static_cast<long long>(index), COUNT, sizeof(T), false}, WHET_EMULATOR_HERE);
        return {this, static_cast<long long>(index)};
    }
};

// One with several dimensions: its rows, and rows of rows.
template <class T, size_t... EXTENTS>
struct LocalRow;
template <class T, size_t COUNT>
struct LocalRow<T, COUNT> {
    static constexpr size_t size = COUNT;
    const Owned<T> *array;
    long long first;
    template <class I>
    WHET_EMULATOR_INLINE OwnedRef<T> operator[](I index) const {
        check_local_row(array, first, index, COUNT, 1);
        return {array, first + static_cast<long long>(index)};
    }
};
template <class T, size_t FIRST, size_t SECOND, size_t... REST>
struct LocalRow<T, FIRST, SECOND, REST...> {
    typedef LocalRow<T, SECOND, REST...> row;
    static constexpr size_t size = FIRST * row::size;
    const Owned<T> *array;
    long long first;
    template <class I>
    WHET_EMULATOR_INLINE row operator[](I index) const {
        check_local_row(array, first, index, FIRST, row::size);
        return {array, first + static_cast<long long>(index) * static_cast<long long>(row::size)};
    }
};
template <class T, size_t... EXTENTS>
struct LocalRows : Local<T, (size_t(1) * ... * EXTENTS)> {
    using Local<T, (size_t(1) * ... * EXTENTS)>::Local;
    template <class I>
    WHET_EMULATOR_INLINE auto operator[](I index) {
        return LocalRow<T, EXTENTS...>{this, 0}[index];
    }
};

static unsigned char *arena;  // a block's dynamic shared memory
static size_t arena_bytes, dynamic_bytes;  // what it has room for; what this launch asked for
static Cell *shared_cells;

// A name of file scope for dynamic shared memory: each launch says anew where that is.
struct FileArena {
    static inline const FileArena *first = nullptr;
    void (*place)();
    const FileArena *next;
    explicit FileArena(void (*place)()) : place(place), next(first) { first = this; }
};

}  // namespace whet_emulator
