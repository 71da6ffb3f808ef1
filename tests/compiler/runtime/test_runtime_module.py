"""Modules: functions by name, imports, formats of code, messages, clauses of the timer."""

import numpy as np
import pytest
from raw_kernels import FAILING, FAILING_RAW, MIXED, MIXED_RAW, VADD, VADD_RAW, N, artifact, module

import whet
from whet.compiler.abi import checks as entry
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.errors import ArgumentError, KernelError
from whet.compiler.runtime import Artifact, Module, timing
from whet.compiler.runtime.call.slowcall import SlowCall
from whet.compiler.runtime.function import Function


@pytest.fixture
def loaded():
    return module((VADD, VADD_RAW), (MIXED, MIXED_RAW))


def vectors(n=16):
    return [np.arange(n, dtype=np.float32) for _ in range(3)]


def test_the_entry_has_tvms_name(loaded):
    assert loaded["__tvm_main__"] is loaded.entry_func is loaded.get_function("vadd")
    assert loaded.implements_function("__tvm_main__")
    assert isinstance(loaded["mixed"], Function)


def test_imported_modules_are_asked_on_request(loaded):
    other = module((FAILING, FAILING_RAW))
    loaded.import_module(other)
    assert loaded.imported_modules == [other]
    assert not loaded.implements_function("failing")
    assert loaded.get_function("failing", query_imports=True) is other["failing"]
    with pytest.raises(AttributeError, match="no such function"):
        loaded.get_function("failing")
    with pytest.raises(ArgumentError, match="imports this one already"):
        other.import_module(loaded)
    with pytest.raises(ArgumentError, match="not a Module"):
        loaded.import_module("other")


def test_what_a_module_tells_of_itself(loaded):
    assert (loaded.type_key, loaded.format, loaded.is_dso_exportable) == ("llvm", "o", True)


def test_saving_in_each_format(loaded, tmp_path):
    for name in ("k.ll", "k.s", "k.bc"):
        loaded.save(tmp_path / name)
    assert (tmp_path / "k.ll").read_text().startswith(loaded.get_source("ll"))
    assert "vadd__raw:" in (tmp_path / "k.s").read_text()
    assert (tmp_path / "k.bc").read_bytes()[:2] == b"BC"
    loaded.save(tmp_path / "plain", "ll")
    assert (tmp_path / "plain").read_text() == (tmp_path / "k.ll").read_text()
    with pytest.raises(ArgumentError, match=r'no such format\n.*"ll", "asm", "s"'):
        loaded.save(tmp_path / "k.cu")
    made = artifact((VADD, VADD_RAW))
    c = Module.from_artifact(Artifact(made.object, made.signatures, {"kind": "c"}, "/* C */"))
    assert c.type_key == "c" and c.get_source() == c.get_source("c") == "/* C */"
    c.save(tmp_path / "k.c")
    assert (tmp_path / "k.c").read_text() == "/* C */"


@pytest.mark.parametrize("how", ["module", "function", "slow"])
def test_named_arguments_are_refused_with_the_names(loaded, how):
    a, b, c = vectors()
    function = loaded["vadd"]
    slow = SlowCall(VADD, function._repeat(), loaded._code)
    call = {"module": loaded, "function": function, "slow": slow}[how]
    for _ in range(2):  # before and after the call's own function is made
        with pytest.raises(ArgumentError) as caught:
            call(a, b, C=c)
        assert "vadd(C=...): a kernel takes its arguments in order" in str(caught.value)
        assert "argument 2 (C): float32 array of shape (n,)" in str(caught.value)
    call(a, b, c)
    np.testing.assert_array_equal(c, a + b)


def test_messages_say_what_tvms_say(loaded):
    a, b, c = vectors()
    mixed = loaded["mixed"]
    m, out = np.zeros((3, 2, 3), np.int64), np.zeros(())
    for call, message in [
        (lambda: loaded(a, b), "num_args should be 3"),
        (lambda: loaded(a, 1, c), r"argument 1 \(B\): .*expect arg\[1\] to be a pointer"),
        (lambda: mixed(m, "x", 1, True, out), r"argument 1 \(f\): .*expect arg\[1\] to be float"),
        (lambda: mixed(m, 1.5, 1.5, True, out), r"argument 2 \(i\): .*expect arg\[2\] to be int"),
        (lambda: mixed(m, 1.5, 1, 3, out), r"argument 3 \(b\): .*expect arg\[3\] to be bool"),
        (lambda: loaded(a, b.reshape(4, 4), c), r"B\.ndim is 2, expected 1"),
        (lambda: loaded(a, b.astype("f8"), c), r"B\.dtype is float64, expected float32"),
        (lambda: loaded(a, b[:3], c), r"B\.shape\[0\] is 3, expected 16"),
        (lambda: loaded(a, np.ones(32, "f4")[::2], c), r"B\.strides are not row-major"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            call()


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ("count", "num_args should be 3"),
        ("null", r"expect arg\[1\] to be a pointer"),
        ("device", r"B\.device_type is expected to be 1"),
        ("ndim", r"B\.ndim is expected to equal 1"),
        ("dtype", r"B\.dtype is expected to be float32"),
        ("shape", r"B\.shape\[0\] is expected to equal n"),
        ("strides", r"B\.strides: expected to be compact array"),
    ],
)
def test_codes_of_c_say_what_tvms_messages_say(check, message):
    number = next(k for k, name in entry.CHECKS.items() if name == check)
    with pytest.raises(ArgumentError, match=message):
        raise entry.decode(VADD, number << 24 | 1 << 8)


def test_a_raised_code_without_an_exception_is_an_error():
    error = entry.decode(VADD, entry.PACKED_RAISED)
    assert isinstance(error, KernelError) and "vadd(): a packed function failed" in str(error)


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
def test_integers_of_every_width(dtype):
    n = whet.te.var("n", dtype)
    B = whet.te.compute((3,), lambda i: n, name="B")
    f = whet.build(whet.te.create_schedule(B.op), [n, B], "llvm")
    limits, b = np.iinfo(dtype), np.empty(3, dtype)
    for value in (limits.min, 0, 3, limits.max, np.array(7, dtype)[()]):
        f(value, b)
        assert (b == value).all()
    for wrong in (limits.min - 1, limits.max + 1, 1.5, "3"):
        with pytest.raises(ArgumentError, match=r"argument 0 \(n\)"):
            f(wrong, b)


@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16", "float32", "float64"])
def test_other_numbers_of_every_width(dtype):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    from whet.compiler.abi.layout import numpy_dtype

    x = whet.te.var("x", dtype)
    B = whet.te.compute((3,), lambda i: x, name="B")
    f = whet.build(whet.te.create_schedule(B.op), [x, B], "llvm")
    b = np.zeros(3, numpy_dtype(dtype))
    for value in (True, False) if dtype == "bool" else (1.5, -3, 0.25):
        f(value, b)
        assert (b == value).all()
    with pytest.raises(ArgumentError, match=r"argument 0 \(x\)"):
        f("1", b)


def test_zero_size_arrays_of_every_rank():
    sig = KernelSignature(
        "k",
        (BufferParam("A", "float32", (N, 3)), BufferParam("B", "float32", (N,), True)),
        ("n",),
    )
    loaded = module((sig, 'define i32 @"k__raw"(ptr %a, ptr %b, i64 %n) {\n  ret i32 0\n}\n'))
    for a in (np.empty((0, 3), "f4"), np.empty((0, 9), "f4")[:, ::3]):
        loaded(a, np.empty(0, "f4"))
    with pytest.raises(ArgumentError, match=r"B\.shape\[0\] is 1, expected 0"):
        loaded(np.empty((0, 3), "f4"), np.empty(1, "f4"))


class Clock:
    """A clock that a fake kernel moves on, with a log of all that happens."""

    def __init__(self, ns_per_call):
        self.now, self.each, self.log = 0, ns_per_call, []

    def __call__(self):
        return self.now

    def run(self, number):
        self.log.append(number)
        self.now += number * self.each


def measured(clock, monkeypatch, **options):
    monkeypatch.setattr(timing.time, "sleep", lambda s: clock.log.append(("sleep", s)))
    defaults = dict(
        number=10,
        repeat=1,
        min_repeat_ms=0,
        limit_zero_time_iterations=100,
        cooldown_interval_ms=0,
        repeats_to_cooldown=1,
        prepare=lambda: clock.log.append("prepare"),
    )
    return timing.measure(clock.run, clock=clock, **{**defaults, **options})


def test_one_call_is_thrown_away_and_each_repeat_is_prepared_once(monkeypatch):
    clock = Clock(1000)
    result = measured(clock, monkeypatch, repeat=2, min_repeat_ms=0.02)
    # 10 calls take 0.01 ms; then max(0.02 / 0.001 + 1, 16.18) = 21, which is kept
    assert clock.log == [1, "prepare", 10, 21, "prepare", 21]
    assert result.results == pytest.approx([1e-6, 1e-6])


def test_the_number_grows_by_the_golden_ratio_at_least(monkeypatch):
    clock = Clock(1000)
    measured(clock, monkeypatch, number=100, min_repeat_ms=0.105)
    assert clock.log[2:] == [100, 161]  # more than 0.105 / 0.001 + 1 = 106


def test_pauses_come_after_each_kth_repeat(monkeypatch):
    clock = Clock(1000)
    measured(clock, monkeypatch, repeat=4, cooldown_interval_ms=5, repeats_to_cooldown=3)
    pause = ("sleep", 0.005)
    once = ["prepare", 10]
    assert clock.log == [1, *once, pause, *once, *once, *once, pause]


def test_a_clock_without_steps_is_asked_so_often(monkeypatch):
    clock = Clock(0)
    result = measured(clock, monkeypatch, min_repeat_ms=1, limit_zero_time_iterations=4)
    assert clock.log == [1, "prepare", 10, 10, 10, 10] and result.results == (0.0,)


def test_flushing_writes_more_memory_than_the_caches_hold(loaded, monkeypatch):
    from whet.compiler.target.machine import host

    monkeypatch.setattr(host, "caches", lambda: {"l1": 1 << 10, "l3": 3 << 20})
    timing._flushing_bytes.cache_clear()
    try:
        flushing = timing._flushing_bytes()
        assert flushing.nbytes == 6 << 20 and (flushing == 1).all()
        timed = loaded.time_evaluator(
            "vadd", whet.cpu(0), repeat=3, f_preproc="cache_flush_cpu_non_first_arg"
        )
        timed(*vectors())
        assert timing._flushing_bytes() is flushing and (flushing == 4).all()
    finally:
        timing._flushing_bytes.cache_clear()


def test_flushing_takes_a_first_argument_of_every_form():
    for first in (np.zeros(()), np.zeros((3, 4))[:, ::2], np.zeros(0), np.zeros(3, bool), 3, "x"):
        before = int(timing._flushing_bytes()[-1])
        timing.flush_cache_but_first((first,))
        assert timing._flushing_bytes()[-1] == (before + 1) % 256
    timing.flush_cache_but_first(())


def test_targets_and_threads():
    assert whet.runtime.enabled("llvm -mcpu=generic") and not whet.runtime.enabled("cuda")
    assert not whet.runtime.enabled("") and whet.runtime.num_threads() >= 1
