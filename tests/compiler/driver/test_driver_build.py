"""lower() and build() in every form of their arguments, and what they refuse."""

import numpy as np
import pytest
from scaled_program import RNG, check, scaled

import whet
from whet.compiler import te, tir
from whet.compiler.driver import build, get_binds, lower, program_hash, schedule_to_module
from whet.compiler.errors import ArgumentError, CodegenError, TargetError
from whet.compiler.target import Target

# lower


def test_lowering_again_changes_nothing():
    s, args = scaled()
    once = lower(s, args, name="f")
    assert lower(once) is once
    twice = lower(once["f"], name="f")
    assert twice["f"] is once["f"]
    renamed = lower(once["f"], name="g")
    assert list(renamed) == ["g"] and renamed["g"].attrs["signature"].name == "g"
    check(build(renamed)["g"])


def test_buffers_scalars_and_binds_as_arguments():
    n = te.size_var("n")
    x = te.var("x", "float32")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * x, name="B")
    given = tir.decl_buffer((n,), name="given")
    f = build(te.create_schedule(B.op), [given, x, B], binds={A: given})
    a, b = RNG.random(7, "float32"), np.full(7, np.nan, "float32")
    f(a, 3.0, b)
    np.testing.assert_allclose(b, a * 3, rtol=1e-6)
    assert [p.name for p in f.entry_func.signature.params] == ["given", "x", "B"]
    binds, params = get_binds([A, x, B], binds={A: given})
    assert params[0] is given and params[1] is x and binds[B] is params[2]


def test_schedule_to_module_applies_no_pass():
    s, args = scaled(8)
    _, j = s[args[1]].split(args[1].op.axis[0], 4)
    s[args[1]].vectorize(j)
    raw = schedule_to_module(s, args, "g")
    assert "vectorized(4)" in raw["g"].script() and not raw["g"].attrs.get("lowered")
    assert "ramp" in lower(raw)["g"].script()
    assert program_hash(lower(raw), Target("llvm")) == program_hash(
        lower(s, args, "g"), Target("llvm")
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, a: lower(3), "expected input to be an IRModule, PrimFunc or te.Schedule"),
        (lambda s, a: lower(s), "args must be given for a schedule"),
        (lambda s, a: lower(s, [a[0], "B"]), r"args\[1\] = 'B'.*neither a Tensor, a Buffer nor"),
        (lambda s, a: lower(s, a[0]), "the arguments are a list"),
        (lambda s, a: lower(s, [*a, *[te.var("m")] * 2]), "a number stands there twice"),
        (lambda s, a: lower(s, a, binds={a[0]: 3}), "it maps tensors to buffers"),
        (lambda s, a: build(s), "args must be given for build from schedule"),
        (lambda s, a: build([]), "there is nothing to build"),
        (lambda s, a: build({}), "there is nothing to build"),
        (lambda s, a: build({3: lower(s, a)}), "the key of inputs must be str or Target"),
        (lambda s, a: build({"llvm": s}), "inputs must be Schedule, IRModule, or dict of str"),
        (lambda s, a: build({"llvm": whet.IRModule()}), "its module has no function"),
        (lambda s, a: build([lower(s, a), lower(s, a)]), "two functions are named 'main'"),
        (
            lambda s, a: build({"llvm": lower(s, a), "c": lower(s, a)}),
            "two functions are named 'main', for llvm and for c",
        ),
        (lambda s, a: build(s, a, runtime="crt"), "there is one runtime"),
    ],
)
def test_what_is_refused(call, message):
    s, args = scaled()
    with pytest.raises(ValueError, match=message) as caught:
        call(s, args)
    assert isinstance(caught.value, ArgumentError)


# build


def test_schedule_function_module_and_lists_of_them():
    s, args = scaled()
    check(build(s, args))
    mod = lower(s, args, name="a")
    check(build(mod)["a"])
    check(build(mod["a"])["a"])
    raw = schedule_to_module(s, args, "raw")
    check(build(raw["raw"]))
    t, more = scaled(5, 3.0)
    both = build([mod, lower(t, more, name="b")["b"]], target="llvm")
    check(both["a"])
    check(both["b"], 5, 3.0)
    assert both.entry_name == "a" and both["__tvm_main__"] is both["a"]


def test_what_a_module_knows_of_its_making():
    s, args = scaled()
    target = Target("llvm -num-threads=1")
    f = build(s, args, target, name="f", runtime="cpp")
    assert f.name == "f" and list(f.ir_module_by_target) == [target]
    assert f.ir_module_by_target[target]["f"].attrs["lowered"]
    with Target("llvm -num-threads=2"):
        assert next(iter(build(s, args).ir_module_by_target)).num_threads == 2
    assert next(iter(build(s, args).ir_module_by_target)) == Target("llvm")


def test_functions_of_two_cpu_targets_in_one_module():
    s, args = scaled()
    t, more = scaled(5, 3.0)
    mods = {"llvm": lower(s, args, name="a"), Target("c"): lower(t, more, name="b")}
    f = build(mods)
    check(f["a"])
    check(f["b"], 5, 3.0)
    assert f.type_key == "llvm" and [m.type_key for m in f.imported_modules] == ["c"]


def test_target_host_is_deprecated_and_the_host_rules():
    s, args = scaled()
    with pytest.warns(DeprecationWarning, match=r"target=Target\(target, host=...\)"):
        f = whet.build(s, args, "llvm", target_host="llvm -num-threads=1")
    (target,) = f.ir_module_by_target
    assert target.host == Target("llvm -num-threads=1")
    check(f)
    with (
        pytest.warns(DeprecationWarning),
        pytest.raises(TargetError, match="a host is a CPU"),
    ):
        build(s, args, "llvm", target_host="cuda")
    with pytest.raises(TargetError, match="a host is a CPU"):
        Target("cuda", host="cuda")


def host_of(f):
    """The kind of the module that has a GPU's functions, and of those that it imports."""
    return f.type_key, [m.type_key for m in f.imported_modules]


def test_which_host_runs_the_part_that_launches(tmp_path):
    s, args = scaled()
    s[args[1]].bind(args[1].op.axis[0], te.thread_axis("threadIdx.x"))
    with Target("cuda"):
        gpu = lower(s, args, name="g")
    cpu = lower(*scaled(), name="c")
    assert host_of(build(gpu, target="cuda")) == ("llvm", ["cuda"])
    assert host_of(build(gpu, target=Target("cuda", host="c"))) == ("c", ["cuda"])
    # a CPU of the dictionary is the host, wherever it stands
    f = build({"cuda": gpu, "c": cpu})
    assert host_of(f) == ("c", ["cuda"]) and f.functions == ["c", "g"]
    check(f["c"])
    # of two, the one that a target names as its host
    two = {"llvm": lower(*scaled(), name="l"), "c": cpu, Target("cuda", host="c"): gpu}
    assert host_of(build(two)) == ("c", ["llvm", "cuda"])


def test_a_dict_takes_what_is_lowered():
    s, args = scaled()
    with pytest.raises(CodegenError, match="it has not been lowered"):
        build({"llvm": schedule_to_module(s, args)})
