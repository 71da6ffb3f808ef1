"""Passes of a user's own: at the phases of lowering, and how they are written."""

import emulated
import numpy as np
import pytest
from pass_checks import vector_add

import whet
from whet import te, tir, transform
from whet.compiler.errors import ArgumentError, LowerError
from whet.compiler.passes import PassContext


def marker(name, seen):
    @tir.transform.prim_func_pass(opt_level=0, name=name)
    def look(func, mod, ctx):
        seen.append((name, str(func)))
        return func

    return look


def test_custom_passes_run_at_the_four_phases():
    seen = []
    entries = [(k, marker(f"phase{k}", seen)) for k in (3, 1, 0, 2)]
    order = []

    @whet.instrument.pass_instrument
    class Names:
        def run_before_pass(self, mod, info):
            order.append(info.name.removeprefix("tir."))

    with PassContext(instruments=[Names()], config={"tir.add_lower_pass": entries}):
        whet.lower(*vector_add())
    assert order[0] == "phase0" and order[-1] == "phase3"
    assert order.index("FlattenBuffer") < order.index("phase1") < order.index("VectorizeLoop")
    assert order.index("UnrollLoop") < order.index("phase2") < order.index("RegisterAccumulators")
    texts = dict(seen)
    assert "vectorized(4)" in texts["phase0"] and "likely" in texts["phase0"]
    assert "vectorized(4)" in texts["phase1"]
    assert "ramp" in texts["phase2"] and "ramp" in texts["phase3"]


def test_a_custom_pass_changes_the_program():
    @tir.transform.prim_func_pass(opt_level=0)
    def twos_to_threes(func, mod, ctx):
        def change(n):
            if isinstance(n, tir.FloatImm) and n.value == 2.0:
                return tir.FloatImm(n.dtype, 3.0)
            return n

        return func.with_body(tir.Rewriter({tir.FloatImm: change})(func.body))

    a = te.placeholder((5,), name="A")
    c = te.compute((5,), lambda i: a[i] * 2.0, name="C")
    with PassContext(config={"tir.add_lower_pass": [(1, twos_to_threes)]}):
        f = whet.build(te.create_schedule(c.op), [a, c])
    x, y = np.arange(5, dtype="float32"), np.full(5, np.nan, "float32")
    f(x, y)
    np.testing.assert_array_equal(y, x * 3)


def test_a_custom_pass_may_be_disabled_and_has_a_level():
    seen = []
    mine = marker("mine", seen)
    with PassContext(config={"tir.add_lower_pass": [(0, mine)]}, disabled_pass=["mine"]):
        whet.lower(*vector_add())
    assert not seen

    @tir.transform.prim_func_pass(opt_level=3, name="high")
    def high(func, mod, ctx):
        seen.append("high")
        return func

    for level in (2, 3):
        with PassContext(opt_level=level, config={"tir.add_lower_pass": [(0, high)]}):
            whet.lower(*vector_add())
    assert seen == ["high"]


def test_a_custom_pass_that_gives_back_something_else_is_named():
    @tir.transform.prim_func_pass(opt_level=0, name="lazy")
    def lazy(func, mod, ctx):
        return None

    @transform.module_pass(opt_level=0, name="lazier")
    def lazier(mod, ctx):
        return None

    for p, words in ((lazy, "the pass lazy on main"), (lazier, "the pass lazier")):
        context = PassContext(config={"tir.add_lower_pass": [(1, p)]})
        with context, pytest.raises(LowerError, match=words + ": it gave back a NoneType"):
            whet.lower(*vector_add())


def test_an_error_inside_a_custom_pass_says_in_which():
    @tir.transform.prim_func_pass(opt_level=0, name="broken")
    def broken(func, mod, ctx):
        raise KeyError("mine")

    context = PassContext(config={"tir.add_lower_pass": [(1, broken)]})
    with context, pytest.raises(KeyError) as caught:
        whet.lower(*vector_add())
    assert caught.value.__notes__ == ["in the pass broken"]


# authoring


def module():
    with PassContext(disabled_pass=["VectorizeLoop", "Simplify"]):
        return whet.lower(*vector_add(), simple_mode=True)


def test_functions_of_passes_with_other_parameters_are_refused():
    with pytest.raises(ArgumentError) as caught:
        tir.transform.prim_func_pass(lambda f: f, opt_level=0, name="mine")
    assert "it is called with 3 arguments: too many positional arguments" in str(caught.value)
    assert "its parameters: func, mod, ctx" in str(caught.value)
    with pytest.raises(ArgumentError, match="missing a required argument: 'more'"):
        transform.module_pass(lambda mod, ctx, more: mod, opt_level=0)
    with pytest.raises(ArgumentError, match=r"Wide.transform_function\(self, func\)"):

        @tir.transform.prim_func_pass(opt_level=0)
        class Wide:
            def transform_function(self, func):
                return func


def test_functions_that_take_what_a_pass_gives_are_taken():
    class Object:
        def __call__(self, func, *rest):
            return func

        def method(self, func, mod, ctx, more=0):
            return func

    @tir.transform.prim_func_pass(opt_level=0)
    class Static:
        @staticmethod
        def transform_function(func, mod, ctx):
            return func

    mod = whet.lower(*vector_add())
    for f in (Object(), Object().method, lambda *all_of_them: all_of_them[0]):
        assert tir.transform.prim_func_pass(f, opt_level=0)(mod) is mod
    assert Static()(mod) is mod


def test_a_sequence_runs_its_passes_in_order_and_by_level():
    seen = []
    low, high = (
        marker("low", seen),
        tir.transform.prim_func_pass(opt_level=3, name="high")(
            lambda func, mod, ctx: seen.append(("high", "")) or func
        ),
    )
    passes = transform.Sequential([low, high, tir.transform.Simplify()], name="mine")
    out = passes(module())
    assert [name for name, _ in seen] == ["low"] and passes.info.name == "mine"
    assert out.script() == tir.transform.Simplify()(module()).script()
    with PassContext(opt_level=3):
        passes(module())
    assert [name for name, _ in seen] == ["low", "low", "high"]
    with PassContext(opt_level=3, disabled_pass=["low"]):
        passes(module())
    assert [name for name, _ in seen][3:] == ["high"]


def test_a_pass_runs_after_those_it_requires():
    seen = []

    @tir.transform.prim_func_pass(opt_level=0, name="last", required=["tir.RemoveNoOp"])
    def last(func, mod, ctx):
        seen.append("last")
        return func

    @whet.instrument.pass_instrument
    class Names:
        def run_before_pass(self, mod, info):
            seen.append(info.name)

    with PassContext(instruments=[Names()]):
        transform.Sequential([last])(module())
    assert seen == ["sequential", "tir.RemoveNoOp", "last", "last"]

    @tir.transform.prim_func_pass(opt_level=0, name="lost", required=["NoSuchPass"])
    def lost(func, mod, ctx):
        return func

    with pytest.raises(ArgumentError, match="the pass lost requires 'NoSuchPass'"):
        transform.Sequential([lost])(module())


def test_classes_become_passes():
    @transform.module_pass(opt_level=1, name="renamed")
    class Rename:
        def __init__(self, name):
            self.name = name

        def transform_module(self, mod, ctx):
            return tir.IRModule({self.name: next(iter(mod.functions.values()))})

    @tir.transform.prim_func_pass(opt_level=0)
    class Marked:
        def transform_function(self, func, mod, ctx):
            return func.with_attr("marked", True)

    made = Rename("other")
    assert made.info.opt_level == 1 and list(made(module())) == ["other"]
    assert Marked()(module())["main"].attrs["marked"] is True
    with pytest.raises(ArgumentError, match="it has no transform_function"):
        tir.transform.prim_func_pass(type("Empty", (), {}))


def test_print_apply_and_filter(capsys):
    mod = module()
    assert transform.PrintIR("here", show_meta_data=True)(mod) is mod
    printed = capsys.readouterr().out
    assert printed.startswith("PrintIR(here)\ndef main(A: float32[21]")
    assert "# main: {" in printed
    assert tir.transform.Apply(lambda f: f)(mod) is mod
    marked = tir.transform.Apply(lambda f: f.with_attr("x", 1))(mod)
    assert marked["main"].attrs["x"] == 1
    assert len(tir.transform.Filter(lambda f: f.attrs.get("x"))(mod)) == 0
    assert tir.transform.Filter(lambda f: f.attrs.get("x"))(marked) is marked


def test_what_is_no_pass_and_no_module_is_refused():
    with pytest.raises(ArgumentError, match="a function is no pass"):
        transform.Sequential([lambda mod: mod])
    with pytest.raises(ArgumentError, match="a pass runs on an IRModule"):
        tir.transform.Simplify()(module()["main"])
    with pytest.raises(LowerError, match="indices are of 64 or 32 bits"):
        tir.transform.NarrowDataType(16)


@pytest.mark.parametrize(
    "name",
    sorted({*tir.transform.__all__} - {"Apply", "Filter", "SplitHostDevice", "prim_func_pass"}),
)
def test_every_pass_is_made_by_its_name(name):
    p = getattr(tir.transform, name)()
    out = p(module())
    assert p.info.name in (f"tir.{name}", "tir.Apply") and set(out) == {"main"}


def test_a_pass_that_is_not_here_says_why():
    with pytest.raises(AttributeError, match="there is no texture memory"):
        tir.transform.TextureFlatten  # noqa: B018
    with pytest.raises(AttributeError, match="no 'Nonsense': there is no such pass"):
        tir.transform.Nonsense  # noqa: B018


def test_vectorize_by_its_parameter():
    flat = tir.transform.FlattenBuffer()
    with PassContext(disabled_pass=["VectorizeLoop", "LoopPartition", "SimplifyLoops"]):
        mod = flat(whet.lower(*vector_add(), simple_mode=True))
    assert "vectorized" in str(mod)
    assert "ramp" in str(tir.transform.VectorizeLoop()(mod))
    scalar = str(tir.transform.VectorizeLoop(enable_vectorize=False)(mod))
    assert "ramp" not in scalar and "vectorized" not in scalar


def spread(n=70, threads=32):
    """An element-wise computation in blocks of threads, and the axis of its threads."""
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    s = te.create_schedule(b.op)
    tx = te.thread_axis("threadIdx.x")
    outer, inner = s[b].split(b.op.axis[0], threads)
    s[b].bind(outer, te.thread_axis("blockIdx.x"))
    s[b].bind(inner, tx)
    return s, [a, b], tx


def indexed_by(var):
    """A pass that reads an element by a variable, and adds the variable."""

    @tir.transform.prim_func_pass(opt_level=0)
    def change(func, mod, context):
        def post(n):
            if isinstance(n, tir.BufferStore):
                a = func.params[0]
                value = n.value + a.vload([var]) + var.astype("float32")
                return tir.BufferStore(n.buffer, value, n.indices)
            return None

        return func.with_body(tir.stmt_functor.ir_transform(func.body, None, post))

    return change


@pytest.mark.parametrize("phase", [0, 1, 2, 3])
@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_80"])
def test_a_pass_may_write_the_variable_of_a_thread_axis(phase, target):
    """It is the step of the loop that is bound to it, on any target."""
    s, args, tx = spread()
    with PassContext(config={"tir.add_lower_pass": [(phase, indexed_by(tx.var))]}):
        kernel = whet.build(s, args, target)
    x, out = np.random.default_rng().random(70).astype("float32"), np.full(70, np.nan, "float32")
    if target.startswith("cuda"):
        out = emulated.on_device(kernel, [x, out])[1]
    else:
        kernel(x, out)
    t = np.arange(70) % 32
    np.testing.assert_allclose(out, 2 * x + x[t] + t, rtol=1e-6)


def test_a_module_that_was_lowered_before_may_get_thread_axes():
    s, args, tx = spread()
    mod = indexed_by(tx.var)(whet.lower(s, args))
    kernel = whet.build(mod, target="cuda -arch=sm_80")
    x = np.random.default_rng().random(70).astype("float32")
    out = emulated.on_device(kernel, [x, np.full(70, np.nan, "float32")])[1]
    t = np.arange(70) % 32
    np.testing.assert_allclose(out, 2 * x + x[t] + t, rtol=1e-6)


@pytest.mark.parametrize(
    ("var", "words"),
    [
        (te.thread_axis("threadIdx.y").var, r"threadIdx.y, and .*: there is no loop over these"),
        (tir.Var("q"), "the kernels use q, and nothing gives it a value"),
    ],
)
def test_a_variable_that_nothing_gives_a_value_is_refused_before_a_call(var, words):
    s, args, _ = spread()
    config = {"tir.add_lower_pass": [(1, indexed_by(var))]}
    with PassContext(config=config), pytest.raises(LowerError, match=words):
        whet.build(s, args, "cuda -arch=sm_80")
