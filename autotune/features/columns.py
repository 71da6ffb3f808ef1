"""The columns: one row of fixed length for every program, whatever it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whet.autotune.features.batch import Batch, Owners, innermost, trips
from whet.autotune.features.counts import Counts, log, program_columns
from whet.autotune.features.estimate import Estimate
from whet.autotune.features.gpu_columns import GPU_PROGRAM, gpu_columns
from whet.autotune.features.loops.arithmetic import KINDS
from whet.autotune.features.loops.nests import (
    BLOCK,
    PARALLEL,
    SERIAL,
    THREAD,
    UNROLLED,
    VECTORIZED,
)
from whet.autotune.features.loops.program import OUTPUT, PART, WHOLE
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
"""The columns for a processor. Sizes, counts and times are logarithms to base 2."""


def columns(b: Batch, target: Target) -> np.ndarray:
    """The rows of a batch, float32 of shape (b.n, len(NAMES))."""
    if target.kind.row.has_threads:  # only the program as a whole has columns
        rows = np.zeros((b.n, len(NAMES)), np.float32)
        rows[:, : len(GPU_PROGRAM)] = gpu_columns(b, target)
        return rows
    c = Counts(b, target.vector_bytes, vector_registers(target))
    e = Estimate(b, c, int(target.attrs.get("num_threads", 1)))
    per_statement, per_access = _statements(b, c, e), _accesses(b, c)
    first = _heaviest(b.owners, e.cycles, STATEMENTS)
    mine = first[:, 0][b.candidate[b.statement]] == b.statement
    weight = np.where(mine, c.traffic[:, 0] + c.executed + 1.0, 0.0)
    accesses = _heaviest(Owners(b.candidate[b.statement], b.n), weight, ACCESSES)
    accesses[(accesses >= 0) & ~mine[accesses]] = -1
    parts = [_table(_program(b, c, e), PROGRAM)]
    parts += [_picked(_table(per_statement, STATEMENT), first[:, k]) for k in range(STATEMENTS)]
    parts += [_picked(_table(per_access, ACCESS), accesses[:, k]) for k in range(ACCESSES)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _table(values: dict[str, np.ndarray], names: tuple[str, ...]) -> np.ndarray:
    return np.stack([values[name] for name in names], axis=1)


def _picked(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows of a table; zeros for -1."""
    return np.where(rows[:, None] >= 0, table[rows], 0.0)


def _heaviest(owners: Owners, weight: np.ndarray, count: int) -> np.ndarray:
    """For each owner the numbers of its ``count`` heaviest rows, the first of equals first; -1."""
    # Weights that differ by rounding only must not change places.
    order = np.lexsort((-np.round(log(weight), 6), owners.of))
    begin = np.searchsorted(owners.of[order], np.arange(owners.n + 1))
    place = begin[:-1, None] + np.arange(count)
    there = place < begin[1:, None]
    return np.where(there, order[np.minimum(place, len(order) - 1)], -1)


def _program(b: Batch, c: Counts, e: Estimate) -> dict[str, np.ndarray]:
    total = b.owners.total
    work = c.runs * b.operations.sum(axis=1)
    flop = total(work)
    executed = c.executed * b.times
    kept = b.region.prod(axis=1) * b.itemsize
    several = b.extent > 1
    loads, apart = ~b.stores, (c.by_vector > 1) & ~b.gathers
    sums = {
        "cycles.compute": e.compute, "cycles.access": e.access, "cycles.traffic": e.traffic,
        "cycles.overhead": e.overhead,
        "flop.all": work, "flop.scalar": np.where(c.lanes > 1, 0.0, work),
        "loop.entries": c.loop_entries, "statements": np.ones(len(c.runs)),
        "kept.whole": np.where(b.kept == WHOLE, kept, 0.0),
        "kept.part": np.where(b.kept == PART, kept, 0.0),
        "loops": (b.own & several).sum(axis=1),
        "loops.vectorized": ((b.kind == VECTORIZED) & several).sum(axis=1),
        "loops.unrolled": ((b.kind == UNROLLED) & several).sum(axis=1),
    }  # fmt: skip
    accesses = {
        "loads": loads, "stores": b.stores, "loads.contiguous": loads & (c.by_vector == 1),
        "loads.broadcast": loads & (c.by_vector == 0), "loads.apart": loads & apart,
        "loads.gather": loads & b.gathers,
    }  # fmt: skip
    for name, chosen in accesses.items():
        sums[name] = c.per_statement(np.where(chosen, executed, 0.0))
    most = {
        "chunk": c.runs / c.shared, "held": c.held[:, 0],
        "threads": b.steps(PARALLEL) - 1,
        "grid": b.steps(BLOCK) - 1,
        "block": b.steps(THREAD) - 1,
    }  # fmt: skip
    out = {
        **program_columns(b, c),
        **{name: log(total(values)) for name, values in sums.items()},
        **{name: log(b.owners.most(values)) for name, values in most.items()},
        "estimate": np.log2(e.seconds),
        "loop.steps_per_flop": np.log2((total(c.loop_steps) + 1) / (flop + 1)),
        "spilt": total(e.cycles * (c.spilt & c.reducing)) / total(e.cycles),
        "masked": total(e.cycles * c.masked) / total(e.cycles),
    }
    for level, fetched in zip(_LEVELS, c.traffic.T):
        bytes_ = total(c.per_statement(fetched))
        out[f"traffic.{level}"] = log(bytes_)
        out[f"intensity.{level}"] = np.log2((flop + 1) / bytes_)
    return out


def _statements(b: Batch, c: Counts, e: Estimate) -> dict[str, np.ndarray]:
    s = np.arange(len(c.runs))
    depth = b.extent.shape[1]
    begin = c.block.sum(axis=1)  # unrolled and vectorised loops, from the inside
    serial = c.innermost
    steps = b.extent > 1
    order = np.argsort(steps, axis=1, kind="stable")  # loops of one step are none
    extent = np.take_along_axis(b.extent, order, axis=1)
    kind = np.where(b.reduces, 8, 0) + b.kind
    kind = np.where(extent > 1, np.take_along_axis(kind, order, axis=1), SERIAL)
    sizes = {
        "cycles.compute": e.compute, "cycles.access": e.access, "cycles.traffic": e.traffic,
        "cycles.overhead": e.overhead, "runs": c.runs, "flop": c.runs * b.operations.sum(axis=1),
        "body": c.body, "lanes": c.lanes, "vectors": c.vectors, "accumulators": c.accumulators,
        "loop.steps": c.loop_steps, "around": trips(~b.own, b.extent),
        "serial.extent": b.extent[s, serial],
        "held.body": c.held[s, depth - begin], "held.serial": c.held[s, serial],
        **{f"fits.{v}": c.runs / c.before[s, k] for v, k in zip(_LEVELS, c.fits.T)},
    }  # fmt: skip
    out = {
        **{name: log(values) for name, values in sizes.items()},
        "share": e.cycles / b.owners.total(e.cycles)[b.candidate],
        "wasted": np.log2(c.runs / b.needed.prod(axis=1)),
        "spilt": c.spilt, "chained": c.chained, "masked": c.masked, "reduces": c.reducing,
        "depth": steps.sum(axis=1), "serial.reduces": b.reduces[s, serial],
    }  # fmt: skip
    for k in range(INNERMOST):
        there = k < depth
        out[f"inner{k}.extent"] = log(extent[:, -1 - k]) if there else np.ones(len(s))
        out[f"inner{k}.kind"] = kind[:, -1 - k] if there else np.full(len(s), SERIAL)
    return out


def _accesses(b: Batch, c: Counts) -> dict[str, np.ndarray]:
    q, of = np.arange(len(b.statement)), b.statement
    steps = b.extent[of] > 1
    still = steps & ~c.moves
    again = still.any(axis=1)
    loop = innermost(still)
    unique = c.elements[:, 0] * b.bytes
    sizes = {
        "bytes": c.runs[of] * b.bytes, "unique": unique, "lines": c.lines[:, 0],
        "lines.serial": c.lines[q, c.innermost[of]], "executed": c.executed * b.times,
        "in_body": c.in_body, "stride.vector": c.by_vector,
        "stride.inner": c.flat[q, innermost(steps)],
        "reuse.bytes": np.where(again, c.held[of, loop + 1], 0.0),
        "reuse.steps": np.where(again, c.runs[of] / c.before[of, loop + 1], 0.0),
        **{f"traffic.{v}": fetched for v, fetched in zip(_LEVELS, c.traffic.T)},
    }  # fmt: skip
    return {
        **{name: log(values) for name, values in sizes.items()},
        "reuse.loop": np.where(again, 1.0 + b.reduces[of, loop], 0.0),
        "stores": b.stores, "role": np.where(b.role == OUTPUT, 1, b.role),
        "used": np.log2(unique / (c.lines[:, 0] * 64)),
    }  # fmt: skip
