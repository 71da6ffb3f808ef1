"""The cost of a convolution's parts: steps of register tiles, copies, what the caches deliver.

In cycles of a core that starts two vector operations in each. The constants were fitted to
measured configs (``python benchmarks/cpu_kernels/conv_defaults.py`` draws and measures others), so
that the config that they like best is near the best that was measured: Zen's on Zen 4, those of
Intel's servers to 28 convolutions with 512 bits. They rank the configs of one convolution, and do
not predict times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, prod

from whet.compiler.target import Target
from whet.compiler.tir import dtype as dt
from whet.search_spaces.forms.conv_shape import ConvShape
from whet.search_spaces.rules.processors import Caches, is_intel_server
from whet.search_spaces.rules.threads import heaviest_share

_LINE, _PERIOD = 64, 4096  # bytes of a line; after which the sets of the first cache begin anew


_ZEN_CACHES = Caches(((28_000, 82.0), (700_000, 50.0), (16_000_000, 20.0), (inf, 9.0)))


@dataclass(frozen=True)
class Costs:
    """Cycles of the parts.

    Attributes:
        caches: of the core.
        wide: of a multiply-add of 64 bytes; one of 32 or fewer takes half a cycle.
        load_bound, load: of a load, alone and beside multiply-adds. latency: of a step's sums.
        loop: of a step's loop; run: to begin a row of a window. spill: of an address too many.
        spilled: of a step, where unrolled steps leave sums no registers.
        test: whether a row of a window meets the image.
        body: of an unrolled vector operation beyond those that a loop's body should have.
        tile, store, turned: to begin a tile; to store a vector, an element across rows.
        pixel: to find a pixel's address.
        split: of an unaligned vector's load. ragged: of a vector that is stored behind a mask.
        masked: of a row of a transposed tile that is stored behind a mask.
        hidden: the share of the lesser of work and transfers that the other does not hide.
        copy, gather, square: to copy a vector, an element from afar, one of a square.
        slide: to copy an element of a window that neighbouring pixels see, too.
        kept: of a number that an unrolled window has no register for.
        written: how much longer a copy takes to be written and read than to be read again.
        scatter: of a line whose set others fill. displaced: of a pixel whose line others displace.
        data, result, filters: of Winograd's transforms, a vector of one place.
        buffered: how much longer its own buffers take to be written and read than to be read again.
        stored: how much longer transformed weights take to be written than to be read.
        stage: to begin a product of Winograd's. fork: until the threads have begun and ended.
        torn: of a line that two threads write at a time. others: bytes a cycle of what another
            thread has just written, here and there.
    """

    caches: Caches = _ZEN_CACHES
    load_bound: float = 0.56
    wide: float = 0.84
    load: float = 0.051
    latency: float = 3.5
    loop: float = 0.68
    run: float = 1.9
    test: float = 10.0
    spill: float = 0.081
    spilled: float = 0.8
    body: float = 0.0046
    tile: float = 5.1
    store: float = 1.0
    turned: float = 0.61
    pixel: float = 0.95
    split: float = 0.21
    ragged: float = 2.8
    masked: float = 3.4
    hidden: float = 0.26
    copy: float = 2.4
    gather: float = 2.9
    slide: float = 0.42
    kept: float = 0.14
    square: float = 0.65
    written: float = 5.7
    scatter: float = 0.083
    displaced: float = 0.8
    data: float = 1.5
    result: float = 2.5
    filters: float = 3.5
    buffered: float = 2.7
    stored: float = 2.0
    stage: float = 6.1
    fork: float = 4_000.0
    torn: float = 100.0
    others: float = 1.5

    def moved(
        self,
        stays: float,
        tiles: int,
        block: int,
        passing: float,
        others: int,
        whole: float,
        cold: float = 0.0,
    ) -> float:
        """Cycles in which the caches deliver what two loops over tiles read.

        Args:
            stays: bytes of a tile of the outer loop, ``tiles`` of it, ``block`` at a time.
            passing: bytes of one of the ``others`` that a block meets.
            whole: bytes of all of those.
            cold: bytes of all that no cache holds before the call.
        """
        block = min(block, tiles)
        outer = -(-tiles // block)
        total = outer * (others - 1) * block * stays / self.caches.rate(block * stays + passing)
        total += (outer - 1) * others * passing / self.caches.rate(whole)
        once = tiles * stays + whole
        return total + (once - cold) / self.caches.rate(once) + cold / self.caches.rate(inf)


ZEN = Costs()
INTEL_SERVER = Costs(
    caches=Caches(((30_000, 110.0), (1_240_000, 42.0), (100_000_000, 8.0), (inf, 5.0))),
    wide=0.5,
    load=0.125,
    latency=5.7,
    spilled=0.36,
    hidden=0.3,
    square=0.27,
    written=3.6,
    displaced=0.449,
    buffered=2.2,
    result=3.6,
)


def costs_of(target: Target) -> Costs:
    """The costs of the parts of a convolution on a target."""
    return INTEL_SERVER if is_intel_server(target) else ZEN


@dataclass(frozen=True)
class Work:
    """A convolution as its estimates see it.

    Attributes:
        shape: the convolution. lanes: elements in a vector.
        ahead: whether the weights are packed ahead of the calls.
        registers: for vectors. threads: that share the loops. costs: of its parts.
    """

    shape: ConvShape
    lanes: int
    ahead: bool
    registers: int = 16
    threads: int = 1
    costs: Costs = ZEN

    @cached_property
    def size(self) -> int:
        """Bytes of an element."""
        return dt.itemsize(self.shape.dtype)

    @cached_property
    def pixels(self) -> int:
        """Of the result, of one image."""
        return prod(self.shape.out)

    @cached_property
    def depth(self) -> int:
        """Steps of one sum."""
        return self.shape.ci_group * prod(self.shape.window)

    @cached_property
    def image(self) -> int:
        """Bytes of the padded images."""
        return self.shape.batch * self.shape.ci * prod(self.shape.padded) * self.size

    @cached_property
    def result(self) -> int:
        """Bytes of the result."""
        return self.shape.batch * self.shape.co * self.pixels * self.size

    @cached_property
    def weights(self) -> int:
        """Bytes of the weights."""
        return self.shape.co * self.depth * self.size

    @property
    def cold(self) -> int:
        """Bytes of the weights that come from memory: a model's, behind those of its others."""
        return self.weights if self.ahead else 0

    def begun(self, panels: float, every: float = 0.0) -> float:
        """Cycles in which the weights that are used together come from memory.

        Args:
            panels: bytes of those that are; the next ones come while they are at work, if the
                second cache holds both.
            every: bytes of all; 0: of the weights as they are.
        """
        caches = self.costs.caches
        waits = panels if 2 * panels <= caches.second else every or self.weights
        return waits / caches.rate(inf) if self.ahead else 0.0

    def step(self, m: int, v: int, unrolled: int = 1) -> float:
        """Cycles of a step of ``m`` numbers by ``v`` vectors, loops of so many steps included."""
        c = self.costs
        width = self.lanes * self.size
        each = c.wide if width >= 64 else 0.5
        shuffled = 0.0
        if width <= 16 and self.registers <= 16:  # SSE: separate additions, and no broadcasts
            each, shuffled = 1.0, m / 2
        bound = max(m * v * each + shuffled, c.load_bound * (m + v), c.latency)
        if unrolled > 1 and self.registers > 16 and (m + 1) * v >= self.registers - 2:
            bound *= 1.0 + c.spilled  # LLVM loads the second step's vectors before the first's end
        return bound + c.load * (m + v) + c.loop / unrolled + c.body * m * v * unrolled

    def seen(self, *tile: int, lines: bool = False) -> float:
        """Bytes of the image that the windows of a tile of pixels cover.

        Args:
            lines: count the lines that hold them, row by row.
        """
        shape, whole = self.shape, (1,) * (len(self.shape.out) - len(tile))
        reach = [
            min((t - 1) * s + r, t * k)
            for t, s, r, k in zip((*whole, *tile), shape.strides, shape.reach, shape.window)
        ]
        row = reach[-1] * self.size + (_LINE * 3 // 4 if lines else 0)
        return prod(reach[:-1]) * row * shape.ci_group

    def packed(self, width: int, near: bool, run: int = 0) -> float:
        """Cycles of packing the weights in panels.

        Args:
            width: channels of a panel. near: whether channels of a panel lie side by side.
            run: steps of a sum whose weights do.
        """
        if self.ahead:
            return 0.0
        c, many = self.costs, self.shape.co * self.depth
        squares = min(width, run, self.lanes) >= 4 and self.shape.co % width == 0
        each = c.copy / min(self.lanes, width) if near else c.square if squares else c.gather
        cycles = many * (each + c.written * self.size / c.caches.rate(2 * self.weights))
        return self.shared(cycles, -(-self.shape.co // width))

    def squares(self, many: float, *sides: int) -> float:
        """Cycles of a transposed copy of so many elements, of extents ``sides`` across."""
        c, size = self.costs, self.size
        each = c.square if min(*sides, self.lanes) >= 4 else c.gather
        cycles = many * (each + c.written * size / c.caches.rate(2 * many * size))
        return self.shared(cycles, int(many) // 16)

    def padded(self) -> float:
        """Cycles of a copy of the images in lines."""
        c, vectors = self.costs, self.image / self.size / self.lanes
        cycles = vectors * c.copy + c.written * self.image / c.caches.rate(2 * self.image)
        return self.shared(cycles, self.shape.batch * self.shape.padded[0])

    def picked(self) -> float:
        """Cycles of a copy of the pixels that a strided 1x1 window meets, in whole vectors."""
        c, s = self.costs, self.shape
        rows = s.batch * s.ci * prod(s.out[:-1])
        many = rows * s.out[-1]
        read = min(many * s.strides[-1], rows * s.image[-1]) * self.size
        cycles = rows * -(-s.out[-1] // self.lanes) * c.copy * s.strides[-1]
        made = many * self.size
        cycles += read / c.caches.rate(self.image) + c.written * made / c.caches.rate(2 * made)
        return self.shared(cycles, rows)

    def shared(self, cycles: float, trips: int, block: int = 1) -> float:
        """Cycles of a loop that the threads share, of so many trips; one that they must begin.

        Args:
            cycles: on one core. trips: of the loop; even shares of them are a thread's.
            block: so many trips are not shared out; the last block may have fewer.
        """
        if self.threads < 2 or cycles <= 0.0:
            return cycles
        block = max(1, min(block, trips))
        blocks = -(-trips // block)
        last = (trips - (blocks - 1) * block) / block
        return cycles * heaviest_share(blocks, self.threads, last=last) + self.costs.fork

    def remote(self, read: float, rows: float = 0.0, row: int = _LINE) -> float:
        """Cycles of a thread for what others have in their caches.

        Args:
            read: bytes that it reads, and all threads have made together.
            rows: of the result, each of which threads write parts of. row: bytes of one.
        """
        if self.threads < 2:
            return 0.0
        torn = self.costs.torn * rows if row % _LINE else 0.0
        return read * (1 - 1 / self.threads) / self.costs.others + torn

    def total(self, work: float, moved: float) -> float:
        """Work and transfers at the same time."""
        return max(work, moved) + self.costs.hidden * min(work, moved)


def crowded(stride: int, lines: float) -> float:
    """The share of lines, a stride apart, for which the sets of the first cache have no room."""
    sets = _PERIOD // _LINE if stride % _LINE else max(1, _PERIOD // min(_PERIOD, _lowest(stride)))
    return max(0.0, 1.0 - sets * 8 / max(lines, 1.0))


def _lowest(stride: int) -> int:
    """The largest power of two that divides a number."""
    return stride & -stride
