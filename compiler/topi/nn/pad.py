"""Padding: with a constant, and with elements of the tensor itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import te
from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, compute
from whet.compiler.tir import PrimExpr
from whet.compiler.tir.ops.ops import cast, const, if_then_else, minimum, negate, select
from whet.compiler.topi.shapes import nearest_inside, remainder, static
from whet.compiler.topi.tag import INJECTIVE


def pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    pad_value: float | PrimExpr = 0.0,
    name: str = "pad",
    attrs: dict[str, Any] | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """``data``, ``pad_before[d]`` elements in front of dimension ``d``, ``pad_after[d]`` behind it.

    Args:
        data: any tensor.
        pad_before, pad_after: one int >= 0 a dimension; the latter is the former unless given.
        pad_value: what the new elements are in mode ``"constant"``.
        name, attrs: of the operation.
        mode: numpy's ``"constant"``, ``"edge"`` (the nearest element), ``"reflect"`` (mirrored at
            the last element), ``"symmetric"`` (mirrored behind it), ``"wrap"`` (the other end).

    Raises:
        ArgumentError: numbers that do not fit the dimensions, or another mode.
    """
    before, after = pad_before, pad_before if pad_after is None else pad_after
    request = f"pad({data.name}, {list(before)}, {list(after)})"
    if len(before) != data.ndim or len(after) != data.ndim:
        raise ArgumentError(
            request, f"{data.name} has {data.ndim} dimensions: give as many numbers"
        )
    if min([*before, *after], default=0) < 0:
        raise ArgumentError(request, "padding must not be negative")
    shape = [d + (b + a) for d, b, a in zip(data.shape, before, after)]
    if mode != "constant":
        return _mirrored(data, tuple(before), tuple(after), mode, shape, name, attrs)
    if isinstance(pad_value, PrimExpr):
        value = cast(data.dtype, pad_value)
    else:
        value = const(pad_value, data.dtype)

    def element(*index: PrimExpr) -> PrimExpr:
        tests = []
        source = []
        for i, d, b, a in zip(index, data.shape, before, after):
            source.append(i - b if b else i)
            if b:
                tests.append(i >= b)
            if a:
                tests.append(i < d + b)
        inside = data(*source)
        if not tests:
            return inside
        return if_then_else(te.all(*tests), inside, value)

    return compute(shape, element, name, "injective,pad", attrs=attrs)


def _reflect(x: Any, n: Any) -> Any:
    back = select(x < 0, negate(x), x)
    return minimum(back, (n - 1) * 2 - back)


def _symmetric(x: Any, n: Any) -> Any:
    back = select(x < 0, const(-1) - x, x)
    return minimum(back, n * 2 - 1 - back)


# mode -> from a place outside to the one inside; and from an extent to the most that may be padded
_MODES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[int], int]]] = {
    "edge": (nearest_inside, lambda n: 2**31 if n else 0),
    "reflect": (_reflect, lambda n: max(n - 1, 0)),
    "symmetric": (_symmetric, lambda n: n),
    "wrap": (remainder, lambda n: 2**31 if n else 0),
}


def _mirrored(
    data: Tensor,
    before: tuple[int, ...],
    after: tuple[int, ...],
    mode: str,
    shape: Sequence[Any],
    name: str,
    attrs: dict[str, Any] | None,
) -> Tensor:
    request = f"pad({data.name}, {list(before)}, {list(after)}, mode={mode!r})"
    if mode not in _MODES:
        raise ArgumentError(
            request, "there is no such mode", f"modes: constant, {', '.join(_MODES)}"
        )
    inside, most = _MODES[mode]
    for k, (d, b, a) in enumerate(zip(data.shape, before, after)):
        n = static(d, request)
        if max(b, a) > most(n):
            raise ArgumentError(
                request,
                f"dimension {k} of {n} elements has no {max(b, a)} to repeat",
                f"at most {most(n)} here, or mode='constant'",
            )

    def element(*index: PrimExpr) -> PrimExpr:
        parts = zip(index, data.shape, before, after)
        return data(*[inside(i - b, d) if b or a else i for i, d, b, a in parts])

    return compute(shape, element, name, INJECTIVE, attrs=attrs)


def mirror_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """Padding that is mirrored, at the last element (``"REFLECT"``) or behind it (``"SYMMETRIC"``).

    Raises:
        ArgumentError: another mode, or more than there is to mirror.
    """
    if mode not in ("REFLECT", "SYMMETRIC"):
        raise ArgumentError(
            f"mirror_pad({data}, mode={mode!r})", "modes are 'REFLECT' and 'SYMMETRIC'"
        )
    return pad(data, pad_before, pad_after, name=name, mode=mode.lower())


def reflect_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    name: str = "ReflectPadInput",
) -> Tensor:
    """Padding that is mirrored at the last element, which is not repeated."""
    return pad(data, pad_before, pad_after, name=name, mode="reflect")


def replicate_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    name: str = "ReplicatePadInput",
) -> Tensor:
    """Padding that repeats the nearest element."""
    return pad(data, pad_before, pad_after, name=name, mode="edge")


def circular_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    name: str = "CircularPadInput",
) -> Tensor:
    """Padding with what stands at the other end."""
    return pad(data, pad_before, pad_after, name=name, mode="wrap")
