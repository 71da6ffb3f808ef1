"""Vectors whose lanes stand a small stride apart: whole-vector loads, taken apart in registers.

    A[ramp(2*i, 2, 8)]  ->  a = A[ramp(2*i, 1, 8)]; b = A[ramp(2*i + 7, 1, 8)]
                            shuffle(a, b, <0, 2, 4, 6, 9, 11, 13, 15>)

As many loads as the stride says cover what lies between the first lane and the last one. The last
load ends with the last lane, and overlaps the one before: nothing is read that lies outside of the
lanes, so that no proof is needed, nor a mask at the end of a buffer. A masked vector is masked
loads, each with the mask of its lanes where they stand, and nothing between them. A stride below
zero reads the same elements, in the other order. Lane by lane, the same takes a load and an
insertion for each.

Loads that two windows could share (``A[2*i]`` and ``A[2*i + 1]``), if it were proved that one more
element may be read, are not shared: from the L1 cache sums of three windows took 0.83 (stride 2)
to 0.6 (stride 4) of the time at 512 bits, but pools and depthwise convolutions, whose images come
from farther away, at most 6 % less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whet.compiler.codegen.llvm.text.writer import FunctionWriter

#: Lanes farther apart are read one by one: of each load only few lanes would be of use.
MOST = 4
# lane -> where it stands in a vector
Places = dict[int, int]


def in_registers(lanes: int, stride: int) -> bool:
    """True where whole-vector loads and shuffles are fewer than loads of single lanes."""
    return stride == -1 or (2 <= abs(stride) <= MOST and lanes >= 2 * abs(stride))


def loads_of(lanes: int, stride: int) -> list[tuple[int, Places]]:
    """The vectors to load: the first element's distance from lane 0, and the lanes in it.

    Args:
        lanes: of the vector, and of each load.
        stride: from lane to lane, in elements.
    """
    apart = abs(stride)
    end = (lanes - 1) * apart + 1 - lanes
    begins = [*range(0, end, lanes), end]
    order = range(lanes) if stride > 0 else range(lanes - 1, -1, -1)
    found: list[tuple[int, Places]] = []
    first = 0 if stride > 0 else (lanes - 1) * stride
    for begin in begins:
        taken = {lane for _, places in found for lane in places}
        places = {
            lane: k * apart - begin
            for k, lane in enumerate(order)
            if lane not in taken and k * apart - begin < lanes
        }
        found.append((first + begin, places))
    return found


def deinterleaved(
    out: FunctionWriter, kind: str, lanes: int, stride: int, load: Callable[[int, Places], str]
) -> str:
    """The vector whose lanes stand ``stride`` elements apart.

    Args:
        out: where the shuffles are written.
        kind: the vector's type, that of each load, too.
        lanes: of the vector.
        stride: from lane to lane, in elements.
        load: writes the load that begins so many elements behind lane 0 and has these lanes.
    """
    parts = [(load(begin, places), places) for begin, places in loads_of(lanes, stride)]
    while len(parts) > 1:
        pairs = [_merged(out, kind, lanes, *pair) for pair in zip(parts[::2], parts[1::2])]
        parts = pairs + parts[len(pairs) * 2 :]
    vector, places = parts[0]
    if all(lane == place for lane, place in places.items()):
        return vector
    return _shuffled(out, kind, vector, "poison", [places[lane] for lane in range(lanes)])


def spread(out: FunctionWriter, mask: str, lanes: int, places: Places) -> str:
    """The mask of a load: that of each lane where the lane stands, off everywhere else."""
    order = [lanes] * lanes
    for lane, place in places.items():
        order[place] = lane
    return _shuffled(out, f"<{lanes} x i1>", mask, "zeroinitializer", order)


def _merged(
    out: FunctionWriter, kind: str, lanes: int, a: tuple[str, Places], b: tuple[str, Places]
) -> tuple[str, Places]:
    """The lanes of two vectors in their places; those of neither are undefined."""
    order: list[int | None] = [None] * lanes
    for (_, places), first in ((a, 0), (b, lanes)):
        for lane, place in places.items():
            order[lane] = first + place
    both = _shuffled(out, kind, a[0], b[0], order)
    return both, {lane: lane for lane, place in enumerate(order) if place is not None}


def _shuffled(out: FunctionWriter, kind: str, a: str, b: str, order: Sequence[int | None]) -> str:
    picked = ", ".join("i32 poison" if k is None else f"i32 {k}" for k in order)
    mask = f"<{len(order)} x i32> <{picked}>"
    return out.pure(f"shufflevector {kind} {a}, {kind} {b}, {mask}", a, b)
