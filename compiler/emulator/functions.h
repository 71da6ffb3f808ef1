// CUDA's functions: between the lanes of a warp, on bytes and bits, atomic ones, and mathematics.
#pragma once
#include "memory.h"
#include "types.h"

namespace whet_emulator {

template <class T, class... OF>
constexpr bool one_of = (std::is_same_v<T, OF> || ...);

// Whether CUDA's functions between lanes take a number of this type: as it is, or as an int.
template <class T>
constexpr bool number =
    (std::is_arithmetic_v<T> && sizeof(T) <= 8) || (std::is_enum_v<T> && std::is_convertible_v<T, int>);
template <class T>
constexpr bool moves_between_lanes =
    number<T> || one_of<T, half, half2, nv_bfloat16, nv_bfloat162, float16, bfloat16>;

// The value that another lane of the warp gives; all 32 lanes must come by.
template <class T>
inline T exchange(T value, int lane, int line, uint32_t mask = 0xffffffffu) {
    static_assert(moves_between_lanes<T>,
                  "CUDA's shuffles move one number of up to 8 bytes, or a half2: "
                  "no other vector, no struct, no pointer");
    Warp *warp = current->warp;
    memcpy(warp->slots[current->number & 31], &value, sizeof value);
    warp_barrier(line, mask, false);
    T result;
    if ((warp->alive & mask) >> (lane & 31) & 1)
        memcpy(static_cast<void *>(&result), warp->slots[lane & 31], sizeof result);
    else
        memset(static_cast<void *>(&result), 0xff, sizeof result);  // a lane that is not there
    warp_barrier(line, mask, false);
    return result;
}

inline int lane() { return current->number & 31; }
// The lane of the same group of `width` lanes; the own one where that is beyond the group.
inline int lane_at(int own, int other, int width) {
    return (own ^ other) & ~(width - 1) || other < 0 ? own : other;
}
// Exclusive or reaches earlier groups, too; what is beyond the own group is the own lane.
inline int lane_across(int own, int lanes, int width) {
    const int other = own ^ lanes;
    return other > (own | (width - 1)) ? own : other;
}

template <class T>
inline T shuffle(uint32_t mask, T value, int from, int width, int line) {
    const int own = lane();
    return exchange(value, (own & ~(width - 1)) | (from & (width - 1)), line, mask);
}
template <class T>
inline T shuffle_to(uint32_t mask, T value, int from, int width, int line) {
    return exchange(value, lane_at(lane(), from, width), line, mask);
}
template <class T>
inline T shuffle_across(uint32_t mask, T value, int lanes, int width, int line) {
    return exchange(value, lane_across(lane(), lanes, width), line, mask);
}
inline uint32_t ballot(uint32_t mask, bool said, int line) {
    uint32_t result = 0;
    const int own = lane();
    const uint32_t bit = said ? 1u << own : 0;
    Warp *warp = current->warp;
    memcpy(warp->slots[own], &bit, sizeof bit);
    warp_barrier(line, mask, false);
    for (int k = 0; k < 32; ++k) {
        uint32_t held = 0;
        if ((warp->alive & mask) >> k & 1) memcpy(&held, warp->slots[k], sizeof held);
        result |= held;
    }
    warp_barrier(line, mask, false);
    return result;
}

// What stands in a place in memory; other values as they are.
template <class V>
constexpr inline auto value_of(const V &v) {
    if constexpr (requires { typename V::value_type; })
        return static_cast<typename V::value_type>(v);
    else if constexpr (std::is_array_v<V>)
        return (std::remove_extent_t<V> *)v;
    else
        return v;
}

// Of the lanes of a mask: those that give the same value, and what an operation makes of all values.
template <class T>
inline uint32_t same_value(uint32_t mask, T value, int line) {
    static_assert(number<T>, "CUDA has __match_any_sync of one number alone");
    uint32_t result = 0;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const int other = __builtin_ctz(rest);
        const T given = exchange(value, other, line, mask);
        if (memcmp(&given, &value, sizeof value) == 0) result |= 1u << other;
    }
    return result;
}
template <class T, class F>
inline T reduced(uint32_t mask, T value, int line, F join) {
    static_assert(one_of<T, int, unsigned>, "CUDA has __reduce_.._sync of int, unsigned alone");
    T result = exchange(value, __builtin_ctz(mask), line, mask);
    for (uint32_t rest = mask & (mask - 1); rest != 0; rest &= rest - 1)
        result = join(result, exchange(value, __builtin_ctz(rest), line, mask));
    return result;
}

// How many threads of a block say yes, at a barrier that all of them come by.
inline int count_of_block(bool said, int line) {
    static uint32_t counted;  // the interval
    static int found;
    if (counted != interval) found = 0;
    counted = interval;
    found += said;
    block_barrier(line);
    const int result = found;
    block_barrier(line);
    return result;
}
static long long ticks;

inline int dp4a(int a, int b, int c) {
    for (int k = 0; k < 32; k += 8) c += int(int8_t(a >> k)) * int(int8_t(b >> k));
    return c;
}
inline unsigned dp4a(unsigned a, unsigned b, unsigned c) {
    for (int k = 0; k < 32; k += 8) c += (a >> k & 255u) * (b >> k & 255u);
    return c;
}

// Reads, changes and writes a place in one go; other atomic operations on it are no race.
template <class T, class F>
inline T atomically(const Checked<T> &p, F change) {
    if (p.buffer == nullptr) {
        hand_over(true);  // the device's own arrays are not watched: who came by is not known
    } else if (p.buffer->scope == GLOBAL && p.buffer->cells != nullptr) {
        const ptrdiff_t offset = reinterpret_cast<const unsigned char *>(p.at) - p.buffer->base;
        if (offset >= 0 && size_t(offset) < p.buffer->bytes) {
            const Cell &cell = p.buffer->cells[offset / WHET_EMULATOR_GRANULE];
            const bool here = cell.written >= block_first && acquired_at != 0;
            hand_over(cell.writer == ATOMIC && (in_another_block(cell.written) || here));
        }
    }
    check_write<sizeof(T), alignof(T)>(p.buffer, p.at, nullptr, true);
    const T old = *p.at;
    *p.at = change(old);
    return old;
}

}  // namespace whet_emulator

#define whet_warp_shuffle(value, lanes, ...)                                                       \
    whet_emulator_shuffle(0xffffffffu, value, lanes, __LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define whet_warp_shuffle_down(value, lanes, ...)                                                  \
    whet_emulator_shuffle_down(0xffffffffu, value, lanes, __LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define whet_warp_shuffle_up(value, lanes, ...)                                                    \
    whet_emulator_shuffle_up(0xffffffffu, value, lanes, __LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define whet_warp_shuffle_xor(value, lanes, ...)                                                   \
    whet_emulator_shuffle_xor(0xffffffffu, value, lanes, __LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define __shfl_sync(mask, value, lanes, ...)                                                       \
    whet_emulator_shuffle(mask, value, lanes, __LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define __shfl_down_sync(mask, value, lanes, ...)                                                  \
    whet_emulator_shuffle_down(mask, value, lanes, __LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define __shfl_up_sync(mask, value, lanes, ...)                                                    \
    whet_emulator_shuffle_up(mask, value, lanes, __LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define __shfl_xor_sync(mask, value, lanes, ...)                                                   \
    whet_emulator_shuffle_xor(mask, value, lanes, __LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define __ballot_sync(mask, said) whet_emulator::ballot(mask, bool(said), __LINE__)
#define __any_sync(mask, said) int(whet_emulator::ballot(mask, bool(said), __LINE__) != 0)
#define __all_sync(mask, said) int(whet_emulator::ballot(mask, !(said), __LINE__) == 0)
#define __match_any_sync(mask, value)                                                              \
    whet_emulator::same_value(mask, whet_emulator::value_of(value), __LINE__)
#define WHET_EMULATOR_REDUCE(mask, value, expression)                                              \
    whet_emulator::reduced(mask, +whet_emulator::value_of(value), __LINE__, [](auto a, auto b) {   \
        return decltype(a)(expression);                                                            \
    })
#define __reduce_add_sync(mask, value) WHET_EMULATOR_REDUCE(mask, value, a + b)
#define __reduce_min_sync(mask, value) WHET_EMULATOR_REDUCE(mask, value, b < a ? b : a)
#define __reduce_max_sync(mask, value) WHET_EMULATOR_REDUCE(mask, value, a < b ? b : a)
#define __reduce_and_sync(mask, value) WHET_EMULATOR_REDUCE(mask, unsigned(value), a & b)
#define __reduce_or_sync(mask, value) WHET_EMULATOR_REDUCE(mask, unsigned(value), a | b)
#define __reduce_xor_sync(mask, value) WHET_EMULATOR_REDUCE(mask, unsigned(value), a ^ b)
#define __syncthreads_count(said) whet_emulator::count_of_block(bool(said), __LINE__)
#define __syncthreads_or(said) int(whet_emulator::count_of_block(bool(said), __LINE__) != 0)
#define __syncthreads_and(said) int(whet_emulator::count_of_block(!(said), __LINE__) == 0)
#define __activemask() (whet_emulator::current->warp->alive)

template <class V>
inline auto whet_emulator_shuffle(uint32_t mask, const V &value, int lanes, int line, int width = 32) {
    return whet_emulator::shuffle(mask, whet_emulator::value_of(value), lanes, width, line);
}
template <class V>
inline auto whet_emulator_shuffle_down(uint32_t mask, const V &value, int lanes, int line, int width = 32) {
    return whet_emulator::shuffle_to(
        mask, whet_emulator::value_of(value), whet_emulator::lane() + lanes, width, line);
}
template <class V>
inline auto whet_emulator_shuffle_up(uint32_t mask, const V &value, int lanes, int line, int width = 32) {
    return whet_emulator::shuffle_to(
        mask, whet_emulator::value_of(value), whet_emulator::lane() - lanes, width, line);
}
template <class V>
inline auto whet_emulator_shuffle_xor(uint32_t mask, const V &value, int lanes, int line, int width = 32) {
    return whet_emulator::shuffle_across(
        mask, whet_emulator::value_of(value), lanes, width, line);
}

template <class A, class B, class C>
inline auto whet_dp4a(A a, B b, C c) { return whet_emulator::dp4a(a, b, c); }
inline unsigned whet_pack(int a, int b, int c, int d) {
    return unsigned(a & 255) | unsigned(b & 255) << 8 | unsigned(c & 255) << 16 | unsigned(d) << 24;
}
template <class V, class B>
inline V whet_turn(B a, B b, B c, B d) {
    unsigned rows[4];  // as in CUDA's prelude, so that its selectors are tried
    memcpy(rows, &a, 4), memcpy(rows + 1, &b, 4), memcpy(rows + 2, &c, 4), memcpy(rows + 3, &d, 4);
    const unsigned ab = __byte_perm(rows[0], rows[1], 0x5140);
    const unsigned cd = __byte_perm(rows[2], rows[3], 0x5140);
    const unsigned ab_high = __byte_perm(rows[0], rows[1], 0x7362);
    const unsigned cd_high = __byte_perm(rows[2], rows[3], 0x7362);
    V words;
    words[0] = __byte_perm(ab, cd, 0x5410), words[1] = __byte_perm(ab, cd, 0x7632);
    words[2] = __byte_perm(ab_high, cd_high, 0x5410);
    words[3] = __byte_perm(ab_high, cd_high, 0x7632);
    return words;
}
#define __dp4a(a, b, c) whet_emulator::dp4a(a, b, c)

#define whet_trap(number, message) whet_emulator::fail_trap(message, __LINE__)
#define __trap() whet_emulator::fail_trap("__trap()", __LINE__)
#define assert(test) ((test) ? void(0) : whet_emulator::fail_trap("assert(" #test ")", __LINE__))
#define __builtin_assume(test) ((void)0)
inline void __threadfence() { whet_emulator::fence(); }
inline void __threadfence_system() { whet_emulator::fence(); }
inline void __threadfence_block() {}
inline void __nanosleep(unsigned) {}
inline long long clock64() { return ++whet_emulator::ticks; }
inline long clock() { return ++whet_emulator::ticks; }
template <class T>
inline T __ldg(const T *p) { return *p; }
template <class T>
inline auto __ldg(const whet_emulator::Checked<T> &p) { return std::remove_const_t<T>(p[0]); }
// which cache keeps it, changes no number
#define __ldca __ldg
#define __ldcg __ldg
#define __ldcs __ldg
#define __ldlu __ldg
#define __ldcv __ldg
template <class P, class V>
inline void whet_emulator_store(P p, V value) { *p = value; }
#define __stwb whet_emulator_store
#define __stcg whet_emulator_store
#define __stcs whet_emulator_store
#define __stwt whet_emulator_store

// the types are those that CUDA has them of
#define WHET_EMULATOR_TYPES(name, ...)                                                             \
    static_assert(whet_emulator::one_of<T, __VA_ARGS__>, "CUDA has " #name " of " #__VA_ARGS__ " alone")
#define WHET_EMULATOR_ATOMIC(name, expression, ...)                                                \
    template <class T, class V>                                                                    \
    inline T name(const whet_emulator::Checked<T> &p, V given) {                                   \
        WHET_EMULATOR_TYPES(name, __VA_ARGS__);                                                    \
        const T value = T(given);                                                                  \
        return whet_emulator::atomically(p, [=](T old) { return T(expression); });                 \
    }                                                                                              \
    template <class T, class V>                                                                    \
    inline T name(T *p, V given) {                                                                 \
        return name(whet_emulator::Checked<T>(p), given);                                          \
    }
#define WHET_EMULATOR_INTEGERS int, unsigned, long long, unsigned long long
WHET_EMULATOR_ATOMIC(atomicAdd, old + value, int, unsigned, unsigned long long, float, double, half,
                     half2, nv_bfloat16, nv_bfloat162)
WHET_EMULATOR_ATOMIC(atomicSub, old - value, int, unsigned)
WHET_EMULATOR_ATOMIC(atomicMax, old < value ? value : old, WHET_EMULATOR_INTEGERS)
WHET_EMULATOR_ATOMIC(atomicMin, value < old ? value : old, WHET_EMULATOR_INTEGERS)
WHET_EMULATOR_ATOMIC(atomicExch, value, int, unsigned, unsigned long long, float)
WHET_EMULATOR_ATOMIC(atomicAnd, old & value, WHET_EMULATOR_INTEGERS)
WHET_EMULATOR_ATOMIC(atomicOr, old | value, WHET_EMULATOR_INTEGERS)
WHET_EMULATOR_ATOMIC(atomicXor, old ^ value, WHET_EMULATOR_INTEGERS)
WHET_EMULATOR_ATOMIC(atomicInc, old >= value ? T(0) : old + T(1), unsigned)
WHET_EMULATOR_ATOMIC(atomicDec, old == T(0) || old > value ? value : old - T(1), unsigned)
#undef WHET_EMULATOR_ATOMIC
#undef WHET_EMULATOR_INTEGERS
template <class T, class V, class W>
inline T atomicCAS(const whet_emulator::Checked<T> &p, V expected, W value) {
    WHET_EMULATOR_TYPES(atomicCAS, int, unsigned, unsigned long long, unsigned short);
    const T wanted = T(expected), put = T(value);
    return whet_emulator::atomically(p, [=](T old) { return old == wanted ? put : old; });
}
template <class T, class V, class W>
inline T atomicCAS(T *p, V expected, W value) {
    return atomicCAS(whet_emulator::Checked<T>(p), expected, value);
}
#undef WHET_EMULATOR_TYPES

// ---- mathematics: what CUDA has beyond C's library

#define WHET_EMULATOR_PICK(type)                                                                   \
    inline type min(type a, type b) { return b < a ? b : a; }                                      \
    inline type max(type a, type b) { return a < b ? b : a; }
WHET_EMULATOR_PICK(int)
WHET_EMULATOR_PICK(unsigned)
WHET_EMULATOR_PICK(long)
WHET_EMULATOR_PICK(unsigned long)
WHET_EMULATOR_PICK(long long)
WHET_EMULATOR_PICK(unsigned long long)
#undef WHET_EMULATOR_PICK
#define WHET_EMULATOR_PICK(signed_type, unsigned_type)                                             \
    inline unsigned_type min(signed_type a, unsigned_type b) { return min((unsigned_type)a, b); }  \
    inline unsigned_type min(unsigned_type a, signed_type b) { return min(a, (unsigned_type)b); }  \
    inline unsigned_type max(signed_type a, unsigned_type b) { return max((unsigned_type)a, b); }  \
    inline unsigned_type max(unsigned_type a, signed_type b) { return max(a, (unsigned_type)b); }
WHET_EMULATOR_PICK(int, unsigned)
WHET_EMULATOR_PICK(long, unsigned long)
WHET_EMULATOR_PICK(long long, unsigned long long)
#undef WHET_EMULATOR_PICK
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double max(double a, float b) { return fmax(a, b); }

inline float rsqrtf(float x) { return float(1.0 / sqrt(double(x))); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return powf(10.0f, x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float fdividef(float x, float y) { return x / y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline void __sincosf(float x, float *s, float *c) { *s = sinf(x), *c = cosf(x); }
inline float sinpif(float x) { return float(sin(M_PI * fmod(double(x), 2.0))); }
inline float cospif(float x) { return float(cos(M_PI * fmod(double(x), 2.0))); }
inline float normcdff(float x) { return float(0.5 * erfc(-double(x) * M_SQRT1_2)); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
