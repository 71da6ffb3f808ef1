"""GEMMs for GPUs: odd sizes, transposes, epilogues, float16, split-K."""

import numpy as np
import pytest
from gpu_checks import TARGET, Case, check, configs_of, gemm, packed

import whet
from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.search_spaces.rules.gpu.contraction.gemm_plan import TILES, GemmShape, Plan, cheapest
from whet.search_spaces.rules.gpu.hardware.device import balance
from whet.search_spaces.rules.gpu.hardware.threads import Block

CASES = {
    "odd": gemm("matmul", (67, 45, 83)),
    "vectors": gemm("matmul", (130, 72, 132)),
    "size 1": gemm("matmul", (1, 1, 1)),
    "a row": gemm("matmul", (1, 70, 36)),
    "a column": gemm("matmul", (35, 40, 1)),
    "a transposed column": gemm("matmul", (35, 130, 1, False, True), ("bias",)),
    "matvec": Case("matvec", (37, 133, "float32", ()), lambda a, x: a @ x),
    "matvec in float16": Case("matvec", (24, 256, "float16", ()), lambda a, x: a @ x),
    "both transposed": gemm("matmul", (40, 33, 65, True, True)),
    "left transposed": gemm("matmul", (64, 48, 40, True), ("residual",)),
    "epilogue": gemm("dense", (33, 64, 40), ("bias", "gelu")),
    "float64": gemm("dense", (20, 24, 30), (), "float64"),
    "float16": gemm("matmul", (48, 40, 64), ("bias",), "float16"),
    "odd float16": gemm("dense", (17, 19, 23), (), "float16"),
    "batch": gemm("batch_matmul", (3, 20, 40, 35)),
    "batch in float16": gemm("batch_matmul", (2, 24, 16, 40, False, True), (), "float16"),
    "long": gemm("dense", (9, 1100, 20), ("relu",)),
    "no terms": gemm("matmul", (3, 0, 4), ("bias",)),
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
def test_a_second_kernel_adds_inter_block_split_k(double, gpu_full):
    case = CASES["long"]
    (config, *_) = configs_of(case, 8, {"split_k": 2, "double_buffer": double})
    check(case, config, full=gpu_full)


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize(
    "which", ("odd", "epilogue", "float16", "batch", "left transposed", "both transposed")
)
@pytest.mark.parametrize("slices", (2, 4))
def test_intra_block_split_k(which, slices, gpu_full):
    case = CASES[which]
    config, other, *_ = configs_of(case, 2, {"slices": slices})
    check(case, config, full=gpu_full)
    check(case, other, "cpu")


def test_intra_block_split_k_reuses_the_operands_shared_memory():
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


def test_neighbouring_lanes_read_the_same_of_each_operand():
    """Then one wavefront of shared memory serves a register of two lanes."""
    for tile in TILES:
        block = Plan(*tile, step=8, split_k=1, double_buffer=True).block
        assert block.threads == tile[0] // tile[2] * (tile[1] // tile[3])
        for warp in range(block.threads // 32):
            rows, columns = lanes_of_a_warp(block, warp)
            assert (columns == columns[np.arange(32) ^ 1]).all(), tile
            assert (rows == rows[np.arange(32) ^ 2]).all(), tile
    assert Plan(64, 64, 8, 8, 16, 1, True, slices=4).block == Block(2, 8, 16)


def test_gemms_with_one_rule_have_one_default():
    sizes = GemmShape(1, 4096, 4096, 4096)
    target = whet.create_task("matmul", args=(8, 8, 8), target=TARGET).target
    assert cheapest(sizes, target, TILES, sizes.parts)[1:] == ((128, 128, 8, 8), 1, 1)
    small = GemmShape(1, 512, 16 * 49, 2048)
    _, tile, split_k, slices = cheapest(small, target, TILES, small.parts)
    blocks = split_k * -(-512 // tile[0]) * -(-16 * 49 // tile[1])
    warps = tile[0] // tile[2] * (tile[1] // tile[3]) * slices / 32
    assert blocks * warps >= 132 * 6, "as many warps as hide latencies"


def test_few_tiles_split_k_within_blocks_and_have_a_multiprocessor_each():
    target = whet.create_task("matmul", args=(8, 8, 8), target=TARGET).target
    shape = GemmShape(1, 256, 16 * 14 * 14, 1024)
    _, tile, split_k, slices = cheapest(shape, target, TILES, shape.parts)
    assert split_k == 1 and slices > 1
    plan = Plan(*tile, step=16, split_k=1, double_buffer=True, slices=slices).of(shape, target)
    assert plan.most == plan.resident == 1
    assert cheapest(GemmShape(1, 8, 8, 4), target, TILES[-1:], [1])[3] == 1, "too few K iterations"


def test_no_elements():
    empty = gemm("matmul", (0, 3, 4))
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


def test_arguments_of_one_kind_of_target():
    half = (8, 8, 8, False, False, "float16")
    assert whet.create_task("matmul", args=half, target=TARGET).config_space
    with pytest.raises(ArgumentError, match="'float16' is not one of float32, float64"):
        _ = whet.create_task("matmul", args=half, target="llvm").config_space


@pytest.mark.gpu_matrix(2)
@pytest.mark.parametrize("which", ("odd", "epilogue", "float16", "left transposed", "a row"))
def test_weights_are_packed_ahead(which, gpu_full):
    case = packed(CASES[which])
    for config in configs_of(case, 1):
        check(case, config, full=gpu_full)


def test_float16_is_accumulated_in_float32():
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
    target, shape = Target(f"cuda -arch={arch}"), GemmShape(1, n, n, n)
    _, tile, split, slices = cheapest(shape, target, TILES, shape.parts)
    plan = Plan(*tile, 8, split, True, slices=slices).of(shape, target)
    warps = plan.block.threads / 32
    assert warps == int(warps) and balance(plan.resident * int(warps)) == 1


def test_lanes_of_a_multiprocessor_that_have_a_warp():
    shares = [balance(n) for n in (1, 3, 4, 5, 7, 8, 14, 28)]
    assert shares == [1 / 4, 3 / 4, 1, 5 / 8, 7 / 8, 1, 7 / 8, 1]


def test_half_the_lanes_take_twice_as_long():
    """A100 has half of the H100's lanes for float32, and needs fewer warps to keep them busy."""
    shape = GemmShape(1, 4096, 4096, 4096)
    cycles = {
        arch: cheapest(shape, Target(f"cuda -arch={arch} -multi_processor_count=128"), TILES, [1])
        for arch in ("sm_80", "sm_90")
    }
    assert 1.5 < cycles["sm_80"][0] / cycles["sm_90"][0] < 2
