"""Function: a kernel of a module, which Python calls."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.errors import ArgumentError
from whet.compiler.runtime.arrays.ndarray import as_numpy
from whet.compiler.runtime.call.fastcall import make_fastcall
from whet.compiler.runtime.call.slowcall import SlowCall, bind, raise_failure
from whet.compiler.runtime.call.vectorcall import Vectorcall, copied, install_vectorcall

if TYPE_CHECKING:
    from whet.compiler.abi.tuned_by import TunedBy
    from whet.compiler.runtime.module import Module


class Function(Vectorcall):
    """A kernel of a module; calling it runs it.

    Attributes:
        signature: what it takes.
    """

    def __init__(self, signature: KernelSignature, module: Module) -> None:
        self.signature = signature
        self._module = module
        self._lock = threading.Lock()
        self._fast: Callable[..., None] | None = None

    __copy__ = copied

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.signature.name

    @property
    def tuned_by(self) -> TunedBy | None:
        """Where its config comes from; None where no log was asked for one."""
        found = (m.artifact.tuned_by.get(self.name) for m in self._module._all())
        return next(filter(None, found), None)

    @property
    def fast(self) -> Callable[..., None]:
        """The generated function itself, for callers that count nanoseconds.

        It is made on first use and lives on without the module.
        """
        with self._lock:
            if self._fast is None:
                self._fast = self._made()
                install_vectorcall(self, self._fast)
            return self._fast

    def _made(self) -> Callable[..., None]:
        code = self._module._code
        slow = SlowCall(self.signature, self._repeat(), code)
        if not getattr(code, "native_calls", True):
            return slow
        raw = code.address_of(self.name + "__raw")
        calls_python = b"whet_call_packed" in self._module.artifact.object
        return make_fastcall(self.signature, raw, slow, code, calls_python)

    def __call__(self, *args: object, **named: object) -> None:
        """Run the kernel.

        Args:
            args: arrays (numpy, NDArray or anything with ``__dlpack__``) and numbers, in order. One
                that the kernel writes must not overlap another (:meth:`check` tells).
            named: refused; a kernel's arguments have an order and no names.

        Raises:
            ArgumentError: the kernel cannot take them.
            OutOfMemoryError: there was no memory for an intermediate buffer.
            KernelError: an assertion of the kernel does not hold.
            Exception: whatever a packed function that the kernel calls raised.
        """
        self.fast(*args, **named)

    def check(self, *args: object) -> None:
        """Check arguments without running the kernel: all that a call checks, and overlaps.

        Raises:
            ArgumentError: the kernel cannot take them, or one that it writes overlaps another.
        """
        bind(self.signature, args)
        arrays = [as_numpy(a) for a in args]
        for i, p in enumerate(self.signature.params):
            if isinstance(p, BufferParam) and p.written:
                self._check_apart(i, p.name, arrays)

    def _check_apart(self, i: int, name: str, arrays: Sequence[Any]) -> None:
        for k, other in enumerate(arrays):
            named = self.signature.params[k]
            twin = isinstance(named, BufferParam) and named.same == i
            if k != i and not twin and other is not None and _overlap(arrays[i], other):
                raise ArgumentError(
                    f"{self.name}(), argument {i} ({name})",
                    f"the kernel writes it, and it overlaps argument {k} "
                    f"({self.signature.params[k].name})",
                    "kernels are compiled as if no two arguments share memory: pass a copy",
                )

    @property
    def ahead(self) -> Function | None:
        """The function that makes this kernel's packed arrays, if there is one."""
        link = self.signature.ahead
        return None if link is None else self._module.get_function(link.function)

    def pack_weights(self, *weights: object, out: Sequence[np.ndarray] | None = None) -> Any:
        """Weights in the layout that this kernel takes: see :meth:`Module.pack_weights`.

        Args:
            weights: as there.
            out: the arrays to pack into, where they are there already; on a CPU.
        """
        from whet.compiler.runtime.library.weights import pack

        return pack(self, self.ahead, weights, out)

    def repeater(self, args: tuple[object, ...]) -> Callable[[int], None]:
        """A function that calls the kernel on ``args`` as often as it is told, with no checks.

        Raises:
            ArgumentError: the kernel cannot take ``args``.
        """
        slots = bind(self.signature, args)
        repeat = self._repeat()

        def run(number: int) -> None:
            raise_failure(self.signature, repeat(number, slots.argv), self._module._code)

        return run

    def timer(self, args: tuple[object, ...]) -> Callable[[int], int] | None:
        """A function that calls as often as it is told, with no checks, and says for how long.

        Returns:
            Nanoseconds of a number of calls; None where the host's clock tells.

        Raises:
            ArgumentError: the kernel cannot take ``args``.
        """
        return None

    def _repeat(self) -> Callable[..., int]:
        address = self._module._code.address_of(self.name + "__repeat")
        return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p)(address)

    def __repr__(self) -> str:
        return f"<whet kernel {self.signature}>"


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """True where two arrays have bytes in common; where that is hard to say, whether they might."""
    exactly: Any = np.shares_memory  # some releases' stubs know two values of max_work only
    try:
        return bool(exactly(a, b, max_work=10_000))
    except np.exceptions.TooHardError:
        return np.may_share_memory(a, b)


class UnknownFunction(ArgumentError, AttributeError):
    """A module was asked for a function that it does not have."""
