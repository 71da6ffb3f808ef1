// CUDA's functions: on bytes, atomic ones, of time and of mathematics.
#pragma once
#include "lanes.h"

namespace whet_emulator {

// How many threads of a block say yes, at a barrier that all of them come by.
inline int count_of_block(bool said, Site site) {
    static uint32_t counted;  // the interval
    static int found;
    if (counted != interval) found = 0;
    counted = interval;
    found += said;
    block_barrier(site);
    const int result = found;
    block_barrier(site);
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
inline T atomically(const Checked<T> &p, F change, bool compares = false) {
    if (p.buffer == nullptr) {
        hand_over(true);  // the device's own arrays are not watched: who came by is not known
    } else if (p.buffer->scope == GLOBAL && p.buffer->cells != nullptr) {
        const ptrdiff_t offset = reinterpret_cast<const unsigned char *>(p.at) - p.buffer->base;
        if (offset >= 0 && size_t(offset) < p.buffer->bytes) {
            const Cell &cell = p.buffer->cells[offset / WHET_EMULATOR_GRANULE];
            const bool here = cell.written >= block_first && acquired_at != 0;
            hand_over(strong(cell.writer) && (in_another_block(cell.written) || here));
        }
    }
    check_write<sizeof(T), alignof(T), COUNTED>(p.buffer, p.at, nullptr, compares);
    const T old = *p.at;
    *p.at = change(old);
    return old;
}

}  // namespace whet_emulator

template <class A, class B, class C>
inline auto whet_dp4a(A a, B b, C c) { return whet_emulator::dp4a(a, b, c); }
inline unsigned whet_pack(int a, int b, int c, int d) {
    return unsigned(a & 255) | unsigned(b & 255) << 8 | unsigned(c & 255) << 16 | unsigned(d) << 24;
}
template <class V, class B>
inline V whet_transpose4x4(B a, B b, B c, B d) {
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
#define whet_turn whet_transpose4x4  // its name in texts of earlier versions
#define __syncthreads_count(said)                                                                  \
    whet_emulator::count_of_block(bool(said), WHET_EMULATOR_SITE("__syncthreads_count"))
#define __syncthreads_or(said)                                                                     \
    int(whet_emulator::count_of_block(bool(said), WHET_EMULATOR_SITE("__syncthreads_or")) != 0)
#define __syncthreads_and(said)                                                                    \
    int(whet_emulator::count_of_block(!(said), WHET_EMULATOR_SITE("__syncthreads_and")) == 0)
#define __dp4a(a, b, c) whet_emulator::dp4a(a, b, c)

#define whet_trap(number, message) whet_emulator::fail_trap(message, __LINE__)
#define __trap() whet_emulator::fail_trap("__trap()", __LINE__)
#define assert(...)                                                                                \
    ((__VA_ARGS__) ? void(0) : whet_emulator::fail_trap("assert(" #__VA_ARGS__ ")", __LINE__))
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
// these two are volatile
template <class T>
inline auto __ldcv(const whet_emulator::Checked<T> &p) {
    return std::remove_cv_t<T>(whet_emulator::Checked<const volatile T>(p)[0]);
}
template <class T>
inline T __ldcv(const T *p) { return *p; }
template <class T, class V>
inline void __stwt(const whet_emulator::Checked<T> &p, V value) {
    const whet_emulator::Checked<volatile T> to = p;
    to[0] = value;
}
template <class T, class V>
inline void __stwt(T *p, V value) { *p = value; }
template <class P, class V>
inline void whet_emulator_store(P p, V value) { *p = value; }
#define __stwb whet_emulator_store
#define __stcg whet_emulator_store
#define __stcs whet_emulator_store

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
    return whet_emulator::atomically(p, [=](T old) { return old == wanted ? put : old; }, true);
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
inline double sinpi(double x) { return sin(M_PI * fmod(x, 2.0)); }
inline double cospi(double x) { return cos(M_PI * fmod(x, 2.0)); }
template <class P, class Q>
inline void sincospif(float x, P s, Q c) { *s = sinpif(x), *c = cospif(x); }
template <class P, class Q>
inline void sincospi(double x, P s, Q c) { *s = sinpi(x), *c = cospi(x); }
inline double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline float rhypotf(float x, float y) { return float(1.0 / hypot(double(x), double(y))); }
inline double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
inline double norm3d(double x, double y, double z) { return hypot(hypot(x, y), z); }
inline float norm3df(float x, float y, float z) { return float(norm3d(x, y, z)); }
inline double rnorm3d(double x, double y, double z) { return 1.0 / norm3d(x, y, z); }
inline float rnorm3df(float x, float y, float z) { return float(rnorm3d(x, y, z)); }
inline double norm4d(double x, double y, double z, double w) { return hypot(norm3d(x, y, z), w); }
inline float norm4df(float x, float y, float z, float w) { return float(norm4d(x, y, z, w)); }
inline float normcdff(float x) { return float(0.5 * erfc(-double(x) * M_SQRT1_2)); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
