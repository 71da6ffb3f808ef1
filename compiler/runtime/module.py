"""Module: compiled kernels in this process, callable by name."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable

from whet.compiler.errors import ArgumentError, ArtifactError
from whet.compiler.runtime.artifact import Artifact
from whet.compiler.runtime.device import Device
from whet.compiler.runtime.timing import BenchmarkResult, measure, preparation
from whet.compiler.signature import KernelSignature


class Function:
    """A kernel of a module; calling it runs it.

    Attributes:
        signature: what it takes.
    """

    def __init__(self, signature: KernelSignature, module: Module) -> None:
        self.signature = signature
        self._module = module
        self._lock = threading.Lock()
        self._fast: Callable[..., None] | None = None

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.signature.name

    @property
    def fast(self) -> Callable[..., None]:
        """The generated function itself, for callers that count nanoseconds.

        It is made on first use and lives on without the module.
        """
        from whet.compiler.codegen.llvm.fastcall import make_fastcall
        from whet.compiler.codegen.llvm.slowcall import SlowCall

        with self._lock:
            if self._fast is None:
                code = self._module._code
                slow = SlowCall(self.signature, self._repeat(), code)
                raw = code.address_of(self.name + "__raw")
                self._fast = make_fastcall(self.signature, raw, slow, code)
                _answer_calls_with(self, self._fast)
            return self._fast

    def __call__(self, *args: object) -> None:
        """Run the kernel.

        Args:
            args: arrays (numpy, NDArray or anything with ``__dlpack__``) and numbers, in order.

        Raises:
            ArgumentError: the kernel cannot take them.
            MemoryError: there was no memory for an intermediate buffer.
        """
        self.fast(*args)

    def repeater(self, args: tuple[object, ...]) -> Callable[[int], None]:
        """A function that calls the kernel on ``args`` as often as it is told, with no checks.

        Raises:
            ArgumentError: the kernel cannot take ``args``.
        """
        from whet.compiler.codegen.llvm.entry import decode
        from whet.compiler.codegen.llvm.slowcall import bind

        slots = bind(self.signature, args)
        repeat = self._repeat()

        def run(number: int) -> None:
            error = decode(self.signature, repeat(number, slots.argv))
            if error is not None:
                raise error

        return run

    def _repeat(self) -> Callable[..., int]:
        address = self._module._code.address_of(self.name + "__repeat")
        return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p)(address)

    def __repr__(self) -> str:
        return f"<whet kernel {self.name}({', '.join(p.name for p in self.signature.params)})>"


class Module:
    """Compiled kernels, loaded into this process.

    Make one with :meth:`from_artifact`. Calling the module runs its entry function, the first one.

    Attributes:
        artifact: what it was loaded from.
    """

    def __init__(self, artifact: Artifact) -> None:
        from whet.compiler.codegen.llvm import jit

        _check_loadable(artifact)
        self.artifact = artifact
        self._code = jit.load_object(artifact.object)
        for s in artifact.signatures:
            if f"@{s.name}__release(" in artifact.source:
                release = ctypes.CFUNCTYPE(None)(self._code.address_of(f"{s.name}__release"))
                # runs when nothing can call the code any more, just before it is unloaded
                weakref.finalize(self._code, release).atexit = False
        self._functions = {s.name: Function(s, self) for s in artifact.signatures}
        self._entry = self._functions[artifact.signatures[0].name]

    @staticmethod
    def from_artifact(artifact: Artifact) -> Module:
        """Load an artifact.

        Raises:
            ArtifactError: it holds no kernel, or was made for CPU features that are missing here.
            CodegenError: it cannot be linked.
        """
        return Module(artifact)

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

    def __call__(self, *args: object) -> None:
        fast = self._entry.fast
        _answer_calls_with(self, fast)
        fast(*args)

    __call__.__doc__ = Function.__call__.__doc__

    def __getitem__(self, name: str) -> Function:
        return self.get_function(name)

    def get_function(self, name: str) -> Function:
        """The function of that name.

        Raises:
            ArgumentError: there is none; also an AttributeError, as in TVM.
        """
        if name not in self._functions:
            import difflib

            close = difflib.get_close_matches(str(name), list(self._functions), 1)
            raise UnknownFunction(
                f"module[{name!r}]",
                "the module has no such function",
                (f"did you mean {close[0]!r}? " if close else "")
                + f"functions: {', '.join(self._functions)}",
            )
        return self._functions[name]

    def implements_function(self, name: str) -> bool:
        """Whether the module has a function of that name."""
        return name in self._functions

    def get_source(self, fmt: str = "ll") -> str:
        """The module's code as text.

        Args:
            fmt: ``"ll"`` for LLVM's text, ``"asm"`` or ``"s"`` for assembly.

        Raises:
            ArgumentError: the format is none of these.
        """
        if fmt in ("", "ll"):
            return self.artifact.source
        if fmt in ("asm", "s"):
            from whet.compiler.codegen.llvm import jit
            from whet.compiler.target import Target

            return jit.assembly(self.artifact.source, Target(self.artifact.target))
        raise ArgumentError(f"get_source({fmt!r})", "no such format", 'formats: "ll", "asm"')

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
            dev: where it runs.
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
        if dev.type != "cpu":
            raise ArgumentError(f"time_evaluator(dev={dev})", "the kernel was made for the CPU")
        for name, value in (
            ("number", number),
            ("repeat", repeat),
            ("repeats_to_cooldown", repeats_to_cooldown),
        ):
            if value < 1:
                raise ArgumentError(f"time_evaluator({name}={value})", "it must be at least 1")
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
            )

        return evaluate

    def __repr__(self) -> str:
        return f"<whet module: {', '.join(self._functions)}>"


def _answer_calls_with(callable_: Function | Module, fast: Callable[..., None]) -> None:
    """Let calls of an object go to a builtin function, without a Python frame between.

    Python looks ``__call__`` up in the class, so the object gets a class of its own. A call with
    three arrays takes 85 ns this way, and 180 ns through a method with ``*args``.
    """
    kind = type(callable_)
    if "__call__" in kind.__dict__ and kind in (Function, Module):
        callable_.__class__ = type(
            kind.__name__, (kind,), {"__call__": staticmethod(fast), "__module__": kind.__module__}
        )


class UnknownFunction(ArgumentError, AttributeError):
    """A module was asked for a function that it does not have."""


def _check_loadable(artifact: Artifact) -> None:
    from whet.compiler.target import host
    from whet.compiler.target.features import parse_mattr

    if not artifact.signatures:
        raise ArtifactError("loading an artifact", "it holds no kernel")
    made_for = str(artifact.target.get("mtriple", host.triple())).split("-")[0]
    if made_for != host.architecture():
        raise ArtifactError(
            "loading an artifact",
            f"it was made for {made_for}, this machine is {host.architecture()}",
            "build it again here",
        )
    needed = {name for on, name in parse_mattr(artifact.target.get("mattr", "")) if on}
    missing = sorted(needed - host.features())
    wide = int(artifact.target.get("vector_bytes", 0))
    if not missing and wide > host.vector_bytes():
        missing = [f"{8 * wide}-bit vectors"]
    if missing:
        raise ArtifactError(
            "loading an artifact",
            f"this CPU lacks what it was made for: {', '.join(missing)}",
            "build it again here, or for a target that both have",
        )
