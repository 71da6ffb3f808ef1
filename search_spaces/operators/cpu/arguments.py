"""The arguments of products and convolutions: what each must be, and one form of its spellings.

    canonical_arguments("dense", "N K M dtype epilogue packed")
    canonical_arguments("conv1d_ncw", "N CI W CO KW strides padding ...", rank=1)

The name of an argument says what it is: ``dense(4, 8, 2, "float")`` and ``dense(4, 8, 2)`` are one
workload, and what cannot be is refused by the name that the user knows it by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.tir import dtype as dt
from whet.compiler.topi.nn.epilogue import Epilogue
from whet.search_spaces.canonical import Canonical

DTYPES = ("float32", "float64")
"""What products and convolutions are summed up in."""
BYTES = ("int8", "uint8")
"""What they may multiply on a GPU: their results are int32."""
STORED = ("float16", *BYTES, *DTYPES)
"""What they may be stored in where a GPU's kernel sums up in more: float16 in float32."""

Kind = Callable[[str, str, Any, int], Any]


def canonical_arguments(operator: str, names: str, rank: int = 0, **kinds: Kind) -> Canonical:
    """What checks a template's arguments and gives them one form.

    Args:
        operator: the template's name, for errors.
        names: of the arguments, in order. One that is in no table here is an extent.
        rank: spatial dimensions.
        kinds: of arguments that are something else here than the table says.
    """
    found = [(name, {**_KINDS, **kinds}.get(name, _extent)) for name in names.split()]

    def canonical(args: tuple) -> tuple:
        asked = f"{operator}({', '.join(map(repr, args))})"
        return tuple(
            kind(asked, name, value, rank) for (name, kind), value in zip(found, args, strict=True)
        )

    return canonical


def whole(asked: str, name: str, value: Any, least: int) -> int:
    """An int of at least ``least``.

    Raises:
        ArgumentError: it is something else, e.g. a bool.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    raise ArgumentError(
        asked,
        f"{name} is {value!r}; it must be an int, at least {least}",
        f"give {name} as {_meant(value, least)}",
    )


def flag(asked: str, name: str, value: Any) -> bool:
    """What says yes or no; 0 and 1 do, too.

    Raises:
        ArgumentError: it is something else, e.g. the dtype in its place.
    """
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise ArgumentError(
        asked,
        f"{name} is {value!r}; it must be True or False",
        "arguments are positional: see whether one before it is missing",
    )


def each(asked: str, name: str, value: Any, rank: int, least: int) -> tuple[int, ...]:
    """An int, or one a spatial dimension, as the latter.

    Raises:
        ArgumentError: another number of them, or one that is no int of at least ``least``.
    """
    items = tuple(value) if isinstance(value, tuple | list) else (value,) * rank
    if len(items) != rank:
        counts = "one" if rank == 1 else f"one, or {rank}"
        raise ArgumentError(asked, f"{name} has {len(items)} numbers", f"give {counts}")
    return tuple(whole(asked, name, item, least) for item in items)


def sides(asked: str, value: Any, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding in front and behind, an int each a spatial dimension.

    Raises:
        ArgumentError: as :func:`each`; twice as many numbers are right as well.
    """
    if isinstance(value, tuple | list) and len(value) == 2 * rank:
        both = each(asked, "padding", value, 2 * rank, 0)
        return both[:rank], both[rank:]
    if isinstance(value, tuple | list) and len(value) != rank:
        counts = f"one number, {rank}" if rank > 1 else "one number"
        raise ArgumentError(
            asked, f"padding has {len(value)} numbers", f"give {counts}, or {2 * rank}"
        )
    front = each(asked, "padding", value, rank, 0)
    return front, front


def _strides(asked: str, name: str, value: Any, rank: int) -> tuple[int, ...]:
    """Kind: a step from 1 on, one a spatial dimension."""
    return each(asked, name, value, rank, 1)


def padding_each(asked: str, name: str, value: Any, rank: int) -> tuple[int, ...]:
    """Kind: a number from 0 on, one a spatial dimension, the same on both sides of it."""
    return each(asked, name, value, rank, 0)


def _padding(asked: str, name: str, value: Any, rank: int) -> tuple[int, ...]:
    before, after = sides(asked, value, rank)
    return before if before == after else (*before, *after)


def _extent(asked: str, name: str, value: Any, rank: int) -> int:
    return whole(asked, name, value, 0)


def _count(asked: str, name: str, value: Any, rank: int) -> int:
    return whole(asked, name, value, 1)


def _flag(asked: str, name: str, value: Any, rank: int) -> bool:
    return flag(asked, name, value)


def stored_dtype(asked: str, name: str, value: Any, rank: int) -> str:
    """Kind: an element type of :data:`STORED`; a CPU's template must ask :func:`summed_dtype`."""
    return _one_of(STORED, asked, value)


def summed_dtype(asked: str, dtype: str) -> str:
    """An element type of :data:`DTYPES`: half precision loses digits as it is summed up.

    Raises:
        ArgumentError: it is another one.
    """
    return _one_of(DTYPES, asked, dtype)


def _dtype(asked: str, name: str, value: Any, rank: int) -> str:
    return summed_dtype(asked, value)


def _one_of(kinds: tuple[str, ...], asked: str, value: Any) -> str:
    kind = dt.check(value)
    if kind not in kinds:
        raise ArgumentError(
            asked,
            f"dtype {kind!r} is not one of {', '.join(DTYPES)}, which sums are kept in",
            "cast the data first (float16, int8 and uint8 are for GPUs, which sum them up in "
            "float32 and int32); a computation of te or topi, without a template, takes any",
        )
    return kind


def _steps(asked: str, name: str, value: Any, rank: int) -> tuple:
    return Epilogue.of(value).steps


def _meant(value: Any, least: int) -> str:
    """The int that was probably meant, or the least that can be."""
    try:
        near = int(value)
    except (TypeError, ValueError, OverflowError):
        return f"an int from {least} on"
    if isinstance(value, float) and value != near:
        return f"an int from {least} on"
    return str(near) if near >= least else f"{least} or more"


_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("KD", "KH", "KW", "groups", "multiplier", "block"), _count),
    **dict.fromkeys(("transpose_a", "transpose_b", "packed"), _flag),
    **dict.fromkeys(("strides", "dilation"), _strides),
    "padding": _padding,
    "dtype": _dtype,
    "epilogue": _steps,
}
