"""The driver: ``lower()`` from a schedule to loop IR, ``build()`` on to a callable module."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError, LowerError
from whet.compiler.passes import run_passes
from whet.compiler.signature import BufferParam, KernelSignature, ScalarParam
from whet.compiler.target import Target
from whet.compiler.te.schedule import Schedule
from whet.compiler.te.schedule_ops import schedule_ops
from whet.compiler.te.tensor import Tensor
from whet.compiler.tir import expr as e
from whet.compiler.tir import stmt as s
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.printer import Printer
from whet.compiler.tir.rewrite import post_order_visit, variables

if TYPE_CHECKING:
    from whet.compiler.runtime.artifact import Artifact
    from whet.compiler.runtime.module import Module

Lowerable = Schedule | PrimFunc | IRModule


def lower(
    inputs: Lowerable,
    args: Sequence[Tensor | Buffer | e.Var] | None = None,
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
    simple_mode: bool = False,
) -> IRModule:
    """Lower a schedule (or loop IR that has not been lowered yet) for the current target.

    Args:
        inputs: a schedule, a function or a module; what is lowered already stays as it is.
        args: a schedule's arguments in order: tensors, buffers and scalar variables.
        name: the function's name.
        binds: buffers to use for some tensors.
        simple_mode: leave loops whole, for reading: no loop partition.

    Raises:
        ArgumentError: for anything else.
        LowerError: if the schedule cannot be lowered.
    """
    target = (Target.current() or Target("llvm")).canonical()
    if isinstance(inputs, IRModule):
        return inputs.map(lambda f: _passes(f, target, simple_mode))
    if isinstance(inputs, PrimFunc):
        func = inputs.with_attr("global_symbol", name)
        return IRModule({name: _passes(func, target, simple_mode)})
    if not isinstance(inputs, Schedule):
        raise ArgumentError(
            f"lower({type(inputs).__name__})",
            "expected input to be an IRModule, PrimFunc or te.Schedule, "
            f"but got {type(inputs).__name__}",
        )
    if args is None:
        raise ArgumentError(
            "lower(schedule)", "args must be given for a schedule", "lower(s, [A, B, C])"
        )
    func = _from_schedule(inputs, args, name, dict(binds or {}))
    return IRModule({name: _passes(func, target, simple_mode)})


def _passes(func: PrimFunc, target: Target, simple_mode: bool) -> PrimFunc:
    if func.attrs.get("lowered"):
        return func
    if not isinstance(func.attrs.get("signature"), KernelSignature):
        func = _with_signature(func)
    return run_passes(func, target, simple_mode).with_attr("lowered", True)


def _from_schedule(
    schedule: Schedule, args: Sequence[Any], name: str, binds: dict[Tensor, Buffer]
) -> PrimFunc:
    params: list[Buffer | e.Var] = []
    for k, a in enumerate(args):
        if isinstance(a, Tensor):
            if a not in binds:
                binds[a] = Buffer(a.name, a.shape, a.dtype)
            params.append(binds[a])
        elif isinstance(a, (Buffer, e.Var)):
            params.append(a)
        else:
            raise ArgumentError(
                f"lower(schedule, args): args[{k}] = {a!r}",
                f"a {type(a).__name__} is neither a Tensor, a Buffer nor a Var",
            )
    if len({id(p) for p in params}) != len(params):
        raise ArgumentError("lower(schedule, args)", "an argument stands there twice")
    body = schedule_ops(schedule, binds)
    return _with_signature(PrimFunc(tuple(params), body, {"global_symbol": name}))


def _with_signature(func: PrimFunc) -> PrimFunc:
    """The function with what its callers must know, taken while its buffers have their shapes."""
    written: set[int] = set()
    used: dict[e.Var, None] = {}
    loops: set[e.Var] = set()

    def visit(n: object) -> None:
        if isinstance(n, e.Var):
            used[n] = None
        elif isinstance(n, s.BufferStore):
            written.add(id(n.buffer))
        elif isinstance(n, s.For):
            loops.add(n.var)

    post_order_visit(func.body, visit)
    printer = Printer()
    scalars = {p for p in func.params if isinstance(p, e.Var)}
    symbols: list[e.Var] = []
    for p in func.params:
        if isinstance(p, Buffer):
            for d in p.shape:
                if isinstance(d, e.Var) and d not in scalars and d not in symbols:
                    symbols.append(d)
    params: list[BufferParam | ScalarParam] = []
    for p in func.params:
        if isinstance(p, Buffer):
            for d in p.shape:
                for v in variables(d):
                    if v not in symbols and v not in scalars:
                        raise LowerError(
                            f"lower: the shape of {p.name}",
                            f"it uses {v.name}, which no argument gives",
                            f"pass an array with the dimension {v.name}, or {v.name} itself",
                        )
            shape = tuple(d.value if isinstance(d, e.IntImm) else printer.expr(d) for d in p.shape)
            params.append(BufferParam(p.name, p.dtype, shape, id(p) in written))
        else:
            params.append(ScalarParam(printer.name(p), p.dtype))
    for v in used:
        if v not in loops and v not in scalars and v not in symbols:
            raise LowerError(
                f"lower: the body uses {v.name}",
                "no argument gives it a value",
                f"pass an array with the dimension {v.name}, or {v.name} itself",
            )
    name = str(func.attrs.get("global_symbol", "main"))
    signature = KernelSignature(name, tuple(params), tuple(printer.name(v) for v in symbols))
    return func.with_attr("signature", signature).with_attr("symbols", tuple(symbols))


def program_hash(mod: IRModule, target: Target) -> str:
    """The identity of a program on a target: the same hash, the same machine code."""
    text = f"{target.canonical().key}\n{mod.script()}"
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def compile_module(mod: IRModule, target: Target) -> Artifact:
    """Machine code for a lowered module, loaded nowhere.

    Raises:
        CodegenError: if the module is not lowered or LLVM refuses it.
    """
    from whet.compiler.codegen.llvm.jit import compile_text
    from whet.compiler.codegen.llvm.kernel import module_text
    from whet.compiler.runtime.artifact import Artifact

    target = target.canonical()
    text = module_text(mod, target)
    signatures = tuple(f.attrs["signature"] for f in mod.functions.values())
    return Artifact(compile_text(text, target), signatures, target.to_json(), text)


def build(
    inputs: Lowerable | Sequence[Lowerable],
    args: Sequence[Tensor | Buffer | e.Var] | None = None,
    target: Target | str | Mapping[str, Any] | None = None,
    target_host: Target | str | None = None,
    name: str = "default_function",
    binds: Mapping[Tensor, Buffer] | None = None,
) -> Module:
    """Lower what is not lowered yet, compile it and load it into this process.

    Args:
        inputs: a schedule, a function, a module, or a list of them.
        args: a schedule's arguments.
        target: else the current target, else this machine.
        target_host: only accepted where it is the same as the target, which runs on the host.
        name: the function's name for a schedule.

    Raises:
        ArgumentError, LowerError, CodegenError, TargetError: whatever is wrong.
    """
    from whet.compiler.runtime.module import Module

    chosen = Target(target) if target is not None else (Target.current() or Target("llvm"))
    if target_host is not None and Target(target_host).kind != chosen.kind:
        raise ArgumentError(
            f"build(target={chosen}, target_host={target_host})",
            "a CPU target is its own host",
            "leave target_host out",
        )
    many: Sequence[Any] = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    if isinstance(inputs, Schedule) and args is None:
        raise ArgumentError("build(schedule)", "args must be given for build from schedule")
    functions: dict[str, PrimFunc] = {}
    with chosen:
        for x in many:
            if isinstance(x, PrimFunc):
                name_of = str(x.attrs.get("global_symbol", name))
                lowered = lower(x, name=name_of)
            else:
                lowered = lower(x, args, name=name, binds=binds)
            for key, func in lowered.functions.items():
                if key in functions:
                    raise ArgumentError("build([...])", f"two functions are named {key!r}")
                functions[key] = func
    return Module.from_artifact(compile_module(IRModule(functions), chosen))
