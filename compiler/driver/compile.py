"""``build()``: schedules and loop IR to callable modules, for one target or several."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whet.compiler.abi.arguments import with_signature
from whet.compiler.abi.signature import KernelSignature
from whet.compiler.driver.launch_plan import is_kernel, plans_of
from whet.compiler.driver.lowering import Argument, Lowerable, check_name, lower
from whet.compiler.driver.nesting import nesting_explained
from whet.compiler.errors import ArgumentError, CodegenError, WhetError
from whet.compiler.passes import run_build_passes
from whet.compiler.target import Target
from whet.compiler.te.lang.tensor import Tensor
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir.blocks.lower import SCHEDULED
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.stmt import is_nothing

if TYPE_CHECKING:
    from whet.compiler.abi.artifact import Artifact
    from whet.compiler.abi.tuned_by import TunedBy
    from whet.compiler.runtime.module import Module

TargetLike = Target | str | Mapping[str, Any]


def compile_module(mod: IRModule, target: Target) -> Artifact:
    """Code for a lowered module, loaded nowhere, by the generator of the target's kind.

    Raises:
        CodegenError: if the module is not lowered or its generator refuses it.
    """
    for name, func in mod.functions.items():
        if not func.attrs.get("lowered"):
            raise CodegenError(
                f"build {name}",
                "it has not been lowered",
                "call whet.lower first, or give whet.build the schedule",
            )
        check_name("build", func.attrs.get("global_symbol", name))
    with nesting_explained(f"build for {target}", mod):
        if not target.kind.row.has_threads:
            return _generate(run_build_passes(mod, target), target)
        ready = run_build_passes(mod.map(_with_signature), target)
        artifact = _device_artifact(ready, target)
        plans, signatures = plans_of(ready)
        if not plans:
            return artifact
        return replace(artifact, signatures=signatures, plans=plans, kernels=artifact.signatures)


def _device_artifact(mod: IRModule, target: Target) -> Artifact:
    """The device's part, which is nothing for functions whose results have no elements."""
    from whet.compiler.abi.artifact import Artifact

    if mod.functions and all(is_nothing(f.body) for f in mod.functions.values()):
        return Artifact(b"", (), target.canonical().to_json(), "// There is nothing to launch.\n")
    kernels = {name: f for name, f in mod.functions.items() if is_kernel(f)}
    return _generate(IRModule(kernels), target)


def _with_signature(func: PrimFunc) -> PrimFunc:
    """The function with its signature, also where it was lowered by hand."""
    return func if is_kernel(func) or "signature" in func.attrs else with_signature(func)


def _generate(mod: IRModule, target: Target) -> Artifact:
    """The artifact of the generator of a target's kind; its exceptions become CodegenErrors."""
    generate = target.kind.row.load_generator()
    try:
        artifact = generate(mod, target)
    except (WhetError, MemoryError, RecursionError):
        raise
    except Exception as error:
        raise CodegenError(
            f"build for {target}",
            f"the generator of kind {target.kind!s} failed: {type(error).__name__}: {error}",
        ) from error
    _check_artifact(artifact, mod, target)
    return artifact


def _check_artifact(artifact: object, mod: IRModule, target: Target) -> None:
    from whet.compiler.abi.artifact import Artifact

    request = f"build for {target}"
    what = f"the generator of kind {target.kind!s} made"
    if not isinstance(artifact, Artifact):
        raise CodegenError(request, f"{what} a {type(artifact).__name__}, not an Artifact")
    if not isinstance(artifact.object, bytes) or not isinstance(artifact.source, str):
        raise CodegenError(
            request, f"{what} an Artifact whose object is no bytes or source no text"
        )
    signatures = list(artifact.signatures)
    if not signatures or not all(isinstance(s, KernelSignature) for s in signatures):
        raise CodegenError(request, f"{what} an Artifact without signatures: one for each function")
    missing = mod.functions.keys() - {s.name for s in signatures}
    if missing and target.device == "cpu":
        raise CodegenError(request, f"{what} no signature of {', '.join(sorted(missing))}")


def build(
    inputs: Lowerable | Sequence[Lowerable] | Mapping[str | Target, IRModule],
    args: Sequence[Argument] | None = None,
    target: TargetLike | None = None,
    target_host: TargetLike | None = None,
    runtime: object = None,
    name: str = "default_function",
    binds: Mapping[Tensor, Buffer] | None = None,
) -> Module:
    """Lower what is not lowered yet, compile it, and load what runs here into this process.

    Args:
        inputs: a schedule, a function, a module, or a list of them; or a dict from targets to
            lowered modules.
        args: a schedule's arguments.
        target: else the current one, else this machine; ``Target(target, host=..)`` has a host.
        target_host: an older way to give the host.
        runtime: TVM's; there is one runtime.
        name: the function's name for a schedule, and for a function that has none.
        binds: buffers to use for some tensors.

    Returns:
        A module with ``ir_module_by_target``, what was built, and ``name``. Code for a GPU is in
        its ``imported_modules``. Code for another machine can be saved and read, not called.

    Raises:
        ArgumentError, LowerError, CodegenError, TargetError: whatever is wrong.
    """
    from whet.compiler.runtime.compose import compose

    if runtime is not None and str(runtime) != "cpp":
        raise ArgumentError(f"build(runtime={runtime!r})", "there is one runtime", "leave it out")
    if target_host is not None:
        warnings.warn(
            "build(target_host=...) is deprecated: give target=Target(target, host=...)",
            DeprecationWarning,
            stacklevel=3,
        )
    check_name("build", name)
    if isinstance(inputs, Mapping) and not isinstance(inputs, IRModule):
        given = [(_with_host(t, target_host), mod) for t, mod in _checked_map(inputs)]
    else:
        chosen = Target(target) if target is not None else (Target.current() or Target("llvm"))
        chosen = _with_host(chosen, target_host)
        chosen.kind.row.check_built()
        given = [(chosen, _lowered(inputs, args, chosen, name, binds))]
    by_target = _one_module_each(given)
    parts = [
        (t, mod, replace(compile_module(mod, t), tuned_by=_tuned_by(mod)))
        for t, mod in by_target.items()
    ]
    return compose(parts, _host(list(by_target)), name)


def _tuned_by(mod: IRModule) -> dict[str, TunedBy]:
    """Function -> where its config comes from, of those of which it is known."""
    said = {name: func.attrs.get("tuned_by") for name, func in mod.functions.items()}
    return {str(name): by for name, by in said.items() if by is not None}


def _lowered(
    inputs: Any,
    args: Sequence[Argument] | None,
    target: Target,
    name: str,
    binds: Mapping[Tensor, Buffer] | None,
) -> IRModule:
    """One module of a schedule, a function, a module, or a list of them."""
    if isinstance(inputs, Schedule) and args is None:
        raise ArgumentError(
            "build(schedule)",
            "args must be given for build from schedule",
            "build(s, [A, B, C], target)",
        )
    many: Sequence[Any] = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    if not many:
        raise ArgumentError("build([])", "there is nothing to build", "give at least one function")
    functions: dict[str, PrimFunc] = {}
    with target:
        for x in many:
            own = x.attrs.get("global_symbol", name) if isinstance(x, PrimFunc) else name
            if isinstance(x, Schedule) and target.kind.row.has_threads:
                from whet.compiler.te.primitives.auto_bind import bound_schedule

                x = bound_schedule(x, target)
            elif target.kind.row.has_threads:
                x = _bound(x, target)
            for key, func in lower(x, args, own, binds).functions.items():
                if key in functions:
                    raise ArgumentError("build([...])", f"two functions are named {key!r}")
                functions[key] = func
    return IRModule(functions)


def _bound(x: Any, target: Target) -> Any:
    """A function of blocks, or a module of them, whose loops are bound to threads."""
    if isinstance(x, IRModule):
        return x.map(lambda f: _bound(f, target))
    known = x.attrs.get(SCHEDULED) if isinstance(x, PrimFunc) else None
    if known is None or known.body is not x.body:
        return x
    from whet.compiler.te.primitives.auto_bind import bound_schedule

    bound = replace(known, schedule=bound_schedule(known.schedule, target))
    return x.with_attr(SCHEDULED, bound)


def _checked_map(inputs: Mapping[Any, Any]) -> Iterator[tuple[Target, IRModule]]:
    if not inputs:
        raise ArgumentError("build({})", "there is nothing to build", "give at least one module")
    for key, mod in inputs.items():
        if not isinstance(key, (str, Target)):
            raise ArgumentError(
                f"build({{{key!r}: ...}})",
                "the key of inputs must be str or Target when inputs is dict",
            )
        if not isinstance(mod, IRModule):
            raise ArgumentError(
                f"build({{{str(key)!r}: {type(mod).__name__}}})",
                "inputs must be Schedule, IRModule, or dict of str to IRModule",
                "lower the schedule first: {target: whet.lower(s, args, name=...)}",
            )
        yield Target(key), mod


def _with_host(target: Target, host: TargetLike | None) -> Target:
    return target if host is None else target.with_host(host)


def _host(targets: list[Target]) -> Target:
    """The target of the host's part: the host that was given, the first CPU, else ``llvm``."""
    for t in targets:
        if t.host is not None:
            return t.host
    return next((t for t in targets if t.device == "cpu"), Target("llvm"))


def _one_module_each(pairs: list[tuple[Target, IRModule]]) -> dict[Target, IRModule]:
    """One module for each target: modules for equal targets become one."""
    modules: dict[Target, IRModule] = {}
    seen: dict[str, Target] = {}
    for target, mod in pairs:
        if not mod.functions:
            raise ArgumentError(f"build({{{str(target)!r}: ...}})", "its module has no function")
        for name in mod.functions:
            if name in seen:
                raise ArgumentError(
                    "build({...})",
                    f"two functions are named {name!r}, for {seen[name]} and for {target}",
                    "give lower(..., name=...) different names",
                )
            seen[name] = target
        known = modules.get(target)
        modules[target] = IRModule({**known.functions, **mod.functions}) if known else mod
    return modules
