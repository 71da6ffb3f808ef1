// CUDA's types: vectors of 2 to 4 numbers, and the floats of 16 bits.
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>

#define WHET_EMULATOR_VECTORS(type, name, bytes)                                                   \
    struct alignas(2 * bytes) name##2 { type x, y; };                                              \
    struct name##3 { type x, y, z; };                                                              \
    struct alignas(4 * bytes > 16 ? 16 : 4 * bytes) name##4 { type x, y, z, w; };                  \
    inline name##2 make_##name##2(type x, type y) { return {x, y}; }                               \
    inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                    \
    inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
WHET_EMULATOR_VECTORS(signed char, char, 1)
WHET_EMULATOR_VECTORS(unsigned char, uchar, 1)
WHET_EMULATOR_VECTORS(short, short, 2)
WHET_EMULATOR_VECTORS(unsigned short, ushort, 2)
WHET_EMULATOR_VECTORS(int, int, 4)
WHET_EMULATOR_VECTORS(float, float, 4)
WHET_EMULATOR_VECTORS(long long, longlong, 8)
WHET_EMULATOR_VECTORS(unsigned long long, ulonglong, 8)
WHET_EMULATOR_VECTORS(double, double, 8)
#undef WHET_EMULATOR_VECTORS
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace whet_emulator {

template <class To, class From>
inline To same_bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To result;
    memcpy(&result, &value, sizeof result);
    return result;
}

inline float half_to_float(uint16_t bits) {
    const uint32_t sign = uint32_t(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) return same_bits<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    // scaled by a power of two, which is exact for subnormal numbers, too
    const float value = same_bits<float>(rest << 13) * same_bits<float>(0x77800000u);
    return same_bits<float>(same_bits<uint32_t>(value) | sign);
}

// To the nearest, of two as near to the even one; from double, so that nothing is rounded twice.
inline uint16_t double_to_half(double value) {
    const uint64_t bits = same_bits<uint64_t>(value);
    const uint16_t sign = uint16_t(bits >> 48 & 0x8000u);
    if (value != value) return uint16_t(sign | 0x7fffu);
    const double size = fabs(value);
    if (size >= 65520.0) return uint16_t(sign | 0x7c00u);
    int exponent = int(bits >> 52 & 0x7ff) - 1023;
    if (exponent < -14) exponent = -14;
    // in units of the last place; nearbyint rounds to even
    const double units = nearbyint(ldexp(size, 10 - exponent));
    return uint16_t(sign | (uint32_t(units) + (uint32_t(exponent + 14) << 10)));
}

inline float bfloat16_to_float(uint16_t bits) { return same_bits<float>(uint32_t(bits) << 16); }

inline uint16_t float_to_bfloat16(float value) {
    const uint32_t bits = same_bits<uint32_t>(value);
    if (value != value) return 0x7fff;
    return uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline uint16_t double_to_bfloat16(double value) {
    // the float towards zero, its last bit set where something was cut off: rounds as the whole does
    float cut = float(value);
    uint32_t bits = same_bits<uint32_t>(cut);
    if (value == value && double(cut) != value) {
        if (fabs(double(cut)) > fabs(value)) --bits;
        bits |= 1u;
    }
    return float_to_bfloat16(same_bits<float>(bits));
}

}  // namespace whet_emulator

// A type of 16 bits whose arithmetic is float's, rounded after each operation, as on the device.
// `implicit`: whether numbers convert to it, and it to float, without being asked.
#define WHET_EMULATOR_SHORT_FLOAT(type, to_float, from_double, implicit)                           \
    struct type {                                                                                  \
        uint16_t bits;                                                                             \
        type() = default;                                                                          \
        explicit(!implicit) type(float value) : bits(whet_emulator::from_double(value)) {}         \
        explicit(!implicit) type(double value) : bits(whet_emulator::from_double(value)) {}        \
        template <class N, class = std::enable_if_t<std::is_integral_v<N>>>                        \
        explicit(!implicit) type(N value) : bits(whet_emulator::from_double(double(value))) {}     \
        explicit(!implicit) operator float() const { return whet_emulator::to_float(bits); }       \
        template <class N, class = std::enable_if_t<std::is_arithmetic_v<N>>>                      \
        explicit operator N() const { return N(whet_emulator::to_float(bits)); }                   \
        type &operator+=(type other) { return *this = type(float(*this) + float(other)); }         \
        type &operator-=(type other) { return *this = type(float(*this) - float(other)); }         \
        type &operator*=(type other) { return *this = type(float(*this) * float(other)); }         \
        type &operator/=(type other) { return *this = type(float(*this) / float(other)); }         \
    };                                                                                             \
    inline type operator-(type a) {                                                                \
        a.bits ^= 0x8000u;                                                                         \
        return a;                                                                                  \
    }                                                                                              \
    inline type operator+(type a, type b) { return type(float(a) + float(b)); }                    \
    inline type operator-(type a, type b) { return type(float(a) - float(b)); }                    \
    inline type operator*(type a, type b) { return type(float(a) * float(b)); }                    \
    inline type operator/(type a, type b) { return type(float(a) / float(b)); }                    \
    inline bool operator<(type a, type b) { return float(a) < float(b); }                          \
    inline bool operator>(type a, type b) { return float(a) > float(b); }                          \
    inline bool operator<=(type a, type b) { return float(a) <= float(b); }                        \
    inline bool operator>=(type a, type b) { return float(a) >= float(b); }                        \
    inline bool operator==(type a, type b) { return float(a) == float(b); }                        \
    inline bool operator!=(type a, type b) { return float(a) != float(b); }

// what generated text uses, and CUDA's own
WHET_EMULATOR_SHORT_FLOAT(float16, half_to_float, double_to_half, false)
WHET_EMULATOR_SHORT_FLOAT(bfloat16, bfloat16_to_float, double_to_bfloat16, false)
WHET_EMULATOR_SHORT_FLOAT(__half, half_to_float, double_to_half, true)
WHET_EMULATOR_SHORT_FLOAT(__nv_bfloat16, bfloat16_to_float, double_to_bfloat16, true)
#undef WHET_EMULATOR_SHORT_FLOAT
typedef __half half;
typedef __nv_bfloat16 nv_bfloat16;
struct alignas(4) __half2 { half x, y; };
struct alignas(4) __nv_bfloat162 { __nv_bfloat16 x, y; };
typedef __half2 half2;
typedef __nv_bfloat162 nv_bfloat162;
inline half __float2half(float x) { return half(x); }
inline half __float2half_rn(float x) { return half(x); }
inline half __double2half(double x) { return half(x); }
inline float __half2float(half x) { return float(x); }
inline __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
inline float __bfloat162float(__nv_bfloat16 x) { return float(x); }

inline float __int_as_float(int x) { return whet_emulator::same_bits<float>(x); }
inline int __float_as_int(float x) { return whet_emulator::same_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return whet_emulator::same_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return whet_emulator::same_bits<unsigned>(x); }
inline double __longlong_as_double(long long x) { return whet_emulator::same_bits<double>(x); }
inline long long __double_as_longlong(double x) { return whet_emulator::same_bits<long long>(x); }

// Vectors of the loop IR: float32x4, float16x8, int8x16, ..
template <class T, int n>
struct alignas(sizeof(T) * n) whet_vector {
    T lanes[n];
    T &operator[](int k) { return lanes[k]; }
    const T &operator[](int k) const { return lanes[k]; }
};
#define WHET_EMULATOR_VECTORS(type, name)                                                          \
    typedef whet_vector<type, 2> name##x2;                                                         \
    typedef whet_vector<type, 4> name##x4;                                                         \
    typedef whet_vector<type, 8> name##x8;                                                         \
    typedef whet_vector<type, 16> name##x16;
WHET_EMULATOR_VECTORS(float16, float16)
WHET_EMULATOR_VECTORS(bfloat16, bfloat16)
WHET_EMULATOR_VECTORS(float, float32)
WHET_EMULATOR_VECTORS(double, float64)
WHET_EMULATOR_VECTORS(bool, bool)
WHET_EMULATOR_VECTORS(signed char, int8)
WHET_EMULATOR_VECTORS(unsigned char, uint8)
WHET_EMULATOR_VECTORS(short, int16)
WHET_EMULATOR_VECTORS(unsigned short, uint16)
WHET_EMULATOR_VECTORS(int, int32)
WHET_EMULATOR_VECTORS(unsigned int, uint32)
WHET_EMULATOR_VECTORS(long long, int64)
WHET_EMULATOR_VECTORS(unsigned long long, uint64)
#undef WHET_EMULATOR_VECTORS
