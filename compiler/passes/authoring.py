"""Passes as values: what one is called, running it on a module, writing one, several in a row."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from whet.compiler import late
from whet.compiler.errors import ArgumentError, LowerError
from whet.compiler.homes import imported
from whet.compiler.passes.context import PassContext
from whet.compiler.passes.names import PASS_NAMES, PassInfo
from whet.compiler.passes.options import checked
from whet.compiler.passes.table import PASSES, BuildStep
from whet.compiler.target import Target
from whet.compiler.tir.blocks.lower import without_blocks
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.visit.renew import defined_once

Transform = Callable[[IRModule, PassContext], IRModule]


class Pass:
    """A function from module to module that has a name; instruments see it run.

    Attributes:
        info: its :class:`PassInfo`.
    """

    def __init__(self, info: PassInfo) -> None:
        self.info = info
        PASS_NAMES.add(info.short)

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        """The module after the pass; the module itself where nothing changes."""
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


def run_pass(info: PassInfo, mod: IRModule, context: PassContext, transform: Transform) -> IRModule:
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
    return mod if same else IRModule(out, attrs=mod.attrs)


class _FunctionPass(Pass):
    def __init__(self, info: PassInfo, function: Transform) -> None:
        super().__init__(info)
        self.function = function

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        return self.function(mod, context)


def of_functions(change: Callable[[PrimFunc, IRModule, PassContext], PrimFunc]) -> Transform:
    """The change of a module that changes each of its functions."""

    def transform(mod: IRModule, context: PassContext) -> IRModule:
        return changed_functions(mod, lambda _, func: change(func, mod, context))

    return transform


def lowering_pass(name: str, **given: Any) -> Pass:
    """A pass of lowering by its name, with or without ``tir.``, for the current target.

    Args:
        name: of a row of :data:`PASSES`.
        given: configuration, by keys without ``tir.``, that goes before the context's.

    Raises:
        ArgumentError: there is no such pass.
    """
    short = name.removeprefix("tir.")
    steps = {step.name: step.run for step in PASSES}
    if short not in steps:
        raise ArgumentError(
            f"the pass {name!r}",
            late.ways_out("tir.transform").get(short, "there is no such pass"),
            "passes: " + ", ".join(steps),
        )
    own = checked({f"tir.{key}": value for key, value in given.items()})

    def run(func: PrimFunc, mod: IRModule, context: PassContext) -> PrimFunc:
        target = (Target.current() or Target("llvm")).canonical()
        func = defined_once(without_blocks(func))
        return steps[short](func, target, {**context.config, **own})

    return _FunctionPass(PassInfo(f"tir.{short}"), of_functions(run))


def build_pass(step: BuildStep, target: Target | None = None) -> Pass:
    """A pass of ``build``, for a target or the current one."""
    run = imported(step.home)

    def transform(mod: IRModule, context: PassContext) -> IRModule:
        if step.of_kernels:
            return mod.map(lambda f: run(f) if "thread_extent" in f.attrs else f)
        return run(mod, target or Target.current() or Target("llvm"))

    return _FunctionPass(PassInfo(f"tir.{step.name}"), transform)


def _prim_func_pass(
    info: PassInfo, function: Callable[[PrimFunc, IRModule, PassContext], PrimFunc]
) -> Pass:
    def change(func: PrimFunc, mod: IRModule, context: PassContext) -> PrimFunc:
        new = function(func, mod, context)
        if isinstance(new, PrimFunc):
            return new
        raise LowerError(
            f"the pass {info.name} on {func.name}",
            f"it gave back a {type(new).__name__}",
            "a prim_func_pass returns a PrimFunc",
        )

    return _FunctionPass(info, of_functions(change))


def module_pass(
    pass_func: Any = None, opt_level: int = 0, name: str | None = None, required: Sequence[str] = ()
) -> Any:
    """Make a pass of ``f(mod, ctx) -> mod``, or of a class with ``transform_module(mod, ctx)``.

    It is a decorator, with or without arguments (TVM's). A class becomes one whose instances are
    passes: its own arguments are theirs. What the function raises is passed on as it is.

    Raises:
        ArgumentError: the function does not take these arguments.
    """
    return _decorator(_FunctionPass, "transform_module", pass_func, opt_level, name, required)


def prim_func_pass(
    pass_func: Any = None, opt_level: int = 0, name: str | None = None, required: Sequence[str] = ()
) -> Any:
    """Make a pass of ``f(func, mod, ctx) -> func``, run on every function of a module.

    A class has ``transform_function(func, mod, ctx)`` instead, as in TVM. What the function raises
    is passed on as it is, with a note that names the pass.

    Raises:
        ArgumentError: the function does not take these arguments.
    """
    return _decorator(_prim_func_pass, "transform_function", pass_func, opt_level, name, required)


def _decorator(
    make: Callable[[PassInfo, Any], Pass],
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
            return make(info, f)
        if not hasattr(f, method):
            raise ArgumentError(f"make a pass of the class {called}", f"it has no {method}")
        found = inspect.getattr_static(f, method)
        own = () if isinstance(found, (staticmethod, classmethod)) else ("self",)
        _check_arguments(getattr(f, method), f"{called}.{method}", (*own, *wanted))
        return lambda *args, **kwargs: make(info, getattr(f(*args, **kwargs), method))

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
            if context.enabled(p.info):
                for needed in p.info.required:
                    mod = _by_name(p, needed)(mod)
                mod = p(mod)
        return mod


def _by_name(asker: Pass, name: str) -> Pass:
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

    return _FunctionPass(PassInfo("PrintIR"), show)


def Apply(change: Callable[[PrimFunc], PrimFunc]) -> Pass:
    """A pass that replaces every function by ``change(func)``."""
    return _prim_func_pass(PassInfo("tir.Apply"), lambda func, mod, context: change(func))


def Filter(keep: Callable[[PrimFunc], bool]) -> Pass:
    """A pass that keeps the functions for which ``keep(func)`` holds."""

    def choose(mod: IRModule, context: PassContext) -> IRModule:
        kept = {name: func for name, func in mod.functions.items() if keep(func)}
        return mod if len(kept) == len(mod.functions) else IRModule(kept)

    return _FunctionPass(PassInfo("tir.Filter"), choose)
