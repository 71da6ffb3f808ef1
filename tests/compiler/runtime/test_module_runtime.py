"""Modules: functions by name, sources, timing, and artifacts that cannot be loaded."""

import dataclasses
import pickle
import threading

import numpy as np
import pytest
from raw_kernels import MIXED, MIXED_RAW, VADD, VADD_RAW, artifact, module

from whet.compiler.codegen.llvm import jit
from whet.compiler.errors import ArgumentError, ArtifactError, CodegenError
from whet.compiler.runtime import BenchmarkResult, Module, cpu, timing
from whet.compiler.target import Target
from whet.compiler.target.machine import host


@pytest.fixture(scope="module")
def loaded():
    return module((VADD, VADD_RAW), (MIXED, MIXED_RAW))


def vectors(n=16):
    return [np.arange(n, dtype=np.float32) for _ in range(3)]


def test_calling_a_module_runs_its_first_function(loaded):
    assert loaded.entry_name == "vadd" and loaded.functions == ["vadd", "mixed"]
    for call in (loaded, loaded["vadd"], loaded.entry_func, loaded):
        a, b, c = vectors()
        call(a, b, c)
        np.testing.assert_array_equal(c, a + b)
    assert isinstance(loaded, Module)
    with pytest.raises(ArgumentError, match="it takes 3"):
        loaded(1)


def test_unknown_function(loaded):
    with pytest.raises(ArgumentError) as caught:
        loaded["vad"]
    assert "did you mean 'vadd'? functions: vadd, mixed" in str(caught.value)
    assert isinstance(caught.value, AttributeError)
    assert loaded.implements_function("mixed") and not loaded.implements_function("x")


def test_sources(loaded):
    assert loaded.get_source() == loaded.get_source("ll")
    assert 'define i32 @"vadd__raw"' in loaded.get_source("ll")
    assembly = loaded.get_source("asm")
    assert "vadd__raw:" in assembly and "ret" in assembly
    with pytest.raises(ArgumentError, match="no such format"):
        loaded.get_source("ptx")


def test_two_modules_with_the_same_names():
    first = module((VADD, VADD_RAW))
    second = module((VADD, VADD_RAW.replace("fadd", "fsub")))
    a, b, c = vectors()
    first(a, b, c)
    np.testing.assert_array_equal(c, a + b)
    second(a, b, c)
    np.testing.assert_array_equal(c, a - b)


def test_an_artifact_crosses_a_pickle():
    made = artifact((VADD, VADD_RAW))
    again = pickle.loads(pickle.dumps(made))
    assert again == made
    a, b, c = vectors()
    Module.from_artifact(again)(a, b, c)
    np.testing.assert_array_equal(c, a + b)


def test_artifacts_that_do_not_fit_this_machine():
    made = artifact((VADD, VADD_RAW))

    def with_target(**changes):
        return dataclasses.replace(made, target={**made.target, **changes})

    with pytest.raises(ArtifactError, match="no kernel"):
        Module.from_artifact(dataclasses.replace(made, signatures=()))
    with pytest.raises(ArtifactError, match="made for riscv64, this machine is"):
        Module.from_artifact(with_target(mtriple="riscv64-unknown-linux-gnu"))
    with pytest.raises(ArtifactError, match="asks for sparkle, which this CPU lacks"):
        Module.from_artifact(with_target(mattr="+sparkle"))
    if host.vector_bytes() < 64:
        with pytest.raises(ArtifactError, match="512-bit vectors"):
            Module.from_artifact(with_target(mattr="", vector_bytes=64))


def test_wrong_llvm_text_names_the_place(capfd):
    with pytest.raises(CodegenError) as caught:
        jit.compile_text("define void @f() {\n  ret i32 nonsense\n}", Target("llvm"))
    assert "in define void @f()" in str(caught.value)
    data = jit.compile_text(
        "declare void @nowhere_to_be_found()\n"
        "define void @f() {\n  call void @nowhere_to_be_found()\n  ret void\n}",
        Target("llvm"),
    )
    with pytest.raises(CodegenError, match="a kernel that calls nowhere_to_be_found"):
        jit.load_object(data).address_of("f")
    assert capfd.readouterr().err == ""
    good = jit.load_object(jit.compile_text("define void @f() {\n  ret void\n}", Target("llvm")))
    with pytest.raises(CodegenError, match="looking up 'g'"):
        good.address_of("g")


def test_several_threads_compile_and_call_at_once():
    errors = []

    def work():
        try:
            for _ in range(5):
                a, b, c = vectors(5000)
                module((VADD, VADD_RAW))(a, b, c)
                np.testing.assert_array_equal(c, a + b)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_time_evaluator_runs_the_kernel(loaded):
    a, b, c = vectors()
    result = loaded.time_evaluator("vadd", cpu(0), number=3, repeat=4)(a, b, c)
    np.testing.assert_array_equal(c, a + b)
    assert len(result.results) == 4 and 0 < result.min <= result.mean <= result.max
    seen = []
    timed = loaded.time_evaluator("vadd", cpu(0), repeat=2, f_preproc=seen.append)
    timed(a, b, c)
    assert len(seen) == 2 and seen[0][0] is a
    loaded.time_evaluator("vadd", cpu(0), f_preproc="cache_flush_cpu_non_first_arg")(a, b, c)


def test_time_evaluator_refuses(loaded):
    with pytest.raises(ArgumentError, match="number=0"):
        loaded.time_evaluator("vadd", cpu(0), number=0)
    with pytest.raises(ArgumentError, match="no such preparation"):
        loaded.time_evaluator("vadd", cpu(0), f_preproc="warm")
    with pytest.raises(ArgumentError, match="no such function"):
        loaded.time_evaluator("nothing", cpu(0))
    with pytest.raises(ArgumentError, match="argument 0"):
        loaded.time_evaluator("vadd", cpu(0))(1, 2, 3)


class Clock:
    """A clock that a fake kernel moves on."""

    def __init__(self, ns_per_call):
        self.now, self.each, self.runs = 0, ns_per_call, []

    def __call__(self):
        return self.now

    def run(self, number):
        self.runs.append(number)
        self.now += number * self.each


def measured(clock, **options):
    defaults = dict(
        number=10,
        repeat=1,
        min_repeat_ms=0,
        limit_zero_time_iterations=100,
        cooldown_interval_ms=0,
        repeats_to_cooldown=1,
    )
    return timing.measure(clock.run, clock=clock, **{**defaults, **options})


def test_the_number_of_calls_grows_by_tvms_rule_and_stays():
    clock = Clock(ns_per_call=1000)
    result = measured(clock, repeat=2, min_repeat_ms=1)
    # warm-up, 10 calls (0.01 ms), then max(1 / 0.001 + 1, 16.18) calls, kept for the next repeat
    assert clock.runs == [1, 10, 1001, 1001]
    assert result.results == pytest.approx([1e-6, 1e-6])


def test_a_clock_that_stands_still_ends_after_the_limit():
    clock = Clock(ns_per_call=0)
    measured(clock, min_repeat_ms=1, limit_zero_time_iterations=3)
    assert clock.runs == [1, 10, 10, 10]


def test_cooldown_sleeps_after_each_kth_repeat(monkeypatch):
    slept = []
    monkeypatch.setattr(timing.time, "sleep", slept.append)
    measured(Clock(1000), repeat=5, cooldown_interval_ms=20, repeats_to_cooldown=2)
    assert slept == [0.02, 0.02, 0.02]


def test_the_result_sums_up():
    result = BenchmarkResult((1.0, 2.0, 6.0))
    assert (result.mean, result.median, result.min, result.max) == (3.0, 2.0, 1.0, 6.0)
    assert result.std == pytest.approx(np.std([1.0, 2.0, 6.0]))
    assert "mean (ms)" in str(result)
