"""Modules: functions by name, sources, timing, and artifacts that cannot be loaded."""

import dataclasses
import pickle
import threading

import numpy as np
import pytest
from raw_kernels import MIXED, MIXED_RAW, VADD, VADD_RAW, artifact, module

from whet.compiler.errors import ArgumentError, ArtifactError, CodegenError
from whet.compiler.jit.compile import compile_text
from whet.compiler.jit.loader import load_object
from whet.compiler.runtime import BenchmarkResult, Module, cpu
from whet.compiler.target import Target
from whet.compiler.target.llvm_machine import machine_of
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
        compile_text("define void @f() {\n  ret i32 nonsense\n}", machine_of(Target("llvm")))
    assert "in define void @f()" in str(caught.value)
    data = compile_text(
        "declare void @nowhere_to_be_found()\n"
        "define void @f() {\n  call void @nowhere_to_be_found()\n  ret void\n}",
        machine_of(Target("llvm")),
    )
    with pytest.raises(CodegenError, match="a kernel that calls nowhere_to_be_found"):
        load_object(data).address_of("f")
    assert capfd.readouterr().err == ""
    good = load_object(
        compile_text("define void @f() {\n  ret void\n}", machine_of(Target("llvm")))
    )
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


def test_the_result_sums_up():
    result = BenchmarkResult((1.0, 2.0, 6.0))
    assert (result.mean, result.median, result.min, result.max) == (3.0, 2.0, 1.0, 6.0)
    assert result.std == pytest.approx(np.std([1.0, 2.0, 6.0]))
    assert "mean (ms)" in str(result)
