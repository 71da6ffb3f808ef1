// CUDA's functions between the lanes of a warp: shuffles, votes, matches, reductions.
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

// The value that another lane of the warp gives; all lanes of the mask must come by.
template <class T>
inline T exchange(T value, int lane, Site site, uint32_t mask) {
    static_assert(moves_between_lanes<T>,
                  "CUDA's shuffles move one number of up to 8 bytes, or a half2: "
                  "no other vector, no struct, no pointer");
    Warp *warp = current->warp;
    memcpy(warp->slots[current->number & 31], &value, sizeof value);
    warp_barrier(site, mask, false);
    // generated reductions read beyond a small block, and use nothing of it: it is not a number
    const bool there = (warp->alive & mask) >> lane & 1, generated = site.what[0] == 'w';
    if (!there && !generated) fail_absent(mask, lane);
    T result;
    if (there) memcpy(static_cast<void *>(&result), warp->slots[lane], sizeof result);
    else memset(static_cast<void *>(&result), 0xff, sizeof result);
    warp_barrier(site, mask, false);
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

inline void check_width(int width, Site site) {
    current->site = site;
    const bool power = width == 1 || width == 2 || width == 4 || width == 8 || width == 16 || width == 32;
    if (!power) fail_lane(BAD_WIDTH, current, width, nullptr);
}
template <class T>
inline T shuffle(uint32_t mask, T value, int from, int width, Site site) {
    check_width(width, site);
    return exchange(value, (lane() & ~(width - 1)) | (from & (width - 1)), site, mask);
}
template <class T>
inline T shuffle_to(uint32_t mask, T value, int from, int width, Site site) {
    check_width(width, site);
    return exchange(value, lane_at(lane(), from, width), site, mask);
}
template <class T>
inline T shuffle_across(uint32_t mask, T value, int lanes, int width, Site site) {
    check_width(width, site);
    return exchange(value, lane_across(lane(), lanes, width), site, mask);
}
inline uint32_t ballot(uint32_t mask, bool said, Site site) {
    uint32_t result = 0;
    const int own = lane();
    const uint32_t bit = said ? 1u << own : 0;
    Warp *warp = current->warp;
    memcpy(warp->slots[own], &bit, sizeof bit);
    warp_barrier(site, mask, false);
    for (int k = 0; k < 32; ++k) {
        uint32_t held = 0;
        if ((warp->alive & mask) >> k & 1) memcpy(&held, warp->slots[k], sizeof held);
        result |= held;
    }
    warp_barrier(site, mask, false);
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

// The lanes of a mask that run still, where all of these have come by.
inline uint32_t present_lanes(uint32_t mask, Site site) {
    warp_barrier(site, mask, false);
    return mask & current->warp->alive;
}

// Of the lanes of a mask: those that give the same value, and what an operation makes of all values.
template <class T>
inline uint32_t same_value(uint32_t mask, T value, Site site) {
    static_assert(number<T>, "CUDA has __match_any_sync of one number alone");
    uint32_t result = 0;
    for (uint32_t rest = present_lanes(mask, site); rest != 0; rest &= rest - 1) {
        const int other = __builtin_ctz(rest);
        const T given = exchange(value, other, site, mask);
        if (memcmp(&given, &value, sizeof value) == 0) result |= 1u << other;
    }
    return result;
}
template <class T, class P>
inline uint32_t one_value(uint32_t mask, T value, P all, Site site) {
    const uint32_t present = present_lanes(mask, site), same = same_value(mask, value, site);
    *all = same == present;
    return same == present ? mask : 0;
}
template <class T, class F>
inline T reduced(uint32_t mask, T value, Site site, F join) {
    static_assert(one_of<T, int, unsigned>, "CUDA has __reduce_.._sync of int, unsigned alone");
    uint32_t rest = present_lanes(mask, site);
    T result = exchange(value, __builtin_ctz(rest), site, mask);
    for (rest &= rest - 1; rest != 0; rest &= rest - 1)
        result = join(result, exchange(value, __builtin_ctz(rest), site, mask));
    return result;
}

}  // namespace whet_emulator

#define whet_warp_shuffle(value, lanes, ...)                                                       \
    whet_emulator_shuffle(0xffffffffu, value, lanes, WHET_EMULATOR_SITE("whet_warp_shuffle") __VA_OPT__(, ) __VA_ARGS__)
#define whet_warp_shuffle_down(value, lanes, ...)                                                  \
    whet_emulator_shuffle_down(0xffffffffu, value, lanes, WHET_EMULATOR_SITE("whet_warp_shuffle_down") __VA_OPT__(, ) __VA_ARGS__)
#define whet_warp_shuffle_up(value, lanes, ...)                                                    \
    whet_emulator_shuffle_up(0xffffffffu, value, lanes, WHET_EMULATOR_SITE("whet_warp_shuffle_up") __VA_OPT__(, ) __VA_ARGS__)
#define whet_warp_shuffle_xor(value, lanes, ...)                                                   \
    whet_emulator_shuffle_xor(0xffffffffu, value, lanes, WHET_EMULATOR_SITE("whet_warp_shuffle_xor") __VA_OPT__(, ) __VA_ARGS__)
#define __shfl_sync(mask, value, lanes, ...)                                                       \
    whet_emulator_shuffle(mask, value, lanes, WHET_EMULATOR_SITE("__shfl_sync") __VA_OPT__(, ) __VA_ARGS__)
#define __shfl_down_sync(mask, value, lanes, ...)                                                  \
    whet_emulator_shuffle_down(mask, value, lanes, WHET_EMULATOR_SITE("__shfl_down_sync") __VA_OPT__(, ) __VA_ARGS__)
#define __shfl_up_sync(mask, value, lanes, ...)                                                    \
    whet_emulator_shuffle_up(mask, value, lanes, WHET_EMULATOR_SITE("__shfl_up_sync") __VA_OPT__(, ) __VA_ARGS__)
#define __shfl_xor_sync(mask, value, lanes, ...)                                                   \
    whet_emulator_shuffle_xor(mask, value, lanes, WHET_EMULATOR_SITE("__shfl_xor_sync") __VA_OPT__(, ) __VA_ARGS__)
#define __ballot_sync(mask, said)                                                                  \
    whet_emulator::ballot(mask, bool(said), WHET_EMULATOR_SITE("__ballot_sync"))
#define __any_sync(mask, said)                                                                     \
    int(whet_emulator::ballot(mask, bool(said), WHET_EMULATOR_SITE("__any_sync")) != 0)
#define __all_sync(mask, said)                                                                     \
    int(whet_emulator::ballot(mask, !(said), WHET_EMULATOR_SITE("__all_sync")) == 0)
#define __match_any_sync(mask, value)                                                              \
    whet_emulator::same_value(                                                                     \
        mask, whet_emulator::value_of(value), WHET_EMULATOR_SITE("__match_any_sync"))
#define __match_all_sync(mask, value, all)                                                         \
    whet_emulator::one_value(                                                                      \
        mask, whet_emulator::value_of(value), all, WHET_EMULATOR_SITE("__match_all_sync"))
#define WHET_EMULATOR_REDUCE(name, mask, value, expression)                                        \
    whet_emulator::reduced(                                                                        \
        mask, +whet_emulator::value_of(value), WHET_EMULATOR_SITE(name),                           \
        [](auto a, auto b) { return decltype(a)(expression); })
#define __reduce_add_sync(mask, value)                                                             \
    WHET_EMULATOR_REDUCE("__reduce_add_sync", mask, value, a + b)
#define __reduce_min_sync(mask, value)                                                             \
    WHET_EMULATOR_REDUCE("__reduce_min_sync", mask, value, b < a ? b : a)
#define __reduce_max_sync(mask, value)                                                             \
    WHET_EMULATOR_REDUCE("__reduce_max_sync", mask, value, a < b ? b : a)
#define __reduce_and_sync(mask, value)                                                             \
    WHET_EMULATOR_REDUCE("__reduce_and_sync", mask, unsigned(value), a & b)
#define __reduce_or_sync(mask, value)                                                              \
    WHET_EMULATOR_REDUCE("__reduce_or_sync", mask, unsigned(value), a | b)
#define __reduce_xor_sync(mask, value)                                                             \
    WHET_EMULATOR_REDUCE("__reduce_xor_sync", mask, unsigned(value), a ^ b)
#define __activemask() whet_emulator::active_mask(WHET_EMULATOR_SITE("__activemask"))

template <class V>
inline auto whet_emulator_shuffle(uint32_t mask, const V &value, int lanes, whet_emulator::Site site, int width = 32) {
    return whet_emulator::shuffle(mask, whet_emulator::value_of(value), lanes, width, site);
}
template <class V>
inline auto whet_emulator_shuffle_down(uint32_t mask, const V &value, int lanes, whet_emulator::Site site, int width = 32) {
    return whet_emulator::shuffle_to(
        mask, whet_emulator::value_of(value), whet_emulator::lane() + lanes, width, site);
}
template <class V>
inline auto whet_emulator_shuffle_up(uint32_t mask, const V &value, int lanes, whet_emulator::Site site, int width = 32) {
    return whet_emulator::shuffle_to(
        mask, whet_emulator::value_of(value), whet_emulator::lane() - lanes, width, site);
}
template <class V>
inline auto whet_emulator_shuffle_xor(uint32_t mask, const V &value, int lanes, whet_emulator::Site site, int width = 32) {
    return whet_emulator::shuffle_across(
        mask, whet_emulator::value_of(value), lanes, width, site);
}

