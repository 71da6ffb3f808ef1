"""A launch plan made ready for arguments of one layout: what is left for a call is quick.

A call has its *slots* in a list: addresses and numbers in the order of the function's parameters,
then numbers that follow from the layout, then the addresses of temporaries. A launch picks its
arguments out of them and packs them as C lays out a struct, which is how they lie in a kernel's
parameter space.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from whet.compiler.abi.extent import Extent, Symbol, evaluate, symbols_of
from whet.compiler.abi.launch import Launch, LaunchPlan, extent_of
from whet.compiler.abi.layout import numpy_dtype
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.errors import ArtifactError, KernelError
from whet.compiler.runtime.arrays.foreign import Where, stream_of
from whet.compiler.runtime.gpu.arguments import LETTERS, as_slot
from whet.compiler.runtime.gpu.driver.interface import Context, Kernel, Prepared, Stream
from whet.compiler.runtime.gpu.driver.properties import Extents
from whet.compiler.runtime.gpu.driver.streams import current_handle, current_stream
from whet.compiler.runtime.gpu.driver.workspace import workspace_of

Pick = Callable[[list[Any]], Sequence[Any]]
Ready = tuple[Kernel, Extents, Extents, Callable[..., bytes], Pick, int]


class ReadyPlan:
    """A plan's launches on one device, for arguments of one layout.

    Args:
        plan: the plan.
        signature: of its function.
        kernels: what the kernels take, by name.
        load: gives a kernel by its name.
        context: of the device.
        values: the numbers that symbols and whole scalars have.

    Attributes:
        context: of the device.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        signature: KernelSignature,
        kernels: Mapping[str, KernelSignature],
        load: Callable[[str], Kernel],
        context: Context,
        values: Mapping[str, int],
    ) -> None:
        self._plan, self._values, self._load = plan, values, load
        self.context = context
        self._launch = context.launch
        self._places = {p.name: i for i, p in enumerate(signature.params)}
        self._fixed: list[Any] = []
        self._sizes = [
            math.prod(map(self._number, t.shape)) * numpy_dtype(t.dtype).itemsize
            for t in plan.temporaries
        ]
        picked = [self._picked(x, kernels[x.kernel]) for x in plan.launches]
        # Temporaries stand behind all numbers, however many of these there are.
        first = len(signature.params) + len(self._fixed)
        self._launches = [
            self._ready(launch, kernels[launch.kernel], [first - 1 - k if k < 0 else k for k in at])
            for launch, at in zip(plan.launches, picked)
            if all(map(self._number, (*launch.grid, *launch.block)))
        ]

    def run(self, slots: list[Any]) -> None:
        """Put the launches into the current stream.

        Args:
            slots: addresses and numbers in the order of the parameters; this list is used up.
        """
        stream = current_stream(self.context)
        slots += self._fixed
        if self._sizes:
            self._run_between(slots, stream)
        else:
            self._put(slots, stream)

    @property
    def temporary_bytes(self) -> int:
        """Bytes of all temporaries, each at an aligned place."""
        return sum(map(_aligned, self._sizes))

    def prepared(self, slots: list[Any], temporaries: int) -> list[Prepared]:
        """The launches themselves, for a graph.

        Args:
            slots: as for :meth:`run`.
            temporaries: the address of :attr:`temporary_bytes` of memory.
        """
        slots += self._fixed
        for nbytes in self._sizes:
            slots.append(temporaries)
            temporaries += _aligned(nbytes)
        return [
            (kernel, grid, block, pack(*pick(slots)), shared)
            for kernel, grid, block, pack, pick, shared in self._launches
        ]

    def _put(self, slots: list[Any], stream: Stream | None) -> None:
        if stream is not None and len(self._launches) > 1:
            with stream.together() as inside:
                self._launch_all(slots, inside)
        else:
            self._launch_all(slots, stream)

    def _launch_all(self, slots: list[Any], stream: Stream | None) -> None:
        launch = self._launch
        for kernel, grid, block, pack, pick, shared in self._launches:
            launch(kernel, grid, block, pack(*pick(slots)), shared, stream)

    def _run_between(self, slots: list[Any], stream: Stream | None) -> None:
        """As :meth:`run`, with temporaries."""
        workspace = workspace_of(self.context)
        taken: list[tuple[int, int]] = []
        try:
            for nbytes in self._sizes:
                taken.append((workspace.take(nbytes, stream), nbytes))
            slots += [address for address, _ in taken]
            self._put(slots, stream)
        finally:
            for address, nbytes in taken:
                workspace.give_back(address, nbytes, stream)

    def _number(self, extent: Extent) -> int:
        return evaluate(extent, self._values)

    def _picked(self, launch: Launch, kernel: KernelSignature) -> list[int]:
        """The slots of a launch's arguments; -1 - k for temporary k."""
        temporaries = {t.name: k for k, t in enumerate(self._plan.temporaries)}
        if len(launch.arguments) != len(kernel.params):
            raise ArtifactError(
                f"launching {launch.kernel}",
                f"the plan has {len(launch.arguments)} arguments, it takes {len(kernel.params)}",
            )
        found: list[int] = []
        for p, argument in zip(kernel.params, launch.arguments):
            if isinstance(argument, str) and argument in self._places:
                found.append(self._places[argument])
            elif isinstance(p, BufferParam):
                found.append(-1 - temporaries[str(argument)])
            else:
                found.append(len(self._places) + len(self._fixed))
                self._fixed.append(as_slot(p.dtype, self._number(extent_of(argument))))
        return found

    def _ready(self, launch: Launch, kernel: KernelSignature, at: Sequence[int]) -> Ready:
        letters = [LETTERS[p.dtype] if isinstance(p, ScalarParam) else "P" for p in kernel.params]
        pack = struct.Struct("@" + "".join(letters)).pack
        grid, block = _three(self, launch.grid), _three(self, launch.block)
        shared = self._number(launch.shared_bytes)
        self._check(launch, grid, block, shared)
        return self._load(launch.kernel), grid, block, pack, _pick(at), shared

    def _check(self, launch: Launch, grid: Extents, block: Extents, shared: int) -> None:
        """Refuse what the device cannot do, by name: its driver says 'invalid argument'."""
        limits, threads = self.context.properties, math.prod(block)
        for what, has, most in (
            ("threads in a block", threads, limits.max_threads),
            ("bytes of shared memory", shared, limits.shared_bytes_optin),
            *(("threads along " + a, n, m) for a, n, m in zip("xyz", block, limits.max_block)),
            *(("blocks along " + a, n, m) for a, n, m in zip("xyz", grid, limits.max_grid)),
        ):
            if has > most:
                raise KernelError(
                    f"launching {launch.kernel} on {limits.name}, grid {grid}, block {block}",
                    f"it has {has} {what}, the device can have {most}",
                    f"build it for this device: -arch={limits.arch}",
                )


def numbers_that_matter(plan: LaunchPlan, arrays: Collection[str]) -> set[str]:
    """The names in a plan's extents and expressions: what they stand for decides its launches.

    Args:
        plan: of a function.
        arrays: the names of the arrays that it takes.
    """
    extents: list[Extent] = [n for t in plan.temporaries for n in t.shape]
    arrays = {*arrays, *(t.name for t in plan.temporaries)}  # of any name
    for x in plan.launches:
        extents += [*x.grid, *x.block, x.shared_bytes]
        given = [extent_of(a) for a in x.arguments if a not in arrays]
        extents += [n for n in given if not isinstance(n, Symbol)]
    return set().union(*map(symbols_of, extents))


def _aligned(nbytes: int) -> int:
    """Bytes up to a place that is aligned as all memory of a device."""
    return -(-nbytes // 256) * 256


def _three(plan: ReadyPlan, extents: tuple[Extent, Extent, Extent]) -> Extents:
    x, y, z = map(plan._number, extents)
    return x, y, z


def _pick(at: Sequence[int]) -> Pick:
    if len(at) > 1:
        return operator.itemgetter(*at)
    return lambda slots: [slots[k] for k in at]


def run_in_order(ready: ReadyPlan, slots: list[Any], owners: Sequence[Where]) -> None:
    """Run a plan after the work of its arguments' owners, and before their later work.

    Args:
        ready: the plan.
        slots: as for :meth:`ReadyPlan.run`.
        owners: where they work.
    """
    context = ready.context
    mine = current_handle(context)
    streams = {stream_of(where) for where in set(owners)} - {0, mine}
    for stream in streams:
        context.order(stream, mine)
    ready.run(slots)
    for stream in streams:
        context.order(mine, stream)
