"""Rules that compete for a group: the knob, the space that it makes, every rule's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import whet
from whet import te
from whet.autotune.samplers import make_sampler
from whet.compiler.errors import SpaceError
from whet.search_spaces.graph import rule as rules
from whet.search_spaces.graph.compute_graph import ComputeGraph
from whet.search_spaces.graph.rule import contenders, name_of
from whet.search_spaces.rules.cpu.gemm.matvec import Skinny
from whet.search_spaces.rules.cpu.gemm.rule import Gemm
from whet.search_spaces.rules.cpu.stages import Stages

TWO = whet.Target("llvm -num_threads=2")
Reference = Callable[..., np.ndarray]
Case = tuple[list[Any], Any, Reference]


def product(
    b: tuple[int, ...],
    n: int,
    m: int,
    k: int,
    along: bool,
    dtype: str = "float32",
    bias: bool = False,
) -> Case:
    """A GEMM of each of a batch; the second operand is stored (M, K), or (K, M)."""
    A = te.placeholder((*b, n, k), dtype, name="A")
    B = te.placeholder((*b, *((m, k) if along else (k, m))), dtype, name="B")
    r = te.reduce_axis((0, k), name="r")

    def element(*i: Any) -> Any:
        *x, y, z = i
        return te.sum(A(*x, y, r) * (B(*x, z, r) if along else B(*x, r, z)), axis=r)

    C = te.compute((*b, n, m), element, name="C")
    out = te.compute(C.shape, lambda *i: te.max(C(*i) + 0.5, 0.0), name="D") if bias else C

    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        found = a @ (np.swapaxes(b, -1, -2) if along else b)
        return np.maximum(found + 0.5, 0) if bias else found

    return [A, B], out, reference


def softmax(n: int, m: int, dtype: str = "float32") -> Case:
    A = te.placeholder((n, m), dtype, name="A")
    j, k = te.reduce_axis((0, m), name="j"), te.reduce_axis((0, m), name="k")
    M = te.compute((n,), lambda i: te.max(A[i, j], axis=j), name="M")
    E = te.compute((n, m), lambda i, c: te.exp(A[i, c] - M[i]), name="E")
    Z = te.compute((n,), lambda i: te.sum(E[i, k], axis=k), name="Z")

    def reference(a: np.ndarray) -> np.ndarray:
        e = np.exp(a - a.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    return [A], te.compute((n, m), lambda i, c: E[i, c] / Z[i], name="P"), reference


def gathered(n: int, p: int, c: int) -> Case:
    """A weighted sum of rows that are computed where they are read."""
    A, W = te.placeholder((9, c), name="A"), te.placeholder((n, p), name="W")
    Y = te.placeholder((n, p), "int32", name="Y")
    B = te.compute((n, p, c), lambda i, q, x: A[Y[i, q], x] + A[Y[i, q] + 1, x], name="B")
    q = te.reduce_axis((0, p), name="q")
    O = te.compute((n, c), lambda i, x: te.sum(B[i, q, x] * W[i, q], axis=q), name="O")

    def reference(a: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.einsum("ipc,ip->ic", a[y] + a[y + 1], w)

    return [A, Y, W], O, reference


def one_query(b: int, n: int, d: int) -> Case:
    """Attention of one row for each of a batch: the scores, their softmax, the weighted sum."""
    Q, K, V = (te.placeholder((b, x, d), name=t) for t, x in (("Q", 1), ("K", n), ("V", n)))
    r, *j = (te.reduce_axis((0, x), name=f"r{k}") for k, x in enumerate((d, n, n, n)))
    S = te.compute((b, 1, n), lambda x, i, y: te.sum(Q[x, i, r] * K[x, y, r], axis=r), name="S")
    M = te.compute((b, 1), lambda x, i: te.max(S[x, i, j[0]], axis=j[0]), name="M")
    E = te.compute((b, 1, n), lambda x, i, y: te.exp(S[x, i, y] - M[x, i]), name="E")
    Z = te.compute((b, 1), lambda x, i: te.sum(E[x, i, j[1]], axis=j[1]), name="Z")
    P = te.compute((b, 1, n), lambda x, i, y: E[x, i, y] / Z[x, i], name="P")
    O = te.compute(
        (b, 1, d), lambda x, i, c: te.sum(P[x, i, j[2]] * V[x, j[2], c], axis=j[2]), name="O"
    )

    def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        e = np.exp((s := q @ np.swapaxes(k, -1, -2)) - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v

    return [Q, K, V], O, reference


def window(h: int, f: int) -> Case:
    A, W = te.placeholder((h + f - 1, h + f - 1), name="A"), te.placeholder((f, f), name="W")
    y, x = te.reduce_axis((0, f), name="y"), te.reduce_axis((0, f), name="x")
    C = te.compute((h, h), lambda i, j: te.sum(A[i + y, j + x] * W[y, x], axis=[y, x]), name="C")

    def reference(a: np.ndarray, w: np.ndarray) -> np.ndarray:
        views = np.lib.stride_tricks.sliding_window_view(a, w.shape)
        return np.einsum("ijyx,yx->ij", views, w)

    return [A, W], C, reference


CASES: dict[str, tuple[Callable[[], Case], list[str]]] = {
    "few rows": (lambda: product((), 3, 37, 71, True, bias=True), ["gemm", "skinny"]),
    "few columns": (lambda: product((), 45, 4, 33, True, "float64"), ["gemm", "skinny"]),
    "short rows": (lambda: product((5,), 2, 3, 3, True), ["gemm", "skinny", "tiled"]),
    "a batch of vectors": (lambda: product((3, 2), 1, 9, 70, True), ["gemm", "skinny"]),
    "one row": (lambda: product((), 1, 67, 50, False), ["gemm", "reduction"]),
    "few steps": (lambda: product((), 19, 35, 2, False), ["gemm", "tiled"]),
    "few rows of integers": (lambda: product((), 2, 33, 40, True, "int32"), ["tiled", "reduction"]),
    "rows that are gathered": (lambda: gathered(7, 5, 33), ["gemm", "reduction"]),
    "windows": (lambda: window(23, 5), ["tiled", "reduction"]),
    "attention of one query": (lambda: one_query(3, 37, 19), ["rows", "stages"]),
    "few long rows": (lambda: softmax(1, 20011), ["rows", "stages"]),
    "two long rows": (lambda: softmax(2, 9001, "float64"), ["rows", "stages"]),
}


def task_of(case: Case, target: Any = TWO) -> Any:
    return whet.create_task(outputs=[case[1]], args=[*case[0], case[1]], target=target)


def of_rule(space: Any, name: str, rng: np.random.Generator, count: int) -> list[Any]:
    """The default of a rule, and others of it, some mutations away."""
    first = space.nearest({"rule": name})
    points = np.array([space.encode(first)] * 8 * count)
    for _ in range(4):
        points = space.mutate_points(points, rng)
    others = {config.key: config for config in map(space.decode, points)}
    drawn = [config for config in others.values() if config.as_dict()["rule"] == name]
    return [first, *drawn[:count]]


@pytest.mark.parametrize("name", CASES)
def test_every_rule_is_right(name: str, seeds: Callable[[int], list[int]]) -> None:
    make, names = CASES[name]
    rng = np.random.default_rng(seeds(1)[0])
    inputs, out, reference = make()
    task = task_of((inputs, out, reference))
    assert list(task.config_space.knobs["rule"].choices) == names
    values = []
    for t in inputs:
        shape = [int(d) for d in t.shape]
        whole = t.dtype.startswith("int")
        drawn = rng.integers(0, 8, shape) if whole else rng.standard_normal(shape)
        values.append(drawn.astype(t.dtype))
    wanted = reference(*(v.astype("f8") if v.dtype.kind == "f" else v for v in values))
    near = {"float32": 1e-5, "float64": 1e-13}.get(out.dtype, 0.0) * max(1, abs(wanted).max())
    for rule in names:
        for config in of_rule(task.config_space, rule, rng, 1):
            assert config.as_dict()["rule"] == rule
            kernel = whet.build(*task.instantiate(config), task.target)
            result = np.full(wanted.shape, 77, out.dtype)
            kernel(*values, result)
            np.testing.assert_allclose(result, wanted, rtol=0, atol=near, err_msg=str(config))


@pytest.mark.parametrize("name", ["few rows", "few steps", "windows", "few long rows"])
def test_the_space_is_those_of_its_rules(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the knobs of rules that are not chosen, one choice is left: so sizes add up."""
    make, names = CASES[name]
    space = task_of(make()).config_space
    sizes, every = [], rules._contenders
    for number in range(len(names)):

        def one(group: Any, home: str, number: int = number) -> list[Any]:
            return [list(every(group, home))[number]]

        monkeypatch.setattr(rules, "_contenders", one)
        sizes.append(task_of(make()).config_space.size)
    assert space.size == sum(sizes)


@pytest.mark.parametrize("name", ["few rows", "windows"])
def test_knobs_of_other_rules_are_held(name: str, seeds: Callable[[int], list[int]]) -> None:
    make, names = CASES[name]
    space, rng = task_of(make()).config_space, np.random.default_rng(seeds(1)[0])
    of_others = {rule: [n for n in space.knobs if n.startswith(f"{rule}.")] for rule in names[1:]}
    for config in map(space.decode, space.sample_points(rng, 100)):
        chosen = config.as_dict()
        for rule, knobs in of_others.items():
            free = {chosen[n] for n in knobs if chosen[n] != space.default.as_dict()[n]}
            assert not free or chosen["rule"] == rule, config


def test_one_rule_alone_has_no_knob() -> None:
    """Where no other says that it may win, the space is that of the first rule."""
    for case in (product((), 64, 64, 64, False), softmax(64, 50), product((), 40, 40, 40, True)):
        task = task_of(case)
        assert "rule" not in task.config_space.knobs
        assert not task.config_space.suggested


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (product((), 2, 1024, 1024, True), "skinny"),  # B would be packed for two rows
        (product((64,), 1, 128, 64, True), "skinny"),
        (product((), 1, 1024, 1024, False), "reduction"),
        (product((), 512, 512, 1, False), "tiled"),
        (softmax(2, 1 << 20), "rows"),  # of two rows each thread has one
        (softmax(1, 1 << 20), "stages"),
        (one_query(16, 512, 64), "stages"),  # of which whole rows would sum up without vectors
    ],
)
def test_the_default_is_the_estimate(case: Case, wanted: str) -> None:
    for level in ("v3", "v4"):
        target = whet.Target(f"llvm -mcpu=x86-64-{level} -num_threads=2")
        assert task_of(case, target).config_space.default.as_dict()["rule"] == wanted


def test_a_search_begins_with_a_config_of_each_rule() -> None:
    space = task_of(product((), 2, 60, 64, True)).config_space
    sampler = make_sampler("xgb", space, 0)
    at = list(space.knobs).index("rule")
    first = {space.knobs["rule"].choices[row[at]] for row in sampler.seeds}
    assert first | {space.default.as_dict()["rule"]} == {"gemm", "skinny"}


def test_the_first_rule_keeps_its_names() -> None:
    """Choices of a record from before there were rivals are those of the first rule."""
    space = task_of(product((), 2, 60, 64, True)).config_space
    alone = {"tile", "order", "block", "pack_b"}
    assert alone < set(space.knobs)
    old = {n: k.choices[-1] for n, k in space.knobs.items() if n in ("tile", "unroll_k")}
    assert space.nearest({"rule": "gemm", **old}).as_dict()["unroll_k"] == old["unroll_k"]


def test_rules_in_a_graph_of_several_groups() -> None:
    """Each group has a knob of its own, under its stage's name."""
    A, B = te.placeholder((2, 48), name="A"), te.placeholder((40, 48), name="B")
    W = te.placeholder((33, 40), name="W")
    r, q = te.reduce_axis((0, 48), name="r"), te.reduce_axis((0, 40), name="q")
    C = te.compute((2, 40), lambda i, j: te.sum(A[i, r] * B[j, r], axis=r), name="C")
    D = te.compute((2, 33), lambda i, j: te.sum(C[i, q] * W[j, q], axis=q), name="D")
    task = whet.create_task(outputs=[D], args=[A, B, W, D], target=TWO)
    space, rng = task.config_space, np.random.default_rng(1)
    assert list(space.knobs["C.rule"].choices) == list(space.knobs["D.rule"].choices)
    a, b, w = (rng.standard_normal([int(d) for d in t.shape]).astype("f4") for t in (A, B, W))
    for first in ("gemm", "skinny"):
        for last in ("gemm", "skinny"):
            config = space.nearest({"C.rule": first, "D.rule": last})
            kernel, d = whet.build(*task.instantiate(config), TWO), np.full((2, 33), 7, "f4")
            kernel(a, b, w, d)
            wanted = a.astype("f8") @ b.T @ w.T
            np.testing.assert_allclose(d, wanted, rtol=0, atol=1e-4, err_msg=str(config))


def test_what_has_no_memory_is_not_fetched_ahead() -> None:
    """An operand that is computed where it is read: only the other knobs are searched."""
    space = task_of(gathered(16, 40, 64)).config_space
    assert len(space.knobs["prefetch"]) > 1
    rng = np.random.default_rng(0)
    assert not any(space.sample(rng).as_dict()["prefetch"] for _ in range(100))


def test_a_rule_with_other_knobs_under_a_config(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(product((), 2, 30, 32, True))
    config = task.config_space.nearest({"rule": "skinny"})
    schedule = Skinny.schedule

    def more(self: Skinny, s: Any, group: Any) -> None:
        group.choose("another", [1, 2], 1)
        schedule(self, s, group)

    monkeypatch.setattr(Skinny, "schedule", more)
    with pytest.raises(SpaceError, match="did not define this knob"):
        task.instantiate(config)


def test_names_of_rules() -> None:
    class GpuMultiKernel(Stages):
        """A rule of a GPU."""

    assert (name_of(Gemm()), name_of(GpuMultiKernel())) == ("gemm", "multikernel")


def test_the_first_that_applies_stands_first() -> None:
    (group,) = ComputeGraph([product((), 2, 30, 32, True)[1]], []).groups
    found = contenders(group, TWO)
    assert [type(one).__name__ for one in found] == ["Gemm", "Skinny"]
    assert rules.rule_of(group, TWO) is found[0]
