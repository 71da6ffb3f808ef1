"""A function whose kernels run on a device, which Python calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.abi.call_checks import check_unnamed, number, wrong
from whet.compiler.abi.extent import symbols_of
from whet.compiler.abi.launch import LaunchPlan
from whet.compiler.abi.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.errors import ArgumentError, KernelError
from whet.compiler.runtime.arrays.device_array import DeviceArray
from whet.compiler.runtime.arrays.foreign import NOT_TOLD, known, remember
from whet.compiler.runtime.function import Function
from whet.compiler.runtime.gpu.arguments import as_slot, bind, context_for
from whet.compiler.runtime.gpu.driver.streams import current_stream
from whet.compiler.runtime.gpu.launching import ReadyPlan, numbers_that_matter, run_in_order

if TYPE_CHECKING:
    from whet.compiler.runtime.gpu.module import CudaModule

_MOST_READY = 1024  # layouts of arguments that a function remembers


class CudaFunction(Function):
    """A function of a module for GPUs; calling it puts its launches into the current stream.

    Args:
        signature: what it takes.
        plan: what it does.
        module: has its kernels.
    """

    def __init__(self, signature: KernelSignature, plan: LaunchPlan, module: CudaModule) -> None:
        super().__init__(signature, module)
        self.plan = plan
        self._loader = module
        self._ready: dict[tuple, ReadyPlan] = {}
        params = list(enumerate(signature.params))
        arrays = [p.name for _, p in params if isinstance(p, BufferParam)]
        matter = numbers_that_matter(plan, arrays) | _in_shapes(signature)
        self._arrays = [i for i, p in params if isinstance(p, BufferParam)]
        self._scalars = [(i, p, p.name in matter) for i, p in params if isinstance(p, ScalarParam)]
        # what takes a tensor twice compares addresses each time
        self._same = any(isinstance(p, BufferParam) and p.same is not None for _, p in params)

    @property
    def fast(self) -> Callable[..., None]:
        """The function itself: there is no shorter way."""
        return self

    def __call__(self, *args: Any, **named: object) -> None:
        """Put the function's launches into the current stream of the arguments' device.

        Args:
            args: arrays on one device (or what shares memory of a GPU: DLPack,
                ``__cuda_array_interface__``) and numbers, in order. One that the function writes
                must not overlap another (:meth:`check` tells).
            named: refused; arguments have an order and no names.

        Raises:
            ArgumentError: the function cannot take them.
            TargetError: there is no such device.
            OutOfMemoryError: there was no memory for an intermediate array.
            KernelError: a launch was refused, or earlier work failed.
        """
        if named:
            check_unnamed(self.signature, named)
        if not self._scalars and not self._same:
            ready: ReadyPlan | None
            try:
                ready = self._ready[tuple([a._layout for a in args])]
                slots = [a._address for a in args]
            except (AttributeError, KeyError):
                ready = None  # other layouts than before, other objects than ours, or none that fit
            if ready is not None:
                try:
                    ready.run(slots)
                except KernelError as error:
                    raise self._explained(error, args) from None
                return
        try:
            found = self._looked_up(args)
            if found is None:
                self._run_bound(args)
            elif found[2]:
                run_in_order(*found)
            else:
                found[0].run(found[1])
        except KernelError as error:
            raise self._explained(error, args) from None

    def _explained(self, error: KernelError, args: tuple[Any, ...]) -> KernelError:
        """A kernel's error; a race of arguments that overlap has that cause, and says so."""
        if getattr(error, "fault", "") != "race":
            return error
        try:
            self.check(*args)
        except ArgumentError as overlap:
            request, why, state = (part() if callable(part) else part for part in error.args)
            error.args = request, why, f"{overlap}\n{state}"
        return error

    def _run_bound(self, args: tuple[Any, ...]) -> None:
        """Check the arguments, and run."""
        ready, slots, keep = self._bound(args)
        others = [i for i in self._arrays if not isinstance(args[i], DeviceArray)]
        run_in_order(ready, slots, [remember(args[i], keep[i]) for i in others])
        del keep

    def _looked_up(self, args: tuple[Any, ...]) -> tuple[ReadyPlan, list[Any], list[Any]] | None:
        """The plan, the slots and others' streams, where arrays of these layouts were seen before.

        None: there are new ones, or what fits nowhere.
        """
        signature = self.signature
        if len(args) != len(signature.params) or self._same:
            return None
        slots, streams = list(args), []
        try:
            key = []
            for i in self._arrays:
                array = args[i]
                if type(array) is DeviceArray:
                    key.append(array._layout)
                    slots[i] = array._address
                    continue
                layout, slots[i], stream = known(array)
                key.append(layout)
                streams.append(stream)
        except NOT_TOLD:
            return None
        for i, p, matters in self._scalars:
            value = number(signature, i, p, args[i])
            slots[i] = as_slot(p.dtype, value)
            if matters:
                key.append(value)
        ready = self._ready.get(tuple(key))
        return None if ready is None else (ready, slots, streams)

    def _bound(self, args: tuple[Any, ...]) -> tuple[ReadyPlan, list[Any], list[Any]]:
        """The plan for these arguments, their slots, and what must live until the launch."""
        values, symbols = bind(self.signature, args)
        key = tuple([values[i]._layout for i in self._arrays])
        key += tuple([values[i] for i, _, matters in self._scalars if matters])
        ready = self._ready.get(key)
        if ready is None:
            numbers = {p.name: values[i] for i, p, matters in self._scalars if matters}
            ready = self._loader.ready(self, context_for(values), {**symbols, **numbers})
            if len(self._ready) >= _MOST_READY:
                self._ready.clear()
            self._ready[key] = ready
        slots = [
            v._address if isinstance(v, DeviceArray) else as_slot(p.dtype, v)
            for p, v in zip(self.signature.params, values)
        ]
        return ready, slots, values

    def check(self, *args: object) -> None:
        """Check arguments without running the function: all that a call checks, and overlaps.

        Raises:
            ArgumentError: the function cannot take them, or one that it writes overlaps another.
        """
        values, _ = bind(self.signature, args)
        for i, p in enumerate(self.signature.params):
            if not isinstance(p, BufferParam) or not p.written:
                continue
            for k, other in enumerate(values):
                named = self.signature.params[k]
                if isinstance(named, BufferParam) and named.same == i:
                    continue
                if k == i or not isinstance(other, DeviceArray) or not _overlap(values[i], other):
                    continue
                why = (
                    f"the function writes it, and it overlaps argument {k} "
                    f"({named.name}): kernels are compiled as if no two "
                    "arguments share memory; pass a copy"
                )
                raise wrong(self.signature, i, why, values[i].described)

    def prepared(self, args: Sequence[object]) -> tuple[ReadyPlan, list[Any]]:
        """The plan for arguments of these layouts, and its slots for these very arguments.

        The slots of arrays are their addresses, in the order of the parameters: others of the same
        layouts may stand in their place. Who runs the plan keeps the arrays.

        Raises:
            ArgumentError: the function cannot take ``args``.
        """
        ready, slots, _ = self._bound(tuple(args))
        return ready, slots

    def repeater(self, args: tuple[object, ...]) -> Callable[[int], None]:
        """A function that calls on ``args`` as often as it is told, with no checks.

        It puts the launches into the current stream and waits for none.

        Raises:
            ArgumentError: the function cannot take ``args``.
        """
        ready, slots, keep = self._bound(args)

        def run(number: int) -> None:
            for _ in range(number):
                ready.run(list(slots))
            assert keep is not None  # the arrays live as long as this function

        return run

    def timer(self, args: tuple[object, ...]) -> Callable[[int], int]:
        """As for every function; the time is the device's, between two events of the stream."""
        context, run = self._bound(args)[0].context, self.repeater(args)
        before, after = context.event(), context.event()

        def spent(number: int) -> int:
            stream = current_stream(context)
            before.record(stream)
            run(number)
            after.record(stream)
            after.synchronize()
            return round(after.seconds_since(before) * 1e9)

        return spent


def _in_shapes(signature: KernelSignature) -> set[str]:
    """The names in the arrays' shapes and strides, by which a call checks them."""
    buffers = [p for p in signature.params if isinstance(p, BufferParam)]
    return set().union(*(symbols_of(n) for p in buffers for n in (*p.shape, *p.strides)))


def _overlap(a: DeviceArray, b: DeviceArray) -> bool:
    """True where two arrays' spans of memory have bytes in common."""
    if a.context is not b.context or not a.described.size or not b.described.size:
        return False
    return a.address < b.address + b.span_bytes and b.address < a.address + a.span_bytes
