"""CUDA's built-in functions in the emulator: what they give, by hand and by numpy."""

import numpy as np
import pytest

from whet.compiler.emulator import EmulatorError
from whet.compiler.emulator.sanitizer.run import Unwritten, run_kernel


def of(body, kind="float", count=32, given=None, dtype="float32"):
    """The value that each thread stores as ``y[i]``, of ``x[i]``."""
    text = (
        f'extern "C" __global__ void f(const {kind} *x, {kind} *y) {{\n'
        f"    int i = threadIdx.x;\n    {body}\n}}\n"
    )
    x = np.arange(count, dtype=dtype) if given is None else np.asarray(given, dtype)
    return x, run_kernel(text, "f", 1, 32, [x, Unwritten((count,), dtype)])[1]


def test_halves():
    rng = np.random.default_rng(0)
    given = rng.standard_normal(32).astype("f2")
    x, y = of("y[i] = __hfma(__hadd(x[i], __float2half(1.0f)), x[i], hexp(x[i]));", "__half",
              given=given, dtype="float16")  # fmt: skip
    one = (x + np.float16(1)).astype("f8")
    wanted = (one * x.astype("f8") + np.exp(x.astype("f8")).astype("f2").astype("f8")).astype("f2")
    np.testing.assert_array_equal(y, wanted)


def test_pairs_of_halves():
    body = "half2 v = __hmul2(x[i], __half2half2(__low2half(x[i]))); y[i] = __lowhigh2highlow(v);"
    x, y = of(body, "half2", 64, dtype="float16")
    pairs = x.reshape(32, 2)
    np.testing.assert_array_equal(y.reshape(32, 2), (pairs * pairs[:, :1])[:, ::-1])


BITS = {
    "__brev(x[i])": lambda x: [int(f"{v:032b}"[::-1], 2) for v in x],
    "__umulhi(x[i], 0xfedcba98u)": lambda x: [v * 0xFEDCBA98 >> 32 for v in x],
    "__byte_perm(x[i], 0x80402010u, 0x0a71)": lambda x: [
        (v >> 8 & 255) | 0x80 << 8 | v & 255 << 16 | (v & 255) << 24 for v in x
    ],
    "__funnelshift_l(x[i], 7u, 4)": lambda x: [(7 << 4 | v >> 28) & 0xFFFFFFFF for v in x],
    "__funnelshift_r(x[i], 7u, 4)": lambda x: [(7 << 32 | v) >> 4 & 0xFFFFFFFF for v in x],
    "__usad(x[i], 5u, 2u)": lambda x: [abs(v - 5) + 2 for v in x],
    "__float2uint_rn(float(x[i] & 255u) * 0.5f)": lambda x: [round((v & 255) / 2) for v in x],
    "unsigned(__float2int_ru(-float(x[i] & 255u) / 4)) ": lambda x: [
        -((v & 255) // 4) & 0xFFFFFFFF for v in x
    ],
    "unsigned(__syncthreads_count(x[i] & 1u))": lambda x: [sum(v & 1 for v in x)] * 32,
    "__reduce_max_sync(0xffffffffu, x[i])": lambda x: [max(x)] * 32,
    "unsigned(__reduce_add_sync(0xffffffffu, (x[i] & 1u) != 0u))": lambda x: (
        [sum(v & 1 for v in x)] * 32  # a bool is promoted
    ),
    "__shfl_xor_sync(0xffffffffu, x[i], 16, 16)": lambda x: x[:16] + x[:16],
    "min(x[i], 1 << 30) + max(7, x[i] & 15u)": lambda x: [
        min(v, 1 << 30) + max(7, v & 15) for v in x
    ],
    "unsigned(__float2half(NAN) != half(1)) + 2u * __hne(__float2half(NAN), half(1))": (
        lambda x: [1] * 32
    ),
    "__funnelshift_lc(x[i], 7u, 40) ^ __funnelshift_rc(9u, x[i], 4)": lambda x: [
        v ^ ((v << 32 | 9) >> 4 & 0xFFFFFFFF) for v in x
    ],
    "__match_any_sync(0xffffffffu, x[i] & 3u)": lambda x: [
        sum(1 << k for k, w in enumerate(x) if w & 3 == v & 3) for v in x
    ],
    "__ldcg(x + i) + unsigned(__syncthreads_or(0))": lambda x: x,
}


def test_bits_and_votes():
    body = " ".join(f"y[{32 * k} + i] = {text};" for k, text in enumerate(BITS))
    given = np.random.default_rng(1).integers(0, 2**32, 32 * len(BITS), dtype="u4")
    x, y = of(body, "unsigned", 32 * len(BITS), given, "uint32")
    for (text, wanted), found in zip(BITS.items(), y.reshape(-1, 32)):
        assert found.tolist() == list(wanted([int(v) for v in x[:32]])), text


def test_what_fits_no_integer_is_the_nearest_that_does():
    given = [np.nan, 3e9, -3e9, -1.0, *range(28)]
    _, y = of("y[i] = i < 3 ? float(__float2int_rz(x[i])) : float(__float2uint_rz(x[i]));",
              given=given)  # fmt: skip
    assert y[:5].tolist() == [0, 2147483648, -2147483648, 0, 0]
    _, y = of("y[i] = i ? float(__float2ll_rn(x[0])) : float(__double2int_rz(double(x[0])));",
              given=given)  # fmt: skip
    assert y[:2].tolist() == [-(2.0**31), -(2.0**63)]  # 64 bits: the highest alone


def test_changes_in_place_are_computed_in_the_common_type():
    """`x *= 0.5f` of an int multiplied by 0."""
    _, y = of("y[i] = x[i]; y[i] *= 0.5f; y[i] -= 0.75;", "int", dtype="int32")
    np.testing.assert_array_equal(y, np.trunc(np.arange(32) // 2 - 0.75))


def test_a_lane_outside_of_the_mask_gives_nothing():
    body = "float v = __shfl_xor_sync(0xffffffffu, x[i], 1); y[i] = 0.0f;"
    _, y = of(f"{body} if (i < 16) y[i] = __shfl_down_sync(0xffffu, v, 8, 16);")
    assert y[:16].tolist() == [9, 8, 11, 10, 13, 12, 15, 14] * 2
    with pytest.raises(EmulatorError, match=r"reads lane \d+, which the mask 0x0000ffff does not"):
        of(f"{body} if (i < 16) y[i] = __shfl_down_sync(0xffffu, v, 8, 32);")


def test_16_bit_elements_of_every_name_are_watched_one_by_one():
    """Threads that write neighbours are no race: `__half` is 2 bytes, as `half` is."""
    x, y = of("y[i] = x[i];", "__half", dtype="float16")
    np.testing.assert_array_equal(x, y)
