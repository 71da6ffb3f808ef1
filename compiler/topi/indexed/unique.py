"""Elements that are found: those that are not zero, and those that differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whet.compiler.errors import ArgumentError
from whet.compiler.te import Tensor, extern
from whet.compiler.tir import Buffer, Stmt, ir_builder
from whet.compiler.tir.ops.ops import any_of, cast, const, logical_not
from whet.compiler.topi.indexed.scatter import nest
from whet.compiler.topi.indexed.sorting import argsort
from whet.compiler.topi.shapes import static


def argwhere(output_shape: Tensor | Sequence[int], condition: Tensor) -> Tensor:
    """The places of the elements of ``condition`` that are not zero, in row-major order.

    Args:
        output_shape: (places, dimensions), or a tensor of that shape. Places that there are not
            are -1; those beyond are left out.
        condition: any tensor.

    Returns:
        int32.

    Raises:
        ArgumentError: the shape has no column for each dimension.
    """
    shape = output_shape.shape if isinstance(output_shape, Tensor) else output_shape
    request = f"argwhere({shape}, {condition})"
    many, rank = (static(d, request) for d in shape)
    if rank != condition.ndim:
        raise ArgumentError(request, f"{rank} columns for {condition.ndim} dimensions")

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        given, made = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        found = ib.allocate("int32", 1, name="found", scope="local")
        found[0] = 0

        def look(at: list[Any]) -> None:
            nothing = given[tuple(at)].equal(const(0, condition.dtype))
            with ib.if_scope(logical_not(any_of(nothing, found[0] >= many))):
                for k, i in enumerate(at):
                    made[found[0], k] = cast("int32", i)
                found[0] = found[0] + 1

        nest(ib, condition.shape, look)
        with ib.for_range(found[0], many, name="n") as n, ib.for_range(0, rank, name="k") as k:
            made[n, k] = const(-1)
        return ib.get()

    return extern((many, rank), [condition], body, "T_argwhere", "int32")


def unique(data: Tensor, is_sorted: bool = True, return_counts: bool = False) -> list[Tensor]:
    """The different elements of a vector, as numpy's and TensorFlow's.

    Args:
        data: (n,), numbers.
        is_sorted: in ascending order, not in that of their first places.
        return_counts: return how often each is there, too.

    Returns:
        The elements (n,), then 0; the first place of each (n,), then n; for each element of
        ``data`` its place in the first (n,); how many there are (1,); with ``return_counts`` how
        often each is there (n,), then 0. All but the first are int32.

    Raises:
        ArgumentError: the data are no vector of at least one element.
    """
    request = f"unique({data})"
    n = static(data.shape[0], request) if data.ndim == 1 else 0
    if not n:
        raise ArgumentError(request, "give a vector with an element")
    order = argsort(data, dtype="int32")  # stable: of equal elements the first one comes first

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        ib = ir_builder.create()
        given, sorted_places = (ib.buffer_ptr(b) for b in ins)
        made, first, inverse, many, *often = (ib.buffer_ptr(b) for b in outs)
        same = ib.allocate("int32", n, name="same", scope="global")  # the first equal element
        last = ib.allocate("int32", 1, name="last", scope="local")
        many[0] = const(0)
        with ib.for_range(0, n, name="t") as t:
            made[t], first[t] = const(0, data.dtype), const(n)
            for counts in often:
                counts[t] = const(0)
        with ib.for_range(0, n, name="t") as t:
            place = ib.let("place", sorted_places[t])
            with ib.if_scope(any_of(t.equal(0), logical_not(given[place].equal(given[last[0]])))):
                last[0] = place
            same[place] = last[0]
        with ib.for_range(0, n, name="t") as t:
            place = ib.let("place", sorted_places[t] if is_sorted else t)
            with ib.if_scope(same[place].equal(place)):
                made[many[0]], first[many[0]] = given[place], place
                inverse[place] = many[0]
                many[0] = many[0] + 1
        with ib.for_range(0, n, name="t") as t:
            inverse[t] = inverse[same[t]]
            for counts in often:
                counts[inverse[t]] = counts[inverse[t]] + 1
        return ib.get()

    shapes = [(n,), (n,), (n,), (1,)] + [(n,)] * return_counts
    kinds = [data.dtype] + ["int32"] * (len(shapes) - 1)
    said = {"is_sorted": bool(is_sorted)}
    return list(extern(shapes, [data, order], body, "T_unique", kinds, attrs=said))
