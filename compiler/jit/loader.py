"""Object bytes to callable addresses.

Objects are loaded by ORC engines: 0.3 ms an object, against 1.1 ms for an MCJIT engine each; and a
symbol that is missing is an exception instead of a dead process. An engine never gives back all of
an object that it unloads (9 KB stay: a library of ORC has no end, and its symbols neither), but
does when it ends itself. So an engine loads a few objects, and ends with the last of them.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping
from typing import Any

from whet.compiler.errors import CodegenError
from whet.compiler.homes import imported
from whet.compiler.jit.llvm import llvm, lock
from whet.compiler.jit.undefined import undefined_symbols

# Objects an engine loads: a new engine takes 0.25 ms, and the others of an object that stays may
# leave 9 KB each.
_OBJECTS_AN_ENGINE = 16

PROVIDERS = {
    "whet_parallel_for": "whet.compiler.runtime.library.thread_pool:address",
    "whet_call_packed": "whet.compiler.runtime.call.packed:caller_address",
}
"""Symbol -> the ``module:function`` that gives its address, imported when an object needs it."""

_serial = itertools.count()


class LoadedCode:
    """Machine code in this process; it stays callable while this object lives.

    Args:
        data: an object file made for this machine.
        provide: resolve the symbols of :data:`PROVIDERS` that the object refers to.
        symbols: others that it refers to -> their addresses, which stay valid as long.

    Raises:
        CodegenError: the object cannot be linked, e.g. a symbol that it needs does not exist.
    """

    def __init__(
        self, data: bytes, provide: bool = True, symbols: Mapping[str, int] | None = None
    ) -> None:
        binding = llvm()
        self._name = f"whet{next(_serial)}"
        self._object = data  # until it is linked: an error names what it lacks
        self._trackers: dict[str, Any] = {}
        if provide:
            for symbol, function in PROVIDERS.items():
                if symbol.encode() in data:
                    provide_symbol(symbol, imported(function)())
        with lock:
            builder = binding.JITLibraryBuilder().add_object_img(data).add_current_process()
            for symbol, address in (_provided | dict(symbols or {})).items():
                builder.import_symbol(symbol, address)
            self._engine = _engine()
            try:
                self._library = builder.link(self._engine, self._name)
            except RuntimeError as error:
                raise CodegenError("loading an object", str(error).strip()) from None

    def address_of(self, symbol: str) -> int:
        """The address of a function or a global variable.

        Raises:
            CodegenError: there is no such symbol, or something that it needs is missing.
        """
        with lock:
            if symbol not in self._trackers:
                try:
                    self._trackers[symbol] = self._engine.lookup(self._name, symbol)
                except RuntimeError as error:
                    missing = _missing_symbols(self._object)
                    if missing:
                        raise CodegenError(
                            f"loading a kernel that calls {', '.join(missing)}",
                            "this process has no such function",
                            "load the library that has it first, for all: "
                            "ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)",
                        ) from None
                    raise CodegenError(
                        f"looking up {symbol!r} in a loaded object", str(error).strip()
                    ) from None
                self._object = b""
            return self._trackers[symbol][symbol]


def load_object(data: bytes) -> LoadedCode:
    """Load an object file into this process."""
    return LoadedCode(data)


def _missing_symbols(data: bytes) -> list[str]:
    """The functions that an object calls and that nothing in this process has."""
    process = ctypes.CDLL(None)
    return [s for s in undefined_symbols(data) if s not in _provided and not hasattr(process, s)]


def provide_symbol(name: str, address: int) -> None:
    """Let objects that are loaded from now on refer to ``name``, which stands at ``address``."""
    with lock:
        _provided[name] = address


_provided: dict[str, int] = {}
_open: tuple[Any, int] | None = None
"""The engine that loads the next object, and how many objects it may still load."""


def _engine() -> Any:
    """The engine for one more object; under the lock."""
    global _open
    engine, room = _open or (None, 0)
    if not room:
        engine, room = _new_engine(), _OBJECTS_AN_ENGINE
    _open = engine, room - 1
    return engine


def _new_engine() -> Any:
    binding = llvm()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    # LLVM's session names a missing symbol only on stderr: _missing_symbols finds it instead.
    # JITLink puts all sections of an object side by side; the older linker may put them over 2 GiB
    # apart in a process that holds much memory, and then ends the process.
    return binding.create_lljit_compiler(machine, use_jit_link=True, suppress_errors=True)
