"""Derived spaces with declared instructions: numbers, code, what is declared, other processes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import whet
from whet import te, tir
from whet.search_spaces.graph.stages import computed_ahead
from whet.search_spaces.graph.template import INSTRUCTIONS, VERSION
from whet.search_spaces.values import instructions

RNG = np.random.default_rng()
ONE, TWO = "llvm -num_threads=1", "llvm -num_threads=2"
SERVER = "llvm -mcpu=icelake-server -num_threads=1"
CLIENT = "llvm -mcpu=alderlake -num_threads=1"
OLD = "llvm -mcpu=x86-64-v3 -num_threads=1"


def has_it():
    """True where this machine runs vpdpbusd."""
    has = whet.Target("llvm").canonical().features
    return has.has_avxvnni or (has.has_avx512vnni and has.has_avx512vl)


here = pytest.mark.skipif(not has_it(), reason="this processor has no vpdpbusd")


def product(n, m, k, left="uint8", right="int8", turn=False, epilogue=False, casts=False, batch=()):
    """``C = A @ B`` in int32; with ``casts`` the operands are converted by stages of their own."""
    A = te.placeholder((*batch, n, k), left, name="A")
    B = te.placeholder((*batch, *((m, k) if turn else (k, m))), right, name="B")
    X, Y = A, B
    if casts:
        X = te.compute(A.shape, lambda *i: A(*i).astype("int32"), name="X")
        Y = te.compute(B.shape, lambda *i: B(*i).astype("int32"), name="Y")
    r = te.reduce_axis((0, k), name="r")

    def element(*i):
        *b, y, x = i
        return te.sum(
            X(*b, y, r).astype("int32") * Y(*b, *((x, r) if turn else (r, x))).astype("int32"),
            axis=r,
        )

    C = te.compute((*batch, n, m), element, name="C")
    if not epilogue:
        return [A, B, C]
    bias = te.placeholder((m,), "int32", name="bias")
    D = te.compute(C.shape, lambda *i: te.max(C(*i) + bias(i[-1]), -7).astype("float32"), name="D")
    return [A, B, bias, D]


def drawn(t):
    limits = np.iinfo(t.dtype)
    low, high = (max(limits.min, -500), min(limits.max, 500))
    return RNG.integers(low, high + 1, [int(d) for d in t.shape]).astype(t.dtype)


def checked(task, args, turn=False, config=None):
    """The numbers of a task's program against numpy; its code."""
    arrays = [drawn(t) for t in args[:-1]]
    a, b, *bias = (x.astype("int64") for x in arrays)
    wanted = a @ (np.swapaxes(b, -1, -2) if turn else b)
    wanted = np.maximum(wanted + bias[0], -7) if bias else wanted
    s, taken = task.instantiate(config)
    f = whet.build(s, taken, task.target)
    out = np.full(wanted.shape, 77, args[-1].dtype)
    f(*arrays, out)
    np.testing.assert_array_equal(out, wanted, err_msg=str(config))
    return f.get_source("asm")


def task_of(args, target):
    return whet.create_task(outputs=[args[-1]], args=args, target=target)


SIZES = [(33, 50, 70), (8, 16, 4), (9, 17, 5), (64, 33, 128), (101, 24, 6)]


@here
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("target", [ONE, TWO])
@pytest.mark.parametrize("turn", [False, True])
def test_default_schedules_call_the_instruction(size, target, turn):
    for epilogue in (False, True):
        args = product(*size, turn=turn, epilogue=epilogue)
        task = task_of(args, target)
        assert task.config_space.default.as_dict()["rule"] == "tensorize"
        assert "vpdpbusd" in checked(task, args, turn)


@here
@pytest.mark.parametrize("target", [ONE, TWO])
def test_configs_have_the_same_numbers(target):
    for size in SIZES[:3]:
        args = product(*size, epilogue=True)
        task = task_of(args, target)
        space = task.config_space
        tiles = space.knobs["tile"].choices
        for tile in tiles[:: max(1, len(tiles) // 6)]:
            checked(task, args, config=space.nearest({"rule": "tensorize", "tile": tile}))
        for _ in range(4):
            checked(task, args, config=space.sample(RNG))


@here
@pytest.mark.parametrize(
    "options",
    [
        {"left": "int8", "right": "uint8"},  # the lanes run along the rows
        {"left": "int16", "right": "int16"},
        {"casts": True},
        {"batch": (3,)},
        {"batch": (2, 3), "turn": True, "epilogue": True},
    ],
    ids=str,
)
def test_other_operands(options):
    args = product(19, 21, 23, **options)
    asm = checked(task_of(args, ONE), args, options.get("turn", False))
    assert ("vpdpwssd" if options.get("left") == "int16" else "vpdpbusd") in asm


@here
def test_convolutions_channels_last():
    """The image is read in place: its channels lie side by side."""
    X = te.placeholder((2, 9, 11, 8), "uint8", name="X")
    W = te.placeholder((3, 3, 8, 21), "int8", name="W")
    y, x, c = (te.reduce_axis((0, n), name=name) for n, name in ((3, "y"), (3, "x"), (8, "c")))
    C = te.compute(
        (2, 4, 5, 21),
        lambda n, i, j, f: te.sum(
            X[n, i * 2 + y, j * 2 + x, c].astype("int32") * W[y, x, c, f].astype("int32"),
            axis=[y, x, c],
        ),
        name="C",
    )
    task = task_of([X, W, C], ONE)
    s, args = task.instantiate(None)
    assert "X_packed" not in str(whet.lower(s, args)) and "W_packed" in str(whet.lower(s, args))
    a, w = drawn(X), drawn(W)
    out = np.full((2, 4, 5, 21), 77, "int32")
    f = whet.build(s, args, task.target)
    f(a, w, out)
    windows = np.lib.stride_tricks.sliding_window_view(a.astype("int64"), (3, 3), (1, 2))
    wanted = np.einsum("nijcyx,yxcf->nijf", windows[:, ::2, ::2], w.astype("int64"))
    np.testing.assert_array_equal(out, wanted)
    assert "vpdpbusd" in f.get_source("asm")


@here
def test_weights_are_packed_ahead():
    A, B = te.placeholder((4, 40), "uint8", name="A"), te.placeholder((40, 37), "int8", name="B")
    packed = computed_ahead(B)
    r = te.reduce_axis((0, 40), name="r")
    C = te.compute(
        (4, 37),
        lambda i, j: te.sum(A[i, r].astype("int32") * packed[r, j].astype("int32"), axis=r),
        name="C",
    )
    task = task_of([A, B, C], ONE)
    s, args = task.instantiate(None)
    f = whet.build(s, args, task.target)
    a, b = drawn(A), drawn(B)
    out = np.full((4, 37), 77, "int32")
    f(a, f.pack_weights(b), out)
    np.testing.assert_array_equal(out, a.astype("int64") @ b)
    assert "vpdpbusd" in f.get_source("asm")


@pytest.mark.parametrize("target, register", [(SERVER, "zmm"), (CLIENT, "ymm"), (OLD, "")])
def test_the_code_for_named_processors(target, register):
    args = product(33, 50, 70)
    task = task_of(args, target)
    code = whet.build(*task.instantiate(None), task.target).get_source("asm")
    steps = [line for line in code.splitlines() if "vpdpbusd" in line]
    assert all(f"%{register}" in line for line in steps) and bool(steps) == bool(register)
    assert ("rule" in task.config_space.knobs) == bool(register)
    with task.target:
        assert task.template.version_now() == (INSTRUCTIONS if register else VERSION)


def test_no_rule_where_nothing_is_gained():
    """Few rows do not pay for copies; other types have no such instruction."""
    for args in (
        product(1, 64, 64),
        product(64, 64, 64, "int8", "int8"),
        product(9, 9, 9, "uint8", "uint8"),
    ):
        assert "rule" not in task_of(args, SERVER).config_space.knobs


@pytest.fixture
def alone(monkeypatch):
    """No instruction of another test is declared."""
    monkeypatch.setattr(instructions, "_declared", {})


def add_rows(target):
    """``c[i] += x[k] * w[k, i]`` of 3 steps and 5 lanes of float32, in loops of any target."""
    x, w = te.placeholder((3,), name="x"), te.placeholder((3, 5), name="w")
    k = te.reduce_axis((0, 3), name="k")
    c = te.compute((5,), lambda i: te.sum(x[k] * w[k, i], axis=k), name="c")

    def statements(ins, outs):
        (a, b), (out,) = ins, outs

        def step(begins, adds):
            ib = tir.ir_builder.create()
            with ib.for_range(0, 5, name="lane") as i:
                if begins:
                    ib.emit(out.vstore(i, tir.const(0, "float32")))
                if adds:
                    with ib.for_range(0, 3, name="step") as j:
                        ib.emit(out.vstore(i, out.vload(i) + a.vload(j) * b.vload((j, i))))
            return ib.get()

        return step(True, True), step(True, False), step(False, True)

    return te.decl_tensor_intrin(
        c.op, statements, "rows", default_buffer_params={"offset_factor": 1}
    )


@pytest.mark.parametrize("size", [(9, 11, 7), (16, 15, 6), (10, 8, 2)], ids=str)
@pytest.mark.parametrize("target", [ONE, TWO])
def test_an_instruction_of_a_user(alone, size, target):
    """On every processor: the declared loops take the place of the rule's own."""
    n, m, k = size
    A, B = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="r")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    before = whet.create_task(outputs=[C], target=target).config_space.fingerprint
    whet.tensor_intrin("rows")(add_rows)
    task = whet.create_task(outputs=[C], target=target)
    space = task.config_space
    assert space.fingerprint != before and space.default.as_dict()["rule"] == "tensorize"
    a, b = (RNG.standard_normal(t.shape).astype("float32") for t in (A, B))
    wanted = a.astype("float64") @ b
    for rule in space.knobs["rule"].choices:
        config = space.nearest({"rule": rule})
        s, args = task.instantiate(config)
        text = str(whet.lower(s, args))
        assert ("lane" in text) == (rule == "tensorize")
        out = np.full((n, m), np.nan, "float32")
        whet.build(s, args, target)(a, b, out)
        np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)


def test_wrong_declarations(alone):
    whet.tensor_intrin("rows")(add_rows)
    whet.tensor_intrin("rows")(add_rows)  # a cell that is run again
    with pytest.raises(whet.SpaceError, match=r"another function has declared.*add_rows"):
        whet.tensor_intrin("rows")(has_it)
    whet.tensor_intrin("rows", replace=True)(lambda target: None)
    with pytest.raises(whet.SpaceError, match="a int is no function"):
        whet.tensor_intrin("more")(3)
    with pytest.raises(whet.SpaceError, match="a name is a text"):
        whet.tensor_intrin(add_rows)
    whet.tensor_intrin("none", replace=True)(lambda target: "vpdpbusd")
    A = te.placeholder((16, 16), name="A")
    r = te.reduce_axis((0, 16), name="r")
    C = te.compute((16, 16), lambda i, j: te.sum(A[i, r] * A[r, j], axis=r), name="C")
    with pytest.raises(whet.SpaceError, match=r"(?s)none.*gave a .*decl_tensor_intrin"):
        whet.create_task(outputs=[C], target=ONE)


SCRIPT = """
import sys
import numpy as np
import whet
from whet import te, tir

{declaration}

if __name__ == "__main__":
    A, B = te.placeholder((9, 7), name="A"), te.placeholder((7, 11), name="B")
    r = te.reduce_axis((0, 7), name="r")
    C = te.compute((9, 11), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    whet.tensor_intrin("rows")(add_rows)
    task = whet.create_task(outputs=[C], target="llvm -num_threads=1")
    options = whet.MeasureOptions(repeat=3, min_repeat_ms=1.0, max_measure_s=0.05)
    quiet = {{"sampler": "random", "seed": 3, "progress": False, "options": options}}
    found = whet.tune(task, 8, sys.argv[1], **quiet)
    print(found.outcomes(), {{t.config.as_dict()["rule"] for t in found.trials}})
    f = whet.build(task, log=sys.argv[1])
    a, b = np.ones((9, 7), "float32"), np.ones((7, 11), "float32")
    c = np.zeros((9, 11), "float32")
    f(a, b, c)
    assert (c == 7).all()
"""


@pytest.mark.parametrize("how", ["by value", "by its name"])
def test_workers_know_it(tmp_path, how):
    """Of a script by value, of a module by its name."""
    import inspect

    declaration = inspect.getsource(add_rows)
    if how == "by its name":
        (tmp_path / "my_rows.py").write_text(f"from whet import te, tir\n\n\n{declaration}")
        declaration = "from my_rows import add_rows"
    script = tmp_path / "tune_rows.py"
    script.write_text(SCRIPT.format(declaration=declaration))
    command = [sys.executable, str(script), str(tmp_path / "log.db")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "{'ok': 8}" in done.stdout and "tensorize" in done.stdout
