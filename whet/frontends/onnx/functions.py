"""Operators that others define: their bodies, with the attributes of a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.frontends.onnx.operators.node import OnnxNode

if TYPE_CHECKING:
    from onnx import NodeProto


def defined_by(proto: NodeProto, node: OnnxNode, version: int) -> Any:
    """The function by which ONNX defines a standard operator; None: there is none."""
    from onnx import FunctionProto, defs, helper

    try:
        schema: Any = defs.get_schema(proto.op_type, version, proto.domain)
    except defs.SchemaError:
        return None
    if schema.has_function:
        made = schema.function_body
        return made if isinstance(made, FunctionProto) else None
    if not schema.has_context_dependent_function:
        return None
    types = [
        b"" if v is None else helper.make_tensor_type_proto(
            helper.np_dtype_to_tensor_dtype(np.dtype(v.dtype)), list(v.shape)
        ).SerializeToString()
        for v in node.inputs
    ]  # fmt: skip
    text = schema.get_context_dependent_function(proto.SerializeToString(), types)
    made = FunctionProto()
    made.ParseFromString(text)
    return made


def needed(own: Any, caller: NodeProto) -> list[int]:
    """The places of the nodes of a function's body behind the outputs that its caller asks for."""
    names = {name for name, asked in zip(own.output, caller.output) if asked}
    found: list[int] = []
    for k in reversed(range(len(own.node))):
        if not names.isdisjoint(own.node[k].output):
            found.append(k)
            names.update(_reads(own.node[k]))
    return found[::-1]


def _reads(x: NodeProto) -> Iterator[str]:
    """The names that a node reads, those in its bodies included."""
    yield from x.input
    for a in x.attribute:
        for inner in a.g.node:
            yield from _reads(inner)
        yield from (o.name for o in a.g.output)


def defaults(proto: NodeProto, version: int) -> dict[str, Any]:
    """The attributes that an operator has where its node names none."""
    from onnx import defs

    try:
        schema = defs.get_schema(proto.op_type, version, proto.domain)
    except defs.SchemaError:
        return {}
    given = {name: a.default_value for name, a in schema.attributes.items()}
    return {name: value for name, value in given.items() if value.name}


def with_attributes(x: NodeProto, given: Mapping[str, Any], own: Any) -> NodeProto:
    """A node of a function's body with the attributes that the function was called with."""
    from onnx import NodeProto as Proto

    made = Proto()
    made.CopyFrom(x)
    defaults = {a.name: a for a in own.attribute_proto}
    kept = []
    for a in made.attribute:
        if a.ref_attr_name:
            source = given.get(a.ref_attr_name) or defaults.get(a.ref_attr_name)
            if source is None:
                continue
            name = a.name
            a.CopyFrom(source)
            a.name = name
        inner = [with_attributes(node, given, own) for node in a.g.node]
        if inner:
            a.g.ClearField("node")
            a.g.node.extend(inner)
        kept.append(a)
    made.ClearField("attribute")
    made.attribute.extend(kept)
    return made
