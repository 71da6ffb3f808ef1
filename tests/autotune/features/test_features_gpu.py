"""Loop features of schedules for GPUs: threads, blocks, memory, the model's estimate."""

import numpy as np
import pytest

import whet
from whet import te
from whet.autotune.features import NAMES, LoopFeatures
from whet.autotune.features.columns import PROGRAM
from whet.autotune.features.gpu_columns import GPU_PROGRAM
from whet.compiler import driver
from whet.compiler.passes import run_build_passes
from whet.measure.device.specs import spec_of
from whet.measure.gpu.cost.counts import work_of
from whet.measure.gpu.cost.model import predict

SM80 = "cuda -arch=sm_80"


@whet.template("test/features_gpu")
def on_gpu(n: int) -> tuple:
    """A sum of vectors, in threads."""
    cfg = whet.get_config()
    cfg.define_knob("threads", [32, 64, 128])
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    bx, tx = s[B].split(B.op.axis[0], factor=cfg["threads"].val)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    return s, [A, B]


@whet.template("test/features_gpu_tiles")
def tiles(n: int) -> tuple:
    """A matrix product from shared memory, its threads by rows or by columns."""
    cfg = whet.get_config()
    cfg.define_knob("each", [1, 2, 4])
    cfg.define_knob("across", [False, True])
    cfg.define_knob("step", [8, 16])
    A, B = (te.placeholder((n, n), name=x) for x in "AB")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    shared = [s.cache_read(x, "shared", [C]) for x in (A, B)]
    tile = s.cache_write(C, "local")
    i, j = s[C].op.axis
    each = cfg["each"].val
    io, it = s[C].split(i, 16 * each)
    it, ii = s[C].split(it, each)
    jo, jt = s[C].split(j, 16 * each)
    jt, ji = s[C].split(jt, each)
    s[C].reorder(io, jo, it, jt, ii, ji)
    x, y = (jt, it) if cfg["across"].val else (it, jt)
    tags = {io: "blockIdx.y", jo: "blockIdx.x", y: "threadIdx.y", x: "threadIdx.x"}
    for axis, tag in tags.items():
        s[C].bind(axis, te.thread_axis(tag))
    s[tile].compute_at(s[C], jt)
    ko, ki = s[tile].split(s[tile].op.reduce_axis[0], cfg["step"].val)
    a, b = s[tile].op.axis
    s[tile].reorder(ko, ki, a, b)
    s[tile].unroll(a)
    s[tile].unroll(b)
    for one in shared:
        s[one].compute_at(s[tile], ko)
        rest, x = s[one].split(s[one].fuse(*s[one].op.axis), 16)
        _, y = s[one].split(rest, 16)
        s[one].bind(x, te.thread_axis("threadIdx.x"))
        s[one].bind(y, te.thread_axis("threadIdx.y"))
    return s, [A, B, C]


def rows_of(task, choices):
    space = task.config_space
    points = np.array([space.encode(space.from_choices(c)) for c in choices])
    rows = LoopFeatures(task).of_points(points)
    return dict(zip(GPU_PROGRAM, rows.T))


def test_blocks_and_threads_have_columns():
    task = whet.create_task("test/features_gpu", args=(4096,), target=SM80)
    features = LoopFeatures(task)
    rows = features.of_points(np.array([[0], [1], [2]]))
    of = GPU_PROGRAM.index
    np.testing.assert_allclose(2 ** rows[:, of("threads")] - 1, [32, 64, 128], rtol=1e-4)
    np.testing.assert_allclose(2 ** rows[:, of("blocks")] - 1, [128, 64, 32], rtol=1e-4)
    assert features.structures.made == 1


def test_products_that_differ_in_the_parts_of_their_sum_are_traced_once():
    task = whet.create_task("matmul", args=(4096, 4096, 4096), target=SM80)
    space = task.config_space
    given = space.default.as_dict()
    points = [space.encode(space.from_choices(given | {"split_k": k})) for k in (2, 4, 8)]
    features = LoopFeatures(task)
    features.of_points(np.array(points))
    assert features.structures.made == 1


def test_rows_have_one_width_and_the_estimate_comes_first():
    task = whet.create_task("test/features_gpu", args=(4096,), target=SM80)
    assert LoopFeatures(task).of_points(np.array([[0]])).shape == (1, len(NAMES))
    assert len(set(GPU_PROGRAM)) == len(GPU_PROGRAM) and GPU_PROGRAM[0] == NAMES[0] == "estimate"
    assert len(GPU_PROGRAM) <= len(PROGRAM)  # models see so many columns


def test_columns_of_a_tiled_product():
    task = whet.create_task("test/features_gpu_tiles", args=(2048,), target=SM80)
    each = {"across": True, "step": 8}
    found = rows_of(task, [each | {"each": k} for k in (1, 2, 4)])
    np.testing.assert_allclose(2 ** found["threads"] - 1, 256, rtol=1e-4)
    blocks = [(2048 // 16) ** 2, (2048 // 32) ** 2, (2048 // 64) ** 2]
    np.testing.assert_allclose(2 ** found["blocks"] - 1, blocks, rtol=1e-4)
    np.testing.assert_allclose(2 ** found["shared.bytes"] - 1, [1024, 2048, 4096], rtol=1e-4)
    np.testing.assert_allclose(2 ** found["local.bytes"] - 1, [4, 16, 64], rtol=1e-4)
    np.testing.assert_allclose(2 ** found["flop.fma"] - 1, 2048**3, rtol=1e-4)
    assert (np.diff(found["l2.bytes"]) < -0.7).all()  # half the traffic, and half of that
    assert (np.diff(found["estimate"]) < 0).all()
    assert (found["coalesced"] > 0.4).all() and (found["kernels"] == 1).all()


def test_columns_tell_coalesced_loads_from_others():
    task = whet.create_task("matmul", args=(256, 256, 256), target=SM80)
    space = task.config_space
    found = rows_of(task, [space.default.as_dict()])
    assert found["coalesced"][0] > 0.9 and found["vector.bytes"][0] > 4
    plain = whet.create_task("test/features_gpu_tiles", args=(512,), target=SM80)
    across = rows_of(plain, [{"each": 4, "step": 8, "across": x} for x in (True, False)])
    stores = across["l2.bytes"]
    assert stores[1] >= stores[0] and across["estimate"][1] >= across["estimate"][0]


def test_tiles_of_fused_pixels_are_found_whole():
    """A tile of pixels that were fused from images, rows and columns is not all of the pixels."""
    args = (2, 64, 14, 14, 64, 1, 1, 1, 0)
    task = whet.create_task("conv2d_nchw", args=args, target=SM80)
    space, rng = task.config_space, np.random.default_rng(0)
    drawn = [space.sample(rng).as_dict() for _ in range(60)]
    tiled = [c for c in drawn if c["algorithm"] == "implicit" and 196 % c["tile"][3] == 0][:8]
    found = rows_of(task, tiled)
    assert len(tiled) == 8 and (2 ** found["flop.fma"] < 3 * 2 * 64 * 64 * 196).all()


def test_aligned_rows_lie_on_different_banks():
    task = whet.create_task("transpose", args=((1024, 1024),), target=SM80)
    found = rows_of(task, [task.config_space.default.as_dict()])
    assert 1 <= found["conflicts"][0] < 4  # 32 where rows are not a word longer than the banks


@pytest.mark.parametrize(
    ("name", "args", "columns"),
    [
        ("matmul", (1024, 1024, 1024), ("l1", "issue")),
        ("sum", ((4096, 4096), (1,)), ("l2",)),
    ],
)
def test_columns_rank_as_the_lowered_kernels_do(name, args, columns):
    """Data that each K iteration loads to shared memory is read anew; partial sums lie apart."""
    task = whet.create_task(name, args=args, target=SM80)
    space, spec, rng = task.config_space, spec_of("sm_80"), np.random.default_rng(1)
    drawn = list({space.sample(rng) for _ in range(12)})
    found = rows_of(task, [config.as_dict() for config in drawn])
    for column in columns:
        model = [sum(float(p.parts[column]) for p in told_of(task, c, spec)) for c in drawn]
        off = found[f"seconds.{column}"] - np.log2(np.array(model) + 1e-9)
        assert np.abs(off).max() < 1.3, column
        assert spearman(found[f"seconds.{column}"], model) > 0.6, column


def spearman(a, b):
    return np.corrcoef(np.argsort(np.argsort(a)), np.argsort(np.argsort(b)))[0, 1]


def told_of(task, config, spec):
    with task.target:
        module = run_build_passes(driver.lower(*task.instantiate(config)), task.target)
    kernels = module.functions.values()
    return [
        predict(spec, work_of(f, spec))
        for f in kernels
        if f.attrs.get("calling_conv") == "kernel_launch"
    ]


@pytest.mark.parametrize(("name", "apart"), [("matmul", 1.0), ("test/features_gpu_tiles", 2.1)])
def test_the_estimate_is_near_the_lowered_kernels_model(name, apart):
    """From loops alone it says nearly what the kernels say, also where shared loads are merged."""
    args = (1024, 1024, 1024) if name == "matmul" else (1024,)
    task = whet.create_task(name, args=args, target=SM80)
    space, spec = task.config_space, spec_of("sm_80")
    rng = np.random.default_rng(0)
    points = [space.encode(space.default), *(space.encode(space.sample(rng)) for _ in range(5))]
    rows = LoopFeatures(task).of_points(np.array(points))
    for point, row in zip(points, rows):
        told = told_of(task, space.decode(point), spec)
        seconds = sum(float(one.seconds) for one in told)
        assert abs(row[0] - np.log2(seconds)) < apart, space.decode(point)
