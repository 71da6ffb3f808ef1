"""Matrix products for GPUs: odd sizes, transposes, epilogues, halves, parts of the sum."""

import numpy as np
import pytest
from gpu_checks import TARGET, Case, check, configs_of, product

import whet
from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.search_spaces.rules.gpu.contraction.gemm_plan import TILES, GemmShape, Plan, cheapest
from whet.search_spaces.rules.gpu.hardware.device import balance
from whet.search_spaces.rules.gpu.hardware.threads import Block

CASES = {
    "odd": product("matmul", (67, 45, 83)),
    "vectors": product("matmul", (130, 72, 132)),
    "size 1": product("matmul", (1, 1, 1)),
    "a row": product("matmul", (1, 70, 36)),
    "a column": product("matmul", (35, 40, 1)),
    "a turned column": product("matmul", (35, 130, 1, False, True), ("bias",)),
    "matvec": Case("matvec", (37, 133, "float32", ()), lambda a, x: a @ x),
    "matvec of halves": Case("matvec", (24, 256, "float16", ()), lambda a, x: a @ x),
    "both turned": product("matmul", (40, 33, 65, True, True)),
    "left turned": product("matmul", (64, 48, 40, True), ("residual",)),
    "epilogue": product("dense", (33, 64, 40), ("bias", "gelu")),
    "doubles": product("dense", (20, 24, 30), (), "float64"),
    "halves": product("matmul", (48, 40, 64), ("bias",), "float16"),
    "odd halves": product("dense", (17, 19, 23), (), "float16"),
    "batch": product("batch_matmul", (3, 20, 40, 35)),
    "batch of halves": product("batch_matmul", (2, 24, 16, 40, False, True), (), "float16"),
    "long": product("dense", (9, 1100, 20), ("relu",)),
    "no terms": product("matmul", (3, 0, 4), ("bias",)),
}


@pytest.mark.gpu_matrix(4)
@pytest.mark.parametrize("which", CASES)
def test_in_the_emulator(which, gpu_full):
    for config in configs_of(CASES[which], 1):
        check(CASES[which], config, full=gpu_full)


@pytest.mark.gpu_matrix(8)
@pytest.mark.parametrize("which", CASES)
def test_step_by_step(which):
    for config in configs_of(CASES[which], 3):
        check(CASES[which], config, "cpu")


@pytest.mark.parametrize("double", (False, True))
def test_parts_of_a_sum_are_added_by_a_second_kernel(double, gpu_full):
    case = CASES["long"]
    (config, *_) = configs_of(case, 8, {"split_k": 2, "double_buffer": double})
    check(case, config, full=gpu_full)


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize(
    "which", ("odd", "epilogue", "halves", "batch", "left turned", "both turned")
)
@pytest.mark.parametrize("slices", (2, 4))
def test_slices_of_a_block_take_steps_of_their_own(which, slices, gpu_full):
    case = CASES[which]
    config, other, *_ = configs_of(case, 2, {"slices": slices})
    check(case, config, full=gpu_full)
    check(case, other, "cpu")


def test_slices_share_bytes_with_the_factors_that_they_are_made_of():
    task = whet.create_task("matmul", args=(512, 2048, 784), target=TARGET)
    config = {"tile": (64, 64, 8, 8), "step": 16, "slices": 4, "split_k": 1, "double_buffer": True}
    with task.target:
        f = whet.build(*task.instantiate(task.config_space.from_choices(config)))
    (used,) = (r.dynamic_shared_bytes for r in f.resources().values())
    assert used == 4 * 64 * 64 * 4


@pytest.mark.gpu_matrix(1)
@pytest.mark.parametrize("tile", ((96, 64, 4, 4), (112, 64, 8, 8), (48, 128, 4, 4)))
def test_tiles_whose_copies_no_number_of_threads_divides(tile, gpu_full):
    case = CASES["vectors"]
    check(case, configs_of(case, 6, {"tile": tile})[0], full=gpu_full)


def lanes_of_a_warp(block, warp=0):
    """Rows and columns of a tile's threads, lane by lane, as CUDA numbers threads."""
    thread = 32 * warp + np.arange(32)
    x, yz = thread % block.x, thread // block.x
    return x + block.x * (yz // block.y), yz % block.y


def test_lanes_side_by_side_read_the_same_of_each_factor():
    """Then a register of two lanes passes through shared memory at once."""
    for tile in TILES:
        block = Plan(*tile, step=8, split_k=1, double_buffer=True).block
        assert block.threads == tile[0] // tile[2] * (tile[1] // tile[3])
        for warp in range(block.threads // 32):
            rows, columns = lanes_of_a_warp(block, warp)
            assert (columns == columns[np.arange(32) ^ 1]).all(), tile
            assert (rows == rows[np.arange(32) ^ 2]).all(), tile
    assert Plan(64, 64, 8, 8, 16, 1, True, slices=4).block == Block(2, 8, 16)


def test_products_with_one_rule_have_one_default():
    sizes = GemmShape(1, 4096, 4096, 4096)
    target = whet.create_task("matmul", args=(8, 8, 8), target=TARGET).target
    assert cheapest(sizes, target, TILES, sizes.parts)[1:] == ((128, 128, 8, 8), 1, 1)
    small = GemmShape(1, 512, 16 * 49, 2048)
    _, tile, parts, slices = cheapest(small, target, TILES, small.parts)
    blocks = parts * -(-512 // tile[0]) * -(-16 * 49 // tile[1])
    warps = tile[0] // tile[2] * (tile[1] // tile[3]) * slices / 32
    assert blocks * warps >= 132 * 6, "as many warps as hide latencies"


def test_few_tiles_are_cut_into_slices_and_have_a_multiprocessor_each():
    target = whet.create_task("matmul", args=(8, 8, 8), target=TARGET).target
    product = GemmShape(1, 256, 16 * 14 * 14, 1024)
    _, tile, parts, slices = cheapest(product, target, TILES, product.parts)
    assert parts == 1 and slices > 1
    plan = Plan(*tile, step=16, split_k=1, double_buffer=True, slices=slices).of(product, target)
    assert plan.most == plan.resident == 1
    assert cheapest(GemmShape(1, 8, 8, 4), target, TILES[-1:], [1])[3] == 1, "too few steps"


def test_no_product_at_all():
    empty = product("matmul", (0, 3, 4))
    check(empty, configs_of(empty, 0)[0])


def test_the_target_says_which_schedule():
    args = (64, 64, 64)
    on_gpu = whet.create_task("matmul", args=args, target=TARGET)
    on_cpu = whet.create_task("matmul", args=args, target="llvm")
    assert on_gpu.workload == on_cpu.workload
    assert "split_k" in on_gpu.config_space.knobs and "tile" in on_gpu.config_space.knobs
    assert "split_k" not in on_cpu.config_space.knobs
    assert on_gpu.config_space.fingerprint != on_cpu.config_space.fingerprint
    assert on_gpu.flop == on_cpu.flop == 2 * 64**3


def test_what_only_the_other_kind_can():
    half = (8, 8, 8, False, False, "float16")
    assert whet.create_task("matmul", args=half, target=TARGET).config_space
    with pytest.raises(ArgumentError, match="'float16' is not one of float32, float64"):
        _ = whet.create_task("matmul", args=half, target="llvm").config_space
    packed = (8, 8, 8, "float32", (), True)
    with pytest.raises(ArgumentError, match="packed=True of weight for a GPU"):
        _ = whet.create_task("dense", args=packed, target=TARGET).config_space


def test_what_is_stored_in_halves_is_summed_up_in_float32():
    args = (8, 4000, 8, False, False, "float16")
    s, _ = whet.create_task("matmul", args=args, target=TARGET).instantiate()
    kinds = {stage.op.output_dtype(0) for stage in s.stages if stage.op.name == "tile"}
    assert kinds == {"float32"}


def test_a_tile_fits_the_shared_memory_of_the_target():
    space = whet.create_task("matmul", args=(512, 512, 512), target="cuda -arch=sm_75").config_space
    most = 64 * 1024
    for point in space.valid_points.sample(np.random.default_rng(0), 200):
        c = space.decode(point)
        rows, columns = c["tile"].val[:2]
        copies = 2 if c["double_buffer"].val else 1
        assert (rows + columns) * c["step"].val * 4 * copies <= most


ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("n", [1024, 2048, 4096, 8192, 4000])
def test_the_default_keeps_all_sub_partitions_at_work(arch, n):
    """Blocks of seven warps, two at a time, would leave two of sixteen places empty."""
    target, product = Target(f"cuda -arch={arch}"), GemmShape(1, n, n, n)
    _, tile, split, slices = cheapest(product, target, TILES, product.parts)
    plan = Plan(*tile, 8, split, True, slices=slices).of(product, target)
    warps = plan.block.threads / 32
    assert warps == int(warps) and balance(plan.resident * int(warps)) == 1


def test_lanes_of_a_multiprocessor_that_have_a_warp():
    shares = [balance(n) for n in (1, 3, 4, 5, 7, 8, 14, 28)]
    assert shares == [1 / 4, 3 / 4, 1, 5 / 8, 7 / 8, 1, 7 / 8, 1]


def test_half_the_lanes_take_twice_as_long():
    """A100 has half of the H100's lanes for float32, and needs fewer warps to keep them busy."""
    product = GemmShape(1, 4096, 4096, 4096)
    cycles = {
        arch: cheapest(product, Target(f"cuda -arch={arch} -multi_processor_count=128"), TILES, [1])
        for arch in ("sm_80", "sm_90")
    }
    assert 1.5 < cycles["sm_80"][0] / cycles["sm_90"][0] < 2
