"""Kinds of a third party: built through a row of the table, and refused when they misbehave."""

import sys
import types

import numpy as np
import pytest

from whet.compiler import te, tir
from whet.compiler.abi.artifact import Artifact
from whet.compiler.codegen.llvm.generate import generate as generate_llvm
from whet.compiler.driver import build, compile_module, lower
from whet.compiler.errors import ArtifactError, CodegenError, LowerError, TargetError
from whet.compiler.passes import BUILD_PASSES
from whet.compiler.target import KINDS, Target, TargetKind
from whet.compiler.te.primitives.auto_bind import AutoBindWarning


@pytest.fixture()
def kind(monkeypatch):
    """A function that makes a row of kind ``mine`` with a generator; the generator's module."""
    monkeypatch.setitem(sys.modules, "their_generator", types.ModuleType("their_generator"))

    def make(generate, device="cpu", **more):
        sys.modules["their_generator"].generate = generate
        options = {"colour": str}
        row = TargetKind("mine", device, ("mine",), options, "their_generator:generate", **more)
        monkeypatch.setitem(KINDS, "mine", row)

    return make


def plus():
    A = te.placeholder((9,), name="A")
    B = te.compute((9,), lambda i: A[i] + 1.0, name="B")
    return te.create_schedule(B.op), [A, B]


def loops(mod, target):
    """A generator of text: the loops themselves."""
    signatures = tuple(f.attrs["signature"] for f in mod.functions.values())
    return Artifact(b"", signatures, target.to_json(), f"// {target}\n{mod.script()}")


ARRAYS = np.arange(9, dtype="float32"), np.full(9, np.nan, "float32")


def test_a_kind_whose_code_runs_here(kind):
    kind(lambda mod, target: generate_llvm(mod, Target("llvm -num-threads=1")))
    f = build(*plus(), target="mine -colour=red", name="f")
    a, b = np.arange(9, dtype="float32"), np.full(9, np.nan, "float32")
    f(a, b)
    np.testing.assert_array_equal(b, a + 1)
    assert list(f.ir_module_by_target) == [Target("mine -colour=red")]


def test_a_kind_of_a_cpu_that_makes_source_only(kind):
    kind(loops)
    f = build(*plus(), target="mine -colour=red", name="f")
    assert f.type_key == "mine" and f.get_source().startswith("// mine -colour=red\ndef f(")
    with pytest.raises(ArtifactError, match=r"calling code of kind 'mine': it was made as source"):
        f(*ARRAYS)


def test_a_kind_of_a_device_without_threads(kind, recwarn):
    kind(loops, device="npu")
    f = build(*plus(), target="mine -colour=blue", name="f")
    assert not [w for w in recwarn if issubclass(w.category, AutoBindWarning)]
    source = f.get_source("mine")
    assert source.startswith("// mine -colour=blue\ndef f(") and "thread" not in source
    (code,) = f.imported_modules
    assert code.type_key == "mine" and code.functions == ["f"]
    with pytest.raises(TargetError, match="makes code of kind mine and does not launch") as caught:
        f(*ARRAYS)
    assert "CUDA" not in str(caught.value) and 'get_source("mine")' in str(caught.value)
    with pytest.raises(ArtifactError, match="a module of kind 'mine' holds no code of a CPU"):
        f.export_library("f.so")


def test_a_kind_of_a_device_with_threads_gets_kernels(kind, monkeypatch):
    monkeypatch.setitem(BUILD_PASSES, "mine", BUILD_PASSES["cuda"])
    seen = []
    kind(
        lambda mod, target: seen.append(mod) or loops_of_kernels(mod, target),
        "gpu",
        has_threads=True,
    )
    with pytest.warns(AutoBindWarning, match="bound to the threads of mine; bound B: i to"):
        f = build(*plus(), target="mine", name="f")
    assert list(seen[0]) == ["f_kernel0"] and "threadIdx" in f.get_source("mine")


def loops_of_kernels(mod, target):
    from whet.compiler.abi.arguments import with_signature

    return loops(mod.map(with_signature), target)


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize(
    ("generate", "message"),
    [
        (lambda mod, t: None, "made a NoneType, not an Artifact"),
        (lambda mod, t: "text", "made a str, not an Artifact"),
        (lambda mod, t: Artifact(b"", (), {}, ""), "an Artifact without signatures"),
        (lambda mod, t: Artifact(b"", ("f",), {}, ""), "an Artifact without signatures"),
        (lambda mod, t: Artifact(None, (), {}, ""), "whose object is no bytes or source no text"),
        (lambda mod, t: 1 / 0, "the generator of kind mine failed: ZeroDivisionError: division"),
        (lambda mod: None, "the generator of kind mine failed: TypeError: "),
    ],
)
def test_generators_that_misbehave(kind, generate, message, device):
    kind(generate, device)
    with pytest.raises(CodegenError, match=message) as caught:
        build(*plus(), target="mine")
    assert str(caught.value).startswith("build for mine: ")


def test_a_generator_says_of_every_function_what_it_takes(kind):
    kind(lambda mod, target: loops(type(mod)({"f": mod["f"]}), target))
    s, args = plus()
    f, g = lower(s, args, name="f"), lower(s, args, name="g")
    with pytest.raises(CodegenError, match="no signature of g"):
        compile_module(type(f)({**f.functions, **g.functions}), Target("mine"))


def test_our_errors_come_through_and_junk_is_no_object(kind):
    def refuse(mod, target):
        raise LowerError("asked", "why")

    kind(refuse)
    with pytest.raises(LowerError, match="asked: why"):
        build(*plus(), target="mine")
    junk = lambda mod, target: Artifact(b"junk", loops(mod, target).signatures, {}, "")  # noqa: E731
    kind(junk)
    with pytest.raises(CodegenError, match="not recognized as a valid object file"):
        build(*plus(), target="mine")


def test_a_call_in_an_extern_stage_is_no_kernel():
    A = te.placeholder((9,), name="A")
    C = te.extern(
        (9,), [A], lambda i, o: tir.call_packed("f", i[0], o[0]), name="C", dtype="float32"
    )
    with pytest.raises(CodegenError, match=r"there is no kernel.*\n.*call in an extern stage"):
        build(te.create_schedule(C.op), [A, C], target="cuda")
