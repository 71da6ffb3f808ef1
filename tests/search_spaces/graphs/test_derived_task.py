"""Tasks from compute graphs: their names, what is refused, and how graphs travel to workers."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import whet
from whet import te
from whet.compiler import topi
from whet.compiler.errors import ArgumentError, LowerError, SpaceError
from whet.measure.stage.builder import build_candidate
from whet.measure.values import MeasureInput
from whet.search_spaces import get_template, resolve, template
from whet.search_spaces.graph.serialize import deserialize, serialize

TARGET = "llvm -num-threads=1"


def softmax(n, m, name="X"):
    return topi.nn.softmax(te.placeholder((n, m), name=name))


def centred(n, m):
    X = te.placeholder((n, m), name="X")
    k = te.reduce_axis((0, m), name="k")
    total = te.compute((n,), lambda i: te.sum(X[i, k], axis=k), name="total")
    return te.compute((n, m), lambda i, j: X[i, j] - total[i] / float(m), name="Y")


def task_of(*outputs, **options):
    return whet.create_task(outputs=list(outputs), target=TARGET, **options)


def test_other_extents_are_other_shapes_of_one_template():
    small, large = task_of(centred(7, 33)), task_of(centred(1000, 513))
    assert small.name == large.name and small.name.startswith("graph/Y/")
    assert (small.args, large.args) == ((7, 33), (1000, 513))
    A, B = te.placeholder((30, 20), name="A"), te.placeholder((20, 50), name="B")
    assert task_of(topi.matmul(A, B)).args == (30, 20, 50)


def test_names_of_tensors_do_not_matter_but_structure_and_types_do():
    a, b = task_of(softmax(8, 9), name="s"), task_of(softmax(8, 9, "other"), name="s")
    assert a.key == b.key and a.name.startswith("graph/s/")
    X = te.placeholder((8, 9), name="X")
    different = [
        te.compute((8, 9), lambda i, j: X[i, j] + 1.0, name="Y"),
        te.compute((8, 9), lambda i, j: X[i, j] + 2.0, name="Y"),
        te.compute((8, 9), lambda i, j: X[i, j] * 1.0 + 1.0, name="Y"),
        te.compute((8, 9), lambda i, j: X[i, j].astype("float64") + 1.0, name="Y"),
        te.compute((8, 8), lambda i, j: X[i, j + 1] + 1.0, name="Y"),
        te.compute((4, 9), lambda i, j: X[i * 2, j] + 1.0, name="Y"),
    ]
    assert len({task_of(Y).name for Y in different}) == len(different)
    Y = different[0]
    assert task_of(Y).name != task_of(Y, args=[Y, X]).name


def test_a_constant_that_is_a_size_is_a_number():
    def padded(n):
        X = te.placeholder((n,), name="X")
        inside = lambda i: te.if_then_else(te.all(i >= 1, i < n + 1), X[i - 1], 0.0)  # noqa: E731
        return te.compute((n + 2,), inside, name="P")

    a, b = task_of(padded(30)), task_of(padded(99))
    assert a.name == b.name and (a.args, b.args) == ((30, 32, 31), (99, 101, 100))


def test_the_key_is_the_same_in_every_process():
    code = f"""
import whet
from whet import te
from whet.compiler import topi
X = te.placeholder((12, 34), name="X")
task = whet.create_task(outputs=[topi.nn.softmax(X)], target={TARGET!r})
print(task.key)
print(task.config_space.fingerprint)
"""
    here = task_of(softmax(12, 34))
    there = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert there == [here.key, here.config_space.fingerprint]


def test_arguments_come_in_the_order_of_appearance_or_as_asked():
    A, B = te.placeholder((4, 5), name="A"), te.placeholder((5, 6), name="B")
    C = topi.matmul(A, B)
    D = te.compute((4, 6), lambda i, j: C[i, j] * 2.0, name="D")
    unused = te.placeholder((3,), name="unused")

    def names(task):
        return [t.name for t in task.instantiate()[1]]

    assert names(task_of(D, C)) == ["A", "B", "D", "C"]
    assert names(task_of(D, args=[B, D, A])) == ["B", "D", "A"]
    assert names(task_of(D, args=[A, unused, B, D])) == ["A", "unused", "B", "D"]


def test_all_that_an_output_s_operation_makes_is_an_argument():
    X = te.placeholder((6,), name="X")
    two = te.compute((6,), lambda i: (X[i] + 1.0, X[i] * 2.0), name="two")
    task = task_of(two[1])
    assert task.instantiate()[1] == [X, two[1], two[0]]
    x, a, b = np.arange(6, dtype="float32"), np.zeros(6, "float32"), np.zeros(6, "float32")
    whet.build(task)(x, a, b)
    np.testing.assert_array_equal([a, b], [x * 2, x + 1])


def te_symbol():
    n = te.var("n")
    X = te.placeholder((n, 4), name="X")
    return te.compute((n, 4), lambda i, j: X[i, j] + 1.0, name="Y")


def te_triangle():
    X = te.placeholder((4, 4), name="X")

    def element(i):
        k = te.reduce_axis((0, i + 1), name="k")
        return te.sum(X[i, k], axis=k)

    return te.compute((4,), element, name="Y")


X = te.placeholder((4,), name="X")
Z = te.placeholder((4,), name="Z")
Y = te.compute((4,), lambda i: X[i] + Z[i], name="Y")


@pytest.mark.parametrize(
    "options, why",
    [
        ({"outputs": []}, "there is nothing to compute"),
        ({"outputs": [X]}, "X is an input"),
        ({"outputs": ["Y"]}, r"outputs\[0\] is a str, not a tensor"),
        ({"outputs": 3}, "outputs is a int, not a list"),
        ({"outputs": [Y, Y]}, "named twice"),
        ({"outputs": [te_symbol()]}, "the extent n is a symbol(.|\n)*give numbers"),
        ({"outputs": [te_triangle()]}, "depends on the element(.|\n)*where=k <= i"),
        ({"outputs": [Y], "args": [X, Y]}, "args leaves out Z(.|\n)*every input"),
        ({"outputs": [Y], "args": (1, 2)}, r"args\[0\] is a int"),
        ({"outputs": [Y], "name": get_template("matmul")}, "there is a task from either"),
        ({"outputs": [Y], "name": "a b"}, "a name is a word"),
        ({"outputs": [Y], "space": "tiny"}, "no such level(.|\n)*full, quick"),
        ({}, "neither a template nor outputs"),
    ],
)
def test_what_is_refused(options, why):
    with pytest.raises(ArgumentError, match=why):
        whet.create_task(**options)


def test_an_intermediate_is_no_argument():
    T = te.compute((4,), lambda i: X[i] * 2.0, name="T")
    U = te.compute((4,), lambda i: te.exp(T[i]) + T[i], name="U")
    with pytest.raises(ArgumentError, match="T: neither an input nor an output"):
        whet.create_task(outputs=[U], args=[X, T, U])


def test_a_template_that_raises_says_so_when_the_task_is_made():
    @template("test_derived/raises")
    def raises(n):
        raise ValueError(f"{n} is odd")

    with pytest.raises(SpaceError, match="3 is odd"):
        whet.create_task(raises, (3,))


def test_other_extents_of_a_family_cannot_be_made_from_the_name():
    task = task_of(centred(6, 7))
    with pytest.raises(SpaceError, match=r"not known in this process(.|\n)*create_task\(outputs"):
        whet.create_task(task.name, (6, 8))
    again = whet.create_task(task.name, (6, 7), TARGET)
    assert again.key == task.key
    with task.target:
        space = get_template(task.name).space(task.workload)
    assert space.fingerprint == task.config_space.fingerprint


def test_a_deep_graph_travels():
    X = te.placeholder((16,), name="X")
    Y = X
    for n in range(1500):
        Y = _next(Y, n)
    (back,), (x, _) = deserialize(serialize([Y], [X, Y]))
    assert te.graph_text([back]) == te.graph_text([Y]) and x.name == "X"


def _next(T, n):
    return te.compute((16,), lambda i: T[i] + 1.0, name=f"T{n}")


def test_every_kind_of_operation_travels():
    A = te.placeholder((6, 8), name="A")
    k = te.reduce_axis((0, 8), name="k")
    index, value = te.compute((6,), lambda i: _argmax((k.var, A[i, k]), axis=k), name="M")
    copied = te.extern(
        (6,), [value], lambda ins, outs: _copy(ins[0], outs[0]), dtype="float32", name="E"
    )
    Y = te.compute((6,), lambda i: copied[i] + index[i].astype("float32"), name="Y")
    outputs, _ = deserialize(serialize([Y], [A, Y]))
    assert te.graph_text(outputs) == te.graph_text([Y])
    a = np.random.default_rng(0).standard_normal((6, 8)).astype("float32")
    task = pickle.loads(pickle.dumps(task_of(Y)))
    y = np.zeros(6, "float32")
    whet.build(task)(a, y)
    np.testing.assert_allclose(y, a.max(1) + a.argmax(1), rtol=1e-6)


_argmax = te.comm_reducer(
    lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
    lambda i, v: (te.const(-1, i), te.min_value(v)),
    name="argmax",
)


def _copy(source, target):
    from whet.compiler import tir

    ib = tir.ir_builder.create()
    read, written = ib.buffer_ptr(source), ib.buffer_ptr(target)
    with ib.for_range(0, 6, name="i") as i:
        written[i] = read[i]
    return ib.get()


def test_two_shapes_of_a_family_alternate_in_one_worker():
    tasks = [task_of(centred(6, 7)), task_of(centred(9, 40))]
    inputs = [
        MeasureInput(t.workload, t.target.to_json(), t.config_space.default, t.template.ref())
        for t in tasks
    ]
    assert all(i.template.pickled and not i.template.module for i in inputs)
    code = """
import pickle, sys
from whet.measure.stage.builder import build_candidate
for inp in pickle.load(sys.stdin.buffer) * 2:
    built = build_candidate(inp)
    print(built.status, built.program_hash)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(inputs), capture_output=True, check=True
    )
    lines = done.stdout.decode().splitlines()
    here = [build_candidate(i) for i in inputs]
    assert lines == [f"ok {b.program_hash}" for b in here] * 2
    assert here[0].program_hash != here[1].program_hash


def test_a_ref_opens_to_the_template_that_was_sent():
    old, new = task_of(centred(5, 6)), task_of(centred(5, 66))
    first, second = old.template.ref(), new.template.ref()
    assert resolve(first).workload(5, 6) and resolve(second).workload(5, 66)
    with pytest.raises(SpaceError, match="not known"):
        resolve(first).workload(5, 66)


def test_a_graph_that_reads_outside_a_tensor_is_refused_when_its_task_is_made():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i + 4], name="B")
    with pytest.raises(LowerError, match=r"B reads A\[i \+ 4\]: .* goes up to 11, but .* is 8"):
        whet.create_task(outputs=[b], target="llvm")
    guarded = te.compute((8,), lambda i: te.if_then_else(i < 4, a[i + 4], 0.0), name="B")
    assert len(whet.create_task(outputs=[guarded], target="llvm").config_space) > 0
