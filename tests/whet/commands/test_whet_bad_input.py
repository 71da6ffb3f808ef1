"""Bad input, as a user gives it: each gets a text with what was asked, why not, and a way out."""

from __future__ import annotations

import numpy as np
import pytest

import whet
from whet import ArgumentError, LogError, ScheduleError, SpaceError, TargetError, te


@pytest.fixture(scope="module")
def kernel():
    """C = A @ B for A (16, 24) and B (24, 32)."""
    return whet.build(whet.create_task("matmul", (16, 24, 32), "llvm"), name="mm")


def arrays():
    return np.ones((16, 24), "float32"), np.ones((24, 32), "float32"), np.zeros((16, 32), "float32")


def read_only(array):
    array.flags.writeable = False
    return array


A, B, C = arrays()
CALLS = {
    "float64": ((A.astype("float64"), B, C), r"argument 0 \(A\): A.dtype is float64, .* float32"),
    "int32": ((A, B.astype("int32"), C), r"argument 1 \(B\): B.dtype is int32"),
    "big-endian": ((A.astype(">f4"), B, C), "A.dtype is >f4"),
    "shape": ((np.ones((16, 25), "float32"), B, C), r"A\.shape\[1\] is 25, expected 24"),
    "swapped": ((B, A, C), r"A\.shape\[0\] is 24, expected 16"),
    "rank": ((A.ravel(), B, C), "A.ndim is 1, expected 2"),
    "strides": (
        (np.ones((24, 16), "float32").T, B, C),
        "a compact array: pass np.ascontiguousarray",
    ),
    "every second": ((np.ones((16, 48), "float32")[:, ::2], B, C), "strides are not row-major"),
    "too few": ((A, B), "2 arguments given, it takes 3"),
    "too many": ((A, B, C, C), "4 arguments given, it takes 3"),
    "a list": (([1.0], B, C), "a list is not an array"),
    "a number": ((1.0, B, C), "a float is not an array"),
    "None": ((None, B, C), "a NoneType is not an array"),
    "read-only output": ((A, B, read_only(C.copy())), r"argument 2 \(C\): .* it is read-only"),
    "whet array": (
        (whet.nd.array(np.ones((3, 3), "float32")), B, C),
        r"A\.shape\[0\] is 3, expected 16",
    ),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_call_with_wrong_arguments(kernel, what):
    values, said = CALLS[what]
    with pytest.raises(ArgumentError, match=rf"^mm\(\).*{said}") as caught:
        kernel(*values)
    assert "float32 array of shape" in str(caught.value)  # what is wanted
    a, b, c = arrays()
    kernel(a, b, c)  # nothing is spoilt
    assert (c == 24).all()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("llwm", r"no target kind 'llwm'\n  did you mean 'llvm'\?"),
        ("", "the text is empty"),
        (3, "a target is a text, a dict or a Target"),
        ("llvm -mcup=znver3", r"no option 'mcup'\n  did you mean 'mcpu'\?"),
        ({"kind": "llvm", "foo": 1}, r"no option 'foo'\n  options of llvm: device, fast_math"),
        ("llvm -num-threads=many", "takes int, not 'many'"),
        ("llvm -num-threads=0", "at least one thread is needed"),
        ("llvm -vector-bytes=24", "16, 32 or 64 bytes"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=znver99", r"no 64-bit .*\n  did you mean 'znver\d'"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=pentium3", "no 64-bit x86 processor 'pentium3'"),
        ("llvm fast", "'fast' is not an option"),
        ("llvm -mcpu", "option 'mcpu' has no value"),
    ],
)
def test_a_wrong_target(spec, said):
    for make in (whet.Target, lambda given: whet.create_task("matmul", (8, 8, 8), given)):
        with pytest.raises(TargetError, match=said):
            make(spec)


def test_wrong_arguments_of_a_template():
    for args, kind, said in (
        ((16, 16), SpaceError, "missing a required argument: 'M'"),
        ((16, 16, 16, 0, 0, "float32", (), 0, 1), SpaceError, "too many positional arguments"),
        ((16, 16, 16, "float32"), ArgumentError, "transpose_a is 'float32'; it must be True or"),
        ((16, 16, object()), SpaceError, "JSON"),
        ((-1, 16, 16), ArgumentError, "at least 0"),
        ((16.0, 16, 16), ArgumentError, "must be an int"),
        ((16, 16, 16, False, False, "float33"), ArgumentError, "no such data type"),
    ):
        with pytest.raises(kind, match=said):
            len(whet.create_task("matmul", args, "llvm").config_space)


def test_wrong_sizes_are_said_when_a_task_is_made():
    with pytest.raises(ArgumentError, match=r"matmul\(-2, 8, 8, .*: N is -2; it must be an int"):
        whet.create_task("matmul", (-2, 8, 8), "llvm")


def test_devices_of_tune(tmp_path):
    task = whet.create_task("matmul", (8, 8, 8), "llvm")
    for device in ("gpu", "", "cpu-", "cuda-0", whet.cpu(1), {"fingerprint": "cuda"}):
        with pytest.raises(ArgumentError, match=r"no such device\n(.|\n)*None .*this machine"):
            whet.tune(task, 1, tmp_path / "a.db", device=device, progress=False)
    for device in ("cuda", "cuda:0", "cuda-emulator", {"fingerprint": "cuda-0123456789ab"}):
        with pytest.raises(ArgumentError, match="it does not run code for target 'llvm'"):
            whet.tune(task, 1, tmp_path / "a.db", device=device, progress=False)
    with pytest.raises(ArgumentError, match="a int does not name a machine"):
        whet.tune(task, 1, tmp_path / "a.db", device=0, progress=False)
    assert list(tmp_path.iterdir()) == []


def test_wrong_measure_options():
    for given, said in (
        ({"build_timeout": 0}, "a number above 0"),
        ({"run_timeout": "10"}, "a number above 0"),
        ({"run_timeout": float("nan")}, "a number above 0"),
        ({"repeat": 2.5}, "an integer of at least 1"),
        ({"number": 0}, "an integer of at least 1"),
        ({"rtol": -1.0}, "a number above 0"),
        ({"memory_limit": True}, "an integer of at least 1"),
    ):
        with pytest.raises(ArgumentError, match=rf"MeasureOptions\(.*\): it must be {said}"):
            whet.MeasureOptions(**given)
    assert whet.MeasureOptions(number=3, rtol=1e-2, memory_limit=1 << 30).number == 3


def test_what_is_no_log(tmp_path):
    task = whet.create_task("matmul", (8, 8, 8), "llvm")
    text = tmp_path / "notes.txt"
    text.write_text("split i by 8\n")
    for use in (
        lambda log: whet.build(task, log=log),
        lambda log: whet.apply_best(log).__enter__(),
        lambda log: whet.TuningLog(log, write=False),
    ):
        for log, kind, said in (
            (tmp_path / "none.db", LogError, "no such file"),
            (text, LogError, "it is not a database"),
            (3, ArgumentError, "a int is not a log"),
        ):
            with pytest.raises(kind, match=said):
                use(log)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert text.read_text() == "split i by 8\n"


def test_a_template_that_raises_in_its_default_config_says_for_which_arguments():
    @whet.template("test_bad/zero")
    def zero(n):
        a = te.placeholder((n,), name="a")
        b = te.compute((n,), lambda i: a[i] + 1, name="b")
        s = te.create_schedule(b.op)
        s[b].split(b.op.axis[0], factor=0)
        return s, [a, b]

    with pytest.raises(ScheduleError, match="factor must be at least 1") as caught:
        len(whet.create_task("test_bad/zero", (8,), "llvm").config_space)
    assert caught.value.__notes__ == ["while the space of test_bad/zero(8) was collected"]
