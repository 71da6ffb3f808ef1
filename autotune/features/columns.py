"""The columns: one row of fixed length for every program, whatever it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.features.arithmetic import KINDS
from whet.autotune.features.batch import Batch
from whet.autotune.features.counts import CACHES, Counts
from whet.autotune.features.estimate import Estimate
from whet.autotune.features.gpu_columns import GPU_PROGRAM, gpu_columns
from whet.autotune.features.nests import (
    BLOCK,
    PARALLEL,
    SERIAL,
    THREAD,
    UNROLLED,
    VECTORIZED,
    VIRTUAL,
)
from whet.autotune.features.program import OUTPUT, PART, WHOLE
from whet.search_spaces.rules.vectors import vector_registers

if TYPE_CHECKING:
    from whet.compiler.target import Target

VERSION = 1
"""Rows of different versions mean different things."""
STATEMENTS = 2
"""The statements that take longest, by the estimate, have columns of their own."""
ACCESSES = 4
"""So have the accesses of the first of them that fetch most."""
INNERMOST = 4
"""Loops of such a statement, counted from the inside."""

_LEVELS = ("l1", "l2", "l3")
PROGRAM = (
    "estimate", "cycles.compute", "cycles.access", "cycles.traffic", "cycles.overhead",
    *(f"flop.{kind}" for kind in KINDS), "flop.all", "flop.scalar", "redundancy",
    "loads", "stores", "loads.contiguous", "loads.broadcast", "loads.apart", "loads.gather",
    "loop.steps", "loop.entries", "loop.steps_per_flop", "body", "spilt", "masked",
    "threads", "chunk", "grid", "block", "virtual", "unroll.pragma",
    "kept.whole", "kept.part", "statements", "loops", "loops.vectorized", "loops.unrolled",
    *(f"traffic.{level}" for level in _LEVELS), *(f"intensity.{level}" for level in _LEVELS),
    "held", "steps.wasted",
)  # fmt: skip
STATEMENT = (
    "share", "cycles.compute", "cycles.access", "cycles.traffic", "cycles.overhead", "runs",
    "wasted", "flop", "body", "lanes", "vectors", "accumulators", "spilt", "chained", "masked",
    "reduces", "depth", "around", "serial.extent", "serial.reduces", "loop.steps",
    *(f"inner{k}.extent" for k in range(INNERMOST)), *(f"inner{k}.kind" for k in range(INNERMOST)),
    "held.body", "held.serial", *(f"fits.{level}" for level in _LEVELS),
)  # fmt: skip
ACCESS = (
    "bytes", "unique", "lines", "lines.serial", *(f"traffic.{level}" for level in _LEVELS),
    "executed", "in_body", "stride.vector", "stride.inner", "reuse.loop", "reuse.bytes",
    "reuse.steps", "stores", "role", "used",
)  # fmt: skip
NAMES = (
    *PROGRAM,
    *(f"s{k}.{name}" for k in range(STATEMENTS) for name in STATEMENT),
    *(f"a{k}.{name}" for k in range(ACCESSES) for name in ACCESS),
)
"""What each column is, for a processor. Sizes, counts and times are logarithms to base 2."""


def columns(b: Batch, target: Target) -> np.ndarray:
    """The rows of a batch, float32 of shape (b.n, len(NAMES))."""
    if target.kind.row.has_threads:
        return _whole(gpu_columns(b, target), b.n)
    c = Counts(b, target.vector_bytes, vector_registers(target))
    e = Estimate(b, c, int(target.attrs.get("num_threads", 1)))
    per_statement, per_access = _statements(b, c, e), _accesses(b, c)
    first = _heaviest(b.candidate, e.cycles, b.n, STATEMENTS)
    mine = first[:, 0][b.candidate[b.statement]] == b.statement
    weight = np.where(mine, c.traffic[:, 0] + c.executed + 1.0, 0.0)
    accesses = _heaviest(b.candidate[b.statement], weight, b.n, ACCESSES)
    accesses[(accesses >= 0) & ~mine[accesses]] = -1
    parts = [_table(_program(b, c, e), PROGRAM)]
    parts += [_picked(_table(per_statement, STATEMENT), first[:, k]) for k in range(STATEMENTS)]
    parts += [_picked(_table(per_access, ACCESS), accesses[:, k]) for k in range(ACCESSES)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _whole(program: np.ndarray, n: int) -> np.ndarray:
    """Rows of a GPU's programs: of those only the program as a whole has columns."""
    rows = np.zeros((n, len(NAMES)), np.float32)
    rows[:, : program.shape[1]] = program
    return rows


def names_of(target: Target) -> tuple[str, ...]:
    """What each column is for a target; rows of different kinds of targets are never compared."""
    if not target.kind.row.has_threads:
        return NAMES
    return (*GPU_PROGRAM, *(f"unused{k}" for k in range(len(NAMES) - len(GPU_PROGRAM))))


def _table(found: dict[str, np.ndarray], names: tuple[str, ...]) -> np.ndarray:
    return np.stack([found[name] for name in names], axis=1)


def _picked(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows of a table; zeros for -1."""
    return np.where(rows[:, None] >= 0, table[rows], 0.0)


def _heaviest(owner: np.ndarray, weight: np.ndarray, n: int, count: int) -> np.ndarray:
    """For each owner the numbers of its ``count`` heaviest rows, the first of equals first; -1."""
    # Weights that differ by rounding only must not change places.
    order = np.lexsort((-_rounded(weight), owner))
    begin = np.searchsorted(owner[order], np.arange(n + 1))
    place = begin[:-1, None] + np.arange(count)
    there = place < begin[1:, None]
    return np.where(there, order[np.minimum(place, len(order) - 1)], -1)


def _rounded(x: np.ndarray) -> np.ndarray:
    return np.round(np.log2(1.0 + x), 6)


def _log(x: np.ndarray) -> np.ndarray:
    return np.log2(1.0 + x)


def _program(b: Batch, c: Counts, e: Estimate) -> dict[str, np.ndarray]:
    def total(of_statements: np.ndarray) -> np.ndarray:
        return np.bincount(b.candidate, of_statements, b.n)

    def most(of_statements: np.ndarray) -> np.ndarray:
        out = np.zeros(b.n)
        np.maximum.at(out, b.candidate, of_statements)
        return out

    def executed(chosen: np.ndarray) -> np.ndarray:
        return _log(total(c.per_statement(np.where(chosen, c.executed * b.times, 0.0))))

    work = b.operations.sum(axis=1)
    needed = b.needed.prod(axis=1)
    flop = total(c.runs * work)
    loads = ~b.stores.astype(bool)
    gathers = b.gathers.astype(bool)
    traffic = [total(c.per_statement(c.traffic[:, k])) for k in range(len(CACHES))]
    kept = b.region.prod(axis=1) * b.itemsize
    out = {
        "estimate": np.log2(e.seconds),
        "cycles.compute": _log(total(e.compute)), "cycles.access": _log(total(e.access)),
        "cycles.traffic": _log(total(e.traffic)), "cycles.overhead": _log(total(e.overhead)),
        "flop.all": _log(flop),
        "flop.scalar": _log(total(np.where(c.lanes > 1, 0.0, c.runs * work))),
        "redundancy": np.log2((flop + 1) / (total(needed * work) + 1)),
        "loads": executed(loads), "stores": executed(~loads),
        "loads.contiguous": executed(loads & (c.by_vector == 1)),
        "loads.broadcast": executed(loads & (c.by_vector == 0)),
        "loads.apart": executed(loads & (c.by_vector > 1) & ~gathers),
        "loads.gather": executed(loads & gathers),
        "loop.steps": _log(total(c.loop_steps)), "loop.entries": _log(total(c.loop_entries)),
        "loop.steps_per_flop": np.log2((total(c.loop_steps) + 1) / (flop + 1)),
        "body": _log(most(c.body)),
        "spilt": total(e.cycles * (c.spilt & c.reducing)) / total(e.cycles),
        "masked": total(e.cycles * c.masked) / total(e.cycles),
        "chunk": _log(most(c.runs / c.shared)),
        "unroll.pragma": _log(most(b.unroll)),
        "kept.whole": _log(total(np.where(b.kept == WHOLE, kept, 0.0))),
        "kept.part": _log(total(np.where(b.kept == PART, kept, 0.0))),
        "statements": _log(total(np.ones(len(c.runs)))),
        "loops": _log(total((b.own.astype(bool) & (b.extent > 1)).sum(axis=1))),
        "loops.vectorized": _log(total(((b.kind == VECTORIZED) & (b.extent > 1)).sum(axis=1))),
        "loops.unrolled": _log(total(((b.kind == UNROLLED) & (b.extent > 1)).sum(axis=1))),
        "held": _log(most(c.held[:, 0])),
        "steps.wasted": np.log2(total(c.runs) / total(needed)),
    }  # fmt: skip
    for k, operation in enumerate(KINDS):
        out[f"flop.{operation}"] = _log(total(c.runs * b.operations[:, k]))
    for name, kind in (
        ("threads", PARALLEL), ("grid", BLOCK), ("block", THREAD), ("virtual", VIRTUAL)
    ):  # fmt: skip
        out[name] = _log(most(np.where(b.kind == kind, b.extent, 1.0).prod(axis=1) - 1))
    for level, bytes_ in zip(_LEVELS, traffic):
        out[f"traffic.{level}"] = _log(bytes_)
        out[f"intensity.{level}"] = np.log2((flop + 1) / bytes_)
    return out


def _statements(b: Batch, c: Counts, e: Estimate) -> dict[str, np.ndarray]:
    s = np.arange(len(c.runs))
    depth = b.extent.shape[1]
    needed = b.needed.prod(axis=1)
    begin = c.block.sum(axis=1)  # loops written out, from the inside
    serial = c.innermost
    steps = b.extent > 1
    order = np.argsort(steps, axis=1, kind="stable")  # loops of one step are none
    extent = np.take_along_axis(b.extent, order, axis=1)
    kind = np.where(b.reduces.astype(bool), 8, 0) + b.kind
    kind = np.where(extent > 1, np.take_along_axis(kind, order, axis=1), SERIAL)
    out = {
        "share": e.cycles / np.bincount(b.candidate, e.cycles, b.n)[b.candidate],
        "cycles.compute": _log(e.compute), "cycles.access": _log(e.access),
        "cycles.traffic": _log(e.traffic), "cycles.overhead": _log(e.overhead),
        "runs": _log(c.runs), "wasted": np.log2(c.runs / needed),
        "flop": _log(c.runs * b.operations.sum(axis=1)), "body": _log(c.body),
        "lanes": _log(c.lanes), "vectors": _log(c.vectors), "accumulators": _log(c.accumulators),
        "spilt": c.spilt, "chained": c.chained, "masked": c.masked, "reduces": c.reducing,
        "depth": steps.sum(axis=1), "loop.steps": _log(c.loop_steps),
        "around": _log(np.where(b.own.astype(bool), 1.0, b.extent).prod(axis=1)),
        "serial.extent": _log(b.extent[s, serial]), "serial.reduces": b.reduces[s, serial],
        "held.body": _log(c.held[s, depth - begin]), "held.serial": _log(c.held[s, serial]),
    }  # fmt: skip
    for k in range(INNERMOST):
        there = depth - 1 - k >= 0
        out[f"inner{k}.extent"] = _log(extent[:, -1 - k]) if there else np.ones(len(s))
        out[f"inner{k}.kind"] = kind[:, -1 - k] if there else np.full(len(s), SERIAL)
    for k, level in enumerate(_LEVELS):
        out[f"fits.{level}"] = _log(c.runs / c.before[s, c.fits[:, k]])
    return out


def _accesses(b: Batch, c: Counts) -> dict[str, np.ndarray]:
    q, of = np.arange(len(b.statement)), b.statement
    depth = b.extent.shape[1]
    steps = b.extent[of] > 1
    innermost = depth - 1 - steps[:, ::-1].argmax(axis=1)
    still = steps & ~c.moves
    again = still.any(axis=1)
    loop = np.where(again, depth - 1 - still[:, ::-1].argmax(axis=1), depth - 1)
    inside = np.minimum(loop + 1, depth)
    serial = c.innermost[of]
    out = {
        "bytes": _log(c.runs[of] * b.bytes), "unique": _log(c.elements[:, 0] * b.bytes),
        "lines": _log(c.lines[:, 0]), "lines.serial": _log(c.lines[q, serial]),
        "executed": _log(c.executed * b.times), "in_body": _log(c.in_body),
        "stride.vector": _log(c.by_vector), "stride.inner": _log(c.flat[q, innermost]),
        "reuse.loop": np.where(again, 1.0 + b.reduces[of, loop], 0.0),
        "reuse.bytes": np.where(again, _log(c.held[of, inside]), 0.0),
        "reuse.steps": np.where(again, _log(c.runs[of] / c.before[of, inside]), 0.0),
        "stores": b.stores, "role": np.where(b.role == OUTPUT, 1, b.role),
        "used": np.log2(c.elements[:, 0] * b.bytes / (c.lines[:, 0] * 64)),
    }  # fmt: skip
    for k, level in enumerate(_LEVELS):
        out[f"traffic.{level}"] = _log(c.traffic[:, k])
    return out
