"""The static cost model: kernels are counted as by hand, and costs are in order."""

from dataclasses import replace

import gpu_schedules as g
import numpy as np
import pytest

from whet import te
from whet.compiler.errors import MeasureError, TargetError
from whet.measure.device.specs import SPECS, spec_of
from whet.measure.gpu.cost.model import LAUNCH_S, REACHED, Work, predict, resident_blocks
from whet.measure.gpu.cost.traffic import Grid, Traffic, memory_bytes
from whet.measure.gpu.cost.warps import SAMPLES, groups, wavefronts

MIB = 1 << 20


# --- occupancy


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "blocks"),
    [
        ("sm_80", 256, 32, 0, 8),  # 2048 threads
        ("sm_80", 256, 64, 0, 4),  # 65536 registers
        ("sm_80", 256, 128, 0, 2),
        ("sm_80", 256, 255, 0, 1),
        ("sm_80", 1024, 128, 0, 0),  # 131072 registers: not even one
        ("sm_80", 256, 32, 48 << 10, 3),  # 164 KB, and 1 KB of each block's is the system's
        ("sm_80", 256, 32, 100 << 10, 1),
        ("sm_80", 32, 16, 0, 32),  # blocks of a multiprocessor
        ("sm_75", 256, 32, 0, 4),  # 1024 threads
        ("sm_75", 32, 16, 0, 16),
        ("sm_89", 256, 32, 0, 6),  # 1536 threads
        ("sm_80", 33, 16, 0, 32),
    ],
)
def test_resident_blocks(arch, threads, registers, shared, blocks):
    assert resident_blocks(spec_of(arch), threads, registers, shared) == blocks


def test_what_does_not_fit_is_never_fast():
    fits = told = g.told(lambda: g.add(threads=1024), registers=64)
    assert np.isfinite(fits.seconds)
    told = g.told(lambda: g.add(threads=1024), registers=128)
    assert told.resident == 0 and np.isinf(told.seconds)


# --- counts that can be done by hand


@pytest.mark.parametrize(("dtype", "vector"), [("float32", 1), ("float32", 4), ("float16", 8)])
def test_bytes_of_an_addition(dtype, vector):
    work = g.work(lambda: g.add(MIB, 256, dtype, vector))
    size = 4 if dtype == "float32" else 2
    assert work.l2_bytes == work.memory_bytes == 3 * MIB * size
    assert work.blocks == MIB / 256 / vector and work.threads == 256
    assert work.shared_bytes == work.barriers == 0


def test_vectors_need_fewer_instructions():
    one, four = (g.work(lambda v=v: g.add(MIB, vector=v)) for v in (1, 4))
    assert four.instructions < 0.6 * one.instructions
    assert four.fma32 == one.fma32 == MIB


def test_neighbours_that_lie_apart_touch_more_sectors():
    together, apart = (g.work(lambda k=k: g.add(MIB, step=k)) for k in (1, 8))
    assert together.l2_bytes == 3 * MIB * 4
    assert apart.l2_bytes == 8 * together.l2_bytes  # a sector for each 4 bytes
    assert apart.memory_bytes == together.memory_bytes  # the L2 cache finds them again
    seconds = [float(g.told(lambda k=k: g.add(64 * MIB, step=k)).seconds) for k in (1, 8)]
    assert seconds[1] > 1.5 * seconds[0]


def test_a_tail_is_counted():
    odd = g.work(lambda: g.add(1001, threads=256))
    assert odd.blocks == 4
    assert odd.l2_bytes == pytest.approx(3 * 1001 * 4, rel=0.05)  # blocks are drawn


def test_bank_conflicts_of_a_transposition():
    dense, padded = (g.work(lambda p=p: g.transpose(1024, pad=p)) for p in (0, 1))
    warps = 1024 * 1024 / 32
    # Loads and stores of memory are 2 passes a warp, the tile's store 1, its load 32 or 1.
    assert padded.wavefronts == pytest.approx(4 * warps)
    assert dense.wavefronts == pytest.approx(35 * warps)
    assert padded.shared_bytes == 4 * (31 * 33 + 32) and padded.barriers >= 1
    assert g.told(lambda: g.transpose(4096)).limited_by == "l1"
    assert g.told(lambda: g.transpose(4096, pad=1)).limited_by == "memory"


@pytest.mark.parametrize("wave", [132, 396, 3300])
def test_rows_that_are_read_again_come_from_a_cache(wave):
    """Each block reads a row of its own three times: the memory gives it once."""
    rows, row = 16384, 32768
    x = Traffic(rows * row, 3.0 * rows * row, 0.0, {frozenset(["blockIdx.x"]): 3.0 * row})
    grid = Grid({"blockIdx.x": rows}, rows, wave)
    assert memory_bytes(x, grid, spec_of("sm_90")) == rows * row


def test_panels_that_blocks_of_one_wave_share_are_fetched_once():
    """A product's factors: 64 by 64 blocks, of which 128 run at a time, two rows of them."""
    spec, size = spec_of("sm_90"), float(1 << 28)
    grid = Grid({"blockIdx.x": 64, "blockIdx.y": 64}, 4096, 128)
    left, right = (
        Traffic(size, 64 * size, 0.0, {frozenset([tag]): size / 64})
        for tag in ("blockIdx.y", "blockIdx.x")
    )
    assert memory_bytes(left, grid, spec) == size
    assert memory_bytes(right, grid, spec) == 32 * size  # once a wave


@pytest.mark.parametrize(("apart", "passes"), [(1, 2), (2, 2), (4, 4)])
def test_a_warp_is_given_a_register_a_pass_and_two_to_lanes_alike(apart, passes):
    """Vectors of four floats, of which lanes that are ``apart`` read the same."""
    lanes = np.arange(32) % apart + np.arange(32) // (2 * apart) * apart
    address = np.broadcast_to((lanes * 16)[:, None] + 4 * np.arange(4), (SAMPLES, 32, 4))
    assert (wavefronts(address, 4, np.ones((SAMPLES, 32, 1), bool)) == passes).all()
    words = np.broadcast_to(4 * np.arange(32)[:, None], (SAMPLES, 32, 1))
    assert (wavefronts(words, 4, np.ones((SAMPLES, 32, 1), bool)) == 1).all()


@pytest.mark.parametrize(
    ("asking", "passes"),
    [
        (np.arange(32) < 8, 1),  # the others' passes are not made
        (np.arange(32) < 9, 2),
        (np.arange(32) % 8 == 0, 4),  # of one bank
        (np.arange(32) % 9 == 0, 2),  # who is alone is like its neighbour
        (np.arange(32) == 5, 1),
        (np.arange(32) >= 0, 4),
    ],
)
def test_lanes_that_are_inactive_take_no_passes(asking, passes):
    address = np.broadcast_to(4 * np.arange(128).reshape(32, 4), (SAMPLES, 32, 4))
    active = np.broadcast_to(asking[None, :, None], (SAMPLES, 32, 1))
    assert (wavefronts(address, 4, active) == passes).all()
    read = groups(active[:, :, 0], 16)
    assert (read == len({lane // 8 for lane in np.flatnonzero(asking)})).all()


@pytest.mark.parametrize("each", [2, 4])
def test_traffic_of_a_tiled_product(each):
    n, tile = 1024, 16 * each
    work = g.work(lambda: g.tiled_product(n, each))
    assert work.fma32 == n**3
    loaded = 2 * (n // tile) * n * n * 4
    assert work.l2_bytes == pytest.approx(loaded + 4 * n * n, rel=0.15)
    assert work.memory_bytes == 3 * 4 * n * n  # all of it fits the L2 cache
    assert work.barriers == 2 * n / 8 and work.phases >= n / 8


def test_half_the_bytes_of_float16():
    wide, half = (g.work(lambda t=t: g.plain_product(512, dtype=t)) for t in ("float32", "float16"))
    assert half.memory_bytes == wide.memory_bytes / 2


def test_functions_and_conversions_go_through_their_own_pipe():
    exp = g.work(lambda: g.elementwise(lambda a, i: te.exp(a[i])))
    assert exp.special == MIB
    doubled = g.work(lambda: g.elementwise(lambda a, i: a[i] * a[i] + 1.0, dtype="float64"))
    assert (doubled.fma64, doubled.fma32) == (MIB, 0)
    assert g.told(lambda: g.elementwise(lambda a, i: a[i] + te.exp(a[i]))).limited_by == "memory"


def test_bytes_in_flight_are_those_of_the_memory():
    """Lanes that ask for the same, and loads that wait for the same registers, count once; of
    lanes far apart each has a sector for its register."""
    n = 1 << 16
    side_by_side, same, apart = (
        g.work(lambda b=b: g.elementwise(b, n), registers=12)
        for b in (lambda a, i: a[i], lambda a, i: a[i // 32], lambda a, i: a[i % 8192 * 8])
    )
    assert [x.in_flight for x in (side_by_side, same, apart)] == [4, 1, 32]
    four = g.work(lambda: g.add(n, vector=4))
    assert four.in_flight == 2 * 16
    assert g.work(lambda: g.add(n, vector=4), registers=12).in_flight == 16


def test_a_guard_that_holds_for_half_the_threads_halves_the_work():
    n = 1 << 16

    def half(a, i):
        return te.if_then_else(te.all(i % 64 < 32), a[i], 0.0)

    work = g.work(lambda: g.elementwise(half, n))
    assert work.l2_bytes <= (2 * n + 0.1 * n) * 4


# --- costs


def test_products_in_the_order_of_what_is_known_of_them():
    """Each step of the way from the plain product to register tiles is faster on real GPUs."""
    makes = [
        lambda: g.plain_product(across=False),
        g.plain_product,
        lambda: g.tiled_product(each=1),
        lambda: g.tiled_product(each=2),
        lambda: g.tiled_product(each=4),
    ]
    for arch in ("sm_80", "sm_90"):
        seconds = [float(g.told(make, arch).seconds) for make in makes]
        assert seconds == sorted(seconds, reverse=True)
        assert seconds[0] > 3 * seconds[1] > 9 * seconds[4]
        spec = spec_of(arch)
        peak = spec.multiprocessors * spec.limits.fma32 * spec.hertz
        assert 4096**3 / peak < seconds[-1] < 4096**3 / peak * 2.5


@pytest.mark.parametrize(
    ("make", "measured"),
    [
        (lambda n: g.plain_product(n, across=False), 309.0),
        (lambda n: g.plain_product(n), 1986.5),
        (lambda n: g.tiled_product(n, each=1), 2980.3),
        (lambda n: g.tiled_product(n, each=8), 15971.8),
    ],
    ids=["rows apart", "side by side", "shared memory", "registers"],
)
def test_products_that_others_have_measured(make, measured):
    """S. Boehm's worklog, GFLOP/s of products of 4096 on an RTX A6000, which has the RTX 3090's
    chip; cuBLAS reaches two thirds of its peak there."""
    n = 4096
    told = g.told(lambda: make(n), "sm_86")
    assert measured < 2e-9 * n**3 / told.seconds < 1.75 * measured


@pytest.mark.parametrize("arch", sorted(SPECS))
def test_nothing_is_faster_than_memory(arch):
    told, spec = g.told(lambda: g.add(64 * MIB, vector=4), arch), spec_of(arch)
    least = 3 * 64 * MIB * 4 / spec.memory_bytes_s
    assert least < told.seconds < 1.4 * least
    assert told.limited_by == "memory"


@pytest.mark.parametrize(
    ("arch", "kib"), [("sm_75", 12), ("sm_80", 16), ("sm_90", 48), ("sm_100", 64)]
)
def test_bytes_under_way_that_others_found_to_be_enough(arch, kib):
    """CUB's transform keeps so much under way on a multiprocessor: all of it is needed for the
    whole bandwidth, and a fourth of it is too little."""
    nothing = Work(**dict.fromkeys(Work.__dataclass_fields__, 0.0))
    given = {"blocks": 1e5, "threads": 256.0, "registers": 128.0, "memory_bytes": 1e9}
    spec = spec_of(arch)
    held = float(resident_blocks(spec, 256, 128, 0) * 256)
    full, less = (
        predict(spec, replace(nothing, **given, in_flight=1024 * part / held)).parts["memory"]
        for part in (kib, kib / 4)
    )
    least = 1e9 / spec.memory_bytes_s / REACHED[0]
    assert least < full < 1.12 * least and less > 1.2 * least


def test_wide_loads_keep_more_under_way():
    one, four = (
        float(g.told(lambda v=v: g.add(64 * MIB, vector=v), "sm_90").seconds) for v in (1, 4)
    )
    assert 1.1 * four < one < 1.5 * four


def test_an_empty_gpu_is_slow_and_a_launch_has_its_price():
    few, many = (float(g.told(lambda n=n: g.add(n)).seconds) for n in (256, 1 << 14))
    assert LAUNCH_S < few == pytest.approx(many, rel=0.01)  # 64 blocks run at a time
    spilt = [float(g.told(g.add, spilt_bytes=n).seconds) for n in (0, 4096)]
    assert spilt[1] > 2 * spilt[0]


def test_what_is_spilt_is_moved_in_each_step_of_a_loop():
    none, some = (g.work(lambda: g.tiled_product(1024, 4), spilt_bytes=n) for n in (0, 128))
    warps = none.blocks * none.threads / 32
    moved = 128 / 4 * 1024 / 8  # words, steps of the loop over shared memory's tiles
    assert (some.instructions - none.instructions) / warps == pytest.approx(moved)
    assert (some.wavefronts - none.wavefronts) / warps == pytest.approx(moved)


def test_one_formula_for_one_kernel_and_for_many():
    works = [g.work(lambda k=k: g.add(MIB, step=k)) for k in (1, 2, 8)]
    names = Work.__dataclass_fields__
    columns = Work(**{k: np.array([float(getattr(w, k)) for w in works]) for k in names})
    together = predict(spec_of("sm_80"), columns)
    for k, one in enumerate(works):
        alone = predict(spec_of("sm_80"), one)
        np.testing.assert_allclose(together.seconds[k], alone.seconds, rtol=1e-12)
        assert together.resident[k] == alone.resident


@pytest.mark.parametrize("limit", ["arithmetic", "issue", "special"])
def test_sub_partitions_with_fewer_warps_wait_for_the_others(limit):
    """Fourteen warps take as long as sixteen: two of the four parts have four of them, too."""
    spec = spec_of("sm_80")

    def seconds(threads, blocks):
        warps = threads // 32 * blocks
        given = dict.fromkeys(Work.__dataclass_fields__, 0.0)
        each = {"instructions": 1e5 * warps, "fma32": 2e6 * warps, "special": 1e6 * warps}
        given |= {**each, "blocks": blocks, "threads": threads, "registers": 128, "chain": 1.0}
        return float(predict(spec, Work(**given)).parts[limit])

    blocks = 2 * spec.multiprocessors
    assert seconds(224, blocks) == pytest.approx(seconds(256, blocks), rel=1e-12)
    assert seconds(192, blocks) == pytest.approx(3 / 4 * seconds(256, blocks), rel=1e-12)
    assert seconds(160, blocks) > 5 / 8 * 1.15 * seconds(256, blocks)


@pytest.mark.parametrize(("arch", "rate"), [("sm_80", 64), ("sm_86", 128)])
def test_multiply_adds_have_the_lanes_of_their_architecture(arch, rate):
    spec = spec_of(arch)
    given = dict.fromkeys(Work.__dataclass_fields__, 0.0)
    given |= {"blocks": 4 * spec.multiprocessors, "threads": 256, "registers": 64, "chain": 1.0}
    fma = 1e9 * spec.multiprocessors
    told = predict(spec, Work(**{**given, "fma32": fma, "instructions": fma / 32}))
    assert 1e9 / rate < told.parts["arithmetic"] * spec.hertz < 1.1 * 1e9 / rate


# --- what it refuses


def test_symbolic_sizes_are_refused():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(s[B].op.axis[0], factor=64)
    g.bind(s, B, {block: "blockIdx.x", thread: "threadIdx.x"})
    with pytest.raises(MeasureError, match=r"(?s)depends on n.*sizes that are numbers"):
        g.work(lambda: (s, [A, B]))


def test_an_architecture_without_a_model():
    with pytest.raises(TargetError, match=r"(?s)sm_61.*no GPU of that architecture.*sm_80"):
        spec_of("sm_61")
    assert spec_of("sm_90a") is spec_of("sm_90")
