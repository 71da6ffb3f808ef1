"""Passes as values: what one is called, running it on a module, writing one, several in a row."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from whet.compiler.errors import ArgumentError, LowerError
from whet.compiler.passes.context import PassConfig, PassContext
from whet.compiler.target import Target
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.visit.renew import defined_once

#: names of all passes made so far, so that a user's own can be disabled
PASS_NAMES: set[str] = set()


@dataclass(frozen=True, slots=True)
class PassInfo:
    """What a pass is called (``"tir.Simplify"``), its level, and the passes it needs before it."""

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()


class Pass:
    """A function from module to module that has a name; instruments see it run.

    Attributes:
        info: its :class:`PassInfo`.
    """

    def __init__(self, info: PassInfo) -> None:
        self.info = info
        PASS_NAMES.add(info.name)

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        """What the pass does; the module itself where nothing changes."""
        raise NotImplementedError

    def __call__(self, mod: IRModule) -> IRModule:
        """The module after the pass, with the instruments of the current context around it.

        Raises:
            ArgumentError: for anything but an IRModule.
            LowerError: if the pass gives back anything else.
        """
        if not isinstance(mod, IRModule):
            raise ArgumentError(
                f"{self.info.name}({type(mod).__name__})",
                "a pass runs on an IRModule",
                'IRModule({"main": func}) makes one of a function',
            )
        return run_pass(self.info, mod, PassContext.current(), self.transform)

    def __repr__(self) -> str:
        return f"Pass({self.info.name})"


def run_pass(
    info: PassInfo,
    mod: IRModule,
    context: PassContext,
    transform: Callable[[IRModule, PassContext], IRModule],
) -> IRModule:
    """Run ``transform`` with the context's instruments before and after it."""
    if context.instruments and not context.before(mod, info):
        return mod
    try:
        out = transform(mod, context)
    except Exception as error:
        error.add_note(f"in the pass {info.name}")
        raise
    if not isinstance(out, IRModule):
        raise LowerError(
            f"the pass {info.name}",
            f"it gave back a {type(out).__name__}",
            "a module pass returns an IRModule, a prim_func_pass a PrimFunc",
        )
    if context.instruments:
        context.after(out, info)
    return out


def changed_functions(mod: IRModule, change: Callable[[str, PrimFunc], PrimFunc]) -> IRModule:
    """The module with every function changed; itself when none of them is."""
    out = {name: change(name, func) for name, func in mod.functions.items()}
    same = all(out[name] is func for name, func in mod.functions.items())
    return mod if same else IRModule(out)


class LoweringPass(Pass):
    """One of Whet's own passes, ``run(func, target, config) -> func``, for the current target."""

    def __init__(self, name: str, run: Callable[[PrimFunc, Target, PassConfig], PrimFunc]) -> None:
        super().__init__(PassInfo(f"tir.{name}"))
        self.run = run

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        """Every function after the pass."""
        target = (Target.current() or Target("llvm")).canonical()
        return changed_functions(
            mod, lambda _, f: self.run(defined_once(f), target, context.config)
        )


class _ModulePass(Pass):
    def __init__(self, function: Callable[[IRModule, PassContext], IRModule], info: PassInfo):
        super().__init__(info)
        self.function = function

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        return self.function(mod, context)


class _PrimFuncPass(Pass):
    def __init__(
        self, function: Callable[[PrimFunc, IRModule, PassContext], PrimFunc], info: PassInfo
    ):
        super().__init__(info)
        self.function = function

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        def change(name: str, func: PrimFunc) -> PrimFunc:
            new = self.function(func, mod, context)
            if isinstance(new, PrimFunc):
                return new
            raise LowerError(
                f"the pass {self.info.name} on {name}",
                f"it gave back a {type(new).__name__}",
                "a prim_func_pass returns a PrimFunc",
            )

        return changed_functions(mod, change)


def module_pass(
    pass_func: Any = None, opt_level: int = 0, name: str | None = None, required: Sequence[str] = ()
) -> Any:
    """Make a pass of ``f(mod, ctx) -> mod``, or of a class with ``transform_module(mod, ctx)``.

    It is a decorator, with or without arguments (TVM's). A class becomes one whose instances are
    passes: its own arguments are theirs. What the function raises is passed on as it is.

    Raises:
        ArgumentError: the function does not take these arguments.
    """
    return _decorator(_ModulePass, "transform_module", pass_func, opt_level, name, required)


def prim_func_pass(
    pass_func: Any = None, opt_level: int = 0, name: str | None = None, required: Sequence[str] = ()
) -> Any:
    """Make a pass of ``f(func, mod, ctx) -> func``, run on every function of a module.

    A class has ``transform_function(func, mod, ctx)`` instead, as in TVM. What the function raises
    is passed on as it is, with a note that names the pass.

    Raises:
        ArgumentError: the function does not take these arguments.
    """
    return _decorator(_PrimFuncPass, "transform_function", pass_func, opt_level, name, required)


def _decorator(
    make: Callable[[Any, PassInfo], Pass],
    method: str,
    pass_func: Any,
    opt_level: int,
    name: str | None,
    required: Sequence[str],
) -> Any:
    def wrap(f: Any) -> Any:
        if not callable(f):
            raise ArgumentError(f"make a pass of {f!r}", "it cannot be called")
        called = getattr(f, "__name__", type(f).__name__)
        info = PassInfo(name or called, opt_level, tuple(required))
        wanted = _TAKES[method]
        if not isinstance(f, type):
            _check_arguments(f, called, wanted)
            return make(f, info)
        if not hasattr(f, method):
            raise ArgumentError(f"make a pass of the class {called}", f"it has no {method}")
        found = inspect.getattr_static(f, method)
        own = () if isinstance(found, (staticmethod, classmethod)) else ("self",)
        _check_arguments(getattr(f, method), f"{called}.{method}", (*own, *wanted))
        return lambda *args, **kwargs: make(getattr(f(*args, **kwargs), method), info)

    return wrap if pass_func is None else wrap(pass_func)


#: what the function of a pass is called with, by the name of the method that may stand for it
_TAKES = {"transform_module": ("mod", "ctx"), "transform_function": ("func", "mod", "ctx")}


def _check_arguments(f: Callable[..., Any], called: str, wanted: tuple[str, ...]) -> None:
    """Refuse a function that cannot be called with so many arguments, where that can be told."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # written in C, and says nothing of its arguments
        return
    try:
        signature.bind(*wanted)
    except TypeError as error:
        raise ArgumentError(
            f"make a pass of {called}{signature}",
            f"it is called with {len(wanted)} arguments: {error}",
            f"its parameters: {', '.join(wanted)}",
        ) from None


class Sequential(Pass):
    """Passes one after the other; those that the context disables, or of a higher level, are not.

    Args:
        passes: in order.
        opt_level, name, required: of the sequence itself.

    Raises:
        ArgumentError: if one of them is no pass.
    """

    def __init__(
        self,
        passes: Sequence[Pass] = (),
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] = (),
    ) -> None:
        for p in passes:
            if not isinstance(p, Pass):
                raise ArgumentError(
                    f"Sequential([... {p!r} ...])", f"a {type(p).__name__} is no pass"
                )
        super().__init__(PassInfo(name, opt_level, tuple(required)))
        self.passes = tuple(passes)

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        """The module after all of them, each after those that it requires."""
        for p in self.passes:
            if not context.enabled(p.info):
                continue
            for needed in p.info.required:
                mod = _by_name(p, needed)(mod)
            mod = p(mod)
        return mod


def _by_name(asker: Pass, name: str) -> Pass:
    from whet.compiler.passes.pipeline import lowering_pass

    try:
        return lowering_pass(name)
    except ArgumentError as error:
        raise ArgumentError(
            f"the pass {asker.info.name} requires {name!r}", "there is no such pass", str(error)
        ) from None


def PrintIR(header: str = "", show_meta_data: bool = False) -> Pass:
    """A pass that prints the module, ``header`` first, and leaves it alone.

    Args:
        header: what to print before it.
        show_meta_data: print the functions' attributes, too.
    """

    def show(mod: IRModule, context: PassContext) -> IRModule:
        print(f"PrintIR({header})\n{mod.script()}")
        if show_meta_data:
            for name, func in mod.functions.items():
                print(f"# {name}: {func.attrs}")
        return mod

    return _ModulePass(show, PassInfo("PrintIR"))


def Apply(change: Callable[[PrimFunc], PrimFunc]) -> Pass:
    """A pass that replaces every function by ``change(func)``."""
    return _PrimFuncPass(lambda func, mod, context: change(func), PassInfo("tir.Apply"))


def Filter(keep: Callable[[PrimFunc], bool]) -> Pass:
    """A pass that keeps the functions for which ``keep(func)`` holds."""

    def choose(mod: IRModule, context: PassContext) -> IRModule:
        kept = {name: func for name, func in mod.functions.items() if keep(func)}
        return mod if len(kept) == len(mod.functions) else IRModule(kept)

    return _ModulePass(choose, PassInfo("tir.Filter"))
