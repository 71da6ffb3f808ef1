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
from whet.search_spaces.graph.graph_templates import graph_template

Parts = tuple[list[Tensor], list[Tensor]]


@graph_template("transpose", SHAPE, ORDER, DTYPE)
def transpose(shape: tuple, axes: tuple | None = None, dtype: str = "float32") -> Parts:
    """The dimensions in another order; None: reversed."""
    X = te.placeholder(shape, dtype, name="X")
    return [X], [topi.transpose(X, axes)]


@graph_template("layout_transform", SHAPE, WORD, WORD, DTYPE)
def layout_transform(shape: tuple, src: str, dst: str, dtype: str = "float32") -> Parts:
    """A tensor of layout ``src`` (NCHW) in the layout ``dst`` (NCHW8c)."""
    X = te.placeholder(shape, dtype, name="X")
    return [X], [topi.layout_transform(X, src, dst)]


@graph_template("concatenate", SHAPES, AXIS, DTYPE)
def concatenate(shapes: tuple, axis: int = 0, dtype: str = "float32") -> Parts:
    """Tensors one after the other along an axis."""
    given = [te.placeholder(shape, dtype, name=f"X{k}") for k, shape in enumerate(shapes)]
    return given, [topi.concatenate(given, axis)]


def _places(shape: tuple, axis: int) -> tuple[int, int]:
    """The least and the largest index along an axis."""
    return 0, max(shape[axis] - 1, 0)


@graph_template("gather", SHAPE, SHAPE, AXIS, DTYPE)
def gather(shape: tuple, indices: tuple, axis: int = 0, dtype: str = "float32") -> Parts:
    """``X[..., indices[..., i, ...], ...]``: int32 indices, along one axis, element by element."""
    X = te.placeholder(shape, dtype, name="X")
    I = te.placeholder(indices, "int32", name="I", value_range=_places(shape, axis))
    return [X, I], [topi.gather(X, axis, I)]


@graph_template("take", SHAPE, SHAPE, AXIS, DTYPE)
def take(shape: tuple, indices: tuple, axis: int = 0, dtype: str = "float32") -> Parts:
    """The parts of X at int32 indices along an axis, e.g. rows of a table of embeddings."""
    X = te.placeholder(shape, dtype, name="X")
    I = te.placeholder(indices, "int32", name="I", value_range=_places(shape, axis))
    return [X, I], [topi.take(X, I, axis)]


@graph_template("pad", SHAPE, COUNTS, COUNTS, WORD, REAL, DTYPE)
def pad(
    shape: tuple,
    before: tuple,
    after: tuple | None = None,
    mode: str = "constant",
    value: float = 0.0,
    dtype: str = "float32",
) -> Parts:
    """More elements at the ends of each dimension; None: as many behind as before.

    The modes are numpy's: constant (``value``), edge, reflect, symmetric, wrap.
    """
    X = te.placeholder(shape, dtype, name="X")
    return [X], [topi.pad(X, before, after, value, mode=mode)]


@graph_template("resize2d", IMAGES, PAIR, WORD, WORD, DTYPE)
def resize2d(
    shape: tuple,
    size: tuple,
    method: str = "linear",
    coordinates: str = "half_pixel",
    dtype: str = "float32",
) -> Parts:
    """Images of another (height, width)."""
    X = te.placeholder(shape, dtype, name="X")
    made = topi.image.resize2d(
        X, None, size, method=method, coordinate_transformation_mode=coordinates
    )
    return [X], [made]
