"""An FX graph of ATen operators becomes nodes of a graph, one after the other.

What depends on constants alone is computed here, by PyTorch.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from whet.compiler.errors import ArgumentError, WhetError
from whet.compiler.graph import GraphBuilder, Value
from whet.frontends.onnx.importer import MOST_FOLDED
from whet.frontends.torch.operators import TABLE
from whet.frontends.torch.operators.arrays import as_array, as_tensor
from whet.frontends.torch.operators.node import AtenNode, type_name

CHECKS = (
    "aten._assert_tensor_metadata.default", "aten._assert_scalar.default",
    "aten._assert_async.msg", "aten.sym_constrain_range_for_size.default",
)  # fmt: skip
"""Operators that make nothing."""


class Translation:
    """Nodes that are translated into one graph.

    Args:
        builder: takes the nodes.

    Attributes:
        values: FX node -> what it became: a value, a number, or a list of them.
    """

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self.values: dict[Any, Any] = {}

    def constant(self, node: Any, tensor: Any) -> None:
        """The value of an FX node is known."""
        import torch

        if not isinstance(tensor, torch.Tensor):
            self.values[node] = tensor
            return
        self.values[node] = self.builder.constant(as_array(tensor), node.name)

    def input(self, node: Any) -> None:
        """An FX node is an input.

        Raises:
            ArgumentError: its shape depends on a symbol, or its type is not supported.
        """
        shape, dtype = fixed(node.meta.get("val"), node.name)
        self.values[node] = self.builder.input(node.name, shape, dtype)

    def run(self, node: Any) -> None:
        """A call.

        Raises:
            ArgumentError: its operator, or what it asks of it, is not supported.
        """
        if node.target is operator.getitem:
            source, k = node.args
            found = self.values[source][k]
            if found is None:
                raise ArgumentError(
                    f"{source.target} ({source.name})", f"its result {k} is not supported"
                )
            self.values[node] = found
            return
        if str(node.target) in CHECKS:
            return
        meta = node.meta.get("val")
        if isinstance(meta, (int, float, bool)):
            self.values[node] = meta
            return
        made = self._folded(node)
        self.values[node] = self._translated(node) if made is None else made

    def _translated(self, node: Any) -> Any:
        target = str(node.target)
        translate = TABLE.get(target)
        if translate is None:
            raise ArgumentError(f"{target} ({node.name})", "the operator is not supported")
        args = bound(node)
        metas = {name: _mapped(x, lambda n: n.meta.get("val")) for name, x in args.items()}
        given = {name: _mapped(x, self.values.__getitem__) for name, x in args.items()}
        meta = node.meta.get("val")
        many = meta if isinstance(meta, (list, tuple)) else [meta]
        results = [None if m is None else fixed(m, node.name) for m in many]
        n = AtenNode(target, node.name, given, metas, results, self.builder)
        try:
            made = translate(n)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, WhetError):
                raise
            raise n.refused(f"it says what cannot be: {error}") from error
        listed = [made] if isinstance(made, Value) else list(made)
        for v, wanted in zip(listed, results):
            if v is not None and (v.shape, v.dtype) != wanted:
                raise n.refused(f"{v} is made of it, not {wanted}")
        if not isinstance(meta, (list, tuple)):
            return listed[0]
        return [*listed, *[None] * (len(many) - len(listed))]

    def _folded(self, node: Any) -> Any:
        """A node's results for known tensors; None where it is left to the model."""
        import torch

        known: dict[Any, Any] = {}
        for x in node.all_input_nodes:
            found = self.values[x]
            array = self.builder.known(found) if isinstance(found, Value) else None
            if isinstance(found, (list, tuple)) or (isinstance(found, Value) and array is None):
                return None
            known[x] = found if array is None else as_tensor(array)
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise ArgumentError(f"{node.target} ({node.name})", "its results are random")
        meta = node.meta.get("val")
        if not isinstance(meta, torch.Tensor) or (not known and str(node.target) in TABLE):
            return None
        fixed(meta, node.name)
        sizes = [x.nbytes for x in known.values() if isinstance(x, torch.Tensor)]
        return self._computed(node, known) if meta.nbytes <= max([MOST_FOLDED, *sizes]) else None

    def _computed(self, node: Any, known: Mapping[Any, Any]) -> Value:
        import torch
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        args, kwargs = (_mapped(x, known.__getitem__) for x in (node.args, node.kwargs))
        with torch.no_grad(), unset_fake_temporarily():
            made = as_array(node.target(*args, **kwargs))
        return self.builder.constant(made, node.name)


def fixed(meta: Any, name: str) -> tuple[tuple[int, ...], str]:
    """The shape and the type of a tensor without data.

    Raises:
        ArgumentError: it is no tensor, or its shape depends on a symbol.
    """
    import torch

    if not isinstance(meta, torch.Tensor):
        raise ArgumentError(f"{name}", f"it is {type(meta).__name__}, no tensor")
    for k, d in enumerate(meta.shape):
        if not isinstance(d, int):
            raise ArgumentError(
                f"{name}", f"its dimension {k} is {d}: sizes are fixed when a model is compiled",
                f"shapes={{{name!r}: (...)}}",
            )  # fmt: skip
    if meta.device.type not in ("cpu", "meta"):
        raise ArgumentError(f"{name}", f"it is on {meta.device}: models run on the CPU")
    return tuple(meta.shape), type_name(meta.dtype)


def bound(node: Any) -> dict[str, Any]:
    """The arguments of a call by the names of its operator's schema, defaults among them."""
    schema = node.target._schema.arguments
    made = {}
    for k, a in enumerate(schema):
        if not a.kwarg_only and k < len(node.args):
            made[a.name] = node.args[k]
        elif a.name in node.kwargs:
            made[a.name] = node.kwargs[a.name]
        else:
            made[a.name] = a.default_value if a.has_default_value() else None
    return made


def _mapped(x: Any, of: Any) -> Any:
    """Arguments with what nodes stand for in the nodes' places."""
    from torch.fx.node import map_arg

    return map_arg(x, of)


def outputs_of(translation: Translation, nodes: Sequence[Any]) -> list[Value]:
    """The values of outputs; each one is made by a node and by no other output."""
    found = []
    for k, node in enumerate(nodes):
        v = translation.values.get(node, node)
        if not isinstance(v, Value):
            raise ArgumentError(f"output {k}", f"it is {v!r}, no tensor")
        found.append(v)
    names = [getattr(node, "name", f"output{k}") for k, node in enumerate(nodes)]
    return translation.builder.apart(found, names)
