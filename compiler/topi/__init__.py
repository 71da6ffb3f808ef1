"""Operators: what they compute, whatever the schedule, and the table of their schedules."""

from typing import TYPE_CHECKING

from whet.compiler.homes import imported
from whet.compiler.topi import cuda, elementwise, generic, nn, tag, utils, x86
from whet.compiler.topi.elementwise import *  # noqa: F403
from whet.compiler.topi.layout import layout_transform
from whet.compiler.topi.nn.dense import matmul
from whet.compiler.topi.nn.pad import pad
from whet.compiler.topi.reduction import all, any, argmax, argmin, max, min, prod, sum
from whet.compiler.topi.scan import cumprod, cumsum
from whet.compiler.topi.schedules import SCHEDULES, find_schedule, register_schedule
from whet.compiler.topi.transform import (
    concatenate,
    expand_dims,
    flip,
    repeat,
    reshape,
    split,
    squeeze,
    stack,
    strided_slice,
    take,
    tile,
    transpose,
    where,
)

if TYPE_CHECKING:
    from whet.compiler.topi import image, vision
    from whet.compiler.topi.algebra import csr as sparse
    from whet.compiler.topi.algebra.determinant import det
    from whet.compiler.topi.algebra.fourier import dft, stft
    from whet.compiler.topi.algebra.products import einsum, tensordot
    from whet.compiler.topi.fixed_point import (
        ceil_log2,
        fixed_point_multiply,
        fixed_point_multiply_per_axis,
        reinterpret,
    )
    from whet.compiler.topi.indexed.gather import gather, gather_nd
    from whet.compiler.topi.indexed.places import (
        arange,
        dynamic_strided_slice,
        matrix_set_diag,
        meshgrid,
        one_hot,
        reverse_sequence,
        sequence_mask,
        trilu,
        unravel_index,
    )
    from whet.compiler.topi.indexed.scatter import (
        scatter,
        scatter_elements,
        scatter_nd,
        strided_set,
    )
    from whet.compiler.topi.indexed.sorting import argsort, searchsorted, sort, topk
    from whet.compiler.topi.indexed.sparse_tensors import (
        sparse_fill_empty_rows,
        sparse_reshape,
        sparse_to_dense,
    )
    from whet.compiler.topi.indexed.unique import argwhere, unique
    from whet.compiler.topi.indexed.views import (
        adv_index,
        collapse_sum,
        expand_like,
        ndarray_size,
        shape,
        sliding_window,
    )

_LATE = {
    "algebra.determinant": ("det",),
    "algebra.products": ("einsum", "tensordot"),
    "algebra.fourier": ("dft", "stft"),
    "fixed_point": (
        "ceil_log2",
        "fixed_point_multiply",
        "fixed_point_multiply_per_axis",
        "reinterpret",
    ),
    "indexed.sparse_tensors": ("sparse_fill_empty_rows", "sparse_reshape", "sparse_to_dense"),
    "indexed.unique": ("argwhere", "unique"),
    "indexed.views": (
        "adv_index",
        "collapse_sum",
        "expand_like",
        "ndarray_size",
        "shape",
        "sliding_window",
    ),
    "indexed.gather": ("gather", "gather_nd"),
    "indexed.places": (
        *("arange", "dynamic_strided_slice", "matrix_set_diag", "meshgrid", "one_hot"),
        *("reverse_sequence", "sequence_mask", "trilu", "unravel_index"),
    ),
    "indexed.scatter": ("scatter", "scatter_elements", "scatter_nd", "strided_set"),
    "indexed.sorting": ("argsort", "searchsorted", "sort", "topk"),
}
"""Modules of operators that few programs have, imported as they are asked for."""
_MODULES = {"image": "image", "sparse": "algebra.csr", "vision": "vision"}
_HOMES = {name: f"{__name__}.{module}:{name}" for module, names in _LATE.items() for name in names}

__all__ = [
    *elementwise.__all__,
    "SCHEDULES",
    "dft",
    "stft",
    "ceil_log2",
    "fixed_point_multiply",
    "fixed_point_multiply_per_axis",
    "reinterpret",
    "sparse_fill_empty_rows",
    "sparse_reshape",
    "sparse_to_dense",
    "argwhere",
    "unique",
    "adv_index",
    "collapse_sum",
    "expand_like",
    "ndarray_size",
    "shape",
    "sliding_window",
    "sparse",
    "vision",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "concatenate",
    "cuda",
    "cumprod",
    "cumsum",
    "det",
    "dynamic_strided_slice",
    "einsum",
    "expand_dims",
    "find_schedule",
    "flip",
    "gather",
    "gather_nd",
    "generic",
    "image",
    "layout_transform",
    "matmul",
    "matrix_set_diag",
    "max",
    "meshgrid",
    "min",
    "nn",
    "one_hot",
    "pad",
    "prod",
    "register_schedule",
    "repeat",
    "reshape",
    "reverse_sequence",
    "scatter",
    "scatter_elements",
    "scatter_nd",
    "searchsorted",
    "sequence_mask",
    "sort",
    "split",
    "squeeze",
    "stack",
    "strided_set",
    "strided_slice",
    "sum",
    "tag",
    "take",
    "tensordot",
    "tile",
    "topk",
    "transpose",
    "trilu",
    "unravel_index",
    "utils",
    "where",
    "x86",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"{__name__}.{_MODULES[name]}")
    if name in _HOMES:
        found = globals()[name] = imported(_HOMES[name])
        return found
    from whet.compiler.absent import missing

    raise missing(__name__, "topi", name)
