"""Named templates of what puts elements elsewhere: other orders, parts and joins of tensors."""

from __future__ import annotations

from whet.compiler import te, topi
from whet.compiler.te import Tensor
from whet.search_spaces.graph.canonical_args import (
    AXIS,
    COUNTS,
    DTYPE,
    IMAGES,
    ORDER,
    PAIR,
    REAL,
    SHAPE,
    SHAPES,
    WORD,
)
from whet.search_spaces.graph.graph_templates import graph_template, tensor_template

Parts = tuple[list[Tensor], list[Tensor]]


@tensor_template("transpose", ORDER)
def transpose(X: Tensor, axes: tuple | None = None) -> Tensor:
    """The dimensions in another order; None: reversed."""
    return topi.transpose(X, axes)


@tensor_template("layout_transform", WORD, WORD)
def layout_transform(X: Tensor, src: str, dst: str) -> Tensor:
    """A tensor of layout ``src`` (NCHW) in the layout ``dst`` (NCHW8c)."""
    return topi.layout_transform(X, src, dst)


@graph_template("concatenate", SHAPES, AXIS, DTYPE)
def concatenate(shapes: tuple, axis: int = 0, dtype: str = "float32") -> Parts:
    """Tensors one after the other along an axis."""
    given = [te.placeholder(shape, dtype, name=f"X{k}") for k, shape in enumerate(shapes)]
    return given, [topi.concatenate(given, axis)]


def _with_indices(shape: tuple, indices: tuple, axis: int, dtype: str) -> list[Tensor]:
    """A tensor, and indices along an axis of it."""
    X = te.placeholder(shape, dtype, name="X")
    last = max(shape[axis] - 1, 0)
    return [X, te.placeholder(indices, "int32", name="I", value_range=(0, last))]


@graph_template("gather", SHAPE, SHAPE, AXIS, DTYPE)
def gather(shape: tuple, indices: tuple, axis: int = 0, dtype: str = "float32") -> Parts:
    """``X[..., indices[..., i, ...], ...]``: int32 indices, along one axis, element by element."""
    X, I = _with_indices(shape, indices, axis, dtype)
    return [X, I], [topi.gather(X, axis, I)]


@graph_template("take", SHAPE, SHAPE, AXIS, DTYPE)
def take(shape: tuple, indices: tuple, axis: int = 0, dtype: str = "float32") -> Parts:
    """The parts of X at int32 indices along an axis, e.g. rows of a table of embeddings."""
    X, I = _with_indices(shape, indices, axis, dtype)
    return [X, I], [topi.take(X, I, axis)]


@tensor_template("pad", COUNTS, COUNTS, WORD, REAL)
def pad(
    X: Tensor,
    before: tuple,
    after: tuple | None = None,
    mode: str = "constant",
    value: float = 0.0,
) -> Tensor:
    """More elements at the ends of each dimension; None: as many behind as before.

    The modes are numpy's: constant (``value``), edge, reflect, symmetric, wrap.
    """
    return topi.pad(X, before, after, value, mode=mode)


@tensor_template("resize2d", PAIR, WORD, WORD, shape=IMAGES)
def resize2d(
    X: Tensor, size: tuple, method: str = "linear", coordinates: str = "half_pixel"
) -> Tensor:
    """Images of another (height, width)."""
    return topi.image.resize2d(
        X, None, size, method=method, coordinate_transformation_mode=coordinates
    )
