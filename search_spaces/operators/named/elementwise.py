"""Named templates of what is computed element by element."""

from __future__ import annotations

from whet.compiler import te, topi
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor
from whet.compiler.topi.half_precision import stored, widened
from whet.search_spaces.graph.canonical_args import DTYPE, FLOAT, SHAPE
from whet.search_spaces.graph.graph_templates import graph_template

Parts = tuple[list[Tensor], list[Tensor]]


@graph_template("add", SHAPE, SHAPE, DTYPE)
def add(shape: tuple, other: tuple, dtype: str = "float32") -> Parts:
    """``A + B``; their shapes are broadcast by numpy's rules."""
    A = te.placeholder(shape, dtype, name="A")
    B = te.placeholder(other, dtype, name="B")
    return [A, B], [topi.add(A, B)]


@graph_template("bias_gelu", SHAPE, FLOAT)
def bias_gelu(shape: tuple, dtype: str = "float32") -> Parts:
    """``gelu(X + b)``, one number of ``b`` for each element of the last axis."""
    if not shape:
        raise ArgumentError("bias_gelu(())", "a bias needs at least one dimension", "(1, 1024)")
    X = te.placeholder(shape, dtype, name="X")
    b = te.placeholder(shape[-1:], dtype, name="b")
    return [X, b], [stored(topi.nn.gelu(topi.add(widened(X), widened(b))), dtype)]
