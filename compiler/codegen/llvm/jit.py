"""LLVM text to object bytes, and object bytes to callable addresses.

The text that the generator writes already has its vectors, so that the pass list is short: SROA
turns local arrays into registers; LLVM's vectorisers never run. That takes 19 ms for the
matmul template's default at 1024, and 47 ms with the O2 pipeline.

Objects are loaded by ORC engines: 0.3 ms an object, against 1.1 ms for an MCJIT engine each; and a
symbol that is missing is an exception instead of a dead process. An engine never gives back all of
an object that it unloads (9 KB stay: a library of ORC has no end, and its symbols neither), but
does when it ends itself. So an engine loads a few objects, and ends with the last of them.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

from whet.compiler.codegen.llvm.undefined import undefined_symbols
from whet.compiler.errors import CodegenError, TargetError
from whet.compiler.target.machine import host
from whet.compiler.target.machine.probe import check_machine
from whet.compiler.target.machine.processors import architecture_of
from whet.compiler.target.machine.systems import runs_under

if TYPE_CHECKING:
    from whet.compiler.target import Target

# llvmlite's `add_<name>_pass`, in order.
PASSES = ("sroa",)

# Objects an engine loads: a new engine takes 0.25 ms, and the others of an object that stays may
# leave 9 KB each.
_OBJECTS_AN_ENGINE = 16

# llvmlite serialises each call by itself; building one module is many calls, which share a
# context, and two threads gain nothing by taking turns.
_lock = threading.RLock()
_serial = itertools.count()


@functools.cache
def llvm() -> ModuleType:
    """``llvmlite.binding``, loaded and initialised on first use."""
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def compile_text(ll: str, target: Target, passes: bool = True) -> bytes:
    """Compile LLVM text to a position-independent object file.

    Args:
        ll: the module's text.
        target: what to compile for; what it leaves open is filled in from this machine.
        passes: whether the passes run. Without them, what is on the stack stays there.

    Raises:
        CodegenError: LLVM refuses the text.
    """
    with _lock:
        module, machine = _optimised(ll, target, passes)
        return machine.emit_object(module)


def assembly(ll: str, target: Target) -> str:
    """The assembly text of LLVM text ``ll``, compiled as :func:`compile_text` does."""
    with _lock:
        module, machine = _optimised(ll, target)
        return machine.emit_assembly(module)


class LoadedCode:
    """Machine code in this process; it stays callable while this object lives.

    Args:
        data: an object file made for this machine.
        pool: whether the thread pool is set up when the object refers to it.

    Raises:
        CodegenError: the object cannot be linked, e.g. a symbol that it needs does not exist.
    """

    def __init__(self, data: bytes, pool: bool = True) -> None:
        binding = llvm()
        self._name = f"whet{next(_serial)}"
        self._object = data  # until it is linked: an error names what it lacks
        self._trackers: dict[str, Any] = {}
        if pool and b"whet_parallel_for" in data:
            from whet.compiler.codegen.llvm import parallel

            parallel.install()
        if b"whet_call_packed" in data:
            from whet.compiler.runtime.packed import caller_address

            provide_symbol("whet_call_packed", caller_address())
        with _lock:
            builder = binding.JITLibraryBuilder().add_object_img(data).add_current_process()
            for symbol, address in _provided.items():
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
        with _lock:
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
    with _lock:
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


@functools.cache
def _all_targets() -> None:
    """Let LLVM make code for other processors than this one."""
    binding = llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


def foreign(target: Target) -> bool:
    """Whether a target's architecture or its system is not that of this machine."""
    triple = str(target.canonical().attrs["mtriple"])
    return architecture_of(triple) != host.architecture() or not runs_under(triple, host.triple())


def _machine(target: Target) -> Any:
    binding = llvm()
    attrs = target.canonical().attrs
    triple, abi = _with_float_abi(target), str(attrs.get("mabi", ""))
    check_machine(triple, attrs["mcpu"], attrs["mattr"], abi)
    if foreign(target):
        _all_targets()
    try:
        kind = binding.Target.from_triple(triple)
    except RuntimeError as error:
        raise CodegenError(f"{target}", f"LLVM: {error}") from None
    # The small code model with PIC serves both loading here and linking a shared library.
    return kind.create_target_machine(
        cpu=attrs["mcpu"],
        features=attrs["mattr"],
        opt=int(attrs.get("opt_level", 2)),
        reloc="pic",
        codemodel="default",
        abiname=abi,
    )


def _with_float_abi(target: Target) -> str:
    """The triple, whose last part says for 32-bit ARM where floats are passed."""
    triple, abi = str(target.canonical().attrs["mtriple"]), target.attrs.get("mfloat_abi")
    if abi is None:
        return triple
    if architecture_of(triple) == "arm":
        soft = triple.replace("eabihf", "eabi")
        return soft.replace("eabi", "eabihf") if abi == "hard" else soft
    if abi == "soft":
        raise TargetError(
            f"{target}", f"{triple} passes floats in registers only", "leave mfloat-abi out"
        )
    return triple


def _optimised(ll: str, target: Target, passes: bool = True) -> tuple[Any, Any]:
    binding = llvm()
    machine = _machine(target)
    try:
        module = binding.parse_assembly(ll, binding.create_context())
        module.verify()
    except RuntimeError as error:
        raise CodegenError("compiling LLVM text", _located(str(error), ll)) from None
    if foreign(target):  # passes would take this machine's layout for granted
        module.data_layout = str(machine.target_data)
        module.triple = machine.triple
    if passes and _has_local_memory(ll):
        # A builder leaves 1.5 KB when it ends (its callbacks), and serves one run: those of the
        # next would refer to what was on the stack in the one before.
        builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(2))
        _passes().run(module, builder)
    return module, machine


def _has_local_memory(ll: str) -> bool:
    """Whether the passes have anything to do: they make registers of what is on the stack."""
    functions = ll.split("\ndefine ")
    return any("= alloca " in f and " optnone" not in f.partition("\n")[0] for f in functions)


@functools.cache
def _passes() -> Any:
    manager = llvm().create_new_module_pass_manager()
    for name in PASSES:
        getattr(manager, f"add_{name}_pass")()
    return manager


def inlined(ll: str, triple: str) -> Any:
    """LLVM text after its own pipeline, whose inliner compares the features of functions.

    Args:
        ll: the module's text; its functions name their processors.
        triple: for which system.
    """
    binding = llvm()
    with _lock:
        _all_targets()
        machine = binding.Target.from_triple(triple).create_target_machine()
        module = binding.parse_assembly(ll, binding.create_context())
        module.data_layout = str(machine.target_data)
        module.triple = machine.triple
        builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(1))
        builder.getModulePassManager().run(module, builder)
        return module


def _located(message: str, ll: str) -> str:
    """LLVM's message with the line it speaks of and the function that line is in."""
    message = message.strip()
    for part in message.splitlines():
        pieces = part.split(":")
        if len(pieces) > 2 and pieces[1].strip().isdigit():
            number = int(pieces[1])
            lines = ll.splitlines()[:number]
            inside = next((x for x in reversed(lines) if x.startswith("define")), "")
            return f"{message}\nin {inside.strip()}" if inside else message
    return message
