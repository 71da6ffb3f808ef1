"""The first programs of a TVM user run here with the import changed and nothing else."""

import numpy as np
import pytest

import whet as tvm
from whet import te, topi

RNG = np.random.default_rng(3)
EMULATOR = tvm.device("cuda-emulator")


def vector_add(n, dtype="float32"):
    A = te.placeholder((n,), dtype=dtype, name="A")
    B = te.placeholder((n,), dtype=dtype, name="B")
    C = te.compute(A.shape, lambda *i: A(*i) + B(*i), name="C")
    return A, B, C


def add_on(module, n, dev, name=None):
    """Call an addition on fresh arrays and compare."""
    x, y = RNG.uniform(size=n).astype("float32"), RNG.uniform(size=n).astype("float32")
    a, b = tvm.nd.array(x, dev), tvm.nd.array(y, dev)
    c = tvm.nd.array(np.full(n, np.nan, "float32"), dev)
    (module if name is None else module[name])(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), x + y)


def test_walkthrough_vector_add_on_the_cpu():
    n = 1024
    A, B, C = vector_add(n)
    s = tvm.te.create_schedule(C.op)
    fadd = tvm.build(s, [A, B, C], "llvm")
    dev = tvm.device("llvm", 0)
    add_on(fadd, n, dev)
    assert list(C.op.input_tensors) == [A, B]


@pytest.mark.filterwarnings("ignore:no loop of the schedule:UserWarning")
def test_walkthrough_vector_add_for_the_gpu():
    A, B, C = vector_add(1024)
    s = tvm.te.create_schedule(C.op)
    fadd = tvm.build(s, [A, B, C], "cuda")
    (device,) = fadd.imported_modules
    source = device.get_source()
    assert 'extern "C" __global__ void' in source and "blockIdx.x" in source
    add_on(fadd, 1024, EMULATOR)


def test_walkthrough_hand_written_kernel_for_the_gpu():
    A, B, C = vector_add(1000)
    s = te.create_schedule(C.op)
    bx, tx = s[C].split(C.op.axis[0], factor=64)
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))
    fadd = tvm.build(s, [A, B, C], tvm.target.Target("cuda", host="llvm"))
    source = fadd.get_source("cuda")
    assert "__launch_bounds__(64)" in source and "< 1000" in source
    add_on(fadd, 1000, EMULATOR)
    add_on(tvm.build(s, [A, B, C], target="llvm"), 1000, tvm.cpu(0))  # its threads are loops


def test_lower_then_build():
    n = 2
    A, B, C = vector_add(n)
    s = tvm.te.create_schedule(C.op)
    m = tvm.lower(s, [A, B, C], name="test_add")
    assert isinstance(m, tvm.IRModule) and isinstance(m["test_add"], tvm.tir.PrimFunc)
    rt_mod = tvm.build(m, target="llvm")
    add_on(rt_mod, n, tvm.cpu(), "test_add")
    add_on(rt_mod, n, tvm.cpu())


def test_two_targets_in_one_module():
    n = 2
    A, B, C = vector_add(n)
    s1 = tvm.te.create_schedule(C.op)
    with tvm.target.cuda() as cuda_tgt:
        s2 = topi.cuda.schedule_injective(cuda_tgt, [C])
        m1 = tvm.lower(s1, [A, B, C], name="test_add1")
        m2 = tvm.lower(s2, [A, B, C], name="test_add2")
        rt_mod = tvm.build({"llvm": m1, "cuda": m2})
    add_on(rt_mod, n, tvm.cpu(), "test_add1")
    assert "test_add2_kernel0" in rt_mod.imported_modules[0].get_source()
    add_on(rt_mod, n, EMULATOR, "test_add2")
    with pytest.raises(tvm.TVMError, match=r"A is in the CPU's memory"):
        add_on(rt_mod, n, tvm.cpu(), "test_add2")


def test_schedule_with_one_argument():
    A, B, C = vector_add(600)
    with tvm.target.Target("cuda"):
        s = topi.cuda.schedule_injective([C])
        assert 'thread_binding(600, "threadIdx.x")' in str(tvm.lower(s, [A, B, C]))


def test_get_started_with_symbolic_size_and_timing(tmp_path):
    n = te.var("n")
    A, B, C = vector_add(n)
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=4)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    tgt = tvm.target.Target(target="llvm", host="llvm")
    fadd = tvm.build(s, [A, B, C], tgt, name="myadd")
    assert "for" in str(tvm.lower(s, [A, B, C], simple_mode=True))
    for size in (1, 4, 1027):
        add_on(fadd, size, tvm.device(tgt.kind.name, 0))
    dev = tvm.cpu(0)
    a, b, c = (tvm.nd.array(RNG.uniform(size=64).astype(A.dtype), dev) for _ in range(3))
    evaluator = fadd.time_evaluator(fadd.entry_name, dev, number=3)
    assert evaluator(a, b, c).mean > 0


def test_get_started_matmul():
    M = N = K = 33
    k = te.reduce_axis((0, K), "k")
    A, B = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    C = te.compute((M, N), lambda x, y: te.sum(A[x, k] * B[k, y], axis=k), name="C")
    s = te.create_schedule(C.op)
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 8)
    ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=4)
    s[C].reorder(xo, yo, ko, ki, xi, yi)
    s[C].vectorize(yi)
    func = tvm.build(s, [A, B, C], target="llvm", name="mmult")
    assert func
    dev = tvm.device("llvm", 0)
    a = tvm.nd.array(RNG.random((M, K), "float32"), dev)
    b = tvm.nd.array(RNG.random((K, N), "float32"), dev)
    c = tvm.nd.array(np.full((M, N), np.nan, "float32"), dev)
    func(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), np.dot(a.numpy(), b.numpy()), rtol=1e-5)


def test_a_pass_over_the_loops():
    A, B, C = vector_add(8)
    seen = []

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def look(func, mod, ctx):
        tvm.tir.stmt_functor.post_order_visit(func.body, lambda n: seen.append(type(n).__name__))
        return func

    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, look)]}):
        tvm.lower(te.create_schedule(C.op), [A, B, C])
    assert "For" in seen and "BufferStore" in seen


def test_names_that_the_programs_use():
    for name in (
        *("te", "tir", "topi", "target", "nd", "lower", "build", "cpu", "cuda", "gpu", "device"),
        *("transform", "instrument", "runtime", "driver", "testing", "IRModule", "register_func"),
        *("get_global_func", "TVMError", "Target", "arith", "ir"),
    ):
        assert getattr(tvm, name) is not None and name in dir(tvm)
    assert tvm.driver.lower is tvm.lower
    assert tvm.ir.IRModule is tvm.IRModule


def test_assert_allclose_can_fail():
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(np.zeros(3), np.full(3, 1e-3))
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(np.zeros(3), np.zeros(4))
    tvm.testing.assert_allclose(tvm.nd.array(np.ones(3)), np.ones(3) + 1e-9)
