"""Exported programs as graphs."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any

from whet.compiler.errors import ArgumentError
from whet.compiler.graph import Graph, GraphBuilder
from whet.compiler.installed import install_extra
from whet.frontends.torch.operators import TABLE
from whet.frontends.torch.translation import Translation, outputs_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def loaded(who: str) -> Any:
    """PyTorch.

    Raises:
        ArgumentError: it is missing.
    """
    try:
        import torch
        import torch.export  # a module of its own
    except ImportError:
        raise ArgumentError(who, "the package torch is missing", install_extra("torch")) from None
    return torch


def from_torch(
    program: ExportedProgram, shapes: Mapping[str, Sequence[int]] | None = None
) -> Graph:
    """The graph of an exported program.

    Parameters and buffers become constants, in the memory that they are in. Outputs stand in the
    order in which ``torch.export`` flattens them.

    Args:
        program: of ``torch.export.export(module, inputs)``.
        shapes: an input's name -> its shape, where the program leaves dimensions open.

    Raises:
        ArgumentError: it is no exported program; a size is open; it changes its buffers or its
            inputs; an operator, or what a node asks of it, is not supported.
    """
    return Decomposed(program).graph(shapes)


class Decomposed:
    """An exported program in the operators that graphs have.

    Args:
        program: of ``torch.export.export(module, inputs)``.

    Raises:
        ArgumentError: it is none, or it changes its buffers or its inputs.
    """

    def __init__(self, program: ExportedProgram) -> None:
        torch = loaded("from_torch(...)")
        if not isinstance(program, torch.export.ExportedProgram):
            raise ArgumentError(
                f"from_torch({type(program).__name__})", "it is no ExportedProgram",
                "torch.export.export(module, inputs)",
            )  # fmt: skip
        _check_changes(program)
        with torch.no_grad(), _quiet():
            self._program = program.run_decompositions(decompositions(torch))
        _check_changes(self._program)

    def graph(self, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
        """Its graph.

        Args:
            shapes: as of :func:`from_torch`.

        Raises:
            ArgumentError: a size is open, or not the program's; an operator, or what a node asks of
                it, is not supported.
        """
        import torch

        from whet.frontends.torch.sizes import at_sizes

        numbers = _numbers(self._program, shapes) if shapes else {}
        # what is open without a number is said by its node
        _check_numbers(self._program)
        nodes, _ = at_sizes(self._program.graph, numbers)
        with torch.no_grad():
            return _graph(self._program, nodes)


def exported(module: Any, inputs: Sequence[Any] | None) -> Any:
    """The program of a module.

    Args:
        module: a ``torch.nn.Module``.
        inputs: tensors that it takes.

    Raises:
        ArgumentError: there are no inputs, or PyTorch cannot export it.
    """
    torch = loaded("compile(module)")
    if inputs is None:
        raise ArgumentError(
            f"compile({type(module).__name__})", "no example inputs tell the sizes of its arrays",
            "compile(module, inputs=(x,))",
        )  # fmt: skip
    if not isinstance(inputs, (torch.Tensor, list, tuple)):
        raise ArgumentError(
            f"compile({type(module).__name__}, inputs=...)",
            f"it is {type(inputs).__name__}, no tuple of what the module takes",
            "compile(module, inputs=(x,))",
        )  # fmt: skip
    given = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
    try:
        with torch.no_grad(), _quiet():
            return torch.export.export(module, given)
    except Exception as error:  # of many kinds, as the module's own code raises
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ArgumentError(
            f"compile({type(module).__name__})", f"torch.export cannot export it: {why}",
            'torch.compile(module, backend="whet") leaves in PyTorch what cannot be exported',
        ) from error  # fmt: skip


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without PyTorch's warning of a class that its own export makes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)
        yield


def is_module(model: Any) -> bool:
    """True for a ``torch.nn.Module``; PyTorch is not loaded to find out."""
    return any(c.__module__ == "torch.nn.modules.module" for c in type(model).__mro__)


def is_program(model: Any) -> bool:
    """True for an exported program; PyTorch is not loaded to find out."""
    return any(c.__module__ == "torch.export.exported_program" for c in type(model).__mro__)


def decompositions(torch: Any) -> Any:
    """PyTorch's decompositions to core ATen but those of operators that graphs have."""
    table = torch.export.default_decompositions()
    for target in list(table):
        if str(target) in TABLE:
            table.pop(target)
    return table


def _numbers(program: Any, shapes: Mapping[str, Sequence[int]]) -> dict[Any, int]:
    """The numbers of a program's symbols where its inputs have given shapes.

    Raises:
        ArgumentError: these are no shapes that it takes.
    """
    from whet.frontends.torch.sizes import name_of, number, numbers_of, symbols_of

    if not isinstance(shapes, Mapping):
        raise ArgumentError(
            "from_torch(shapes=...)",
            f"it is {type(shapes).__name__}, no dict of names and shapes: a program has one set",
            "shapes={'x': (8, 3, 32, 32)}",
        )  # fmt: skip
    metas = {n.name: n.meta["val"] for n in program.graph.nodes if n.op == "placeholder"}
    names = program.graph_signature.user_inputs
    for name in shapes:
        who = f"from_torch(shapes={{{name!r}: ...}})"
        if name not in names:
            raise ArgumentError(who, f"its inputs are {', '.join(map(str, names))}")
        if not hasattr(metas[name], "shape"):
            raise ArgumentError(who, f"the input is {metas[name]!r}, no tensor")
    sizes = [
        (f"{name}[{k}]", d, size)
        for name in names
        if hasattr(metas.get(name), "shape")
        for k, (d, size) in enumerate(
            zip(metas[name].shape, _size(name, shapes.get(name), metas[name]))
        )
    ]
    numbers = numbers_of((d, size) for _, d, size in sizes)
    who = f"from_torch(shapes={dict(shapes)})"
    for place, d, size in sizes:
        if number(d, numbers) != size:
            raise ArgumentError(who, f"{place} is {size}, and in the program it is {d}")
    for s, n in numbers.items():
        r = program.range_constraints.get(s)
        if r is not None and not r.lower <= n <= r.upper:
            place, d, size = next(one for one in sizes if s in symbols_of(one[1]))
            raise ArgumentError(
                who,
                f"{place} is {size}, and {name_of(d, s)} in the program is from {r.lower} to "
                f"{r.upper}",
                "torch.export.Dim(..., min=, max=) says which sizes a program takes",
            )
    envs = {d.node.shape_env for _, d, _ in sizes if symbols_of(d)}
    for guard in (g.expr for env in envs for g in env.guards):
        if guard.free_symbols <= numbers.keys() and guard.xreplace(numbers) == False:  # noqa: E712
            why = f"the program was traced for sizes of which {guard} is true"
            raise ArgumentError(who, why, "torch.export.export with inputs of these sizes")
    return numbers


def _size(name: str, given: Any, meta: Any) -> tuple[int, ...]:
    """The shape that an input is to have, which its program leaves open.

    Raises:
        ArgumentError: it is no shape, or the program has another one.
    """
    who = f"from_torch(shapes={{{name!r}: {given!r}}})"
    if given is None:
        given = tuple(meta.shape)
        if not all(isinstance(d, int) for d in given):
            raise ArgumentError(f"input {name!r}", "its shape is open", f"shapes={{{name!r}: ()}}")
        return given
    try:
        size = tuple(index(d) for d in given)
    except TypeError:
        size = (-1,)
    if isinstance(given, (str, bytes)) or any(d < 0 for d in size):
        raise ArgumentError(who, "it is no shape", "shapes={'x': (8, 3, 32, 32)}")
    known = [isinstance(d, int) for d in meta.shape]
    if len(size) != len(known) or any(k and a != b for k, a, b in zip(known, size, meta.shape)):
        raise ArgumentError(
            who, f"the program's input has the shape {[*map(str, meta.shape)]}",
            "torch.export.export(..., dynamic_shapes=...) leaves a dimension open",
        )  # fmt: skip
    return size


def _check_changes(program: Any) -> None:
    """Refuse a program that changes what it is given."""
    signature = program.graph_signature
    for what, changed in (
        ("buffer", signature.buffers_to_mutate),
        ("input", signature.user_inputs_to_mutate),
    ):
        for name in changed.values():
            raise ArgumentError(
                f"from_torch: {what} {name!r}", "the program changes it; graphs change nothing",
                "module.eval() before torch.export, or return the new value",
            )  # fmt: skip


def _check_numbers(program: Any) -> None:
    """Refuse a program of which a number, no size of an array, is open."""
    from whet.frontends.torch.sizes import symbols_of

    names = program.graph_signature.user_inputs
    for node in program.graph.nodes:
        meta = node.meta.get("val")
        if node.op == "placeholder" and node.name in names and not hasattr(meta, "shape"):
            for s in symbols_of(meta):
                raise ArgumentError(
                    f"from_torch: the input {node.name!r}", f"it is an open number, {s}",
                    "torch.export.export with it as a constant",
                )  # fmt: skip


def _graph(program: Any, nodes: Any) -> Graph:
    """The graph of a program, whose nodes have numbers for their sizes."""
    builder = GraphBuilder()
    work = Translation(builder)
    names = (n.name for n in program.graph.nodes if n.op == "placeholder")
    specs = dict(zip(names, program.graph_signature.input_specs))
    outputs: list[Any] = []
    for node in nodes.nodes:
        if node.op == "placeholder":
            _placeholder(work, node, specs[node.name], program)
        elif node.op == "call_function":
            work.run(node)
        elif node.op == "output":
            outputs = list(node.args[0])
        else:
            raise ArgumentError(f"from_torch: {node.name}", f"it is a {node.op}")
    graph = builder.graph(outputs_of(work, outputs))
    graph.check()
    return graph


def _placeholder(work: Translation, node: Any, spec: Any, program: Any) -> None:
    from torch.export.graph_signature import InputKind

    if spec.kind is InputKind.USER_INPUT:
        if node.meta.get("val") is None or isinstance(node.meta["val"], (int, float, str)):
            work.constant(node, node.meta.get("val"))
        else:
            work.input(node)
        return
    if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
        tensor = program.state_dict.get(spec.target)
        tensor = program.constants.get(spec.target) if tensor is None else tensor
        work.constant(node, tensor)
        return
    raise ArgumentError(f"from_torch: {node.name}", f"it is a {spec.kind.name.lower()}")
