"""Module: compiled kernels in this process, callable by name."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from whet.compiler.abi.artifact import Artifact, Resources
from whet.compiler.errors import ArgumentError, nearest
from whet.compiler.homes import imported
from whet.compiler.jit.loader import load_object
from whet.compiler.runtime.arrays.device import Device, instead_of
from whet.compiler.runtime.call.vectorcall import Vectorcall, copied, install_vectorcall
from whet.compiler.runtime.function import Function, UnknownFunction
from whet.compiler.runtime.library import source
from whet.compiler.runtime.library.loadable import check_loadable
from whet.compiler.runtime.timing import (
    BenchmarkResult,
    check_counts,
    check_times,
    measure,
    preparation,
)

if TYPE_CHECKING:
    from whet.compiler.abi.tuned_by import TunedBy
    from whet.compiler.runtime.origin import Origin

__all__ = ["Function", "Module", "UnknownFunction"]

# TVM's name of a module's entry function.
ENTRY = "__tvm_main__"

# The module of an artifact that has launch plans, imported when there is one.
_OF_PLANS = "whet.compiler.runtime.gpu.module:CudaModule"


class Module(Vectorcall):
    """Compiled kernels, loaded into this process.

    Make one with :meth:`from_artifact`. Calling the module runs its entry function, the first one.

    Args:
        artifact: what it is made of.
        code: the loaded machine code, where somebody else loaded it.

    Attributes:
        artifact: what it was loaded from.
        ir_module_by_target: of what ``build()`` made it: target -> lowered functions.
        name: the name that ``build()`` was given.
        origin: the library that it was loaded from; None: none.
        launches_only: its functions launch the kernels of other modules.
    """

    ir_module_by_target: Mapping[Any, Any] = MappingProxyType({})
    name: str = ""
    origin: Origin | None = None
    launches_only = False
    _code: Any
    _imported: tuple[Module, ...] = ()

    __copy__ = copied

    def __init__(self, artifact: Artifact, code: Any = None) -> None:
        if code is None:
            check_loadable(artifact)
            code = load_object(artifact.object)
        self._hold(artifact, code, [Function(s, self) for s in artifact.signatures])
        for s in artifact.signatures:
            symbol = f"{s.name}__release"
            if code.has(symbol) if not artifact.object else symbol.encode() in artifact.object:
                release = ctypes.CFUNCTYPE(None)(code.address_of(symbol))
                # runs when nothing can call the code any more, just before it is unloaded
                weakref.finalize(code, release).atexit = False

    def _hold(self, artifact: Artifact, code: Any, functions: Sequence[Function]) -> None:
        """Keep code and its functions, the entry function first."""
        self.artifact, self._code = artifact, code
        self._functions = {f.name: f for f in functions}
        self._entry = functions[0]

    @staticmethod
    def from_artifact(artifact: Artifact) -> Module:
        """Load an artifact; one for GPUs is loaded where it is first called.

        Raises:
            ArtifactError: it holds no kernel, or was made for CPU features that are missing here.
            CodegenError: it cannot be linked.
        """
        if artifact.plans:
            loaded: Module = imported(_OF_PLANS)(artifact)
            return loaded
        return Module(artifact)

    def address_of(self, symbol: str) -> int:
        """The address of one of its symbols in this process, as long as the module lives.

        Raises:
            CodegenError: there is no such symbol.
        """
        found: int = self._code.address_of(symbol)
        return found

    @property
    def entry_name(self) -> str:
        """Name of the entry function."""
        return self._entry.name

    @property
    def entry_func(self) -> Function:
        """The entry function."""
        return self._entry

    @property
    def functions(self) -> list[str]:
        """The names of the functions."""
        return list(self._functions)

    @property
    def type_key(self) -> str:
        """The kind of target that it was made for: ``"llvm"``, ``"c"``, ``"cuda"``, ..."""
        return source.kind_of(self.artifact)

    @property
    def format(self) -> str:
        """The format that :meth:`save` writes where a name does not end in another."""
        return "o" if self.is_dso_exportable else source.formats(self.artifact)[0]

    @property
    def tuned_by(self) -> TunedBy | None:
        """Where the entry function's config comes from, else the first one's that has one.

        None where no log was asked; ``module["name"].tuned_by`` is that of one function.
        """
        found: dict[str, TunedBy] = {}
        for module in reversed(self._all()):
            found |= module.artifact.tuned_by
        return found.get(self.entry_name) or next(iter(found.values()), None)

    @property
    def is_dso_exportable(self) -> bool:
        """True where there is machine code of a CPU, which :meth:`export_library` can link."""
        return bool(self.artifact.object)

    @property
    def imported_modules(self) -> list[Module]:
        """The modules that were imported, e.g. with code for a GPU."""
        return list(self._imported)

    def import_module(self, module: Module) -> None:
        """Let this module's functions use another module; it is exported with this one.

        Raises:
            ArgumentError: it is no module, or imports this one.
        """
        if not isinstance(module, Module):
            raise ArgumentError(f"import_module({module!r})", "it is not a Module")
        if self in module._all():
            raise ArgumentError("import_module(...)", "the module imports this one already")
        self._imported = (*self._imported, module)

    def _all(self) -> list[Module]:
        return [self, *(m for part in self._imported for m in part._all())]

    def __call__(self, *args: object, **named: object) -> None:
        fast = self._entry.fast
        install_vectorcall(self, fast)
        fast(*args, **named)

    __call__.__doc__ = Function.__call__.__doc__

    def __getitem__(self, name: str) -> Function:
        return self.get_function(name)

    def get_function(self, name: str, query_imports: bool = False) -> Function:
        """The function of that name; ``"__tvm_main__"`` is the entry function.

        Args:
            name: which.
            query_imports: whether imported modules are searched, too.

        Raises:
            ArgumentError: there is none; also an AttributeError, as in TVM.
        """
        found = self._find(name, query_imports) if isinstance(name, str) else None
        if found is not None:
            return found
        raise UnknownFunction(
            f"module[{name!r}]",
            "the module has no such function",
            f"{nearest(name, self._functions)}functions: {', '.join(self._functions)}",
        )

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """True where the module has a function of that name."""
        return isinstance(name, str) and self._find(name, query_imports) is not None

    def _find(self, name: str, query_imports: bool) -> Function | None:
        for module in self._all() if query_imports else [self]:
            if name in module._functions:
                return module._functions[name]
        return self._entry if name == ENTRY else None

    def pack_weights(self, *weights: object) -> Any:
        """Weights in the layout that the entry function takes: what is computed ahead of its calls.

        Args:
            weights: arrays, in the order in which the schedule's arguments have them.

        Returns:
            The packed array, a new numpy array aligned to 64 bytes, or on the GPU that the weights
            are on; a tuple of them where there are several. It stands in a call where the weights
            stood.

        Raises:
            ArgumentError: the kernel takes its weights as they are, or these do not fit.
        """
        return self._entry.pack_weights(*weights)

    def get_source(self, fmt: str = "") -> str:
        """The module's code as text; in a format of an imported module, that one's.

        Args:
            fmt: of ``llvm``: ``"ll"`` for LLVM's text, ``"asm"`` or ``"s"`` for assembly; of ``c``:
                ``"c"``; of ``cuda``: ``"cu"`` or ``"cuda"``, ``"ptx"``, for which NVRTC is asked,
                and ``"sass"``, for which NVIDIA's disassembler is, too; ``""``: the first of these.

        Raises:
            ArgumentError: the format is none of these, or the module was loaded from a file.
            TargetError: for ``"ptx"`` and ``"sass"``: there is no NVRTC here; or no disassembler.
        """
        if not isinstance(fmt, str):
            raise ArgumentError(f"get_source({fmt!r})", "a format is a str")
        more = [m.artifact for m in self._all()]
        return source.text_of(self._holder(fmt).artifact, fmt, more, self._why_no_text())

    def _why_no_text(self) -> str:
        """Why there is no text, of a module that has none."""
        return "the module was loaded from a file that holds machine code only"

    def _why_not_linked(self) -> tuple[str, str]:
        """Why there is nothing to link, of a module without machine code; and the way out."""
        texts = [m for m in self._all() if m.artifact.source]
        if not texts:
            return "it was loaded from a file: its machine code is linked already", "copy the file"
        kinds = ", ".join(dict.fromkeys(repr(m.type_key) for m in texts))
        ending = source.formats(texts[0].artifact)[0]
        return (
            f"a module of kind {kinds} holds no code of a CPU to link",
            f'its source can be written: module.save("name.{ending}")',
        )

    def _holder(self, fmt: str) -> Module:
        """The module whose code has a format: this one, or one that was imported."""
        if not fmt:
            return self
        return next((m for m in self._all() if source.writes(m.artifact, fmt)), self)

    def resources(self) -> dict[str, Resources]:
        """The resources of each kernel for a GPU: registers, spills, stack, shared memory, code.

        NVRTC compiles, with no GPU; of a library that was loaded its machine code tells. Buffers in
        shared memory are in the arena that a launch asks for: ``dynamic_shared_bytes``, None where
        that depends on a symbol.

        Raises:
            ArgumentError: there is no code for a GPU in the module.
            TargetError, CodegenError: there is no NVRTC here; it refuses the code.
        """
        return source.resources_of([m.artifact for m in self._all()])

    def save(self, file_name: str | os.PathLike[str], fmt: str = "") -> None:
        """Write the module's code to a file.

        Args:
            file_name: where; the ending says in which format, if ``fmt`` does not.
            fmt: ``"ll"``, ``"s"``, ``"bc"``, ``"c"``, ``"cu"``, ``"ptx"``, ``"cubin"``: what this
                module's kind has, or an imported one's; ``"o"``, ``"so"``, ``"tar"``: what
                :meth:`export_library` writes.

        Raises:
            ArgumentError: the format is none of these.
            ArtifactError: it cannot be linked, or the file cannot be written.
        """
        path = source.path_of(f"save({file_name!r})", file_name)
        kind = fmt or path.suffix.lstrip(".") or self.format
        kind = {"obj": "o"}.get(kind, kind)
        if kind in ("o", "so", "tar"):
            from whet.compiler.runtime.library.export import export_library

            export_library(self, path, fmt=kind)
            return
        more = [m.artifact for m in self._all()]
        request, holder = f"save({str(path)!r})", self._holder(kind).artifact
        data = source.bytes_of(request, holder, kind, more, self._why_no_text())
        source.write(path, data)

    def export_library(
        self,
        file_name: str | os.PathLike[str],
        fcompile: Callable[..., Any] | None = None,
        addons: Sequence[str] | None = None,
        workspace_dir: str | None = None,
        **kwargs: Any,
    ) -> str:
        """Write a library that C programs, and :func:`whet.runtime.load_module`, can use.

        It needs no Python when it is called from C (``#include <whet/runtime.h>``, which is in
        ``whet.runtime.include_dir()``). Code for a GPU, which Python alone launches, is written
        with machine code of its architecture and PTX for later ones, where NVRTC is there. Of what
        was loaded from a library with a CPU's code, a file of the same kind is a copy of that one.

        Args:
            file_name: in ``.so``: a shared library; in ``.o``: an object to link; in ``.tar``: the
                parts, to be linked where they are loaded; of code for GPUs alone nothing is
                linked, and no C compiler asked.
            fcompile: ``fcompile(file_name, files, **kwargs)`` links instead of the C compiler.
            addons: more files to link.
            workspace_dir: a folder to keep the parts in.
            kwargs: for the C compiler: ``options``, a list; ``cc``, its command (``CC`` or ``cc``).

        Returns:
            The name of the file.

        Raises:
            ArtifactError: the module has no code that runs, or it cannot be linked: with what it
                imports, a library is for one processor and has one function of a name.
            ArgumentError: the format or an option is not known.
            CodegenError: NVRTC refuses the text of a GPU's kernels.
        """
        from whet.compiler.runtime.library.export import export_library

        return export_library(self, file_name, fcompile, addons, workspace_dir, **kwargs)

    def time_evaluator(
        self,
        func_name: str,
        dev: Device,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        f_preproc: str | Callable[[tuple[object, ...]], None] = "",
    ) -> Callable[..., BenchmarkResult]:
        """A function that times a kernel on the arguments it is given (TVM's arguments and rule).

        Args:
            func_name: which function.
            dev: where it runs; on a GPU its events take the time, and the arguments are on it.
            number: calls in one repeat.
            repeat: how many times are taken.
            min_repeat_ms: ``number`` grows until a repeat takes that many milliseconds.
            limit_zero_time_iterations: attempts that may take no measurable time at all.
            cooldown_interval_ms: milliseconds to pause after each ``repeats_to_cooldown``-th
                repeat.
            repeats_to_cooldown: see there.
            f_preproc: called with the arguments before each repeat, or TVM's name of it:
                ``"cache_flush_cpu_non_first_arg"``.

        Raises:
            ArgumentError: an argument is out of range, or the function does not exist.
        """
        function = self.get_function(func_name)
        if not isinstance(dev, Device) or not dev.exist:
            raise ArgumentError(
                f"time_evaluator(dev={dev})", "this machine has no such device", instead_of(dev)
            )
        check_counts(number=number, repeat=repeat, repeats_to_cooldown=repeats_to_cooldown)
        check_counts(0, limit_zero_time_iterations=limit_zero_time_iterations)
        check_times(min_repeat_ms=min_repeat_ms, cooldown_interval_ms=cooldown_interval_ms)
        prepare = preparation(f_preproc)

        def evaluate(*args: object) -> BenchmarkResult:
            return measure(
                function.repeater(args),
                number=number,
                repeat=repeat,
                min_repeat_ms=min_repeat_ms,
                limit_zero_time_iterations=limit_zero_time_iterations,
                cooldown_interval_ms=cooldown_interval_ms,
                repeats_to_cooldown=repeats_to_cooldown,
                prepare=None if prepare is None else lambda: prepare(args),
                timer=function.timer(args),
            )

        return evaluate

    def __repr__(self) -> str:
        return f"<whet module: {'; '.join(str(f.signature) for f in self._functions.values())}>"
