// CUDA's built-in functions of numbers: 16-bit floats and pairs of them, conversions, bits.
#pragma once
#include <limits>
#include "types.h"

namespace whet_emulator {

// As on the device (PTX: cvt): what does not fit is the nearest number that does, and what is none
// is 0, or the highest bit alone where either type has 64 bits.
template <class To, class From>
inline To to_integer(From given) {
    typedef std::numeric_limits<To> limits;
    constexpr bool wide = sizeof(To) == 8 || sizeof(From) == 8;
    const double value = given;
    if (value != value) return wide ? To(uint64_t(1) << (8 * sizeof(To) - 1)) : To(0);
    if (value <= double(limits::min())) return limits::min();
    return value >= double(limits::max()) ? limits::max() : To(value);
}

}  // namespace whet_emulator

// ---- floats of 16 bits: each operation is rounded once, from the exact result or from double's

#define WHET_EMULATOR_ONE(name, type, expression)                                                  \
    inline type name(type a) { return type(expression); }
#define WHET_EMULATOR_TWO(name, type, expression)                                                  \
    inline type name(type a, type b) { return type(expression); }
#define WHET_EMULATOR_TEST(name, type, operation)                                                  \
    inline bool name(type a, type b) { return float(a) operation float(b); }
#define WHET_EMULATOR_HALVES(type)                                                                 \
    WHET_EMULATOR_TWO(__hadd, type, a + b)                                                         \
    WHET_EMULATOR_TWO(__hsub, type, a - b)                                                         \
    WHET_EMULATOR_TWO(__hmul, type, a * b)                                                         \
    WHET_EMULATOR_TWO(__hdiv, type, a / b)                                                         \
    WHET_EMULATOR_TWO(__hmax, type, fmaxf(float(a), float(b)))                                     \
    WHET_EMULATOR_TWO(__hmin, type, fminf(float(a), float(b)))                                     \
    WHET_EMULATOR_TEST(__heq, type, ==)                                                            \
    inline bool __hne(type a, type b) { return float(a) < float(b) || float(a) > float(b); }       \
    WHET_EMULATOR_TEST(__hlt, type, <)                                                             \
    WHET_EMULATOR_TEST(__hle, type, <=)                                                            \
    WHET_EMULATOR_TEST(__hgt, type, >)                                                             \
    WHET_EMULATOR_TEST(__hge, type, >=)                                                            \
    inline bool __hisnan(type a) { return float(a) != float(a); }                                  \
    inline int __hisinf(type a) { return __builtin_isinf_sign(float(a)); }                         \
    inline type __hfma(type a, type b, type c) {                                                   \
        return type(fma(double(float(a)), double(float(b)), double(float(c))));                    \
    }                                                                                              \
    inline type __hneg(type a) { return -a; }                                                      \
    WHET_EMULATOR_ONE(__habs, type, fabsf(float(a)))                                               \
    WHET_EMULATOR_ONE(hexp, type, exp(double(float(a))))                                           \
    WHET_EMULATOR_ONE(hexp2, type, exp2(double(float(a))))                                         \
    WHET_EMULATOR_ONE(hexp10, type, pow(10.0, double(float(a))))                                   \
    WHET_EMULATOR_ONE(hlog, type, log(double(float(a))))                                           \
    WHET_EMULATOR_ONE(hlog2, type, log2(double(float(a))))                                         \
    WHET_EMULATOR_ONE(hlog10, type, log10(double(float(a))))                                       \
    WHET_EMULATOR_ONE(hsqrt, type, sqrt(double(float(a))))                                         \
    WHET_EMULATOR_ONE(hrsqrt, type, 1.0 / sqrt(double(float(a))))                                  \
    WHET_EMULATOR_ONE(hrcp, type, 1.0 / double(float(a)))                                          \
    WHET_EMULATOR_ONE(hsin, type, sin(double(float(a))))                                           \
    WHET_EMULATOR_ONE(hcos, type, cos(double(float(a))))                                           \
    WHET_EMULATOR_ONE(hfloor, type, floorf(float(a)))                                              \
    WHET_EMULATOR_ONE(hceil, type, ceilf(float(a)))                                                \
    WHET_EMULATOR_ONE(htrunc, type, truncf(float(a)))                                              \
    WHET_EMULATOR_ONE(hrint, type, nearbyintf(float(a)))
WHET_EMULATOR_HALVES(__half)
WHET_EMULATOR_HALVES(__nv_bfloat16)
#undef WHET_EMULATOR_HALVES
#undef WHET_EMULATOR_ONE
#undef WHET_EMULATOR_TWO
#undef WHET_EMULATOR_TEST

#define WHET_EMULATOR_EACH(name, pair, one)                                                        \
    inline pair name(pair a) { return {one(a.x), one(a.y)}; }
#define WHET_EMULATOR_BOTH(name, pair, one)                                                        \
    inline pair name(pair a, pair b) { return {one(a.x, b.x), one(a.y, b.y)}; }
#define WHET_EMULATOR_PAIRS(pair)                                                                  \
    WHET_EMULATOR_BOTH(__hadd2, pair, __hadd)                                                      \
    WHET_EMULATOR_BOTH(__hsub2, pair, __hsub)                                                      \
    WHET_EMULATOR_BOTH(__hmul2, pair, __hmul)                                                      \
    WHET_EMULATOR_BOTH(__h2div, pair, __hdiv)                                                      \
    WHET_EMULATOR_BOTH(__hmax2, pair, __hmax)                                                      \
    WHET_EMULATOR_BOTH(__hmin2, pair, __hmin)                                                      \
    WHET_EMULATOR_BOTH(operator+, pair, __hadd)                                                    \
    WHET_EMULATOR_BOTH(operator-, pair, __hsub)                                                    \
    WHET_EMULATOR_BOTH(operator*, pair, __hmul)                                                    \
    WHET_EMULATOR_BOTH(operator/, pair, __hdiv)                                                    \
    inline pair &operator+=(pair &a, pair b) { return a = a + b; }                                 \
    inline pair &operator-=(pair &a, pair b) { return a = a - b; }                                 \
    inline pair &operator*=(pair &a, pair b) { return a = a * b; }                                 \
    inline pair __hfma2(pair a, pair b, pair c) {                                                  \
        return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};                                     \
    }                                                                                              \
    WHET_EMULATOR_EACH(__hneg2, pair, __hneg)                                                      \
    WHET_EMULATOR_EACH(__habs2, pair, __habs)                                                      \
    WHET_EMULATOR_EACH(h2exp, pair, hexp)                                                          \
    WHET_EMULATOR_EACH(h2exp2, pair, hexp2)                                                        \
    WHET_EMULATOR_EACH(h2log, pair, hlog)                                                          \
    WHET_EMULATOR_EACH(h2sqrt, pair, hsqrt)                                                        \
    WHET_EMULATOR_EACH(h2rsqrt, pair, hrsqrt)                                                      \
    WHET_EMULATOR_EACH(h2rcp, pair, hrcp)                                                          \
    inline float __low2float(pair a) { return float(a.x); }                                        \
    inline float __high2float(pair a) { return float(a.y); }
WHET_EMULATOR_PAIRS(__half2)
WHET_EMULATOR_PAIRS(__nv_bfloat162)
#undef WHET_EMULATOR_PAIRS
#undef WHET_EMULATOR_EACH
#undef WHET_EMULATOR_BOTH

inline half2 make_half2(half x, half y) { return {x, y}; }
inline half2 __halves2half2(half x, half y) { return {x, y}; }
inline half2 __half2half2(half x) { return {x, x}; }
inline half2 __float2half2_rn(float x) { return {half(x), half(x)}; }
inline half2 __floats2half2_rn(float x, float y) { return {half(x), half(y)}; }
inline half2 __float22half2_rn(float2 v) { return {half(v.x), half(v.y)}; }
inline float2 __half22float2(half2 v) { return {float(v.x), float(v.y)}; }
inline half __low2half(half2 v) { return v.x; }
inline half __high2half(half2 v) { return v.y; }
inline half2 __low2half2(half2 v) { return {v.x, v.x}; }
inline half2 __high2half2(half2 v) { return {v.y, v.y}; }
inline half2 __lowhigh2highlow(half2 v) { return {v.y, v.x}; }
inline nv_bfloat162 make_bfloat162(nv_bfloat16 x, nv_bfloat16 y) { return {x, y}; }
inline nv_bfloat162 __halves2bfloat162(nv_bfloat16 x, nv_bfloat16 y) { return {x, y}; }
inline nv_bfloat162 __bfloat162bfloat162(nv_bfloat16 x) { return {x, x}; }
inline nv_bfloat16 __float2bfloat16_rn(float x) { return nv_bfloat16(x); }
inline nv_bfloat162 __float2bfloat162_rn(float x) { return {nv_bfloat16(x), nv_bfloat16(x)}; }
inline nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {nv_bfloat16(x), nv_bfloat16(y)};
}
inline nv_bfloat162 __float22bfloat162_rn(float2 v) { return {nv_bfloat16(v.x), nv_bfloat16(v.y)}; }
inline float2 __bfloat1622float2(nv_bfloat162 v) { return {float(v.x), float(v.y)}; }
inline nv_bfloat16 __low2bfloat16(nv_bfloat162 v) { return v.x; }
inline nv_bfloat16 __high2bfloat16(nv_bfloat162 v) { return v.y; }
inline half __ushort_as_half(unsigned short x) { return whet_emulator::same_bits<half>(x); }
inline half __short_as_half(short x) { return whet_emulator::same_bits<half>(x); }
inline unsigned short __half_as_ushort(half x) { return x.bits; }
inline short __half_as_short(half x) { return short(x.bits); }
inline half __int2half_rn(int x) { return half(double(x)); }
inline half __uint2half_rn(unsigned x) { return half(double(x)); }
inline int __half2int_rn(half x) { return whet_emulator::to_integer<int>(nearbyintf(float(x))); }
inline int __half2int_rz(half x) { return whet_emulator::to_integer<int>(float(x)); }

// ---- numbers into numbers of another type; the name's end says how they are rounded

#define WHET_EMULATOR_INTO(from, source, into, target)                                             \
    inline target __##from##2##into##_rn(source x) {                                               \
        return whet_emulator::to_integer<target>(source(nearbyint(double(x))));                    \
    }                                                                                              \
    inline target __##from##2##into##_rz(source x) {                                               \
        return whet_emulator::to_integer<target>(source(trunc(double(x))));                        \
    }                                                                                              \
    inline target __##from##2##into##_rd(source x) {                                               \
        return whet_emulator::to_integer<target>(source(floor(double(x))));                        \
    }                                                                                              \
    inline target __##from##2##into##_ru(source x) {                                               \
        return whet_emulator::to_integer<target>(source(ceil(double(x))));                         \
    }
#define WHET_EMULATOR_INTO_INTEGERS(from, source)                                                  \
    WHET_EMULATOR_INTO(from, source, int, int)                                                     \
    WHET_EMULATOR_INTO(from, source, uint, unsigned)                                               \
    WHET_EMULATOR_INTO(from, source, ll, long long)                                                \
    WHET_EMULATOR_INTO(from, source, ull, unsigned long long)
WHET_EMULATOR_INTO_INTEGERS(float, float)
WHET_EMULATOR_INTO_INTEGERS(double, double)
#undef WHET_EMULATOR_INTO_INTEGERS
#undef WHET_EMULATOR_INTO
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline float __ull2float_rn(unsigned long long x) { return float(x); }
inline float __double2float_rn(double x) { return float(x); }
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
inline double __ll2double_rn(long long x) { return double(x); }
inline int __double2hiint(double x) { return int(whet_emulator::same_bits<uint64_t>(x) >> 32); }
inline int __double2loint(double x) { return int(whet_emulator::same_bits<uint64_t>(x)); }
inline double __hiloint2double(int high, int low) {
    return whet_emulator::same_bits<double>(uint64_t(uint32_t(high)) << 32 | uint32_t(low));
}

// ---- bits of integers

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __mul24(int x, int y) { return int(unsigned(x << 8 >> 8) * unsigned(y << 8 >> 8)); }
inline unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
inline int __mulhi(int x, int y) { return int((long long)x * y >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned(uint64_t(x) * y >> 32); }
inline long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
inline unsigned long long __brevll(unsigned long long x) {
    unsigned long long result = 0;
    for (int k = 0; k < 64; ++k) result |= (x >> k & 1ull) << (63 - k);
    return result;
}
inline unsigned __brev(unsigned x) { return unsigned(__brevll(x) >> 32); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const uint64_t both = uint64_t(y) << 32 | x;
    unsigned result = 0;
    for (int k = 0; k < 4; ++k)
        result |= unsigned(both >> 8 * (selector >> 4 * k & 7u) & 255u) << 8 * k;
    return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned bits) {
    return unsigned((uint64_t(high) << 32 | low) << (bits & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned bits) {
    return unsigned((uint64_t(high) << 32 | low) >> (bits & 31));
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned bits) {
    return bits < 32 ? __funnelshift_l(low, high, bits) : low;
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned bits) {
    return bits < 32 ? __funnelshift_r(low, high, bits) : high;
}
inline unsigned __sad(int x, int y, unsigned z) {
    return (x < y ? unsigned(y) - unsigned(x) : unsigned(x) - unsigned(y)) + z;
}
inline unsigned __usad(unsigned x, unsigned y, unsigned z) { return (x < y ? y - x : x - y) + z; }
