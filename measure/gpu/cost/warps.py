"""Loop IR as sampled warps execute it: integers of the kernel as arrays over samples and lanes.

An index or a condition is evaluated for a few warps at once, in blocks and loop steps drawn at
random: how many lanes are active, which addresses they ask for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from whet.compiler.errors import MeasureError
from whet.compiler.passes.threads.overlap import OPERATIONS
from whet.compiler.tir.expr import (
    Broadcast,
    Call,
    Cast,
    Div,
    FloatImm,
    IntImm,
    Let,
    Mod,
    Not,
    PrimExpr,
    Ramp,
    Select,
    SizeVar,
    Var,
)

SAMPLES, LANES = 16, 32
SECTOR, LINE, WORD, BANKS = 32, 128, 4, 32
"""Bytes of a sector and a line of memory, and of a bank's word; banks of shared memory."""
TAGS = tuple(f"{what}.{axis}" for what in ("blockIdx", "threadIdx") for axis in "xyz")

_BINARY = OPERATIONS | {Div: np.floor_divide, Mod: np.remainder}
_CALLS: dict[str, Callable[..., Any]] = {
    "shift_left": np.left_shift, "shift_right": np.right_shift, "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "if_then_else": np.where,
    "abs": np.abs, "truncdiv": np.floor_divide, "truncmod": np.remainder,
    "likely": np.asarray, "tir.likely": np.asarray,
}  # fmt: skip


class Warps:
    """Sampled warps of one kernel, with the values of its variables in them.

    Args:
        extents: of blockIdx and threadIdx, by tag; 1 where there is none.
        values: of variables, the same in all warps.

    Attributes:
        values: variable -> int64 array that broadcasts to (samples, lanes, vector lanes).
        here: (samples, lanes, 1) whether the lane is a thread of the block.
        warps: of a block.
    """

    def __init__(self, extents: Mapping[str, int], values: Mapping[Var, Any]) -> None:
        self._random = np.random.default_rng(0)
        self.values = dict(values)
        spans = [extents.get(tag, 1) for tag in TAGS]
        threads = math.prod(spans[3:])
        self.warps = -(-threads // LANES)
        blocks = [self._random.integers(0, span, SAMPLES) for span in spans[:3]]
        for one in blocks:
            one[0] = 0
        # Evenly over a block's warps: often some of them fetch for all.
        warp = (
            np.arange(SAMPLES) * self.warps // SAMPLES
            if self.warps < SAMPLES
            else (self._random.permutation(self.warps)[:SAMPLES])
        )
        linear = warp[:, None] * LANES + np.arange(LANES)
        self.here = (linear < threads)[:, :, None]
        own = np.unravel_index(np.minimum(linear, threads - 1), spans[:2:-1])[::-1]
        self.ids = {tag: one[:, None, None] for tag, one in zip(TAGS, blocks)}
        self.ids |= {tag: one[:, :, None] for tag, one in zip(TAGS[3:], own)}

    def step(self, first: Any, count: Any) -> Any:
        """A step of a loop, drawn at random for each sample: the same for all lanes."""
        place = self._random.random((SAMPLES, 1, 1))
        return np.asarray(first) + np.floor(place * np.maximum(count, 1)).astype(np.int64)

    def anything(self, below: int) -> np.ndarray:
        """Numbers of lanes that nobody knows beforehand: data that was read."""
        return self._random.integers(0, max(below, 1), (SAMPLES, LANES, 1))

    def value(self, n: PrimExpr) -> Any:
        """An integer expression or a condition in the sampled warps.

        Raises:
            MeasureError: it depends on a size that is no number.
        """
        kind = type(n)
        if kind is IntImm or kind is FloatImm:
            return n.value  # type: ignore[attr-defined]
        if kind is Var or kind is SizeVar:
            return self._variable(n)  # type: ignore[arg-type]
        if kind in _BINARY:
            a, b = self.value(n.a), self.value(n.b)  # type: ignore[attr-defined]
            with np.errstate(divide="ignore", invalid="ignore"):
                return _BINARY[kind](a, b)
        return self._other(n)

    def value_at(self, n: PrimExpr, values: Mapping[Var, Any]) -> Any:
        """As :meth:`value`, with other values of some variables."""
        before = {var: self.values[var] for var in values}
        self.values.update(values)
        try:
            return self.value(n)
        finally:
            self.values.update(before)

    def _variable(self, n: Var) -> Any:
        if n not in self.values:
            raise MeasureError(
                "a cost from the model",
                f"the kernel depends on {n.name}, which is no number",
                "give the template sizes that are numbers",
            )
        return self.values[n]

    def _other(self, n: Any) -> Any:
        kind = type(n)
        if kind is Cast:
            value = self.value(n.value)
            return value if isinstance(value, int) else np.asarray(value).astype(np.int64)
        if kind is Ramp:
            return np.asarray(self.value(n.base)) + n.stride * np.arange(n.lanes)
        if kind is Broadcast:
            return self.value(n.value)
        if kind is Not:
            return np.logical_not(self.value(n.a))
        if kind is Select:
            return np.where(*map(self.value, n.parts))
        if kind is Let:
            self.values[n.var] = self.value(n.value)
            return self.value(n.body)
        if kind is Call and str(n.op) in _CALLS:
            return _CALLS[str(n.op)](*map(self.value, n.args))
        # What was read from memory: an index of a gather, a condition on data.
        return self.anything(1 << 12)


def full(value: Any, lanes: int = 1) -> np.ndarray:
    """A value of :class:`Warps` broadcast to all its lanes."""
    return np.broadcast_to(np.asarray(value), (SAMPLES, LANES, lanes))


def touched(address: np.ndarray, active: np.ndarray, size: int) -> np.ndarray:
    """Pieces of memory of ``size`` bytes that each sampled warp touches, (samples,).

    Args:
        address: (samples, lanes, n) of elements, in bytes; an element lies in one piece.
        active: broadcasts to ``address``.
        size: :data:`SECTOR` or :data:`LINE`.
    """
    keep = np.broadcast_to(active, address.shape)
    return _distinct(np.where(keep, address // size, -1).reshape(SAMPLES, -1))[0]


def wavefronts(address: np.ndarray, nbytes: int, active: np.ndarray) -> np.ndarray:
    """Shared-memory wavefronts of each sampled warp, (samples,): 1 without bank conflicts.

    Lanes that ask for one word share it; different words of one bank come one after the other. A
    warp is given one register a wavefront, and two where lanes that are one apart, or those that
    are two apart, ask for the same (NVIDIA's forum, topic 77228: sm_70 on). Lanes that are inactive
    ask for nothing.

    Args:
        address: (samples, lanes, n) of elements, in bytes from the start of the memory.
        nbytes: of an element.
        active: broadcasts to ``address``.
    """
    words = max(nbytes // WORD, 1)
    rows = address[..., None] // WORD + np.arange(words)
    keep = np.broadcast_to(active[..., None], rows.shape).reshape(SAMPLES, -1)
    rows = np.where(keep, rows.reshape(SAMPLES, -1), -1)
    count, ordered, new = _distinct(rows)
    bank = np.where(new, ordered % BANKS, BANKS) + (BANKS + 1) * np.arange(SAMPLES)[:, None]
    held = np.bincount(bank.ravel(), minlength=SAMPLES * (BANKS + 1))
    most = held.reshape(SAMPLES, BANKS + 1)[:, :BANKS].max(axis=1)
    asking: Any = np.broadcast_to(active, address.shape).any(axis=2)
    first = address[:, :, 0]
    alike = _in_pairs(first, asking, 1) | _in_pairs(first, asking, 2)
    least = groups(asking, address.shape[2] * nbytes, alike)
    return np.where(count > 0, np.maximum(most, least), 0)


def groups(asking: np.ndarray, nbytes: int, alike: np.ndarray | None = None) -> np.ndarray:
    """Passes that give each lane what it asks for, 128 bytes a pass, (samples,).

    Args:
        asking: (samples, lanes) which lanes are active. Neighbours are given theirs together; where
            none of such a group is active, it takes no pass.
        nbytes: that a lane asks for.
        alike: (samples,) whether lanes that ask for the same take half as many; None: nowhere.
    """
    count = min(1 << max(-(-nbytes // WORD) - 1, 0).bit_length(), LANES)
    each = asking.reshape(SAMPLES, count, -1).any(axis=2)
    if alike is None or count == 1:
        return each.sum(axis=1)
    pairs = each.reshape(SAMPLES, count // 2, 2).any(axis=2)
    return np.where(alike, pairs.sum(axis=1), each.sum(axis=1))


def cache_passes(lines: Any, sectors: Any, nbytes: Any) -> Any:
    """Wavefronts of the L1 cache that a warp needs for memory.

    A wavefront takes what is asked for of one line, up to four sectors, and gives every lane a
    register. NVIDIA names up to four lines a wavefront (forum, topic 49571); lines a power of two
    apart, as rows of matrices are, do not meet that: 31 cycles for 32 of them follow from 309
    GFLOP/s of a plain GEMM of 4096 whose lanes lie rows apart (S. Boehm, an RTX A6000).

    Args:
        lines, sectors: that the warp touches.
        nbytes: that a lane asks for at once; of lanes of which some ask for nothing, less
            (:func:`groups`).
    """
    given = np.maximum(nbytes / WORD, 1.0)
    return np.where(sectors > 0, np.maximum(np.maximum(lines, sectors / 4), given), 0.0)


def _in_pairs(address: np.ndarray, asking: np.ndarray, apart: int) -> np.ndarray:
    """True where all active lanes ``apart`` read the same address, (samples,)."""
    other = np.arange(LANES) ^ apart
    return ((address == address[:, other]) | ~asking | ~asking[:, other]).all(axis=1)


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The number of different values from 0 on in each row; sorted rows; the first of equals."""
    ordered = np.sort(rows, axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    new &= ordered >= 0
    return new.sum(axis=1), ordered, new
