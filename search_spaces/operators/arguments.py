"""The arguments of GEMMs and convolutions: their names, and what each must be.

The name of an argument says what it is: ``dense(4, 8, 2, "float")`` and ``dense(4, 8, 2)`` are one
workload, and what cannot be is refused by the name that the user knows it by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, Signature
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.compiler.topi.half_precision import summed_in
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.graph.canonical_args import Kind, canonical_arguments
from whet.search_spaces.template.canonical import Canonical

DTYPES = ("float32", "float64")
"""Element types that GEMMs and convolutions are summed up in."""
BYTES = ("int8", "uint8")
"""Element types that they may multiply on a GPU: their results are int32."""
STORED = ("float16", *BYTES, *DTYPES)
"""Element types that they may be stored in where a GPU's kernel sums up in more (float16)."""

_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("transpose_a", "transpose_b", "packed"), False),
    **dict.fromkeys(("strides", "dilation", "groups", "multiplier"), 1),
    **dict.fromkeys(("padding", "output_padding"), 0),
    "dtype": "float32",
    "epilogue": (),
    "block": 16,
}
"""Of arguments that may be left out."""


def canonical_operator(
    function: Callable[..., Any], arguments: str, rank: int, kinds: Mapping[str, Kind]
) -> tuple[Callable[..., Any], Canonical]:
    """The function with positional arguments, and what gives these their canonical form.

    Args:
        function: of keyword arguments.
        arguments: their names, in order; the tables of this file say what each is, and its default.
            One that is in no table is an extent.
        rank: spatial dimensions.
        kinds: of arguments that are something else here than the table says.
    """
    names = arguments.split()
    known = {**_kinds(rank), **kinds}

    @wraps(function)
    def run(*args: Any) -> Any:
        return function(**dict(zip(names, args, strict=True)))

    kind = Parameter.POSITIONAL_OR_KEYWORD
    run.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(n, kind, default=_DEFAULTS.get(n, Parameter.empty)) for n in names]
    )
    each_kind = [known.get(n, _whole(0)) for n in names]
    return run, canonical_arguments(function.__name__, names, each_kind)


def whole(request: str, name: str, value: Any, least: int) -> int:
    """An int of at least ``least``.

    Raises:
        ArgumentError: it is something else, e.g. a bool.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise ArgumentError(
        request,
        f"{name} is {value!r}; it must be an int, at least {least}",
        f"give {name} as {_meant(value, least)}",
    )


def flag(request: str, name: str, value: Any) -> bool:
    """A bool; 0 and 1 are taken, too.

    Raises:
        ArgumentError: it is something else, e.g. the dtype in its place.
    """
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise ArgumentError(
        request,
        f"{name} is {value!r}; it must be True or False",
        "arguments are positional: see whether one before it is missing",
    )


def each(request: str, name: str, value: Any, rank: int, least: int) -> tuple[int, ...]:
    """An int, or one a spatial dimension, as the latter.

    Raises:
        ArgumentError: another number of them, or one that is no int of at least ``least``.
    """
    items = tuple(value) if isinstance(value, tuple | list) else (value,) * rank
    if len(items) != rank:
        counts = "one" if rank == 1 else f"one, or {rank}"
        raise ArgumentError(request, f"{name} has {len(items)} numbers", f"give {counts}")
    return tuple(whole(request, name, item, least) for item in items)


def sides(request: str, value: Any, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding in front and behind, an int each a spatial dimension.

    Raises:
        ArgumentError: as :func:`each`; twice as many numbers are right as well.
    """
    if isinstance(value, tuple | list) and len(value) == 2 * rank:
        both = each(request, "padding", value, 2 * rank, 0)
        return both[:rank], both[rank:]
    if isinstance(value, tuple | list) and len(value) != rank:
        counts = f"one number, {rank}" if rank > 1 else "one number"
        raise ArgumentError(
            request, f"padding has {len(value)} numbers", f"give {counts}, or {2 * rank}"
        )
    front = each(request, "padding", value, rank, 0)
    return front, front


def padding_each(rank: int) -> Kind:
    """Kind: numbers from 0 on, one a spatial dimension, the same on both sides of it."""
    return lambda value, argument: each(argument.request, argument.name, value, rank, 0)


def _padding(request: str, value: Any, rank: int) -> tuple[int, ...]:
    before, after = sides(request, value, rank)
    return before if before == after else (*before, *after)


def _whole(least: int) -> Kind:
    return lambda value, argument: whole(argument.request, argument.name, value, least)


def summed_dtype(request: str, dtype: str) -> str:
    """An element type that the target in force sums up: of a CPU one of :data:`DTYPES`.

    Raises:
        ArgumentError: it is another one; half precision loses digits as it is summed up.
    """
    target = Target.current(allow_none=True)
    on_gpu = target is not None and target.kind.row.has_threads
    return _one_of(STORED if on_gpu else DTYPES, request, dtype)


def accumulated(dtype: str) -> tuple[str, str]:
    """The types that a contraction of a stored type is accumulated in, and stored in.

    >>> accumulated("float16"), accumulated("int8")
    (('float32', 'float16'), ('int32', 'int32'))
    """
    return ("int32", "int32") if dtype in BYTES else (summed_in(dtype), dtype)


def _one_of(kinds: tuple[str, ...], request: str, value: Any) -> str:
    kind = dt.check(value)
    if kind not in kinds:
        raise ArgumentError(
            request,
            f"dtype {kind!r} is not one of {', '.join(DTYPES)}, which sums are kept in",
            "cast the data first (float16, int8 and uint8 are for GPUs, which sum them up in "
            "float32 and int32); a computation of te or topi, without a template, takes any",
        )
    return kind


def _meant(value: Any, least: int) -> str:
    """The int that was probably meant, or the least that can be."""
    try:
        near = int(value)
    except (TypeError, ValueError, OverflowError):
        return f"an int from {least} on"
    if isinstance(value, float) and value != near:
        return f"an int from {least} on"
    return str(near) if near >= least else f"{least} or more"


def _kinds(rank: int) -> dict[str, Kind]:
    """The kinds of arguments by their names."""
    return {
        **dict.fromkeys(("KD", "KH", "KW", "groups", "multiplier", "block"), _whole(1)),
        **dict.fromkeys(
            ("transpose_a", "transpose_b", "packed"),
            lambda value, a: flag(a.request, a.name, value),
        ),
        **dict.fromkeys(
            ("strides", "dilation"), lambda value, a: each(a.request, a.name, value, rank, 1)
        ),
        "padding": lambda value, a: _padding(a.request, value, rank),
        "dtype": lambda value, a: _one_of(STORED, a.request, value),
        "epilogue": lambda value, a: Epilogue.of(value).steps,
    }
