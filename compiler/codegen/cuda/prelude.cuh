// What Whet's CUDA C is written in beside CUDA C itself, for NVRTC: no header of CUDA is needed.
//
// A kernel's text has no #include: NVRTC gets this file in front of it, and the emulator's compiler
// a file of its own that defines the same names. A kernel uses memory in these ways only:
//
//     extern "C" __global__ void __launch_bounds__(64) name(
//         WHET_GLOBAL(const float) A, WHET_GLOBAL(float) B, int n
//     ) {
//         WHET_EXTENT(A, n * 4);               // its elements; first in a kernel
//         WHET_SHARED_BUFFER(float, S, 0, 256);  // type, name, bytes into the arena, elements:
//                                              // constants; buffers may share their bytes
//         WHET_LOCAL(float, C, 16);            // an array of this thread; a constant
//         S[i] = A[j];                         // any subscript; also C[0] += of a float
//         float32x4 v = whet_load<float32x4>(A, j);  // elements j .. j + 3, j a multiple of 4
//         v[0] = v[1];                         // lanes
//         whet_store<float32x4>(B, j, v);      // into device memory or shared
//     }
//
// Vectors: whet_vector<T, lanes>, named as in the loop IR: float32x4, float16x8, int8x16, uint8x4..
// Types of elements: float16, bfloat16, float, double, bool, signed char, unsigned char, short, ..
// 16-bit floats convert explicitly alone, float16(x) and float(h), and have + - * / and comparisons.
// Beside the names of prelude.py (NAMES), a text uses CUDA C's own: threadIdx, blockIdx,
// __syncthreads(), __syncwarp(), #pragma unroll, memcpy, and the math functions that NVRTC knows.

#define WHET_DEVICE __device__ __forceinline__

// ---- memory

#define WHET_GLOBAL(type) type *__restrict__
#define WHET_EXTENT(name, elements)
#define WHET_SHARED_BUFFER(type, name, offset, elements) \
    type *const name = reinterpret_cast<type *>(whet_shared + (offset))
#define WHET_LOCAL(type, name, elements) type name[elements]

extern __shared__ __align__(128) unsigned char whet_shared[];

// ---- 16-bit floats

struct float16 {
    unsigned short bits;
    float16() = default;
    __device__ __forceinline__ explicit float16(float x) {
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    }
    __device__ __forceinline__ explicit float16(double x) {
        asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x));
    }
    __device__ __forceinline__ explicit operator float() const {
        float out;
        asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(bits));
        return out;
    }
};

#define WHET_FLOAT16(name, op)                                                                \
    WHET_DEVICE float16 operator op(float16 a, float16 b) {                                   \
        float16 out;                                                                          \
        asm(name ".f16 %0, %1, %2;" : "=h"(out.bits) : "h"(a.bits), "h"(b.bits));             \
        return out;                                                                           \
    }
WHET_FLOAT16("add", +)
WHET_FLOAT16("sub", -)
WHET_FLOAT16("mul", *)
#undef WHET_FLOAT16
// the quotient in float has more than twice the digits: rounding it once more is right
WHET_DEVICE float16 operator/(float16 a, float16 b) { return float16(float(a) / float(b)); }

struct bfloat16 {
    unsigned short bits;
    bfloat16() = default;
    __device__ __forceinline__ explicit bfloat16(float x) {
#if __CUDA_ARCH__ >= 800
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
        const unsigned int b = __float_as_uint(x);
        bits = (b & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : (b + 0x7fffu + (b >> 16 & 1u)) >> 16;
#endif
    }
    // through a float that is rounded to odd, so that rounding it once more is right
    __device__ __forceinline__ explicit bfloat16(double x) {
        float out = __double2float_rz(x);
        const unsigned int b = __float_as_uint(out);
        if (double(out) != x && x == x) out = __uint_as_float(b | 1u);
        *this = bfloat16(out);
    }
    __device__ __forceinline__ explicit operator float() const {
        return __uint_as_float((unsigned int)bits << 16);
    }
};

#define WHET_BFLOAT16(op)                                                                     \
    WHET_DEVICE bfloat16 operator op(bfloat16 a, bfloat16 b) {                                \
        return bfloat16(float(a) op float(b));                                                \
    }
WHET_BFLOAT16(+) WHET_BFLOAT16(-) WHET_BFLOAT16(*) WHET_BFLOAT16(/)
#undef WHET_BFLOAT16

#define WHET_SHORT_FLOAT(type, op)                                                            \
    WHET_DEVICE bool operator op(type a, type b) { return float(a) op float(b); }
WHET_SHORT_FLOAT(float16, <) WHET_SHORT_FLOAT(float16, <=) WHET_SHORT_FLOAT(float16, >)
WHET_SHORT_FLOAT(float16, >=) WHET_SHORT_FLOAT(float16, ==) WHET_SHORT_FLOAT(float16, !=)
WHET_SHORT_FLOAT(bfloat16, <) WHET_SHORT_FLOAT(bfloat16, <=) WHET_SHORT_FLOAT(bfloat16, >)
WHET_SHORT_FLOAT(bfloat16, >=) WHET_SHORT_FLOAT(bfloat16, ==) WHET_SHORT_FLOAT(bfloat16, !=)
#undef WHET_SHORT_FLOAT
WHET_DEVICE float16 operator-(float16 a) { a.bits ^= 0x8000u; return a; }
WHET_DEVICE bfloat16 operator-(bfloat16 a) { a.bits ^= 0x8000u; return a; }

// ---- vectors, moved by one instruction: 2, 4, 8 or 16 bytes

template <class T, int n> struct __align__(sizeof(T) * n) whet_vector {
    T lanes[n];
    __device__ __forceinline__ T &operator[](int k) { return lanes[k]; }
    __device__ __forceinline__ const T &operator[](int k) const { return lanes[k]; }
};
#define WHET_VECTORS(type, name)                                                              \
    typedef whet_vector<type, 2> name##x2;                                                    \
    typedef whet_vector<type, 4> name##x4;                                                    \
    typedef whet_vector<type, 8> name##x8;                                                    \
    typedef whet_vector<type, 16> name##x16;
WHET_VECTORS(float16, float16)
WHET_VECTORS(bfloat16, bfloat16)
WHET_VECTORS(float, float32)
WHET_VECTORS(double, float64)
WHET_VECTORS(bool, bool)
WHET_VECTORS(signed char, int8)
WHET_VECTORS(unsigned char, uint8)
WHET_VECTORS(short, int16)
WHET_VECTORS(unsigned short, uint16)
WHET_VECTORS(int, int32)
WHET_VECTORS(unsigned int, uint32)
WHET_VECTORS(long long, int64)
WHET_VECTORS(unsigned long long, uint64)
#undef WHET_VECTORS

template <int bytes> struct whet_word;
template <> struct whet_word<2> { typedef unsigned short type; };
template <> struct whet_word<4> { typedef unsigned int type; };
template <> struct whet_word<8> { typedef uint2 type; };
template <> struct whet_word<16> { typedef uint4 type; };

// the elements of a vector that begins at an index; the address is a multiple of its size
template <class V, class T, class I> WHET_DEVICE V whet_load(const T *from, I index) {
    typedef typename whet_word<sizeof(V)>::type word;
    const word held = *reinterpret_cast<const word *>(from + index);
    V out;
    memcpy(&out, &held, sizeof out);
    return out;
}
template <class V, class T, class I> WHET_DEVICE void whet_store(T *to, I index, V value) {
    typedef typename whet_word<sizeof(V)>::type word;
    word held;
    memcpy(&held, &value, sizeof held);
    *reinterpret_cast<word *>(to + index) = held;
}

// ---- lanes of a warp: all 32 must come by. `width`: lanes among which values move, a power of two

#define WHET_SHUFFLE(name, intrinsic)                                                         \
    template <class T> WHET_DEVICE T name(T value, int lanes, int width = 32) {               \
        return intrinsic(0xffffffffu, value, lanes, width);                                   \
    }                                                                                         \
    WHET_DEVICE float16 name(float16 value, int lanes, int width = 32) {                      \
        value.bits = intrinsic(0xffffffffu, (unsigned int)value.bits, lanes, width);          \
        return value;                                                                         \
    }                                                                                         \
    WHET_DEVICE bfloat16 name(bfloat16 value, int lanes, int width = 32) {                    \
        value.bits = intrinsic(0xffffffffu, (unsigned int)value.bits, lanes, width);          \
        return value;                                                                         \
    }
WHET_SHUFFLE(whet_warp_shuffle, __shfl_sync)            // the value of lane `lanes` of its group
WHET_SHUFFLE(whet_warp_shuffle_down, __shfl_down_sync)  // of the lane so many further up
WHET_SHUFFLE(whet_warp_shuffle_up, __shfl_up_sync)      // of the lane so many below
WHET_SHUFFLE(whet_warp_shuffle_xor, __shfl_xor_sync)    // of the lane whose number has other bits
#undef WHET_SHUFFLE

// ---- bytes

// c and the products of the four signed (unsigned) bytes of a and b
WHET_DEVICE int whet_dp4a(int a, int b, int c) {
    int out;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
}
WHET_DEVICE unsigned int whet_dp4a(unsigned int a, unsigned int b, unsigned int c) {
    unsigned int out;
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
}

// four bytes, the first one lowest, as a word
WHET_DEVICE unsigned int whet_pack(int a, int b, int c, int d) {
    return (a & 255) | (b & 255) << 8 | (c & 255) << 16 | (unsigned int)d << 24;
}
// four vectors of four bytes, as the words of their first, second, third and last bytes
template <class V, class B> WHET_DEVICE V whet_transpose4x4(B a, B b, B c, B d) {
    unsigned int rows[4];
    memcpy(rows, &a, 4), memcpy(rows + 1, &b, 4), memcpy(rows + 2, &c, 4), memcpy(rows + 3, &d, 4);
    const unsigned int ab = __byte_perm(rows[0], rows[1], 0x5140);  // a0 b0 a1 b1
    const unsigned int cd = __byte_perm(rows[2], rows[3], 0x5140);
    const unsigned int ab_high = __byte_perm(rows[0], rows[1], 0x7362);  // a2 b2 a3 b3
    const unsigned int cd_high = __byte_perm(rows[2], rows[3], 0x7362);
    V words;
    words[0] = __byte_perm(ab, cd, 0x5410), words[1] = __byte_perm(ab, cd, 0x7632);
    words[2] = __byte_perm(ab_high, cd_high, 0x5410);
    words[3] = __byte_perm(ab_high, cd_high, 0x7632);
    return words;
}
#define whet_turn whet_transpose4x4  // its name in texts of earlier versions

// ---- the end of a kernel whose assertion does not hold

#define whet_trap(number, message) __assertfail(message, "assertion", number, __func__, 1)
