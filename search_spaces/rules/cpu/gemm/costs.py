"""The costs of the parts of a GEMM by processor: the constants of its estimate.

In cycles of one core, fitted to drawn configs (`benchmarks/cpu_kernels/gemm_estimate.py`) so that
the config that the estimate likes best is near the best that was measured: Zen's to 36 GEMMs on
Zen 5 and then 40 on Zen 4, with 256 and 512 bits; those of Intel's servers to 96 with 512 bits,
and then to 36 and 12 packed ones, measured where a search had been, and to what became defaults.
What they know of few sets of a cache, clamped rows and B read again was set by hand for Zen.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from whet.compiler.target import Target
from whet.search_spaces.rules.processors import Caches, is_intel_server
from whet.search_spaces.rules.vectors import operation_bits, vector_registers

_ZEN_CACHES = Caches(((28_000, 140.0), (700_000, 30.0), (24_000_000, 27.0), (inf, 9.4)))


@dataclass(frozen=True)
class Costs:
    """Cycles of the parts of a GEMM.

    Attributes:
        caches: of the core.
        second_period, second_ways: bytes after which the sets of the second cache begin anew; its
            lines of a set. again_far: bytes a cycle of what the third one delivers in their place.
        back: the share that counts of what the inner loop over tiles comes back to, one tile later;
            an estimate without it was fitted on Zen.
        of_batch: operands come from the cache that holds a whole batch of them before a call, not
            those of one GEMM of it.
        hidden: the share of the lesser of work and transfers that the other does not hide.
        latency: of a sum. load_bound, load: of a load, alone and beside others. queues: whether it
            takes the more, the more of them there are in a cycle. share: of operations that loads
            do not hide.
        loop: of a loop's step. tile: to begin and end a tile. body: of an unrolled operation.
        store: of a vector, where none, one or both edges of the tiles are ragged.
        scattered: of an element of a vector that is stored across rows.
        segment: of a piece of a row of the result, where tiles go down many rows before they go
            along them, so that each is on a page of its own.
        masked: of a vector of B in place that may hang over its end.
        split: of a vector of B that lies across two lines, where rows are added up without tiles.
        clamped: of a row of A whose place is loaded.
        totals: of a sum whose lanes are added up by a transpose of as many.
        sums: of an accumulator that a block of K loads and stores.
        displaced, displaced_b: of a line whose set others fill: of A, of B in place.
        far: of a line of B in place whose neighbours in a column are far apart, by the cache that
            it comes from. near: of one that the next strips of A find in the second cache.
        late: the share of ``far`` that stays where lines are prefetched in time.
        along: the share of it that is spared where rows are read in order, at most ``streams``.
        fetch, again: to ask for a line; for one that is near by now. in_time: how many cycles
            before a line is needed it is to be asked for.
        strided, strided_far: bytes a cycle of rows of A in place, near and far.
        square, rest, element, vector: to copy an element turned round: in squares, in squares that
            leave a rest, one by one; to copy a vector.
        turned_far: of an element turned round that leaves the second cache before it is read.
        turned_read: the share of the transfer of what is turned round that a copy waits for; an
            estimate without it was fitted on Zen.
        written: how much longer a copy takes to be written and read than to be read again.
        part_sums: bytes of a part's sums that move for each: it is written, and read again.
        fork: until threads have begun and ended. torn: of a line that two of them write at a time.
        others: bytes a cycle of panels that another thread has made.
        page: of a row of B on a page of its own, for each block that reads of it.
    """

    caches: Caches = _ZEN_CACHES
    second_period: int = 131_072
    second_ways: int = 8
    again_far: float = 4.0
    back: float = 0.0
    of_batch: bool = False
    hidden: float = 0.3
    latency: float = 4.4
    load_bound: float = 0.76
    load: float = 0.08
    queues: bool = False
    share: float = 0.05
    loop: float = 0.74
    tile: float = 7.7
    body: float = 0.002
    store: tuple[float, float, float] = (1.3, 1.9, 3.0)
    scattered: float = 2.0
    segment: float = 0.0
    masked: float = 0.65
    split: float = 0.0
    clamped: float = 0.4
    totals: float = 3.0
    sums: float = 4.0
    displaced: float = 1.5
    displaced_b: float = 5.0
    far: tuple[float, float, float, float] = (0.5, 1.4, 6.0, 15.0)
    near: float = 1.0
    late: tuple[float, float, float, float] = (0.3, 0.3, 0.1, 0.6)
    along: float = 0.85
    streams: int = 16
    fetch: float = 0.22
    again: float = 1.2
    in_time: float = 220.0
    strided: float = 5.3
    strided_far: float = 7.0
    square: float = 0.34
    rest: float = 0.55
    element: float = 2.0
    vector: float = 2.7
    turned_far: float = 0.7
    turned_read: float = 0.0
    written: float = 4.0
    part_sums: float = 2.0
    fork: float = 4000.0
    torn: float = 100.0
    others: float = 1.5
    page: float = 16.0

    def overlapped(self, work: float, moved: float) -> float:
        """Cycles of work and of transfers of which the greater hides most of the lesser."""
        return max(work, moved) + self.hidden * min(work, moved)


ZEN = Costs()
INTEL_SERVER = Costs(
    caches=Caches(((19800, 236.0), (900000, 43.2), (25000000, 7.65), (inf, 5))),
    again_far=1.2,
    back=1.0,
    of_batch=True,
    hidden=0.37,
    load_bound=0.468,
    load=0.3,
    queues=True,
    tile=7.96,
    scattered=8.0,
    segment=20.0,
    masked=1.21,
    split=1.0,
    sums=6.0,
    displaced=0.449,
    displaced_b=2.1,
    far=(0.499, 1.4, 30.0, 60.0),
    near=2.0,
    late=(0.3, 0.3, 0.1, 0.15),
    along=0.968,
    streams=32,
    again=0.518,
    in_time=102.0,
    strided=7.33,
    strided_far=7.35,
    square=0.5,
    rest=0.63,
    element=3.2,
    vector=3.02,
    turned_read=1.0,
    page=100.0,
)


@dataclass(frozen=True)
class Processor:
    """A core as the estimate sees it.

    Attributes:
        at_once: bits of the widest vectors of which two are multiplied in a cycle.
        registers: for vectors.
        costs: of the parts.
    """

    at_once: int
    registers: int
    costs: Costs


def costs_of(target: Target) -> Costs:
    """The costs of the parts of a GEMM on a target."""
    return INTEL_SERVER if is_intel_server(target) else ZEN


def processor_of(target: Target) -> Processor:
    """The core that a target's code runs on."""
    return Processor(operation_bits(target), vector_registers(target), costs_of(target))
