"""Functions for GPUs as modules, called in the emulator: plans, arguments, mixed targets."""

import copy
import pickle
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from device_programs import SM_80, added, bound, doubled_twice, scaled

import whet
from whet import te
from whet.compiler.abi.artifact import Artifact
from whet.compiler.errors import ArgumentError, ArtifactError, KernelError
from whet.compiler.runtime.arrays.gpu_import import taken_array
from whet.compiler.runtime.gpu.driver.pycuda_objects import PycudaKernel
from whet.compiler.runtime.gpu.driver.workspace import workspace_of
from whet.compiler.runtime.gpu.module import CudaModule
from whet.compiler.runtime.module import Module

DEVICE = whet.device("cuda-emulator")


def on_device(values):
    return whet.nd.array(values, DEVICE)


def poisoned(shape, dtype="float32"):
    return on_device(np.full(shape, np.nan if "float" in dtype else 77, dtype))


def numbers(seed, shape, dtype="float32"):
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype)


def test_what_the_emulator_tells_as_a_device():
    assert DEVICE.exist and not whet.device("cuda-emulator", 1).exist
    assert DEVICE.device_name == "cuda-emulator" and DEVICE.device_type == 200
    assert DEVICE.warp_size == 32 and DEVICE.max_threads_per_block == 1024
    assert DEVICE.compute_version == "8.0" and DEVICE.api_version == 0
    stream = DEVICE.create_raw_stream()
    DEVICE.set_raw_stream(stream)
    DEVICE.sync(stream)
    DEVICE.free_raw_stream(stream)
    DEVICE.sync()


@pytest.mark.parametrize("share", [np.from_dlpack, lambda a: a.to_dlpack()])
def test_memory_of_the_emulator_is_not_shared(share):
    a = on_device(np.ones(3, "float32"))
    with pytest.raises(BufferError, match=r"emulated GPU's.*\n.*a\.numpy\(\) copies it"):
        share(a)
    assert not hasattr(a, "__cuda_array_interface__")
    np.testing.assert_array_equal(np.asarray(a), np.ones(3))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a)).numpy(), np.ones(3))


@pytest.mark.parametrize("n", [1, 31, 1000])
def test_a_function_runs_on_the_device_of_its_arguments(n):
    f, a, b = added(n), numbers(n, n), numbers(n + 1, n)
    c = poisoned(n)
    f(on_device(a), on_device(b), c)
    np.testing.assert_array_equal(c.numpy(), a + b)
    assert c.device == DEVICE and isinstance(f.imported_modules[0], CudaModule)
    (kernel,) = f.imported_modules[0].artifact.kernels
    assert kernel.name in f.get_source("cuda")


def test_an_array_between_two_kernels_is_taken_from_a_workspace_and_given_back():
    f, a, c = doubled_twice(100), numbers(0, 100), poisoned(100)
    workspace = workspace_of(c.context)
    workspace.shrink(0)
    doubled = 2 * a[::-1]
    for _ in range(3):
        f(on_device(a), c)
        np.testing.assert_array_equal(c.numpy(), doubled[::-1] + doubled)
        assert workspace._bytes == 400  # one block of T's exact size, whatever the calls


def test_symbols_follow_the_arrays_of_each_call():
    f = doubled_twice(te.var("n"))
    for n in (7, 1, 129, 7):
        a, c = numbers(n, n), poisoned(n)
        f(on_device(a), c)
        doubled = 2 * a[::-1]
        np.testing.assert_array_equal(c.numpy(), doubled[::-1] + doubled)
    with pytest.raises(ArgumentError, match=r"C\.shape\[0\] is 6, expected 7 \(n, where n = 7\)"):
        f(on_device(numbers(0, 7)), poisoned(6))


def test_a_number_that_only_shapes_name_is_checked_in_each_call():
    n = te.var("n")
    A, r = te.placeholder((n, 64), name="A"), te.reduce_axis((0, n), name="r")
    B = te.compute((64,), lambda j: te.sum(A[r, j], axis=r), name="B")
    s = te.create_schedule(B.op)
    bound(s, B)
    f, a, b = whet.build(s, [n, A, B], SM_80), numbers(0, (10, 64)), poisoned(64)
    for _ in range(2):
        f(10, on_device(a), b)
        np.testing.assert_array_equal(b.numpy(), a.sum(axis=0))
    for wrong in (1000, 9):
        with pytest.raises(ArgumentError, match=rf"A\.shape\[0\] is 10, expected {wrong}"):
            f(wrong, on_device(a), b)


def test_nothing_is_launched_for_no_elements():
    for f in (doubled_twice(te.var("n")), doubled_twice(0)):
        c = poisoned(0)
        f(on_device(numbers(0, 0)), c)
        assert c.numpy().shape == (0,)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "int64", "uint16"])
def test_numbers_are_passed_in_their_dtype(dtype):
    f, a, c = scaled(dtype), np.arange(33).astype(dtype), poisoned(33, dtype)
    for k, m in ((2, 3), (np.int16(3), np.int64(1))):  # the second call finds what is ready
        f(on_device(a), k, m, c)
        np.testing.assert_array_equal(c.numpy(), (a * a.dtype.type(k) + m).astype(dtype))


def test_a_number_beyond_float32_is_infinite_as_in_c():
    c = poisoned(33)
    scaled("float32")(on_device(np.ones(33, "float32")), -1e300, 0, c)
    assert (c.numpy() == -np.inf).all()


def test_an_extent_may_follow_a_number():
    n = te.var("n", "int32")
    A = te.placeholder((te.var("m"),), name="A")
    C = te.compute((n,), lambda i: A[0] + i, name="C")
    s = te.create_schedule(C.op)
    bound(s, C)
    f = whet.build(s, [A, n, C], SM_80, name="fill")
    for k in (5, 70):
        c = poisoned(k)
        f(on_device(np.ones(2, "float32")), k, c)
        np.testing.assert_array_equal(c.numpy(), 1 + np.arange(k))


F = added(40)


def given(change):
    args = [on_device(numbers(k, 40)) for k in range(3)]
    change(args)
    return args


WRONG = [
    (lambda a: a.pop(), r"2 arguments given, it takes 3: num_args should be 3"),
    (
        lambda a: a.__setitem__(0, numbers(0, 40)),
        r"argument 0 \(A\): A is in the CPU's memory, and the function runs on a GPU: copy it "
        r"there by whet\.nd\.array\(a, whet\.cuda\(0\)\), and back by \.numpy\(\)",
    ),
    (lambda a: a.__setitem__(1, whet.nd.array(numbers(0, 40))), r"\(B\): B is in the CPU's"),
    (lambda a: a.__setitem__(1, 3.5), r"a float is not an array: expect arg\[1\] to be a pointer"),
    (lambda a: a.__setitem__(2, None), r"a NoneType is not an array"),
    (lambda a: a.__setitem__(2, poisoned(41)), r"C\.shape\[0\] is 41, expected 40"),
    (lambda a: a.__setitem__(2, poisoned((40, 1))), r"C\.ndim is 2, expected 1"),
    (lambda a: a.__setitem__(2, poisoned(40, "float16")), r"C\.dtype is float16, expected float32"),
]


@pytest.mark.parametrize("change, message", WRONG)
def test_wrong_arguments_are_refused_in_the_words_of_the_cpu(change, message):
    args = given(change)
    for call in (F, F.entry_func, F.entry_func.check, lambda *a: F.entry_func.repeater(a)):
        with pytest.raises(ArgumentError, match=message) as caught:
            call(*args)
        assert caught.value.__context__ is None  # no other error hides behind it


def test_names_and_overlaps_are_refused():
    a, b, c = given(lambda a: None)
    with pytest.raises(ArgumentError, match="takes its arguments in order, without names"):
        F(a, b, C=c)
    F.entry_func.check(a, a, c)
    with pytest.raises(ArgumentError, match=r"argument 2 \(C\): .* it overlaps argument 0 \(A\)"):
        F.entry_func.check(a, b, a)


def test_a_module_of_code_for_both_has_both_functions():
    A = te.placeholder((50,), name="A")
    C = te.compute((50,), lambda i: A[i] * 3, name="C")
    gpu, cpu = te.create_schedule(C.op), te.create_schedule(C.op)
    bound(gpu, C)
    f = whet.build(
        {SM_80: whet.lower(gpu, [A, C], name="g"), "llvm": whet.lower(cpu, [A, C], name="c")}
    )
    a = numbers(3, 50)
    on_cpu, on_gpu = np.full(50, np.nan, "float32"), poisoned(50)
    f["c"](a, on_cpu)
    f["g"](on_device(a), on_gpu)
    np.testing.assert_array_equal(on_cpu, 3 * a)
    np.testing.assert_array_equal(on_gpu.numpy(), 3 * a)
    with pytest.raises(ArgumentError, match="an array on cuda-emulator"):
        f["c"](on_gpu, on_cpu)
    assert f.type_key == "llvm" and [m.type_key for m in f.imported_modules] == ["cuda"]


def test_an_exported_library_launches_what_it_imports(tmp_path):
    A = te.placeholder((te.var("n"),), name="A")
    T = te.compute(A.shape, lambda i: A[i] * 3, name="T")
    C = te.compute(A.shape, lambda i: T[i] + 1, name="C")
    gpu, cpu = te.create_schedule(C.op), te.create_schedule(C.op)
    bound(gpu, T)
    bound(gpu, C)
    whet.build(
        {SM_80: whet.lower(gpu, [A, C], name="g"), "llvm": whet.lower(cpu, [A, C], name="c")}
    ).export_library(tmp_path / "both.so")
    f = whet.runtime.load_module(tmp_path / "both.so")
    a = numbers(3, 50)
    on_cpu, on_gpu = np.full(50, np.nan, "float32"), poisoned(50)
    f["c"](a, on_cpu)
    f["g"](on_device(a), on_gpu)
    np.testing.assert_array_equal(on_cpu, 3 * a + 1)
    np.testing.assert_array_equal(on_gpu.numpy(), 3 * a + 1)
    assert "g_kernel0" in f.get_source("cuda") and isinstance(f.imported_modules[0], CudaModule)


def test_an_artifact_travels_and_is_loaded_elsewhere():
    made = F.imported_modules[0].artifact
    again = Module.from_artifact(pickle.loads(pickle.dumps(made)))
    a, b, c = given(lambda a: None)
    again(a, b, c)
    np.testing.assert_array_equal(c.numpy(), a.numpy() + b.numpy())
    copy.copy(again)(a, a, c)
    np.testing.assert_array_equal(c.numpy(), 2 * a.numpy())
    with pytest.raises(ArtifactError, match="kernels without the functions that launch them"):
        CudaModule(Artifact(b"", made.kernels, made.target, made.source))
    with pytest.raises(ArtifactError, match="there is no code of a CPU"):
        again._code.address_of("add")


def test_a_launch_beyond_the_device_is_refused_by_name():
    n = te.var("n")
    A = te.placeholder((n,), "int8", name="A")
    C = te.compute((n,), lambda i: A[i], name="C")
    s = te.create_schedule(C.op)
    o, i = s[C].split(s[C].op.axis[0], 1)
    s[C].bind(o, te.thread_axis("blockIdx.y"))
    s[C].bind(i, te.thread_axis("threadIdx.x"))
    f = whet.build(s, [A, C], SM_80, name="tall")
    a = on_device(np.zeros(131072, "int8"))
    with pytest.raises(
        KernelError, match="it has 131072 blocks along y, the device can have 65535"
    ):
        f(a, a)


def test_calls_are_repeated_and_timed():
    a, b, c = given(lambda a: None)
    run = F.entry_func.repeater((a, b, c))
    run(2)
    np.testing.assert_array_equal(c.numpy(), a.numpy() + b.numpy())
    result = F.time_evaluator("add", DEVICE, number=2, repeat=3)(a, b, c)
    assert len(result.results) == 3 and 0 < result.min <= result.max


def test_threads_call_with_temporaries_at_the_same_time():
    f = doubled_twice(64)
    outcomes = {}

    def work(k):
        a, c = numbers(k, 64), poisoned(64)
        for _ in range(5):
            f(on_device(a), c)
        doubled = 2 * a[::-1]
        outcomes[k] = np.array_equal(c.numpy(), doubled[::-1] + doubled)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert outcomes == dict.fromkeys(range(4), True)


class Elsewhere:
    """A context of some GPU, and its driver, which say what they are given."""

    def __init__(self, arch, loads_cubins=True):
        self.properties, self.driver, self.loads_cubins = self, self, loads_cubins
        self.arch = arch

    def compile(self, source, arch):
        return f"{len(source)} characters for {arch}".encode()


@pytest.mark.parametrize(
    "made, arch, cubins, loaded",
    [
        ("sm_80", "sm_80", True, b"cubin"),
        ("sm_80", "sm_86", True, b"cubin"),  # newer minor number
        ("sm_86", "sm_80", True, b"9 characters for sm_80"),
        ("sm_80", "sm_90", True, b"9 characters for sm_90"),
        ("sm_90a", "sm_90", True, b"cubin"),
        ("sm_90a", "sm_100", True, b"9 characters for sm_100"),
        ("sm_90a", "sm_90", False, b"9 characters for sm_90a"),
        ("sm_80", "sm_80", False, b"9 characters for sm_80"),
    ],
)
def test_a_cubin_is_loaded_where_it_runs_and_made_again_elsewhere(made, arch, cubins, loaded):
    artifact = F.imported_modules[0].artifact
    target = {**artifact.target, "arch": made}
    module = CudaModule(replace(artifact, object=b"cubin", target=target, source="the text."))
    assert module._image(Elsewhere(arch, cubins)) == loaded
    assert not module.is_dso_exportable and module.format == "cu"


class Interface:
    """Somebody's array, its strides in bytes."""

    def __init__(self, shape, strides):
        data = (1 << 20, False)
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": "<f4", "data": data, "strides": strides, "version": 3
        }  # fmt: skip


def test_elements_before_the_first_one_are_refused():
    with pytest.raises(ArgumentError, match=r"strides of \(16, -4\) bytes\s+copy it"):
        taken_array(Interface((3, 4), (16, -4)), DEVICE)
    assert taken_array(Interface((3, 1), (16, -4)), DEVICE).span_bytes == 36


def test_a_kernel_keeps_the_most_shared_memory_that_was_asked_for():
    """Launches of several threads ask for it one after the other, in any order."""

    class Function:
        def __init__(self):
            self.asked = []

        def _launch_kernel(self, *given):
            raise NotImplementedError

        def set_attribute(self, which, value):
            self.asked.append(value)

    attributes = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    context = SimpleNamespace(
        drv=SimpleNamespace(function_attribute=attributes),
        properties=SimpleNamespace(shared_bytes=49152),
        usable=False,
    )
    kernel = PycudaKernel(SimpleNamespace(context=context, streams=set()), Function(), "f")
    for nbytes in (100000, 60000, 120000):
        kernel.allow(nbytes)
    assert kernel.held.asked == [100000, 120000] and kernel.shared_bytes == 120000
