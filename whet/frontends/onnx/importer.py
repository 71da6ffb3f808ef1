"""From an ONNX model to a graph: shapes fixed, what is known folded, each node translated.

What only depends on known values, e.g. all that models compute with shapes, is computed here by the
reference implementation of the ``onnx`` package. An operator without a translation is replaced by
its body, where ONNX defines it by others.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whet.compiler.errors import ArgumentError, WhetError
from whet.compiler.graph import Graph, GraphBuilder, Value
from whet.frontends.onnx.control import CONTROL, SEQUENCES
from whet.frontends.onnx.file import loaded
from whet.frontends.onnx.functions import defaults, defined_by, needed, with_attributes
from whet.frontends.onnx.given import checked_sizes, no_such_name, of_one, shape_of
from whet.frontends.onnx.operators import TABLE
from whet.frontends.onnx.operators.elementwise import TYPES
from whet.frontends.onnx.operators.node import OnnxNode
from whet.frontends.onnx.operators.refused import RANDOM, REFUSED

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

MOST_FOLDED = 1 << 26  # bytes of a result that is computed ahead: more is left to the model
_DOMAINS = ("", "ai.onnx")
_ELSE = "leave it out of the file, or run this part elsewhere"


def from_onnx(
    model: ModelProto | str | os.PathLike[str] | bytes,
    shapes: Mapping[str, Any] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
) -> Graph:
    """The graph of an ONNX model.

    Args:
        model: the model, its file, or the file's bytes.
        shapes: an input's name -> its shape; or the name of a symbolic dimension -> its extent.
        constants: an input's name -> its value, where shapes depend on it.

    Raises:
        ArgumentError: the model cannot be read; a shape is not known; an operator, or what a node
            asks of it, is not supported. The text names the node.
    """
    sizes = {} if shapes is None else checked_sizes("from_onnx", shapes)
    return _Importer(loaded(model), sizes, dict(constants or {})).graph()


class _Importer:
    """One import."""

    def __init__(
        self, model: ModelProto, shapes: dict[str, Any], constants: dict[str, np.ndarray]
    ) -> None:
        self.model, self.shapes, self.given = model, shapes, constants
        self.builder = GraphBuilder()
        self.versions = {o.domain: o.version for o in model.opset_import}
        self.functions = {(f.domain, f.name): f for f in model.functions}

    @property
    def version(self) -> int:
        """Of the operator set of the standard domain."""
        return max((self.versions.get(d, 0) for d in _DOMAINS), default=1) or 1

    def graph(self) -> Graph:
        """The graph."""
        proto = self.model.graph
        if not proto.output or not self.model.opset_import:
            raise ArgumentError("from_onnx(...)", "it is no ONNX model: it names no outputs")
        scope: dict[str, Value | None] = {"": None}
        self._initializers(proto, scope)
        fed = [given for given in proto.input if given.name not in scope]
        for name in self.given:
            if name not in scope and name not in {i.name for i in fed}:
                raise no_such_name(
                    f"from_onnx(constants={{{name!r}: ...}})", "the model has no such input",
                    name, [i.name for i in fed],
                )  # fmt: skip
        self._check_shapes(proto)
        for given in fed:
            scope[given.name] = self._input(given)
        self._nodes(proto.node, scope)
        outputs = [self._found(o.name, scope, "the model's output") for o in proto.output]
        if any(isinstance(v, tuple) for v in outputs):
            raise ArgumentError("from_onnx(...)", "an output of the model is a sequence of tensors")
        made = self.builder.graph(self.builder.apart(outputs, [o.name for o in proto.output]))
        made.check()
        return made

    def _check_shapes(self, proto: GraphProto) -> None:
        """Refuse a shape for what the model does not have, and several where it takes one."""
        fed = [i for i in proto.input if i.name not in {t.name for t in proto.initializer}]
        words = {
            d.dim_param or f"{i.name}[{k}]": not d.HasField("dim_value")
            for i in fed
            for k, d in enumerate(i.type.tensor_type.shape.dim)
        }
        names = [i.name for i in proto.input]
        for name in self.shapes:
            if name not in names and name not in words:
                known = [w for w, is_open in words.items() if is_open]
                raise no_such_name(
                    f"from_onnx(shapes={{{name!r}: ...}})",
                    "no input and no dimension of one has this name", name,
                    [*known, *(i.name for i in fed)],
                )  # fmt: skip
        of_one("from_onnx", self.shapes, names)

    def _initializers(self, proto: GraphProto, scope: dict[str, Value | None]) -> None:
        from onnx.numpy_helper import to_array

        for t in proto.initializer:
            try:
                array = to_array(t)
            except Exception as error:
                raise ArgumentError(f"initializer {t.name!r}", f"{error}") from error
            scope[t.name] = self._constant(array, t.name)
        for t in proto.sparse_initializer:
            raise ArgumentError(f"initializer {t.values.name!r}", "it is sparse")

    def _constant(self, array: np.ndarray, name: str) -> Value:
        if str(array.dtype) not in TYPES:
            raise ArgumentError(
                f"constant {name!r}", f"the element type {array.dtype} is not supported"
            )
        return self.builder.constant(array, name)

    def _input(self, given: Any) -> Value:
        from onnx.helper import tensor_dtype_to_np_dtype

        if given.name in self.given:
            return self._constant(np.asarray(self.given[given.name]), given.name)
        kind = given.type.tensor_type
        if not given.type.HasField("tensor_type"):
            raise ArgumentError(f"input {given.name!r}", "it is no tensor")
        dtype = str(np.dtype(tensor_dtype_to_np_dtype(kind.elem_type)))
        if dtype not in TYPES:
            word = "string" if dtype == "object" else dtype
            raise ArgumentError(f"input {given.name!r}", f"its type {word} is not supported")
        shape = shape_of(given.name, kind, self.shapes)
        return self.builder.input(given.name, shape, dtype)

    # --- nodes -----------------------------------------------------------------------------------

    def _found(self, name: str, scope: Mapping[str, Value | None], whose: str) -> Value:
        found = scope.get(name)
        if found is None:
            raise ArgumentError(f"{whose} {name!r}", "nothing makes it before it is read")
        return found

    def _nodes(self, protos: Iterable[NodeProto], scope: dict[str, Value | None]) -> None:
        for proto in protos:
            whose = f"ONNX node {proto.op_type} ({', '.join(proto.output)}): input"
            inputs = [
                None if scope.get(x, x) is None else self._found(x, scope, whose)
                for x in proto.input
            ]
            made = self._node(proto, inputs, scope)
            for name, v in zip(proto.output, made):
                if name and v is not None:
                    scope[name] = v

    def _node(
        self, proto: NodeProto, inputs: Sequence[Value | None], scope: dict[str, Value | None]
    ) -> Sequence[Value | None]:
        node = OnnxNode(proto, inputs, self.versions.get(proto.domain, self.version), self.builder)
        if proto.domain not in _DOMAINS:
            return self._body(node)
        node.version = self.version
        node.check_count()
        if proto.op_type in CONTROL:
            return CONTROL[proto.op_type](node, scope, self._run)
        if proto.op_type in SEQUENCES:
            return [SEQUENCES[proto.op_type](node)]
        if any(isinstance(v, tuple) for v in inputs):
            if proto.op_type == "Identity":
                return inputs
            raise node.refused("it takes a sequence of tensors")
        if proto.op_type in ("Shape", "Size"):
            return [self._of_shape(node)]
        known = [self.builder.known(v) for v in inputs]
        if all((v is None) == (k is None) for v, k in zip(inputs, known)):
            folded = self._folded(node, known)
            if folded is not None:
                return folded
        translate = TABLE.get(proto.op_type)
        if translate is None:
            return self._body(node)
        try:
            made = translate(node)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, WhetError):
                raise
            raise node.refused(f"it says what cannot be: {error}") from error
        return [made] if isinstance(made, Value) else list(made)

    def _run(self, body: GraphProto, scope: dict[str, Any], operands: Sequence[Any]) -> list[Any]:
        """The results of a body within a node; it sees the names around it."""
        own = dict(scope)
        self._initializers(body, own)
        own.update(zip((i.name for i in body.input), operands))
        self._nodes(body.node, own)
        return [self._found(o.name, own, "a body's output") for o in body.output]

    def _of_shape(self, node: OnnxNode) -> Value:
        shape = node.input(0).shape
        if node.proto.op_type == "Size":
            return self.builder.constant(np.asarray(int(np.prod(shape)), np.int64))
        rank = len(shape)
        begin, end = node.attr("start", 0), node.attr("end", rank)
        return self.builder.constant(np.asarray(shape[begin:end], np.int64))

    def _folded(
        self, node: OnnxNode, known: Sequence[np.ndarray | None]
    ) -> list[Value | None] | None:
        """What a node makes of known values; None where it is left to the model."""
        from onnx import helper
        from onnx.reference import ReferenceEvaluator

        proto = node.proto
        if proto.op_type in RANDOM:
            raise node.refused("its results are random")
        if sum(a.nbytes for a in known if a is not None) > MOST_FOLDED:
            return None
        if proto.op_type == "ConstantOfShape" and known[0] is not None:
            size = math.prod(int(d) for d in known[0].reshape(-1))
            if not 0 <= size <= MOST_FOLDED:
                raise node.refused(f"a constant of {size} elements is too large")
        names = [x for x in proto.input if x]
        arrays = dict(zip(names, (a for a in known if a is not None)))
        inputs = [
            helper.make_tensor_value_info(
                x, helper.np_dtype_to_tensor_dtype(a.dtype), list(a.shape)
            )
            for x, a in arrays.items()
        ]
        outputs = [helper.make_empty_tensor_value_info(x) for x in proto.output if x]
        graph = helper.make_graph([proto], "folded", inputs, outputs)
        opsets = [helper.make_opsetid("", self.version)]
        whole = helper.make_model(graph, opset_imports=opsets)
        try:
            made = ReferenceEvaluator(whole).run(None, arrays)
        except Exception as error:  # of the reference implementation
            raise node.refused(f"its value cannot be computed: {error}") from error
        wanted = [x for x in proto.output if x]
        if any(str(np.asarray(a).dtype) not in TYPES for a in made):
            return None
        values = {x: self._constant(np.asarray(a), x) for x, a in zip(wanted, made)}
        return [values.get(x) for x in proto.output]

    def _body(self, node: OnnxNode) -> Sequence[Value | None]:
        """What the nodes make by which ONNX, or the file, defines an operator."""
        proto = node.proto
        own = self.functions.get((proto.domain, proto.op_type))
        if own is None and proto.domain in _DOMAINS and proto.op_type in REFUSED:
            raise node.refused(f"{REFUSED[proto.op_type]}: {proto.op_type} is not supported", _ELSE)
        if own is None:
            own = defined_by(proto, node, self.version)
        if own is None:
            raise node.refused(f"the operator {proto.op_type} is not supported", _ELSE)
        scope: dict[str, Value | None] = {"": None}
        for k, name in enumerate(own.input):
            scope[name] = node.inputs[k] if k < len(node.inputs) else None
        wanted = needed(own, proto)
        given = {**defaults(proto, node.version), **{a.name: a for a in proto.attribute}}
        self._nodes([with_attributes(own.node[k], given, own) for k in wanted], scope)
        asked = [*proto.output, *[""] * len(own.output)]
        return [
            self._found(name, scope, f"{node.origin}:") if called else None
            for name, called in zip(own.output, asked)
        ]
