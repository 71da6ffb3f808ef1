"""``lower()``: from a schedule, a function or a module to loop IR that a generator takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from whet.compiler.abi.arguments import with_signature
from whet.compiler.abi.signature import BufferParam, KernelSignature
from whet.compiler.arith import Analyzer
from whet.compiler.driver.nesting import nesting_explained
from whet.compiler.driver.prepack import Part, split
from whet.compiler.driver.verify_input import verified
from whet.compiler.errors import ArgumentError
from whet.compiler.passes import PassContext, run_passes
from whet.compiler.target import Target
from whet.compiler.te.lang.tensor import ExternOp, PlaceholderOp, Tensor
from whet.compiler.te.lower import lower_layout
from whet.compiler.te.lower.schedule_ops import schedule_ops
from whet.compiler.te.primitives.prepack import ahead_stages
from whet.compiler.te.schedule import Schedule
from whet.compiler.tir.blocks.lower import SCHEDULED, without_blocks
from whet.compiler.tir.buffer import Buffer
from whet.compiler.tir.expr import BufferLoad, BufferView, Var
from whet.compiler.tir.function import IRModule, PrimFunc
from whet.compiler.tir.printer import expr_text
from whet.compiler.tir.stmt import Allocate, AllocateConst, BufferStore, DeclBuffer
from whet.compiler.tir.visit.rewrite import nodes_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Lowerable = Schedule | PrimFunc | IRModule
Argument = Tensor | Buffer | Var


def lower(
    inp: Lowerable,
    args: Sequence[Argument] | None = None,
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
    simple_mode: bool = False,
) -> IRModule:
    """Lower a schedule (or loop IR that has not been lowered yet) for the current target.

    Args:
        inp: a schedule, a function or a module; what is lowered already stays as it is.
        args: a schedule's arguments in order: tensors, buffers and scalar variables.
        name: the function's name, unless a module is given.
        binds: buffers to use for some tensors.
        simple_mode: leave loops whole, for reading: no loop partition.

    Returns:
        One function; of a schedule that computes stages ahead, a second one, ``<name>_ahead``.

    Raises:
        ArgumentError: for anything else.
        LowerError: if the schedule cannot be lowered.
    """
    with nesting_explained(f"lower({name})", inp):
        target = (Target.current() or Target("llvm")).canonical()
        mod = inp
        if isinstance(inp, PrimFunc):
            check_name("lower", name)
            mod = IRModule({name: _named(inp, name)})
        elif isinstance(inp, Schedule):
            mod = schedule_to_module(inp, args, name, binds)
        if not isinstance(mod, IRModule):
            raise ArgumentError(
                f"lower({type(inp).__name__})",
                "expected input to be an IRModule, PrimFunc or te.Schedule, "
                f"but got {type(inp).__name__}",
            )
        return _passes(mod, target, simple_mode)


def schedule_to_module(
    sch: Schedule,
    args: Sequence[Argument] | None = None,
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
) -> IRModule:
    """The loop nests of a schedule, no pass applied.

    Args:
        sch, args, name, binds: as for :func:`lower`.

    Raises:
        ArgumentError, LowerError: as there.
    """
    if args is None:
        raise ArgumentError(
            "lower(schedule)", "args must be given for a schedule", "lower(s, [A, B, C])"
        )
    check_name("lower", name)
    buffers, params = lower_layout.arguments(sch, *get_binds(args, binds=binds))
    if not ahead_stages(sch):
        return IRModule({name: _tuned(_function(Part(sch, buffers, params), name), sch)})
    kernel, ahead, link = split(sch, buffers, params, name)
    called, packs = _function(kernel, name), _function(ahead, link.function)
    described = replace(called.attrs["signature"], ahead=link)
    called = _tuned(called.with_attr("signature", described), sch)
    return IRModule({name: called, link.function: packs})


def _tuned(func: PrimFunc, sch: Schedule) -> PrimFunc:
    """The function of a schedule whose config comes from somewhere: it goes on saying whence."""
    return func if sch.tuned_by is None else func.with_attr("tuned_by", sch.tuned_by)


def _function(part: Part, name: str, may_alias: bool = False) -> PrimFunc:
    """The loop nests of one function, with its signature."""
    noalias = PassContext.current().config["tir.noalias"] and not may_alias
    body = schedule_ops(part.schedule, part.buffers, part.params, noalias)
    said = {"global_symbol": name, "from_legacy_te_schedule": True, "tir.noalias": noalias}
    params, same = _apart(part.params)
    func = PrimFunc(params, body, attrs=said)
    if any(isinstance(stage.op, ExternOp) for stage in part.schedule.stages):
        func = verified(func, may_be_empty=True)  # statements of a user's own are in it
    inputs = [b for t, b in part.buffers.items() if isinstance(t.op, PlaceholderOp)]
    return _described(with_signature(func, inputs), part, same)


def _apart(params: Sequence[Buffer | Var]) -> tuple[tuple[Buffer | Var, ...], dict[int, int]]:
    """A function's parameters, and those that are a buffer which stands there before.

    Such a one is a buffer of its own, which nothing reads: a call checks that both are one array.
    """
    first: dict[Buffer | Var, int] = {}
    out, same = [], {}
    for k, p in enumerate(params):
        if p in first and isinstance(p, Buffer):
            same[k] = first[p]
            p = Buffer(p.name, p.shape, p.dtype, p.storage_scope, p.strides)
        out.append(p)
        first.setdefault(p, k)
    return tuple(out), same


def _described(func: PrimFunc, part: Part, same: Mapping[int, int]) -> PrimFunc:
    """The function whose signature says what was said about its inputs' values, and what is one."""
    ranges = {
        b: t.op.value_range
        for t, b in part.buffers.items()
        if isinstance(t.op, PlaceholderOp) and t.op.value_range
    }
    if not ranges and not same:
        return func
    signature: KernelSignature = func.attrs["signature"]
    params = [
        replace(described, value_range=ranges.get(p), same=same.get(k))
        if isinstance(described, BufferParam) and isinstance(p, Buffer)
        else described
        for k, (described, p) in enumerate(zip(signature.params, part.params))
    ]
    return func.with_attr("signature", replace(signature, params=tuple(params)))


def check_name(request: str, name: object) -> None:
    """Refuse a function's name that C and every kind of target could not use as it is.

    Raises:
        ArgumentError: it is no identifier of C.
    """
    if isinstance(name, str) and _NAME.fullmatch(name):
        return
    raise ArgumentError(
        f"{request}(name={name!r})",
        "a function is a symbol of machine code, which C programs call by this name",
        "use letters of ASCII, digits and _, and no digit first",
    )


def get_binds(
    args: Sequence[Argument],
    compact: bool = False,
    binds: Mapping[Tensor, Buffer] | None = None,
) -> tuple[dict[Tensor, Buffer], list[Buffer | Var]]:
    """The buffers of a function's arguments.

    Args:
        args: tensors, buffers and scalar variables.
        compact: TVM's; a tensor's buffer is compact anyhow.
        binds: buffers for some tensors.

    Returns:
        tensor -> its buffer; and the parameters in order.

    Raises:
        ArgumentError: for an argument of another type, or a number that stands there twice; for a
            buffer in ``binds`` whose type or shape is not the tensor's.
    """
    if isinstance(args, (Tensor, Buffer, str)) or not isinstance(args, Sequence):
        raise ArgumentError(f"args={args!r}", "the arguments are a list", "[A, B, C]")
    if binds is not None and not isinstance(binds, Mapping):
        raise ArgumentError(f"binds={binds!r}", "it maps tensors to buffers", "binds={A: buffer}")
    buffers = dict(binds or {})
    for t, b in buffers.items():
        _check_fit(t, b)
    params: list[Buffer | Var] = []
    for k, a in enumerate(args):
        if isinstance(a, Tensor):
            if a not in buffers:
                buffers[a] = Buffer(a.name, a.shape, a.dtype)
            params.append(buffers[a])
        elif isinstance(a, (Buffer, Var)):
            params.append(a)
        else:
            raise ArgumentError(
                f"lower(schedule, args): args[{k}] = {a!r}",
                f"a {type(a).__name__} is neither a Tensor, a Buffer nor a Var",
            )
    numbers = [p for p in params if isinstance(p, Var)]
    if len(set(numbers)) != len(numbers):
        raise ArgumentError("lower(schedule, args)", "a number stands there twice")
    return buffers, params


def _check_fit(t: object, b: object) -> None:
    """Refuse a buffer that does not hold just what a tensor has."""
    if not isinstance(t, Tensor) or not isinstance(b, Buffer):
        raise ArgumentError(f"binds={{{t!r}: {b!r}}}", "it maps tensors to buffers")
    request = f"binds={{{t.name}: {b.name}}}"
    if b.dtype != t.dtype:
        raise ArgumentError(
            request, f"the buffer {b.name} holds {b.dtype}, the tensor {t.name} is {t.dtype}"
        )
    equal = Analyzer().can_prove_equal
    if len(b.shape) != len(t.shape) or not all(map(equal, b.shape, t.shape)):
        raise ArgumentError(
            request,
            f"the buffer {b.name} has the shape {_dims(b)}, the tensor {t.name} {_dims(t)}",
            f"declare it with the tensor's: tir.decl_buffer({t.name}.shape, {t.name}.dtype)",
        )


def _dims(x: Tensor | Buffer) -> str:
    return f"({', '.join(map(expr_text, x.shape))})"


def _named(func: PrimFunc, name: str) -> PrimFunc:
    if func.attrs.get("global_symbol") == name:
        return func
    func = func.with_attr("global_symbol", name)
    signature = func.attrs.get("signature")
    if isinstance(signature, KernelSignature):
        func = func.with_attr("signature", replace(signature, name=name))
    return func


def _with_arrays(func: PrimFunc) -> PrimFunc:
    """The function whose handles are arrays: the buffers that its body has at their addresses."""
    handles = {p for p in func.params if isinstance(p, Var) and p.dtype == "handle"}
    if not handles:
        return func
    made = {n.buffer for n in nodes_of(func.body, Allocate, AllocateConst, DeclBuffer)}
    views: dict[Var, dict[Buffer, None]] = {}
    for n in nodes_of(func.body, BufferLoad, BufferStore, BufferView):
        if n.buffer.data in handles and n.buffer not in made:
            views.setdefault(n.buffer.data, {})[n.buffer] = None
    body = func.body
    for others in (list(found)[1:] for found in views.values()):
        for b in others:  # of the same memory
            body = DeclBuffer(b, body)
    arrays = {data: next(iter(found)) for data, found in views.items()}
    params = [arrays.get(p, p) if isinstance(p, Var) else p for p in func.params]
    return PrimFunc(tuple(params), body, func.ret_type, None, func.attrs)


def _plain(func: PrimFunc, name: str) -> PrimFunc:
    """The function with plain loops in place of its blocks."""
    known = func.attrs.get(SCHEDULED)
    if known is None or known.body is not func.body:
        return without_blocks(func)
    attrs = func.without_attr(SCHEDULED).attrs
    part = Part(known.schedule, dict(known.buffers), list(known.params))
    made = _function(part, name, may_alias=attrs.get("tir.noalias") is False)
    return PrimFunc(made.params, made.body, attrs={**attrs, **made.attrs})


def _passes(mod: IRModule, target: Target, simple_mode: bool) -> IRModule:
    """The module after the passes; itself when all of it is lowered already."""
    if all(f.attrs.get("lowered") for f in mod.functions.values()):
        return mod
    described: dict[str, PrimFunc] = {}
    for name, func in mod.functions.items():
        check_name("lower", name)
        func = _plain(func, name)
        if not isinstance(func.attrs.get("signature"), KernelSignature):
            func = with_signature(verified(_with_arrays(_named(func, name))))
            if "tir.noalias" not in func.attrs and not PassContext.current().config["tir.noalias"]:
                func = func.with_attr("tir.noalias", False)
        described[name] = func
    done = run_passes(IRModule(described), target, simple_mode)
    return done.map(lambda f: f if f.attrs.get("lowered") else f.with_attr("lowered", True))
