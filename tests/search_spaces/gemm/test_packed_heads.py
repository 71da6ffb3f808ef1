"""Axes of a batch that A does not have are columns of one GEMM, where B is packed ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import whet
from whet import te
from whet.search_spaces.forms.gemm import GemmForm, gemm_form
from whet.search_spaces.graph.stages import computed_ahead

# heads, rows, K, columns of a head
SIZES = (3, 13, 20, 16)


def _graph(turned: bool = False, dtype: str = "float32", rows: bool = True, lead: int = 0) -> Any:
    """The arguments: rows for each head by weights of its own, and a bias of the head."""
    heads, m, k, n = SIZES
    more = (lead,) if lead else ()
    given = (*more, m, k) if rows else (*more, k)
    A = te.placeholder(given, dtype, name="A")
    W = te.placeholder((heads, n, k) if turned else (heads, k, n), dtype, name="W")
    b = te.placeholder((heads, 1, n) if rows else (heads, n), dtype, name="b")
    w, r = computed_ahead(W), te.reduce_axis((0, k), name="r")
    at_m = (m,) if rows else ()

    def element(*index: Any) -> Any:
        *x, j = index
        x, (h, *i) = x[: len(more)], x[len(more) :]
        return te.sum(A[(*x, *i, r)] * (w[h, j, r] if turned else w[h, r, j]), axis=r)

    C = te.compute((*more, heads, *at_m, n), element, name="C")

    def biased(*index: Any) -> Any:
        h, *_, j = index[len(more) :]
        return C[index] + (b[h, 0, j] if rows else b[h, j])

    return [A, W, b, te.compute(C.shape, biased, name="D")], C


def _form(C: Any) -> GemmForm:
    form = gemm_form(C.op)
    assert form is not None
    return form


def test_sizes_and_places() -> None:
    heads, m, _, n = SIZES
    _, C = _graph()
    plain = _form(C)
    joined = plain.joined(C.op, 16)
    assert (plain.size.batch, plain.size.M) == (heads, n)
    assert (joined.size.batch, joined.size.N, joined.size.M) == (1, m, heads * n)
    assert joined.places == ((), (), (1,), (0, 2))
    assert plain.joined(C.op, 32) is plain  # a vector would have elements of two heads
    _, C = _graph(lead=2)
    joined = _form(C).joined(C.op, 8)
    assert (joined.size.batch, joined.size.N, joined.size.M) == (1, 2 * m, heads * n)
    assert joined.places == ((), (), (0, 2), (1, 3))


@pytest.mark.parametrize(
    ("options", "target"),
    [
        ({}, "llvm -num_threads=1"),
        ({}, "llvm -num_threads=3"),
        ({}, "c"),
        ({"turned": True}, "llvm -num_threads=2"),
        ({"dtype": "float64"}, "llvm -num_threads=1"),
        ({"lead": 2}, "llvm -num_threads=2"),
        ({"rows": False}, "llvm -num_threads=1"),
        ({}, "llvm -mcpu=x86-64 -num_threads=1"),
    ],
)
def test_numbers(options: dict[str, Any], target: str) -> None:
    args, _ = _graph(**options)
    task = whet.create_task(outputs=[args[-1]], args=args, target=target)
    space = task.config_space
    rng = np.random.default_rng(5)
    given = [rng.standard_normal([int(d) for d in t.shape]).astype(t.dtype) for t in args[:-1]]
    a, w, b = (x.astype("float64") for x in given)
    w = w.swapaxes(1, 2) if options.get("turned") else w
    text = "...mk,hkn->...hmn" if options.get("rows", True) else "k,hkn->hn"
    right = np.einsum(text, a, w) + b
    for config in [space.default, *map(space.decode, space.valid_points.sample(rng, 6))]:
        s, tensors = task.instantiate(config)
        f = whet.build(s, tensors, task.target)
        out = np.full(right.shape, np.nan, args[-1].dtype)
        packed = f.pack_weights(given[1])
        f(given[0], packed, given[2], out)
        np.testing.assert_allclose(out, right, atol=1e-4, err_msg=str(config))


@pytest.mark.parametrize("args", [(37, 129, 80), (37, 150, 96), (40, 128, 48)])
def test_panels_are_fetched_evenly_where_blocks_of_k_are_not_whole(args: tuple[int, ...]) -> None:
    """One prefetch in a step, into the second cache: never a panel at once."""
    task = whet.create_task(
        "matmul", args=(*args, False, False, "float32", (), True), target="llvm -num_threads=1"
    )
    default = task.config_space.default.as_dict()
    config = task.config_space.from_choices(
        {**default, "order": "rows", "k_block": task.config_space.knobs["k_block"].choices[-1]}
    )
    with task.target:
        loops = str(whet.lower(*task.instantiate(config)))
    found = [line for line in loops.splitlines() if "prefetch(" in line]
    assert found and all(", 0, 2, 1)" in line and "line" not in line for line in found)
